"""What the middleware reports while it works: one typed event for each thing that happened.

Events go to `on_event` and, inside a run, to LangGraph's stream mode `custom` as plain JSON; each is one line of the
log at INFO, in ids and figures. A listener that is an `Observer` hears of more: of the calls of a model beside the run
and of the regular round.
"""

from __future__ import annotations

import contextvars
import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from langgraph.config import get_stream_writer

from .context.report import ContextReport
from .logs import details, failed

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
    at: float = field(default_factory=time.time, compare=False, repr=False)
    """When what it tells of had ended, in seconds since 1970; events of a decision are sent once it is kept."""

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


DATA: Mapping[EventName, tuple[str, ...]] = {
    "pruned": ("actions",),
    "spilled": ("tool", "bytes", "ref"),
    "compacted": ("actions",),
    "capped": ("key", "used"),
    "window_guessed": ("window",),
    "branched": ("parent_id", "checkpoint_id", "other_id"),
    "memory_flushed": ("entries", "messages"),
    "memory_changed": ("actions", "entries"),
}
"""What `data` of an event may hold; that of the others is empty."""
QUOTING: Collection[EventName] = ("compaction_failed", "record_ignored")
"""Events whose reason may quote what a provider said, or a record."""
LOGGED = ("actions", "tool", "bytes", "entries", "messages", "key", "used", "checkpoint_id", "other_id")
"""Data of events that may stand in a log; where a spilled text is does not."""

Listener = Callable[[MemoryEvent], None]


@dataclass(frozen=True, slots=True)
class Activity:
    """Work beside the run that took time: a call of a model, or a regular round (`maintenance`)."""

    name: str
    thread_id: str | None
    duration_ms: float
    error: BaseException | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    """Figures and names."""
    content: Mapping[str, str] = field(default_factory=dict)
    """What was said: the reply."""


Heard = Callable[[Activity], None]


@runtime_checkable
class Observer(Protocol):
    """A listener that also hears of activities, and takes its bearings along into the background."""

    def __call__(self, event: MemoryEvent, /) -> None: ...

    def heard(self, activity: Activity) -> None: ...

    def fresh_context(self) -> contextvars.Context:
        """The context for work in the background: nothing in it but what the observer itself needs there."""


def heard_by(listener: Listener | None) -> Heard | None:
    """How to tell `listener` of activities, if it is an observer; a failing one is logged."""
    if not isinstance(listener, Observer):
        return None
    observer = listener

    def heard(activity: Activity) -> None:
        try:
            observer.heard(activity)
        except Exception as error:  # noqa: BLE001 - the run goes on
            failed(logger, f"The event listener failed on {activity.name}", error)

    return heard


def fresh_for(listener: Listener | None) -> Callable[[], contextvars.Context]:
    """Makes the contexts for work in the background."""
    return listener.fresh_context if isinstance(listener, Observer) else contextvars.Context


def announce(event: MemoryEvent, listener: Listener | None, *, in_run: bool) -> None:
    """Send `event` to the listener and the run's custom stream; a failing listener is logged and the run goes on."""
    if logger.isEnabledFor(logging.INFO):
        logger.info("%s", _line(event))
        details.debug("%s thread=%s %s", event.name, event.thread_id, event.reason)
    if in_run and (write := _stream_writer()):
        write(event.to_json())
    if listener is None:
        return
    try:
        listener(event)
    except Exception as error:  # noqa: BLE001 - the run goes on
        failed(logger, f"The event listener failed on {event.name}", error)


def _line(event: MemoryEvent) -> str:
    """The event in ids and figures."""
    found = [event.name, f"thread={event.thread_id!r}", f"ms={event.duration_ms:.0f}"]
    if event.before is not None and event.after is not None:
        found += [f"tokens={event.before.total}->{event.after.total}", f"window={event.after.window}"]
    found += [f"{name}={event.data[name]}" for name in LOGGED if name in event.data]
    if event.name not in QUOTING and event.reason:
        found.append(f"reason={event.reason!r}")
    return " ".join(found)


def _stream_writer() -> Callable[[Any], None] | None:
    """The custom stream of the run; none for code that was moved to a thread without the run's context."""
    try:
        return get_stream_writer()
    except RuntimeError:
        return None
