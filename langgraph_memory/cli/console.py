"""Where the command line writes: data to stdout, everything else to stderr."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

PIPE_WIDTH = 160
"""Columns where stdout is no terminal and $COLUMNS says nothing."""
FOLDED = 12
"""Columns that a column which may be folded needs at least."""

ESCAPED = {0x1B: "␛", 0x9B: "␛["}
"""What would begin a command to the terminal."""
_CONTROLS = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}
"""Control characters that JSON lets through as they are."""


def use_utf8() -> None:
    """Write UTF-8 whatever the locale is; what cannot be encoded is escaped. A closed stdin is empty."""
    if sys.stdin is None:
        # Its number would be that of the next file, which might be a database.
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def data_console() -> Console:
    """Console on stdout; wide where nobody looks, so that tables in pipes are not squeezed."""
    console = Console(highlight=False, _environ=_environ())
    if is_piped(console):
        console.width = PIPE_WIDTH
    return console


def is_piped(console: Console) -> bool:
    """Whether nobody looks at the console, and $COLUMNS says no width either."""
    return not console.is_terminal and not _environ().get("COLUMNS")


def chatter_console() -> Console:
    """Console on stderr."""
    return Console(stderr=True, highlight=False, _environ=_environ())


def _environ() -> Mapping[str, str]:
    """The environment without a $COLUMNS of 0, in which nothing could be printed."""
    return {name: value for name, value in os.environ.items() if name != "COLUMNS" or value.strip("0")}


def say(text: str, console: Console | None = None) -> None:
    """One remark on stderr: no markup, no wrapping, nothing that a terminal obeys."""
    (console or chatter_console()).print(Text(text.translate(ESCAPED)), soft_wrap=True)


def print_json(value: Any) -> None:
    """`value` on stdout, whatever the width of the terminal."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2).translate(_CONTROLS))


# Tables


def print_values(rows: Iterable[tuple[str, str]]) -> None:
    """What something is, line by line: a name and its value."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column("what", no_wrap=True)
    table.add_column("is", overflow="fold")
    for what, value in rows:
        table.add_row(what, Text(value.translate(ESCAPED)))
    print_table(table, data_console())


def fits(table: Table, console: Console) -> bool:
    """Whether the console has room for `table` with its longest names and values folded."""
    spare = sum(max(0, _width(column) - FOLDED) for column in table.columns if not column.no_wrap)
    return _full_width(table, console) - spare <= console.width


def print_table(table: Table, console: Console) -> None:
    """`table`, of which nothing is cut off: in a pipe it is as wide as it needs, and where it does not fit, a line
    is printed for each cell that is not empty, as `heading: value`."""
    if is_piped(console):
        console.width = max(console.width, _full_width(table, console))
    if fits(table, console):
        console.print(table)
        return
    for number, row in enumerate(zip(*(column.cells for column in table.columns), strict=True)):
        if number:
            console.print()
        for column, cell in zip(table.columns, row, strict=True):
            if str(cell):
                console.print(Text(f"{column.header}: {cell}"), soft_wrap=True)


def _full_width(table: Table, console: Console) -> int:
    return console.measure(table, options=console.options.update(width=1_000_000)).maximum


def _width(column: Column) -> int:
    return max(cell_len(str(cell)) for cell in (column.header, *column.cells))
