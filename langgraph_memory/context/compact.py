"""Compaction: where the history is cut, and what stands for the part before the cut.

A cut falls between two units, so no call is parted from its result, also inside one long turn. Behind the cut the
newest messages stay as they are; before it stand the system messages and one human message with the summary and, word
for word, the request of the turn the cut falls in. A cut never leaves a human message at the front of the kept part:
the run is taken into that one message, so roles alternate.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from ..config import CompactionConfig
from .artifacts import artifacts, merge_artifacts
from .budget import TokenBudget
from .extract import extract
from .groups import Pairing, is_closable, request_run, says, units
from .history import History
from .record import Scope, Summary
from .render import View, artifacts_text, summary_text
from .summarize import Answers, Ask, Recipe, Rejected, summarise, usable
from .text import escape_tags, preview

ARTIFACT_SHARE = 4
"""Artifacts take at most one part in this many of a summary."""
MOST_SHARE = 4
"""A model may say this many times what it was asked for: that is better than paying for another summary."""
WORDY = 2
"""What is more than this many times what was asked for is left out, from the middle."""
LEFT_OUT = "[…]"
LEAST_ROOM = 64
"""Raw tokens below which a summary is not worth asking a model for."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A place to cut: messages before `end` are covered, `pin` are positions of those shown verbatim."""

    end: int
    pin: tuple[int, ...]
    frees: int
    """Raw tokens of messages that leave the view: newly covered ones that are not pinned, and pins of before."""


@dataclass(frozen=True, slots=True)
class Cuts:
    """Where a history can be cut behind the summary it has."""

    careful: Cut | None
    """The usual cut, or an earlier one that keeps a call which may still be answered and all that follows it."""
    usual: Cut | None
    """The cut that keeps what the configuration says."""
    newest: Cut | None
    """The cut that keeps only the newest unit; None where that is all there is."""
    everything: Cut | None
    """The cut behind the newest message."""
    paid: tuple[Cut, ...] = ()
    """The cuts whose summary was bought before, the one that covers most first."""

    @property
    def keeping(self) -> list[Cut]:
        """The cuts that keep something, the one that keeps most first."""
        return list({cut.end: cut for cut in (self.careful, self.usual, self.newest) if cut}.values())


def cuts(
    history: History,
    scope: Scope,
    view: View,
    budget: TokenBudget,
    config: CompactionConfig,
    bought: Container[str] = (),
) -> Cuts:
    """The cuts worth thinking about; `bought` are the prefix digests for which there is a summary already."""
    ranges = units(history.messages, view.pairing, scope.covered)
    if not ranges:
        return Cuts(None, None, None, None)
    sizes = _sizes(view, history)
    waiting = next((first for first, end in ranges if _waits(view.pairing, first, end)), len(history))
    usual = _usual(history, ranges, sizes, budget, config)

    def cut(end: int) -> Cut | None:
        found = _cut(history, scope, sizes, end, budget)
        return found if found.frees > 0 and found.end > scope.covered else None

    ends = [end for _, end in reversed(ranges) if end <= waiting and history.digests[end - 1].hex() in bought]
    paid = tuple(found for end in ends if (found := cut(end)) and found.end == end)
    return Cuts(cut(min(usual, waiting)), cut(usual), cut(ranges[-1][0]), cut(len(history)), paid)


def outline(history: History, cut: Cut, previous: Summary | None) -> Summary:
    """The summary of `cut`, in place of `previous`, before its text is known."""
    return _summary(history, cut, previous, "", ())


def tag_tokens(history: History, summary: Summary) -> int:
    """Raw tokens of a summary beside its text and artifacts."""
    bare = HumanMessage(summary_text(replace(summary, text="", artifacts=())))
    return history.cost(("tags", summary.digest), bare)


def _sizes(view: View, history: History) -> list[int]:
    """Raw tokens each message takes in the view; a synthetic result counts with the call it answers."""
    sizes, last = [0] * len(history), -1
    for part in view.parts:
        last = part.position if part.position >= 0 else last
        if last >= 0 and part.source != "summary":
            sizes[last] += part.tokens
    return sizes


def _usual(
    history: History,
    ranges: Sequence[tuple[int, int]],
    sizes: Sequence[int],
    budget: TokenBudget,
    config: CompactionConfig,
) -> int:
    """The cut that keeps what the configuration asks to keep, and always the newest unit."""
    kept = turns = 0
    start = len(history)
    for first, end in reversed(ranges):
        kept += sum(sizes[first:end])
        if start < len(history) and _exceeds(kept, len(history) - first, turns, budget, config):
            break
        start = first
        turns += _opens_turn(history.messages, first)
    return start


def _exceeds(tokens: int, messages: int, turns: int, budget: TokenBudget, config: CompactionConfig) -> bool:
    if config.keep_messages:
        return messages > config.keep_messages
    if config.keep_turns:
        return turns >= config.keep_turns
    return tokens > budget.keep


def _opens_turn(messages: Sequence[BaseMessage], position: int) -> bool:
    before = messages[position - 1] if position else None
    return says(messages[position]) and not (before and says(before))


def _waits(pairing: Pairing, first: int, end: int) -> bool:
    """Whether a call in this unit, which the model sees, may still be answered."""
    open_calls = (pairing.unanswered.get(p, ()) for p in range(first, end) if is_closable(pairing.calls.get(p, ())))
    return any(not call.invalid for calls in open_calls for call in calls)


def _cut(history: History, scope: Scope, sizes: Sequence[int], end: int, budget: TokenBudget) -> Cut:
    messages = history.messages
    end = _behind_humans(messages, sizes, end)
    first, last = request_run(messages, end)
    size = history.span(first, last)
    needed = not any(map(says, messages[end:]))
    pin = tuple(range(first, last)) if needed or size <= budget.keep // 4 or last == end else ()
    frees = sum(sizes[scope.covered : end]) - sum(sizes[position] for position in pin if position >= scope.covered)
    before = {history.positions[key] for key in scope.summary.pin} if scope.summary else set()
    return Cut(end, pin, frees + sum(history.tokens[position] for position in before.difference(pin)))


def _behind_humans(messages: Sequence[BaseMessage], sizes: Sequence[int], end: int) -> int:
    """`end`, moved behind the human and system messages that would otherwise come first in the kept part."""
    for position in range(end, len(messages)):
        if isinstance(messages[position], HumanMessage | SystemMessage):
            end = position + 1
        elif sizes[position]:
            break
    return end


def compacted(
    history: History, scope: Scope, cut: Cut, room: int, spare: int, recipe: Recipe, answers: Answers, paid: str = ""
) -> tuple[Summary, str] | Ask:
    """The summary for `cut` and the rung of the ladder that made it, or the `Ask` that is missing for it.

    `paid` is the text for it that was bought before, if there is one.

    Text and artifacts should take at most `room` raw tokens; a model that says more is accepted up to four times as
    much, if that is still `spare`. The ladder: the summariser, once more with less input, then an extract made without
    a model; where there is no room for that, a marker without text.
    """
    start, previous = scope.covered, scope.summary
    if previous is not None and not usable(previous.text):
        start, previous = 0, None
    text, covered = previous.text if previous else "", history.messages[start : cut.end]

    def made(answer: str, rung: str) -> tuple[Summary, str]:
        answer = _shortened(history, answer, WORDY * target)
        facts = _facts(history, previous.artifacts if previous else (), covered, room // ARTIFACT_SHARE)
        return _summary(history, cut, scope.summary, answer, facts), rung

    target = room - room // ARTIFACT_SHARE
    if paid:
        return made(paid, "bought before")
    recipe = replace(recipe, room=target, most=max(target, min(MOST_SHARE * target, spare - room // ARTIFACT_SHARE)))
    for attempt, rung in ((recipe, "summariser"), (recipe.smaller(), "smaller input")):
        if recipe.room < LEAST_ROOM:
            break
        answer = summarise(history, start, cut.end, text, attempt, answers)
        if isinstance(answer, Ask):
            return answer
        if not isinstance(answer, Rejected):
            return made(answer, rung)
    extracted = _extracted(history, covered, text, recipe.room)
    return made(extracted, "extract" if extracted else "marker")


def _extracted(history: History, messages: Sequence[BaseMessage], previous: str, room: int) -> str:
    """An extract of at most `room` raw tokens; empty where none fits."""
    chars = room * 4
    while chars > 0:
        text = escape_tags(extract(messages, previous, chars))
        size = history.counter.text(text)
        if size <= room:
            return text if any(map(str.isalnum, text)) else ""
        chars = min(chars - 1, len(text) * room * 9 // (size * 10))
    return ""


def _shortened(history: History, text: str, room: int) -> str:
    """`text` with its beginning and its end, so that it takes at most `room` raw tokens."""
    short, chars = text, len(text)
    while (size := history.counter.text(short)) > room > 0 and chars > 0:
        chars = min(chars - 1, len(short) * room * 9 // (size * 10))
        short = preview(text, chars, LEFT_OUT)
    return short


def _facts(history: History, old: Sequence[str], covered: Sequence[BaseMessage], room: int) -> tuple[str, ...]:
    """The artifacts of everything covered, newest last, in at most `room` raw tokens."""
    if room < LEAST_ROOM // ARTIFACT_SHARE:
        return ()
    fresh = map(escape_tags, artifacts(covered))
    merged = merge_artifacts(old, list(fresh), max_chars=min(3000, room * 4))
    while merged and history.counter.text(artifacts_text(merged)) > room:
        merged = merged[len(merged) // 8 + 1 :]
    return tuple(merged)


def _summary(history: History, cut: Cut, previous: Summary | None, text: str, facts: tuple[str, ...]) -> Summary:
    return Summary(
        text=text,
        artifacts=facts,
        count=cut.end,
        digest=history.digests[cut.end - 1].hex(),
        first=previous.first if previous and previous.gone else history.keys[0],
        last=history.keys[cut.end - 1],
        pin=tuple(history.keys[i] for i in cut.pin),
        gone=previous.gone if previous else 0,
    )
