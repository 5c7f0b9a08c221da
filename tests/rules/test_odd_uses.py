"""Uses nobody thinks of first: odd replies, odd callers, graphs that end in several nodes, models that are wrapped."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from pydantic import Field, create_model

from langgraph_memory import LangGraphMemoryError, MemoryMiddleware, MemoryState
from langgraph_memory.context.summarize import Rejected, accept, usable
from tests.support.graphs import Bare, chat, configured, grab, talk, thread
from tests.support.models import Scripted, summariser
from tests.support.validity import faults

LONG = chat(40, chars=600)


# Replies


@pytest.mark.parametrize("reply", ["[" * 3000 + " summary", '{"a":' * 3000, "[[1]," * 2000])
def test_a_reply_that_no_parser_survives_is_a_rejection_and_the_run_goes_on(reply):
    bare = Bare({"context_window": 16_000}, side=RunnableLambda(lambda _: AIMessage(reply)))
    assert faults(bare.sync([*LONG, HumanMessage("now", id="z")])) == []
    assert bare.named("compacted")


@pytest.mark.parametrize("unit", ["<a.", "<a-", "<a:", "<A1", "<a <", "a>", "</a"])
def test_markup_is_judged_in_a_time_that_grows_with_its_length(unit):
    """Quadratic work would take minutes here."""
    assert usable(unit * 200_000 + " word") in (True, False)


def test_a_reply_far_above_its_room_is_turned_away_before_it_is_read():
    verdict = accept(AIMessage("<a" * 50_000), replaces=10_000, room=500, count=len)
    assert isinstance(verdict, Rejected)
    assert "allowed are 500" in verdict.reason


# What is sent with the messages


@pytest.mark.parametrize("fields", [10, 60])
async def test_the_schema_of_a_structured_answer_is_counted(fields):
    text = "A long description of what belongs into this field of the report. " * 2
    shape: Any = {f"field_{n}": (str, Field(default="", description=text)) for n in range(fields)}
    schema = create_model("Report", **shape)
    memory = MemoryMiddleware(configured({"context_window": 60_000}))
    plain, structured = (
        Scripted(),
        Scripted(replies=[AIMessage("", tool_calls=[{"name": "Report", "args": {}, "id": "c"}])]),
    )
    sizes = []
    for model, form in ((plain, None), (structured, ToolStrategy(schema))):
        graph = create_agent(model, [], middleware=[memory], response_format=form, checkpointer=InMemorySaver())
        await graph.ainvoke({"messages": [("user", "report")]}, thread(f"t-{form is None}"))
        state = (await graph.aget_state(thread(f"t-{form is None}"))).values
        sizes.append(memory.report(state).parts["tools"])
    assert sizes[1] - sizes[0] >= fields * 20


async def test_tools_that_were_bound_to_the_model_before_are_counted():
    memory = MemoryMiddleware(configured({"context_window": 60_000}))
    sizes = []
    for name, model in (("without", Scripted()), ("with", Scripted().bind_tools([grab(10)]))):
        builder = StateGraph(MemoryState)
        builder.add_node("model", memory.model_node(model))
        memory.attach(builder)
        graph = builder.compile(checkpointer=InMemorySaver())
        await graph.ainvoke({"messages": [("user", "hi")]}, thread(name))
        sizes.append(memory.report((await graph.aget_state(thread(name))).values).parts["tools"])
    assert sizes[0] == 0
    assert sizes[1] > 20


def test_a_wrapped_model_that_cannot_bind_tools_says_what_to_do():
    with pytest.raises(LangGraphMemoryError, match="bind the tools before wrapping"):
        MemoryMiddleware().model_node(Scripted().with_retry(), tools=[grab(10)])


# Side calls


def test_a_side_model_keeps_its_callbacks_and_retries_but_not_its_tools():
    seen: list[list[str]] = []

    class Billing(BaseCallbackHandler):
        def on_chat_model_start(self, *_: Any, tags: list[str] | None = None, **__: Any) -> None:
            seen.append(tags or [])

    side = summariser()
    bound = side.bind_tools([grab(10)]).with_config(callbacks=[Billing()], tags=["billing"])
    Bare({"context_window": 8000}, side=bound).sync(LONG)
    assert seen and all("billing" in tags for tags in seen)
    assert all(request.tools == [] for request in side.requests)


def test_failures_of_runs_without_a_thread_do_not_add_up():
    side = Scripted(replies=[RuntimeError("down")])
    memory = MemoryMiddleware(configured({"context_window": 8000}), model=side)
    for number in range(4):
        memory.invoke({"messages": [HumanMessage(f"start {number}", id="s"), *LONG], "memory_record": {}})
    side.replies, asked = summariser().replies, len(side.requests)
    memory.invoke({"messages": [HumanMessage("another", id="s"), *LONG], "memory_record": {}})
    assert len(side.requests) > asked


# Usage


def test_usage_of_a_reply_that_ran_server_tools_is_not_taken_for_one_request():
    bare = Bare({"context_window": 128_000})
    history: list[BaseMessage] = []
    for number in range(30):
        history.append(HumanMessage("question " * 500, id=f"h{number}"))
        bare.sync(history)
        searched = number == 25
        block = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
        content: Any = [block, {"type": "text", "text": "found"}] if searched else "answer " * 500
        used = 90_000 if searched else 600 * number + 600
        usage: Any = {"input_tokens": used, "output_tokens": 1, "total_tokens": used + 1}
        history.append(AIMessage(content, id=f"a{number}", usage_metadata=usage))
    assert bare.named("compacted") == []


# Callers


async def test_a_node_may_decide_in_a_thread_without_the_context_of_the_run():
    memory = MemoryMiddleware(configured({"context_window": 8000}), model=summariser())

    async def decide(state: Any, config: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(None, memory.invoke, state, config)

    # The annotations of a nested function are strings here, and LangGraph reads them.
    decide.__annotations__ = {}
    builder = StateGraph(MemoryState)
    builder.add_node("memory", RunnableLambda(lambda state, config: {}, afunc=decide))
    builder.add_edge(START, "memory")
    graph = builder.compile(checkpointer=InMemorySaver())
    await graph.ainvoke({"messages": LONG}, thread())
    assert memory.report((await graph.aget_state(thread())).values).compacted > 0


async def test_compacting_a_graph_that_ends_in_several_nodes_says_how_and_pays_once():
    side = summariser()
    memory = MemoryMiddleware(configured({"context_window": 100_000}), model=side)
    builder = StateGraph(MemoryState)
    builder.add_node("model", memory.model_node(Scripted()))
    for name in ("log", "audit"):
        builder.add_node(name, lambda state: {})
        builder.add_edge("model", name)
    builder.add_node("memory", memory)
    builder.add_edge(START, "memory")
    builder.add_edge("memory", "model")
    graph = builder.compile(checkpointer=InMemorySaver())
    await graph.ainvoke({"messages": [*LONG, HumanMessage("z")]}, thread())
    with pytest.raises(LangGraphMemoryError, match="as_node"):
        await memory.compact(graph, thread())
    report = await memory.compact(graph, thread(), as_node="log")
    assert report.compacted > 0
    assert len(side.requests) == 1


@pytest.mark.parametrize("messages", ["hi", 5, {"role": "user", "content": "hi"}])
def test_messages_that_are_no_list_are_an_error_that_says_so(messages):
    with pytest.raises(LangGraphMemoryError, match="not a list of messages"):
        MemoryMiddleware().invoke({"messages": messages, "memory_record": {}})


@pytest.mark.parametrize("message", [("user", "hi"), {"role": "user", "content": "hi"}])
def test_messages_as_pairs_or_dicts_are_taken(message):
    memory = MemoryMiddleware()
    state = {"messages": [message], "memory_record": {}}
    assert [m.content for m in memory.view({**state, **memory.invoke(state)})] == ["hi"]


@pytest.mark.parametrize("depth", [200, 900])
@pytest.mark.parametrize("keys", [{1: "a", "b": 2}, {None: 1, "b": 2}, {(1, 2): 3}])
def test_arguments_of_any_depth_and_with_any_keys_never_stop_a_call(depth, keys):
    nested: Any = keys
    for _ in range(depth):
        nested = {"a": nested}
    call = {"name": "f", "args": {"d": nested, "n": 10**5000}, "id": "c"}
    memory = MemoryMiddleware(configured({"context_window": 16_000}))
    state = {"messages": [HumanMessage("x", id="1"), AIMessage("", id="2", tool_calls=[call])], "memory_record": {}}
    assert len(memory.view({**state, **memory.invoke(state)})) == 3


def test_an_invalid_call_without_a_name_leaves_with_its_message():
    """Some clients drop such a call from the request, and a result without its call is refused."""
    broken = AIMessage("hm", id="a", invalid_tool_calls=[{"name": None, "args": "{", "id": "c", "error": None}])
    view = Bare({}).sync([HumanMessage("x", id="h"), broken, HumanMessage("y", id="i")])
    assert [message.id for message in view] == ["h", "i"]


async def test_an_empty_system_prompt_is_none():
    talked = talk({}, system="")
    assert [message.type for message in await talked.send("hi")] == ["human"]
