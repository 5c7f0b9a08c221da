"""`lgm context` and `lgm view`: where the window of a thread goes, and what the model would be sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from .console import ESCAPED, data_console, print_json
from .options import AtOption, ConfigOption, JsonOption, ThreadArgument

if TYPE_CHECKING:
    from langgraph_memory.config import RuntimeConfig

    from .reading import Shown

FIRST_LINES = 6
LINE_CHARS = 300


def context(
    thread: ThreadArgument, at: AtOption = None, as_json: JsonOption = False, config: ConfigOption = None
) -> None:
    """Show where the context window of a thread goes."""
    from .meter_bar import drawn
    from .reading import context_of

    report = context_of(*_read(thread, at, config))
    if as_json:
        print_json({"thread_id": thread, **report.to_json()})
        return
    console = data_console()
    for line in drawn(thread, report, console):
        console.print(line)


def view(
    thread: ThreadArgument,
    at: AtOption = None,
    full: Annotated[bool, typer.Option("--full", help="Print whole texts, not only their first lines.")] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Show what the model would be sent for a thread, message by message."""
    from .reading import view_of

    shown = view_of(*_read(thread, at, config))
    if as_json:
        print_json([message.to_json() for message in shown])
        return
    console = data_console()
    for number, message in enumerate(shown, 1):
        for line in _lines(number, message, full):
            console.print(line, soft_wrap=True)


def _read(thread: str, at: str | None, path: Path | None) -> tuple[RuntimeConfig, dict[str, Any]]:
    from langgraph_memory.config import load_config

    from .database import with_store
    from .reading import read_thread

    values = with_store(path, lambda store: read_thread(store, thread, at))
    return load_config(path).config, values


def _lines(number: int, message: Shown, full: bool) -> Iterator[Text]:
    place = f" · message {message.position + 1}" if message.position is not None else ""
    head = f"{number}. {message.role} · {message.origin}{place} · {message.tokens:,} tokens"
    yield Text(head, style="bold" if message.origin == "as it is" else "bold yellow")
    text = message.text.splitlines()
    text += [f"→ {call['name']}({call['args']})" for call in message.tool_calls]
    for line in text if full else text[:FIRST_LINES]:
        cut = line if full or len(line) <= LINE_CHARS else line[:LINE_CHARS] + " …"
        yield Text(f"   {cut.translate(ESCAPED)}")
    if not full and len(text) > FIRST_LINES:
        yield Text(f"   … {len(text) - FIRST_LINES} more lines (--full shows them)", style="dim")
