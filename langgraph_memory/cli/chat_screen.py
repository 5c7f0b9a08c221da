"""What a chat prints: answers on stdout as they come, everything else on stderr, dim, a line each.

Remarks may come from anywhere at any time, also from threads; while somebody types they are held back. What the memory
does in the background waits for the end of a line of the answer, so that it does not stand in the middle of a sentence.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rich.text import Text

from langgraph_memory.context.text import one_line, to_json
from langgraph_memory.events import MemoryEvent

from .console import ESCAPED, chatter_console, data_console
from .watch import WITHOUT_MODEL, changed

CALL_CHARS = 100
SILENT = frozenset({"compacting", "capped", "window_guessed"})
"""Events that say nothing about what became of the conversation."""


class Screen:
    """Stdout and stderr of a chat."""

    def __init__(self) -> None:
        self.out, self.err = data_console(), chatter_console()
        self._lock = threading.RLock()
        self._open = False
        self._held: list[Text] | None = None
        self._waiting: list[Text] = []

    def token(self, text: str) -> None:
        """A piece of an answer."""
        if not text:
            return
        with self._lock:
            before, newline, rest = text.rpartition("\n")
            self._write(before + newline)
            self._open = self._open and not newline
            if newline:
                self._make_up()
            self._write(rest)
            self._open = self._open or bool(rest)

    def end(self) -> None:
        """Begin a new line unless one has begun."""
        with self._lock:
            if self._open:
                self.token("\n")

    def show(self, line: Text) -> None:
        """A line of data."""
        with self._lock:
            self.end()
            self.out.print(line, soft_wrap=True)

    def note(self, text: str) -> None:
        """A dim remark."""
        self._remark(_dim(text))

    def say(self, text: str) -> None:
        """A remark that should be seen."""
        self._remark(Text(text.translate(ESCAPED)))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep remarks back meanwhile, and print them then."""
        with self._lock:
            self.end()
            self._held = []
        try:
            yield
        finally:
            with self._lock:
                lines, self._held = self._held, None
                for line in lines:
                    self._remark(line)

    def event(self, event: MemoryEvent) -> None:
        """Something the memory did."""
        if event.name in SILENT or (event.name == "compaction_failed" and event.reason == WITHOUT_MODEL):
            return
        reason = f": {event.reason}" if event.reason and event.reason != event.name else ""
        line = _dim(f"  · {changed(event) or event.name + reason}")
        with self._lock:
            if self._open:
                self._waiting.append(line)
            else:
                self._remark(line)

    def called(self, name: str, args: object) -> None:
        """The model calls a tool."""
        self.note(f"  → {name}({one_line(to_json(args), CALL_CHARS)})")

    def _write(self, text: str) -> None:
        self.out.file.write(text.translate(ESCAPED))
        self.out.file.flush()

    def _make_up(self) -> None:
        """Print what waited for the end of a line."""
        lines, self._waiting = self._waiting, []
        for line in lines:
            self._remark(line)

    def _remark(self, line: Text) -> None:
        with self._lock:
            if self._held is not None:
                self._held.append(line)
                return
            self.end()
            self.err.print(line, soft_wrap=True)


def _dim(text: str) -> Text:
    return Text(text.translate(ESCAPED), "dim")
