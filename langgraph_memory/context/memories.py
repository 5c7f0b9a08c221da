"""What the view shows of long-term memory: the curated memory in front, what was recalled for a turn at its request.

Both are texts in the record, so a view stays a function of messages and record. They stand as parts of human messages,
never of the system prompt: they are data, and what is in them has no more to say than a user has. The curated memory is
a part of the first human message, so it stays in place until it is changed; what was recalled is a part of the message
that opened its turn, and goes when that is covered by a summary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from .groups import is_result, request_run
from .history import History
from .record import Remembered, Scope

CURATED_ID = "curated-memory"


@dataclass(frozen=True, slots=True)
class Reminder:
    """What was found in long-term memory for a call, tags included."""

    space: str | None
    """Names the memory it is from; None: the run has none."""
    curated: str | None = None
    """"" where there is none; None: it was not read, and what the record has stays."""
    recalled: str = ""
    """For the request of this turn."""


def remembering(scope: Scope, history: History, found: Reminder | None) -> Scope:
    """The scope that shows what was `found`; the same object where it shows that already.

    What is from another memory than that of the run goes at once. None: nobody has looked, all stays.
    """
    if found is None:
        return scope
    if found.space is None:
        return replace(scope, remembered=None) if scope.remembered else scope
    before = scope.remembered
    if before is None or before.space != found.space:
        before = Remembered(found.space)
    curated = before.curated if found.curated is None else found.curated
    recalled = {key: block for key, block in before.recalled.items() if key in history.positions}
    if found.recalled and (key := request_key(history)) is not None:
        recalled = {**recalled, key: found.recalled}
    after = Remembered(found.space, curated, recalled) if curated or recalled else None
    return scope if after == scope.remembered else replace(scope, remembered=after)


def request_key(history: History) -> str | None:
    """The key of the message that what is recalled for the present turn stands in."""
    _, end = request_run(history.messages)
    return history.keys[end - 1] if end else None


def behind(remembered: Remembered | None, positions: Mapping[str, int], covered: int) -> Remembered | None:
    """What is left to show once the first `covered` messages are covered by a summary."""
    if remembered is None or not remembered.recalled:
        return remembered
    recalled = {key: block for key, block in remembered.recalled.items() if positions.get(key, -1) >= covered}
    return replace(remembered, recalled=recalled) if recalled or remembered.curated else None


def with_block(message: BaseMessage, block: str) -> BaseMessage:
    """The message with a text in front of what it says, but behind results of tools, which have to come first."""
    content = message.content
    if isinstance(content, str):
        # An empty text block is refused where an empty text is not.
        said: list[Any] = [{"type": "text", "text": content}] if content else []
    else:
        said = content
    start = next((at for at, one in enumerate(said) if not is_result(one)), len(said))
    return message.model_copy(update={"content": [*said[:start], {"type": "text", "text": block}, *said[start:]]})


def with_curated(messages: Sequence[BaseMessage], block: str) -> list[BaseMessage]:
    """The messages with the curated memory in the first human one, or in one of its own where there is none."""
    place = next((i for i, message in enumerate(messages) if isinstance(message, HumanMessage)), None)
    if place is not None:
        return [*messages[:place], with_block(messages[place], block), *messages[place + 1 :]]
    place = next((i for i, message in enumerate(messages) if not isinstance(message, SystemMessage)), len(messages))
    return [*messages[:place], HumanMessage(block, id=CURATED_ID), *messages[place:]]
