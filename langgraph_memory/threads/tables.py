"""The tables that LangGraph's saver and ours have in common, read and copied row by row.

Plain functions over a `sqlite3` connection.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

from ..errors import ThreadExistsError
from .copies import Kept
from .getting import EXACT
from .schema import writing
from .shapes import Head
from .sweep import TABLES


def thread_ids(db: sqlite3.Connection) -> list[str]:
    return [row[0] for row in db.execute("SELECT DISTINCT thread_id FROM checkpoints ORDER BY thread_id")]


def heads_of(db: sqlite3.Connection, thread_id: str) -> list[Head]:
    rows = db.execute(
        "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, CAST(metadata AS BLOB) FROM checkpoints "
        "WHERE thread_id = ? ORDER BY checkpoint_id",
        (thread_id,),
    )
    return [Head(namespace, id, parent or None, about) for namespace, id, parent, about in rows]


def parents_of(db: sqlite3.Connection, thread_id: str) -> dict[str, str | None]:
    rows = db.execute(
        "SELECT checkpoint_id, nullif(parent_checkpoint_id, '') FROM checkpoints "
        "WHERE thread_id = ? AND checkpoint_ns = '' ORDER BY checkpoint_id",
        (thread_id,),
    )
    return dict(rows.fetchall())


def fork(db: sqlite3.Connection, thread_id: str, new_thread_id: str, plan: Callable[[list[Head]], list[Kept]]) -> None:
    with writing(db):
        copy_tables(db, thread_id, new_thread_id, plan)


def copy_tables(
    db: sqlite3.Connection, thread_id: str, new_thread_id: str, plan: Callable[[list[Head]], list[Kept]]
) -> None:
    """Copy the rows `plan` names under a new thread id. Raises `ThreadExistsError`."""
    if any(db.execute(f"SELECT 1 FROM {table} WHERE thread_id = ?", (new_thread_id,)).fetchone() for table in TABLES):
        raise existing(new_thread_id)
    kept = plan(heads_of(db, thread_id))
    _copy_table(db, "checkpoints", thread_id, new_thread_id, kept)
    _copy_table(db, "writes", thread_id, new_thread_id, [one for one in kept if one.with_writes])


def _copy_table(db: sqlite3.Connection, table: str, thread_id: str, new_thread_id: str, kept: Sequence[Kept]) -> None:
    columns = ", ".join(row[1] for row in db.execute(f"PRAGMA table_info({table})") if row[1] != "thread_id")
    db.executemany(
        f"INSERT INTO {table} (thread_id, {columns}) SELECT ?, {columns} FROM {table} {EXACT}",
        ((new_thread_id, thread_id, one.namespace, one.id) for one in kept),
    )


def existing(thread_id: str) -> ThreadExistsError:
    return ThreadExistsError(f"There is a thread {thread_id!r} already: name another one, or delete it first.")


def row_bytes(db: sqlite3.Connection, thread_id: str) -> int:
    """Bytes in the rows of a thread."""
    queries = (
        "SELECT sum(length(checkpoint) + length(metadata)) FROM checkpoints WHERE thread_id = ?",
        "SELECT sum(length(value)) FROM writes WHERE thread_id = ?",
    )
    return sum(int(db.execute(query, (thread_id,)).fetchone()[0] or 0) for query in queries)
