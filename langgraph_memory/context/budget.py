"""How the context window is divided, and how much of it the messages may take.

    window = system + tools + response + what is left for messages (`available`)

All figures are tokens. Decisions compare *raw* sums, what our counter says of a view, so the provider's calibration is
turned around once, here, and nowhere else: a window of the provider's tokens becomes a limit in ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from langchain_core.messages import AIMessage, BaseMessage

from ..config import BudgetConfig, CompactionConfig, PruningConfig
from .tokens import Calibration, TokenCounter

DEFAULT_WINDOW = 128_000
DEFAULT_SYSTEM = 500
DEFAULT_TOOLS = 800
ESTIMATE_SHARE = 0.9
"""The part of the window that is used when counts are estimates."""
MAX_SUMMARY = 4000
MIN_SUMMARY = 64


@dataclass(frozen=True, slots=True)
class Cap:
    """A configured size that the window does not allow, and what is used instead."""

    key: str
    configured: int
    used: int


@dataclass(frozen=True, slots=True)
class Overhead:
    """Raw tokens that every request carries beside the messages: measured, configured or guessed (None)."""

    system: int | None = None
    tools: int | None = None


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """The division of one window. Build it with `TokenBudget.of`."""

    window: int
    """Context window, in the provider's tokens."""
    system: int
    """System prompt outside the message list, raw."""
    tools: int
    """Tool schemas, raw."""
    response: int
    """Kept free for the reply."""
    limit: int
    """Raw tokens that view, system and tools together may take."""
    trigger: int
    """Raw tokens of view, system and tools above which compaction is due."""
    keep: int
    """Raw tokens of newest messages that compaction keeps at most."""
    min_reclaim: int
    """Raw tokens a decision has to free to be worth a broken prompt cache."""
    summary: int
    """Raw tokens a summary may take, artifacts and tags included."""
    exact: bool
    calibration: Calibration
    caps: tuple[Cap, ...] = ()

    @classmethod
    def of(
        cls,
        window: int,
        *,
        counter: TokenCounter,
        budget: BudgetConfig | None = None,
        compaction: CompactionConfig | None = None,
        pruning: PruningConfig | None = None,
        overhead: Overhead = Overhead(),
        calibration: Calibration = Calibration(),  # noqa: B008
    ) -> TokenBudget:
        """Divide `window` (provider tokens, at least 1) as the configuration says, capping what it does not allow."""
        budget, compaction, pruning = (
            budget or BudgetConfig(),
            compaction or CompactionConfig(),
            pruning or PruningConfig(),
        )
        caps: list[Cap] = []

        def capped(key: str, configured: int, most: int) -> int:
            if configured > most:
                caps.append(Cap(key, configured, most))
            return min(configured, most)

        def raw(tokens: float) -> int:
            return int(tokens / calibration.factor)

        response = capped("memory.budget.response_tokens", budget.response_tokens, window // 8)
        reserve = capped("memory.compaction.reserve_tokens", compaction.reserve_tokens, window // 4)
        keep = capped("memory.compaction.keep_recent_tokens", compaction.keep_recent_tokens, window // 4)
        min_reclaim = capped("memory.pruning.min_reclaim_tokens", pruning.min_reclaim_tokens, window // 8)
        usable = window if counter.exact else int(window * ESTIMATE_SHARE)
        trigger = max(window // 2, int(min(compaction.trigger_ratio * window, window - reserve)))
        sixteenth = max(1, window // 16)
        return cls(
            window=window,
            system=_reserved(budget.system_tokens, overhead.system, min(DEFAULT_SYSTEM, sixteenth)),
            tools=_reserved(budget.tools_tokens, overhead.tools, min(DEFAULT_TOOLS, sixteenth)),
            response=response,
            limit=raw(usable - response - calibration.offset),
            trigger=raw(min(trigger, usable - response) - calibration.offset),
            keep=raw(keep),
            min_reclaim=raw(min_reclaim),
            summary=max(MIN_SUMMARY, raw(min(MAX_SUMMARY, usable // 8))),
            exact=counter.exact,
            calibration=calibration,
            caps=tuple(caps),
        )

    def within(self, window: int, ceiling: int) -> TokenBudget:
        """The budget after the provider refused a request: a smaller window, and as little kept as can be."""
        lower = min(self.limit, ceiling)
        room = max(MIN_SUMMARY, min(self.summary, lower // 8))
        return replace(self, window=window, limit=lower, trigger=min(self.trigger, lower), keep=0, summary=room)

    def ahead(self, ratio: float) -> TokenBudget:
        """The budget under which a summary is due at `ratio` of the trigger already.

        It keeps less by what may still be said up to the trigger, so that about as much is kept once that is reached.
        """
        trigger = int(self.trigger * ratio)
        return replace(self, trigger=trigger, keep=max(0, self.keep - self.trigger + trigger))

    @property
    def available(self) -> int:
        """Raw tokens the messages of the view may take: window minus system, tools and response."""
        return self.limit - self.system - self.tools

    def needs_compaction(self, messages: int) -> bool:
        """Whether a view of `messages` raw tokens is over the trigger."""
        return messages + self.system + self.tools > self.trigger


def _reserved(configured: int | str, measured: int | None, guess: int) -> int:
    if isinstance(configured, int):
        return configured
    return guess if measured is None else measured


@dataclass(frozen=True, slots=True)
class UsageTotals:
    """What the provider reported over a list of messages: calls and tokens."""

    calls: int = 0
    input: int = 0
    cached: int = 0
    output: int = 0


def usage_totals(messages: Iterable[BaseMessage]) -> UsageTotals:
    """Add up the `usage_metadata` of all assistant messages; those without it count as no call."""
    found = [m.usage_metadata for m in messages if isinstance(m, AIMessage) and m.usage_metadata]
    return UsageTotals(
        calls=len(found),
        input=sum(usage["input_tokens"] for usage in found),
        cached=sum(usage.get("input_token_details", {}).get("cache_read", 0) or 0 for usage in found),
        output=sum(usage["output_tokens"] for usage in found),
    )
