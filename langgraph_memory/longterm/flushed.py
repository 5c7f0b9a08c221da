"""What has been flushed: bookkeeping in the index of a namespace, as functions on a connection in a transaction.

A message is flushed once. It is known by thread and key, which an edit leaves as it is, and by the digest of all
messages up to it, by which a fork of the thread is known to say the same. Both stand in `flushed`, written in the
transaction that writes the entries. A *mark* a thread names the newest flushed message, so that looking for what is not
flushed costs what came since.

What is *due* is written down before work is handed to the background, and goes when it is done. Whoever works on a
thread *claims* it for a while and prolongs that; the claim of a process that died runs out.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from langchain_core.messages import BaseMessage

from ..context.text import clean_text

TABLES = (
    "CREATE TABLE IF NOT EXISTS flushed (thread TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL, "
    "PRIMARY KEY (thread, key)) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS flushed_by_digest ON flushed (digest)",
    "CREATE TABLE IF NOT EXISTS flush_marks (thread TEXT PRIMARY KEY, key TEXT NOT NULL, digest TEXT NOT NULL, "
    "time REAL NOT NULL)",
    "CREATE TABLE IF NOT EXISTS flush_due (thread TEXT PRIMARY KEY, checkpoint TEXT, key TEXT NOT NULL, "
    "reason TEXT NOT NULL, time REAL NOT NULL)",
    "CREATE TABLE IF NOT EXISTS flush_claims (thread TEXT PRIMARY KEY, owner TEXT NOT NULL, until REAL NOT NULL)",
    "CREATE TABLE IF NOT EXISTS flush_failures (thread TEXT NOT NULL, digest TEXT NOT NULL, count INTEGER NOT NULL, "
    "PRIMARY KEY (thread, digest))",
)
CLAIM_SECONDS = 10.0
"""How long a claim holds if it is not prolonged."""
UNKNOWN = ""
"""For the digest of a mark that was found in the ledger."""


class Rows(Protocol):
    """Messages with their keys and prefix digests, as `History` has them."""

    @property
    def messages(self) -> Sequence[BaseMessage]: ...
    @property
    def keys(self) -> Sequence[str]: ...
    @property
    def digests(self) -> Sequence[bytes]: ...


class Mark(NamedTuple):
    """The newest flushed message of a thread."""

    key: str
    digest: str
    time: float


class Due(NamedTuple):
    """An intention: the messages of a thread up to `key` are to be flushed."""

    thread: str
    checkpoint: str | None
    key: str
    reason: str
    time: float


class AlreadyFlushedError(Exception):
    """Somebody else has flushed one of the messages meanwhile; nothing was written."""


# What is not flushed yet


def unflushed(db: sqlite3.Connection, thread: str, rows: Rows, end: int | None = None) -> list[int]:
    """Positions below `end` of the messages that were flushed neither here nor in a thread this one forked from."""
    size = len(rows.keys) if end is None else min(end, len(rows.keys))
    positions = range(_marked(db, thread, rows, size), size)
    known = _known(db, thread, rows, positions)
    return [position for position in positions if position not in known]


def _marked(db: sqlite3.Connection, thread: str, rows: Rows, size: int) -> int:
    """The position behind the mark; 0 where that is not found, or what is before it has changed."""
    if (mark := mark_of(db, thread)) is None:
        return 0
    # The newest messages first: that is where the mark mostly is.
    for position in range(size - 1, -1, -1):
        if clean_text(rows.keys[position]) == mark.key:
            return position + 1 if mark.digest in (UNKNOWN, rows.digests[position].hex()) else 0
    return 0


def _known(db: sqlite3.Connection, thread: str, rows: Rows, positions: Sequence[int]) -> set[int]:
    """Those of `positions` whose message is flushed, by its key in this thread or by what was said up to it in any."""
    asked = json.dumps([[i, clean_text(rows.keys[i]), rows.digests[i].hex()] for i in positions])
    found = db.execute(
        "SELECT json_extract(value, '$[0]') FROM json_each(?) WHERE "
        "EXISTS (SELECT 1 FROM flushed WHERE thread = ? AND key = json_extract(value, '$[1]')) "
        "OR EXISTS (SELECT 1 FROM flushed WHERE digest = json_extract(value, '$[2]'))",
        (asked, thread),
    )
    return {row[0] for row in found}


def mark_of(db: sqlite3.Connection, thread: str) -> Mark | None:
    row = db.execute("SELECT key, digest, time FROM flush_marks WHERE thread = ?", (thread,)).fetchone()
    return Mark(*row) if row else None


# Marking


def mark_flushed(db: sqlite3.Connection, thread: str, rows: Rows, positions: Sequence[int], now: float) -> None:
    """Note that the messages at `positions` are flushed, as all before them are.

    Raises `AlreadyFlushedError` where one of them was.
    """
    if not positions:
        return
    if _known(db, thread, rows, positions):
        raise AlreadyFlushedError(thread)
    mark = mark_of(db, thread)
    if mark is None or mark.digest == UNKNOWN or not _marked(db, thread, rows, positions[0]):
        _note(db, thread, rows, range(positions[0]))
    _insert(db, thread, rows, positions)
    newest = clean_text(rows.keys[positions[-1]]), rows.digests[positions[-1]].hex()
    db.execute("INSERT OR REPLACE INTO flush_marks VALUES (?, ?, ?, ?)", (thread, *newest, now))
    db.execute(
        "DELETE FROM flush_due WHERE thread = ? AND key IN (SELECT value FROM json_each(?))",
        (thread, json.dumps([clean_text(rows.keys[position]) for position in positions])),
    )


def _note(db: sqlite3.Connection, thread: str, rows: Rows, positions: Sequence[int]) -> None:
    """Note flushed messages as they are in this thread now: in a fork, after an edit, after the index was lost.

    So a fork of the thread as it is now knows them by their digests, and the thread itself by their keys.
    """
    _insert(db, thread, rows, positions)
    db.executemany(
        "INSERT OR IGNORE INTO flushed SELECT ?, '=' || ?2, ?2 "
        "WHERE NOT EXISTS (SELECT 1 FROM flushed WHERE digest = ?2)",
        ((thread, rows.digests[position].hex()) for position in positions),
    )


def _insert(db: sqlite3.Connection, thread: str, rows: Rows, positions: Iterable[int]) -> None:
    values = ((thread, clean_text(rows.keys[i]), rows.digests[i].hex()) for i in positions)
    db.executemany("INSERT OR IGNORE INTO flushed VALUES (?, ?, ?)", values)


def forget_thread(db: sqlite3.Connection, thread: str) -> None:
    """Everything that is kept about a thread goes, for one that was removed."""
    for table in ("flushed", "flush_marks", "flush_due", "flush_claims", "flush_failures"):
        db.execute(f"DELETE FROM {table} WHERE thread = ?", (thread,))


# An index that was lost


def recover(db: sqlite3.Connection, thread: str, key: str) -> None:
    """Take what the ledger says for the mark of a thread that has none: the newest message that it has entries of.

    Messages behind it are flushed again; what they say is mostly there already, and that is not written twice.
    """
    db.execute("INSERT OR IGNORE INTO flush_marks VALUES (?, ?, ?, ?)", (thread, clean_text(key), UNKNOWN, 0.0))


# What is due


def set_due(
    db: sqlite3.Connection, thread: str, key: str, *, checkpoint: str | None = None, reason: str = "", now: float
) -> None:
    """Note that the messages of a thread up to `key` are to be flushed; one note a thread, the newest."""
    row = thread, checkpoint, clean_text(key), reason, now
    db.execute("INSERT OR REPLACE INTO flush_due VALUES (?, ?, ?, ?, ?)", row)


def due(db: sqlite3.Connection) -> list[Due]:
    """What was to be flushed and is not yet, oldest first."""
    return [Due(*row) for row in db.execute("SELECT * FROM flush_due ORDER BY time, thread")]


def due_of(db: sqlite3.Connection, thread: str) -> Due | None:
    row = db.execute("SELECT * FROM flush_due WHERE thread = ?", (thread,)).fetchone()
    return Due(*row) if row else None


def settle(db: sqlite3.Connection, done: Due) -> None:
    """A note goes, unless there is a newer one for the thread."""
    db.execute("DELETE FROM flush_due WHERE thread = ? AND key = ? AND time = ?", (done.thread, done.key, done.time))


# Claims


def claim(db: sqlite3.Connection, thread: str, owner: str, now: float) -> bool:
    """Whether `owner` may flush the thread; if so, nobody else may for a while or until the release."""
    # One that ends later than any claim may was made before the clock was put back.
    db.execute("DELETE FROM flush_claims WHERE until <= ? OR until > ?", (now, now + 2 * CLAIM_SECONDS))
    taken = db.execute(
        "INSERT INTO flush_claims VALUES (?, ?, ?) "
        "ON CONFLICT (thread) DO UPDATE SET until = excluded.until WHERE owner = excluded.owner",
        (thread, owner, now + CLAIM_SECONDS),
    )
    return taken.rowcount == 1


def release(db: sqlite3.Connection, thread: str, owner: str) -> None:
    db.execute("DELETE FROM flush_claims WHERE thread = ? AND owner = ?", (thread, owner))


# Failures


def failed(db: sqlite3.Connection, thread: str, digest: str) -> int:
    """Count a failure of the chunk that begins with the message of `digest`; how many there are in a row."""
    row = db.execute(
        "INSERT INTO flush_failures VALUES (?, ?, 1) "
        "ON CONFLICT (thread, digest) DO UPDATE SET count = count + 1 RETURNING count",
        (thread, digest),
    ).fetchone()
    return int(row[0])


def succeeded(db: sqlite3.Connection, thread: str) -> None:
    """A chunk of the thread was flushed, so failures are no longer in a row."""
    db.execute("DELETE FROM flush_failures WHERE thread = ?", (thread,))
