"""Opening the database of threads, with its faults told as errors that name the file."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiosqlite
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from langgraph_memory import MemoryMiddleware, RuntimeConfig
from langgraph_memory.opening import database_path

from .called import program
from .errors import DatabaseMissingError, DatabaseUnusableError


@contextmanager
def _naming(file: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise DatabaseUnusableError(
            f"{file}: the database of threads cannot be used ({error}). Name another file with "
            "persistence.thread_db in runtime.json or $LANGGRAPH_MEMORY_DB_PATH."
        ) from error


@asynccontextmanager
async def open_memory(config: RuntimeConfig, **arguments: Any) -> AsyncIterator[MemoryMiddleware]:
    """The memory with its database, which is made where it does not exist."""
    with _naming(database_path(config)):
        async with MemoryMiddleware.open(config, **arguments) as memory:
            yield memory


def database_of(config: RuntimeConfig) -> Path | None:
    """The file of the threads; None where it does not exist."""
    file = Path(database_path(config))
    return file.absolute() if file.is_file() else None


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


@asynccontextmanager
async def open_saver(file: Path) -> AsyncIterator[AsyncSqliteSaver]:
    """The threads in `file`, for reading. Makes no file."""
    with _naming(str(file)):
        async with aiosqlite.connect(f"file:{quote(str(file))}?mode=rw", uri=True) as connection:
            yield AsyncSqliteSaver(connection)
