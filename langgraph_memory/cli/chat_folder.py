"""A folder whose files may be looked at, and nothing outside of it.

A path counts after every `..` and every symbolic link in it has been followed, and what is opened is a regular file or
nothing: no device, no pipe. Hidden files, folders of installed packages and what the memory itself keeps are left out,
since the last may belong to somebody else and the first often hold keys.
"""

from __future__ import annotations

import fnmatch
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from langgraph_memory.context.text import clean_text, one_line
from langgraph_memory.errors import LangGraphMemoryError

from .files import readable_size

LARGEST = 5_000_000
"""Bytes of a file that is read at most."""
PROBE = 8192
"""Bytes among which a NUL tells that a file is no text."""
MOST_FILES = 20_000
SHOWN_CHARS = 200
SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})


class FolderError(LangGraphMemoryError):
    """A path that may not be looked at, or cannot be; the message is for the model."""


@dataclass(frozen=True)
class Folder:
    """The files below `root`, links followed, without those that are `private`."""

    root: Path
    private: tuple[Path, ...] = ()

    @classmethod
    def of(cls, root: Path, private: Sequence[Path] = ()) -> Folder:
        """Raises `FolderError` where there is no folder."""
        real = root.expanduser().resolve()
        if not real.is_dir():
            raise FolderError(f"--folder: {str(root)!r} is not a folder.")
        hidden = (path.expanduser().resolve() for path in private)
        return cls(real, tuple(path for path in hidden if not real.is_relative_to(path)))

    def name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def files(self, pattern: str = "*") -> Iterator[Path]:
        """The files that fit a pattern, in order; `*.py` fits in every folder. Links are not followed."""
        wanted = pattern.removeprefix("./").removeprefix("**/") or "*"
        for path in self._walk():
            name = self.name(path)
            if fnmatch.fnmatchcase(name, wanted) or fnmatch.fnmatchcase(path.name, wanted):
                yield path

    def text(self, name: str) -> str:
        """The text of a file. Raises `FolderError`, which says why there is none."""
        shown = repr(one_line(clean_text(name), SHOWN_CHARS))
        try:
            return self._read(self._inside(name, shown), shown)
        except (OSError, RuntimeError, ValueError) as error:
            # A loop of links, a NUL, a name that is too long: no file of that name can be there.
            raise FolderError(f"{shown} cannot be read ({getattr(error, 'strerror', None) or error}).") from error

    def _walk(self) -> Iterator[Path]:
        left = MOST_FILES
        for folder, folders, names in os.walk(self.root):
            here = Path(folder)
            folders[:] = sorted(name for name in folders if self._shown(here / name))
            for name in sorted(names):
                path = here / name
                if self._shown(path) and path.is_file() and not path.is_symlink():
                    yield path
                    left -= 1
                    if not left:
                        return

    def _shown(self, path: Path) -> bool:
        parts = path.relative_to(self.root).parts
        if any(part.startswith(".") or part in SKIPPED for part in parts):
            return False
        return not any(path.is_relative_to(one) or str(path).startswith(f"{one}-") for one in self.private)

    def _inside(self, name: str, shown: str) -> Path:
        path = (self.root / name).resolve()
        if not path.is_relative_to(self.root):
            raise FolderError(f"{shown} is outside of the folder; only files in it can be read.")
        if not self._shown(path):
            raise FolderError(f"{shown} is hidden or belongs to the memory, and is not shown.")
        if path.is_dir():
            raise FolderError(f"{shown} is a folder; list_files lists what is in it.")
        return path

    def _read(self, path: Path, shown: str) -> str:
        # No link and no pipe may have taken the place of what was looked at just now.
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(path, flags), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise FolderError(f"{shown} is not a regular file.")
            if status.st_size > LARGEST:
                size, most = readable_size(status.st_size), readable_size(LARGEST)
                raise FolderError(f"{shown} has {size}; files above {most} are not read.")
            data = file.read(LARGEST)
        if b"\0" in data[:PROBE]:
            raise FolderError(f"{shown} is a binary file of {readable_size(status.st_size)}, not a text.")
        return data.decode("utf-8", "replace")
