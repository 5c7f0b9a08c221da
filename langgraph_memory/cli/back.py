"""`lgm rewind`, `lgm undo` and `lgm fork`: going back in a thread, taking that back, and branching off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .called import program
from .completing import complete_checkpoint
from .console import print_json, say
from .options import AtOption, ConfigOption, JsonOption, ThreadArgument

if TYPE_CHECKING:
    from .going import Place


def rewind(
    thread: ThreadArgument,
    checkpoint: Annotated[
        str | None,
        typer.Argument(
            metavar="[CHECKPOINT]",
            help="Where to go back to, as `lgm tree` shows it.",
            autocompletion=complete_checkpoint,
        ),
    ] = None,
    turns: Annotated[int | None, typer.Option(metavar="N", min=1, help="Go back N turns instead.")] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Go back to an earlier checkpoint. Nothing is removed: what came after it stays as a branch."""
    if (checkpoint is None) == (turns is None):
        raise typer.BadParameter("either a CHECKPOINT or --turns N")
    from . import going
    from .database import with_store

    place = with_store(config, lambda store: going.rewind(store, thread, checkpoint, turns), changing=True)
    _print(place, as_json, f"`{program()} undo {thread}` takes it back.")


def undo(thread: ThreadArgument, as_json: JsonOption = False, config: ConfigOption = None) -> None:
    """Take back the newest rewind of a thread, or the newest undo. What was said since stays as a branch."""
    from . import going
    from .database import with_store

    place = with_store(config, lambda store: going.undo(store, thread), changing=True)
    _print(place, as_json, f"`{program()} undo {thread}` again takes this back too.")


def fork(
    thread: ThreadArgument,
    new: Annotated[str, typer.Argument(metavar="NEW", help="Id of the new thread.")],
    at: AtOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Begin a new thread with the history of another one. What both have is stored once."""
    from . import going
    from .database import with_store

    _print(with_store(config, lambda store: going.fork(store, thread, new, at), changing=True), as_json, "")


def _print(place: Place, as_json: bool, hint: str) -> None:
    if as_json:
        print_json(place.to_json())
    else:
        typer.echo(described(place))
    if place.next:
        say(f"The next run goes on with: {', '.join(place.next)}")
    if hint:
        say(hint)


def described(place: Place) -> str:
    """Where a thread is, on a line."""
    before = f" (was at {place.turns_before:,} turns)" if place.turns_before is not None else ""
    return f"{place.thread_id} is at {place.checkpoint_id}: {place.turns:,} turns, {place.messages:,} messages{before}"
