"""`persistence.state: "since_summary"`: covered messages leave the live channel and nothing else."""

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from langgraph_memory import MemoryMiddleware
from langgraph_memory.threads import ThreadSaver, ThreadStore
from tests.support.graphs import GRAPHS, MODES, Talk, agent_graph, node_graph, thread
from tests.support.models import Scripted, content_text, numbered_summaries
from tests.support.validity import faults

pytestmark = pytest.mark.slow

WORDS = "word " * 60
SETTINGS = {"memory": {"context_window": 8000, "pruning": {"protect_recent": 1}}}
SAVERS = ("ours", "plain", "in memory")


def config(state: str = "since_summary") -> dict[str, Any]:
    return {**SETTINGS, "persistence": {"state": state}}


def saver_of(kind: str) -> Any:
    if kind == "in memory":
        return InMemorySaver()
    return (ThreadSaver if kind == "ours" else AsyncSqliteSaver).from_conn_string("t.db")


def talked(memory: MemoryMiddleware, kind: str, model: Any = None, events: Any = None) -> Talk:
    model = model or Scripted(replies="fine " * 60)
    tools = memory.tools if kind == "node" else []
    graph = (node_graph if kind == "node" else agent_graph)(memory, model, tools=tools, saver=memory.saver)
    return Talk(memory, graph, model, None, events if events is not None else [])


async def said(talk: Talk, turns: int) -> None:
    for number in range(turns):
        messages = await talk.send(HumanMessage(f"question {number:03d} {WORDS}", id=f"q{number:03d}"))
        assert faults(messages) == []


@pytest.mark.shows("persistence.state")
@pytest.mark.parametrize("kind", GRAPHS)
async def test_the_live_list_stays_small_and_the_thread_whole(kind):
    events: list[Any] = []
    async with ThreadSaver.from_conn_string("t.db") as saver:
        memory = MemoryMiddleware(config(), model=numbered_summaries(), saver=saver, on_event=events.append)
        talk = talked(memory, kind, events=events)
        await said(talk, 120)
        live, whole = await talk.history(), await ThreadStore(saver).messages("t-1")
        assert len(live) < 100 and len(whole) == 240
        assert [m.id for m in whole if m.type == "human"] == [f"q{n:03d}" for n in range(120)]
        assert 'messages="' in content_text((await talk.view())[0]) and not talk.named("record_ignored")
        assert len(talk.named("compacted")) >= 3


@pytest.mark.parametrize("kind", GRAPHS)
async def test_the_model_is_sent_the_same_as_with_the_whole_list(kind):
    sent = {}
    for state in ("all", "since_summary"):
        memory = MemoryMiddleware(config(state), model=numbered_summaries(), saver=InMemorySaver())
        talk = talked(memory, kind)
        await said(talk, 60)
        sent[state] = [[m.content for m in request.messages if m.type != "ai"] for request in talk.model.requests]
    assert sent["all"] == sent["since_summary"]


def asking(ref: str, pattern: str = "") -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "recall", "args": {"ref": ref, "pattern": pattern}, "id": f"c-{ref}"}])


@pytest.mark.slow
@pytest.mark.parametrize("saver", SAVERS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", GRAPHS)
async def test_what_has_left_can_be_recalled(kind, mode, saver):
    opened = saver_of(saver)
    if saver == "in memory":
        await recalled(kind, mode, opened)
        return
    async with opened as kept:
        await recalled(kind, mode, kept)


async def recalled(kind: str, mode: str, saver: Any) -> None:
    memory = MemoryMiddleware(config(), model=numbered_summaries(), saver=saver)
    await said(talked(memory, kind), 60)
    model = Scripted(replies=[asking("msg:q001"), asking("history", "question 002"), "found"])
    talk = talked(memory, kind, model)
    talk.mode = mode
    assert "q001" not in [m.id for m in await talk.history()]
    await talk.send("look it up")
    results = [m.content for m in await talk.history() if m.type == "tool"]
    assert results[0] == f"question 001 {WORDS}"
    assert "msg:q002: question 002" in results[1]


async def test_another_threads_messages_are_never_recalled():
    saver = InMemorySaver()
    memory = MemoryMiddleware(config(), model=numbered_summaries(), saver=saver)
    await said(talked(memory, "node"), 60)
    model = Scripted(replies=[asking("msg:q001"), "found"])
    talk = talked(memory, "node", model)
    talk.config = thread("t-2")
    await talk.send("look it up")
    assert "Nothing here is called" in str((await talk.history())[2].content)


async def test_going_back_goes_back_to_the_list_of_that_time():
    saver = InMemorySaver()
    memory = MemoryMiddleware(config(), model=numbered_summaries(), saver=saver)
    talk = talked(memory, "node")
    await said(talk, 60)
    early = [s async for s in talk.graph.aget_state_history(talk.config) if len(s.values["messages"]) == 20][-1]
    await talk.graph.ainvoke({"messages": [HumanMessage("another way", id="other")]}, early.config)
    assert [m.id for m in await talk.history() if m.type == "human"] == [f"q{n:03d}" for n in range(10)] + ["other"]
    assert faults(await talk.view()) == []


async def test_a_model_that_fails_leaves_the_list_as_it_was_and_is_not_charged_twice():
    side, saver = numbered_summaries(), InMemorySaver()
    settings = {**config(), "memory": {**SETTINGS["memory"], "compaction": {"prefetch_ratio": 1.0}}}
    memory = MemoryMiddleware(settings, model=side, saver=saver)
    replies = lambda _: RuntimeError("down") if side.requests else "fine " * 60  # noqa: E731
    talk = talked(memory, "agent", Scripted(replies=replies))
    with pytest.raises(RuntimeError, match="down"):
        while True:
            whole = await talk.history() if talk.model.requests else []
            await talk.send(WORDS)
    assert [m.id for m in await talk.history()][: len(whole)] == [m.id for m in whole]
    talk.model.replies = "fine"
    await talk.graph.ainvoke(None, talk.config)
    assert len(side.requests) == 1 and len(await talk.history()) < len(whole)


class Inserting(AgentMiddleware[Any, Any, Any]):
    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        extra: list[BaseMessage] = [HumanMessage("injected", id="not in the state")]
        return await handler(request.override(messages=[*extra, *request.messages]))


async def test_a_message_that_others_changed_in_the_request_stays_in_the_list():
    memory = MemoryMiddleware(config(), model=numbered_summaries(), saver=InMemorySaver())
    model = Scripted(replies="fine " * 60)
    graph = create_agent(model, [], middleware=[Inserting(), memory], checkpointer=memory.saver)
    talk = Talk(memory, graph, model, None, [])
    await said(talk, 60)
    assert len(await talk.history()) == 120
    assert "<conversation_summary" in content_text(model.last[0])


def test_a_sync_program_recalls_what_has_left(tmp_path):
    settings = {**config(), "persistence": {"state": "since_summary", "thread_db": "t.db", "workspace": "w"}}
    with MemoryMiddleware.open(settings, model=numbered_summaries()) as memory:
        talk = talked(memory, "agent")
        for number in range(60):
            said = HumanMessage(f"question {number:03d} {WORDS}", id=f"q{number:03d}")
            talk.graph.invoke({"messages": [said]}, thread())
        model = Scripted(replies=[asking("msg:q001"), "found"])
        graph = agent_graph(memory, model, saver=memory.saver)
        state = graph.invoke({"messages": [HumanMessage("look it up")]}, thread())
        assert [m.content for m in state["messages"] if m.type == "tool"] == [f"question 001 {WORDS}"]


def test_without_a_saver_of_ours_nothing_leaves():
    memory = MemoryMiddleware(config(), model=numbered_summaries())
    talk = Talk(memory, node_graph(memory, Scripted(replies="fine " * 60)), Scripted(), None, [])
    for number in range(60):
        talk.graph.invoke({"messages": [HumanMessage(f"{number} {WORDS}")]}, thread())
    assert len(talk.graph.get_state(thread()).values["messages"]) == 120
