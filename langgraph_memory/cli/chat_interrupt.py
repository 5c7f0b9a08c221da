"""Ctrl-C in a chat: it ends what is being done, not the program."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


class Stopped(Exception):
    """What was under way was ended by Ctrl-C."""


@contextmanager
def catching(action: Callable[[], object]) -> Iterator[None]:
    """Call `action` on the event loop at Ctrl-C, whatever the loop would do itself. Only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = signal.signal(signal.SIGINT, lambda *_: loop.call_soon_threadsafe(action))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


async def interruptible(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which Ctrl-C cancels. Raises `Stopped` then."""
    task = asyncio.ensure_future(work)
    interrupted = False

    def interrupt() -> None:
        nonlocal interrupted
        interrupted = True
        task.cancel()

    with catching(interrupt):
        try:
            return await task
        except asyncio.CancelledError:
            if interrupted and task.done():
                raise Stopped from None
            task.cancel()
            raise
