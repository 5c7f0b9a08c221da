"""Recordings that come through a pipe: they can be read only once, and a replay reads everything twice.

So a stream (`-`, a fifo, `<(command)`) is copied into a temporary file first, and read from there.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from .errors import RecordingError

STANDARD_INPUT = Path("-")


@dataclass(frozen=True)
class Source:
    """A file of recordings that can be read as often as one likes."""

    file: Path
    """What it is called."""
    content: Path
    """Where its bytes are."""


def is_stream(file: Path) -> bool:
    return file == STANDARD_INPUT or (file.exists() and not file.is_file() and not file.is_dir())


@contextmanager
def readable(files: Sequence[Path]) -> Iterator[list[Source]]:
    """`files`, the streams among them copied for as long as the context lasts."""
    with TemporaryDirectory(prefix="lgm-") as folder:
        yield [
            _copied(file, Path(folder, str(number))) if is_stream(file) else Source(file, file)
            for number, file in enumerate(files)
        ]


def _copied(file: Path, content: Path) -> Source:
    with content.open("wb") as target:
        if file == STANDARD_INPUT:
            shutil.copyfileobj(sys.stdin.buffer, target)
            return Source(Path("stdin"), content)
        try:
            with file.open("rb") as stream:
                shutil.copyfileobj(stream, target)
        except OSError as error:
            raise RecordingError(f"{file}: cannot be read ({error.strerror or error})") from error
    return Source(file, content)
