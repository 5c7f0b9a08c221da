"""Files that appear whole or not at all: written under another name beside it, then renamed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import FileUnwritableError


@contextmanager
def replacing(target: Path, *, new: bool = False) -> Iterator[Path]:
    """A file of the owner's beside `target`, which takes its name when the context ends well.

    Raises `FileUnwritableError`, with `new` for a target that exists too.
    """
    try:
        _refuse(target, new)
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:100]}-", dir=target.parent)
        os.close(handle)
        try:
            yield Path(name)
            _flush(name)
            _refuse(target, new)
            Path(name).replace(target)
        finally:
            # What SQLite puts beside a database too.
            for left in target.parent.glob(f"{Path(name).name}*"):
                left.unlink()
    except OSError as error:
        raise FileUnwritableError(f"{target}: cannot be written ({error.strerror or error}).") from error


def _refuse(target: Path, new: bool) -> None:
    if new and target.exists():
        raise FileUnwritableError(f"{target}: there is a file of this name already. Name another one, or remove it.")
    if target.is_dir():
        raise FileUnwritableError(f"{target}: is a folder. Name a file in it.")


def _flush(name: str) -> None:
    with Path(name).open("rb+") as file:
        os.fsync(file.fileno())


def size_of(database: Path) -> int:
    """The bytes of a database with its write-ahead log."""
    parts = (database, database.with_name(f"{database.name}-wal"))
    return sum(part.stat().st_size for part in parts if part.exists())


def readable_size(size: int | None) -> str:
    """A number of bytes for people."""
    if size is None:
        return "–"
    value, units = float(size), ["B", "KB", "MB", "GB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.{0 if units[0] in ('B', 'KB') else 1}f} {units[0]}"
