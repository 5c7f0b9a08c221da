"""Options and arguments that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .completing import complete_checkpoint, complete_thread

ThreadArgument = Annotated[
    str,
    typer.Argument(
        metavar="THREAD", help="Id of the thread, as `lgm threads` shows it.", autocompletion=complete_thread
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ConfigOption = Annotated[Path | None, typer.Option(metavar="PATH", help="Configuration file.")]
AtOption = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="CHECKPOINT",
        help="Checkpoint, as `lgm tree` shows it; without it the newest.",
        autocompletion=complete_checkpoint,
    ),
]
UserOption = Annotated[str | None, typer.Option("--user", metavar="ID", help="Whose memory: fills {user_id}.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Fills another name of memory.namespace; may be repeated."),
]
NamespaceOption = Annotated[
    list[str] | None,
    typer.Option("--namespace", metavar="PART", help="A part of the namespace as it is; once for each of them."),
]
