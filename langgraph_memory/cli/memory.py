"""`lgm memory`: what is remembered beyond a thread, to look at, to correct and to look after."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from .called import program
from .console import ESCAPED, data_console, print_json, say
from .memory_show import show
from .memory_status import status
from .memory_versions import diff, log, print_diff, revert
from .options import ConfigOption, JsonOption, NamespaceOption, SetOption, UserOption

if TYPE_CHECKING:
    from .forgetting import Place
    from .merging import Merged

app = typer.Typer(
    name="memory",
    help="Look at what is remembered beyond a thread, correct it, look after it.",
    no_args_is_help=True,
    add_completion=False,
)
for command in (show, status, log, diff, revert):
    app.command()(command)

EntryType = Literal["conversation", "fact", "summary", "tool_result"]
"""As `langgraph_memory.longterm.entry` has them, which is slow to import."""


@app.command()
def add(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to remember; - is standard input.")],
    type: Annotated[EntryType, typer.Option(help="What kind of entry it is.")] = "fact",
    at: Annotated[
        str | None, typer.Option(metavar="WHEN", help="When it was so, ISO 8601; without it now. Names the ledger.")
    ] = None,
    user: UserOption = None,
    values: SetOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Add an entry to the ledger, unless it is there already."""
    when = _time(at)
    from .memory_files import entry_json
    from .whose import Whose, chosen

    given = {"text": sys.stdin.read().removeprefix("\ufeff") if text == "-" else text, "type": type, "timestamp": when}
    with chosen(config, Whose.of(user, values, namespace), new=True) as memory:
        added = memory.keeper.append([given])
        rows = [row for entry in added for row in memory.keeper.ledger(day=entry.day) if row.entry.id == entry.id]
        name = memory.name
    if as_json:
        print_json([{"memory": name, **entry_json(row, frozenset())} for row in rows])
    else:
        for row in rows:
            typer.echo(f"{row.path}:{row.line}")
    say(f"{name}: remembered." if rows else f"{name}: this is remembered already.")


@app.command()
def forget(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What is to go, or the id of an entry.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    user: UserOption = None,
    values: SetOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Remove for good every entry, line, version and logged message that holds a text. Threads keep what was said.

    The exit code is 1 where the answer to the question was no.
    """
    from . import forgetting
    from .whose import Whose, chosen

    with chosen(config, Whose.of(user, values, namespace)) as memory:
        found = forgetting.places(memory.keeper, text)
        holds = forgetting.holding_any(memory.keeper, text, found)
        cached = forgetting.summaries(memory.workspace, holds)
        if not as_json:
            _print_places(found, cached)
        if (found or cached) and not yes and not typer.confirm("Forget for good?", err=True):
            say("Nothing was forgotten.")
            raise typer.Exit(1)
        # Also without a place: what was removed by hand may still be on the pages of the index.
        count = memory.keeper.forget(text) if found or yes else 0
        dropped = forgetting.forget_summaries(memory.workspace, holds) if cached else 0
        name = memory.name
    if as_json:
        places = [place.to_json() for place in found]
        print_json({"memory": name, "forgotten": count, "summaries": dropped, "places": places})
    if not count and not dropped:
        say(f"{name}: nothing holds {text!r}.")
        return
    summaries = f", and {_count(dropped, 'bought summary', 'bought summaries')}" if dropped else ""
    say(f"{name}: forgotten in {_count(count, 'place', 'places')}{summaries}.")
    say(
        f"The threads keep what was said; `{program()} search --threads` finds it, `{program()} threads rm` removes it."
    )


@app.command()
def consolidate(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would change.")] = False,
    no_model: Annotated[bool, typer.Option("--no-model", help="Merge by rules, whatever model is configured.")] = False,
    user: UserOption = None,
    values: SetOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Merge new entries of the ledger into MEMORY.md now. The exit code is 1 where that was not done."""
    from .merging import merge
    from .whose import Whose, chosen

    with chosen(config, Whose.of(user, values, namespace)) as memory:
        done = merge(memory, dry_run=dry_run, without_model=no_model)
        name = memory.name
    if as_json:
        print_json({"memory": name, **done.to_json()})
    elif done.result.changed:
        print_diff(done.diff)
    _say_merged(name, done, no_model=no_model)
    raise typer.Exit(0 if done.done else 1)


@app.command()
def reindex(
    user: UserOption = None,
    values: SetOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Make the index anew from the files."""
    from .whose import Whose, chosen

    with chosen(config, Whose.of(user, values, namespace)) as memory:
        count, name = memory.keeper.reindex(), memory.name
    if as_json:
        print_json({"memory": name, "entries": count})
    else:
        typer.echo(f"{name}: {_count(count, 'entry', 'entries')} in the index")


def _time(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text.strip())
    except ValueError:
        raise typer.BadParameter(
            f"--at {text!r}; allowed: ISO 8601, such as 2026-03-31 or 2026-03-31T12:00+02:00"
        ) from None


def _print_places(places: list[Place], summaries: int) -> None:
    console = data_console()
    for place in places:
        where = f"{place.path}:{place.line}" if place.line else place.path
        line = Text(where.translate(ESCAPED), "bold").append(f"  {place.text.strip().translate(ESCAPED)}", "not bold")
        console.print(line, soft_wrap=True)
    if summaries:
        console.print(f"cache.db  {_count(summaries, 'bought summary', 'bought summaries')}", soft_wrap=True)


def _say_merged(name: str, done: Merged, *, no_model: bool) -> None:
    result = done.result
    if result.outcome == "nothing" and not result.entries:
        say(f"{name}: nothing is to be merged{f', {result.reason}' if result.reason else ''}.")
        return
    if not done.model:
        hint = "" if no_model else " No model is named: memory.consolidation.model in runtime.json has one do it."
        say(f"Merged by rules, without a model.{hint}")
    entries = _count(result.entries, "entry", "entries")
    if result.outcome == "preview":
        say(f"{name}: {entries} would be merged. Nothing was written.")
    elif result.entries:
        say(f"{name}: {entries} merged. `{program()} memory log` lists the versions.")
    if not done.done:
        say(f"{name}: not merged ({result.outcome}): {result.reason.translate(ESCAPED)}. MEMORY.md stays as it was.")


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
