"""The folder of a namespace: its files, and the one lock that every writer of them takes.

A file is replaced by a temporary one that is synced and renamed, or appended to with one write that is taken back where
it fails, so a reader sees whole files. Folders are made when something is first written, for their owner only. Nothing
is followed out of the workspace: a folder that leads elsewhere and a file that is a symbolic link are refused.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from ..errors import LangGraphMemoryError
from ..namespace import Namespace, folder_of
from ..sessions import LOCK, LOCK_SECONDS

MEMORY = "MEMORY.md"
LEDGER = "memory"
ARCHIVE = "memory/archive"
HISTORY = "memory/history"
STATE = "memory/.state.json"


class WorkspaceError(LangGraphMemoryError, OSError):
    """A folder or file of long-term memory cannot be used; says which and why. Nothing was written."""


class Folder:
    """Files of one namespace in `workspace`, named by their path in its folder with `/` between the parts.

    A namespace that was found on the disk is given by its folder.
    """

    def __init__(self, workspace: Path, namespace: Namespace | Path = ()) -> None:
        self.workspace = workspace
        self.path = namespace if isinstance(namespace, Path) else folder_of(workspace, namespace)
        # Taken again by the thread that holds it, never by another one: a lock keeps a count a thread.
        self._lock = FileLock(self.path / LOCK, timeout=LOCK_SECONDS, mode=0o600)

    @contextmanager
    def locked(self, seconds: float = LOCK_SECONDS) -> Iterator[None]:
        """Hold the lock of the namespace, in this thread and no other, in this process and no other.

        Raises `WorkspaceError` after `seconds`, and where the folder cannot be made.
        """
        self._make(self.path)
        try:
            with self._lock.acquire(timeout=seconds):
                yield
        except Timeout:
            raise WorkspaceError(
                f"{self.path}: another process or thread has been writing this memory for {seconds:g} s; try again."
            ) from None

    def bytes_of(self, name: str) -> bytes | None:
        """What a file holds; None where there is none."""
        try:
            descriptor = os.open(self._inside(name), os.O_RDONLY | _NOFOLLOW)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _refused(self.path / name, error) from error
        with os.fdopen(descriptor, "rb") as file:
            return file.read()

    def size(self, name: str) -> int:
        """Bytes of a file, 0 where there is none."""
        try:
            return self._inside(name).lstat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def stat(self, name: str) -> os.stat_result:
        return self._inside(name).lstat()

    def replace(self, name: str, data: bytes) -> None:
        """Write a whole file in place of the one there may be. Raises `OSError` and leaves that as it was."""
        path = self._inside(name)
        if path.is_symlink():
            raise _refused(path, OSError(errno.ELOOP, "is a symbolic link"))
        self._make(path.parent)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)

    def append(self, name: str, data: bytes) -> os.stat_result:
        """Add to the end of a file. Raises `OSError` and leaves it as it was."""
        path = self._inside(name)
        self._make(path.parent)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _NOFOLLOW, 0o600)
        except OSError as error:
            raise _refused(path, error) from error
        try:
            size, left = os.fstat(descriptor).st_size, memoryview(data)
            try:
                while left:
                    left = left[os.write(descriptor, left) :]
                os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, size)
                raise
            return os.fstat(descriptor)
        finally:
            os.close(descriptor)

    def truncate(self, name: str, size: int) -> None:
        os.truncate(self._inside(name), size)

    def rename(self, name: str, new: str) -> None:
        target = self._inside(new)
        self._make(target.parent)
        self._inside(name).rename(target)
        _sync_folder(target.parent)

    def remove(self, name: str) -> None:
        self._inside(name).unlink(missing_ok=True)

    def names(self, folder: str = "", suffix: str = ".md") -> list[str]:
        """Names of the visible files in one of the folders that end in `suffix`, in order."""
        base = self._inside(f"{folder}/-").parent if folder else self.path
        try:
            with os.scandir(base) as found:
                names = [one.name for one in found if one.name.endswith(suffix) and one.is_file(follow_symlinks=False)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [f"{folder}/{name}" if folder else name for name in sorted(names) if not name.startswith(".")]

    def keep_aside(self, name: str) -> str:
        """Copy a file that cannot be read beside itself, for a person to look at; the copy's name."""
        aside = f"{name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
        self.replace(aside, self.bytes_of(name) or b"")
        return aside

    def _inside(self, name: str) -> Path:
        """The path of a file whose folder does not lead out of the workspace."""
        path = self.path / name
        root, parent = os.path.realpath(self.workspace), os.path.realpath(path.parent)
        if os.path.commonpath([root, parent]) != root:
            raise WorkspaceError(f"{path}: its folder leads out of the workspace, to {parent}; memory stays inside.")
        return path

    def _make(self, folder: Path) -> None:
        if folder != self.workspace:
            self._inside(f"{folder.relative_to(self.path)}/-")
        try:
            for one in (*reversed(folder.parents), folder):
                if not one.exists():
                    one.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise WorkspaceError(f"{folder}: the folder cannot be made: {error.strerror or error}") from error


_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)


def _refused(path: Path, error: OSError) -> WorkspaceError:
    why = "is a symbolic link, which is not followed" if error.errno == errno.ELOOP else error.strerror or str(error)
    return WorkspaceError(f"{path}: {why}")


def _sync_folder(folder: Path) -> None:
    """Make a rename last over a power cut, where folders can be synced."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
