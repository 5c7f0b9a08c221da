"""Where the context window goes: one value shown by the trigger, the events, the command line and notebooks alike."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from .budget import TokenBudget
from .history import History
from .prune import CLEAR
from .record import Scope
from .render import View, render

PARTS = ("system", "tools", "curated", "recalled", "summary", "human", "ai", "tool", "other", "provider")


@dataclass(frozen=True, slots=True)
class ContextReport:
    """What the next model call sends, in tokens of the provider as far as they are known.

    `parts` sum to `total`; `total`, `reserve` and `free` make up the window, unless the view does not fit.
    """

    total: int
    """System prompt, tools and view."""
    window: int
    reserve: int
    """Kept for the response."""
    free: int
    """What is left; 0 where the window is overfull."""
    trigger: int
    """Above this total compaction is due."""
    exact: bool
    """Counted with the encoding of the model; False for estimates."""
    counter: str
    """Name of the encoding, or `estimate`."""
    stable_prefix: int
    """Messages at the front of the view that are the same under the decisions before."""
    stable_prefix_tokens: int
    parts: dict[str, int]
    """Name -> tokens. `provider` is what the provider adds on top of everything we can count."""
    messages: int
    """Messages in the history."""
    view_messages: int
    trimmed: int
    """Messages in the view that were shortened."""
    cleared: int
    """Tool results in the view of which only the marker is left."""
    compacted: int
    """Messages the summary stands for."""

    @property
    def usage_ratio(self) -> float:
        """Share of the window that is taken."""
        return self.total / self.window

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "usage_ratio": round(self.usage_ratio, 4)}

    def _repr_html_(self) -> str:
        from ..display import report_html

        return report_html(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        from ..display import report_lines

        printer.text("\n".join(report_lines(self)))


def report(history: History, scope: Scope, budget: TokenBudget, before: Scope | None = None) -> ContextReport:
    """Report on the view of `history` under `scope`; `before` are the decisions the last call was made under."""
    view = render(history, scope)
    stable = len(view.parts) if before is None or before is scope else _common(render(history, before), view)
    raw = _raw_parts(view, budget)
    total = budget.calibration.apply(sum(raw.values()))
    parts = _shared_out(raw, total, budget.calibration.offset)
    return ContextReport(
        total=total,
        window=budget.window,
        reserve=budget.response,
        free=max(0, budget.window - budget.response - total),
        trigger=budget.calibration.apply(budget.trigger),
        exact=budget.exact,
        counter=history.counter.name,
        stable_prefix=stable,
        stable_prefix_tokens=sum(part.tokens for part in view.parts[:stable]),
        parts=parts,
        messages=len(history),
        view_messages=len(view.parts),
        trimmed=sum(part.limit not in (None, CLEAR) for part in view.parts),
        cleared=sum(part.limit == CLEAR for part in view.parts),
        compacted=scope.covered,
    )


def _common(old: View, new: View) -> int:
    if old.curated != new.curated:
        return 0
    pairs = zip(old.parts, new.parts, strict=False)
    differing = (i for i, (a, b) in enumerate(pairs) if a.message is not b.message and a.message != b.message)
    return next(differing, min(len(old.parts), len(new.parts)))


def _raw_parts(view: View, budget: TokenBudget) -> dict[str, int]:
    parts = dict.fromkeys(PARTS, 0)
    parts["system"], parts["tools"] = budget.system, budget.tools
    parts["curated"] = view.curated_tokens
    for part in view.parts:
        parts[part.source] += part.tokens - part.recalled
        parts["recalled"] += part.recalled
    return parts


def _shared_out(raw: dict[str, int], total: int, offset: float) -> dict[str, int]:
    """Parts in the provider's tokens that sum to `total`; what the provider adds is a part of its own."""
    added = min(total, max(0, round(offset)))
    names = [name for name, tokens in raw.items() if tokens]
    whole = sum(raw.values())
    edges = [0]
    for name in names:
        edges.append(edges[-1] + raw[name])
    scaled = [round(edge * (total - added) / whole) if whole else 0 for edge in edges]
    shares = {name: after - start for name, (start, after) in zip(names, pairwise(scaled), strict=True)}
    rest = total - sum(shares.values())
    return {**dict.fromkeys(PARTS, 0), **shares, "provider": rest}
