"""What savers of threads do: size, LangGraph's own suite, and listing, deleting and writing at awkward moments."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import aiosqlite
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from langgraph_memory import ThreadSaver

from ..threads import KINDS, PLAIN, made
from ..threads import opened as racing
from .outcome import OURS, Outcome, judged, scenario

GROUP = "threads"
SQLITE, DELTA = "AsyncSqliteSaver", "AsyncSqliteSaver with DeltaChannel"
SAVERS = (SQLITE, OURS)
TURNS = 100
LINEAR = 2.3
BUSY = 6.0
"""Seconds another program holds a write: longer than Python's own patience of five."""
DEADLOCK = 3.0


@asynccontextmanager
async def opened(contender: str, path: Path) -> AsyncIterator[Any]:
    kind: Any = ThreadSaver if contender == OURS else AsyncSqliteSaver
    async with kind.from_conn_string(str(path)) as saver:
        yield saver


def config(thread: Any = "t-1", **more: Any) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": "", **more}}


async def put(saver: Any, thread: Any, value: Any) -> Any:
    """A checkpoint whose one channel holds `value`."""
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"messages": value}
    checkpoint["channel_versions"] = {"messages": "1"}
    metadata: Any = {"source": "update", "step": 0, "parents": {}}
    return await saver.aput(config(thread), checkpoint, metadata, {"messages": "1"})


@scenario(
    "16",
    GROUP,
    f"Twice as many turns of 2,000 characters ({TURNS}, then {2 * TURNS}): the database grows at most {LINEAR} times",
    (SQLITE, DELTA, OURS),
)
async def growing(contender: str, folder: Path) -> Outcome:
    names = {SQLITE: PLAIN, DELTA: "plain, delta", OURS: "ours"}
    (kind,) = [kind for kind in KINDS if kind.name == names[contender]]
    sizes = []
    path = folder / "threads.db"
    turns = made(2 * TURNS)
    for part in (turns[:TURNS], turns[TURNS:]):
        async with racing(kind, path) as thread:
            for turn in part:
                await thread.take(turn)
        sizes.append(_bytes(path) / 1e6)
    figure = f"{sizes[0]:.1f} MB, then {sizes[1]:.1f} MB: {sizes[1] / sizes[0]:.1f} times"
    return judged(sizes[1] <= LINEAR * sizes[0], figure)


def _bytes(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.stat().st_size


@scenario("17", GROUP, "LangGraph's conformance suite for savers: every capability, every test", SAVERS)
async def conforming(contender: str, folder: Path) -> Outcome:
    from langgraph.checkpoint.conformance import checkpointer_test, validate

    numbers = iter(range(1_000))

    @checkpointer_test(name=contender)
    async def saver() -> AsyncIterator[Any]:
        async with opened(contender, folder / f"{next(numbers)}.db") as ready:
            yield ready

    report = await validate(saver)
    passed = sum(found.tests_passed for found in report.results.values())
    has = sum(found.detected and found.passed is True for found in report.results.values())
    figure = f"{passed} tests, {has} of {len(report.results)} capabilities"
    return judged(has == len(report.results), figure)


@scenario("18", GROUP, "`adelete_thread` is the first call on a new database", SAVERS)
async def deleting(contender: str, folder: Path) -> Outcome:
    async with opened(contender, folder / "threads.db") as saver:
        try:
            await saver.adelete_thread("t-1")
        except sqlite3.OperationalError as problem:
            return judged(False, str(problem))
    return judged(True, "works")


@scenario("19", GROUP, "`aget_tuple` inside a running `alist`", SAVERS)
async def reading_while_listing(contender: str, folder: Path) -> Outcome:
    async with opened(contender, folder / "threads.db") as saver:
        await put(saver, "t-1", [HumanMessage("hello", id="h")])

        async with aclosing(saver.alist(config())) as listing:
            first = await anext(listing)
            try:
                found = await asyncio.wait_for(saver.aget_tuple(first.config), DEADLOCK)
            except TimeoutError:
                return judged(False, "deadlock")
    return judged(found is not None, "works")


@scenario("20", GROUP, f"Another program holds a write for {BUSY:g} s: both writes succeed", SAVERS)
async def busy(contender: str, folder: Path) -> Outcome:
    path = folder / "threads.db"
    figure = ""
    async with opened(contender, path) as saver:
        await put(saver, "t-1", [])
        written = await _written_while_locked(path, saver)
    if not written and contender == SQLITE:
        figure = "locked after 5 s by default, "
        async with aiosqlite.connect(path, timeout=10 * BUSY) as connection:
            written = await _written_while_locked(path, AsyncSqliteSaver(connection))
        return judged(written, f"{figure}{'waits' if written else 'locked too'} with connect(timeout=…)")
    return judged(written, "waits" if written else "locked")


async def _written_while_locked(path: Path, saver: Any) -> bool:
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("CREATE TABLE IF NOT EXISTS other (id)")

        async def released() -> None:
            await asyncio.sleep(BUSY)
            other.execute("COMMIT")

        release = asyncio.create_task(released())
        try:
            await put(saver, "t-1", [])
        except sqlite3.OperationalError:
            return False
        finally:
            await release
    return True
