"""Looking into SQLite files without leaving a trace: no file is made, changed or removed.

A file in write-ahead mode is not read like that by itself: SQLite puts two files beside it, and without the right to do
so it reads nothing. Where there is no log, nobody has the file open, so it is read as one that does not change; else it
is read with the log that is there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

BUSY_SECONDS = 2.0


def log_size(file: Path) -> int:
    """Bytes of the write-ahead log beside a file: it is open somewhere, or whoever had it open was killed."""
    try:
        return file.with_name(f"{file.name}-wal").stat().st_size
    except OSError:
        return 0


def quiet_uri(file: Path) -> str:
    """The URI by which SQLite reads `file` and touches nothing."""
    # Without its index the log cannot be read unless one is made.
    is_open = log_size(file) > 0 and file.with_name(f"{file.name}-shm").exists()
    return f"file:{quote(str(file.absolute()))}?{'mode=ro' if is_open else 'mode=ro&immutable=1'}"


@contextmanager
def looking(file: Path) -> Iterator[sqlite3.Connection]:
    """A connection that only reads. Raises `sqlite3.Error`."""
    with closing(sqlite3.connect(quiet_uri(file), uri=True, timeout=BUSY_SECONDS, isolation_level=None)) as db:
        db.execute("PRAGMA query_only = 1")
        yield db


def tables_of(db: sqlite3.Connection) -> set[str]:
    return {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
