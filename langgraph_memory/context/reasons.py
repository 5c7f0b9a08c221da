"""The reasons in `explain`: one sentence for each thing that can be said about a message of a view."""

from __future__ import annotations

from collections.abc import Iterator

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from ..config import MemoryConfig
from .budget import TokenBudget
from .extract import NOTE
from .groups import is_closable, request_run
from .history import History
from .prune import CLEAR, OWN_TOOLS, rule_limit, shorten, text_size, tool_name
from .record import Scope, Summary
from .render import Part, View


class Reasons:
    """The reasons for one view."""

    curated = "curated memory: MEMORY.md as the last turn began with it (memory.retrieval.inject_curated)"
    recalled = "recalled memory: found for the request of this turn (memory.retrieval.auto_recall)"

    def __init__(
        self, history: History, scope: Scope, view: View, budget: TokenBudget, settings: MemoryConfig, bought: str = ""
    ) -> None:
        self._history, self._scope, self._view = history, scope, view
        self._budget, self._settings, self._bought = budget, settings, bought
        self.left = scope.summary.gone if scope.summary else 0
        """Messages that have left the list: what is counted in it begins behind them."""
        self._request = range(*request_run(history.messages))
        results = sorted(part.position for part in view.parts if part.source == "tool" and part.position >= 0)
        self._newest = set(results[max(0, len(results) - settings.pruning.protect_recent) :])

    def of(self, part: Part, behind: int) -> str:
        """Why a message is sent, and as it is sent; `behind` are the tokens of the view from it on."""
        if part.source == "summary" and self._scope.summary:
            return self._summary(self._scope.summary)
        if part.position < 0:
            return f"synthetic: {self._synthetic(part.message)}"
        if part.source == "system":
            return "system message of the thread: always sent"
        if part.source == "tool":
            return self._result(part, behind)
        if self.is_request(part.position):
            return self._requested(part)
        if part.limit is not None and part.source == "ai":
            return (
                f"truncated: arguments cut to {part.limit:,} characters each, as in every call up to "
                f"{self._arguments()} (memory.truncate_args)"
            )
        return self._kept(behind)

    def is_request(self, position: int) -> bool:
        """Whether a message is of those that opened the current turn."""
        return position in self._request

    def number(self, position: int) -> str:
        """A message by its number in the thread."""
        return f"message {position + self.left + 1:,}"

    # Parts that stand only in the view

    def _summary(self, summary: Summary) -> str:
        return f"summary of messages 1–{summary.count + summary.gone:,}, {self._bought_from(summary)}"

    def _bought_from(self, summary: Summary) -> str:
        if not summary.text.strip():
            return "without a text: there was no room for one"
        if summary.text.startswith(NOTE):
            return "extracted without a model"
        return self._bought or "written by a model that the summary cache does not name"

    def pinned(self) -> Iterator[tuple[int, str, str]]:
        """Tokens, reason and text of each request that stands behind the summary."""
        summary = self._scope.summary
        for key in summary.pin if summary else ():
            position = self._history.positions[key]
            message, limit = self._history.messages[position], self._scope.trims.get(key)
            tokens = self._history.tokens[position]
            if limit is not None:
                message = shorten(message, limit)
                tokens = self._history.cost((self._history.digests[position], limit), message)
            current = self.is_request(position)
            turn = "the current turn" if current else "the turn that the summary ends in"
            cut = f", a preview of {limit:,} characters: it does not fit whole" if limit is not None else ""
            yield tokens, f"pinned request: {self.number(position)} opens {turn}{cut}", str(message.text)

    def _synthetic(self, message: BaseMessage) -> str:
        call = message.tool_call_id if isinstance(message, ToolMessage) else ""
        return f"call {call} has no result, and providers refuse a call without one"

    # Messages of the thread

    def _requested(self, part: Part) -> str:
        if part.limit is None:
            return "request: opens the current turn, always sent"
        return f"request: opens the current turn; a preview of {part.limit:,} characters, as it does not fit whole"

    def _result(self, part: Part, behind: int) -> str:
        message = self._history.messages[part.position]
        assert isinstance(message, ToolMessage)
        size = text_size(message)
        why = self._spared(message, part.position, size, behind) if part.limit is None else self._cut(part, size)
        owner = self._view.pairing.owner.get(part.position)
        if owner and part.position - owner[0] > len(self._view.pairing.results[owner[0]]):
            why += f"; stands behind its call, though it came as {self.number(part.position)}"
        return why

    def _cut(self, part: Part, size: int) -> str:
        assert part.limit is not None
        what = "cleared" if part.limit == CLEAR else f"trimmed to {part.limit:,} characters"
        rule = self._scope.watermark
        if rule is None or rule_limit(size, rule) != part.limit:
            return f"{what}: {size:,} characters, cut so that the view fits the window"
        name, threshold = ("hard_clear_threshold", rule.hard) if part.limit == CLEAR else ("soft_trim_chars", rule.soft)
        protect = self._settings.pruning.protect_recent
        where = (
            f"up to {self.number(self._history.positions[rule.upto])}, where the last pruning stopped"
            if part.position in self._newest
            else f"not among the newest {protect:,} tool results"
        )
        return f"{what}: {size:,} characters > {name} {threshold:,}, {where}"

    def _spared(self, message: ToolMessage, position: int, size: int, behind: int) -> str:
        pruning = self._settings.pruning
        name = tool_name(message, position, self._view.pairing)
        if size <= pruning.soft_trim_chars:
            return self._kept(behind)
        if name in OWN_TOOLS:
            return f"kept: results of {name} are what was asked back, and are never pruned"
        if name in pruning.exclude_tools:
            return f"kept: {name} is in memory.pruning.exclude_tools"
        if not (pruning.enabled and pruning.trim_tool_results):
            return "kept: pruning by size is off"
        if position in self._newest:
            return f"kept: among the newest {pruning.protect_recent:,} tool results (protect_recent)"
        return f"kept: cutting it has not been worth min_reclaim_tokens {pruning.min_reclaim_tokens:,} yet"

    def _kept(self, behind: int) -> str:
        settings = self._settings.compaction
        if self._scope.summary is None:
            return "kept: nothing is summarised yet"
        if settings.keep_messages or settings.keep_turns:
            name = "keep_messages" if settings.keep_messages else "keep_turns"
            return f"kept: behind the summary ({name} {settings.keep_messages or settings.keep_turns:,})"
        if behind <= self._budget.keep:
            return f"kept: within keep_recent_tokens {self._budget.keep:,}"
        return "kept: behind the summary; the next one may cover it"

    def _arguments(self) -> str:
        old = self._scope.arguments
        return self.number(self._history.positions[old.upto]) if old else "the newest"

    def missing(self, position: int) -> str:
        """Why a message behind the summary is not sent."""
        message, pairing = self._history.messages[position], self._view.pairing
        if isinstance(message, ToolMessage):
            return "a result whose call is not there" if position in pairing.orphans else "the result of a broken call"
        if position in pairing.strays:
            return "results of tools whose calls are not there"
        if isinstance(message, AIMessage) and not is_closable(pairing.calls.get(position, ())):
            return "one of its calls has no id or no name, so that no result could answer it"
        return "it has neither text nor calls"
