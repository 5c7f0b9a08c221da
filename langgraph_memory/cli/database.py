"""Opening the database of threads, with its faults told as errors that name the file.

A file is opened by the saver it was made with, so a file of LangGraph's own saver stays one that this saver reads,
whatever is looked at or changed in it. Commands that only look cannot write.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from langgraph_memory import MemoryMiddleware, RuntimeConfig
from langgraph_memory.config import load_config
from langgraph_memory.errors import (
    DamagedDatabaseError,
    LangGraphMemoryError,
    UnknownCheckpointError,
    UnknownThreadError,
)
from langgraph_memory.opening import database_path
from langgraph_memory.threads import ThreadSaver, ThreadStore, driver

from .called import program
from .errors import DatabaseMissingError, DatabaseUnusableError
from .quietly import quiet_uri

T = TypeVar("T")

NEXT: dict[type[LangGraphMemoryError], str] = {
    UnknownThreadError: "threads` lists all",
    UnknownCheckpointError: "tree THREAD` shows all",
    DamagedDatabaseError: "verify` lists everything that is wrong",
}
"""What to do about an error of the library, as a command of the program."""
ELSEWHERE = "Name another file with persistence.thread_db in runtime.json or $LANGGRAPH_MEMORY_DB_PATH."
LATER = "Another program is writing to it: try again when that is done."


@contextmanager
def naming(file: str) -> Iterator[None]:
    """Tell what goes wrong with the file of the threads, and what to do next."""
    try:
        yield
    except (sqlite3.Error, NotImplementedError) as error:
        hint = LATER if "locked" in str(error) else ELSEWHERE
        raise DatabaseUnusableError(_unusable(file, error, hint)) from error
    except tuple(NEXT) as error:
        raise type(error)(f"{error} ({file}; `{program()} {NEXT[type(error)]})") from error


def _unusable(file: str | Path, reason: object, hint: str) -> str:
    return f"{file}: the database of threads cannot be used ({reason}). {hint}"


@asynccontextmanager
async def open_memory(config: RuntimeConfig, **arguments: Any) -> AsyncIterator[MemoryMiddleware]:
    """The memory with its database, which is made where it does not exist."""
    with naming(database_path(config)):
        async with MemoryMiddleware.open(config, **arguments) as memory:
            yield memory


def database_of(config: RuntimeConfig) -> Path | None:
    """The file of the threads; None where it does not exist.

    Raises `DatabaseUnusableError` for a folder, and for what may not be looked at.
    """
    file = Path(database_path(config))
    try:
        if file.is_dir():
            raise DatabaseUnusableError(f"{file}: is a folder, not the database of threads. {ELSEWHERE}")
        return file.absolute() if file.is_file() else None
    except OSError as error:
        raise DatabaseUnusableError(_unusable(file, error.strerror or error, ELSEWHERE)) from error


def existing_database(config: RuntimeConfig) -> Path:
    """The file of the threads. Raises `DatabaseMissingError` where it does not exist."""
    if file := database_of(config):
        return file
    raise DatabaseMissingError(none_here(config))


def none_here(config: RuntimeConfig) -> str:
    """Where a database was looked for, and how one is made."""
    return (
        f"{database_path(config)}: there is no database of threads here. `{program()} replay` makes one; another file "
        "is named by persistence.thread_db in runtime.json (--config) or by $LANGGRAPH_MEMORY_DB_PATH."
    )


def uri_of(file: Path, *, changing: bool = False) -> str:
    """How SQLite opens `file`; where its folder cannot be written, looking at it has to do without a trace."""
    if not changing and not os.access(file.parent, os.W_OK):
        return quiet_uri(file)
    return f"file:{quote(str(file))}?mode=rw"


@asynccontextmanager
async def open_store(
    file: Path, *, changing: bool = False, ours: bool = False, uri: str | None = None
) -> AsyncIterator[ThreadStore]:
    """The threads in `file`. Makes no file and no tables; `ours` asks for a `ThreadSaver` whoever made the file."""
    with naming(str(file)):
        async with driver.connected(uri or f"file:{quote(str(file))}?mode=rw", uri=True) as connection:
            tables = {row[0] for row in await connection.execute_fetchall("SELECT name FROM sqlite_master")}
            if "checkpoints" not in tables:
                # Without threads it is to us like no file at all.
                async with ThreadSaver.from_conn_string(":memory:") as saver:
                    yield ThreadStore(saver)
                return
            if not changing:
                await connection.execute("PRAGMA query_only = 1")
            kind = ThreadSaver if ours or "lgm_migrations" in tables else AsyncSqliteSaver
            yield ThreadStore(kind(connection))


def with_store(
    config: Path | None,
    work: Callable[[ThreadStore], Awaitable[T]],
    *,
    changing: bool = False,
    ours: bool = False,
) -> T:
    """What `work` makes of the threads that a configuration names. Raises `DatabaseMissingError`."""
    file = existing_database(load_config(config).config)
    uri = uri_of(file, changing=changing)

    async def run() -> T:
        async with open_store(file, changing=changing, ours=ours, uri=uri) as store:
            return await work(store)

    return asyncio.run(run())
