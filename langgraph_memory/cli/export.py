"""`lgm threads export`: threads as text, or as a database of LangGraph's own saver."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Literal, TextIO

import typer

from .completing import complete_thread
from .console import say
from .options import ConfigOption

Format = Literal["jsonl", "markdown", "recording"]
"""As `langgraph_memory.threads.export` has them, which is slow to import."""


def export(
    thread: Annotated[
        str | None, typer.Argument(metavar="[THREAD]", help="Id of the thread.", autocompletion=complete_thread)
    ] = None,
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
    from .exporting import writing

    names = [thread] if thread else _all(config)
    with writing(out) if out else nullcontext(None) as file:
        for number, name in enumerate(names):
            _write(name, format, config, file, first=not number, named=all)
    if out:
        say(f"{out}: {len(names):,} {'thread' if len(names) == 1 else 'threads'}")


def _all(config: Path | None) -> list[str]:
    from .database import with_store

    rows = with_store(config, lambda store: store.threads())
    if not rows:
        say("The database holds no threads.")
    return [row.thread_id for row in rows]


def _write(name: str, format: Format, config: Path | None, file: TextIO | None, *, first: bool, named: bool) -> None:
    from .database import with_store
    from .exporting import lines

    if not first and format == "markdown":
        typer.echo(file=file)
    for line in with_store(config, lambda store: lines(store, name, format, named=named)):
        typer.echo(line, file=file)


def _export_plain(target: Path, config: Path | None) -> None:
    from langgraph_memory.config import load_config

    from .database import existing_database
    from .exporting import export_plain

    count = export_plain(existing_database(load_config(config).config), target)
    say(f"{target}: {count:,} checkpoints, as LangGraph's AsyncSqliteSaver reads them")
