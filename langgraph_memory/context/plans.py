"""Ways to make a view smaller, from mild to harsh, and what each would give.

A plan covers messages up to a cut, or not, and cuts texts. Its view is rendered with an empty summary before anything
is bought, so a summary that could not help is never asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from langchain_core.messages import ToolMessage

from ..errors import ContextBudgetError
from .budget import TokenBudget
from .case import Case
from .compact import ARTIFACT_SHARE, Cut, Cuts, compacted, outline, tag_tokens
from .groups import request_run
from .memories import behind
from .prune import CLEAR, OWN_TOOLS, Pruner, text_size, tool_name
from .record import Scope, Summary
from .render import View, render
from .summarize import Ask, usable

TOOL_CAPS = (60_000, 20_000, 8000, 3000, 1000, 300, CLEAR)
"""Characters any tool result is cut to under pressure, step by step."""
REQUEST_CAPS = (20_000, 8000, 3000, 1000, 400, 200, 100)
"""Characters the request is cut to where it does not fit whole, step by step."""
LEAST_SHARE = 4
"""A cut that leaves less than one part in this many of a summary's room is taken only where nothing else fits."""


@dataclass(frozen=True, slots=True)
class Caps:
    """Characters that texts are cut to; None leaves them alone."""

    old: int | None = None
    """Tool results that are neither protected nor excluded."""
    recent: int | None = None
    """The other tool results."""
    request: int | None = None
    """Human messages that opened the current turn."""


NO_CAPS = Caps()


@dataclass(frozen=True, slots=True)
class Plan:
    """A way to change the scope: cover messages up to a cut, or not, and cut texts."""

    cut: Cut | None = None
    caps: Caps = NO_CAPS
    paid: str = ""
    """The summary for the cut, where it was bought before."""


def fitting(case: Case) -> Plan | None:
    """The first plan, from mild to harsh, that makes the view fit with a fair summary, else with any or none."""
    for share in (LEAST_SHARE, None):
        for plan in _plans(case):
            if foreseen(case, plan, share) <= case.budget.limit:
                return plan
    return None


def _plans(case: Case) -> Iterator[Plan]:
    found = case.found() if case.compaction.enabled else Cuts(None, None, None, None)
    newest, whole = found.newest, found.everything
    if case.pruning.enabled:
        worthy = newest if newest and newest.frees >= worth_of(case.budget) else None
        for cut in dict.fromkeys((worthy, None, newest)):
            yield from (Plan(cut, Caps(old=cap)) for cap in TOOL_CAPS)
            yield from (Plan(cut, Caps(old=CLEAR, recent=cap)) for cap in TOOL_CAPS)
    if whole:
        yield Plan(whole)
    tool_caps = (3000, 1000, CLEAR) if case.pruning.enabled else (None,)
    for request in REQUEST_CAPS:
        for cap in tool_caps:
            for cut in dict.fromkeys((None, newest, whole)):
                yield Plan(cut, Caps(cap, cap, request))


def _outline(case: Case, plan: Plan) -> View:
    """The view under `plan`, with a summary that has no text."""
    scope = _covered(case, outline(case.history, plan.cut, case.scope.summary)) if plan.cut else case.scope
    return render(case.history, replace(scope, trims={**scope.trims, **_trims(case, scope, plan.caps)}))


def _outlined(case: Case, plan: Plan) -> int:
    """Raw tokens of view, system and tools under `plan`, with a summary that has no text."""
    return _outline(case, plan).tokens + case.budget.system + case.budget.tools


def foreseen(case: Case, plan: Plan, share: int | None) -> int:
    """Raw tokens of view, system and tools under `plan`, with one part in `share` of the room a summary may take."""
    outlined = _outlined(case, plan)
    return outlined + max(0, _room(case, plan.cut)) // share if plan.cut and share else outlined


def bought_before(case: Case, worth: int) -> Plan | None:
    """The cut that covers most of those whose summary is there already, if that brings the view under the trigger.

    Where compaction was asked for below the trigger, it has to cover as much as a summary bought now would.
    """
    found = case.found()
    over = case.over_trigger or case.over_limit
    least = found.usual.end if found.usual and not over else 0
    for cut in found.paid:
        text = case.situation.bought[case.history.digests[cut.end - 1].hex()]
        plan = Plan(cut, paid=text)
        size = case.history.count(("paid", text), text) + max(0, _room(case, cut)) // ARTIFACT_SHARE
        most = min(case.budget.trigger, case.total - worth)
        if cut.end >= least and usable(text) and _outlined(case, plan) + size <= most:
            return plan
    return None


def _room(case: Case, cut: Cut) -> int:
    """Raw tokens for text and artifacts of a summary: within its share, and well below what it replaces."""
    tags = tag_tokens(case.history, outline(case.history, cut, case.scope.summary))
    frees = case.total - _outlined(case, Plan(cut))
    return min(case.budget.summary - tags, frees * 3 // 4)


def carry_out(case: Case, plan: Plan) -> Ask | None:
    """Buy or make the summary that `plan` needs, and take its decisions."""
    if plan.cut:
        frees, left = case.total - _outlined(case, Plan(plan.cut)) - 1, case.budget.limit - _outlined(case, plan)
        room, spare = min(_room(case, plan.cut), left), min(frees, left)
        recipe, answers = case.situation.recipe, case.answers
        made = compacted(case.history, case.scope, plan.cut, room, spare, recipe, answers, plan.paid)
        if isinstance(made, Ask):
            return made
        summary, case.rung = made
        case.force = False
        case.take(_covered(case, summary), "compacted")
    if trims := _trims(case, case.scope, plan.caps):
        case.take(replace(case.scope, trims={**case.scope.trims, **trims}), "squeezed")
    return None


def _covered(case: Case, summary: Summary) -> Scope:
    """The scope with `summary`, without the decisions about messages it stands for."""
    positions, mark, old = case.history.positions, case.scope.watermark, case.scope.arguments
    return replace(
        case.scope,
        summary=summary,
        watermark=mark if mark and positions[mark.upto] >= summary.count else None,
        arguments=old if old and positions[old.upto] >= summary.count else None,
        trims={key: n for key, n in case.scope.trims.items() if positions[key] >= summary.count or key in summary.pin},
        remembered=behind(case.scope.remembered, positions, summary.count),
    )


def _trims(case: Case, scope: Scope, caps: Caps) -> Mapping[str, int]:
    """Message key -> characters, for every text behind the summary of `scope` that `caps` shortens further."""
    if caps == NO_CAPS:
        return {}
    history, now = case.history, Pruner(scope, case.history, case.view.pairing)
    wanted = {position: caps.old for position in case.results() if position >= scope.covered}
    wanted.update(dict.fromkeys(_spared(case, list(wanted)), caps.recent))
    wanted.update(dict.fromkeys(range(*request_run(history.messages)), caps.request))
    trims = {}
    for position, cap in wanted.items():
        limit = now.limit(position)
        if cap is not None and text_size(history.messages[position]) > cap and (limit is None or limit > cap):
            trims[history.keys[position]] = cap
    return trims


def _spared(case: Case, results: list[int]) -> list[int]:
    """Those of `results` that are cut last: the newest ones, excluded tools and our own."""
    settings, messages = case.pruning, case.history.messages
    excluded = OWN_TOOLS.union(settings.exclude_tools)
    newest = results[max(0, len(results) - settings.protect_recent) :]
    named = [
        position
        for position in results
        if isinstance(result := messages[position], ToolMessage)
        and tool_name(result, position, case.view.pairing) in excluded
    ]
    return [*newest, *named]


def too_large(case: Case) -> ContextBudgetError:
    """The error for a view that no plan makes fit; its parts are those of the smallest view there is."""
    budget = case.budget
    view = min((_outline(case, plan) for plan in _plans(case)), key=lambda view: view.tokens, default=case.view)
    parts: dict[str, int] = {"system": budget.system, "tools": budget.tools}
    for part in view.parts:
        parts[part.source] = parts.get(part.source, 0) + part.tokens
    parts["curated"] = view.curated_tokens
    largest = max(parts, key=lambda name: parts[name])
    listed = ", ".join(f"{name} {tokens}" for name, tokens in parts.items() if tokens)
    return ContextBudgetError(
        f"The request takes {sum(parts.values())} tokens at least, but only {max(0, budget.limit)} fit into a context "
        f"window of {budget.window} with {budget.response} kept for the response ({listed}). The largest part is "
        f"{largest}: shorten it, enable pruning and compaction, or raise memory.context_window.",
        parts=parts,
        available=budget.available,
    )


def worth_of(budget: TokenBudget) -> int:
    """Raw tokens of coverable text that make a summary worth its price."""
    return max(1, budget.min_reclaim, budget.limit // 32)
