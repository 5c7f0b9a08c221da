"""Where the command line writes: data to stdout, everything else to stderr."""

from __future__ import annotations

import io
import json
import os
import sys
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

PIPE_WIDTH = 160
"""Columns where stdout is no terminal and $COLUMNS says nothing."""


def use_utf8() -> None:
    """Write UTF-8 whatever the locale is; what cannot be encoded is escaped instead of raising."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def data_console() -> Console:
    """Console on stdout; wide where nobody looks, so that tables in pipes are not squeezed."""
    console = Console(highlight=False)
    if not console.is_terminal and not os.environ.get("COLUMNS"):
        console.width = PIPE_WIDTH
    return console


def chatter_console() -> Console:
    """Console on stderr."""
    return Console(stderr=True, highlight=False)


def say(text: str, console: Console | None = None) -> None:
    """One remark on stderr, as it is: no markup, no wrapping."""
    (console or chatter_console()).print(Text(text), soft_wrap=True)


def print_json(value: Any) -> None:
    """`value` on stdout, whatever the width of the terminal."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))
