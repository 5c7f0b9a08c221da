"""OpenTelemetry spans from what the middleware reports: `MemoryMiddleware(…, on_event=OpenTelemetryEvents())`.

Nothing is measured for it: every event and every call of a model beside the run brings along how long it took, so a
span is made when its work has ended, with the times it had. A program without the adapter pays nothing.

Spans are children of the span that is current where the work was done, such as one around the run. What is done in the
background has no parent, as the run may have ended long ago; its spans are linked to the span that handed it over.
What only was noticed (`capped`, `conflict`, …) is an event of the current span.

Attributes follow the GenAI semantic conventions where those have a name. Nothing that was said is in them, unless
`content=True` asks for it: then what the model replied, the texts of errors and the references of spilled results are.

Needs `pip install 'langgraph-memory-middleware[otel]'`.
"""

from __future__ import annotations

import contextvars
import json
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .errors import LangGraphMemoryError
from .events import LOGGED, QUOTING, Activity, EventName, Listener, MemoryEvent

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

SCOPE = "langgraph_memory"
SPANS: Mapping[EventName, str] = {
    "pruned": "memory.decide",
    "compacted": "memory.decide",
    "compaction_failed": "memory.compaction_failed",
    "overflow_recovered": "memory.recover",
    "spilled": "memory.spill",
    "memory_flushed": "memory.flush",
}
"""Events that tell of work which took time; `memory_changed` is a decision, a consolidation, or what a tool did."""
MISSING = "OpenTelemetryEvents needs opentelemetry-api: pip install 'langgraph-memory-middleware[otel]'"
NOTICED = "memory."

_origin: contextvars.ContextVar[Any] = contextvars.ContextVar("langgraph_memory_origin", default=None)
"""In the background, the span that handed the work over."""


class OpenTelemetryEvents:
    """A listener for `on_event` that makes spans; `then` is called with each event as well.

    Raises `LangGraphMemoryError` where OpenTelemetry is not installed.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        content: bool = False,
        then: Listener | None = None,
    ) -> None:
        try:
            from opentelemetry import trace
        except ImportError as error:
            raise LangGraphMemoryError(MISSING) from error
        self._trace: Any = trace
        self._tracer = trace.get_tracer(SCOPE, tracer_provider=tracer_provider)
        self._content, self._then = content, then

    def __call__(self, event: MemoryEvent, /) -> None:
        """Make a span, or an event of the current one, of an event."""
        attributes = dict(_of_event(event, content=self._content))
        if (name := _span_name(event)) is not None:
            error = event.reason if event.name == "compaction_failed" else None
            self._span(name, event.at, event.duration_ms, attributes, error=error)
        else:
            # A span that does not record takes it and forgets it.
            self._trace.get_current_span().add_event(f"{NOTICED}{event.name}", attributes, int(event.at * 1e9))
        if self._then is not None:
            self._then(event)

    def heard(self, activity: Activity) -> None:
        """Make a span of a call of a model beside the run, or of a regular round."""
        attributes = dict(_of_activity(activity, content=self._content))
        is_call = activity.name != "maintenance"
        name = f"chat {activity.data['model']}" if is_call else "memory.maintain"
        if activity.error is not None:
            attributes["error.type"] = type(activity.error).__qualname__
        error = None if activity.error is None else str(activity.error)
        self._span(name, time.time(), activity.duration_ms, attributes, error=error, client=is_call)

    def fresh_context(self) -> contextvars.Context:
        """A context with nothing in it but the span that hands the work over."""
        here = self._trace.get_current_span().get_span_context()
        context = contextvars.Context()
        context.run(_origin.set, here if here.is_valid else _origin.get())
        return context

    def _span(
        self,
        name: str,
        ended: float,
        duration_ms: float,
        attributes: Mapping[str, Any],
        *,
        error: str | None,
        client: bool = False,
    ) -> None:
        trace, origin, end = self._trace, _origin.get(), int(ended * 1e9)
        span = self._tracer.start_span(
            name,
            kind=trace.SpanKind.CLIENT if client else trace.SpanKind.INTERNAL,
            attributes=attributes,
            links=() if origin is None else [trace.Link(origin)],
            start_time=end - int(duration_ms * 1e6),
        )
        if error is not None:
            # The text may quote the request.
            span.set_status(trace.Status(trace.StatusCode.ERROR, error if self._content else None))
        span.end(end)


def _span_name(event: MemoryEvent) -> str | None:
    if event.name != "memory_changed":
        return SPANS.get(event.name)
    if event.after is not None:
        return "memory.decide"
    return "memory.consolidate" if event.reason == "consolidated" else "memory.change"


def _of_event(event: MemoryEvent, *, content: bool) -> Iterator[tuple[str, Any]]:
    yield f"{SCOPE}.event", event.name
    if event.thread_id is not None:
        yield "gen_ai.conversation.id", event.thread_id
    if event.name == "compaction_failed":
        yield "error.type", "compaction_failed"
    if event.reason and (content or event.name not in QUOTING):
        yield f"{SCOPE}.reason", event.reason
    if event.before is not None and event.after is not None:
        yield f"{SCOPE}.tokens.before", event.before.total
        yield f"{SCOPE}.tokens.after", event.after.total
        yield f"{SCOPE}.window", event.after.window
        yield f"{SCOPE}.exact", event.after.exact
        yield f"{SCOPE}.stable_prefix", event.after.stable_prefix
    names = (*LOGGED, "ref") if content else LOGGED
    for name in names:
        if name in event.data:
            yield "gen_ai.tool.name" if name == "tool" else f"{SCOPE}.{name}", event.data[name]


def _of_activity(activity: Activity, *, content: bool) -> Iterator[tuple[str, Any]]:
    yield f"{SCOPE}.activity", activity.name
    if activity.thread_id is not None:
        yield "gen_ai.conversation.id", activity.thread_id
    data = dict(activity.data)
    if (model := data.pop("model", None)) is not None:
        yield "gen_ai.operation.name", "chat"
        yield "gen_ai.request.model", model
        for name in ("input", "output"):
            if (tokens := data.pop(f"{name}_tokens", None)) is not None:
                yield f"gen_ai.usage.{name}_tokens", tokens
    for name, value in data.items():
        yield f"{SCOPE}.{name}", value
    if content and (said := activity.content.get("reply")):
        reply = {"role": "assistant", "parts": [{"type": "text", "content": said}], "finish_reason": "stop"}
        yield "gen_ai.output.messages", json.dumps([reply], ensure_ascii=False)
