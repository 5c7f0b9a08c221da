"""`lgm context` and `lgm view`: where the window of a thread goes, and what the model would be sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from .console import data_console, print_json

if TYPE_CHECKING:
    from langgraph_memory.config import RuntimeConfig

    from .reading import Shown

FIRST_LINES = 6
LINE_CHARS = 300
ESCAPED = {0x1B: "␛", 0x9B: "␛["}
"""What would begin a command to the terminal."""

ThreadArgument = Annotated[str, typer.Argument(metavar="THREAD", help="Id of the thread, as `lgm threads` shows it.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ConfigOption = Annotated[Path | None, typer.Option(metavar="PATH", help="Configuration file.")]


def context(thread: ThreadArgument, as_json: JsonOption = False, config: ConfigOption = None) -> None:
    """Show where the context window of a thread goes."""
    from .meter_bar import drawn
    from .reading import context_of

    report = context_of(*_read(thread, config))
    if as_json:
        print_json({"thread_id": thread, **report.to_json()})
        return
    console = data_console()
    for line in drawn(thread, report, console):
        console.print(line)


def view(
    thread: ThreadArgument,
    full: Annotated[bool, typer.Option("--full", help="Print whole texts, not only their first lines.")] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Show what the model would be sent for a thread, message by message."""
    from .reading import view_of

    shown = view_of(*_read(thread, config))
    if as_json:
        print_json([message.to_json() for message in shown])
        return
    console = data_console()
    for number, message in enumerate(shown, 1):
        for line in _lines(number, message, full):
            console.print(line, soft_wrap=True)


def _read(thread: str, path: Path | None) -> tuple[RuntimeConfig, dict[str, Any]]:
    from langgraph_memory.config import load_config

    from .database import existing_database

    config = load_config(path).config
    return config, asyncio.run(_values(existing_database(config), thread))


async def _values(file: Path, thread: str) -> dict[str, Any]:
    from .database import open_saver
    from .reading import read_thread

    async with open_saver(file) as saver:
        return await read_thread(saver, thread)


def _lines(number: int, message: Shown, full: bool) -> Iterator[Text]:
    place = f" · message {message.position}" if message.position is not None else ""
    head = f"{number}. {message.role} · {message.origin}{place} · {message.tokens:,} tokens"
    yield Text(head, style="bold" if message.origin == "as it is" else "bold yellow")
    text = message.text.splitlines()
    text += [f"→ {call['name']}({call['args']})" for call in message.tool_calls]
    for line in text if full else text[:FIRST_LINES]:
        cut = line if full or len(line) <= LINE_CHARS else line[:LINE_CHARS] + " …"
        yield Text(f"   {cut.translate(ESCAPED)}")
    if not full and len(text) > FIRST_LINES:
        yield Text(f"   … {len(text) - FIRST_LINES} more lines (--full shows them)", style="dim")
