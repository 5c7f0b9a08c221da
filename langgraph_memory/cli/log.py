"""`lgm log`: what was said in a thread."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from .console import ESCAPED, data_console, print_json, say
from .options import ConfigOption, JsonOption, ThreadArgument

if TYPE_CHECKING:
    from .said import Said

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
NARROWEST = 20


def _time(text: str | None) -> datetime | None:
    """A point in time: ISO 8601, without a zone in that of this computer, or so long ago: 90m, 2h, 3d."""
    if text is None:
        return None
    if ago := re.fullmatch(rf"(\d{{1,9}})([{''.join(UNITS)}])", text):
        return datetime.now(UTC) - timedelta(seconds=int(ago[1]) * UNITS[ago[2]])
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        allowed = "a date or time such as 2026-03-31 or 2026-03-31T12:00, or 90m, 2h, 3d, 1w for so long ago"
        raise typer.BadParameter(f"{text!r}; allowed: {allowed}") from None


def log(
    thread: ThreadArgument,
    number: Annotated[int | None, typer.Option("-n", metavar="N", min=1, help="Only the newest N.")] = None,
    query: Annotated[str | None, typer.Option("-q", metavar="QUERY", help="Only those with all these words.")] = None,
    short: Annotated[bool, typer.Option("-s", "--short", help="A line a message.")] = False,
    since: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Only from then on: 2026-03-31, 2026-03-31T12:00, 2h, 3d.")
    ] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Show the messages of a thread as Markdown, oldest first; those that summaries cover too."""
    time = _time(since)
    from .database import with_store
    from .said import all_said, chosen

    everything = with_store(config, lambda store: all_said(store, thread))
    found = chosen(everything, query=query, since=time, newest=number)
    if as_json:
        print_json([one.to_json() for one in found])
    else:
        console = data_console()
        for line in _lines(found, short, console):
            console.print(line, soft_wrap=True)
    if everything and not found:
        say(f"None of the {len(everything):,} messages of {thread} is among those that were asked for.")


def _lines(found: list[Said], short: bool, console: Console) -> Iterator[Text]:
    if short:
        for one in found:
            yield _short(one, console.width)
        return
    first, *rest = [line for one in found for line in one.markdown()] or [""]
    for line in [first, *rest] if first else rest:
        yield Text(line.translate(ESCAPED))


def _short(one: Said, width: int) -> Text:
    from langgraph_memory.context.explain import calls_of
    from langgraph_memory.context.text import message_text, one_line, to_json

    head = f"{one.position + 1:>4} {one.created[:16].replace('T', ' ')} {one.message.type:<6} "
    calls = (f"→ {call['name']}({to_json(call['args'])})" for call in calls_of(one.message))
    text = " ".join((message_text(one.message), *calls))
    return Text(head + one_line(text, max(NARROWEST, width - len(head))))
