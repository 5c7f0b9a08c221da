"""`lgm threads`: the threads of the database."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from .console import data_console, print_json

if TYPE_CHECKING:
    from .reading import ThreadRow

app = typer.Typer(name="threads", help="List the threads, the one changed last first.", invoke_without_command=True)


@app.callback()
def list_(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list instead of a table.")] = False,
    config: Annotated[Path | None, typer.Option(metavar="PATH", help="Configuration file.")] = None,
) -> None:
    """List the threads, the one changed last first."""
    if context.invoked_subcommand is not None:
        return
    from langgraph_memory.config import load_config

    from .database import database_of

    file = database_of(load_config(config).config)
    rows = asyncio.run(_rows(file)) if file else []
    if as_json:
        print_json([row.to_json() for row in rows])
    else:
        data_console().print(_table(rows))


async def _rows(file: Path) -> list[ThreadRow]:
    from .database import open_saver
    from .reading import list_threads

    async with open_saver(file) as saver:
        return await list_threads(saver)


def _table(rows: list[ThreadRow]) -> Table:
    table = Table("thread", box=None, pad_edge=False)
    for name in ("messages", "checkpoints"):
        table.add_column(name, justify="right")
    table.add_column("updated", no_wrap=True)
    table.add_column("next")
    for row in rows:
        counts = (f"{row.messages:,}", f"{row.checkpoints:,}")
        table.add_row(Text(row.thread_id), *counts, row.updated[:19].replace("T", " "), Text(", ".join(row.next)))
    return table
