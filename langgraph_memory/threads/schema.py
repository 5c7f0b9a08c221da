"""The tables of a database of threads, and transactions on it.

`checkpoints` and `writes` are those of `AsyncSqliteSaver`, unchanged. Ours stand beside them:

- `lgm_items`: every message and every larger value once, by the digest of its bytes. `kind` says which it is. A message
  stands here without its id, so that it is the same before and after a reducer gives it one.
- `lgm_chains`, `lgm_links`: a chain is a list of messages that only grows. It may begin with the first `fork` messages
  of its `parent`; its own stand in `lgm_links`, with their ids. A checkpoint names a chain and a length, so whatever
  was said before a fork is stored once. A chain that is not `open` has lost its end and is never added to again.
- `lgm_threads`, `lgm_item_holds`, `lgm_chain_holds`: which threads use which items and chains, through checkpoints or
  pending writes. What no thread holds is removed in the transaction that let go of it.
- `lgm_queue`, `lgm_documents`: messages that wait for a run of their thread, and small JSON documents of threads. Both
  name their thread by its id, as it may not exist yet; they go with it and are not copied.
- `lgm_migrations`: which of the migrations below this file has seen.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import DatabaseVersionError

BUSY_SECONDS = 60
BLOB, MESSAGE = 0, 1

UPSTREAM = (
    "CREATE TABLE IF NOT EXISTS checkpoints (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', "
    "checkpoint_id TEXT NOT NULL, parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB, "
    "PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id))",
    "CREATE TABLE IF NOT EXISTS writes (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', "
    "checkpoint_id TEXT NOT NULL, task_id TEXT NOT NULL, task_path TEXT NOT NULL DEFAULT '', idx INTEGER NOT NULL, "
    "channel TEXT NOT NULL, type TEXT, value BLOB, "
    "PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx))",
)


def first_tables(db: sqlite3.Connection) -> None:
    for statement in (
        "CREATE TABLE lgm_items (id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, kind INTEGER NOT NULL, "
        "type TEXT NOT NULL, data BLOB NOT NULL)",
        # Never the number of a chain that was removed: other processes may still know that one.
        "CREATE TABLE lgm_chains (id INTEGER PRIMARY KEY AUTOINCREMENT, place TEXT NOT NULL, "
        "parent INTEGER, fork INTEGER NOT NULL, length INTEGER NOT NULL, open INTEGER NOT NULL DEFAULT 1)",
        "CREATE INDEX lgm_chains_place ON lgm_chains (place)",
        "CREATE TABLE lgm_links (chain INTEGER NOT NULL, position INTEGER NOT NULL, item INTEGER NOT NULL, "
        "message_id TEXT, PRIMARY KEY (chain, position)) WITHOUT ROWID",
        "CREATE INDEX lgm_links_item ON lgm_links (item)",
        "CREATE TABLE lgm_threads (id INTEGER PRIMARY KEY AUTOINCREMENT, thread_id TEXT NOT NULL UNIQUE)",
        "CREATE TABLE lgm_item_holds (thread INTEGER NOT NULL, held INTEGER NOT NULL, PRIMARY KEY (thread, held)) "
        "WITHOUT ROWID",
        "CREATE INDEX lgm_item_holds_held ON lgm_item_holds (held)",
        "CREATE TABLE lgm_chain_holds (thread INTEGER NOT NULL, held INTEGER NOT NULL, PRIMARY KEY (thread, held)) "
        "WITHOUT ROWID",
        "CREATE INDEX lgm_chain_holds_held ON lgm_chain_holds (held)",
        "CREATE TABLE lgm_keys (name TEXT PRIMARY KEY, type TEXT NOT NULL, data BLOB NOT NULL) WITHOUT ROWID",
    ):
        db.execute(statement)


def queue_and_documents(db: sqlite3.Connection) -> None:
    for statement in (
        "CREATE TABLE lgm_queue (id INTEGER PRIMARY KEY AUTOINCREMENT, thread_id TEXT NOT NULL, "
        "message_id TEXT NOT NULL, kind TEXT NOT NULL, type TEXT NOT NULL, data BLOB NOT NULL, "
        "UNIQUE (thread_id, message_id))",
        "CREATE TABLE lgm_documents (thread_id TEXT NOT NULL, name TEXT NOT NULL, type TEXT NOT NULL, "
        "data BLOB NOT NULL, PRIMARY KEY (thread_id, name))",
    ):
        db.execute(statement)


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (first_tables, queue_and_documents)
"""What brings a file to the next version; appended to, never edited."""


@contextmanager
def reading(db: sqlite3.Connection) -> Iterator[None]:
    """A transaction in which every read sees the same state of the file."""
    _settle(db)
    db.execute("BEGIN")
    try:
        yield
    finally:
        db.rollback()


@contextmanager
def writing(db: sqlite3.Connection) -> Iterator[None]:
    """A transaction that is finished, or undone by any error. Waits for other writers."""
    _settle(db)
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.commit()
    except BaseException as error:
        db.rollback()
        if isinstance(error, sqlite3.OperationalError) and "no such table: lgm_" in str(error):
            raise sqlite3.OperationalError(f"attempt to write a readonly database: {file_of(db)}") from error
        raise


def _settle(db: sqlite3.Connection) -> None:
    # Statements that the owner of the connection ran beside us, as the plain saver's next commit would have done.
    if db.in_transaction:
        db.commit()


def prepare(db: sqlite3.Connection) -> bool:
    """Make the file ready for use; whether `writes` has the column `task_path`.

    A file that can only be read, of the plain saver and without our tables, is left as it is.
    """
    db.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
    if _version(db) < len(MIGRATIONS) or not _has_task_path(db):
        _make_private(db)
        try:
            _use_wal(db)
            with writing(db):
                _migrate(db)
        except sqlite3.OperationalError as error:
            if "readonly" not in str(error) or not _has_table(db, "checkpoints"):
                raise
    else:
        _use_wal(db)
    return _has_task_path(db)


def _migrate(db: sqlite3.Connection) -> None:
    for statement in UPSTREAM:
        db.execute(statement)
    if not _has_task_path(db):
        db.execute("ALTER TABLE writes ADD COLUMN task_path TEXT NOT NULL DEFAULT ''")
    db.execute("CREATE TABLE IF NOT EXISTS lgm_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL)")
    # Read again: another process may have done it in the meantime.
    done = _version(db)
    for version, migrate in enumerate(MIGRATIONS[done:], done + 1):
        migrate(db)
        db.execute("INSERT INTO lgm_migrations VALUES (?, ?)", (version, migrate.__name__))


def _version(db: sqlite3.Connection) -> int:
    if not _has_table(db, "lgm_migrations"):
        return 0
    version = db.execute("SELECT max(version) FROM lgm_migrations").fetchone()[0] or 0
    if version > len(MIGRATIONS):
        raise DatabaseVersionError(
            f"{file_of(db) or ':memory:'}: the tables of langgraph_memory in this file have version {version}, this "
            f"library knows versions up to {len(MIGRATIONS)}. Upgrade langgraph-memory-middleware, or use another file."
        )
    return int(version)


def _has_table(db: sqlite3.Connection, name: str) -> bool:
    return db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)).fetchone() is not None


def _has_task_path(db: sqlite3.Connection) -> bool:
    return any(row[1] == "task_path" for row in db.execute("PRAGMA table_info(writes)"))


def _use_wal(db: sqlite3.Connection) -> None:
    """Switch to the write-ahead log. SQLite refuses instead of waiting while somebody else uses the file."""
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.01)


def _make_private(db: sqlite3.Connection) -> None:
    """A new file is for its owner only: it will hold what people said."""
    file = file_of(db)
    if file and not db.execute("SELECT 1 FROM sqlite_master").fetchone():
        # A file system without modes has nobody to hide it from.
        with suppress(OSError):
            Path(file).chmod(0o600)


def file_of(db: sqlite3.Connection) -> str:
    """The path of the database; empty for one in memory."""
    return next((str(row[2]) for row in db.execute("PRAGMA database_list") if row[1] == "main"), "")
