"""What a list of messages becomes when something is written to it, and what has been said when some of it left.

The rules are those of LangGraph's reducers: a message is added, replaces the one with its id, or removes it.
A message that left because the record says that a summary covers it (`gone` grew in the same checkpoint) was still
said; one that anything else removed was taken back. When everything is removed at once, the history begins anew.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage, RemoveMessage, convert_to_messages
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Overwrite

OVERWRITE = "__overwrite__"

Live = dict[Any, Any]
"""Messages by id; those without one by an object of their own."""


class Step(NamedTuple):
    """A checkpoint on the way to another one."""

    value: Any
    """What it stores of the channel; None where that is rebuilt from the writes."""
    writes: Sequence[Any]
    """What the tasks that ran after it gave the channel."""
    gone: int
    """How many messages its record says have left because of us."""


def said(steps: Iterable[Step]) -> list[BaseMessage]:
    """Everything that was said on a path, in order, each id once and as it was in the end."""
    told, gone, writes = Told(), 0, list[Any]()
    for step in steps:
        left = max(0, step.gone - gone)
        if step.value is not None:
            told.become(keyed(step.value), left)
        elif writes:
            told.write(writes, left)
        gone, writes = step.gone, list(step.writes)
    return list(told.all.values())


class Told:
    """What is in the channel and what has been said, while a path is walked."""

    def __init__(self) -> None:
        self.live: Live = {}
        self.all: Live = {}

    def write(self, writes: Sequence[Any], left: int = 0) -> None:
        given = list(chain.from_iterable(map(messages_of, writes)))
        if any(message is None or isinstance(message, RemoveMessage) for message in given):
            live = dict(self.live)
            fold(live, writes)
            self.become(live, left)
        else:
            added = {_key(message): message for message in given}
            self.live.update(added)
            self.all.update(added)

    def become(self, live: Live, left: int = 0) -> None:
        """The channel now holds `live`; the first `left` of those that are missing were still said."""
        missing = [key for key in self.live if key not in live]
        if not missing and all(map(_same, self.live, live)):
            self.all.update(live)
        else:
            cleared = bool(missing) and len(missing) == len(self.live) and not left
            departed = set() if cleared else self.all.keys() - self.live.keys()
            self.all = _merged(self.all, live, departed.union(missing[:left]))
        self.live = live


def _same(left: object, right: object) -> bool:
    return left == right


def _merged(all: Live, live: Live, departed: set[Any]) -> Live:
    """`live` with the departed messages where they stood: before the message that followed them."""
    before: dict[Any, list[Any]] = {}
    waiting: list[Any] = []
    for key in all:
        if key in live:
            before[key], waiting = waiting, []
        elif key in departed:
            waiting.append(key)
    end = next((key for key in reversed(live) if key in before), None)
    order = waiting if end is None else []
    for key in live:
        order += [*before.get(key, ()), key]
        if key == end:
            order += waiting
    return {key: live[key] if key in live else all[key] for key in order}


def fold(live: Live, writes: Iterable[Any]) -> None:
    """Apply what was written to a channel, in place."""
    for message in chain.from_iterable(map(messages_of, writes)):
        if message is None or (isinstance(message, RemoveMessage) and message.id == REMOVE_ALL_MESSAGES):
            live.clear()
        elif isinstance(message, RemoveMessage):
            live.pop(message.id, None)
        else:
            live[_key(message)] = message


def messages_of(write: Any) -> list[BaseMessage | None]:
    """The messages in something written to a channel; a None in front takes the place of everything before."""
    overwrites, value = _overwrite(write)
    given: list[BaseMessage | None] = list(as_messages(value if value is not None else []))
    return [None, *given] if overwrites else given


def as_messages(value: Any) -> list[BaseMessage]:
    """A channel's value, or what is written to it, as messages; what is none, as other graphs have it, is left out."""
    given = _given(value)
    if all(isinstance(message, BaseMessage) for message in given):
        return given
    return list(chain.from_iterable(map(_converted, given)))


def holds_others(value: Any) -> bool:
    """Whether a channel's value holds something that is no message, which `as_messages` leaves out."""
    return any(not isinstance(each, BaseMessage) and not _converted(each) for each in _given(value))


def _given(value: Any) -> list[Any]:
    if isinstance(value, _DeltaSnapshot):
        value = value.value
    return list(value) if isinstance(value, list | tuple) and not _is_pair(value) else [value]


def _converted(given: Any) -> list[BaseMessage]:
    try:
        return convert_to_messages([given])
    except (TypeError, ValueError, KeyError, AttributeError, NotImplementedError):
        return []


def _is_pair(value: Any) -> bool:
    """Whether `value` is a message written as `("user", "text")`."""
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(part, str) for part in value)


def _overwrite(write: Any) -> tuple[bool, Any]:
    if isinstance(write, Overwrite):
        return True, write.value
    if isinstance(write, dict) and len(write) == 1 and OVERWRITE in write:
        return True, write[OVERWRITE]
    if isinstance(write, dict) and write.get("type") == OVERWRITE and "value" in write:
        return True, write["value"]
    return False, write


def keyed(value: Any) -> Live:
    return {_key(message): message for message in as_messages(value)}


def _key(message: Any) -> Hashable:
    return message.id if message.id is not None else object()


def gone(record: Any) -> int:
    """How many messages have left the channel because the summary in a record covers them."""
    found: Any = record
    for name in ("ns", "", "summary", "gone"):
        if not isinstance(found, Mapping):
            return 0
        found = found.get(name)
    return found if type(found) is int and found > 0 else 0
