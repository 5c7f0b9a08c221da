"""The decision before a model call: what is pruned and compacted from now on.

    decide(history, scope, budget, …) -> Decision | Ask

Pure and restartable: where a summary is missing it returns an `Ask`, and is run again once the answer is known. The
steps, each only as far as it is needed:

1. *Prune by threshold*, if that frees enough to be worth a changed prefix, or the prompt cache is cold anyway.
2. *Compact*, if a trigger is crossed and there is enough new text to cover.
3. *Fit*: whatever the triggers say, the view has to fit into the window. Tool results are cut, protected ones last;
   then even the newest messages are compacted; then the request itself is shown as a preview.

A decision that changes nothing is not one: the scope then stays the same object and nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from langchain_core.messages import AIMessage, ToolMessage

from ..config import MemoryConfig
from ..errors import ContextBudgetError
from .budget import TokenBudget
from .compact import Cut, Cuts, compacted, cuts, outline, tag_tokens
from .groups import request_run
from .history import History
from .prune import CLEAR, OWN_TOOLS, Pruner, next_watermark, rule_limit, text_size, tool_name
from .record import Scope, Sizes, Summary, fitted
from .render import View, render
from .summarize import Answers, Ask, Recipe
from .tokens import Calibration, calibrate

Action = Literal["pruned", "compacted", "squeezed"]

TOOL_CAPS = (60_000, 20_000, 8000, 3000, 1000, 300, CLEAR)
"""Characters any tool result is cut to under pressure, step by step."""
REQUEST_CAPS = (20_000, 8000, 3000, 1000, 400, 200, 100)
"""Characters the request is cut to where it does not fit whole, step by step."""
LEAST_SHARE = 4
"""A cut that leaves less than one part in this many of a summary's room is taken only where nothing else fits."""
DRIFT = 64
"""Raw tokens the system prompt and the tools may change by before the record says so."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What a decision depends on beside messages, scope and budget."""

    settings: MemoryConfig
    recipe: Recipe
    cold: bool = False
    """The prompt cache has surely expired, so a changed prefix costs nothing."""
    force: bool = False
    """Compact now, whatever the triggers say."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided: the scope to keep, the view it gives, and what was done to get there."""

    scope: Scope
    view: View
    actions: tuple[Action, ...] = ()
    rung: str = ""
    """Which step of the ladder made the summary, if one was made."""


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


class _Case:
    """One run of `decide`: the inputs, and the scope as far as it has been decided."""

    def __init__(
        self, history: History, scope: Scope, view: View, budget: TokenBudget, situation: Situation, answers: Answers
    ) -> None:
        self.history, self.budget, self.situation, self.answers = history, budget, situation, answers
        self.pruning, self.compaction = situation.settings.pruning, situation.settings.compaction
        self.scope, self.view = scope, view
        self.cuts: Cuts | None = None
        self.force = situation.force
        self.actions: list[Action] = []
        self.rung = ""

    def take(self, scope: Scope, action: Action) -> None:
        self.scope, self.view = scope, render(self.history, scope)
        self.cuts = None
        self.actions.append(action)

    @property
    def repeated(self) -> bool:
        """Whether the last decision was taken on these very messages and fits: then nothing is decided anew."""
        anew = self.situation.force or self.situation.cold or self.over_limit
        return not anew and _since(self.scope, self.history) == len(self.history) - 1

    @property
    def total(self) -> int:
        return self.view.tokens + self.budget.system + self.budget.tools

    @property
    def over_limit(self) -> bool:
        return self.total > self.budget.limit

    def found(self) -> Cuts:
        """Where the history can be cut, as the view is now."""
        if self.cuts is None:
            self.cuts = cuts(self.history, self.scope, self.view, self.budget, self.compaction)
        return self.cuts

    @property
    def asked(self) -> bool:
        """Whether a trigger that the configuration sets beside the ratio is crossed."""
        settings = self.compaction
        sent = self.budget.calibration.apply(self.total)
        return 0 < settings.trigger_messages <= len(self.history) or 0 < settings.trigger_tokens < sent

    @property
    def due(self) -> bool:
        """Whether a compaction trigger is crossed."""
        enough = len(self.history) >= self.compaction.min_messages
        return self.force or self.asked or (enough and self.total > self.budget.trigger)

    def results(self) -> list[int]:
        """Positions of the tool results behind the summary that are in the view, oldest first."""
        return sorted(part.position for part in self.view.parts if part.source == "tool" and part.position >= 0)


def decide(
    history: History,
    scope: Scope,
    budget: TokenBudget,
    situation: Situation,
    answers: Answers,
    view: View | None = None,
) -> Decision | Ask:
    """Decide what the model sees on the next call.

    `view` is the view under `scope`, where the caller has rendered it already. The decision holds the same `scope`
    object where nothing is to be changed. Raises `ContextBudgetError` where no choice makes the view fit.
    """
    fit = fitted(scope, history)
    if view is None or fit is not scope:
        view = render(history, fit)
    case = _Case(history, fit, view, budget, situation, answers)
    if not case.repeated:
        _prune(case)
        # A second round, so that what the first one left over the trigger is not left to the next call.
        for _ in range(2):
            if (ask := _round(case)) is not None:
                return ask
    return Decision(_stamped(case, scope), case.view, tuple(dict.fromkeys(case.actions)), case.rung)


def _round(case: _Case) -> Ask | None:
    """Compact or fit, if that is needed."""
    plan = _compaction(case) if case.compaction.enabled and (case.due or case.over_limit) else None
    if plan is None and case.over_limit:
        plan = _fitting(case)
        if plan is None:
            raise _too_large(case)
    return _carry_out(case, plan) if plan else None


def _prune(case: _Case) -> None:
    """Move the watermark up to the newest unprotected result, if that frees enough."""
    settings, history = case.pruning, case.history
    if not (settings.enabled and settings.trim_tool_results):
        return
    unprotected = _unprotected(case)
    watermark = next_watermark(history, unprotected, settings)
    if watermark is None or not _prunable(case, unprotected):
        return
    pruned = replace(case.scope, watermark=watermark)
    frees = case.view.tokens - render(history, pruned).tokens
    if frees > 0 and (frees >= case.budget.min_reclaim or case.situation.cold or _suffices(case, frees)):
        case.take(pruned, "pruned")


def _unprotected(case: _Case) -> list[int]:
    """The results that threshold pruning may take: neither among the newest by count, nor, with a gate, by size.

    A result behind which less than the gate has been said is still what the model works with.
    """
    results = case.results()
    results = results[: max(0, len(results) - case.pruning.protect_recent)]
    gate = 0 if case.situation.cold else case.budget.min_reclaim
    newest, said = len(case.history), 0
    for part in reversed(case.view.parts):
        if said >= gate:
            break
        newest, said = part.position if part.position >= 0 else newest, said + part.tokens
    return [position for position in results if position < newest]


def _prunable(case: _Case, results: Sequence[int]) -> bool:
    """Whether the rule would shorten any of `results` that is still whole: cheap, and mostly false."""
    rule = next_watermark(case.history, results, case.pruning)
    if rule is None:
        return False
    now = Pruner(case.scope, case.history, case.view.pairing)
    for position in results:
        limit, ruled = now.limit(position), rule_limit(text_size(case.history.messages[position]), rule)
        if ruled is not None and (limit is None or limit > ruled):
            return True
    return False


def _suffices(case: _Case, frees: int) -> bool:
    """Whether pruning alone brings a view over the trigger well below it, so that no summary is needed."""
    over = case.total - case.budget.trigger
    return over > 0 and frees >= over + case.budget.min_reclaim


def _compaction(case: _Case) -> Plan | None:
    """The cut that keeps most and brings the view under the trigger, else into the window.

    Less than the configuration keeps is kept only where the view itself is too large; a trigger set by hand, which may
    stay crossed for ever, never eats into what the last compaction kept.
    """
    found = case.found()
    large = case.total > case.budget.trigger or case.over_limit or (case.force and found.careful is None)
    worth = 1 if case.over_limit or case.force or _first(case) else _worth(case.budget)
    plans = [Plan(cut) for cut in (found.keeping if large else (found.careful,)) if cut and cut.frees >= worth]
    for most, share in ((case.budget.trigger, 1), (case.budget.limit, LEAST_SHARE)):
        for plan in plans:
            if _foreseen(case, plan, share) <= min(most, case.total - 1):
                return plan
    return None


def _first(case: _Case) -> bool:
    """Whether a trigger set by hand asks for the thread's first summary; later ones have to be worth their price."""
    return case.asked and case.scope.summary is None


def _worth(budget: TokenBudget) -> int:
    """Raw tokens of coverable text that make a summary worth its price."""
    return max(1, budget.min_reclaim, budget.limit // 32)


def _fitting(case: _Case) -> Plan | None:
    """The first plan, from mild to harsh, that makes the view fit with a fair summary, else with any or none."""
    for share in (LEAST_SHARE, None):
        for plan in _plans(case):
            if _foreseen(case, plan, share) <= case.budget.limit:
                return plan
    return None


def _plans(case: _Case) -> Iterator[Plan]:
    found = case.found() if case.compaction.enabled else Cuts(None, None, None, None)
    newest, whole = found.newest, found.everything
    if case.pruning.enabled:
        worthy = newest if newest and newest.frees >= _worth(case.budget) else None
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


def _outline(case: _Case, plan: Plan) -> View:
    """The view under `plan`, with a summary that has no text."""
    scope = _covered(case, outline(case.history, plan.cut)) if plan.cut else case.scope
    return render(case.history, replace(scope, trims={**scope.trims, **_trims(case, scope, plan.caps)}))


def _outlined(case: _Case, plan: Plan) -> int:
    """Raw tokens of view, system and tools under `plan`, with a summary that has no text."""
    return _outline(case, plan).tokens + case.budget.system + case.budget.tools


def _foreseen(case: _Case, plan: Plan, share: int | None) -> int:
    """Raw tokens of view, system and tools under `plan`, with one part in `share` of the room a summary may take."""
    outlined = _outlined(case, plan)
    return outlined + max(0, _room(case, plan.cut)) // share if plan.cut and share else outlined


def _room(case: _Case, cut: Cut) -> int:
    """Raw tokens for text and artifacts of a summary: within its share, and well below what it replaces."""
    tags = tag_tokens(case.history, outline(case.history, cut))
    frees = case.total - _outlined(case, Plan(cut))
    return min(case.budget.summary - tags, frees * 3 // 4)


def _carry_out(case: _Case, plan: Plan) -> Ask | None:
    """Buy or make the summary that `plan` needs, and take its decisions."""
    if plan.cut:
        frees, left = case.total - _outlined(case, Plan(plan.cut)) - 1, case.budget.limit - _outlined(case, plan)
        room, spare = min(_room(case, plan.cut), left), min(frees, left)
        made = compacted(case.history, case.scope, plan.cut, room, spare, case.situation.recipe, case.answers)
        if isinstance(made, Ask):
            return made
        summary, case.rung = made
        case.force = False
        case.take(_covered(case, summary), "compacted")
    if trims := _trims(case, case.scope, plan.caps):
        case.take(replace(case.scope, trims={**case.scope.trims, **trims}), "squeezed")
    return None


def _covered(case: _Case, summary: Summary) -> Scope:
    """The scope with `summary`, without the decisions about messages it stands for."""
    positions, mark = case.history.positions, case.scope.watermark
    return replace(
        case.scope,
        summary=summary,
        watermark=mark if mark and positions[mark.upto] >= summary.count else None,
        trims={key: n for key, n in case.scope.trims.items() if positions[key] >= summary.count or key in summary.pin},
    )


def _trims(case: _Case, scope: Scope, caps: Caps) -> Mapping[str, int]:
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


def _spared(case: _Case, results: list[int]) -> list[int]:
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


def _too_large(case: _Case) -> ContextBudgetError:
    """The error for a view that no plan makes fit; its parts are those of the smallest view there is."""
    budget = case.budget
    view = min((_outline(case, plan) for plan in _plans(case)), key=lambda view: view.tokens, default=case.view)
    parts: dict[str, int] = {"system": budget.system, "tools": budget.tools}
    for part in view.parts:
        parts[part.source] = parts.get(part.source, 0) + part.tokens
    largest = max(parts, key=lambda name: parts[name])
    listed = ", ".join(f"{name} {tokens}" for name, tokens in parts.items() if tokens)
    return ContextBudgetError(
        f"The request takes {sum(parts.values())} tokens at least, but only {max(0, budget.limit)} fit into a context "
        f"window of {budget.window} with {budget.response} kept for the response ({listed}). The largest part is "
        f"{largest}: shorten it, enable pruning and compaction, or raise memory.context_window.",
        parts=parts,
        available=budget.available,
    )


def _stamped(case: _Case, before: Scope) -> Scope:
    """The scope to keep: the one from before where nothing changed, else a new one with the facts of this call."""
    history, budget = case.history, case.budget
    sizes = Sizes(budget.window, budget.system, budget.tools, budget.response, history.counter.name)
    if case.scope is before and not _drifted(before.sizes, sizes) and _since(before, history) is not None:
        return before
    newest = (history.keys[-1], history.digests[-1].hex()) if len(history) else ("", "")
    stamped = replace(case.scope, since=newest, sizes=sizes, calibration=budget.calibration)
    return before if stamped == before else stamped


def _drifted(old: Sizes, new: Sizes) -> bool:
    fixed = (old.window, old.response, old.counter) == (new.window, new.response, new.counter)
    return not fixed or abs(old.system + old.tools - new.system - new.tools) > DRIFT


def _since(scope: Scope, history: History) -> int | None:
    """Position of the newest message at the last decision; None where it is not in this history any more."""
    key, digest = scope.since
    position = history.positions.get(key)
    return position if position is not None and history.digests[position].hex() == digest else None


def observed(history: History, scope: Scope, view: View) -> Calibration:
    """What the provider's usage says about our count, from the calls made since the last decision.

    Those calls were sent prefixes of this very view, so what we would have counted for each is known. Figures from
    before a decision count another view and are left out, and so are those of another model.
    """
    since = _since(scope, history)
    if since is None:
        return scope.calibration
    sent, window = scope.sizes.system + scope.sizes.tools, scope.sizes.window
    found: list[tuple[str | None, int, int]] = []
    for part in view.parts:
        message = part.message
        if part.position > since and isinstance(message, AIMessage) and message.usage_metadata:
            actual = message.usage_metadata["input_tokens"]
            # What was answered had fitted, so a larger figure does not count that request.
            if actual <= window:
                found.append((message.response_metadata.get("model_name"), sent, actual))
        sent += part.tokens
    return calibrate([(raw, actual) for model, raw, actual in found if model == found[-1][0]], scope.calibration)
