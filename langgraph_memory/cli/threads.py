"""`lgm threads`: the threads of the database, and looking after them."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from .called import program
from .completing import complete_thread
from .console import ESCAPED, data_console, print_json, print_table, say
from .export import export
from .files import readable_size
from .options import ConfigOption, JsonOption
from .prune import prune

if TYPE_CHECKING:
    from .listing import Listed

app = typer.Typer(name="threads", help="List threads, and look after them.", invoke_without_command=True)
app.command()(export)
app.command()(prune)

NamesArgument = Annotated[
    list[str], typer.Argument(metavar="THREAD...", help="Ids of threads.", autocompletion=complete_thread)
]


@app.callback()
def _threads(context: typer.Context, as_json: JsonOption = False, config: ConfigOption = None) -> None:
    """List the threads, the one changed last first, or look after them."""
    if context.invoked_subcommand is None:
        list_(as_json, config)
    elif as_json or config:
        raise typer.BadParameter(f"options of `threads {context.invoked_subcommand}` stand behind its name")


# The list


@app.command("list")
def list_(as_json: JsonOption = False, config: ConfigOption = None) -> None:
    """List the threads, the one changed last first."""
    from langgraph_memory.config import load_config

    from .database import database_of, none_here, uri_of

    settings = load_config(config).config
    file = database_of(settings)
    rows = asyncio.run(_rows(file, uri_of(file))) if file else []
    if as_json:
        print_json([row.to_json() for row in rows])
    else:
        print_table(table_of(rows), data_console())
    if file is None:
        say(none_here(settings))
    elif not rows:
        say(f"{file}: the database holds no threads.")


async def _rows(file: Path, uri: str) -> list[Listed]:
    from .database import open_store
    from .listing import listed

    async with open_store(file, uri=uri) as store:
        return await listed(store)


def table_of(rows: list[Listed]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("thread", overflow="fold")
    for name in ("turns", "messages", "tokens", "branches", "size"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("updated", no_wrap=True)
    table.add_column("next", overflow="fold")
    for one in rows:
        row, tokens = one.row, "–" if one.tokens is None else f"{one.tokens:,}"
        counts = (f"{row.turns:,}", f"{row.messages:,}", tokens, f"{row.branches:,}", readable_size(row.bytes))
        name, following = (text.translate(ESCAPED) for text in (row.thread_id, ", ".join(row.next)))
        table.add_row(Text(name), *counts, row.updated[:19].replace("T", " "), Text(following))
    return table


# Looking after them


@app.command()
def rm(
    threads: NamesArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also threads that still have something to run.")] = False,
    config: ConfigOption = None,
) -> None:
    """Remove threads for good, with every message that only they hold. The exit code is 1 where the answer was no."""
    from .database import with_store
    from .upkeep import removable, remove

    rows, damaged = with_store(config, lambda store: removable(store, threads, force=force))
    for row in rows:
        size = readable_size(row.bytes)
        say(f"{row.thread_id}: {row.turns:,} turns, {row.messages:,} messages, {row.checkpoints:,} checkpoints, {size}")
    for name in damaged:
        say(f"{name}: damaged, so nobody can tell what is in it")
    if not yes and not typer.confirm("Remove for good?", err=True):
        say("Nothing was removed.")
        raise typer.Exit(1)
    with_store(config, lambda store: remove(store, threads, force=force), changing=True)
    say(f"Removed. `{program()} threads vacuum` gives the space back to the disk.")


@app.command()
def stats(
    thread: Annotated[
        str | None,
        typer.Argument(metavar="[THREAD]", help="Only what this thread uses.", autocompletion=complete_thread),
    ] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Count what the database holds. A message that several checkpoints or threads hold counts once."""
    from .database import with_store

    found = asdict(with_store(config, lambda store: store.stats(thread)))
    if as_json:
        print_json(found)
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column("what", no_wrap=True)
    table.add_column("number", justify="right", no_wrap=True)
    for name, number in found.items():
        table.add_row(name.replace("_", " "), readable_size(number) if name.endswith("bytes") else f"{number:,}")
    print_table(table, data_console())


@app.command()
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="New file for the copy.")],
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Copy the database as it is at one moment, while programs use it."""
    from langgraph_memory.config import load_config

    from .database import existing_database
    from .upkeep import backup

    size = backup(existing_database(load_config(config).config), file)
    if as_json:
        print_json({"file": str(file), "bytes": size})
    else:
        say(f"{file}: {readable_size(size)}. Use it with LANGGRAPH_MEMORY_DB_PATH={file}, or put it in its place.")


@app.command()
def vacuum(as_json: JsonOption = False, config: ConfigOption = None) -> None:
    """Give the space of what was removed back to the disk."""
    from langgraph_memory.config import load_config

    from .database import existing_database
    from .upkeep import vacuum

    done = vacuum(existing_database(load_config(config).config))
    if as_json:
        print_json(asdict(done))
    else:
        typer.echo(f"{done.file}: {readable_size(done.before)} before, {readable_size(done.after)} after")
