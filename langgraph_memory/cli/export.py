"""`lgm threads export`: threads as text, or as a database of LangGraph's own saver."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TextIO

import typer

from .console import say
from .options import ConfigOption

if TYPE_CHECKING:
    from langgraph_memory.threads import ThreadStore


Format = Literal["jsonl", "markdown", "recording"]
"""As `langgraph_memory.threads.export` has them, which is slow to import."""


def export(
    thread: Annotated[str | None, typer.Argument(metavar="[THREAD]", help="Id of the thread.")] = None,
    all: Annotated[bool, typer.Option("--all", help="All threads.")] = False,
    format: Annotated[
        Format,
        typer.Option(
            help="jsonl: a JSON object a message, as LangChain names its fields. markdown: to read. recording: a line "
            "a thread, which `lgm replay` reads."
        ),
    ] = "jsonl",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="File to write; without it stdout.")] = None,
    plain: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Instead of text: a new database with everything, for LangGraph's AsyncSqliteSaver."
        ),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Write the messages of a thread, or of all, as text; or all threads as a plain LangGraph database."""
    if [bool(thread), all, bool(plain)].count(True) != 1:
        raise typer.BadParameter("name a THREAD, or --all, or --plain FILE")
    if plain:
        _export_plain(plain, config)
        return
    from .database import with_store
    from .exporting import writing

    with writing(out) if out else nullcontext(None) as file:
        count = with_store(config, lambda store: _write(store, thread, format, file))
    if out:
        say(f"{out}: {count:,} {'thread' if count == 1 else 'threads'}")


async def _write(store: ThreadStore, thread: str | None, format: Format, file: TextIO | None) -> int:
    from .exporting import lines

    names = [thread] if thread else [row.thread_id for row in await store.threads()]
    async for line in lines(store, names, format, named=thread is None):
        typer.echo(line, file=file)
    if not names:
        say("The database holds no threads.")
    return len(names)


def _export_plain(target: Path, config: Path | None) -> None:
    from langgraph_memory.config import load_config

    from .database import existing_database
    from .exporting import export_plain

    count = export_plain(existing_database(load_config(config).config), target)
    say(f"{target}: {count:,} checkpoints, as LangGraph's AsyncSqliteSaver reads them")
