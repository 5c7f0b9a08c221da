"""How each long-term memory of a workspace is, read without a trace: its files, its index, and what it waits for."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field

from langgraph_memory.config import RuntimeConfig
from langgraph_memory.errors import LangGraphMemoryError
from langgraph_memory.longterm.folder import ARCHIVE, LEDGER, MEMORY
from langgraph_memory.longterm.forgetting import INDEX
from langgraph_memory.longterm.index import Stamp
from langgraph_memory.longterm.keeper import Keeper

from .memory_files import behind, stats_of
from .quietly import looking, tables_of
from .whose import homes_of, shown_name


@dataclass(frozen=True, slots=True)
class MemoryHealth:
    """A memory on disk."""

    memory: str
    folder: str
    files: int = 0
    bytes: int = 0
    indexed: bool = False
    behind: list[str] = field(default_factory=list)
    """Files that the index does not hold as they are; the next search indexes them."""
    due: list[str] = field(default_factory=list)
    """Threads whose messages are still to be extracted."""
    unfinished: int = 0
    """Appends that were cut off and are completed by the next one."""
    kept_aside: list[str] = field(default_factory=list)
    """Copies of files that were damaged."""
    problem: str | None = None


def memories(config: RuntimeConfig) -> list[MemoryHealth]:
    homes = homes_of(config)
    try:
        return [_health(keeper, shown_name(homes, keeper)) for keeper in homes.all()]
    finally:
        homes.close()


def _health(keeper: Keeper, name: str) -> MemoryHealth:
    folder = str(keeper.folder.path)
    try:
        sizes = stats_of(keeper)
        known = _Known.of(keeper)
        return MemoryHealth(
            memory=name,
            folder=folder,
            files=len(sizes),
            bytes=sum(sizes.values()),
            indexed=known is not None,
            behind=behind(keeper, _indexed(keeper), known.stamps if known else {}),
            due=known.due if known else [],
            unfinished=known.journal if known else 0,
            kept_aside=keeper.folder.copies(),
        )
    except (OSError, sqlite3.Error, LangGraphMemoryError) as error:
        return MemoryHealth(name, folder, problem=str(error))


@dataclass(frozen=True, slots=True)
class _Known:
    """What an index says."""

    stamps: dict[str, Stamp]
    due: list[str]
    journal: int

    @classmethod
    def of(cls, keeper: Keeper) -> _Known | None:
        """None where there is no index."""
        if not keeper.folder.size(INDEX):
            return None
        with looking(keeper.folder.path / INDEX) as db:
            tables = tables_of(db)
            if "files" not in tables:
                return None
            rows = db.execute("SELECT path, size, mtime_ns FROM files").fetchall()
            due = db.execute("SELECT thread FROM flush_due ORDER BY time").fetchall() if "flush_due" in tables else []
            journal = db.execute("SELECT count(*) FROM journal").fetchone()[0] if "journal" in tables else 0
        return cls({path: Stamp(size, time, None) for path, size, time in rows}, [thread for (thread,) in due], journal)


def _indexed(keeper: Keeper) -> Iterator[str]:
    """The files that belong into an index."""
    if keeper.folder.size(MEMORY):
        yield MEMORY
    for folder in (LEDGER, ARCHIVE):
        yield from keeper.folder.names(folder)
