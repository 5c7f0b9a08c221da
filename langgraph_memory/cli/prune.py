"""`lgm threads prune`: what is not needed any more goes; only said, until --apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from .called import program
from .completing import complete_thread
from .console import data_console, print_json, print_table, say
from .options import ConfigOption, JsonOption

if TYPE_CHECKING:
    from .upkeep import Pruning


def prune(
    threads: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[THREAD]...", help="Only these threads; without any, all.", autocompletion=complete_thread
        ),
    ] = None,
    older_than: Annotated[
        float | None, typer.Option(metavar="DAYS", min=0, help="Remove threads that did not change for so many days.")
    ] = None,
    keep_latest: Annotated[
        bool,
        typer.Option("--keep-latest", help="Remove all checkpoints but the newest: no more rewind, undo or branches."),
    ] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Do it. Without this option it is only said.")] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Remove old threads, or old checkpoints of threads. Threads that have something to run are left alone."""
    if keep_latest == (older_than is not None):
        raise typer.BadParameter("either --older-than DAYS or --keep-latest")
    from . import upkeep
    from .database import with_store

    done = with_store(
        config,
        lambda store: upkeep.prune(store, threads or (), older_than, apply=apply),
        changing=apply,
        ours=apply and keep_latest,
    )
    if as_json:
        print_json(done.to_json())
    else:
        print_table(_table(done), data_console())
    for name in done.left_alone:
        say(f"{name}: left alone, as it still has something to run")
    _say_result(done)


def _table(done: Pruning) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("thread", overflow="fold")
    for name in ("checkpoints that go", "that stay"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("updated", no_wrap=True)
    for one in done.threads:
        kept = f"{one.kept:,}" if one.kept else "none"
        table.add_row(Text(one.thread_id), f"{one.checkpoints:,}", kept, one.updated[:19].replace("T", " "))
    return table


def _say_result(done: Pruning) -> None:
    if not done.threads:
        say("Nothing to prune.")
    elif done.applied:
        say(f"Done. `{program()} threads vacuum` gives the space back to the disk.")
    else:
        say("Nothing was removed yet: --apply does it.")
