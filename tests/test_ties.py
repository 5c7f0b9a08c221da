"""What the middleware does with a saver of threads: the queue is taken in, and runs that meet are told of."""

import asyncio
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_memory import MemoryMiddleware
from langgraph_memory.threads import ThreadSaver
from langgraph_memory.threads.queue import ThreadQueue
from tests.support.graphs import MODES, Talk, agent_graph, calls, configured, grab, node_graph, thread
from tests.support.models import Scripted, Slow
from tests.support.validity import faults


def memory_on(saver: Any, events: list[Any] | None = None) -> MemoryMiddleware:
    return MemoryMiddleware(configured(), saver=saver, on_event=events.append if events is not None else None)


@pytest.mark.parametrize("mode", MODES)
async def test_the_memory_node_takes_in_what_waits_for_the_thread(mode):
    async with ThreadSaver.from_conn_string("t.db") as saver:
        memory, queue = memory_on(saver), ThreadQueue(saver)
        model = Scripted(replies="fine")
        talk = Talk(memory, node_graph(memory, model, saver=saver), model, None, [], mode=mode)
        await queue.put("t-1", "and look at the harbour")
        await queue.put("t-2", "not for this one")
        sent = await talk.send("go")
        assert [m.content for m in sent] == ["go", "and look at the harbour"]
        assert [m.content for m in await talk.history()] == ["go", "and look at the harbour", "fine"]
        assert await queue.waiting("t-1") == [] and len(await queue.waiting("t-2")) == 1
        assert [m.content for m in await talk.send("again")][-1] == "again"


async def test_what_is_queued_between_two_tool_calls_is_seen_by_the_next_model_call():
    async with ThreadSaver.from_conn_string("t.db") as saver:
        memory, queue = memory_on(saver), ThreadQueue(saver)
        model = Scripted(replies=[calls("c1"), calls("c2"), "done"])
        graph = node_graph(memory, model, tools=[grab(40)], saver=saver)
        async for _ in graph.astream({"messages": [HumanMessage("go")]}, thread(), stream_mode="updates"):
            if len(model.requests) == 1:
                await queue.put("t-1", HumanMessage("hurry", id="h"))
        assert any(m.id == "h" for m in model.requests[-1].messages)
        assert all(faults(request.messages) == [] for request in model.requests)
        stored = (await graph.aget_state(thread())).values["messages"]
        assert [m.id for m in stored].count("h") == 1
        assert isinstance(stored[2], ToolMessage)


async def test_other_savers_have_no_queue():
    memory = memory_on(InMemorySaver())
    model = Scripted(replies="fine")
    talk = Talk(memory, node_graph(memory, model, saver=memory.saver), model, None, [])
    assert [m.content for m in await talk.send("go")] == ["go"]


@pytest.mark.parametrize("kind", ["node", "agent"])
async def test_two_runs_at_once_on_a_thread_are_announced(kind):
    events: list[Any] = []
    async with ThreadSaver.from_conn_string("t.db") as saver:
        memory = memory_on(saver, events)
        model = Slow(replies="fine", seconds=0.3)
        graph = (node_graph if kind == "node" else agent_graph)(memory, model, saver=saver)
        given = {"messages": [HumanMessage("go")]}
        await graph.ainvoke(given, thread())
        assert [event for event in events if event.name == "branched"] == []
        await asyncio.gather(graph.ainvoke(given, thread()), graph.ainvoke(given, thread()))
    found = [event for event in events if event.name == "branched"]
    assert found and {event.thread_id for event in found} == {"t-1"}
    assert {"parent_id", "checkpoint_id", "other_id"} <= set(found[0].data)
