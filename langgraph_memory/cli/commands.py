"""The commands of `lgm`, and how one is run: its errors and the library's warnings become lines on stderr."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Annotated

import typer

from langgraph_memory.errors import LangGraphMemoryError

from . import (
    back,
    chat,
    compact,
    config,
    differ,
    log,
    look,
    maintain,
    memory,
    replay,
    search,
    status,
    threads,
    tree,
    verify,
)
from .advice import advised, told
from .called import program
from .console import say, use_utf8

DISTRIBUTION = "langgraph-memory-middleware"
ADVICE = {
    "No token ranks": f"Exact counts: pip install '{DISTRIBUTION}[offline-tokens]'",
    "Left out": "`{program} verify` lists everything that is wrong.",
}
"""What the user of a command can do about a warning, by how the warning begins; `{program}` is what runs."""

EXIT_CODES = (
    "Exit codes: 0 all is well; 1 something was found or not done (verify, memory consolidate, a question answered "
    "with no); 2 an error, told in one line, or a wrong option; 130 Ctrl-C. Data goes to stdout, all else to stderr; "
    "--json prints the data as JSON. NO_COLOR and FORCE_COLOR are respected."
)

app = typer.Typer(
    name="lgm",
    help="Memory for LangGraph agents: replay conversations through it, look at threads and what is remembered.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("replay")(replay.replay)
app.command()(chat.chat)
app.add_typer(threads.app)
for command in (
    status.status,
    log.log,
    look.context,
    look.view,
    differ.diff,
    tree.tree,
    back.rewind,
    back.undo,
    back.fork,
    compact.compact,
):
    app.command()(command)
app.command()(search.search)
app.add_typer(memory.app)
app.command()(maintain.maintain)
app.command()(verify.verify)
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


def run() -> str | int | None:
    """Run the command that was asked for; returns the exit code."""
    use_utf8()
    try:
        with _warnings_said():
            app()
    except LangGraphMemoryError as error:
        say(f"Error: {advised(str(error), error)}")
        return 2
    except OSError as error:
        # What nothing nearer has named: output that cannot be written, a folder that may not be looked into.
        say(f"Error: {advised(told(error), error)}")
        return 2
    except SystemExit as leaving:
        return leaving.code
    return 0


class _Saying(logging.Handler):
    """Says each warning once, as one line."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._said = set[str]()
        # Asked for here: it looks at files, and warnings come from an event loop.
        self._program = program()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        advice = next((what for beginning, what in ADVICE.items() if text.startswith(beginning)), "")
        cause = f"({record.exc_info[1]})" if record.exc_info else ""
        line = " ".join(filter(None, (text, cause, advice.replace("{program}", self._program))))
        if line not in self._said:
            self._said.add(line)
            say(line)


@contextmanager
def _warnings_said() -> Iterator[None]:
    logger, handler = logging.getLogger("langgraph_memory"), _Saying()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
