"""`create_checkpointer`: threads in the configured file, for `langgraph dev` and other servers.

    {"checkpointer": {"path": "langgraph_memory.create_checkpointer"}}

The server enters it once an event loop. Configuration is found as `RuntimeConfig.load` says, from the folder the server
was started in; only `persistence.thread_db` is used.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from .config import RuntimeConfig
from .errors import ConfigError
from .threads import ThreadSaver


@asynccontextmanager
async def create_checkpointer() -> AsyncIterator[ThreadSaver]:
    """A `ThreadSaver` on the configured file. Raises `ConfigError` where there is no using it."""
    path = await asyncio.to_thread(_path)
    async with AsyncExitStack() as stack:
        try:
            saver = await stack.enter_async_context(ThreadSaver.from_conn_string(path))
            await saver.setup()
        except sqlite3.Error as error:
            raise _unusable(path, error) from error
        yield saver


def _path() -> str:
    """The file of threads, its folder made."""
    path = str(Path(RuntimeConfig.load().persistence.thread_db).expanduser())
    if path != ":memory:":
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unusable(path, error) from error
    return path


def _unusable(path: str, error: Exception) -> ConfigError:
    return ConfigError(f"persistence.thread_db: {path!r} cannot be used: {error}")
