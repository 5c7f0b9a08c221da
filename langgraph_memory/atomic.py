"""A file that appears whole or not at all: written beside its place, synced, renamed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

SUFFIX = ".tmp"
"""Of the file beside it, whose name begins with a dot."""


def write_whole(path: Path, pieces: Iterable[bytes], *, prefix: str = ".") -> None:
    """Make `pieces` the file `path`, its owner's only. Raises `OSError` and leaves what is there as it was.

    The folder has to exist.
    """
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=SUFFIX)
    try:
        try:
            os.chmod(temporary, 0o600)  # noqa: PTH101 - the umask may have taken more
            for piece in pieces:
                _write_all(descriptor, piece)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)  # noqa: PTH105
    except BaseException:
        with suppress(OSError):
            Path(temporary).unlink()
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a new name last over a power cut, on file systems that can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
