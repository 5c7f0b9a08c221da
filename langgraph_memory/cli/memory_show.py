"""`lgm memory show`: MEMORY.md and the ledgers, as people read them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from .called import program
from .console import ESCAPED, data_console, print_json, print_table, say
from .files import readable_size
from .options import ConfigOption, JsonOption, NamespaceOption, SetOption, UserOption

if TYPE_CHECKING:
    from .memory_files import MemoryFile, Shown

CURATED = "MEMORY.md"
GIVEN_UP = "from a branch that was given up"


def show(
    file: Annotated[
        str, typer.Argument(metavar="[FILE]", help="MEMORY.md, a day such as 2026-03-31 or today, a path or a version.")
    ] = CURATED,
    lines: Annotated[
        str | None, typer.Option(metavar="A:B", help="Only lines A to B; each may be left out, A alone is one line.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the files with their sizes and entries.")] = False,
    user: UserOption = None,
    values: SetOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Show what is remembered: MEMORY.md, or the ledger of a day. Entries of branches given up are shown as such."""
    first, last = _lines(lines)
    from . import memory_files
    from .whose import Whose, chosen

    with chosen(config, Whose.of(user, values, namespace)) as memory:
        if list_:
            _print_list(memory_files.files(memory.keeper), memory.name, as_json)
            return
        path = memory_files.file_named(memory.keeper, file)
        found = memory_files.shown(memory.keeper, path, first, last)
        name = memory.name
    if as_json:
        print_json({"memory": name, **found.to_json()})
    else:
        console = data_console()
        for line in found.lines:
            text = Text(line.text.translate(ESCAPED))
            console.print(text.append(f" · {GIVEN_UP}", "dim") if line.abandoned else text, soft_wrap=True)
    _say_nothing(found, name)


def _lines(given: str | None) -> tuple[int, int | None]:
    """The first and the last line of "A:B", of which each may be left out, or of "A"."""
    if given is None:
        return 1, None
    if not (found := re.fullmatch(r"\s*(\d*)\s*(?:(:)\s*(\d*))?\s*", given, re.ASCII)) or not re.search(r"\d", given):
        raise typer.BadParameter(f"--lines {given!r}; allowed: A:B, A:, :B or A, lines counted from 1")
    first = int(found[1] or 1)
    last = (int(found[3]) if found[3] else None) if found[2] else first
    if not first or (last is not None and last < first):
        raise typer.BadParameter(f"--lines {given!r}: lines are counted from 1, and A is not behind B")
    return first, last


def _say_nothing(found: Shown, name: str) -> None:
    if found.lines:
        return
    if found.total:
        say(f"{found.path} has {found.total:,} lines.")
    elif found.path == CURATED:
        say(
            f"{name}: there is no {CURATED} yet. `{program()} memory show --list` lists the ledgers, "
            f"`{program()} memory consolidate` makes it from them."
        )
    else:
        say(f"{found.path} is empty.")


def _print_list(rows: list[MemoryFile], name: str, as_json: bool) -> None:
    if as_json:
        print_json([{"memory": name, **row.to_json()} for row in rows])
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("file", overflow="fold")
    for heading in ("entries", "given up", "size"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("changed", no_wrap=True)
    for row in rows:
        counts = (f"{row.entries:,}", f"{row.abandoned:,}" if row.abandoned else "", readable_size(row.bytes))
        table.add_row(Text(row.path.translate(ESCAPED)), *counts, row.changed[:19].replace("T", " "))
    print_table(table, data_console())
    if not rows:
        say(f"{name}: nothing is remembered yet.")
