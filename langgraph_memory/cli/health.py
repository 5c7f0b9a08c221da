"""What is on disk and how it is: the database of threads, the summary cache, the workspace and each memory in it.

Everything is read without a trace, also while others write, and in folders that cannot be written. What cannot be read
is a `problem` of that part, not an error.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from langgraph_memory import search_text
from langgraph_memory.atomic import SUFFIX
from langgraph_memory.cache import MIGRATIONS as CACHE_VERSIONS
from langgraph_memory.config import LoadedConfig, RuntimeConfig
from langgraph_memory.errors import LangGraphMemoryError
from langgraph_memory.opening import database_path, workspace_of
from langgraph_memory.spilling import spill_folder
from langgraph_memory.threads.listed import Threads
from langgraph_memory.threads.schema import MESSAGE
from langgraph_memory.threads.schema import MIGRATIONS as THREAD_VERSIONS

from .bought import CACHE
from .config import effective
from .database import open_store
from .files import size_of
from .health_memory import MemoryHealth, memories
from .quietly import log_size, looking, quiet_uri, tables_of

IN_STEP, NOT_MADE = "in step", "not made yet; the first search does it"
ANOTHER_VERSION = "of another version; the next search makes it anew"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A thread of which something is still to be done."""

    thread_id: str
    queued: int = 0
    """Messages that wait for its next run."""
    next: tuple[str, ...] = ()
    """Nodes that have not run yet."""


@dataclass(frozen=True, slots=True)
class Database:
    """The database of threads."""

    path: str
    exists: bool = False
    bytes: int = 0
    """With its log."""
    log_bytes: int = 0
    """Written and not yet in the file: somebody has it open, or was killed."""
    made_by: str | None = None
    """langgraph_memory, or langgraph where the plain saver made it."""
    version: int | None = None
    """Of our tables; None in a file of the plain saver."""
    threads: int = 0
    checkpoints: int = 0
    messages: int = 0
    """On the way to each thread's newest checkpoint."""
    index: str | None = None
    """Whether the full-text index holds every message; None where there is none to be."""
    waiting: list[Waiting] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    """Threads that cannot be read; the figures are without them."""
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Cache:
    """The summaries that were bought."""

    path: str
    exists: bool = False
    bytes: int = 0
    version: int | None = None
    summaries: int = 0
    being_bought: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class FolderSize:
    path: str
    exists: bool
    files: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Status:
    """Everything that a configuration leads to."""

    database: Database
    cache: Cache
    workspace: FolderSize
    spill: FolderSize
    memories: list[MemoryHealth]
    interrupted: list[str]
    """Files that a write which was cut off has left in the workspace; they are of no use."""
    config_file: str | None
    configured: dict[str, dict[str, Any]]
    """The values that are not the default, with their origins."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def status_of(loaded: LoadedConfig) -> Status:
    config = loaded.config
    workspace = workspace_of(config).absolute()
    return Status(
        database=database_health(config),
        cache=cache_health(workspace / CACHE),
        workspace=_folder(workspace),
        spill=_folder(spill_folder(config, workspace)),
        memories=memories(config),
        interrupted=sorted(str(path) for path in _files(workspace) if _is_left(path)),
        config_file=str(loaded.path) if loaded.path else None,
        configured={key: row for key, row in effective(loaded).items() if row["origin"] != "default"},
    )


# The threads


def database_health(config: RuntimeConfig) -> Database:
    file = Path(database_path(config)).absolute()
    if not file.is_file():
        return Database(str(file))
    found = Database(str(file), True, size_of(file), log_size(file))
    try:
        with looking(file) as db:
            tables = tables_of(db)
            if "checkpoints" not in tables:
                return found
            ours = "lgm_migrations" in tables
            version = _one(db, "SELECT max(version) FROM lgm_migrations") if ours else None
            index = _index(db, tables) if ours else None
            queued = _queued(db) if "lgm_queue" in tables else {}
        rows = asyncio.run(_rows(file, quiet_uri(file)))
    except (sqlite3.Error, LangGraphMemoryError) as error:
        return replace(found, problem=str(error))
    busy = {row.thread_id: row.next for row in rows if row.next}
    return replace(
        found,
        made_by="langgraph_memory" if ours else "langgraph",
        version=version,
        threads=len(rows),
        checkpoints=sum(row.checkpoints for row in rows),
        messages=sum(row.messages for row in rows),
        index=index,
        waiting=[Waiting(name, queued.get(name, 0), busy.get(name, ())) for name in dict.fromkeys((*busy, *queued))],
        damaged=list(rows.damaged),
        problem=_newer("the tables of langgraph_memory", version, len(THREAD_VERSIONS)),
    )


async def _rows(file: Path, uri: str) -> Threads:
    async with open_store(file, uri=uri) as store:
        return await store.threads()


def _queued(db: sqlite3.Connection) -> dict[str, int]:
    return dict(db.execute("SELECT thread_id, count(*) FROM lgm_queue GROUP BY thread_id ORDER BY min(id)"))


def _index(db: sqlite3.Connection, tables: set[str]) -> str:
    if "lgm_search_version" not in tables:
        return NOT_MADE
    if _one(db, "SELECT version FROM lgm_search_version") != search_text.VERSION:
        return ANOTHER_VERSION
    mark = _one(db, "SELECT max(item) FROM lgm_search_words")
    behind = db.execute("SELECT count(*) FROM lgm_items WHERE kind = ? AND id > ?", (MESSAGE, mark)).fetchone()[0]
    return f"behind by {behind:,} messages; the next search adds them" if behind else IN_STEP


# The cache


def cache_health(file: Path) -> Cache:
    if not file.is_file():
        return Cache(str(file))
    found = Cache(str(file), True, size_of(file))
    try:
        with looking(file) as db:
            version = _one(db, "PRAGMA user_version")
            return replace(
                found,
                version=version,
                summaries=_one(db, "SELECT count(*) FROM summaries"),
                being_bought=_one(db, "SELECT count(*) FROM claims WHERE until > unixepoch()"),
                problem=_newer("the cache", version, len(CACHE_VERSIONS)),
            )
    except sqlite3.Error as error:
        return replace(found, problem=str(error))


def _one(db: sqlite3.Connection, query: str) -> int:
    row = db.execute(query).fetchone()
    return int(row[0] or 0) if row else 0


def _newer(what: str, version: int | None, known: int) -> str | None:
    if version is None or version <= known:
        return None
    return f"{what} have version {version}, this library knows up to {known}: upgrade langgraph-memory-middleware"


# Folders


def _folder(folder: Path) -> FolderSize:
    sizes = [size for path in _files(folder) if (size := _size(path)) is not None]
    return FolderSize(str(folder), folder.is_dir(), len(sizes), sum(sizes))


def _files(folder: Path) -> Iterator[Path]:
    """The files in a folder, also deeper; what cannot be read is left out."""
    for parent, _, names in os.walk(folder):
        yield from (Path(parent, name) for name in names)


def _size(path: Path) -> int | None:
    try:
        return path.lstat().st_size
    except OSError:
        # It went while we looked.
        return None


def _is_left(path: Path) -> bool:
    return path.name.startswith(".") and path.name.endswith(SUFFIX)
