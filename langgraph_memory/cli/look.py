"""`lgm context` and `lgm view`: where the window of a thread goes, and what the model would be sent, and why."""

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
    from langgraph_memory.context.explain import ExplainedView, Shown

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
    for line in drawn(thread.translate(ESCAPED), report, console):
        console.print(line)


def view(
    thread: ThreadArgument,
    at: AtOption = None,
    full: Annotated[bool, typer.Option("--full", help="Print whole texts, not only their first lines.")] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Show what the model would be sent for a thread, message by message, and why each part is there.

    Without --at that is the thread under the decisions taken so far; the next call may take more of them.
    """
    from .reading import view_of

    shown = view_of(*_read(thread, at, config))
    if as_json:
        print_json({"thread_id": thread, "checkpoint_id": at, **shown.to_json()})
        return
    console = data_console()
    for line in _view_lines(shown, full):
        console.print(line, soft_wrap=True)


def _read(thread: str, at: str | None, path: Path | None) -> tuple[RuntimeConfig, dict[str, Any]]:
    from langgraph_memory.config import load_config

    from .database import with_store
    from .reading import read_thread

    values = with_store(path, lambda store: read_thread(store, thread, at))
    return load_config(path).config, values


def _view_lines(view: ExplainedView, full: bool) -> Iterator[Text]:
    for piece in view.beside:
        yield Text(f"{piece.kind} · {piece.tokens:,} tokens", style="bold")
        yield _why(piece.why)
    for number, message in enumerate(view.messages, 1):
        yield from _lines(number, message, full)
    for left in view.left_out:
        yield Text(f"not sent: {left.role} · message {left.position + 1}", style="bold")
        yield _why(left.why)


def _lines(number: int, message: Shown, full: bool) -> Iterator[Text]:
    place = f" · message {message.position + 1}" if message.position is not None else ""
    head = f"{number}. {message.role} · {message.origin}{place} · {message.tokens:,} tokens"
    yield Text(head, style="bold" if message.origin == "as it is" else "bold yellow")
    for piece in message.pieces:
        yield _why(f"{piece.tokens:,} tokens: {piece.why}")
    if not message.pieces:
        yield _why(message.why)
    text = message.text.splitlines()
    text += [f"→ {call['name']}({call['args']})" for call in message.tool_calls]
    for line in text if full else text[:FIRST_LINES]:
        cut = line if full or len(line) <= LINE_CHARS else line[:LINE_CHARS] + " …"
        yield Text(f"   {cut.translate(ESCAPED)}")
    if not full and len(text) > FIRST_LINES:
        yield Text(f"   … {len(text) - FIRST_LINES} more lines (--full shows them)", style="dim")


def _why(text: str) -> Text:
    return Text(f"   ({text.translate(ESCAPED)})", style="dim")
