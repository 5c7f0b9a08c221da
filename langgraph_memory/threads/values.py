"""Channel values on their way to the file.

On the event loop, where nobody can change a message meanwhile, a value becomes a *draft*: bytes and digests, no SQL.
On the connection's thread a draft becomes a *form*: the few numbers and bytes that stand for the value in a row.

    [0, type, bytes]             small, stored in the row
    [1, item]                    larger, stored once
    [2, chain, length]           a list of messages: the first of a chain
    [3, form]                    a snapshot of a delta channel
    [4, [[item, id], …]]         a short list of messages outside a chain (pending writes, input)
    [5, item, id]                one message
    [6, {key: form}]             a dict that holds messages
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from operator import ne
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from .blocks import Moulds
from .codec import Codec, Item
from .messages import Key, is_messages, split
from .moulds import mould_of
from .tips import Tip

INLINE, SHARED, CHAIN, SNAPSHOT, LOOSE, ONE, DICT = range(7)
INLINE_BYTES = 256
LOOSE_MESSAGES = 16
"""Longer lists become chains wherever they stand."""

Form = list[Any]


@dataclass(slots=True)
class Value:
    """Anything that is not made of messages."""

    type: str
    data: bytes


@dataclass(slots=True)
class Messages:
    """A list of messages."""

    keys: list[Key]
    moulds: Moulds
    bodies: dict[bytes, Item]
    """The bytes of those that were serialized, by digest."""
    tip: Tip | None
    """The chain they were compared with."""
    same: int
    """How many at the beginning are those of the tip."""


@dataclass(slots=True)
class Message:
    key: Key
    body: Item


@dataclass(slots=True)
class Snapshot:
    messages: Messages


@dataclass(slots=True)
class Mapping:
    parts: dict[str, Draft]


Draft = Value | Messages | Message | Snapshot | Mapping


def draft(codec: Codec, value: Any, tip: Tip | None = None) -> Draft:
    """`value` as bytes; a list of messages is compared with `tip`, so that only what is new in it is serialized."""
    if is_messages(value):
        return draft_messages(codec, value, tip)
    if isinstance(value, BaseMessage):
        return Message(*_message(codec, value))
    if type(value) is dict and _holds_messages(value):
        return Mapping({key: draft(codec, part) for key, part in value.items()})
    if isinstance(value, _DeltaSnapshot) and is_messages(value.value):
        return Snapshot(draft_messages(codec, value.value, tip))
    return Value(*codec.dump(value))


def _holds_messages(value: dict[Any, Any]) -> bool:
    if not all(type(key) is str and key.isascii() for key in value):
        return False
    return any(is_messages(part) or isinstance(part, BaseMessage) for part in value.values())


def draft_messages(codec: Codec, messages: Sequence[BaseMessage], tip: Tip | None) -> Messages:
    known = tip or Tip(0, [], Moulds())
    common = min(len(messages), len(known.moulds))
    changed = known.moulds.changed(messages)
    keys: list[Any] = known.keys[:common] + [None] * (len(messages) - common)
    moulds = [*known.moulds.all[:common], *[None] * (len(messages) - common)]
    bodies: dict[bytes, Item] = {}
    for at in chain(changed, range(common, len(messages))):
        keys[at], body = _message(codec, messages[at])
        moulds[at] = mould_of(messages[at], len(body.data))
        bodies[body.digest] = body
    drafted = Messages(keys, Moulds(moulds, known.moulds), bodies, None, 0)
    compare(drafted, tip, changed[0] if changed else common)
    return drafted


def compare(messages: Messages, tip: Tip | None, same: int = 0) -> None:
    """Note how far `messages` are those of `tip`, given that `same` are."""
    messages.tip, messages.same = tip, 0
    if tip:
        most = min(len(messages.keys), len(tip.keys)) - same
        messages.same = same + _alike(messages.keys[same:], tip.keys[same:], most)


def _message(codec: Codec, message: BaseMessage) -> tuple[Key, Item]:
    # An encrypted file shows no ids: there they stay in the bytes.
    bare, message_id = (message, None) if codec.encrypts else split(message)
    body = codec.item(bare)
    return Key(body.digest, message_id), body


def _alike(left: Iterable[object], right: Iterable[object], most: int) -> int:
    """How many at the beginning of both are equal, of the first `most`."""
    return next(compress(range(most), map(ne, left, right)), most)


def is_form(value: Any) -> bool:
    """Whether a value that was read is a form. One of a later version is: who builds it refuses it."""
    match value:
        case [0, str(), bytes()] | [1, int()] | [2, int(), int()] | [5, int(), str() | None]:
            return True
        case [3, inner]:
            return is_form(inner)
        case [4, list(links)]:
            return all(map(_is_link, links))
        case [6, dict(parts)]:
            return all(map(is_form, parts.values()))
        case [int(shape), *_]:
            return shape > DICT
    return False


def _is_link(value: Any) -> bool:
    match value:
        case [int(), str() | None]:
            return True
    return False


def references(form: Form) -> Iterator[tuple[int, ...]]:
    """What a form refers to: `(item,)` or `(chain, length)`."""
    shape = form[0]
    if shape in (SHARED, ONE):
        yield (form[1],)
    elif shape == CHAIN:
        yield form[1], form[2]
    elif shape == SNAPSHOT:
        yield from references(form[1])
    elif shape == LOOSE:
        for item, _ in form[1]:
            yield (item,)
    elif shape == DICT:
        for part in form[1].values():
            yield from references(part)


def lengths_and_items(forms: Iterable[Form]) -> tuple[dict[int, int], set[int]]:
    """How much of which chains forms refer to, and which items outside chains."""
    lengths: dict[int, int] = {}
    items: set[int] = set()
    for form in forms:
        for found in references(form):
            if len(found) == 1:
                items.add(found[0])
            else:
                lengths[found[0]] = max(found[1], lengths.get(found[0], 0))
    return lengths, items
