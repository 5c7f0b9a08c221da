"""Building values again from what the file holds.

Every read makes new objects, as two invocations must not share any. A message that this saver has read before is made
again from its print, which gives the same object five times faster than the serializer does.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

from langgraph.checkpoint.serde.types import _DeltaSnapshot

from ..errors import DamagedDatabaseError
from .chains import StoredMessage, read_messages
from .codec import Codec
from .collecting import collecting_later
from .items import read_items
from .messages import Key, again, fields_of, joined, print_of
from .tips import Tip, Tips
from .values import CHAIN, DICT, INLINE, LOOSE, ONE, SHARED, SNAPSHOT, Form, lengths_and_items


class ChainStock:
    """The beginning of a chain, as messages that were read before and rows for the rest."""

    def __init__(self, tip: Tip) -> None:
        self.tip = tip
        self.start = next((at for at, fields in enumerate(tip.fields) if fields is None), len(tip.fields))
        self.rows: list[StoredMessage] = []

    def fetch(self, db: sqlite3.Connection, length: int) -> None:
        if length > self.start + len(self.rows):
            self.rows = read_messages(db, self.tip.chain, self.start, length)

    def messages(self, codec: Codec, length: int) -> list[Any]:
        """The first `length` messages; what had to be read for them is added to the tip."""
        known = self.tip.fields
        with collecting_later():
            made = [
                again(self.tip.prints[at], fields) if fields is not None else self._read(codec, at)
                for at, fields in enumerate(known[:length])
            ]
            made += [self._read(codec, at) for at in range(len(known), length)]
            self._learn(made)
        return made

    def _read(self, codec: Codec, at: int) -> Any:
        row = self.rows[at - self.start]
        return joined(codec.load(row.type, row.data), row.id)

    def _learn(self, made: list[Any]) -> None:
        old = self.tip
        new = [at for at in range(len(made)) if at >= len(old.fields) or old.fields[at] is None]
        if not new:
            return
        size = max(len(made), len(old.keys))
        tip = Tip(old.chain, _grown(old.keys, size), _grown(old.prints, size), _grown(old.fields, size))
        for at in new:
            tip.keys[at] = Key(self.rows[at - self.start].digest, self.rows[at - self.start].id)
            tip.prints[at] = print_of(made[at])
            tip.fields[at] = fields_of(made[at]) if type(tip.prints[at]) is bytes else None
        self.tip = tip


def _grown(known: list[Any], size: int) -> list[Any]:
    return known + [None] * (size - len(known))


class Stock:
    """The items and chains that forms refer to."""

    def __init__(self, tips: Tips) -> None:
        self.tips = tips
        self.items: dict[int, tuple[str, bytes]] = {}
        self.chains: dict[int, ChainStock] = {}

    def fetch(self, db: sqlite3.Connection, forms: Iterable[Form]) -> None:
        """Read what `forms` refer to and is not here yet."""
        lengths, items = lengths_and_items(forms)
        for chain, length in lengths.items():
            if chain not in self.chains:
                self.chains[chain] = ChainStock(self.tips.get(chain) or Tip(chain, [], [], []))
            self.chains[chain].fetch(db, length)
        self.items.update(read_items(db, items - self.items.keys()))


class Values:
    """Builds values from forms."""

    def __init__(self, codec: Codec, stock: Stock) -> None:
        self.codec, self.stock = codec, stock

    def value(self, form: Form) -> Any:
        match form:
            case [shape, type_, data] if shape == INLINE:
                return self.codec.load(type_, data)
            case [shape, item] if shape == SHARED:
                return self._item(item)
            case [shape, chain, length] if shape == CHAIN:
                return self.stock.chains[chain].messages(self.codec, length)
            case [shape, inner] if shape == SNAPSHOT:
                return _DeltaSnapshot(self.value(inner))
            case [shape, links] if shape == LOOSE:
                return [joined(self._item(item), message_id) for item, message_id in links]
            case [shape, item, message_id] if shape == ONE:
                return joined(self._item(item), message_id)
            case [shape, parts] if shape == DICT:
                return {key: self.value(part) for key, part in parts.items()}
        raise DamagedDatabaseError(f"A row holds a form that this version does not know: {form!r}.")

    def _item(self, number: int) -> Any:
        stored = self.stock.items.get(number)
        if stored is None:
            raise DamagedDatabaseError(f"The database holds no item {number}, which a checkpoint refers to.")
        return self.codec.load(*stored)
