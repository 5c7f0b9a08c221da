"""The only place that reaches into aiosqlite.

aiosqlite offers one statement at a time; a put is about ten of them, and has to be whole: finished or undone whatever
happens to the task that awaits it. So each of our operations is one plain function over the `sqlite3` connection, run
from beginning to end on the thread that owns it. That thread is then all the locking there is: operations never
interleave, none is left half done when its task is cancelled, and any event loop may ask for one.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import aiosqlite

from ..errors import ClosedError, WrongThreadError

P = ParamSpec("P")
T = TypeVar("T")

FORKED = (
    "The connection of this ThreadSaver belongs to the process this one was forked from, where its thread is. Open the "
    "file again after the fork."
)

CLOSED = (
    "The memory was closed: its `with` block has ended. Use graphs, savers, stores and retrievers inside the block of "
    "MemoryMiddleware.open(…) or ThreadSaver.from_conn_string(…)."
)


def connection(path: str, **options: Any) -> aiosqlite.Connection:
    """A connection that is not open yet and never keeps the program alive, closed or not."""
    made = aiosqlite.connect(path, **options)
    _thread_of(made).daemon = True
    return made


def _thread_of(conn: aiosqlite.Connection) -> threading.Thread:
    # Up to aiosqlite 0.21 the connection is its thread, since then it has one.
    return conn if isinstance(conn, threading.Thread) else conn._thread


async def opened(conn: aiosqlite.Connection) -> None:
    """Open a connection that was handed over unopened. Does nothing to an open or a closed one."""
    if _thread_of(conn).ident is None:
        await begun(conn)


async def begun(conn: aiosqlite.Connection) -> aiosqlite.Connection:
    """Open a connection. Where that fails, its thread has ended too."""
    try:
        return await conn
    except sqlite3.Error:
        # It tells this loop that it ends, and would print a traceback where the loop is closed by then.
        await asyncio.to_thread(_thread_of(conn).join)
        raise


@asynccontextmanager
async def connected(path: str, **options: Any) -> AsyncIterator[aiosqlite.Connection]:
    """A connection that is closed in the end."""
    conn = await begun(connection(path, **options))
    try:
        yield conn
    finally:
        await conn.close()


class Process:
    """The process that threads and event loops belong to: a fork leaves them behind."""

    def __init__(self) -> None:
        self._number = os.getpid()

    @property
    def is_here(self) -> bool:
        return os.getpid() == self._number


async def call(
    conn: aiosqlite.Connection,
    work: Callable[Concatenate[sqlite3.Connection, P], T],
    *args: P.args,
    **options: P.kwargs,
) -> T:
    """What `work` returns, run on the connection's thread."""
    if not conn._running or conn._connection is None:
        raise ClosedError(CLOSED)
    if not _thread_of(conn).is_alive():
        raise WrongThreadError(FORKED)
    found = await conn._execute(lambda: work(conn._conn, *args, **options))  # type: ignore[no-untyped-call]
    return cast(T, found)
