"""`lgm chat`: talk with a model that has memory, in the terminal or through a pipe."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import ConfigOption

EXIT_CODES = "Exit codes: 0 left; 1 a turn failed, where the lines came through a pipe; 2 it cannot begin; 130 Ctrl-C."


def chat(
    model: Annotated[
        str | None,
        typer.Option(metavar="PROVIDER:NAME", help="The model; demo is one of fixed rules that needs no key."),
    ] = None,
    base_url: Annotated[
        str | None, typer.Option("--base-url", metavar="URL", help="A server that speaks OpenAI's API instead.")
    ] = None,
    model_name: Annotated[
        str | None, typer.Option("--model-name", metavar="NAME", help="The model there; without it the first one.")
    ] = None,
    thread: Annotated[
        str | None, typer.Option(metavar="ID", help="The thread to go on with; without it a new one.")
    ] = None,
    user: Annotated[
        str | None, typer.Option(metavar="ID", help="Whose memory: fills {user_id}; without it who is logged in.")
    ] = None,
    folder: Annotated[Path, typer.Option(metavar="DIR", help="The folder whose files the model may look at.")] = Path(),
    config: ConfigOption = None,
) -> None:
    """Chat with an agent that has memory; /help lists its commands."""
    if model and base_url:
        raise typer.BadParameter("only one of --model and --base-url")
    if model_name and not base_url:
        raise typer.BadParameter("--model-name goes with --base-url")
    if user is not None and not user.strip():
        raise typer.BadParameter(f"--user {user!r} names nobody; without it the memory is that of who is logged in")
    from .chat_loop import Options, run

    options = Options(model, base_url, model_name, thread, user, folder, config)
    raise typer.Exit(run(options))


chat.__doc__ = f"{chat.__doc__}\n\n{EXIT_CODES}"
