"""The files of a long-term memory that people read: MEMORY.md, the ledgers, archived or not, and earlier versions."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from langgraph_memory.longterm import history
from langgraph_memory.longterm.consolidate import Mark
from langgraph_memory.longterm.entry import without_comment
from langgraph_memory.longterm.folder import ARCHIVE, HISTORY, LEDGER, MEMORY, WorkspaceError
from langgraph_memory.longterm.forgetting import INDEX
from langgraph_memory.longterm.index import Row, Stamp
from langgraph_memory.longterm.keeper import UNUSABLE, Keeper

from .called import program
from .errors import MemoryFileError

logger = logging.getLogger(__name__)

Kind = Literal["curated", "ledger", "archive", "version"]
DAYS = {"today": 0, "yesterday": 1}


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """A file in the list."""

    path: str
    """From the folder of the memory."""
    kind: Kind
    entries: int
    abandoned: int
    """Entries on branches that were given up."""
    bytes: int
    changed: str
    """ISO 8601, UTC."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file as a reader sees it."""

    number: int
    text: str
    abandoned: bool
    """Whether an entry of a branch that was given up begins here."""


@dataclass(frozen=True, slots=True)
class Shown:
    """Some lines of a file, and the entries that begin in them."""

    path: str
    lines: list[Line]
    entries: list[Row]
    abandoned: frozenset[str]
    total: int
    """Lines of the file."""

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "text": "\n".join(line.text for line in self.lines),
            "first": self.lines[0].number if self.lines else None,
            "last": self.lines[-1].number if self.lines else None,
            "entries": [entry_json(row, self.abandoned) for row in self.entries],
        }


def behind(keeper: Keeper, names: Iterable[str], stamps: Mapping[str, Stamp]) -> list[str]:
    """Which of the files `names` changed since they were indexed, and what is indexed and gone."""
    there = set(names)
    same = {name for name in there & stamps.keys() if stamps[name].fits(keeper.folder.stat(name))}
    return sorted((there | stamps.keys()) - same)


def files(keeper: Keeper) -> list[MemoryFile]:
    """MEMORY.md and the ledgers, the newest first; the archived ones behind."""
    abandoned = abandoned_ids(keeper)
    return [_file(keeper, name, kind, abandoned) for name, kind in _names(keeper)]


def file_named(keeper: Keeper, name: str) -> str:
    """The path of a file by its path, name or day, or by what names a version. Raises `MemoryFileError`."""
    days = {word: str(datetime.now().date() - timedelta(days=ago)) for word, ago in DAYS.items()}
    wanted = days.get(name.lower(), name).replace("\\", "/").removeprefix("./")
    there = [path for path, _ in _names(keeper)]
    fitting = [path for path in there if wanted in (path, path.rpartition("/")[2], path.rpartition("/")[2][:-3])]
    if fitting:
        return fitting[0]
    if wanted in (MEMORY, MEMORY.lower()):
        return MEMORY
    try:
        return history.version(keeper, wanted).path
    except WorkspaceError:
        raise MemoryFileError(
            f"{keeper.folder.path}: there is no file {name!r}: give {MEMORY}, a day such as 2026-03-31, or a version; "
            f"`{program()} memory show --list` and `{program()} memory log` list them."
        ) from None


def shown(keeper: Keeper, path: str, first: int = 1, last: int | None = None) -> Shown:
    """Lines `first` to `last` of a file, without what is in it for programs only."""
    data = keeper.folder.bytes_of(path) or b""
    lines = data.decode(errors="replace").removeprefix("\ufeff").removesuffix("\n").split("\n")
    lines = [line.removesuffix("\r") for line in lines] if data else []
    rows = [] if path.startswith(HISTORY) else keeper.rows(path)
    last = len(lines) if last is None else min(last, len(lines))
    rows = [row for row in rows if first <= row.line <= last]
    ids = abandoned_ids(keeper) if rows else frozenset()
    marked = {row.line for row in rows if row.entry.id in ids}
    chosen = range(max(first, 1), last + 1)
    found = [Line(number, without_comment(lines[number - 1]), number in marked) for number in chosen]
    return Shown(path, found, rows, ids, len(lines))


def abandoned_ids(keeper: Keeper) -> frozenset[str]:
    """Ids of the entries on branches that their threads have left, as far as that is known. Makes no index."""
    found = set(Mark.of(keeper.state()).skipped_ids)
    if keeper.folder.size(INDEX):
        try:
            with keeper.reading() as db:
                found |= {row[0] for row in db.execute("SELECT id FROM entries WHERE abandoned")}
        except (*UNUSABLE, sqlite3.Error) as error:
            logger.warning("Entries on branches that were given up are not shown as such: %s", error)
    return frozenset(found)


def entry_json(row: Row, abandoned: frozenset[str]) -> dict[str, Any]:
    entry = row.entry
    return {
        "path": row.path,
        "line": row.line,
        "id": entry.id,
        "type": entry.type,
        "text": entry.text,
        "timestamp": entry.timestamp.isoformat(),
        "thread_id": entry.thread_id,
        "message_ids": list(entry.message_ids),
        "metadata": dict(entry.metadata),
        "abandoned": entry.id in abandoned,
    }


def stats_of(keeper: Keeper) -> Mapping[str, int]:
    """Bytes of every file in the folders of a memory, by its path."""
    folder = keeper.folder
    found = {name: stat.st_size for each in (LEDGER, ARCHIVE, HISTORY) for name, stat in folder.stats(each).items()}
    found |= {name: stat.st_size for name, stat in folder.stats("sessions", ".jsonl").items()}
    return found | {name: size for name in (MEMORY, INDEX, f"{INDEX}-wal") if (size := folder.size(name))}


def _names(keeper: Keeper) -> Iterator[tuple[str, Kind]]:
    if keeper.folder.size(MEMORY):
        yield MEMORY, "curated"
    for name in reversed(keeper.folder.names(LEDGER)):
        yield name, "ledger"
    for name in reversed(keeper.folder.names(ARCHIVE)):
        yield name, "archive"


def _file(keeper: Keeper, name: str, kind: Kind, abandoned: frozenset[str]) -> MemoryFile:
    stat, rows = keeper.folder.stat(name), keeper.rows(name)
    left = sum(row.entry.id in abandoned for row in rows)
    changed = datetime.fromtimestamp(stat.st_mtime, UTC).isoformat(timespec="seconds")
    return MemoryFile(name, kind, len(rows), left, stat.st_size, changed)
