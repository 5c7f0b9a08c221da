"""Everything a database of threads holds, as bytes: for finding marks in it without knowing what it means."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from ..errors import DamagedDatabaseError
from .codec import inflated, is_ours

VALUES = {"checkpoints": "type, checkpoint", "writes": "type, value", "lgm_items": "type, data"}
"""Table -> its columns of stored values."""


def stored_values(path: str) -> Iterator[bytes]:
    """Every value in the file, unpacked but not decoded; the file is only read.

    Raises `DamagedDatabaseError` for a value that cannot be looked into, such as an encrypted one.
    """
    with closing(sqlite3.connect(f"file:{Path(path).absolute().as_posix()}?mode=ro", uri=True)) as db:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table, columns in VALUES.items():
            if table in tables:
                for type_, value in db.execute(f"SELECT {columns} FROM {table}"):
                    yield _opened(path, type_, value)


def _opened(path: str, type_: str | None, value: bytes | str | None) -> bytes:
    if type_ and "+" in type_:
        raise DamagedDatabaseError(f"{path}: a value of type {type_!r} is encrypted and cannot be searched.")
    data = value.encode() if isinstance(value, str) else value or b""
    return inflated(data) if is_ours(type_) else data
