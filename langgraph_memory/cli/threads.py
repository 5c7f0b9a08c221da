"""`lgm threads`: the threads of the database."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from .console import data_console, print_json, print_table, say

if TYPE_CHECKING:
    from .reading import ThreadRow


def threads(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list instead of a table.")] = False,
    config: Annotated[Path | None, typer.Option(metavar="PATH", help="Configuration file.")] = None,
) -> None:
    """List the threads, the one changed last first."""
    from langgraph_memory.config import load_config

    from .database import database_of, none_here

    settings = load_config(config).config
    file = database_of(settings)
    rows = asyncio.run(_rows(file)) if file else []
    if as_json:
        print_json([row.to_json() for row in rows])
    else:
        print_table(_table(rows), data_console())
    if file is None:
        say(none_here(settings))
    elif not rows:
        say(f"{file}: the database holds no threads.")


async def _rows(file: Path) -> list[ThreadRow]:
    from .database import open_saver
    from .reading import list_threads

    async with open_saver(file) as saver:
        return await list_threads(saver)


def _table(rows: list[ThreadRow]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("thread", overflow="fold")
    for name in ("messages", "checkpoints"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("updated", no_wrap=True)
    table.add_column("next", overflow="fold")
    for row in rows:
        counts = (f"{row.messages:,}", f"{row.checkpoints:,}")
        table.add_row(Text(row.thread_id), *counts, row.updated[:19].replace("T", " "), Text(", ".join(row.next)))
    return table
