"""What the middleware reports while it works: one typed event for each thing that happened.

Events go to `on_event` and, inside a run, to LangGraph's stream mode `custom` as plain JSON.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from langgraph.config import get_stream_writer

from .context.report import ContextReport

logger = logging.getLogger(__name__)

EventName = Literal[
    "pruned",
    "spilled",
    "compacting",
    "compacted",
    "compaction_failed",
    "overflow_recovered",
    "capped",
    "window_guessed",
    "conflict",
    "record_ignored",
    "namespace_missing",
    "branched",
    "memory_flushed",
    "memory_changed",
]


@dataclass(frozen=True, slots=True)
class MemoryEvent:
    """Something the middleware did or noticed."""

    name: EventName
    thread_id: str | None
    reason: str = ""
    duration_ms: float = 0.0
    before: ContextReport | None = None
    """The report under the decisions up to this call."""
    after: ContextReport | None = None
    """The report under the new decisions."""
    data: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The event as plain JSON, as it stands in stream mode `custom`."""
        return {
            "type": "langgraph_memory",
            "event": self.name,
            "thread_id": self.thread_id,
            "reason": self.reason,
            "duration_ms": round(self.duration_ms, 3),
            "before": self.before.to_json() if self.before else None,
            "after": self.after.to_json() if self.after else None,
            **self.data,
        }


Listener = Callable[[MemoryEvent], None]


def announce(event: MemoryEvent, listener: Listener | None, *, in_run: bool) -> None:
    """Send `event` to the listener and the run's custom stream; a failing listener is logged and the run goes on."""
    logger.debug("%s thread=%s %s", event.name, event.thread_id, event.reason)
    if in_run and (write := _stream_writer()):
        write(event.to_json())
    if listener is None:
        return
    try:
        listener(event)
    except Exception:
        logger.exception("The event listener failed on %s", event.name)


def _stream_writer() -> Callable[[Any], None] | None:
    """The custom stream of the run; none for code that was moved to a thread without the run's context."""
    try:
        return get_stream_writer()
    except RuntimeError:
        return None
