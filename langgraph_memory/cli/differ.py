"""`lgm diff`: what makes one view another, and where a prompt cache breaks between them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from .completing import complete_view
from .console import ESCAPED, data_console, print_json, print_table
from .options import ConfigOption, JsonOption

if TYPE_CHECKING:
    from langgraph_memory.context.viewdiff import Change, ViewDiff
    from langgraph_memory.threads import ThreadStore

SIGNS = {"same": " ", "new": "+", "gone": "-", "changed": "~"}
COLOURS = {"same": "dim", "new": "green", "gone": "red", "changed": "yellow"}
HELP = "A thread, or THREAD@CHECKPOINT for what the model was sent there."


def diff(
    before: Annotated[str, typer.Argument(metavar="A", help=HELP, autocompletion=complete_view)],
    after: Annotated[str, typer.Argument(metavar="B", help=HELP, autocompletion=complete_view)],
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Show how two views differ, message by message, and where a prompt cache breaks between them."""
    from langgraph_memory.config import load_config
    from langgraph_memory.context.viewdiff import ViewDiff

    from .database import with_store
    from .reading import view_of

    async def read(store: ThreadStore) -> list[dict[str, Any]]:
        return [await read_named(store, name) for name in (before, after)]

    settings = load_config(config).config
    found = ViewDiff.of(*(view_of(settings, values) for values in with_store(config, read)))
    if as_json:
        print_json({"before": before, "after": after, **found.to_json()})
        return
    console = data_console()
    for line in _lines(found):
        console.print(line, soft_wrap=True)
    print_table(_parts(found), console)


async def read_named(store: ThreadStore, name: str) -> dict[str, Any]:
    """Messages and record of THREAD or THREAD@CHECKPOINT; an id may have an @ of its own."""
    from langgraph_memory.errors import UnknownThreadError

    from .reading import read_thread

    thread, at, checkpoint = name.rpartition("@")
    try:
        return await read_thread(store, name)
    except UnknownThreadError:
        if not (at and thread):
            raise
    return await read_thread(store, thread, checkpoint)


def _lines(found: ViewDiff) -> Iterator[Text]:
    for first, *more in found.runs():
        if more:
            tokens = sum(change.tokens_after for change in (first, *more))
            numbers = f"{first.number}–{more[-1].number}"
            yield Text(f"  {numbers}: {1 + len(more):,} messages the same, {tokens:,} tokens", "dim")
        else:
            yield _line(first)
    yield Text(found.verdict, style="bold")


def _line(change: Change) -> Text:
    place = f" · message {change.position + 1:,}" if change.position is not None else ""
    how = f" · {change.how.translate(ESCAPED)}" if change.how else ""
    line = f"{SIGNS[change.what]} {change.number}. {change.role}{place}{how} · {change.tokens} tokens"
    return Text(line, COLOURS[change.what])


def _parts(found: ViewDiff) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("tokens", no_wrap=True)
    for name in ("before", "after", "difference"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, (old, new) in {**found.parts, "total": found.total}.items():
        table.add_row(name, f"{old:,}", f"{new:,}", f"{new - old:+,}" if new != old else "")
    return table
