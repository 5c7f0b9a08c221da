"""Lines of a chat that are edited: history, and completion with Tab. Needs prompt_toolkit."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncGenerator, Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from .chat_input import PROMPT, Complete


class Editor:
    """Lines from a terminal."""

    def __init__(self, history: Path, complete: Complete) -> None:
        self._session: PromptSession[str] = PromptSession(
            history=history_in(history), completer=_Words(complete), complete_while_typing=False
        )

    async def line(self) -> str | None:
        while True:
            try:
                return await self._session.prompt_async(PROMPT)
            except KeyboardInterrupt:
                # The line is given up, and a new one begins.
                continue
            except EOFError:
                return None


class _Words(Completer):
    """Completes the last word of a line."""

    def __init__(self, complete: Complete) -> None:
        self._complete = complete

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        return []

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        before = document.text_before_cursor
        typed = before.rpartition(" ")[2]
        for word in await self._complete(before):
            yield Completion(word, start_position=-len(typed))


class _File(FileHistory):
    def store_string(self, string: str) -> None:
        # A full disk costs the history, not the chat.
        with suppress(OSError):
            super().store_string(string)


def history_in(path: Path) -> History:
    """A history in a file that only its owner reads; in the process where there can be none."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not to wait for the other end of a pipe that somebody has put there.
        number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NONBLOCK", 0), 0o600)
    except OSError:
        return InMemoryHistory()
    try:
        regular = stat.S_ISREG(os.fstat(number).st_mode)
    finally:
        os.close(number)
    return _File(str(path)) if regular else InMemoryHistory()
