"""What to do when the provider says that the context is too long: once, compact harder or ask for less.

The provider's word is better than our count. Where it names the window and what was asked for, the view is made to
fit those; where it does not, the view is halved. Nothing is retried twice, and nothing is tried where it cannot help:
then the provider's own error is raised, unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass

from .overflow import Overflow, overflow_of
from .steps import Call, Outcome, Refused

NEARLY_FULL = 0.8
"""Share of the limit from which on an uncertain failure is taken for an overflow."""
MARGIN = 0.9
"""Share of what the provider says fits that is used."""
LEAST_COMPLETION = 16


@dataclass(frozen=True, slots=True)
class Retry:
    """How a refused call is made once more: with another decision, or the same view and fewer tokens to answer in."""

    overflow: Overflow
    call: Call | None = None
    max_tokens: int | None = None


def retry_after(error: Exception, outcome: Outcome, *, enabled: bool) -> Retry | None:
    """The retry for a call that failed with `error`; None where the error is to be raised as it is.

    `enabled` is `memory.compaction.enabled`: whoever switched compaction off manages the context alone.
    """
    overflow = overflow_of(error) if enabled else None
    if overflow is None or not (overflow.certain or outcome.total > outcome.budget.limit * NEARLY_FULL):
        return None
    if overflow.completion_is_to_blame and overflow.limit and overflow.prompt:
        room = int((overflow.limit - overflow.prompt) * MARGIN)
        if room >= LEAST_COMPLETION:
            return Retry(overflow, max_tokens=room)
    return Retry(overflow, call=_harder(outcome, overflow))


def _harder(outcome: Outcome, overflow: Overflow) -> Call:
    """The call under a limit that the provider's figures, or half of what was sent, give."""
    sent, budget = outcome.total, outcome.budget
    window = min(budget.window, overflow.limit or budget.window)
    if overflow.limit and (asked := overflow.prompt or overflow.requested):
        ceiling = int(sent * (window - min(budget.response, window // 8)) / asked * MARGIN)
    else:
        ceiling = sent // 2
    refused = Refused(window, max(1, min(ceiling, sent - 1)))
    return outcome.again(force=True, refused=refused)
