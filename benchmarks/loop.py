"""How long an event loop is kept from other work while a long thread is decided and rendered.

A task on the same loop ticks every millisecond; the longest time between two ticks is what anybody else on the loop
would have waited. It holds everything: computing on the loop, threads that do not let go of the interpreter (they are
asked to every 5 ms), garbage collection, and other processes. How much the last are shows a loop without work; what
the loop's thread computed itself is told apart by its processor time.
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter, thread_time
from typing import Any

from langgraph_memory import RuntimeConfig

from .longthread import Ourselves, read_anew
from .peers import Messages

TICK = 0.001
IDLE = 1.0


@dataclass
class Gap:
    """Milliseconds of one piece of work."""

    name: str
    took: float = 0.0
    longest: float = 0.0
    """The longest time between two ticks."""
    computing: float = 0.0
    """The most that the loop's own thread computed between two ticks."""
    collecting: float = 0.0
    """The longest garbage collection, in whichever thread."""


def gaps(histories: Sequence[Messages], config: RuntimeConfig) -> tuple[list[Gap], dict[str, Any]]:
    """The gaps a growing thread makes, and the record it has at the end."""
    return asyncio.run(_gaps(histories, config))


async def _gaps(histories: Sequence[Messages], config: RuntimeConfig) -> tuple[list[Gap], dict[str, Any]]:
    """Met for the first time; after a restart, with a new object and messages as read; and the calls that follow."""
    first, *later = histories
    ours = Ourselves(config)
    found = [
        await watched("no work, for comparison", idle, first),
        await watched("node, thread met for the first time", ours.anode, first),
    ]
    for name in ("node", "hook"):
        ours = Ourselves(config, ours.record)
        call = ours.anode if name == "node" else ours.ahook
        found.append(await watched(f"{name}, restarted", call, read_anew(first)))
        warm = [await watched(name, call, history) for history in later]
        warm.sort(key=lambda gap: gap.longest)
        found.append(replace(warm[len(warm) // 2], name=f"{name}, warm, median of {len(warm)}"))
        found.append(replace(warm[-1], name=f"{name}, warm, worst of {len(warm)}"))
    return found, ours.record


async def idle(_: Messages) -> None:
    await asyncio.sleep(IDLE)


async def watched(name: str, call: Callable[[Messages], Awaitable[None]], history: Messages) -> Gap:
    gap, started = Gap(name), perf_counter()
    with collections(gap):
        ticking = asyncio.create_task(_tick(gap))
        await asyncio.sleep(TICK)
        await call(history)
        await asyncio.sleep(TICK)
        ticking.cancel()
    gap.took = (perf_counter() - started) * 1000
    return gap


async def _tick(gap: Gap) -> None:
    last, used = perf_counter(), thread_time()
    while True:
        await asyncio.sleep(TICK)
        now, spent = perf_counter(), thread_time()
        gap.longest = max(gap.longest, (now - last) * 1000)
        gap.computing = max(gap.computing, (spent - used) * 1000)
        last, used = now, spent


@contextmanager
def collections(gap: Gap) -> Iterator[None]:
    """Note the longest garbage collection."""
    started = 0.0

    def note(phase: str, _: dict[str, int]) -> None:
        nonlocal started
        if phase == "start":
            started = perf_counter()
        else:
            gap.collecting = max(gap.collecting, (perf_counter() - started) * 1000)

    gc.callbacks.append(note)
    try:
        yield
    finally:
        gc.callbacks.remove(note)
