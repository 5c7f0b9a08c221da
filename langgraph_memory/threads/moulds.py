"""Moulds: what a message looked like when it was stored or read, kept apart from it.

A mould tells whether a message is still what it was, and messages are cast from it. Any message may be changed in
place, so nothing mutable in a mould belongs to a message, and every cast gets lists and dicts of its own; only what
cannot change, text above all, is shared. Only messages of LangChain's own classes that are built from plain values have
a mould; any other is serialized and read anew every time.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from types import NoneType
from typing import Any, NamedTuple

from langchain_core import messages as core
from langchain_core.messages import BaseMessage
from pydantic import BaseModel

CLASSES: frozenset[type] = frozenset(
    {
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
    }
)
ATOMS = frozenset({str, int, float, bool, bytes, NoneType})
SEQUENCES = frozenset({list, tuple, set, frozenset})

_new = object.__new__
_set_values, _set_fields, _set_extra, _set_private = (
    BaseModel.__dict__[slot].__set__
    for slot in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)


class Mould(NamedTuple):
    """A message, copied."""

    kind: type[BaseMessage]
    values: dict[str, Any]
    extra: dict[str, Any] | None
    fields: frozenset[str] | None
    """Which fields were set; None for a message that was not read, and may come back as another one."""
    empty: tuple[tuple[str, type], ...]
    """The fields that hold an empty list or dict."""
    full: tuple[str, ...]
    """The fields that hold anything else that can change."""
    size: int
    """Bytes of the message where it is stored."""


@lru_cache(maxsize=1024)
def _one(value: Any) -> Any:
    """`value`, the same object for all that are equal."""
    return value


def mould_of(message: Any, size: int, *, read: bool = False) -> Mould | None:
    """The mould of a message of `size` bytes, from which more are cast if it was `read`; None if it has none."""
    if type(message) not in CLASSES:
        return None
    try:
        values, extra = copied(message.__dict__), copied(message.__pydantic_extra__)
    except (TypeError, RecursionError):
        return None
    whole = read and message.__pydantic_private__ is None
    fields = frozenset(message.__pydantic_fields_set__) if whole else None
    return moulded(type(message), values, extra, fields, size)


def moulded(
    kind: type[BaseMessage],
    values: dict[str, Any],
    extra: dict[str, Any] | None,
    fields: frozenset[str] | None,
    size: int,
) -> Mould:
    """A mould of plain values that belong to nobody else."""
    empty: list[tuple[str, type]] = []
    full: list[str] = []
    for name, value in values.items():
        found = type(value)
        if found in ATOMS:
            continue
        if value or (found is not dict and found is not list):
            full.append(name)
        else:
            empty.append((name, found))
    return Mould(kind, values, extra, _one(fields), _one(tuple(empty)), _one(tuple(full)), size)


def copied(value: Any) -> Any:
    """A copy of a plain value that shares only what cannot change. Raises `TypeError` for anything else."""
    kind = type(value)
    if kind in ATOMS:
        return value
    if kind is dict:
        return {copied(key): copied(part) for key, part in value.items()}
    if kind in SEQUENCES:
        return kind([part if type(part) in ATOMS else copied(part) for part in value])
    if kind is bytearray:
        return bytearray(value)
    raise TypeError


def cast(moulds: Iterable[Mould | None]) -> list[BaseMessage | None]:
    """New messages from their moulds, ten times faster than reading them; None for what was not read."""
    made: list[BaseMessage | None] = []
    for mould in moulds:
        if mould is None or (fields := mould.fields) is None:
            made.append(None)
            continue
        kind, values, extra, _, empty, full, _ = mould
        values = values.copy()
        for name, container in empty:
            values[name] = {} if container is dict else []
        for name in full:
            values[name] = copied(values[name])
        message: BaseMessage = _new(kind)
        _set_values(message, values)
        _set_extra(message, copied(extra) if extra else extra if extra is None else {})
        _set_fields(message, set(fields))
        _set_private(message, None)
        made.append(message)
    return made
