"""Where the lines of a chat come from: an editor with history and completion, or plain lines where there is none.

Both wait without holding up what the memory does in the background. The plain reader never decodes ahead of what it
returns, so a question asked in between can be answered on a terminal.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from .chat_interrupt import catching

PROMPT = "> "
CHUNK = 65_536
Complete = Callable[[str], Awaitable[Sequence[str]]]
"""The words that may stand at the end of a line which has been typed so far."""


class Input(Protocol):
    async def line(self) -> str | None:
        """The next line; None at the end. Raises `KeyboardInterrupt` where Ctrl-C has to end the chat."""
        ...


def open_input(history: Path, complete: Complete) -> Input:
    """An editor on a terminal if prompt_toolkit is there, else plain lines."""
    terminal = sys.stdin.isatty()
    if terminal and sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and find_spec("prompt_toolkit"):
        from .chat_editor import Editor

        return Editor(history, complete)
    return Lines(prompt=terminal)


# Plain lines


class Lines:
    """Lines of standard input."""

    def __init__(self, *, prompt: bool) -> None:
        self._prompt, self._rest, self._ended, self._begun = prompt, b"", False, False

    async def line(self) -> str | None:
        loop = asyncio.get_running_loop()
        found: asyncio.Future[str | None] = loop.create_future()

        def deliver(line: str | None) -> None:
            if not found.done():
                found.set_result(line)

        def read() -> None:
            line = self._read()
            # Nobody may be waiting any more, nor the loop be there.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(deliver, line)

        def interrupted() -> None:
            if self._prompt:
                # The terminal has thrown the line away already.
                self._ask("\n")
            elif not found.done():
                found.set_exception(KeyboardInterrupt())

        with catching(interrupted):
            self._ask()
            # A daemon: a reader that nobody waits for any more must not keep the program.
            threading.Thread(target=read, daemon=True, name="chat-input").start()
            return await found

    def _ask(self, before: str = "") -> None:
        if self._prompt:
            sys.stderr.write(f"{before}{PROMPT}")
            sys.stderr.flush()

    def _read(self) -> str | None:
        """The next line, without the mark that some programs put in front of the first one."""
        line = self._next()
        begun, self._begun = self._begun, True
        return line if line is None or begun else line.removeprefix("\ufeff")

    def _next(self) -> str | None:
        try:
            number = sys.stdin.fileno()
        except (OSError, ValueError):
            return sys.stdin.readline() or None
        while b"\n" not in self._rest and not self._ended:
            with suppress(OSError):
                self._rest += (data := os.read(number, CHUNK))
                self._ended = not data
                continue
            self._ended = True
        line, newline, self._rest = self._rest.partition(b"\n")
        return line.decode("utf-8", "replace") if line or newline else None
