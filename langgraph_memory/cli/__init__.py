"""`lgm`: replay recorded conversations through the memory, and look at threads.

Commands parse and print, functions return data. Data goes to stdout, everything said beside it to stderr. An error of
the library is one message and exit code 2; what cannot be used on the command line is 2 as well; 130 is Ctrl-C.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from langgraph_memory.errors import LangGraphMemoryError

from . import config, look, replay, threads
from .console import say, use_utf8

DISTRIBUTION = "langgraph-memory-middleware"

app = typer.Typer(
    name="lgm",
    help="Memory for LangGraph agents: replay recorded conversations through it, and look at threads.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("replay")(replay.replay)
app.add_typer(threads.app)
app.command("context")(look.context)
app.command("view")(look.view)
app.add_typer(config.app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"langgraph_memory {version(DISTRIBUTION)}")
        raise typer.Exit


@app.callback()
def _root(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Entry point of the scripts."""
    use_utf8()
    try:
        app()
    except LangGraphMemoryError as error:
        say(f"Error: {error}")
        sys.exit(2)
    except (KeyboardInterrupt, SystemExit) as leaving:
        code = 130 if isinstance(leaving, KeyboardInterrupt) else leaving.code
        if code == 130:
            say("Interrupted. What was stored stays stored.")
        sys.exit(code)
