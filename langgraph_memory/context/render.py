"""The view: what the model is sent, as a pure function of the messages and the decisions about them.

    [system messages] [summary and pinned request, one human message] [the newest messages, pruned and pair-closed]

Nothing is guessed here: an anchor that does not fit was dropped before. The view is valid for every provider whatever
the history looks like: a call without a result gets a synthetic error result right behind it, a result without a call
and an assistant message without content and calls, whatever it thought, stay out, late results move up to their call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from .groups import COMPUTER, Call, Pairing, answers, is_closable, pair, result_blocks
from .history import History
from .memories import with_block, with_curated
from .prune import Pruner, shorten
from .record import Scope, Summary
from .text import escape_tags, one_line
from .truncate import truncate

Source = Literal["system", "summary", "human", "ai", "tool", "other"]

M = TypeVar("M", bound=BaseMessage)
KEY_CHARS = 80
NO_BLOCKS: frozenset[int] = frozenset()
BLOCK_TOKENS = 4
"""What one more block of a message takes beside its text."""
_THOUGHTS = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content"})
"""Blocks that providers refuse as all there is of a message."""
INTERRUPTED = "[no result: the call was interrupted before it returned one]"
INVALID = "[no result: the call was not run, its arguments could not be parsed]"


class Part(NamedTuple):
    """One message of the view."""

    message: BaseMessage
    source: Source
    tokens: int
    """Raw tokens."""
    position: int = -1
    """Where its message stands in the history; -1 for messages that stand only in the view."""
    limit: int | None = None
    """Characters it was shortened to; 0 is a cleared result, None a message as it was."""
    recalled: int = 0
    """Those of the tokens that what was recalled for its turn takes."""


@dataclass(frozen=True, slots=True)
class View:
    """The rendered parts in order, and the pairing they were rendered with."""

    parts: list[Part]
    pairing: Pairing = field(repr=False)
    tokens: int
    """Raw tokens of all parts, and of the curated memory."""
    curated: str = ""
    """The block with the curated memory, which stands in the first human message."""
    curated_tokens: int = 0

    @property
    def messages(self) -> list[BaseMessage]:
        messages = [part.message for part in self.parts]
        return with_curated(messages, self.curated) if self.curated else messages


def render(history: History, scope: Scope) -> View:
    """Render the view of `history` under the decisions of `scope`, which must fit it (`record.fitted`)."""
    pairing = pair(history.messages, scope.covered)
    parts = [*_head(history, scope), *_tail(history, scope, pairing, scope.covered)]
    curated = scope.remembered.curated if scope.remembered else ""
    extra = history.count(("curated", curated), curated) + BLOCK_TOKENS if curated else 0
    return View(parts, pairing, sum(part.tokens for part in parts) + extra, curated, extra)


def continued(before: History, decided: Scope, view: View, history: History, scope: Scope) -> View:
    """As `render`, but made from `view`, that of `before` under `decided`, where nothing in that has to change."""
    if history is before and scope.shows == decided.shows:
        return view
    # A call without a result may have got one, and what was open may have been closed.
    if (
        view.pairing.unanswered
        or view.pairing.opened
        or scope.shows != decided.shows
        or not _goes_on(before, history, scope)
    ):
        return render(history, scope)
    pairing = view.pairing.joined(pair(history.messages, len(before)))
    new = list(_tail(history, scope, pairing, len(before)))
    tokens = view.tokens + sum(part.tokens for part in new)
    return View([*view.parts, *new], pairing, tokens, view.curated, view.curated_tokens)


def _goes_on(before: History, history: History, scope: Scope) -> bool:
    """Whether `history` is `before` and what was said since, and what is shown of it are still the same objects."""
    shown = (*shown_covered(history, scope), *range(scope.covered, len(before)))
    return history.continues(before) and all(history.messages[i] is before.messages[i] for i in shown)


def shown_covered(history: History, scope: Scope) -> list[int]:
    """Positions of covered messages that the view shows all the same: system messages and the pinned request."""
    covered = [position for position in history.systems if position < scope.covered]
    return covered + [history.positions[key] for key in scope.summary.pin] if scope.summary else covered


def _head(history: History, scope: Scope) -> Iterator[Part]:
    if scope.summary is None:
        return
    for position in history.systems:
        if position < scope.covered:
            yield Part(history.messages[position], "system", history.tokens[position], position)
    message = summary_message(history, scope.summary, scope)
    trims = tuple(scope.trims.get(key) for key in scope.summary.pin)
    yield Part(message, "summary", history.cost((scope.summary, trims), message))


def _tail(history: History, scope: Scope, pairing: Pairing, start: int) -> Iterator[Part]:
    pruner = Pruner(scope, history, pairing)
    for position in range(start, len(history)):
        message = history.messages[position]
        if isinstance(message, ToolMessage) or position in pairing.owner:
            continue
        strays = pairing.strays.get(position, NO_BLOCKS)
        if not isinstance(message, AIMessage):
            yield from _said(history, pruner, position, strays)
        elif not (calls := pairing.calls.get(position)):
            if not _is_blank(_without(message, strays)):
                yield _part(history, pruner, position, strays)
        elif is_closable(calls) and not _needs_screen(pairing, position):
            yield _calling(history, scope, _part(history, pruner, position, strays))
            yield from _results(history, pruner, pairing, position)
        else:
            for result in pairing.results.get(position, ()):
                yield from _beside(history, pruner, result)


def _said(history: History, pruner: Pruner, position: int, strays: frozenset[int]) -> Iterator[Part]:
    """A message without the blocks `strays`, if there are others."""
    if not strays or len(strays) < len(history.messages[position].content):
        yield _part(history, pruner, position, strays)


def _beside(history: History, pruner: Pruner, position: int) -> Iterator[Part]:
    """What a human message says beside results whose call is not sent."""
    if blocks := result_blocks(history.messages[position]):
        yield from _said(history, pruner, position, frozenset(blocks))


def _calling(history: History, scope: Scope, whole: Part) -> Part:
    """A message that calls tools, its arguments cut where that was decided."""
    old, position = scope.arguments, whole.position
    if old is None or position > history.positions[old.upto]:
        return whole
    assert isinstance(whole.message, AIMessage)
    short = truncate(whole.message, old.limit)
    if short is whole.message:
        return whole
    tokens = history.cost((history.digests[position], "arguments", old.limit, whole.tokens), short)
    return whole._replace(message=short, tokens=tokens, limit=old.limit)


def _needs_screen(pairing: Pairing, position: int) -> bool:
    """Whether a message has a call that only a screenshot could answer: no text can stand for one."""
    return any(call.name == COMPUTER and not call.invalid for call in pairing.unanswered.get(position, ()))


def _results(history: History, pruner: Pruner, pairing: Pairing, position: int) -> Iterator[Part]:
    results = pairing.results.get(position, ())
    said = [result for result in results if isinstance(history.messages[result], HumanMessage)]
    for result in results:
        if result not in said:
            yield _part(history, pruner, result)
    for number, call in enumerate(pairing.unanswered.get(position, ())):
        custom = _is_custom(history.messages[position], call)
        message = _synthetic(history.keys[position], number, call, custom)
        yield Part(message, "tool", history.cost((call, custom), message))
    # What a person says besides has to stand behind all results.
    for result in said:
        yield _part(history, pruner, result, pairing.strays.get(result, NO_BLOCKS))


def _part(history: History, pruner: Pruner, position: int, strays: frozenset[int] = NO_BLOCKS) -> Part:
    message = history.messages[position]
    said = _without(message, strays)
    limit = pruner.limit(position)
    short = said if limit is None else shorten(said, limit)
    if short is message:
        part = Part(message, source_of(message), history.tokens[position], position)
    else:
        what = (history.digests[position], limit)
        tokens = history.cost((*what, strays) if strays else what, short)
        part = Part(short, source_of(message), tokens, position, None if short is said else limit)
    block = pruner.recalled.get(history.keys[position]) if pruner.recalled else None
    return part if block is None else _reminding(history, part, block)


def _without(message: M, strays: frozenset[int]) -> M:
    """The message without these blocks of its content."""
    if not strays:
        return message
    content = [block for at, block in enumerate(message.content) if at not in strays]
    return message.model_copy(update={"content": content})


def _reminding(history: History, part: Part, block: str) -> Part:
    """The part with what was recalled for the turn it opened."""
    message = with_block(part.message, block)
    tokens = history.cost((history.digests[part.position], part.limit, "recalled", block), message)
    return part._replace(message=message, tokens=tokens, recalled=tokens - part.tokens)


def source_of(message: BaseMessage) -> Source:
    """The part of a report that a message belongs to."""
    if isinstance(message, HumanMessage):
        return "human"
    if isinstance(message, AIMessage):
        return "ai"
    if isinstance(message, ToolMessage):
        return "tool"
    return "system" if isinstance(message, SystemMessage) else "other"


def _is_blank(message: AIMessage) -> bool:
    content, more = message.content, message.additional_kwargs
    if more and (more.get("audio") or more.get("function_call")):
        return False
    if isinstance(content, str):
        return not content.strip()
    return not any(_has_content(block) and not _is_thought(block) for block in content)


def _is_thought(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") in _THOUGHTS


def _has_content(block: Any) -> bool:
    if isinstance(block, dict) and block.get("type") == "text":
        block = block.get("text") or ""
    return bool(block.strip()) if isinstance(block, str) else bool(block)


def _is_custom(message: BaseMessage, call: Call) -> bool:
    """Whether a call is one of a custom tool of OpenAI's, whose result has a type of its own."""
    return isinstance(message.content, list) and any(
        isinstance(block, dict) and block.get("type") == "custom_tool_call" and block.get("call_id") == call.id
        for block in message.content
    )


def _synthetic(key: str, number: int, call: Call, custom: bool) -> ToolMessage:
    text = INVALID if call.invalid else INTERRUPTED
    return ToolMessage(
        [{"type": "custom_tool_call_output", "output": text}] if custom else text,
        tool_call_id=call.id,
        name=call.name or None,
        status="error",
        id=f"{key}:unanswered-{number}",
    )


def summary_message(history: History, summary: Summary, scope: Scope) -> HumanMessage:
    """The human message that stands for the covered ones: the summary, and the pinned request behind it."""
    text = summary_text(summary)
    pinned = [
        block
        for key in summary.pin
        for block in _blocks(history.messages[history.positions[key]], scope.trims.get(key))
        if _has_content(block) and not answers(block)
    ]
    content: Any = [{"type": "text", "text": text}, *pinned] if pinned else text
    return HumanMessage(content, id=f"summary-{summary.digest}")


def _blocks(message: BaseMessage, limit: int | None) -> Sequence[Any]:
    content = message.content if limit is None else shorten(message, limit).content
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def summary_text(summary: Summary) -> str:
    """The tagged text of a summary; what stands inside cannot close the tag."""
    body = escape_tags(summary.text + artifacts_text(summary.artifacts))
    first, last = (
        escape_tags(one_line(key, KEY_CHARS)).replace('"', "&quot;") for key in (summary.first, summary.last)
    )
    return (
        f'<conversation_summary messages="{summary.count + summary.gone}" from="{first}" to="{last}">\n'
        f'{body}\n[recall("history", pattern="…") finds the messages themselves]\n</conversation_summary>'
    )


def artifacts_text(artifacts: Sequence[str]) -> str:
    """The section of a summary that was taken from the messages word for word."""
    lines = "\n".join(f"- {line}" for line in artifacts)
    return f"\n\n## ARTIFACTS (exact)\n{lines}" if lines else ""
