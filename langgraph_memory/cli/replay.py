"""`lgm replay`: what the memory does to recorded conversations, call by call."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .console import data_console, print_json, say

FilesArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[FILE]...",
        show_default=False,
        help="Recordings, one conversation a line (JSON Lines, OpenAI-style messages). Without one: a made sample.",
    ),
]


def replay(
    files: FilesArgument = None,
    window: Annotated[
        int | None,
        typer.Option(min=1, show_default=False, help="Context window in tokens; without it the configuration's."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="PROVIDER:NAME", help="Model that writes the summaries; without it they are extracted."),
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
    from .replay_table import hints, table

    request = Request(tuple(files or ()), window, model, thread, limit, config)
    result = run(request)
    if as_json:
        print_json(result.to_json())
    else:
        console = data_console()
        console.print(table(result, console.width))
    for hint in hints(result, request):
        say(hint)
    raise typer.Exit(0 if result.sound else 1)
