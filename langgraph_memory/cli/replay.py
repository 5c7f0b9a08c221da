"""`lgm replay`: what the memory does to recorded conversations, call by call."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from langgraph_memory.config import CompactionConfig
from langgraph_memory.errors import ConfigError

from .console import data_console, print_json, say

FilesArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[FILE]...",
        show_default=False,
        help="Recordings, one conversation a line (JSON Lines, OpenAI-style messages); - is standard input. Without "
        "one: a made sample.",
    ),
]

SMALLEST_WINDOW = 500
"""As in the configuration."""


def _checked_model(name: str | None) -> str | None:
    """`name`, if the configuration would take it."""
    try:
        return CompactionConfig(model=name).model
    except ConfigError as error:
        raise typer.BadParameter(f'{name!r}; allowed: PROVIDER:NAME, as in "openai:gpt-5-mini"') from error


def replay(
    files: FilesArgument = None,
    window: Annotated[
        int | None,
        typer.Option(
            min=SMALLEST_WINDOW,
            show_default=False,
            help="Context window in tokens; without it the configuration's number, or if that is auto, 12,000 for the "
            "sample and 32,000 for files.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="PROVIDER:NAME",
            callback=_checked_model,
            help="Model that writes the summaries; without it they are extracted.",
        ),
    ] = None,
    thread: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Thread to replay into; without it FILE/CONVERSATION. Several: ID/CONVERSATION."
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Conversations of each file at most.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    config: Annotated[Path | None, typer.Option(metavar="PATH", help="Configuration file.")] = None,
) -> None:
    """Run recorded conversations through a real graph with memory, and say what the model would have been sent.

    Every recorded reply is one call of the model. A replay that was stopped goes on where it was when it is started
    again. The exit code is 1 where a view did not fit, was invalid or had lost the request, or a conversation stopped.
    """
    from .replay_run import Request, run
    from .replay_table import hints, print_result

    request = Request(tuple(files or ()), window, model, thread, limit, config)
    result = run(request)
    if as_json:
        print_json(result.to_json())
    else:
        print_result(result, data_console())
    for hint in hints(result, request):
        say(hint)
    raise typer.Exit(0 if result.sound else 1)
