"""Messages: whether one changed since it was stored, and what it is without its id.

Any message may have been changed in place since the last put, so each has to be looked at every time. Serializing them
all is most of the cost of a put; a *print* is three times cheaper. It holds everything the serialized form depends on:
the class and the marshalled fields, which tell `1` from `True` and keep the order of keys. Equal prints mean equal
bytes, whoever made the message. Only messages of LangChain's own classes that are built from plain values have one; any
other is serialized every time.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable
from types import NoneType
from typing import Any, NamedTuple

import ormsgpack
from langchain_core import messages as core
from langchain_core.messages import BaseMessage

CLASSES: dict[type, int] = {
    kind: number
    for number, kind in enumerate(
        (
            core.HumanMessage,
            core.AIMessage,
            core.SystemMessage,
            core.ToolMessage,
            core.FunctionMessage,
            core.ChatMessage,
            core.RemoveMessage,
            core.HumanMessageChunk,
            core.AIMessageChunk,
            core.SystemMessageChunk,
            core.ToolMessageChunk,
            core.FunctionMessageChunk,
            core.ChatMessageChunk,
        )
    )
}
KINDS: list[type] = list(CLASSES)
ATOMS = frozenset({str, int, float, bool, bytes, bytearray, NoneType})
CONTAINERS = frozenset({dict, list, tuple, set, frozenset})
VERSION = 2
"""The marshal format without references between equal objects: the same value always gives the same bytes."""


_set = object.__setattr__


class Key(NamedTuple):
    """What identifies a message of a thread: the digest of its bytes without the id, and the id."""

    digest: bytes
    id: str | None
    """None where the id is part of the bytes, or where there is none."""


def is_messages(value: Any) -> bool:
    """Whether `value` is a list of nothing but messages, at least one."""
    return type(value) is list and bool(value) and all(isinstance(part, BaseMessage) for part in value)


def print_of(message: BaseMessage) -> object:
    """Equal for messages that are stored as the same bytes; equal to nothing else where that cannot be told."""
    number = CLASSES.get(type(message))
    if number is None:
        return object()
    # First, as marshal never comes to an end with a value that holds itself twice.
    if not _is_exact((*message.__dict__.values(), *(message.__pydantic_extra__ or {}).values())):
        return object()
    try:
        return marshal.dumps((number, message.__dict__, message.__pydantic_extra__), VERSION)
    except ValueError:
        return object()


def _is_exact(values: Iterable[Any]) -> bool:
    """Whether what marshal writes of `values` stands for them alone: of an array it writes the bytes."""
    rest = [value for value in values if type(value) not in ATOMS and (type(value) not in CONTAINERS or value)]
    try:
        # It refuses arrays and rings, and is faster than looking at every value.
        return not rest or bool(ormsgpack.packb(rest, _as_list, ormsgpack.OPT_NON_STR_KEYS))
    except TypeError:
        return False


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, set | frozenset):
        return list(value)
    raise TypeError


def fields_of(message: Any) -> frozenset[str] | None:
    """What `again` needs beside the print of a message; None where it cannot make it again."""
    if type(message) not in CLASSES or message.__pydantic_private__ is not None:
        return None
    return frozenset(message.__pydantic_fields_set__)


def again(printed: Any, fields: frozenset[str]) -> BaseMessage:
    """A new message with the print and the fields of one that was read, five times faster than reading it again."""
    number, values, extra = marshal.loads(printed)
    message: BaseMessage = object.__new__(KINDS[number])
    _set(message, "__dict__", values)
    _set(message, "__pydantic_extra__", extra)
    _set(message, "__pydantic_fields_set__", set(fields))
    _set(message, "__pydantic_private__", None)
    return message


def split(message: BaseMessage) -> tuple[BaseMessage, str | None]:
    """The message without its id, and the id, if it can be put back by `joined`."""
    if type(message) not in CLASSES or type(message.id) is not str or not _writable(message.id):
        return message, None
    return message.model_copy(update={"id": None}), message.id


def _writable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def joined(message: Any, message_id: str | None) -> Any:
    """`message`, given the id it was split from."""
    # A class that is not allowed to be built, or is gone, comes back as its fields, or as what it was built from.
    fields = message.__dict__ if isinstance(message, BaseMessage) else message
    if message_id is not None and isinstance(fields, dict):
        fields["id"] = message_id
    return message
