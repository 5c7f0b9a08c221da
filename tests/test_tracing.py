"""Spans as an exporter of OpenTelemetry gets them."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import nullcontext
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from langgraph_memory import LangGraphMemoryError, MemoryEvent, MemoryMiddleware
from langgraph_memory.tracing import OpenTelemetryEvents
from tests.support.graphs import GRAPHS, MODES, agent_graph, chat, configured, grab, looping, node_graph, thread
from tests.support.models import Scripted, summariser
from tests.support.remembering import noting

LONG = chat(12, chars=1400)
SECRET = "KELP"


class Traced:
    """A memory whose events become spans, a graph with it, and what was exported."""

    def __init__(self, settings: Any = None, *, kind: str = "node", side: Any = None, model: Any = None, **more: Any):
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = provider.get_tracer("test")
        self.adapter = OpenTelemetryEvents(
            tracer_provider=provider, content=more.pop("content", False), then=more.pop("then", None)
        )
        tools = more.pop("tools", ())
        side = summariser(usage=lambda _: 321) if side is None else side
        self.memory = MemoryMiddleware(configured(settings or {}), model=side, on_event=self.adapter, **more)
        build = node_graph if kind == "node" else agent_graph
        self.graph = build(self.memory, model or Scripted(), tools=tools)

    async def send(self, *messages: Any, mode: str = "async", inside: bool = True) -> None:
        config = {**thread(), "configurable": {"thread_id": "t-1", "user_id": "ada"}}
        given = {"messages": list(messages)}
        with self.tracer.start_as_current_span("run") if inside else nullcontext():
            if mode == "sync":
                await asyncio.to_thread(self.graph.invoke, given, config)
            else:
                await self.graph.ainvoke(given, config)
        await self.memory.adrain()

    @property
    def spans(self) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name != "run"]

    @property
    def run(self) -> ReadableSpan:
        [span] = [span for span in self.exporter.get_finished_spans() if span.name == "run"]
        return span

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def exported(traced: Traced) -> str:
    return json.dumps([json.loads(span.to_json()) for span in traced.exporter.get_finished_spans()])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", GRAPHS)
async def test_a_decision_and_the_summary_it_bought_are_spans_of_the_run(kind, mode):
    traced = Traced({"context_window": 5000}, kind=kind)
    await traced.send(*LONG, HumanMessage("go"), mode=mode)
    [decided] = traced.named("memory.decide")
    found = attributes(decided)
    assert found["gen_ai.conversation.id"] == "t-1"
    assert found["langgraph_memory.event"] == "compacted"
    assert found["langgraph_memory.actions"] == ("compacted",)
    assert found["langgraph_memory.reason"] == "summariser"
    assert found["langgraph_memory.tokens.before"] > found["langgraph_memory.tokens.after"] > 0
    assert (found["langgraph_memory.window"], found["langgraph_memory.exact"]) == (5000, True)
    calls = traced.named("chat scripted")
    assert calls
    for call in calls:
        found = attributes(call)
        assert found["langgraph_memory.activity"] == "memory_summary"
        assert (found["gen_ai.operation.name"], found["gen_ai.request.model"]) == ("chat", "scripted")
        assert (found["gen_ai.usage.input_tokens"], found["gen_ai.usage.output_tokens"]) == (321, 10)
        assert found["gen_ai.conversation.id"] == "t-1"
        assert call.kind == SpanKind.CLIENT
        assert 0 < call.end_time - call.start_time <= decided.end_time - decided.start_time
    for span in traced.spans:
        assert span.parent and span.parent.span_id == traced.run.context.span_id
        assert not span.links and span.status.status_code == StatusCode.UNSET
    assert {event.name for event in traced.run.events} >= {"memory.compacting", "memory.capped"}


async def test_in_an_agent_the_span_of_a_decision_ends_before_the_model_is_asked():
    started: list[int] = []
    traced = Traced({"context_window": 5000}, kind="agent", model=Scripted(replies=lambda _: _timed(started)))
    await traced.send(*LONG, HumanMessage("go"))
    [decided] = traced.named("memory.decide")
    assert decided.end_time <= started[0]


def _timed(started: list[int]) -> str:
    started.append(time.time_ns())
    return "ok"


@pytest.mark.parametrize("inline", [True, False], ids=["inline", "background"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", GRAPHS)
async def test_work_in_the_background_has_no_parent_and_a_link_to_the_run(kind, mode, inline, tmp_path):
    settings = {"consolidation.min_interval_minutes": 0}
    traced = Traced(settings, kind=kind, side=Scripted(replies=noting), workspace=tmp_path, inline=inline)
    await traced.send(HumanMessage("I live at pier B."), mode=mode)
    [flushed], [merged] = traced.named("memory.flush"), traced.named("memory.consolidate")
    assert attributes(flushed)["langgraph_memory.entries"] == attributes(merged)["langgraph_memory.entries"] == 1
    assert attributes(flushed)["gen_ai.conversation.id"] == "t-1"
    calls = traced.named("chat scripted")
    assert [attributes(call)["langgraph_memory.activity"] for call in calls] == ["memory_flush", "memory_consolidation"]
    for span in (flushed, merged, *calls):
        assert span.parent is None
        assert [link.context.span_id for link in span.links] == [traced.run.context.span_id]


async def test_outside_of_any_span_there_is_neither_parent_nor_link(tmp_path):
    traced = Traced(side=Scripted(replies=noting), workspace=tmp_path)
    await traced.send(HumanMessage("I live at pier B."), inside=False)
    assert traced.spans
    assert all(span.parent is None and not span.links for span in traced.spans)


@pytest.mark.parametrize("kind", GRAPHS)
async def test_a_spilled_result_is_a_span_with_its_tool_and_size(kind, tmp_path):
    traced = Traced(kind=kind, model=Scripted(replies=looping(1)), tools=[grab(60_000)], workspace=tmp_path)
    await traced.send(HumanMessage("go"))
    [span] = traced.named("memory.spill")
    found = attributes(span)
    assert (found["gen_ai.tool.name"], found["langgraph_memory.bytes"]) == ("grab", 60_000)
    assert "langgraph_memory.ref" not in found


@pytest.mark.parametrize("content", [False, True])
async def test_nothing_that_was_said_is_exported_unless_asked_for(content, tmp_path):
    def reply(messages: Any) -> Any:
        raise RuntimeError(f"400 {SECRET}")

    def good(messages: Any) -> str:
        return f"- the {SECRET} lies at pier B" if "NO_REPLY" in str(messages[-1].content) else f"## SUMMARY\n{SECRET}"

    said = [m.model_copy(update={"content": f"{SECRET} {m.content}"}) for m in LONG]
    for side, folder in ((good, "good"), (reply, "failing")):
        settings = {"context_window": 5000, "flush.min_interval_seconds": 0}
        traced = Traced(
            settings, side=Scripted(replies=side), content=content, workspace=tmp_path / folder, inline=True
        )
        await traced.send(*said, HumanMessage(f"{SECRET} go"))
        assert traced.named("memory.decide")
        assert (SECRET in exported(traced)) is content


async def test_with_content_the_reply_is_in_the_form_of_the_conventions():
    traced = Traced({"context_window": 5000}, content=True)
    await traced.send(*LONG, HumanMessage("go"))
    [message] = json.loads(attributes(traced.named("chat scripted")[0])["gen_ai.output.messages"])
    assert message["role"] == "assistant"
    assert "SUMMARY-TEXT" in message["parts"][0]["content"]


@pytest.mark.parametrize("mode", MODES)
async def test_a_failure_is_the_status_of_its_span(mode):
    traced = Traced({"context_window": 5000}, side=summariser([RuntimeError("down")]))
    await traced.send(*LONG, HumanMessage("go"), mode=mode)
    calls, failed = traced.named("chat scripted"), traced.named("memory.compaction_failed")
    assert calls and failed
    assert {attributes(call)["error.type"] for call in calls} == {"RuntimeError"}
    for span in (*calls, *failed):
        assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
    assert not attributes(failed[0]).keys() & {"langgraph_memory.reason"}


async def test_a_regular_round_is_a_span_with_what_was_done(tmp_path):
    traced = Traced(side=Scripted(replies=noting), workspace=tmp_path)
    await traced.memory.upkeep()._tried()
    [span] = traced.named("memory.maintain")
    assert attributes(span)["langgraph_memory.activity"] == "maintenance"
    assert attributes(span)["langgraph_memory.spills"] == 0


async def test_an_own_listener_hears_the_events_too():
    events: list[MemoryEvent] = []
    traced = Traced({"context_window": 5000}, then=events.append)
    await traced.send(*LONG, HumanMessage("go"))
    assert "compacted" in [event.name for event in events]


async def test_an_adapter_that_fails_does_not_fail_the_run(caplog):
    class Failing(OpenTelemetryEvents):
        def heard(self, activity: Any) -> None:
            raise RuntimeError("no")

    memory = MemoryMiddleware(configured({"context_window": 5000}), model=summariser(), on_event=Failing())
    graph = node_graph(memory, Scripted())
    await graph.ainvoke({"messages": [*LONG, HumanMessage("go")]}, thread())
    assert "The event listener failed on memory_summary" in caplog.text


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(LangGraphMemoryError, match=r"pip install 'langgraph-memory-middleware\[otel\]'"):
        OpenTelemetryEvents()
