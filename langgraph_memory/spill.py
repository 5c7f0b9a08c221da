"""Spilling: a very large tool result goes to a file, and the conversation keeps a preview that says where the rest is.

A file is named by what it holds, `<folder>/<aa>/<digest>.txt`, so the same text is kept once, no id or tool name ever
becomes part of a path, and whether a file is what its name says can be checked: by `put` before it is trusted, by every
read before a character is shown. The pointer is made after the text is safely on disk; where that fails `OSError` is
raised and the caller keeps the original.

Files are removed by `sweep` alone, and never one that the caller knows a reference to. It needs no lock: it moves a
file aside, looks whether somebody put it again meanwhile (`put` touches what it finds) and only then removes it.

Nothing here knows an event loop; call it in a thread.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import blake2b, file_digest
from io import TextIOWrapper
from operator import is_
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

from langchain_core.messages import ToolMessage
from langgraph.types import Command

from .atomic import write_whole
from .config import SpillBufferConfig
from .context.prune import OWN_TOOLS, content_text, with_text
from .context.text import clean_text, preview
from .errors import LangGraphMemoryError
from .state import MESSAGES

GRACE_SECONDS = 3600.0
"""A younger file is never swept: the message that refers to it may not be in a checkpoint yet."""

STALE_SECONDS = 3600.0
"""Age at which a temporary file is one that a crash left behind."""

DIGEST_BYTES = 16
PIECE = 1 << 20
"""Characters or bytes handled at a time."""

_DIGEST = f"[0-9a-f]{{{2 * DIGEST_BYTES}}}"
MARKER = re.compile(
    rf'^\[spilled: (?P<bytes>[0-9]{{1,18}}) bytes · recall\("spill:(?P<digest>{_DIGEST})"\)\]$', re.MULTILINE
)
_REFERENCE = re.compile(rf"""recall\(\\*["']spill:({_DIGEST})\\*["']\)""")
_STORED = re.compile(rf"spill:({_DIGEST})(?![0-9a-f])".encode())
_MARKERS_TRIED = 8
_SAFE_OPEN = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
_OURS = re.compile(rf"{_DIGEST}\.txt")
_TEMPORARY = re.compile(r"\..+\.(tmp|swept)")

T = TypeVar("T")
Change = Callable[[ToolMessage], ToolMessage]


class SpillDamagedError(LangGraphMemoryError, OSError):
    """A spill file does not hold what its name says."""


def spilled_marker(size: int, digest: str) -> str:
    """The line inside a preview; `size` is the whole text in UTF-8 bytes."""
    return f'[spilled: {size} bytes · recall("spill:{digest}")]'


def markers_in(text: str) -> list[re.Match[str]]:
    """The markers in `text`, the likeliest to be its own first: a preview has it in the middle, among any others."""
    return sorted(MARKER.finditer(text), key=lambda marker: abs(marker.start() + marker.end() - len(text)))


def references(text: str) -> set[str]:
    """Digests that `text` refers to as `recall("spill:DIGEST")`, also where JSON has escaped the quotes."""
    return set(_REFERENCE.findall(text))


def references_in(data: bytes) -> set[str]:
    """Digests in a value as a checkpoint database stores it. Rather one too many, as it decides what is kept."""
    return {digest.decode() for digest in _STORED.findall(data)}


# --- Files -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep did."""

    files: int
    """Spill files removed."""
    bytes: int
    """Bytes of the files removed."""
    kept_bytes: int
    """Bytes of all spill files that are still there."""


class _Entry(NamedTuple):
    """A text as it is written, and the name that follows from it."""

    text: str
    digest: str
    size: int
    """UTF-8 bytes."""


class _File(NamedTuple):
    mtime_ns: int
    path: Path
    size: int


class SpillStore:
    """The spill files of a folder, for any number of threads and processes."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def put(self, text: str) -> str:
        """Keep `text`, lone surrogates replaced; its digest. Raises `OSError` and leaves nothing half-written."""
        return self._put(_entry(text))

    def size(self, digest: str) -> int:
        """Bytes of the file. Raises as `page` does, but does not look inside."""
        status = self._path(digest).lstat()
        if not stat.S_ISREG(status.st_mode):
            raise SpillDamagedError(f"The spill file {digest!r} is not a regular file.")
        return status.st_size

    def page(self, digest: str, offset: int, limit: int) -> tuple[str, int]:
        """Characters `offset` to `offset + limit`, and how many there are in all.

        Raises `ValueError` for what is no digest, `FileNotFoundError` for a file that is gone, `SpillDamagedError` for
        one that holds something else and `OSError` for one that cannot be read.
        """
        start, position, parts = max(0, offset), 0, []
        with self._opened(digest) as text:
            while piece := text.read(PIECE):
                parts.append(piece[max(0, start - position) : max(0, start + limit - position)])
                position += len(piece)
        return "".join(parts), position

    def lines(self, digest: str) -> Iterator[str]:
        """The lines of the file with their line ends, one in memory at a time. Raises as `page` does."""
        with self._opened(digest) as text:
            yield from text

    def sweep(
        self,
        referenced: Collection[str],
        *,
        now: float,
        keep_seconds: float,
        max_bytes: int,
        grace_seconds: float = GRACE_SECONDS,
    ) -> Swept:
        """Remove files that nothing refers to: those older than `keep_seconds`, then the oldest while over `max_bytes`.

        `referenced` are the digests that any thread, fork or archive still refers to. `now` is seconds since the epoch.
        A file put within `grace_seconds` stays whatever its size. Temporary files left by a crash go too, uncounted.
        """
        self._sweep_temporary(now)
        files = sorted(self._files(_OURS))
        kept, total = frozenset(referenced), sum(file.size for file in files)
        removed = freed = 0
        for file in files:
            age = now - file.mtime_ns / 1e9
            due = age > keep_seconds or total > max_bytes
            if due and age >= grace_seconds and file.path.stem not in kept and _removed(file):
                removed, freed, total = removed + 1, freed + file.size, total - file.size
        return Swept(removed, freed, total)

    def _path(self, digest: str) -> Path:
        if not re.fullmatch(_DIGEST, digest):
            raise ValueError(f"{digest!r} is no digest: {2 * DIGEST_BYTES} characters of 0-9 and a-f are expected.")
        return self.folder / digest[:2] / f"{digest}.txt"

    def _put(self, entry: _Entry) -> str:
        path = self._path(entry.digest)
        if not _refreshed(path, entry):
            self._make_folders(path.parent)
            write_whole(path, _encoded(entry.text))
        return entry.digest

    def _make_folders(self, inner: Path) -> None:
        for folder in (self.folder, inner):
            folder.mkdir(mode=0o700, parents=folder is self.folder, exist_ok=True)
            if folder is inner and folder.is_symlink():
                raise NotADirectoryError(errno.ENOTDIR, "A link stands where spill files belong", str(folder))
            if stat.S_IMODE(folder.stat().st_mode) != 0o700:
                # A mounted folder may belong to somebody else; the files in it are private all the same.
                with suppress(PermissionError):
                    folder.chmod(0o700)

    @contextmanager
    def _opened(self, digest: str) -> Iterator[TextIOWrapper]:
        """The file as text with its own line ends, after its bytes were checked."""
        with _open_regular(self._path(digest)) as file:
            if _digest_of(file) != digest:
                raise SpillDamagedError(f"The spill file {digest!r} holds something else.")
            file.seek(0)
            with TextIOWrapper(file, "utf-8", newline="") as text:
                yield text

    def _files(self, names: re.Pattern[str]) -> Iterator[_File]:
        for path in self.folder.glob("[0-9a-f][0-9a-f]/*"):
            with suppress(FileNotFoundError):
                status = path.lstat()
                if names.fullmatch(path.name) and stat.S_ISREG(status.st_mode) and not path.parent.is_symlink():
                    yield _File(status.st_mtime_ns, path, status.st_size)

    def _sweep_temporary(self, now: float) -> None:
        for file in self._files(_TEMPORARY):
            if now - file.mtime_ns / 1e9 > STALE_SECONDS:
                file.path.unlink(missing_ok=True)


def _entry(text: str) -> _Entry:
    try:
        return _hashed(text)
    except UnicodeEncodeError:
        return _hashed(clean_text(text))


def _hashed(text: str) -> _Entry:
    digest, size = _hash(), 0
    for piece in _encoded(text):
        digest.update(piece)
        size += len(piece)
    return _Entry(text, digest.hexdigest(), size)


def _hash() -> blake2b:
    return blake2b(digest_size=DIGEST_BYTES)


def _encoded(text: str) -> Iterator[bytes]:
    return (text[start : start + PIECE].encode() for start in range(0, len(text), PIECE))


def _open_regular(path: Path) -> IO[bytes]:
    """Open without following a link or waiting for a pipe."""
    descriptor = os.open(path, _SAFE_OPEN)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise SpillDamagedError(f"{path.name!r} is not a regular file.")
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def _digest_of(file: IO[bytes]) -> str:
    return file_digest(file, _hash).hexdigest()  # type: ignore[arg-type]


def _refreshed(path: Path, entry: _Entry) -> bool:
    """Whether the file is there, private and whole. It is touched before it is checked, so no sweep takes it after."""
    try:
        os.utime(path, follow_symlinks=os.utime not in os.supports_follow_symlinks)
        with _open_regular(path) as file:
            status = os.fstat(file.fileno())
            private = stat.S_IMODE(status.st_mode) == 0o600
            return private and status.st_size == entry.size and _digest_of(file) == entry.digest
    except OSError:
        # Whatever is wrong with it, it is replaced; where that fails too, writing says why.
        return False


def _removed(file: _File) -> bool:
    """Remove a file unless it was put again, or removed, since it was listed."""
    aside = file.path.with_name(f".{file.path.stem}-{uuid.uuid4().hex}.swept")
    try:
        file.path.rename(aside)
    except FileNotFoundError:
        return False
    # Another sweep may take it for one that a crash left; that is only so where it is to go.
    with suppress(FileNotFoundError):
        if aside.lstat().st_mtime_ns != file.mtime_ns:
            _put_back(aside, file.path)
            return False
        aside.unlink()
    return True


def _put_back(aside: Path, path: Path) -> None:
    """Give a file its name again, unless another was put there meanwhile: this one may be the damaged one."""
    try:
        os.link(aside, path)
    except FileExistsError:
        aside.unlink()
    except OSError:
        # There are file systems without hard links.
        aside.replace(path)
    else:
        aside.unlink()


# --- Messages --------------------------------------------------------------------------------------------------------


def spilled(message: ToolMessage, tool: str, settings: SpillBufferConfig, store: SpillStore) -> ToolMessage:
    """`message` with a preview for its text, which is in `store` by then; the same object where nothing is to be done.

    The preview has at most `preview_chars` characters and at most the threshold's bytes, or is the marker alone. Raises
    `OSError` where the text cannot be written.
    """
    threshold = _threshold(tool, settings)
    text = "" if threshold is None else content_text(message.content)
    if threshold is None or not _exceeds(text, threshold) or _is_spilled(text, store):
        return message
    entry = _entry(text)
    shown = _preview(entry, settings.preview_chars, threshold)
    if _size(shown) >= entry.size:
        return message
    store._put(entry)
    return message.model_copy(update={"content": with_text(message.content, shown)})


def spilled_result(
    result: T,
    tool: str,
    settings: SpillBufferConfig,
    store: SpillStore,
    *,
    failed: Callable[[OSError], None],
    done: Callable[[ToolMessage], None],
) -> T:
    """What a tool call returned, its tool messages spilled: a message, a `Command` that updates messages, or a list.

    A message that cannot be written stays as it is, and `failed` is told why; `done` is given what stands for one.
    """

    def change(message: ToolMessage) -> ToolMessage:
        try:
            short = spilled(message, tool, settings, store)
        except OSError as error:
            failed(error)
            return message
        if short is not message:
            done(short)
        return short

    changed: T = _changed(result, change)
    return changed


def exceeds(result: Any, tool: str, settings: SpillBufferConfig) -> bool:
    """Whether `spilled_result` has anything to do, told without a file: it is worth a thread only then."""
    threshold = _threshold(tool, settings)
    found = False

    def look(message: ToolMessage) -> ToolMessage:
        nonlocal found
        found = found or (threshold is not None and _exceeds(content_text(message.content), threshold))
        return message

    _changed(result, look)
    return found


def _threshold(tool: str, settings: SpillBufferConfig) -> int | None:
    """Bytes a result of `tool` may have; None where it is never spilled."""
    if not settings.enabled or tool in OWN_TOOLS or tool in settings.exclude_tools:
        return None
    return settings.thresholds.get(tool, settings.default_threshold)


def _exceeds(text: str, threshold: int) -> bool:
    # A character takes one to four bytes, so most texts need no look inside.
    return len(text) > threshold or (4 * len(text) > threshold and _size(text) > threshold)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _is_spilled(text: str, store: SpillStore) -> bool:
    """Whether `text` is the preview of a file in `store`, and not just a text in which a marker stands."""
    for marker in markers_in(text)[:_MARKERS_TRIED]:
        head, tail = text[: marker.start()].removesuffix("\n"), text[marker.end() :].removeprefix("\n")
        with suppress(OSError):
            if int(marker["bytes"]) == store.size(marker["digest"]) > _size(text):
                start, total = store.page(marker["digest"], 0, len(head))
                if start == head and store.page(marker["digest"], total - len(tail), len(tail))[0] == tail:
                    return True
    return False


def _preview(entry: _Entry, limit: int, threshold: int) -> str:
    marker = spilled_marker(entry.size, entry.digest)
    shown = preview(entry.text, limit, marker)
    while limit and (size := _size(shown)) > threshold:
        limit = limit * threshold // size
        shown = preview(entry.text, limit, marker)
    return shown


def _changed(value: Any, change: Change) -> Any:
    if isinstance(value, ToolMessage):
        return change(value)
    if isinstance(value, Command):
        update = _changed_update(value.update, change)
        return value if update is value.update else replace(value, update=update)
    return _changed_items(value, lambda item: _changed(item, change)) if isinstance(value, list) else value


def _changed_update(update: Any, change: Change) -> Any:
    """The update of a command: a mapping, a list of (channel, value) pairs, or the messages themselves."""
    if isinstance(update, dict):
        old = update.get(MESSAGES)
        new = _changed(old, change)
        return update if new is old else {**update, MESSAGES: new}
    if isinstance(update, tuple):
        items = _changed_items(list(update), lambda item: _changed_pair(item, change))
        return update if all(map(is_, items, update)) else tuple(items)
    return _changed_items(update, lambda item: _changed_pair(item, change)) if isinstance(update, list) else update


def _changed_pair(item: Any, change: Change) -> Any:
    if not (isinstance(item, tuple) and len(item) == 2 and item[0] == MESSAGES):
        return _changed(item, change)
    value = _changed(item[1], change)
    return item if value is item[1] else (MESSAGES, value)


def _changed_items(items: list[Any], change: Callable[[Any], Any]) -> list[Any]:
    changed = list(map(change, items))
    return items if all(map(is_, changed, items)) else changed
