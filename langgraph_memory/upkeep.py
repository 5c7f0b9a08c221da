"""The regular round over everything on disk: what is due is done, what is old is put away, what is derived is checked.

    for each memory: flush what was due → consolidate → expire ledgers, session logs and versions → check the index
    then: spill files nobody refers to → threads nobody has used for long

`MemoryMiddleware.open` starts one ticker; whoever wants it now calls `lgm maintain`. Several processes may tick: the
one that takes the lock of the workspace does the round, and when it was done is written down for all. Flushes that a
crash left undone are made up for at every opening.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from .config import RuntimeConfig
from .context.tokens import load_counter
from .errors import LangGraphMemoryError
from .events import Activity, Heard
from .logs import outline
from .longterm.keeper import UNUSABLE, Keeper
from .longterm.maintain import Done, steps
from .retention import expire
from .sidecalls import in_thread, named
from .spilling import spill_folder, sweep
from .threads import ThreadSaver, ThreadStore
from .threads.stored import stored_values

if TYPE_CHECKING:
    from .middleware import MemoryMiddleware

logger = logging.getLogger(__name__)

LOCK = ".maintaining"
STAMP = ".maintained"
TICK_SECONDS = 60.0
RETRY_SECONDS = 3600.0
"""Behind a round that could not be done."""
FAILURES = (*UNUSABLE, LangGraphMemoryError)


class Upkeep:
    """Rounds for an opened memory. `spills`: whether all threads that may refer to its spill files are in its saver."""

    def __init__(self, memory: MemoryMiddleware, *, spills: bool, heard: Heard | None = None) -> None:
        self._memory, self._spills, self._heard = memory, spills, heard

    async def tick(self) -> None:
        """Make up for what is due, then do a round whenever the last one of anybody is long ago; until cancelled."""
        for keeper in await in_thread(self._memory.longterm.homes.all):
            self._memory.background.start(("recover", keeper.folder.given), partial(self.recover, keeper))
        hours = self._memory.config.memory.maintenance.interval_hours
        while hours and self._memory.workspace is not None:
            pause = TICK_SECONDS
            if await in_thread(_is_due, self._memory.workspace, hours * 3600) and not await self._tried():
                pause = RETRY_SECONDS
            await asyncio.sleep(min(pause, hours * 3600))

    async def _tried(self) -> bool:
        """Do a round; whether it went to its end, or somebody else is at it."""
        started, counts = time.perf_counter(), Counter[str]()
        try:
            async for done in self.round():
                counts[done.name] += done.count
            self._told(started, counts)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with the files, the next round may find them mended
            self._told(started, counts, error)
            logger.warning("The regular round over the memory was not finished: %s", outline(error))
            return False
        return True

    def _told(self, started: float, counts: Counter[str], error: Exception | None = None) -> None:
        took = (time.perf_counter() - started) * 1000
        done = " ".join(f"{name}={count}" for name, count in counts.items() if count)
        logger.info("maintenance ms=%.0f %s", took, done or "nothing to do")
        if self._heard is not None:
            self._heard(Activity("maintenance", None, took, error, dict(counts)))

    async def round(self, *, force: bool = False) -> AsyncIterator[Done]:
        """One round, each step told as it is done. None where another process is at it.

        `force` leaves the interval between two consolidations out of account.
        """
        workspace = self._memory.workspace
        if workspace is None:
            return
        lock = FileLock(workspace / LOCK, timeout=0, mode=0o600, thread_local=False)
        try:
            # Also one that is cancelled while it waits for the lock may have got it.
            try:
                await in_thread(lock.acquire)
            except Timeout:
                yield Done("round", 0, "another process is at it")
                return
            for keeper in await in_thread(self._memory.longterm.homes.all):
                async for done in self._kept(keeper, force=force):
                    yield done
            yield await self._spilled()
            yield await self._threads()
            await in_thread(_stamp, workspace)
        finally:
            await in_thread(lock.release)

    async def _kept(self, keeper: Keeper, *, force: bool) -> AsyncIterator[Done]:
        settings = self._memory.config.memory
        yield Done("flush", await self.recover(keeper))
        if settings.consolidation.enabled:
            counter = await in_thread(load_counter, settings.tokenizer)
            result = await self._memory.longterm.branches.consolidated(keeper, counter, None, force=force)
            yield Done("consolidate", result.entries, result.reason)
        for _, step in steps(keeper, settings.maintenance):
            yield await in_thread(step)

    async def recover(self, keeper: Keeper) -> int:
        """Flush what was due in a memory and is not done."""
        try:
            count = await self._memory.longterm.branches.recover(keeper, self._memory.config.memory.tokenizer)
        except FAILURES as error:
            logger.warning("What was due could not be flushed, it stays due: %s", error)
            return 0
        if count:
            logger.info("recovered threads=%d", count)
        return count

    async def _spilled(self) -> Done:
        config, workspace = self._memory.config, self._memory.workspace
        if not self._spills or workspace is None or not config.tools.spill_buffer.enabled:
            return Done("spills", 0, "" if self._spills else "not all threads are known")
        try:
            return Done("spills", await in_thread(_sweep, config, workspace))
        except FAILURES as error:
            logger.warning("Spill files could not be looked after: %s", error)
            return Done("spills", 0, named(error))

    async def _threads(self) -> Done:
        days, saver = self._memory.config.memory.maintenance.thread_retention_days, self._memory.saver
        if not days or not isinstance(saver, ThreadSaver) or self._memory.workspace is None:
            return Done("threads")
        try:
            return Done("threads", len(await expire(ThreadStore(saver), days, self._memory.workspace)))
        except FAILURES as error:
            logger.warning("Idle threads could not be looked after: %s", error)
            return Done("threads", 0, named(error))


def _sweep(config: RuntimeConfig, workspace: Path) -> int:
    database = str(Path(config.persistence.thread_db).expanduser())
    return sweep(spill_folder(config, workspace), database, stored_values, config.memory.maintenance)


def _is_due(workspace: Path, seconds: float) -> bool:
    """Whether the last round is `seconds` ago; one in the future was on a clock that has been set back."""
    try:
        ago = time.time() - (workspace / STAMP).stat().st_mtime
    except OSError:
        return True
    return not 0 <= ago < seconds


def _stamp(workspace: Path) -> None:
    (workspace / STAMP).touch(mode=0o600)
