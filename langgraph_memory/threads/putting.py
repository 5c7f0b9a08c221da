"""Writing checkpoints and pending writes, each in one transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langgraph.checkpoint.base import WRITES_IDX_MAP, Checkpoint

from ..errors import UnstorableError
from . import branched, waiting
from .chains import item_of, settle
from .codec import Codec
from .ids import Where
from .items import store, thread_number
from .schema import BLOB, MESSAGE, writing
from .tips import Place, Tip, Tips
from .values import (
    CHAIN,
    DICT,
    INLINE,
    INLINE_BYTES,
    LOOSE,
    LOOSE_MESSAGES,
    ONE,
    SHARED,
    SNAPSHOT,
    Draft,
    Form,
    Mapping,
    Message,
    Messages,
    Snapshot,
    Value,
    draft,
)

INSERT_CHECKPOINT = (
    "INSERT OR REPLACE INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, "
    "checkpoint, metadata) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
INSERT_WRITE = (
    "INSERT OR {} INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


@dataclass(slots=True)
class CheckpointDraft:
    """A checkpoint as bytes. `at` is where it goes."""

    at: Where
    parent_id: str | None
    rest: tuple[str, bytes]
    """Everything but id and channel values."""
    values: dict[str, Draft]
    metadata: bytes
    held: list[list[Any]]
    """The lists of messages in it, for the queue."""
    watched: bool
    """Whether nobody wants a branch here."""


def draft_checkpoint(
    codec: Codec, tips: Tips, parent: Where, checkpoint: Checkpoint, metadata: dict[str, Any], watched: bool
) -> CheckpointDraft:
    rest = {name: value for name, value in checkpoint.items() if name not in ("id", "channel_values")}
    values = {
        channel: _draft(codec, tips, parent, channel, value) for channel, value in checkpoint["channel_values"].items()
    }
    at = Where(parent.thread_id, parent.namespace, checkpoint["id"])
    held = waiting.held_lists(checkpoint["channel_values"].values())
    return CheckpointDraft(at, parent.checkpoint_id, codec.dump(rest), values, as_json(metadata), held, watched)


def _draft(codec: Codec, tips: Tips, parent: Where, channel: str, value: Any) -> Draft:
    tip = tips.find(Place(parent.thread_id, parent.namespace, channel), parent.checkpoint_id)
    try:
        return draft(codec, value, tip)
    except UnstorableError as error:
        raise UnstorableError(f"Channel {channel!r}: {error}") from error.__cause__


def as_json(metadata: dict[str, Any]) -> bytes:
    try:
        # Not even NaN: SQLite would refuse every query that looks into the metadata of any thread.
        text = json.dumps(metadata, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UnstorableError(f"The metadata {metadata!r} cannot be stored: {error}. Nothing was written.") from error
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(metadata).encode()


class Settling:
    """Puts drafts into the tables of one thread, inside a transaction, and remembers the chains for after it."""

    def __init__(self, db: sqlite3.Connection, codec: Codec, at: Where) -> None:
        self.db, self.codec, self.at = db, codec, at
        self.thread = thread_number(db, at.thread_id)
        self.placed: list[tuple[Place, Tip]] = []

    def form(self, channel: str, value: Draft, *, longest: int = LOOSE_MESSAGES) -> Form:
        """The form of a draft; a list of more than `longest` messages becomes a chain."""
        match value:
            case Value(type_, data):
                if len(data) <= INLINE_BYTES:
                    return [INLINE, type_, data]
                return [SHARED, store(self.db, self.codec, self.thread, BLOB, self.codec.identified(type_, data))]
            case Message(key, body):
                return [ONE, store(self.db, self.codec, self.thread, MESSAGE, body), key.id]
            case Messages():
                return self._messages(channel, value, longest)
            case Snapshot(messages):
                return [SNAPSHOT, self._messages(channel, messages, 0)]
            case Mapping(parts):
                return [DICT, {key: self.form(f"{channel}\n{key}", part) for key, part in parts.items()}]

    def _messages(self, channel: str, messages: Messages, longest: int) -> Form:
        if len(messages.keys) <= longest:
            numbers = [item_of(self.db, self.codec, self.thread, key, messages) for key in messages.keys]
            return [LOOSE, [[number, key.id] for number, key in zip(numbers, messages.keys, strict=True)]]
        place = Place(self.at.thread_id, self.at.namespace, channel)
        chain, length = settle(self.db, self.codec, self.thread, place, messages)
        self.placed.append((place, Tip(chain, messages.keys, messages.moulds)))
        return [CHAIN, chain, length]


def put(db: sqlite3.Connection, codec: Codec, tips: Tips, row: CheckpointDraft) -> branched.Branch | None:
    """Write a checkpoint; the branch it has made, if nobody wanted one."""
    with writing(db):
        branch = branched.find(db, row.at, row.parent_id) if row.watched else None
        settling = Settling(db, codec, row.at)
        forms = {channel: settling.form(channel, value, longest=0) for channel, value in row.values.items()}
        frame = codec.pack([*row.rest, forms])
        db.execute(INSERT_CHECKPOINT, (*row.at, row.parent_id, *frame, row.metadata))
        waiting.acknowledge(db, row.at, row.held)
    remember(tips, settling)
    return branch


def remember(tips: Tips, settling: Settling) -> None:
    for place, tip in settling.placed:
        known = tips.get(tip.chain)
        if known is None or len(known.keys) <= len(tip.keys):
            tips.keep(place, settling.at.checkpoint_id, tip)
        elif settling.at.checkpoint_id:
            tips.name(place, settling.at.checkpoint_id, tip.chain)


@dataclass(slots=True)
class WritesDraft:
    """Pending writes of one task as bytes."""

    at: Where
    task_id: str
    task_path: str
    values: list[tuple[str, Draft]]


def draft_writes(
    codec: Codec, tips: Tips, at: Where, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
) -> WritesDraft:
    values = [(channel, _draft(codec, tips, at, channel, value)) for channel, value in writes]
    return WritesDraft(at, task_id, task_path, values)


def put_writes(db: sqlite3.Connection, codec: Codec, tips: Tips, task: WritesDraft) -> None:
    replace = all(channel in WRITES_IDX_MAP for channel, _ in task.values)
    statement = INSERT_WRITE.format("REPLACE" if replace else "IGNORE")
    with writing(db):
        settling = Settling(db, codec, task.at)
        rows = [
            (
                *task.at,
                task.task_id,
                task.task_path,
                WRITES_IDX_MAP.get(channel, position),
                channel,
                *_stored(settling, channel, value),
            )
            for position, (channel, value) in enumerate(task.values)
        ]
        db.executemany(statement, rows)
    remember(tips, settling)


def _stored(settling: Settling, channel: str, value: Draft) -> tuple[str, bytes]:
    """A small value as the plain saver stores it, anything else in our form."""
    form = settling.form(channel, value)
    if form[0] == INLINE:
        return settling.codec.seal(form[1], form[2])
    return settling.codec.pack(form)
