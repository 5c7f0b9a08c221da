"""The folder of a namespace: its files, and the one lock that every writer of them takes.

A file is replaced by a temporary one that is synced and renamed, or appended to with one write that is taken back where
it fails, so a reader sees whole files. Folders are made when something is first written, for their owner only. Nothing
is followed elsewhere: below the workspace, which may itself be a link, symbolic links and what is no file are refused.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

from filelock import FileLock, Timeout

from ..atomic import SUFFIX, sync_folder, write_whole
from ..errors import LangGraphMemoryError
from ..namespace import Namespace, folder_of
from ..sessions import FOLDER as SESSIONS
from ..sessions import LOCK, LOCK_SECONDS

MEMORY = "MEMORY.md"
LEDGER = "memory"
ARCHIVE = "memory/archive"
HISTORY = "memory/history"
STATE = "memory/.state.json"
DAMAGED = ".damaged-"
POLL_SECONDS = 0.01

_TEMPORARY = ".lgm-", SUFFIX
_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Without waiting: a pipe in the place of a file would never open."""


class WorkspaceError(LangGraphMemoryError, OSError):
    """A folder or file of long-term memory cannot be used; says which and why. Nothing was written."""


class Folder:
    """Files of one namespace in `workspace`, named by their path in its folder with `/` between the parts."""

    def __init__(self, workspace: Path, namespace: Namespace | Path = ()) -> None:
        self.given = Path(workspace), namespace
        """By which it is known on an event loop, where no path may be looked at."""
        self._locks: dict[int, FileLock] = {}

    @cached_property
    def workspace(self) -> Path:
        return self.given[0].absolute()

    @cached_property
    def path(self) -> Path:
        _, namespace = self.given
        # One that was found on the disk is given by its folder.
        return namespace.absolute() if isinstance(namespace, Path) else folder_of(self.workspace, namespace)

    @contextmanager
    def locked(self, seconds: float = LOCK_SECONDS) -> Iterator[None]:
        """Hold the lock of the namespace, in this thread and no other, in this process and no other.

        Raises `WorkspaceError` after `seconds`, and where the folder cannot be made or written.
        """
        self._make(self.path)
        if (self.path / LOCK).is_symlink():
            raise _refused(self.path / LOCK, OSError(errno.ELOOP, ""))
        try:
            held = self._lock().acquire(timeout=seconds)
        except Timeout:
            raise WorkspaceError(
                f"{self.path}: another process or thread has been writing this memory for {seconds:g} s; try again."
            ) from None
        except OSError as error:
            raise _refused(self.path, error) from error
        with held:
            yield

    def _lock(self) -> FileLock:
        """The lock of this process; one that a fork inherited is neither taken nor given back by it."""
        if (found := self._locks.get(os.getpid())) is None:
            # Taken again by the thread that holds it, never by another one: it keeps a count a thread.
            lock = FileLock(self.path / LOCK, timeout=LOCK_SECONDS, mode=0o600, poll_interval=POLL_SECONDS)
            found = self._locks.setdefault(os.getpid(), lock)
        return found

    def exists(self) -> bool:
        """Whether anything was written yet. Raises `WorkspaceError` for a folder that leads elsewhere."""
        return self._inside("-").parent.is_dir()

    # Reading

    def bytes_of(self, name: str) -> bytes | None:
        """What a file holds; None where there is none."""
        try:
            descriptor = self._opened(name, os.O_RDONLY)
        except (FileNotFoundError, NotADirectoryError):
            return None
        with os.fdopen(descriptor, "rb") as file:
            return file.read()

    def size(self, name: str) -> int:
        """Bytes of a file, 0 where there is none."""
        try:
            return self.stat(name).st_size
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def stat(self, name: str) -> os.stat_result:
        return self._inside(name).lstat()

    def ends_line(self, name: str) -> bool:
        """Whether what is appended to a file begins a line of its own."""
        descriptor = self._opened(name, os.O_RDONLY)
        try:
            size = os.fstat(descriptor).st_size
            os.lseek(descriptor, max(0, size - 1), os.SEEK_SET)
            return os.read(descriptor, 1) in (b"", b"\n")
        finally:
            os.close(descriptor)

    def names(self, folder: str = "", suffix: str = ".md") -> list[str]:
        """Names of the visible files in one of the folders that end in `suffix`, in order."""
        return sorted(name for name, _ in self._found(folder, suffix) if not name.rpartition("/")[2].startswith("."))

    def stats(self, folder: str, suffix: str = ".md") -> dict[str, os.stat_result]:
        """As `names`, each with its size and times, looked at once."""
        found: dict[str, os.stat_result] = {}
        for name, one in sorted(self._found(folder, suffix)):
            with suppress(FileNotFoundError):
                if not one.name.startswith("."):
                    found[name] = one.stat(follow_symlinks=False)
        return found

    # Writing

    def replace(self, name: str, data: bytes) -> None:
        """Write a whole file in place of the one there may be. Raises `OSError` and leaves that as it was."""
        path = self._inside(name)
        if path.is_symlink():
            raise _refused(path, OSError(errno.ELOOP, ""))
        self._make(path.parent)
        write_whole(path, [data], prefix=_TEMPORARY[0])

    def append(self, name: str, data: bytes) -> os.stat_result:
        """Add to the end of a file. Raises `OSError` and leaves it as it was."""
        path = self._inside(name)
        self._make(path.parent)
        descriptor = self._opened(name, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            size = os.fstat(descriptor).st_size
            try:
                left = memoryview(data)
                while left:
                    left = left[os.write(descriptor, left) :]
                os.fsync(descriptor)
            except BaseException:
                os.ftruncate(descriptor, size)
                raise
            if not size:
                sync_folder(path.parent)
            return os.fstat(descriptor)
        finally:
            os.close(descriptor)

    def truncate(self, name: str, size: int) -> None:
        descriptor = self._opened(name, os.O_RDWR)
        try:
            os.ftruncate(descriptor, size)
        finally:
            os.close(descriptor)

    def remove(self, name: str) -> None:
        self._inside(name).unlink(missing_ok=True)

    def keep_aside(self, name: str) -> str:
        """Copy a file that cannot be read beside itself, once, for a person to look at; the copy's name."""
        data = self.bytes_of(name) or b""
        aside = f"{name}{DAMAGED}{blake2b(data, digest_size=6).hexdigest()}"
        if not self.size(aside):
            self.replace(aside, data)
        return aside

    def copies(self) -> list[str]:
        """Names of what was kept aside."""
        return [name for folder in ("", LEDGER) for name, _ in self._found(folder, "") if DAMAGED in name]

    def others(self, folder: str) -> list[str]:
        """Names of the files in a folder, hidden ones too, but for the lock and our temporary files."""
        found = (name for name, one in self._found(folder, "") if not one.name.startswith(_TEMPORARY[0]))
        return sorted(name for name in found if name != LOCK)

    def sweep(self) -> None:
        """Remove what a crash left of files that were about to be replaced; under the lock."""
        for folder in ("", LEDGER, ARCHIVE, HISTORY, SESSIONS):
            for name, one in self._found(folder, _TEMPORARY[1]):
                if one.name.startswith(_TEMPORARY[0]):
                    self.remove(name)

    def _found(self, folder: str, suffix: str) -> list[tuple[str, os.DirEntry[str]]]:
        """The files in a folder; symbolic links are none."""
        base = self._inside(f"{folder}/-" if folder else "-").parent
        try:
            with os.scandir(base) as found:
                files = [one for one in found if one.name.endswith(suffix) and one.is_file(follow_symlinks=False)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [(f"{folder}/{one.name}" if folder else one.name, one) for one in files]

    def _opened(self, name: str, flags: int) -> int:
        """A descriptor of a file, which is one. Raises `FileNotFoundError` as it is, else `WorkspaceError`."""
        path = self._inside(name)
        try:
            descriptor = os.open(path, flags | _FLAGS, 0o600)
        except (FileNotFoundError, NotADirectoryError):
            raise
        except ValueError as error:
            raise WorkspaceError(f"{name!r} is no name of a file: {error}") from None
        except OSError as error:
            raise _refused(path, error) from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise WorkspaceError(f"{path}: is no file")
        return descriptor

    def _inside(self, name: str) -> Path:
        """The path of a file whose folder is where its name says."""
        path = self.path / name
        try:
            root, parent = os.path.realpath(self.workspace), os.path.realpath(path.parent)
            expected = Path(root, path.parent.relative_to(self.workspace))
        except (ValueError, OSError) as error:
            raise WorkspaceError(f"{name!r} is no name of a file: {error}") from None
        if Path(parent) != expected:
            raise WorkspaceError(f"{path}: its folder leads to {parent}; memory stays in its own folder.")
        return path

    def _make(self, folder: Path) -> None:
        self._inside(f"{folder.relative_to(self.path)}/-")
        try:
            for one in (*reversed(folder.parents), folder):
                if not one.exists():
                    one.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise WorkspaceError(f"{folder}: the folder cannot be made: {error.strerror or error}") from error


def _refused(path: Path, error: OSError) -> WorkspaceError:
    why = "is a symbolic link, which is not followed" if error.errno == errno.ELOOP else error.strerror or str(error)
    return WorkspaceError(f"{path}: {why}")
