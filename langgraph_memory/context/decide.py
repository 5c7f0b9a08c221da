"""The decision before a model call: what is pruned and compacted from now on.

    decide(history, scope, budget, …) -> Decision | Ask

Pure and restartable: where a summary is missing it returns an `Ask`, and is run again once the answer is known. The
steps, each only as far as it is needed:

1. *Prune by threshold* (long arguments, if that is switched on, and tool results), if that frees enough to be worth a
   changed prefix, or the prompt cache is cold anyway.
2. *Compact*, if a trigger is crossed and there is enough new text to cover.
3. *Fit*: whatever the triggers say, the view has to fit into the window. Tool results are cut, protected ones last;
   then even the newest messages are compacted; then the request itself is shown as a preview.

A decision that changes nothing is not one: the scope then stays the same object and nothing is written.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .budget import TokenBudget
from .case import Action, Case, Situation
from .history import History
from .learn import since
from .plans import LEAST_SHARE, Plan, bought_before, carry_out, fitting, foreseen, too_large, worth_of
from .prune import Pruner, next_watermark
from .record import Arguments, Scope, Sizes, fitted
from .render import View, render
from .summarize import Answers, Ask

DRIFT = 64
"""Raw tokens the system prompt and the tools may change by before the record says so."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided: the scope to keep, the view it gives, and what was done to get there."""

    scope: Scope
    view: View
    actions: tuple[Action, ...] = ()
    rung: str = ""
    """Which step of the ladder made the summary, if one was made."""


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
    case = Case(history, fit, view, budget, situation, answers)
    if not case.repeated:
        _truncate(case)
        _prune(case)
        # A second round, so that what the first one left over the trigger is not left to the next call.
        for _ in range(2):
            if (ask := _round(case)) is not None:
                return ask
        if case.over_limit:
            raise too_large(case)
    return Decision(_stamped(case, scope), case.view, tuple(dict.fromkeys(case.actions)), case.rung)


def _round(case: Case) -> Ask | None:
    """Compact or fit, if that is needed."""
    plan = _compaction(case) if case.compaction.enabled and (case.due or case.over_limit) else None
    if plan is None and case.over_limit:
        plan = fitting(case)
        if plan is None:
            raise too_large(case)
    return carry_out(case, plan) if plan else None


def _truncate(case: Case) -> None:
    """Move the watermark of long arguments, once a trigger is crossed and that frees enough."""
    settings, history = case.truncation, case.history
    upto = len(history) - settings.keep_messages - 1
    if not settings.enabled or upto < case.scope.covered:
        return
    sent = case.budget.calibration.apply(case.total)
    if not (0 < settings.trigger_messages <= len(history) or 0 < settings.trigger_tokens <= sent):
        return
    truncated = replace(case.scope, arguments=Arguments(history.keys[upto], settings.max_chars))
    frees = case.view.tokens - render(history, truncated).tokens
    if frees > 0 and (frees >= case.budget.min_reclaim or case.situation.cold or _suffices(case, frees)):
        case.take(truncated, "truncated")


def _prune(case: Case) -> None:
    """Move the watermark up to the newest unprotected result, if that frees enough."""
    settings, history = case.pruning, case.history
    if not (settings.enabled and settings.trim_tool_results):
        return
    unprotected = _unprotected(case)
    watermark = next_watermark(history, unprotected, settings)
    if watermark is None:
        return
    pruned = replace(case.scope, watermark=watermark)
    frees = _freed(case, pruned)
    if frees > 0 and (frees >= case.budget.min_reclaim or case.situation.cold or _suffices(case, frees)):
        case.take(pruned, "pruned")


def _unprotected(case: Case) -> list[int]:
    """The results that threshold pruning may take: neither among the newest by count, nor, with a gate, by size.

    A result behind which less than the gate has been said is still what the model works with, and one that no model
    has answered yet is what it asked for: cut before it was read, it would be asked for again. So those stay as long
    as no trigger is crossed.
    """
    results = case.results()
    results = results[: max(0, len(results) - case.pruning.protect_recent)]
    gate = 0 if case.situation.cold else case.budget.min_reclaim
    newest, said, answered = len(case.history), 0, case.budget.min_reclaim == 0 or case.over_trigger
    for part in reversed(case.view.parts):
        answered = answered or part.source == "ai"
        if answered and said >= gate:
            break
        newest, said = part.position if part.position >= 0 else newest, said + part.tokens
    return [position for position in results if position < newest]


def _freed(case: Case, pruned: Scope) -> int:
    """Raw tokens by which the results in the view would be shorter under `pruned`: as rendering it tells, but cheap."""
    then = Pruner(pruned, case.history, case.view.pairing)
    results = (part for part in case.view.parts if part.source == "tool" and part.position >= 0)
    return sum(part.tokens - then.tokens(part.position) for part in results)


def _suffices(case: Case, frees: int) -> bool:
    """Whether pruning alone brings a view over the trigger well below it, so that no summary is needed."""
    over = case.total - case.budget.trigger
    return over > 0 and frees >= over + case.budget.min_reclaim


def _compaction(case: Case) -> Plan | None:
    """A cut whose summary is paid for, else the one that keeps most and brings the view under the trigger, else into
    the window.

    Less than the configuration keeps is kept only where the view itself is too large; a trigger set by hand, which may
    stay crossed for ever, never eats into what the last compaction kept.
    """
    found = case.found()
    large = case.over_trigger or case.over_limit or (case.force and found.careful is None)
    worth = 1 if case.over_limit or case.force or _first(case) else worth_of(case.budget)
    if paid := bought_before(case, worth):
        return paid
    plans = [Plan(cut) for cut in (found.keeping if large else (found.careful,)) if cut and cut.frees >= worth]
    for most, share in ((case.budget.trigger, 1), (case.budget.limit, LEAST_SHARE)):
        for plan in plans:
            if foreseen(case, plan, share) <= min(most, case.total - 1):
                return plan
    return None


def _first(case: Case) -> bool:
    """Whether a trigger set by hand asks for the thread's first summary; later ones have to be worth their price."""
    return case.asked and case.scope.summary is None


def _stamped(case: Case, before: Scope) -> Scope:
    """The scope to keep: the one from before where nothing changed, else a new one with the facts of this call."""
    history, budget = case.history, case.budget
    model = case.situation.model
    sizes = Sizes(budget.window, budget.system, budget.tools, budget.response, history.counter.name, model)
    if case.scope is before and not _drifted(before.sizes, sizes) and since(before, history) is not None:
        return before
    newest = (history.keys[-1], history.digests[-1].hex()) if len(history) else ("", "")
    stamped = replace(case.scope, since=newest, sizes=sizes, calibration=budget.calibration)
    return before if stamped == before else stamped


def _drifted(old: Sizes, new: Sizes) -> bool:
    fixed = replace(old, system=0, tools=0) == replace(new, system=0, tools=0)
    return not fixed or abs(old.system + old.tools - new.system - new.tools) > DRIFT
