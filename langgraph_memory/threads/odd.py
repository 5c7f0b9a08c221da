"""Text and numbers a serializer would lose or refuse.

LangGraph's serializer stores half a surrogate pair, as broken tool output has it, as a question mark. Here such a text
is escaped before the serializer sees it and put back afterwards: each lone surrogate becomes U+E000 and four hex
digits, and U+E000 itself is written the same way. Only values that need it are treated, and marked as such.

The serializer makes an object again by calling its class, which then sees the escaped text. So only objects whose class
takes it as it is are treated: messages, what LangGraph sends and asks, and plain dataclasses. A class that looks at
its values, as pydantic's do, might shorten, change or refuse the text; such a value is refused before it is written.
"""

from __future__ import annotations

import dataclasses
import marshal
import re
from collections import deque
from collections.abc import Iterator, Mapping
from copy import copy
from enum import Enum
from pathlib import PurePath
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.types import Send
from pydantic import BaseModel

ESCAPE = "\ue000"
LONE = re.compile("[\ud800-\udfff]")
LONE_BYTES = re.compile(rb"\xed[\xa0-\xbf]")
"""How UTF-8 that lets surrogates pass writes them; valid UTF-8 never holds these two bytes in a row."""
ESCAPED = re.compile(f"{ESCAPE}([0-9a-f]{{4}})")
LIMITS = -(2**63), 2**64 - 1
DEEP = 1000
"""Deeper than any serializer goes."""


def has_lone(value: Any) -> bool:
    """Whether a lone surrogate stands anywhere in `value`."""
    try:
        # This version of the format can write a value that holds itself.
        raw = marshal.dumps(value.__dict__ if isinstance(value, BaseMessage) else value, 4)
    except ValueError:
        return _walks_to_lone(value)
    return LONE_BYTES.search(raw) is not None and _walks_to_lone(value)


def _walks_to_lone(value: Any) -> bool:
    return any(isinstance(leaf, str) and LONE.search(leaf) for _, leaf in leaves(value))


def escaped(value: Any) -> Any:
    """A copy of `value` in which no text holds a lone surrogate, as far as its kind is known."""
    return _rewritten(value, lambda text: re.sub(f"[\ud800-\udfff{ESCAPE}]", _code, text))


def unescaped(value: Any) -> Any:
    return _rewritten(value, lambda text: ESCAPED.sub(lambda found: chr(int(found[1], 16)), text))


def _code(found: re.Match[str]) -> str:
    return f"{ESCAPE}{ord(found[0]):04x}"


def _rewritten(value: Any, text: Any) -> Any:
    if type(value) is str:
        return text(value)
    if type(value) in (list, tuple, set, frozenset, deque):
        return type(value)(_rewritten(part, text) for part in value)
    if type(value) is dict:
        return {_rewritten(key, text): _rewritten(part, text) for key, part in value.items()}
    if isinstance(value, BaseMessage):
        extra = value.__pydantic_extra__ or {}
        return value.model_copy(update=_rewritten({**value.__dict__, **extra}, text))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_rewritten(part, text) for part in value))
    return _with_new_fields(value, text)


def _with_new_fields(value: Any, text: Any) -> Any:
    """A copy of an object with its fields rewritten; `value` itself where these are not known to be taken as given."""
    names = _fields(value)
    if not names:
        return value
    made = copy(value)
    for name in names:
        # Past what keeps a frozen one from being changed.
        object.__setattr__(made, name, _rewritten(getattr(value, name), text))
    return made


def _fields(value: Any) -> tuple[str, ...]:
    if isinstance(value, Send):
        return "node", "arg"
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return ()
    looks_at_them = hasattr(value, "__post_init__") or hasattr(value, "__pydantic_validator__")
    return () if looks_at_them else tuple(field.name for field in dataclasses.fields(value))


def complaint(value: Any) -> str:
    """What in `value` cannot be stored, and where; empty where nothing is known to be wrong."""
    for path, leaf in leaves(value):
        if type(leaf) is int and not LIMITS[0] <= leaf <= LIMITS[1]:
            return f"the number {leaf} at {path or 'its top'} does not fit into 64 bits; store it as text"
        if isinstance(leaf, str) and LONE.search(leaf):
            return f"the text at {path or 'its top'} holds half a surrogate pair; replace or remove it"
    return ""


def leaves(value: Any) -> Iterator[tuple[str, Any]]:
    """Everything `value` is made of, with the path that leads there; what is found again, as in a ring, once."""
    seen: dict[int, Any] = {}
    ahead = [("", 0, value)]
    while ahead:
        path, depth, value = ahead.pop()
        if id(value) in seen or depth > DEEP:
            continue
        parts = list(_parts(value))
        if not parts:
            yield path, value
            continue
        # Kept, so that nothing else gets its id.
        seen[id(value)] = value
        ahead += [(path + step, depth + 1, part) for step, part in reversed(parts)]


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield " (a key)", key
            yield f"[{key!r}]", part
    elif isinstance(value, list | tuple | set | frozenset | deque):
        for position, part in enumerate(value):
            yield f"[{position}]", part
    elif isinstance(value, BaseModel):
        for name, part in {**value.__dict__, **(value.__pydantic_extra__ or {})}.items():
            yield f".{name}", part
    elif isinstance(value, PurePath):
        yield "", str(value)
    elif isinstance(value, Enum):
        yield ".value", value.value
    elif isinstance(value, re.Pattern):
        yield ".pattern", value.pattern
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield f".{field.name}", getattr(value, field.name)
    elif slots := getattr(type(value), "__slots__", None):
        for name in [slots] if isinstance(slots, str) else slots:
            yield f".{name}", getattr(value, name, None)
