"""Removing what is not needed any more, and keeping copies of what is."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from langgraph_memory.errors import ThreadBusyError
from langgraph_memory.threads import ThreadRow, ThreadStore, driver, frames, sweep
from langgraph_memory.threads.codec import Codec
from langgraph_memory.threads.ids import Where
from langgraph_memory.threads.schema import BUSY_SECONDS, reading

from .database import naming
from .files import replacing, size_of
from .listing import rows_and_damaged, rows_of

PAGES = 1000
"""Of a database that are copied at a time."""


# Removing threads


async def removable(
    store: ThreadStore, names: Iterable[str], *, force: bool = False
) -> tuple[list[ThreadRow], list[str]]:
    """The named threads, and of those that cannot be read the names: these have nothing to run any more.

    Raises `UnknownThreadError`, and `ThreadBusyError` unless `force`.
    """
    rows, damaged = await rows_and_damaged(store, names)
    for row in rows:
        if row.next and not force:
            raise ThreadBusyError(f"{_waiting(row)}: let the run end, or remove the thread with --force.")
    return rows, damaged


async def remove(store: ThreadStore, names: Sequence[str], *, force: bool = False) -> None:
    """Remove threads with all that only they used. Raises as `removable` does, before anything is removed."""
    rows, damaged = await removable(store, names, force=force)
    for name in (*(row.thread_id for row in rows), *damaged):
        await store.delete(name)


def _waiting(row: ThreadRow) -> str:
    return f"Thread {row.thread_id!r} still has to run {', '.join(row.next)}"


# Pruning


@dataclass(frozen=True, slots=True)
class Pruned:
    """What pruning does to a thread."""

    thread_id: str
    updated: str
    checkpoints: int
    """How many go."""
    kept: int
    """How many stay; 0: the thread goes."""


@dataclass(frozen=True, slots=True)
class Pruning:
    """What a pruning does, or would do."""

    threads: list[Pruned] = field(default_factory=list)
    left_alone: list[str] = field(default_factory=list)
    """Threads whose turn it was, but that have something to run."""
    applied: bool = False

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


async def prune(store: ThreadStore, names: Sequence[str], older_than: float | None, *, apply: bool) -> Pruning:
    """Remove threads unchanged for `older_than` days, or with None all that is not needed to go on with any thread.

    Only the named threads, if there are any. Raises `ThreadBusyError` for one of those that has something to run.
    """
    rows = await _wanted(store, names)
    if older_than is not None:
        rows = [row for row in rows if datetime.fromisoformat(row.updated) < _ago(older_than)]
    threads: list[Pruned] = []
    for row in rows:
        with nullcontext() if names else frames.left_out():
            plan = None if row.next else await _plan(store, row, whole=older_than is not None)
            if plan and plan.checkpoints:
                if apply:
                    await _apply(store, plan)
                threads.append(plan)
    return Pruning(threads, [row.thread_id for row in rows if row.next], apply)


async def _wanted(store: ThreadStore, names: Sequence[str]) -> list[ThreadRow]:
    if not names:
        return await store.threads()
    rows = await rows_of(store, names)
    for row in rows:
        if row.next:
            raise ThreadBusyError(f"{_waiting(row)}: let the run end, or rewind it, then prune the thread.")
    return rows


def _ago(days: float) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)


async def _plan(store: ThreadStore, row: ThreadRow, *, whole: bool) -> Pruned:
    assert isinstance(store.saver, AsyncSqliteSaver)
    old, all = await driver.call(store.saver.conn, _counts, Codec(store.saver.serde), row.thread_id)
    return Pruned(row.thread_id, row.updated, *((all, 0) if whole else (old, all - old)))


async def _apply(store: ThreadStore, plan: Pruned) -> None:
    if plan.kept:
        await store.saver.aprune([plan.thread_id], strategy="keep_latest")
    else:
        await store.delete(plan.thread_id)


def _counts(db: sqlite3.Connection, codec: Codec, thread_id: str) -> tuple[int, int]:
    """How many checkpoints of a thread nothing newer is rebuilt from, and how many there are, in all namespaces."""
    with reading(db), frames.thread(thread_id):
        all = sweep.checkpoints_of(db, thread_id)
        newest: dict[str, Where] = {}
        for at in sorted(all, key=lambda at: at.checkpoint_id or ""):
            newest[at.namespace] = at
        kept = set(newest.values())
        return len(all - kept - sweep.needed(db, codec, kept)), len(all)


# The file


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """A database that gave back its free space; sizes are bytes."""

    file: str
    before: int
    after: int


def vacuum(file: Path) -> Vacuumed:
    before = size_of(file)
    with naming(str(file)), closing(sqlite3.connect(file, timeout=BUSY_SECONDS)) as db:
        sweep.vacuum(db)
    return Vacuumed(str(file), before, size_of(file))


def backup(file: Path, target: Path) -> int:
    """Copy a database, whatever is written to it meanwhile, to a file that does not exist; its bytes."""
    with (
        replacing(target, new=True) as copy,
        naming(str(file)),
        closing(sqlite3.connect(file, timeout=BUSY_SECONDS)) as source,
        closing(sqlite3.connect(copy)) as database,
    ):
        source.backup(database, pages=PAGES)
    return size_of(target)
