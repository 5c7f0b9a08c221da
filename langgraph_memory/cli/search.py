"""`lgm search`: find messages of all threads, and of all their branches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from .console import ESCAPED, data_console, print_json, print_table, say
from .options import ConfigOption, JsonOption

if TYPE_CHECKING:
    from langgraph_memory.threads import Hit


def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Words in any language; any text is a query.")],
    thread: Annotated[str | None, typer.Option(metavar="ID", help="Only in this thread.")] = None,
    number: Annotated[int, typer.Option("-n", metavar="N", min=1, help="Messages at most.")] = 10,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Find messages that hold every word of a query, or where there are none, some of them; the best first."""
    from .database import with_store

    # The index of the words is brought up to date meanwhile.
    hits = with_store(config, lambda store: store.search(query, thread_id=thread, limit=number), changing=True)
    if as_json:
        print_json([hit.to_json() for hit in hits])
    else:
        print_table(_table(hits), data_console())
    if not hits:
        say(f"No message holds {query!r}.")


def _table(hits: list[Hit]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=bool(hits))
    table.add_column("thread", overflow="fold")
    table.add_column("role", no_wrap=True)
    table.add_column("message", overflow="fold")
    table.add_column("text", overflow="fold")
    for hit in hits:
        words = (hit.thread_id, hit.role, hit.message_id or "–", hit.excerpt.translate(ESCAPED))
        table.add_row(*map(Text, words))
    return table
