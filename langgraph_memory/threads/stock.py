"""Building values again from what the file holds.

Every read makes new objects, as two invocations must not share any that can change. A message that this saver has read
before is cast from its mould, which gives the same object ten times faster than the serializer does.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

from langgraph.checkpoint.serde.types import _DeltaSnapshot

from ..errors import DamagedDatabaseError
from .blocks import Moulds
from .chains import StoredMessage, read_messages
from .codec import Codec
from .collecting import collecting_later
from .items import read_items
from .messages import Key, joined
from .moulds import Mould, cast, mould_of
from .tips import Tip, Tips
from .values import CHAIN, DICT, INLINE, LOOSE, ONE, SHARED, SNAPSHOT, Form, lengths_and_items


class ChainStock:
    """The beginning of a chain, as messages that were read before and rows for the rest."""

    def __init__(self, tip: Tip) -> None:
        self.tip = tip
        self.start = next((at for at, mould in enumerate(tip.moulds.all) if not _casts(mould)), len(tip.moulds))
        self.rows: list[StoredMessage] = []

    def fetch(self, db: sqlite3.Connection, length: int) -> None:
        if length > self.start + len(self.rows):
            self.rows = read_messages(db, self.tip.chain, self.start, length)

    def messages(self, codec: Codec, length: int) -> list[Any]:
        """The first `length` messages; what had to be read for them is added to the tip."""
        with collecting_later(length):
            known = self.tip.moulds.all[:length]
            missing = [at for at in range(length) if at >= len(known) or not _casts(known[at])]
            read = self._read(codec, missing) if missing else {}
            made: list[Any] = cast(self.tip.moulds.all[:length])
        for at, message in read.items():
            made[at] = message
        return made

    def _read(self, codec: Codec, missing: list[int]) -> dict[int, Any]:
        """Learn what messages look like; those that only the serializer could read."""
        read: dict[int, Any] = {}
        more = [None] * max(0, missing[-1] + 1 - len(self.tip.keys))
        keys: list[Any] = [*self.tip.keys, *more]
        moulds = [*self.tip.moulds.all, *more]
        for at in missing:
            row = self.rows[at - self.start]
            mould = codec.usual(row.type, row.data)
            if mould is None:
                read[at] = joined(codec.load(row.type, row.data), row.id)
                mould = mould_of(read[at], len(row.data), read=True)
            elif row.id is not None:
                mould.values["id"] = row.id
            keys[at], moulds[at] = Key(row.digest, row.id), mould
        self.tip = Tip(self.tip.chain, keys, Moulds(moulds, self.tip.moulds))
        return read


def _casts(mould: Mould | None) -> bool:
    return mould is not None and mould.fields is not None


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
                self.chains[chain] = ChainStock(self.tips.get(chain) or Tip(chain, [], Moulds()))
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
