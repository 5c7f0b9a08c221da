"""`lgm search`: find what was said in threads, on all of their branches, and what is remembered beyond them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from .console import ESCAPED, data_console, print_json, print_table, say
from .options import ConfigOption, JsonOption, NamespaceOption, SetOption, UserOption

if TYPE_CHECKING:
    from langgraph_memory.config import RuntimeConfig

    from .searching import Row
    from .whose import Whose


def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Words in any language; any text is a query.")],
    thread: Annotated[str | None, typer.Option(metavar="ID", help="Only in this thread.")] = None,
    threads: Annotated[bool, typer.Option("--threads", help="Only in threads.")] = False,
    memory: Annotated[bool, typer.Option("--memory", help="Only in long-term memory.")] = False,
    user: UserOption = None,
    values: SetOption = None,
    namespace: NamespaceOption = None,
    number: Annotated[int, typer.Option("-n", metavar="N", min=1, help="Results at most.")] = 10,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Find messages of all threads and entries of all memories that fit a query, in one list, the best first.

    A memory that is named is searched alone of all memories.
    """
    if [thread is not None, threads, memory].count(True) > 1:
        raise typer.BadParameter("only one of --thread ID, --threads and --memory")
    from langgraph_memory.config import load_config

    from .whose import Whose

    whose, settings = Whose.of(user, values, namespace), load_config(config).config
    if thread is not None or threads:
        if whose != Whose():
            raise typer.BadParameter("--user, --set and --namespace name a memory, and only threads are searched")
        rows = _in_threads(settings, query, thread, number)
    else:
        rows = _in_both(settings, query, whose, number, with_threads=not memory)
    if as_json:
        print_json([row.to_json() for row in rows])
    else:
        print_table(_table(rows, mixed=thread is None and not threads), data_console())
    if not rows:
        what = "message" if thread is not None or threads else "entry" if memory else "message or entry"
        say(f"No {what} holds {query!r}.")


def _in_threads(config: RuntimeConfig, query: str, thread: str | None, limit: int) -> list[Row]:
    from .database import existing_database
    from .searching import in_threads, thread_hits

    return in_threads(thread_hits(existing_database(config), query, thread, limit))


def _in_both(config: RuntimeConfig, query: str, whose: Whose, limit: int, *, with_threads: bool) -> list[Row]:
    """In the memories, and in the threads where there are any. Raises where there is neither."""
    from .database import database_of, existing_database
    from .errors import MemoryMissingError
    from .searching import ranked, thread_hits
    from .whose import all_chosen, none_here

    with all_chosen(config, whose) as memories:
        file = database_of(config) if with_threads else None
        if not memories and file is None:
            if with_threads:
                existing_database(config)
            raise MemoryMissingError(none_here(config))
        hits = thread_hits(file, query, None, 2 * limit) if file else []
        return ranked(query, hits, memories, config, limit)


def _table(rows: list[Row], *, mixed: bool) -> Table:
    table = Table(box=None, pad_edge=False, show_header=bool(rows))
    if mixed:
        table.add_column("source", no_wrap=True)
    table.add_column("of" if mixed else "thread", overflow="fold")
    table.add_column("kind" if mixed else "role", no_wrap=True)
    table.add_column("place" if mixed else "message", overflow="fold")
    table.add_column("text", overflow="fold")
    for row in rows:
        words = (row.where, row.kind, row.place, row.text)
        table.add_row(*map(Text, [row.source] if mixed else []), *(Text(word.translate(ESCAPED)) for word in words))
    return table
