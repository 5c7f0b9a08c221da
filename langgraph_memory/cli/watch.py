"""What is said while a replay runs: progress, and a line for each decision of the memory. All on stderr."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from langgraph_memory.events import MemoryEvent

from .console import chatter_console, say

WITHOUT_MODEL = "there is no model for summaries"


class Watch:
    """Listens to a replay."""

    def __init__(self, *, has_model: bool) -> None:
        self._console = chatter_console()
        self._has_model, self._told = has_model, set[str]()
        self._progress: Progress | None = None
        self._task = TaskID(0)

    @contextmanager
    def running(self, calls: int | None) -> Iterator[None]:
        """Show progress meanwhile, where stderr is a terminal."""
        if not self._console.is_terminal:
            yield
            return
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self._console, transient=True) as self._progress:
            self._task = self._progress.add_task("calls", total=calls)
            yield
        self._progress = None

    def say(self, text: str) -> None:
        say(text, self._console)

    def begin(self, thread: str, messages: int, length: int | None, calls: int) -> None:
        """A conversation begins in a thread that has `messages` with `calls` already, of `length` where known."""
        if self._progress:
            self._progress.update(self._task, description=thread)
        self.step(calls)
        if length is not None and messages >= length:
            self.say(f"{thread}: already complete ({messages} messages)")
        elif messages:
            self.say(f"{thread}: goes on at message {messages}" + (f" of {length}" if length else ""))

    def step(self, calls: int = 1) -> None:
        """The model was called."""
        if self._progress:
            self._progress.advance(self._task, calls)

    def on_event(self, event: MemoryEvent) -> None:
        if event.name == "compacting":
            return
        line = decision(event) or self._once(event)
        if line:
            self.say(line)

    def _once(self, event: MemoryEvent) -> str | None:
        """What holds for every conversation is said once."""
        if event.name == "compaction_failed" and event.reason == WITHOUT_MODEL and not self._has_model:
            line = "Summaries are extracted from the messages without a model; --model PROVIDER:NAME has them written."
        elif event.name == "capped":
            line = f"{event.name}: {event.reason}"
        else:
            return f"{event.thread_id}: {event.name}: {event.reason}"
        if line in self._told:
            return None
        self._told.add(line)
        return line


def decision(event: MemoryEvent) -> str | None:
    """The line for an event that changed the view; None for other events."""
    change = changed(event)
    return None if change is None else f"{event.thread_id}: {change}"


def changed(event: MemoryEvent) -> str | None:
    """The same, without the thread."""
    before, after = event.before, event.after
    if before is None or after is None:
        return None
    done = {"summarised": after.compacted, "trimmed": after.trimmed, "cleared": after.cleared}
    counts = ", ".join(f"{number} {name}" for name, number in done.items() if number)
    how = f" ({event.reason})" if event.reason != event.name else ""
    return f"message {after.messages}: {event.name}{how}, {before.total:,} → {after.total:,} tokens" + (
        f"; now {counts}" if counts else ""
    )
