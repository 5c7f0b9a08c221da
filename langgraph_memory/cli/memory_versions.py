"""`lgm memory log`, `diff` and `revert`: the versions of MEMORY.md."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from .called import program
from .console import ESCAPED, data_console, print_json, print_table, say
from .options import ConfigOption, JsonOption, NamespaceOption, SetOption, UserOption

if TYPE_CHECKING:
    from langgraph_memory.longterm.keeper import Keeper

NOW = "MEMORY.md"
COLOURS = {"+": "green", "-": "red", "@": "cyan"}

VERSION_HELP = "A version, as `lgm memory log` shows it, or MEMORY.md"


@dataclass(frozen=True, slots=True)
class LoggedVersion:
    """A version, compared with the one before it."""

    version: str
    """Names it in other commands."""
    path: str
    until: str | None
    """Until when it was the memory, ISO 8601, UTC; None for the one that is."""
    lines: int
    added: int
    removed: int


def versions_of(keeper: Keeper) -> list[LoggedVersion]:
    """The memory of now and its earlier versions, the newest first."""
    from langgraph_memory.longterm import history

    earlier = history.versions(keeper)
    texts = [keeper.memory_md(), *(history.text(keeper, one.path) for one in earlier)]
    names: list[tuple[str, str, str | None]] = [(NOW, NOW, None)]
    names += [(one.digest, one.path, one.when.astimezone(UTC).isoformat()) for one in earlier]
    found = []
    for (name, path, until), text, before in zip(names, texts, [*texts[1:], ""], strict=True):
        found.append(LoggedVersion(name, path, until, len(text.splitlines()), *counts(before, text)))
    return found if texts[0] else found[1:]


def counts(before: str, after: str) -> tuple[int, int]:
    """Lines added and removed."""
    from langgraph_memory.longterm import history

    lines = history.unified(before, after).splitlines()[2:]
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)


def log(
    number: Annotated[int | None, typer.Option("-n", metavar="N", min=1, help="Only the newest N.")] = None,
    user: UserOption = None,
    values: SetOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """List the versions of MEMORY.md, the newest first, with the lines that each added and removed."""
    from .whose import Whose, chosen

    with chosen(config, Whose.of(user, values, namespace)) as memory:
        found = versions_of(memory.keeper)[:number]
        name = memory.name
    if as_json:
        print_json([asdict(one) for one in found])
    else:
        print_table(_table(found), data_console())
    say(f"`{program()} memory diff OLD NEW` compares two." if found else f"{name}: there is no {NOW} yet.")


def diff(
    old: Annotated[str | None, typer.Argument(metavar="[OLD]", help=f"{VERSION_HELP}; without one the newest.")] = None,
    new: Annotated[str, typer.Argument(metavar="[NEW]", help=f"{VERSION_HELP}, which it is without one.")] = NOW,
    user: UserOption = None,
    values: SetOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Show what changed in MEMORY.md since its last version, or between two versions, as a unified diff."""
    from langgraph_memory.longterm import history

    from .whose import Whose, chosen

    with chosen(config, Whose.of(user, values, namespace)) as memory:
        text = history.diff(memory.keeper, old, new)
    if as_json:
        print_json({"diff": text})
    else:
        print_diff(text)
    if not text:
        say("Nothing changed.")


def revert(
    version: Annotated[str, typer.Argument(metavar="VERSION", help="As `lgm memory log` shows it.")],
    user: UserOption = None,
    values: SetOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Make an earlier version of MEMORY.md the memory again. What it was becomes a version, so this can be undone.

    The exit code is 1 where somebody else changed the file in that moment.
    """
    from langgraph_memory.longterm import history

    from .whose import Whose, chosen

    with chosen(config, Whose.of(user, values, namespace)) as memory:
        keeper = memory.keeper
        before, wanted = keeper.memory_md(), history.text(keeper, version)
        done = history.revert(keeper, version)
        was = history.versions(keeper)[0].digest
    added, removed = counts(before, wanted) if done else (0, 0)
    if as_json:
        print_json({"reverted": done and before != wanted, "added": added, "removed": removed, "was": was})
    elif before == wanted:
        say(f"{NOW} says that already.")
    elif done:
        typer.echo(f"{NOW}: {added:,} lines added, {removed:,} removed")
        if before.strip():
            say(f"`{program()} memory revert {was}` takes it back.")
    if not done:
        say(f"{NOW} was changed in this very moment, by somebody else: nothing was reverted. Try again.")
        raise typer.Exit(1)


def print_diff(text: str) -> None:
    """A unified diff on stdout; in colour on a terminal."""
    console = data_console()
    for line in text.splitlines():
        console.print(Text(line.translate(ESCAPED), COLOURS.get(line[:1], "")), soft_wrap=True)


def _table(found: Iterable[LoggedVersion]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("version", no_wrap=True)
    table.add_column("until", no_wrap=True)
    for name in ("lines", "added", "removed"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in found:
        until = "now" if one.until is None else _local(one.until)
        table.add_row(one.version, until, f"{one.lines:,}", f"+{one.added:,}", f"-{one.removed:,}")
    return table


def _local(until: str) -> str:
    return datetime.fromisoformat(until).strftime("%Y-%m-%d %H:%M:%S")
