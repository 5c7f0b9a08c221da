"""`lgm maintain`: the regular round over everything on disk, now."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from .console import ESCAPED, chatter_console, data_console, print_json, print_table, say
from .options import ConfigOption, JsonOption

if TYPE_CHECKING:
    from rich.progress import Progress

    from langgraph_memory import MemoryMiddleware, RuntimeConfig

OF_A_MEMORY = ("flush", "consolidate", "ledgers", "sessions", "versions", "index")
OF_THE_WORKSPACE = ("spills", "threads")
BUSY = "round"
"""The name of the only step where somebody else is doing the round."""


def maintain(
    force: Annotated[
        bool, typer.Option("--force", help="Consolidate also where that was done within the interval.")
    ] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Do now what is done regularly: flush and consolidate what waits, put away what is old, check what is derived.

    Agents may go on meanwhile. Where another process is doing the same, it is left to it.
    """
    done = _done(config, force=force)
    if [step.step for step in done] == [BUSY]:
        if as_json:
            print_json([])
        say("Another process is doing this right now: nothing was done.")
        return
    if as_json:
        print_json([asdict(step) for step in done])
    else:
        print_table(_table(done), data_console())


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the round."""

    memory: str | None
    """None for what belongs to the whole workspace."""
    step: str
    count: int
    problem: str


def _done(path: Path | None, *, force: bool) -> list[Step]:
    from langgraph_memory.config import load_config
    from langgraph_memory.opening import workspace_of

    from .database import database_of
    from .errors import MemoryMissingError
    from .whose import none_here

    config = load_config(path).config
    if not workspace_of(config).is_dir():
        raise MemoryMissingError(none_here(config))
    return asyncio.run(_round(config, database_of(config), force=force))


async def _round(config: RuntimeConfig, file: Path | None, *, force: bool) -> list[Step]:
    done: list[Step] = []
    async with _opened(config, file) as (memory, spills):
        names = await asyncio.to_thread(_names, memory)
        total = len(names) * len(OF_A_MEMORY) + len(OF_THE_WORKSPACE)
        with _progress(total) as progress:
            number = -1
            async for one in memory.upkeep(spills=spills).round(force=force):
                number += one.name == OF_A_MEMORY[0]
                mine = one.name in OF_A_MEMORY and 0 <= number < len(names)
                done.append(Step(names[number] if mine else None, one.name, one.count, one.problem))
                progress.done(done[-1])
    return done


@asynccontextmanager
async def _opened(config: RuntimeConfig, file: Path | None) -> AsyncIterator[tuple[MemoryMiddleware, bool]]:
    """The memory, and whether it knows all threads. Makes no database, and no round of its own in the background."""
    from langgraph_memory import MemoryMiddleware
    from langgraph_memory.opening import workspace_of

    from .database import open_store
    from .errors import MemoryUnusableError

    workspace = workspace_of(config)
    async with open_store(file, changing=True) if file else nullcontext() as store:
        saver = None if store is None else store.saver
        memory = await asyncio.to_thread(MemoryMiddleware, config, saver=saver, workspace=workspace)
        try:
            yield memory, store is not None
        except OSError as error:
            raise MemoryUnusableError(f"{workspace}: cannot be looked after ({error}).") from error
        finally:
            await memory.adrain()


def _names(memory: MemoryMiddleware) -> list[str]:
    from .whose import shown_name

    homes = memory.longterm.homes
    return [shown_name(homes, keeper) for keeper in homes.all()]


def _table(done: list[Step]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("memory", overflow="fold")
    table.add_column("step", no_wrap=True)
    table.add_column("count", justify="right", no_wrap=True)
    table.add_column("problem", overflow="fold")
    for step in done:
        problem = Text(step.problem.translate(ESCAPED))
        table.add_row(Text(step.memory or "–"), step.step, f"{step.count:,}", problem)
    return table


class _Watch:
    def __init__(self, progress: Progress | None = None, total: int = 0) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=total) if progress else None

    def done(self, step: Step) -> None:
        if self._progress is not None and self._task is not None:
            name = " ".join(filter(None, (step.memory, step.step)))
            self._progress.update(self._task, advance=1, description=name)


@contextmanager
def _progress(total: int) -> Iterator[_Watch]:
    """A bar on stderr, where that is a terminal."""
    console = chatter_console()
    if not console.is_terminal:
        yield _Watch()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield _Watch(progress, total)
