"""Work that nobody waits for: beside the model and tool steps, one piece at a time for each key.

In LangGraph a superstep waits for its slowest node, and a task started inside a node inherits the run's context, so its
tokens would stream to the user. What is handed over here runs in a fresh context, as a task of the running event loop
or, for sync callers, in a daemon thread. Losing it costs time or money, never a message: whatever is left undone is
found again.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Hashable
from concurrent.futures import Future, wait
from typing import Any, NamedTuple

from .logs import failed

logger = logging.getLogger(__name__)


class Work(NamedTuple):
    """A piece of work under way: completed when it ends, and the event loop it runs on, if it does."""

    done: Future[None]
    loop: asyncio.AbstractEventLoop | None

    @property
    def lost(self) -> bool:
        """Whether it can never end, because its loop was closed over it."""
        return self.loop is not None and self.loop.is_closed()


class Background:
    """Pieces of work under way, each under a key; a key that is taken is not started again."""

    def __init__(self, fresh: Callable[[], contextvars.Context] = contextvars.Context) -> None:
        self.fresh = fresh
        """Makes the context that work runs in, with nothing of the run's in it."""
        self._running: dict[Hashable, Work] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._lock = threading.Lock()

    def start(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, Any]]) -> bool:
        """Run `work` on the running event loop; False where the key is taken."""
        loop = asyncio.get_running_loop()
        if (mine := self._taken(key, loop)) is None:
            return False
        task = loop.create_task(work(), context=self.fresh())
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._ended(key, mine, task))
        return True

    def start_in_thread(self, key: Hashable, work: Callable[[], Any]) -> bool:
        """Run `work` in a thread, for callers without an event loop; False where the key is taken."""
        if (mine := self._taken(key, None)) is None:
            return False

        def run() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - nobody waits for it who could be told
                failed(logger, "Work in the background failed", error)
            finally:
                self._free(key, mine)

        threading.Thread(target=self.fresh().run, args=(run,), daemon=True, name="memory-background").start()
        return True

    async def settled(self, key: Hashable, seconds: float) -> None:
        """Wait until nothing is under way for `key`, but no longer than `seconds`."""
        if waiting := self._waiting(key):
            await asyncio.wait(map(asyncio.wrap_future, waiting), timeout=seconds)

    def settled_sync(self, key: Hashable, seconds: float) -> None:
        """As `settled`, for callers without an event loop."""
        wait(self._waiting(key), seconds)

    async def drain(self, seconds: float) -> None:
        """Give everything under way `seconds` to end, and what that starts; then cancel what runs on this loop."""
        until = time.monotonic() + seconds
        while (waiting := self._waiting()) and (left := until - time.monotonic()) > 0:
            await asyncio.wait(map(asyncio.wrap_future, waiting), timeout=left)
        tasks = [task for task in self._tasks if task.get_loop() is asyncio.get_running_loop()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def drain_sync(self, seconds: float) -> None:
        """Give everything under way `seconds` to end, and what that starts; threads that take longer end with us."""
        until = time.monotonic() + seconds
        while (waiting := self._waiting()) and (left := until - time.monotonic()) > 0:
            wait(waiting, left)

    def under_way(self) -> list[Hashable]:
        """The keys of what is under way."""
        with self._lock:
            return [key for key, work in self._running.items() if not work.lost]

    def _waiting(self, *keys: Hashable) -> list[Future[None]]:
        """What is under way for `keys`, or at all."""
        with self._lock:
            works = [work for key, work in self._running.items() if not keys or key in keys]
        return [work.done for work in works if not work.lost]

    def _taken(self, key: Hashable, loop: asyncio.AbstractEventLoop | None) -> Work | None:
        """The new piece of work for `key`; None where there is one already."""
        with self._lock:
            before = self._running.get(key)
            if before is not None and not before.lost:
                return None
            mine = self._running[key] = Work(Future(), loop)
            return mine

    def _ended(self, key: Hashable, mine: Work, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        self._free(key, mine)
        if not task.cancelled() and (error := task.exception()) is not None:
            failed(logger, "Work in the background failed", error)

    def _free(self, key: Hashable, mine: Work) -> None:
        with self._lock:
            if self._running.get(key) is mine:
                del self._running[key]
        mine.done.set_result(None)
