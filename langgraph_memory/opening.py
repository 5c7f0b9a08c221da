"""`MemoryMiddleware.open`: configuration, files and database, for async and for sync programs.

An async program enters it with `async with`, a sync one with `with`: there the saver lives on an event loop of its own
in a background thread, where its sync methods work from every other thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack, ExitStack, contextmanager
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from .config import RuntimeConfig
from .context.tokens import load_counter
from .errors import ConfigError, DamagedDatabaseError, described
from .retention import expire
from .spilling import spill_folder, sweep
from .threads import ThreadSaver, ThreadStore
from .threads.driver import Process
from .threads.stored import stored_values
from .threads.unentered import Unentered
from .upkeep import Upkeep

logger = logging.getLogger(__name__)


class Drained(Protocol):
    """Something that has work under way when it is left, and keeps what it was opened by."""

    opening: Any

    def upkeep(self, *, spills: bool) -> Upkeep: ...

    async def adrain(self) -> None: ...

    def drain(self) -> None: ...


T = TypeVar("T", bound=Drained)
NAMES = ("saver", "tools", "config", "workspace", "background", "longterm")
"""What a memory has beside its methods."""
Exit = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]


class Opening(Unentered, Generic[T]):
    """An async and a sync context manager over `build(config, saver)`."""

    def __init__(
        self, kind: type[T], config: Any, build: Callable[[RuntimeConfig, ThreadSaver], T], *, sweeps: bool
    ) -> None:
        made = f"{kind.__name__}.open(…)"
        super().__init__(kind, NAMES, made, f"`async with {made} as memory:`, or `with` in a program without asyncio")
        self._config, self._build, self._sweeps = config, build, sweeps
        self._async_stack, self._stack = AsyncExitStack(), ExitStack()

    async def __aenter__(self) -> T:
        started, self._process = time.perf_counter(), Process()
        config = await asyncio.to_thread(_prepared, self._config, self._sweeps)
        async with AsyncExitStack() as stack:
            with _usable(config):
                saver = await stack.enter_async_context(ThreadSaver.from_conn_string(database_path(config)))
                await saver.setup()
                await self._expire(config, saver)
            built = await asyncio.to_thread(self._build, config, saver)
            stack.push_async_callback(built.adrain)
            ticker = asyncio.create_task(built.upkeep(spills=self._sweeps).tick(), context=contextvars.Context())
            stack.push_async_callback(_cancelled, ticker)
            self._async_stack = stack.pop_all()
        logger.info("opened ms=%.0f", (time.perf_counter() - started) * 1000)
        built.opening = self
        return built

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._async_stack.__aexit__(*error) if self._process.is_here else None

    async def _expire(self, config: RuntimeConfig, saver: ThreadSaver) -> None:
        if self._sweeps and (days := config.memory.maintenance.thread_retention_days):
            gone = await expire(ThreadStore(saver), days, workspace_of(config))
            logger.info("%d threads went to the archive", len(gone))

    def __enter__(self) -> T:
        started, self._process = time.perf_counter(), Process()
        config = _prepared(self._config, self._sweeps)
        with ExitStack() as stack:
            portal = _portal(stack)
            opening = ThreadSaver.from_conn_string(database_path(config))
            with _usable(config):
                saver = stack.enter_context(portal.wrap_async_context_manager(opening))
                portal.call(saver.setup)
                portal.call(self._expire, config, saver)
            built = self._build(config, saver)
            stack.callback(built.drain)
            ticker = portal.start_task_soon(built.upkeep(spills=self._sweeps).tick)
            stack.callback(ticker.cancel)
            self._stack = stack.pop_all()
        logger.info("opened ms=%.0f", (time.perf_counter() - started) * 1000)
        built.opening = self
        return built

    def __exit__(self, *error: Any) -> bool | None:
        return self._stack.__exit__(*error) if self._process.is_here else None


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _portal(stack: ExitStack) -> BlockingPortal:
    """An event loop in a thread of its own, which never keeps a program alive that forgets to leave `stack`.

    Not a generator: those are closed when a program ends, and would wait for a thread that has stopped by then.
    """
    ready: Future[BlockingPortal] = Future()

    async def serve() -> None:
        async with BlockingPortal() as portal:
            ready.set_result(portal)
            await portal.sleep_until_stopped()

    thread = threading.Thread(target=lambda: anyio.run(serve), daemon=True, name="memory-loop")
    thread.start()
    portal = ready.result()
    stack.callback(thread.join)
    stack.callback(lambda: portal.call(portal.stop))
    return portal


def as_config(config: Any) -> RuntimeConfig:
    """A `RuntimeConfig` from itself, a mapping, or what `RuntimeConfig.load` takes."""
    check_config(config)
    if isinstance(config, RuntimeConfig):
        return config
    return RuntimeConfig.model_validate(dict(config)) if isinstance(config, Mapping) else RuntimeConfig.load(config)


def check_config(config: Any) -> None:
    """Raise `ConfigError` for what cannot name or be a configuration."""
    if config is not None and not isinstance(config, RuntimeConfig | Mapping | str | PathLike):
        raise ConfigError(
            f"config is {described(config)}; allowed: a path, a mapping, a RuntimeConfig. A model goes to `model=`."
        )


@contextmanager
def _usable(config: RuntimeConfig) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise ConfigError(f"persistence.thread_db: {database_path(config)!r} cannot be used: {error}") from error


def database_path(config: RuntimeConfig) -> str:
    """The SQLite file of a configuration, `~` expanded."""
    return str(Path(config.persistence.thread_db).expanduser())


def workspace_of(config: RuntimeConfig) -> Path:
    """The folder of what outlives a thread, `~` expanded."""
    return Path(config.persistence.workspace).expanduser()


def _prepared(config: Any, sweeps: bool) -> RuntimeConfig:
    """The configuration, with its folders made and the token ranks read."""
    loaded = as_config(config)
    database = database_path(loaded)
    if database != ":memory:":
        try:
            Path(database).parent.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"persistence.thread_db: {database!r} cannot be used, its folder cannot be made: {error}"
            ) from error
    workspace = workspace_of(loaded)
    try:
        workspace.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        # Without it summaries are kept in the process: dearer after a restart, but no reason not to run.
        logger.warning("persistence.workspace: the folder %r cannot be made: %s", str(workspace), error)
    if sweeps:
        _sweep_spills(loaded, workspace)
    load_counter(loaded.memory.tokenizer)
    return loaded


def _sweep_spills(config: RuntimeConfig, workspace: Path) -> None:
    """Once at the opening, remove spill files nobody refers to; a failure leaves them for the next time."""
    try:
        settings, database = config.memory.maintenance, database_path(config)
        removed = sweep(spill_folder(config, workspace), database, stored_values, settings)
        logger.debug("%d spill files removed", removed)
    except (OSError, sqlite3.Error, DamagedDatabaseError) as error:
        logger.warning("Old spill files could not be removed: %s", error)
