"""Reading checkpoints: first every row they are made of, in one transaction, then the values.

Values are built on the connection's thread too: decoding a long thread takes longer than an event loop may be held up.
Every read builds new objects, as nothing may be shared between two invocations.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    writes_sort_key,
)
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from ..errors import DamagedDatabaseError
from .chains import StoredMessage, load_tip, read_messages
from .codec import Codec, is_ours
from .ids import Where
from .items import read_items
from .messages import joined, print_of
from .schema import reading
from .tips import Place, Tip, Tips
from .values import CHAIN, DICT, INLINE, LOOSE, ONE, SHARED, SNAPSHOT, Form, references

COLUMNS = "thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata"
WRITES = "task_id, channel, type, value, task_path, idx"
EXACT = "WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
NEWEST = "WHERE thread_id = ? AND checkpoint_ns = ? ORDER BY checkpoint_id DESC LIMIT 1"

Write = tuple[str, str, str, bytes, str, int]


@dataclass(slots=True)
class Row:
    """A row of `checkpoints`, unpacked if it is in our form."""

    at: Where
    parent_id: str | None
    plain: tuple[str, bytes] | None
    """The whole checkpoint, in a row of the plain saver."""
    rest: tuple[str, bytes]
    forms: dict[str, Form]
    metadata: bytes | None
    writes: list[Write]


@dataclass(slots=True)
class Stock:
    """Items and chains that forms refer to, as they are stored."""

    items: dict[int, tuple[str, bytes]] = field(default_factory=dict)
    chains: dict[int, list[StoredMessage]] = field(default_factory=dict)

    def fetch(self, db: sqlite3.Connection, forms: Iterable[Form]) -> None:
        """Read what `forms` refer to and is not here yet."""
        lengths: dict[int, int] = {}
        wanted: set[int] = set()
        for form in forms:
            for found in references(form):
                if len(found) == 1:
                    wanted.add(found[0])
                else:
                    lengths[found[0]] = max(found[1], lengths.get(found[0], 0))
        for chain, length in lengths.items():
            if len(self.chains.get(chain, ())) < length:
                self.chains[chain] = read_messages(db, chain, length)
        self.items.update(read_items(db, wanted - self.items.keys()))


def unpacked(codec: Codec, row: Sequence[Any], writes: list[Write]) -> Row:
    thread_id, namespace, checkpoint_id, parent_id, type_, data, metadata = row
    at = Where(thread_id, namespace, checkpoint_id)
    if not is_ours(type_):
        return Row(at, parent_id, (type_, data), ("", b""), {}, metadata, writes)
    rest_type, rest, forms = codec.unpack(type_, data)
    return Row(at, parent_id, None, (rest_type, rest), forms, metadata, writes)


def read_writes(db: sqlite3.Connection, at: Where, has_task_path: bool) -> list[Write]:
    columns = WRITES if has_task_path else WRITES.replace("task_path", "''")
    rows = db.execute(f"SELECT {columns} FROM writes {EXACT}", at).fetchall()
    return sorted(rows, key=lambda row: writes_sort_key(row[4], row[0], row[5]))


def write_forms(codec: Codec, writes: Iterable[Write]) -> list[Form]:
    return [codec.unpack(type_, value) for _, _, type_, value, _, _ in writes if is_ours(type_)]


class Reader:
    """Builds values from forms and the stock."""

    def __init__(self, codec: Codec, stock: Stock) -> None:
        self.codec, self.stock = codec, stock

    def value(self, form: Form) -> Any:
        match form:
            case [shape, type_, data] if shape == INLINE:
                return self.codec.load(type_, data)
            case [shape, item] if shape == SHARED:
                return self._item(item)
            case [shape, chain, length] if shape == CHAIN:
                load = self.codec.load
                return [joined(load(type_, data), name) for name, type_, data in self.stock.chains[chain][:length]]
            case [shape, inner] if shape == SNAPSHOT:
                return _DeltaSnapshot(self.value(inner))
            case [shape, links] if shape == LOOSE:
                return [self._message(*link) for link in links]
            case [shape, item, message_id] if shape == ONE:
                return self._message(item, message_id)
            case [shape, parts] if shape == DICT:
                return {key: self.value(part) for key, part in parts.items()}
        raise DamagedDatabaseError(f"A row holds a form that this version does not know: {form!r}.")

    def _message(self, item: int, message_id: str | None) -> Any:
        return joined(self._item(item), message_id)

    def _item(self, number: int) -> Any:
        stored = self.stock.items.get(number)
        if stored is None:
            raise DamagedDatabaseError(f"The database holds no item {number}, which a checkpoint refers to.")
        return self.codec.load(*stored)

    def write(self, type_: str, data: bytes) -> Any:
        if is_ours(type_):
            return self.value(self.codec.unpack(type_, data))
        return self.codec.load(type_, data)

    def writes(self, writes: Iterable[Write]) -> list[PendingWrite]:
        return [(task_id, channel, self.write(type_, data)) for task_id, channel, type_, data, _, _ in writes]

    def checkpoint(self, row: Row) -> Checkpoint:
        if row.plain is not None:
            return cast(Checkpoint, self.codec.load(*row.plain))
        rest = self.codec.load(*row.rest)
        values = {channel: self.value(form) for channel, form in row.forms.items()}
        return cast(Checkpoint, {**rest, "id": row.at.checkpoint_id, "channel_values": values})

    def tuple(self, row: Row, config: RunnableConfig | None = None) -> CheckpointTuple:
        parent = Where(row.at.thread_id, row.at.namespace, row.parent_id).config() if row.parent_id else None
        metadata = cast(CheckpointMetadata, json.loads(row.metadata) if row.metadata is not None else {})
        return CheckpointTuple(
            config or row.at.config(), self.checkpoint(row), metadata, parent, self.writes(row.writes)
        )


def get(
    db: sqlite3.Connection, codec: Codec, tips: Tips, at: Where, config: RunnableConfig, has_task_path: bool
) -> CheckpointTuple | None:
    stock = Stock()
    with reading(db):
        row = read_row(db, codec, at, has_task_path)
        if row is None:
            return None
        stock.fetch(db, [*row.forms.values(), *write_forms(codec, row.writes)])
        unknown = {chain: load_tip(db, chain, length) for chain, length in _unknown(tips, row)}
    found = Reader(codec, stock).tuple(row, config if at.checkpoint_id else None)
    _remember(tips, row, found.checkpoint["channel_values"], unknown)
    return found


def read_row(db: sqlite3.Connection, codec: Codec, at: Where, has_task_path: bool) -> Row | None:
    """A checkpoint with its pending writes."""
    query = f"SELECT {COLUMNS} FROM checkpoints {EXACT if at.checkpoint_id else NEWEST}"
    row = db.execute(query, at if at.checkpoint_id else at[:2]).fetchone()
    return row and unpacked(codec, row, read_writes(db, Where(*row[:3]), has_task_path))


def _unknown(tips: Tips, row: Row) -> Iterable[tuple[int, int]]:
    """Chains of a checkpoint's channels that are not remembered, or not as far, and their lengths."""
    for _, chain, length in _chains(row):
        known = tips.get(chain)
        if known is None or len(known.keys) < length:
            yield chain, length


def _chains(row: Row) -> Iterable[tuple[str, int, int]]:
    for channel, form in row.forms.items():
        inner = form[1] if form[0] == SNAPSHOT else form
        if inner[0] == CHAIN:
            yield channel, inner[1], inner[2]


def _remember(tips: Tips, row: Row, values: dict[str, Any], unknown: dict[int, Tip]) -> None:
    """Prints of the messages just read save the next put from serializing them all."""
    at = row.at
    for channel, chain, _ in _chains(row):
        place = Place(at.thread_id, at.namespace, channel)
        if tip := unknown.get(chain):
            value = values[channel]
            messages = value.value if isinstance(value, _DeltaSnapshot) else value
            tips.keep(place, at.checkpoint_id, Tip(chain, tip.keys, list(map(print_of, messages))))
        elif at.checkpoint_id:
            tips.name(place, at.checkpoint_id, chain)


def page(
    db: sqlite3.Connection, codec: Codec, query: str, params: Sequence[Any], has_task_path: bool
) -> tuple[list[Row], Stock]:
    """Checkpoints that a query of `COLUMNS` finds, with everything they refer to."""
    stock = Stock()
    with reading(db):
        found = db.execute(query, params).fetchall()
        rows = [unpacked(codec, row, read_writes(db, Where(*row[:3]), has_task_path)) for row in found]
        stock.fetch(db, (form for row in rows for form in (*row.forms.values(), *write_forms(codec, row.writes))))
    return rows, stock


def delta_history(
    db: sqlite3.Connection, codec: Codec, at: Where, channels: Sequence[str], has_task_path: bool
) -> dict[str, DeltaChannelHistory]:
    """What each channel was given on the way from its nearest stored value to `at`, oldest first."""
    seeds: dict[str, Any] = {}
    writes: dict[str, list[PendingWrite]] = {channel: [] for channel in channels}
    with reading(db):
        for row in ancestors(db, codec, at, has_task_path):
            missing = [channel for channel in channels if channel not in seeds]
            if not missing:
                break
            _step(db, codec, row, missing, seeds, writes)
    return {channel: _history(channel, writes, seeds) for channel in channels}


def _step(
    db: sqlite3.Connection,
    codec: Codec,
    row: Row,
    missing: Sequence[str],
    seeds: dict[str, Any],
    writes: dict[str, list[PendingWrite]],
) -> None:
    own = [write for write in row.writes if write[1] in missing]
    if row.plain is not None:
        values = codec.load(*row.plain).get("channel_values") or {}
        row.forms = {}
        seeds.update({channel: values[channel] for channel in missing if channel in values})
    stored = {channel: row.forms[channel] for channel in missing if channel in row.forms}
    stock = Stock()
    stock.fetch(db, [*stored.values(), *write_forms(codec, own)])
    reader = Reader(codec, stock)
    seeds.update({channel: reader.value(form) for channel, form in stored.items()})
    for write in reversed(reader.writes(own)):
        writes[write[1]].append(write)


def _history(channel: str, writes: dict[str, list[PendingWrite]], seeds: dict[str, Any]) -> DeltaChannelHistory:
    found: DeltaChannelHistory = {"writes": writes[channel][::-1]}
    if channel in seeds:
        found["seed"] = seeds[channel]
    return found


def ancestors(db: sqlite3.Connection, codec: Codec, at: Where, has_task_path: bool) -> Iterable[Row]:
    """The checkpoints before `at`, nearest first. A chain that leads back into itself ends there."""
    seen: set[str] = set()
    row = read_row(db, codec, at, has_task_path)
    while row is not None and row.parent_id and row.parent_id not in seen:
        seen.add(row.at.checkpoint_id or "")
        row = read_row(db, codec, row.at._replace(checkpoint_id=row.parent_id), has_task_path)
        if row is not None and row.at.checkpoint_id not in seen:
            yield row
