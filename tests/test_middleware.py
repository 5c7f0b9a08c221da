import asyncio
import json
import logging
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import _messages_delta_reducer, add_messages
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt
from pydantic import BaseModel

from langgraph_memory import ConfigError, LangGraphMemoryError, MemoryMiddleware, MemoryState, RuntimeConfig
from langgraph_memory.context.record import merge_records
from langgraph_memory.errors import RecordMissingError, ThreadBusyError
from tests.support.graphs import (
    GRAPHS,
    MODES,
    Bare,
    agent_graph,
    as_bytes,
    calls,
    chat,
    configured,
    grab,
    looping,
    node_graph,
    result,
    rounds,
    size,
    summaries_in,
    talk,
    text_of,
    thread,
)
from tests.support.models import GOOD, Hanging, Scripted, Streaming, content_text, numbered_summaries, summariser
from tests.support.validity import faults

SMALL = {"context_window": 5000}
LONG = chat(14, chars=1200)
"""Enough to compact under `SMALL`."""


def built(kind: str) -> Any:
    return node_graph if kind == "node" else agent_graph


async def run(mode: str, graph: Any, given: Any, config: Any, **options: Any) -> Any:
    """`ainvoke`, or `invoke` as a program without an event loop makes it."""
    if mode == "sync":
        return await asyncio.to_thread(graph.invoke, given, config, **options)
    return await graph.ainvoke(given, config, **options)


# The places of use


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", GRAPHS)
async def test_the_model_gets_system_prompt_view_and_tools(kind, mode):
    talked = talk(SMALL, kind=kind, mode=mode, tools=[grab(10)], system="never quote prices")
    await talked.send(*LONG, "go")
    request = talked.model.requests[-1]
    assert (request.messages[0].type, request.messages[0].content) == ("system", "never quote prices")
    assert "grab" in request.tools
    assert summaries_in(request.messages) == 1
    assert request.messages[1:] == (await talked.view())[:-1]
    assert faults(request.messages) == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", GRAPHS)
async def test_the_output_holds_the_messages_and_no_record(kind, mode):
    talked = talk(SMALL, kind=kind, mode=mode)
    output = await run(mode, talked.graph, {"messages": [*LONG, HumanMessage("go")]}, talked.config)
    assert set(output) == {"messages"}
    assert len(output["messages"]) == len(LONG) + 2
    assert set(await talked.state()) == {"messages", "memory_record"}


@pytest.mark.parametrize("mode", MODES)
async def test_a_graph_wired_by_hand_sends_the_view(mode):
    memory, model = MemoryMiddleware(configured(SMALL), model=summariser()), Scripted()

    def call_model(state: MemoryState) -> dict[str, Any]:
        return {"messages": [model.invoke(memory.view(state))]}

    builder = StateGraph(MemoryState, input_schema=MessagesState, output_schema=MessagesState)
    builder.add_node("memory", memory)
    builder.add_node("model", call_model)
    builder.add_edge(START, "memory")
    builder.add_edge("memory", "model")
    builder.add_edge("model", END)
    graph = builder.compile(checkpointer=InMemorySaver())
    await run(mode, graph, {"messages": [*LONG, HumanMessage("go")]}, thread())
    assert summaries_in(model.last) == 1
    assert size(model.last) <= 4375
    assert faults(model.last) == []


async def test_attach_takes_the_names_of_the_nodes_and_works_without_tools():
    memory, model = MemoryMiddleware(configured(SMALL), model=summariser()), Scripted(replies=looping(2))
    builder = StateGraph(MemoryState)
    builder.add_node("llm", memory.model_node(model, tools=[grab(10)]))
    builder.add_node("hands", ToolNode([grab(10)]))
    memory.attach(builder, model="llm", tools="hands")
    output = await builder.compile().ainvoke({"messages": [HumanMessage("go")]})
    assert [m.type for m in output["messages"]] == ["human", "ai", "tool", "ai", "tool", "ai"]
    bare = StateGraph(MemoryState)
    bare.add_node("model", memory.model_node(Scripted()))
    memory.attach(bare, tools=None)
    assert [m.type for m in (await bare.compile().ainvoke({"messages": [HumanMessage("go")]}))["messages"]] == [
        "human",
        "ai",
    ]


@pytest.mark.parametrize("mode", MODES)
async def test_called_by_hand_it_returns_the_update_and_nothing_once_nothing_changes(mode):
    memory = MemoryMiddleware(configured(SMALL), model=summariser())
    state: dict[str, Any] = {"messages": LONG, "memory_record": {}}
    call = memory if mode == "async" else (lambda *given: asyncio.to_thread(memory.invoke, *given))
    update = await call(state, {"configurable": {"thread_id": "t"}})
    assert set(update) == {"memory_record"}
    assert not await call({**state, **update}, {"configurable": {"thread_id": "t"}})
    assert summaries_in(memory.view({**state, **update})) == 1


async def test_called_by_hand_it_needs_neither_config_nor_record():
    memory = MemoryMiddleware(configured(SMALL), model=summariser())
    update = await memory({"messages": LONG})
    assert size(memory.view({"messages": LONG, **update})) <= 4375


async def test_open_serves_async_programs_with_a_database_of_its_own():
    model = Scripted()
    async with MemoryMiddleware.open(configured(SMALL), model=summariser()) as memory:
        graph = node_graph(memory, model, saver=memory.saver)
        await graph.ainvoke({"messages": [*LONG, HumanMessage("go")]}, thread())
        assert summaries_in(model.last) == 1
        assert len([c async for c in memory.saver.alist(thread())]) > 1
    assert written("memory/threads.db") > 0


@pytest.mark.parametrize("kind", GRAPHS)
def test_open_serves_sync_programs_too(kind):
    model = Scripted()
    with MemoryMiddleware.open(configured(SMALL), model=summariser()) as memory:
        graph = built(kind)(memory, model, saver=memory.saver)
        graph.invoke({"messages": [*LONG, HumanMessage("go")]}, thread())
        view = memory.view(graph.get_state(thread()).values, thread())
    assert summaries_in(model.last) == 1
    assert view[:-1] == model.last
    with MemoryMiddleware.open(configured(SMALL), model=summariser()) as memory:
        graph = built(kind)(memory, model, saver=memory.saver)
        assert memory.view(graph.get_state(thread()).values, thread()) == view


def written(path: str) -> int:
    return Path(path).stat().st_size


def test_open_finds_the_configuration_and_names_what_is_wrong_with_it():
    Path("runtime.json").write_text('{"memory": {"context_window": 4321}}')
    with MemoryMiddleware.open() as memory:
        assert memory.config.memory.context_window == 4321
    Path("runtime.json").write_text('{"memory": {"contxt_window": 4321}}')
    with pytest.raises(ConfigError, match=r"runtime\.json.*contxt_window"), MemoryMiddleware.open():
        pass


@pytest.mark.parametrize("mode", MODES)
def test_a_database_in_a_folder_that_cannot_be_made_is_named(mode):
    Path("file").write_text("")
    config = RuntimeConfig.model_validate({"persistence": {"thread_db": "file/threads.db"}})

    async def enter() -> None:
        async with MemoryMiddleware.open(config):
            pass

    with pytest.raises(ConfigError, match=r"thread_db.*file/threads\.db"):
        asyncio.run(enter()) if mode == "async" else MemoryMiddleware.open(config).__enter__()


def test_its_name_collides_with_no_other_middleware():
    assert MemoryMiddleware().name == "langgraph_memory"


# Schemas


class DeltaState(AgentState[Any]):
    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer, snapshot_frequency=5)]  # type: ignore[misc]
    memory_record: Annotated[dict[str, Any], PrivateStateAttr, merge_records]


@pytest.mark.parametrize("kind", GRAPHS)
async def test_a_delta_channel_holds_the_messages_as_well(kind):
    memory, model = MemoryMiddleware(configured(SMALL), model=numbered_summaries()), Scripted()
    saver = InMemorySaver()
    if kind == "node":
        graph = node_graph(memory, model, schema=DeltaState, saver=saver)
    else:
        graph = create_agent(model, [], middleware=[memory], state_schema=DeltaState, checkpointer=saver)
    for turn in range(30):
        question = HumanMessage(f"q-{turn:04d} " + "word " * 200, id=f"h{turn}")
        await graph.ainvoke({"messages": [question]}, thread())
        assert size(model.last) <= 4375
        assert faults(model.last) == []
    state = (await graph.aget_state(thread())).values
    assert len(state["messages"]) == 60
    assert summaries_in(memory.view(state, thread())) == 1


class PydanticState(BaseModel):
    messages: Annotated[list[AnyMessage], add_messages]
    memory_record: Annotated[dict[str, Any], merge_records] = {}


@dataclass
class DataclassState:
    messages: Annotated[list[AnyMessage], add_messages]
    memory_record: Annotated[dict[str, Any], merge_records] = field(default_factory=dict)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("schema", [PydanticState, DataclassState])
async def test_pydantic_and_dataclass_states_work_with_a_field_for_the_record(schema, mode):
    memory, model = MemoryMiddleware(configured(SMALL), model=summariser()), Scripted(replies=looping(3))
    graph = node_graph(memory, model, schema=schema, tools=[grab(400), *memory.tools])
    await run(mode, graph, {"messages": [*LONG, HumanMessage("go")]}, thread())
    assert len(model.requests) == 4
    assert summaries_in(model.last) == 1
    assert faults(model.last) == []
    values = (await graph.aget_state(thread())).values
    assert memory.view(values, thread()) == memory.view(schema(**values), thread())


@pytest.mark.parametrize("mode", MODES)
async def test_a_state_without_the_record_fails_at_the_first_call_and_says_what_to_do(mode):
    memory, model = MemoryMiddleware(configured(SMALL), model=summariser()), Scripted()
    graph = node_graph(memory, model, schema=MessagesState)
    with pytest.raises(RecordMissingError, match=r"memory_record.*MemoryState"):
        await run(mode, graph, {"messages": [HumanMessage("go")]}, thread())
    assert model.requests == []


async def test_looking_at_an_output_without_the_record_raises_and_says_where_to_look():
    talked = talk(SMALL)
    output = await talked.graph.ainvoke({"messages": [HumanMessage("go")]}, talked.config)
    for look in (talked.memory.view, talked.memory.report):
        with pytest.raises(RecordMissingError, match=r"get_state\(config\)\.values"):
            look(output)


@pytest.mark.parametrize("kind", GRAPHS)
async def test_a_client_cannot_send_a_record_of_its_own(kind):
    talked = talk(SMALL, kind=kind)
    forged = {"v": 1, "ns": {"": {"trims": {"q0": 0}, "forged": True}}}
    await talked.graph.ainvoke({"messages": [HumanMessage("go", id="q0")], "memory_record": forged}, talked.config)
    assert "forged" not in str((await talked.state())["memory_record"])
    assert talked.named("record_ignored") == []


# Middleware beside it


class Redacting(AgentMiddleware[Any, Any, Any]):
    def _without(self, request: Any) -> Any:
        hidden = [
            m.model_copy(update={"content": m.content.replace("4711", "****")}) if isinstance(m.content, str) else m
            for m in request.messages
        ]
        return request.override(messages=hidden)

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(self._without(request))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(self._without(request))


@pytest.mark.parametrize("mode", MODES)
async def test_what_an_outer_middleware_hides_reaches_neither_model_nor_summariser(mode):
    memory, model = MemoryMiddleware(configured(SMALL), model=summariser()), Scripted()
    graph = create_agent(model, [], middleware=[Redacting(), memory], checkpointer=InMemorySaver())
    secret = [m.model_copy(update={"content": f"code 4711 {m.content}"}) for m in LONG]
    await run(mode, graph, {"messages": [*secret, HumanMessage("and 4711?")]}, thread())
    await run(mode, graph, {"messages": [HumanMessage("again 4711")]}, thread())
    assert summaries_in(model.last) == 1
    assert len(memory._side_model.requests) >= 1
    for request in [*model.requests, *memory._side_model.requests]:
        assert "4711" not in request.text
    assert "code ****" in memory._side_model.requests[0].text


async def test_the_window_is_that_of_the_model_another_middleware_puts_in():
    small = Scripted(profile={"max_input_tokens": 4000})

    class Swapping(AgentMiddleware[Any, Any, Any]):
        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            return await handler(request.override(model=small))

    memory, large = MemoryMiddleware(model=summariser()), Scripted(profile={"max_input_tokens": 200_000})
    graph = create_agent(large, [], middleware=[Swapping(), memory], checkpointer=InMemorySaver())
    await graph.ainvoke({"messages": [*LONG, HumanMessage("go")]}, thread())
    assert large.requests == []
    assert size(small.last) <= 3500


async def test_a_hand_wired_node_before_two_models_minds_the_smaller_window():
    memory = MemoryMiddleware(model=summariser())
    small, large = (Scripted(profile={"max_input_tokens": window}) for window in (4000, 200_000))
    builder = StateGraph(MemoryState)
    builder.add_node("memory", memory)
    builder.add_node("large", memory.model_node(large))
    builder.add_node("small", memory.model_node(small))
    builder.add_edge(START, "memory")
    builder.add_edge("memory", "large")
    builder.add_edge("memory", "small")
    await builder.compile().ainvoke({"messages": [*LONG, HumanMessage("go")]}, thread())
    assert size(small.last) <= 3500
    assert large.last == small.last


# Beside and below


@pytest.mark.parametrize("mode", MODES)
async def test_a_message_that_a_parallel_node_adds_while_a_summary_is_made_is_kept(mode):
    memory, model = MemoryMiddleware(configured(SMALL), model=summariser()), Scripted()
    builder = StateGraph(MemoryState, input_schema=MessagesState)
    builder.add_node("side", lambda state: {"messages": [HumanMessage("news from the pier", id="news")]})
    builder.add_node("model", memory.model_node(model))
    memory.attach(builder)
    builder.add_edge(START, "side")
    builder.add_edge("side", END)
    graph = builder.compile(checkpointer=InMemorySaver())
    await run(mode, graph, {"messages": [*LONG, HumanMessage("go", id="go")]}, thread())
    assert summaries_in(model.last) == 1
    assert [m.id for m in model.last[-2:]] == ["go", "news"] or "news from the pier" in text_of(model.last[-1:])
    report = await memory.compact(graph, thread())
    assert report.compacted > 0
    assert "news from the pier" in text_of(memory.view((await graph.aget_state(thread())).values, thread()))


def family(parent_window: int, child_window: int, *, child_as: str) -> tuple[MemoryMiddleware, Any, Scripted, Scripted]:
    """A parent with a child graph of the same schema, as a node or called in a node."""
    parent_model, child_model = Scripted(), Scripted(replies="inner secret 9")
    parent = MemoryMiddleware(configured({"context_window": parent_window}), model=summariser())
    inner = MemoryMiddleware(
        configured({"context_window": child_window}), model=summariser("## SUMMARY\nCHILD-SUMMARY")
    )
    child = StateGraph(MemoryState)
    child.add_node("model", inner.model_node(child_model))
    inner.attach(child)
    compiled = child.compile()

    async def helper(state: MemoryState) -> dict[str, Any]:
        await compiled.ainvoke({"messages": [*LONG, HumanMessage("inner question")]})
        return {}

    builder = StateGraph(MemoryState, input_schema=MessagesState, output_schema=MessagesState)
    builder.add_node("memory", parent)
    builder.add_node("child", compiled if child_as == "node" else helper)
    builder.add_node("again", parent)
    builder.add_node("model", parent.model_node(parent_model))
    for edge in ((START, "memory"), ("memory", "child"), ("child", "again"), ("again", "model"), ("model", END)):
        builder.add_edge(*edge)
    return parent, builder.compile(checkpointer=InMemorySaver()), parent_model, child_model


@pytest.mark.parametrize("child_as", ["node", "function"])
async def test_what_a_child_graph_decides_never_shows_in_the_view_of_its_parent(child_as):
    parent, graph, parent_model, child_model = family(100_000, 5000, child_as=child_as)
    for _ in range(3):
        await graph.ainvoke({"messages": [*(LONG if child_as == "node" else []), HumanMessage("go")]}, thread())
    assert summaries_in(child_model.last) == 1
    assert summaries_in(parent_model.last) == 0
    state = (await graph.aget_state(thread())).values
    assert parent.view(state, thread()) == state["messages"]
    assert "CHILD-SUMMARY" not in text_of(parent_model.last)
    assert ("inner secret 9" in text_of(parent_model.last)) == (child_as == "node")


async def test_what_a_parent_decides_does_not_bind_its_child_and_the_record_has_one_scope_each():
    parent, graph, parent_model, child_model = family(5000, 100_000, child_as="node")
    for _ in range(4):
        await graph.ainvoke({"messages": [*LONG, HumanMessage("go")]}, thread())
    assert summaries_in(parent_model.last) == 1
    assert summaries_in(child_model.last) == 0
    state = (await graph.aget_state(thread())).values
    assert set(state["memory_record"]["ns"]) == {"", "child"}
    assert faults(parent.view(state, thread())) == []


async def test_an_agent_called_by_a_tool_of_another_agent_leaves_no_trace_in_its_memory():
    memory = MemoryMiddleware(configured(SMALL), model=summariser("## SUMMARY\nCHILD-SUMMARY"))
    worker = create_agent(Scripted(replies="inner secret 9"), [], middleware=[memory])

    @tool
    async def delegate(n: int) -> str:
        """Ask the worker."""
        await worker.ainvoke({"messages": [*LONG, HumanMessage("do it")]})
        return "done by the worker"

    boss = Scripted(replies=looping(3, name="delegate"))
    graph = agent_graph(memory, boss, tools=[delegate])
    await graph.ainvoke({"messages": [HumanMessage("go")]}, thread())
    state = (await graph.aget_state(thread())).values
    assert memory.view(state, thread()) == state["messages"]
    assert "CHILD-SUMMARY" not in boss.requests[-1].text
    assert "inner secret" not in boss.requests[-1].text


# Interrupts


def asking(kind: str) -> Any:
    @tool
    def book(n: int) -> str:
        """Book a berth."""
        answer = interrupt(f"book berth {n}?")
        return f"berth {n}: {answer}"

    return talk(SMALL, kind=kind, model=Scripted(replies=looping(2, name="book")), tools=[book])


@pytest.mark.parametrize("kind", GRAPHS)
async def test_a_pending_question_and_its_call_stay_and_the_run_resumes(kind):
    talked = asking(kind)
    await talked.send(*LONG, "book two berths")
    snapshot = await talked.graph.aget_state(talked.config)
    before = [(m.id, m.content) for m in snapshot.values["messages"]]
    with pytest.raises(ThreadBusyError, match=r"t-1.*tools"):
        await talked.memory.compact(talked.graph, talked.config)
    snapshot = await talked.graph.aget_state(talked.config)
    assert [i.value for i in snapshot.interrupts] == ["book berth 1?"]
    assert [(m.id, m.content) for m in snapshot.values["messages"]] == before
    assert snapshot.values["messages"][-1].tool_calls[0]["name"] == "book"
    assert "book" in text_of(await talked.view())
    await talked.graph.ainvoke(Command(resume="yes"), talked.config)
    await talked.graph.ainvoke(Command(resume="no"), talked.config)
    history = await talked.history()
    assert [m.content for m in history if m.type == "tool"] == ["berth 1: yes", "berth 2: no"]
    assert history[-1].content == "done"
    for request in talked.model.requests:
        assert faults(request.messages) == []
        assert "book two berths" in request.text
    assert talked.named("compacted")


@pytest.mark.parametrize("kind", GRAPHS)
async def test_a_question_answered_after_a_restart_is_not_asked_or_summarised_away(kind):
    talked = asking(kind)
    await talked.send(*LONG, "book two berths")
    other = asking(kind)
    other.graph.checkpointer = talked.graph.checkpointer
    other.model.replies = "thank you"
    await other.graph.ainvoke(Command(resume="yes"), talked.config)
    assert "berth 1: yes" in other.model.requests[-1].text
    assert faults(other.model.last) == []


async def test_an_interrupt_in_a_node_behind_the_model_leaves_the_view_as_it_was():
    memory, model = MemoryMiddleware(configured(SMALL), model=summariser()), Scripted()
    builder = StateGraph(MemoryState)
    builder.add_node("memory", memory)
    builder.add_node("model", memory.model_node(model))
    builder.add_node("approve", lambda state: {"messages": [HumanMessage(interrupt("fine?"))]})
    for edge in ((START, "memory"), ("memory", "model"), ("model", "approve"), ("approve", END)):
        builder.add_edge(*edge)
    graph = builder.compile(checkpointer=InMemorySaver())
    await graph.ainvoke({"messages": [*LONG, HumanMessage("go")]}, thread())
    view = memory.view((await graph.aget_state(thread())).values, thread())
    with pytest.raises(ThreadBusyError, match="approve"):
        await memory.compact(graph, thread())
    await graph.ainvoke(Command(resume="yes, fine"), thread())
    after = memory.view((await graph.aget_state(thread())).values, thread())
    assert after[: len(view)] == view
    assert after[-1].content == "yes, fine"


# Compacting by hand


@pytest.mark.parametrize("kind", GRAPHS)
async def test_compact_makes_a_summary_now_and_the_thread_goes_on(kind):
    talked = talk({"context_window": 100_000}, kind=kind)
    await talked.send(*LONG, "go")
    before = await talked.report()
    after = await talked.memory.compact(talked.graph, talked.config)
    assert (before.compacted, len(talked.side.requests)) == (0, 1)
    assert after.compacted > 0
    assert after.total < before.total
    assert after == await talked.report()
    assert (await talked.graph.aget_state(talked.config)).next == ()
    request = await talked.send("what next?")
    assert summaries_in(request) == 1
    assert faults(request) == []
    assert len(await talked.history()) == len(LONG) + 4


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("keep", [{"keep_messages": 8}, {"keep_turns": 4}, {"keep_recent_tokens": 2200}])
async def test_compact_keeps_what_the_configuration_keeps_and_buys_one_summary(keep, kind):
    settings = {"context_window": 60_000, **{f"compaction.{key}": value for key, value in keep.items()}}
    talked = talk(settings, kind=kind)
    await talked.send(*LONG, "go")
    await talked.memory.compact(talked.graph, talked.config)
    assert len(talked.side.requests) == 1
    assert 7 <= sum("-00" in content_text(m)[:4] for m in await talked.view()) + 2 <= 10


@pytest.mark.parametrize("kind", GRAPHS)
async def test_compacting_twice_pays_for_nothing_new(kind):
    talked = talk({"context_window": 100_000}, kind=kind)
    await talked.send(*LONG, "go")
    for _ in range(3):
        await talked.memory.compact(talked.graph, talked.config)
    view = await talked.view()
    assert len(talked.side.requests) <= 2
    assert faults(view) == []
    assert summaries_in(view) == 1


async def test_compact_tells_the_summariser_what_to_mind():
    talked = talk({"context_window": 100_000})
    await talked.send(*LONG, "go")
    await talked.memory.compact(talked.graph, talked.config, focus="the {tide} tables <b>")
    assert "the {tide} tables <b>" in talked.side.requests[-1].text


@pytest.mark.parametrize("kind", GRAPHS)
async def test_compacting_an_unknown_thread_is_an_error_and_writes_nothing(kind):
    talked = talk(SMALL, kind=kind)
    with pytest.raises(LangGraphMemoryError):
        await talked.memory.compact(talked.graph, thread("nobody"))
    assert [c async for c in talked.graph.aget_state_history(thread("nobody"))] == []


# Restart


RESUME = """
import asyncio, json, sys
from tests.support.graphs import as_bytes, agent_graph, configured, node_graph, thread
from tests.support.models import Scripted, summariser
from langgraph_memory import MemoryMiddleware

async def main(kind):
    model = Scripted()
    async with MemoryMiddleware.open(configured({"context_window": 5000}), model=summariser()) as memory:
        graph = (node_graph if kind == "node" else agent_graph)(memory, model, saver=memory.saver)
        config = thread("ünïcode/1")
        view = memory.view((await graph.aget_state(config)).values, config)
        await graph.ainvoke({"messages": [("user", "go on")]}, config)
        record = (await graph.aget_state(config)).values["memory_record"]
    print(json.dumps([as_bytes(view), as_bytes(model.last), type(record).__name__]))

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.parametrize("kind,strict", [("node", "true"), ("agent", "false")])
async def test_a_new_process_shows_the_same_bytes_and_goes_on_by_thread_id(kind, strict):
    config = thread("ünïcode/1")
    async with MemoryMiddleware.open(configured(SMALL), model=summariser()) as memory:
        graph = built(kind)(memory, Scripted(replies=looping(3)), tools=[grab(900)], saver=memory.saver)
        await graph.ainvoke({"messages": [*LONG, HumanMessage("go")]}, config)
        view = memory.view((await graph.aget_state(config)).values, config)
    assert summaries_in(view) == 1
    root = str(Path(__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": root, "LANGGRAPH_STRICT_MSGPACK": strict, "PYTHONWARNINGS": "error"}
    ran = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", RESUME, kind], env=env, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    seen, sent, record = json.loads(ran.stdout)
    assert seen == as_bytes(view)
    assert sent[: len(seen)] == seen
    assert record == "dict"
    assert "Deserializing" not in ran.stderr
    assert "Blocked" not in ran.stderr


@pytest.mark.parametrize("kind", GRAPHS)
async def test_a_file_that_is_closed_and_opened_again_gives_the_same_view(kind):
    views = []
    for _ in range(2):
        memory = MemoryMiddleware(configured(SMALL), model=summariser())
        async with AsyncSqliteSaver.from_conn_string("threads.db") as saver:
            graph = built(kind)(memory, Scripted(), saver=saver)
            if not views:
                await graph.ainvoke({"messages": [*LONG, HumanMessage("go")]}, thread())
            views.append(as_bytes(memory.view((await graph.aget_state(thread())).values, thread())))
    assert views[0] == views[1]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("kind", GRAPHS)
async def test_every_durability_mode_keeps_the_record(kind, durability, mode):
    talked = talk(SMALL, kind=kind, mode=mode, model=Scripted(replies=looping(3)), tools=[grab(600)])
    given = {"messages": [*LONG, HumanMessage("go")]}
    await run(mode, talked.graph, given, talked.config, durability=durability)
    assert summaries_in(await talked.view()) == 1
    assert (await talked.view())[:-1] == talked.model.last


# Size of the record


def test_after_four_hundred_turns_the_record_is_small_beside_its_summary_text():
    bare = Bare({"context_window": 24_000, "pruning.min_reclaim_tokens": 500}, side=numbered_summaries())
    history: list[AnyMessage] = []
    largest = 0
    for turn in range(400):
        history += [HumanMessage(f"q-{turn:04d} " + "please look " * 20, id=f"h{turn}")]
        history += rounds(2, chars=2000 if turn % 3 else 12_000, start=2 * turn)
        history += [AIMessage(f"done {turn}", id=f"d{turn}", usage_metadata=usage(9000 + turn))]
        if turn % 4 == 0 or turn > 390:
            bare.sync(history)
            summary = bare.record.get("ns", {}).get("", {}).get("summary", {})
            text = len(json.dumps(summary.get("text", ""))) + len(json.dumps(summary.get("artifacts", [])))
            largest = max(largest, len(json.dumps(bare.record)) - text)
    assert bare.named("compacted")
    assert bare.named("pruned")
    assert 0 < largest < 20_000


def usage(tokens: int) -> Any:
    return {"input_tokens": tokens, "output_tokens": 5, "total_tokens": tokens + 5}


# Streams


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("mode", MODES)
async def test_a_stream_shows_the_answer_and_the_events_and_nothing_of_the_summary(kind, mode):
    side = Streaming(replies=GOOD)
    talked = talk(SMALL, kind=kind, model=Streaming(replies="the answer is pier B"), side=side)
    modes = ["messages", "custom", "updates", "values"]
    given = {"messages": [*LONG, HumanMessage("go")]}
    if mode == "async":
        found = [part async for part in talked.graph.astream(given, talked.config, stream_mode=modes)]
    else:
        found = await asyncio.to_thread(lambda: list(talked.graph.stream(given, talked.config, stream_mode=modes)))
    tokens = [chunk for name, chunk in found if name == "messages"]
    assert "".join(str(chunk.content) for chunk, _ in tokens if chunk.type.startswith("AI")) == "the answer is pier B"
    assert side.requests
    assert "SUMMARY-TEXT" not in str(tokens)
    assert "conversation_summary" not in str(tokens)
    custom = [chunk for name, chunk in found if name == "custom"]
    compacted = [event for event in custom if event["event"] == "compacted"]
    assert len(compacted) == 1
    assert compacted[0]["before"]["total"] > compacted[0]["after"]["total"]
    assert {event["type"] for event in custom} == {"langgraph_memory"}
    assert json.loads(json.dumps(custom)) == custom
    nodes = {node for name, chunk in found if name == "updates" for node in chunk}
    assert nodes == ({"memory", "model"} if kind == "node" else {"model"})
    shown = [m for name, chunk in found if name == "values" for m in chunk.get("messages", ())]
    assert all("SUMMARY-TEXT" not in content_text(m) for m in shown)


async def test_in_a_stream_of_all_events_the_summary_call_is_marked_as_internal():
    talked = talk(SMALL, model=Streaming(replies="fine"), side=Streaming(replies=GOOD))
    given = {"messages": [*LONG, HumanMessage("go")]}
    events = [e async for e in talked.graph.astream_events(given, talked.config, version="v2")]
    inner = [
        e for e in events if "SUMMARY-TEXT" in str(e["data"].get("chunk", "")) and e["event"] == "on_chat_model_stream"
    ]
    assert inner
    assert all(e["metadata"]["lc_source"] == "summarization" and "nostream" in e["tags"] for e in inner)


# When things go wrong


async def test_cancelling_a_run_while_it_waits_for_a_summary_cancels_it_and_leaves_the_thread_usable():
    side = Hanging(replies=GOOD)
    talked = talk(SMALL, side=side)
    for _ in range(4):
        task = asyncio.create_task(talked.send(*LONG, HumanMessage("go", id="go")))
        asked = len(side.requests)
        async with asyncio.timeout(10):
            while len(side.requests) == asked:  # noqa: ASYNC110 - the model knows no events
                await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert talked.model.requests == []
    side.release.set()
    request = await talked.send(*LONG, HumanMessage("go", id="go"))
    assert "SUMMARY-TEXT" in text_of(request)
    assert faults(request) == []
    assert len(await talked.history()) == len(LONG) + 2


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", GRAPHS)
async def test_a_listener_that_raises_does_not_fail_the_run(kind, mode, caplog):
    def listener(event: Any) -> None:
        raise RuntimeError("the dashboard is down")

    memory, model = MemoryMiddleware(configured(SMALL), model=summariser(), on_event=listener), Scripted()
    with caplog.at_level(logging.ERROR):
        await run(mode, built(kind)(memory, model), {"messages": [*LONG, HumanMessage("go")]}, thread())
    assert summaries_in(model.last) == 1
    assert any("listener" in record.getMessage() for record in caplog.records)


GARBAGE: dict[str, Any] = {
    "a newer version": {"v": 2, "ns": {"": {"summary": {"text": "FORGED", "covers": "q0"}}}},
    "no version": {"ns": {"": {"summary": {"text": "FORGED"}}}},
    "a version that is no number": {"v": "x"},
    "scopes that are a list": {"v": 1, "ns": ["FORGED"]},
    "scopes that are nothing": {"v": 1, "ns": None},
    "a scope that is a text": {"v": 1, "ns": {"": "FORGED"}},
    "a summary that is a number": {"v": 1, "ns": {"": {"summary": 5}}},
    "a summary that lacks fields": {"v": 1, "ns": {"": {"summary": {"text": "FORGED"}}}},
    "a summary of wrong types": {
        "v": 1,
        "ns": {"": {"summary": {"text": "FORGED", "artifacts": 1, "count": "x", "digest": 2, "first": 3, "last": 4}}},
    },
    "trims that are a list": {"v": 1, "ns": {"": {"trims": ["q0"]}}},
    "trims of wrong types": {"v": 1, "ns": {"": {"trims": {"q0": "many"}}}},
    "an unknown decision": {"v": 1, "ns": {"": {"frobnicate": True}}},
}


@pytest.mark.parametrize("name", GARBAGE)
@pytest.mark.parametrize("kind", GRAPHS)
async def test_a_record_that_cannot_be_read_is_ignored_with_an_event_and_the_run_goes_on(kind, name):
    talked = talk(SMALL, kind=kind)
    await talked.graph.aupdate_state(talked.config, {"memory_record": GARBAGE[name]}, as_node="model")
    request = await talked.send(*LONG, "go")
    assert "FORGED" not in text_of(request)
    assert size(request) <= 4375
    assert faults(request) == []
    if name != "an unknown decision":
        assert talked.named("record_ignored")
        assert all(event.reason for event in talked.named("record_ignored"))
    assert summaries_in(await talked.view()) == 1
    seen = len(talked.named("record_ignored"))
    await talked.send("again")
    assert len(talked.named("record_ignored")) == seen


async def test_looking_at_a_record_that_cannot_be_read_shows_the_whole_history():
    memory = MemoryMiddleware(configured(SMALL))
    state = {"messages": LONG, "memory_record": GARBAGE["a newer version"]}
    assert memory.view(state) == LONG
    assert memory.report(state).compacted == 0


def test_a_record_that_names_messages_that_are_not_there_is_dropped_and_never_guessed():
    bare = Bare(SMALL)
    bare.sync(LONG)
    other = chat(3, chars=300, start=70)
    assert bare.memory.view({"messages": other, "memory_record": bare.record}) == other


@pytest.mark.parametrize("mode", MODES)
async def test_many_tool_rounds_with_everything_on_stay_valid_and_fit(mode):
    tools = [grab(9000), grab(300, name="peek")]
    replies = [
        calls("a1", "a2", text="both"),
        calls("b1", name="peek"),
        calls("c1", "c2", "c3", text="three"),
        "first done",
    ]
    model = Scripted(replies=lambda messages: replies[len(model.requests) % 4 - 1])
    talked = talk({"context_window": 8000}, mode=mode, model=model, tools=tools, system="be brief")
    for turn in range(6):
        await talked.send(f"turn {turn}")
    for request in model.requests:
        assert size(request.messages) <= 7000
        assert faults(request.messages) == []


def test_a_middleware_without_open_keeps_everything_in_the_process():
    talked = Bare(SMALL)
    talked.sync([*LONG, calls("x"), result("x", "y" * 60_000)])
    assert list(Path().iterdir()) == []
    assert talked.memory.saver is None
