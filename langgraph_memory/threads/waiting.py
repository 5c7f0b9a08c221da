"""The rows of the queue: messages that wait for a run of their thread. SQL only; `queue` is what programs use.

A row goes when a checkpoint that holds its message is written, in the same transaction: whatever happens to the
process, the message is in the queue or in the thread, and never in neither.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from .codec import Codec
from .ids import Where
from .schema import writing

IDS = "SELECT message_id FROM lgm_queue WHERE thread_id = ?"
ROWS = "SELECT type, data FROM lgm_queue WHERE thread_id = ? ORDER BY id"
# A message that is put again keeps its place, as in the state of a graph.
INSERT = (
    "INSERT INTO lgm_queue (thread_id, message_id, kind, type, data) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT (thread_id, message_id) DO UPDATE SET kind = excluded.kind, type = excluded.type, data = excluded.data"
)


def add(db: sqlite3.Connection, codec: Codec, thread_id: str, kind: str, messages: Sequence[BaseMessage]) -> None:
    rows = [(thread_id, message.id, kind, *codec.seal(*codec.dump(message))) for message in messages]
    with writing(db):
        db.executemany(INSERT, rows)


def messages(db: sqlite3.Connection, codec: Codec, thread_id: str) -> list[BaseMessage]:
    """What waits, in order."""
    return [codec.load(*row) for row in db.execute(ROWS, (thread_id,)).fetchall()]


def remove(db: sqlite3.Connection, thread_id: str, message_ids: Iterable[str | None]) -> None:
    rows = [(thread_id, message_id) for message_id in message_ids]
    if rows:
        with writing(db):
            _delete(db, rows)


def clear(db: sqlite3.Connection, thread_id: str) -> None:
    with writing(db):
        db.execute("DELETE FROM lgm_queue WHERE thread_id = ?", (thread_id,))


def held_lists(values: Iterable[Any]) -> list[list[Any]]:
    """The lists of messages among channel values, as they are now."""
    lists = (value.value if isinstance(value, _DeltaSnapshot) else value for value in values)
    return [list(value) for value in lists if isinstance(value, list) and value and isinstance(value[0], BaseMessage)]


def acknowledge(db: sqlite3.Connection, at: Where, held: Iterable[Iterable[Any]]) -> None:
    """Remove what the checkpoint `at` holds. Inside the transaction that writes it."""
    # A graph inside that keeps nothing between two calls may never hand its messages over.
    if ":" in at.namespace:
        return
    waiting = {row[0] for row in db.execute(IDS, (at.thread_id,))}
    if waiting:
        taken = waiting.intersection(getattr(message, "id", None) for messages in held for message in messages)
        _delete(db, [(at.thread_id, message_id) for message_id in taken])


def _delete(db: sqlite3.Connection, rows: Sequence[tuple[str, str | None]]) -> None:
    db.executemany("DELETE FROM lgm_queue WHERE thread_id = ? AND message_id = ?", rows)
