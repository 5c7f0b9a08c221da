"""What a tracer such as LangSmith's is told of calls beside the run: whose they are, and nothing of what was said."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any, ClassVar

import pytest
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import HumanMessage
from langchain_core.tracers import BaseTracer, Run
from langchain_core.tracers import context as tracing_context
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from tests.support.graphs import GRAPHS, MODES, agent_graph, chat, talk
from tests.support.models import GOOD, Scripted, summariser
from tests.support.remembering import Home

LONG = chat(12, chars=1400)
SMALL = {"context_window": 5000}
SOURCES = {
    "memory_summary": "summarization",
    "memory_flush": "memory_flush",
    "memory_consolidation": "memory_consolidation",
}
"""Names of inner runs and `lc_source` in their metadata."""


def flat(runs: list[Run]) -> list[Run]:
    return [one for run in runs for one in (run, *flat(list(run.child_runs)))]


def inner(runs: list[Run]) -> list[Run]:
    return [run for run in flat(runs) if "lc_source" in run.metadata]


def checked(run: Run, thread: str | None = "t-1") -> str:
    """The name of an inner run that carries all it should."""
    assert run.metadata["lc_source"] == SOURCES[run.name]
    assert run.metadata.get("thread_id") == thread
    assert "nostream" in (run.tags or [])
    assert not [word for word in ("word", "pier", "SUMMARY-TEXT") if word in str(run.metadata)]
    return run.name


class Everything(BaseTracer):
    """A tracer that the environment switches on, wherever a run is made."""

    runs: ClassVar[list[Run]] = []

    def _persist_run(self, run: Run) -> None:
        self.runs.append(run)


@pytest.fixture
def everything(monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """All root runs, by the mechanism of LangSmith's tracing: an environment variable and no callbacks."""
    hook: Any = (ContextVar("none", default=None), True, Everything, "TRACE_EVERYTHING")
    monkeypatch.setattr(tracing_context, "_configure_hooks", [*tracing_context._configure_hooks, hook])
    monkeypatch.setenv("TRACE_EVERYTHING", "true")
    monkeypatch.setattr(Everything, "runs", [])
    return Everything.runs


async def invoke(graph: Any, messages: list[Any], config: Any, mode: str) -> None:
    given = {"messages": messages}
    if mode == "sync":
        await asyncio.to_thread(graph.invoke, given, config)
    else:
        await graph.ainvoke(given, config)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", GRAPHS)
async def test_a_summary_is_a_run_of_its_thread_inside_the_run_that_needs_it(kind, mode):
    collected = RunCollectorCallbackHandler()
    talked = talk(SMALL, kind=kind, mode=mode)
    talked.config = {**talked.config, "callbacks": [collected]}
    await talked.send(*LONG, HumanMessage("go"))
    runs = inner(collected.traced_runs)
    assert {checked(run) for run in runs} == {"memory_summary"}
    assert all(run.run_type == "llm" and run.parent_run_id is not None for run in runs)
    nodes = {one.name for one in flat(collected.traced_runs) if one.metadata.get("langgraph_node")}
    assert ("memory" if kind == "node" else "model") in nodes


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", GRAPHS)
async def test_chunks_and_what_puts_them_together_are_marked_alike(kind, mode):
    collected = RunCollectorCallbackHandler()
    talked = talk({**SMALL, "compaction.map_chunk_messages": 6}, kind=kind, mode=mode)
    talked.config = {**talked.config, "callbacks": [collected]}
    await talked.send(*LONG, HumanMessage("go"))
    calls = inner(collected.traced_runs)
    assert len(calls) == len(talked.side.requests) > 2
    assert {checked(run) for run in calls} == {"memory_summary"}


@pytest.mark.parametrize("mode", MODES)
async def test_a_second_try_with_less_is_marked_alike_and_a_failure_is_one(mode):
    collected = RunCollectorCallbackHandler()
    talked = talk(SMALL, mode=mode, side=summariser([RuntimeError("down"), GOOD]))
    talked.config = {**talked.config, "callbacks": [collected]}
    await talked.send(*LONG, HumanMessage("go"))
    first, *others = inner(collected.traced_runs)
    assert {checked(run) for run in (first, *others)} == {"memory_summary"}
    assert first.error and others and not any(run.error for run in others)


@pytest.mark.parametrize("inline", [True, False], ids=["inline", "background"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", GRAPHS)
async def test_what_the_environment_traces_has_every_call_in_the_background_with_its_thread(
    kind, mode, inline, tmp_path, everything
):
    home = Home(tmp_path, kind=kind, inline=inline)
    await invoke(home.graph, [HumanMessage("I live at pier B.")], home.config("t-1"), mode)
    await home.memory.adrain()
    assert [checked(run) for run in inner(everything)] == ["memory_flush", "memory_consolidation"]
    assert all(run.parent_run_id is None for run in inner(everything))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", GRAPHS)
async def test_a_summary_bought_ahead_is_a_run_of_its_thread(kind, mode, everything):
    talked = talk({"context_window": 10_000, "compaction.prefetch_ratio": 0.1}, kind=kind, mode=mode)
    await talked.send(*chat(12, chars=900), HumanMessage("go"))
    await talked.memory.adrain()
    assert not talked.named("compacted")
    assert {checked(run) for run in inner(everything)} == {"memory_summary"}
    assert all(run.parent_run_id is None for run in inner(everything))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", GRAPHS)
async def test_callbacks_of_a_run_hear_nothing_of_the_background_and_those_of_the_model_everything(
    kind, mode, tmp_path
):
    of_run, of_model = RunCollectorCallbackHandler(), RunCollectorCallbackHandler()
    side = Home(tmp_path).side
    side.callbacks = [of_model]
    home = Home(tmp_path, kind=kind, side=side, inline=False)
    await invoke(home.graph, [HumanMessage("I live at pier B.")], {**home.config("t-1"), "callbacks": [of_run]}, mode)
    await home.memory.adrain()
    assert inner(of_run.traced_runs) == []
    assert [checked(run) for run in inner(of_model.traced_runs)] == ["memory_flush", "memory_consolidation"]


async def test_a_round_that_no_thread_asked_for_names_none(tmp_path, everything):
    home = Home(tmp_path, settings={"consolidation.min_interval_minutes": 60})
    await home.workspace().append([{"text": "The user lives at pier B."}])
    async for _ in home.memory.upkeep().round(force=True):
        pass
    [run] = inner(everything)
    assert checked(run, thread=None) == "memory_consolidation"


async def test_a_subgraph_names_the_thread_of_its_parent():
    collected = RunCollectorCallbackHandler()
    talked = talk(SMALL)
    builder = StateGraph(MessagesState)
    builder.add_node("child", talked.graph)
    builder.add_edge(START, "child")
    graph = builder.compile(checkpointer=InMemorySaver())
    await graph.ainvoke({"messages": [*LONG, HumanMessage("go")]}, {**talked.config, "callbacks": [collected]})
    assert {checked(run) for run in inner(collected.traced_runs)} == {"memory_summary"}


async def test_the_mark_of_a_summary_is_the_one_of_langchain_s_own_middleware():
    theirs = RunCollectorCallbackHandler()
    middleware = SummarizationMiddleware(Scripted(replies=GOOD), trigger=("messages", 4), keep=("messages", 2))
    graph = agent_graph(middleware, Scripted())  # type: ignore[arg-type]
    config = {"configurable": {"thread_id": "t"}, "callbacks": [theirs]}
    await graph.ainvoke({"messages": [*LONG, HumanMessage("go")]}, config)
    run = inner(theirs.traced_runs)[0]
    collected = RunCollectorCallbackHandler()
    talked = talk(SMALL)
    talked.config = {**talked.config, "callbacks": [collected]}
    await talked.send(*LONG, HumanMessage("go"))
    ours = inner(collected.traced_runs)[0]
    marks = {key for key in run.metadata if key.startswith(("lc_", "__"))}
    assert {key: ours.metadata[key] for key in marks} == {key: run.metadata[key] for key in marks}
