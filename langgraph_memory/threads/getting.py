"""Reading checkpoints: first every row they are made of, in one transaction, then the values.

Values are built on the connection's thread too: decoding a long thread takes longer than an event loop may be held up.
Every read builds new objects, as nothing may be shared between two invocations.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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

from . import frames
from .codec import Codec, is_ours
from .ids import Where
from .schema import reading
from .stock import Stock, Values
from .tips import Place, Tips
from .values import CHAIN, SNAPSHOT, Form

COLUMNS = (
    "thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, CAST(checkpoint AS BLOB), "
    "CAST(metadata AS BLOB)"
)
"""Bytes whatever they became: SQLite refuses a whole query for what is no text and says it is."""
WRITES = "task_id, channel, type, CAST(value AS BLOB), task_path, idx"
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


def unpacked(codec: Codec, row: Sequence[Any], writes: list[Write]) -> Row:
    thread_id, namespace, checkpoint_id, parent_id, type_, data, metadata = row
    at = Where(thread_id, namespace, checkpoint_id)
    if not is_ours(type_):
        return Row(at, parent_id, (type_, data), ("", b""), {}, metadata, writes)
    rest, forms = frames.frame(codec, type_, data)
    return Row(at, parent_id, None, rest, forms, metadata, writes)


def read_writes(db: sqlite3.Connection, at: Where, has_task_path: bool) -> list[Write]:
    columns = WRITES if has_task_path else WRITES.replace("task_path", "''")
    rows = db.execute(f"SELECT {columns} FROM writes {EXACT}", at).fetchall()
    return sorted(rows, key=lambda row: writes_sort_key(row[4], row[0], row[5]))


def write_forms(codec: Codec, writes: Iterable[Write]) -> list[Form]:
    return [frames.form(codec, type_, value) for _, _, type_, value, _, _ in writes if is_ours(type_)]


class Reader(Values):
    """Builds checkpoints and pending writes from rows and the stock."""

    def write(self, type_: str, data: bytes) -> Any:
        if is_ours(type_):
            return self.value(frames.form(self.codec, type_, data))
        return self.codec.load(type_, data)

    def writes(self, writes: Iterable[Write]) -> list[PendingWrite]:
        return [(task_id, channel, self.write(type_, data)) for task_id, channel, type_, data, _, _ in writes]

    def values(self, row: Row) -> dict[str, Any]:
        """The channel values of a checkpoint."""
        if row.plain is not None:
            return dict(frames.fields(self.codec, *row.plain).get("channel_values") or {})
        return {channel: self.value(form) for channel, form in row.forms.items()}

    def checkpoint(self, row: Row) -> Checkpoint:
        if row.plain is not None:
            return cast(Checkpoint, frames.fields(self.codec, *row.plain))
        rest = frames.fields(self.codec, *row.rest)
        return cast(Checkpoint, {**rest, "id": row.at.checkpoint_id, "channel_values": self.values(row)})

    def tuple(self, row: Row, config: RunnableConfig | None = None) -> CheckpointTuple:
        parent = Where(row.at.thread_id, row.at.namespace, row.parent_id).config() if row.parent_id else None
        metadata = cast(CheckpointMetadata, frames.metadata(row.metadata))
        return CheckpointTuple(
            config or row.at.config(), self.checkpoint(row), metadata, parent, self.writes(row.writes)
        )


def get(
    db: sqlite3.Connection, codec: Codec, tips: Tips, at: Where, config: RunnableConfig, has_task_path: bool
) -> CheckpointTuple | None:
    stock = Stock(tips)
    with frames.thread(at.thread_id):
        with reading(db):
            row = read_row(db, codec, at, has_task_path)
            if row is None:
                return None
            stock.fetch(db, [*row.forms.values(), *write_forms(codec, row.writes)])
        found = Reader(codec, stock).tuple(row, config if at.checkpoint_id else None)
    _remember(tips, row, stock)
    return found


def read_row(db: sqlite3.Connection, codec: Codec, at: Where, has_task_path: bool) -> Row | None:
    """A checkpoint with its pending writes."""
    query = f"SELECT {COLUMNS} FROM checkpoints {EXACT if at.checkpoint_id else NEWEST}"
    row = db.execute(query, at if at.checkpoint_id else at[:2]).fetchone()
    return row and unpacked(codec, row, read_writes(db, Where(*row[:3]), has_task_path))


def _remember(tips: Tips, row: Row, stock: Stock) -> None:
    """What was read saves the next put from serializing it, and the next read from building it from bytes."""
    for channel, form in row.forms.items():
        inner = form[1] if form[0] == SNAPSHOT else form
        if inner[0] == CHAIN:
            place = Place(row.at.thread_id, row.at.namespace, channel)
            tips.keep(place, row.at.checkpoint_id, stock.chains[inner[1]].tip)


def page(
    db: sqlite3.Connection, codec: Codec, tips: Tips, query: str, params: Sequence[Any], has_task_path: bool
) -> tuple[list[Row], Stock]:
    """Checkpoints that a query of `COLUMNS` finds, with everything they refer to."""
    stock = Stock(tips)
    with reading(db):
        found = db.execute(query, params).fetchall()
        rows = [_with_forms(db, codec, row, has_task_path) for row in found]
        stock.fetch(db, (form for _, forms in rows for form in forms))
    return [row for row, _ in rows], stock


def _with_forms(
    db: sqlite3.Connection, codec: Codec, found: Sequence[Any], has_task_path: bool
) -> tuple[Row, list[Form]]:
    with frames.thread(found[0]):
        row = unpacked(codec, found, read_writes(db, Where(*found[:3]), has_task_path))
        return row, [*row.forms.values(), *write_forms(codec, row.writes)]


def delta_history(
    db: sqlite3.Connection, codec: Codec, tips: Tips, at: Where, channels: Sequence[str], has_task_path: bool
) -> dict[str, DeltaChannelHistory]:
    """What each channel was given on the way from its nearest stored value to `at`, oldest first."""
    seeds: dict[str, Any] = {}
    writes: dict[str, list[PendingWrite]] = {channel: [] for channel in channels}
    with reading(db), frames.thread(at.thread_id):
        for row in ancestors(db, codec, at, has_task_path):
            missing = [channel for channel in channels if channel not in seeds]
            if not missing:
                break
            row.writes = [write for write in row.writes if write[1] in missing]
            row.forms = {channel: form for channel, form in row.forms.items() if channel in missing}
            reader = Reader(codec, Stock(tips))
            reader.stock.fetch(db, [*row.forms.values(), *write_forms(codec, row.writes)])
            for write in reversed(reader.writes(row.writes)):
                writes[write[1]].append(write)
            seeds.update({channel: value for channel, value in reader.values(row).items() if channel in missing})
            _remember(tips, row, reader.stock)
    return {channel: _history(channel, writes, seeds) for channel in channels}


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
