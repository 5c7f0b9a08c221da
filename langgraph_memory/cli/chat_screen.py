"""What a chat prints: answers on stdout as they come, everything else on stderr, dim, a line each.

Remarks may come from anywhere at any time, also from threads; while somebody types they are held back.
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

    def token(self, text: str) -> None:
        """A piece of an answer."""
        if not text:
            return
        with self._lock:
            self.out.file.write(text.translate(ESCAPED))
            self.out.file.flush()
            self._open = not text.endswith("\n")

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
        self._remark(Text(text.translate(ESCAPED), "dim"))

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
        self.note(f"  · {changed(event) or event.name + reason}")

    def called(self, name: str, args: object) -> None:
        """The model calls a tool."""
        self.note(f"  → {name}({one_line(to_json(args), CALL_CHARS)})")

    def _remark(self, line: Text) -> None:
        with self._lock:
            if self._held is not None:
                self._held.append(line)
                return
            self.end()
            self.err.print(line, soft_wrap=True)
