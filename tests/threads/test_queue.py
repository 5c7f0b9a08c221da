"""The queue of a thread, and taking it in before the model is called, in graphs and agents, sync and async."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import END, START, MessagesState, StateGraph

from langgraph_memory.errors import LangGraphMemoryError, ThreadIdError, UnstorableError
from langgraph_memory.threads.followups import FollowUps
from langgraph_memory.threads.queue import KIND, ThreadQueue
from langgraph_memory.threads.saver import ThreadSaver
from langgraph_memory.threads.store import ThreadStore
from tests.support.models import Scripted
from tests.support.savers import Swap, checkpoint, config
from tests.support.stores import STATES

CALL = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "c-1"}])
HELLO: Any = {"messages": [("human", "hello")]}
ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "threads.db"


@pytest.fixture
async def saver(path: Path) -> AsyncIterator[ThreadSaver]:
    async with ThreadSaver.from_conn_string(path) as made:
        yield made


@pytest.fixture
def queue(saver: ThreadSaver) -> ThreadQueue:
    return ThreadQueue(saver)


def texts(messages: Any) -> list[str]:
    return [message.text for message in messages]


async def said(graph: Any, thread_id: str = "t-1") -> list[str]:
    return texts((await graph.aget_state(config(thread_id))).values["messages"])


# Alone


async def test_messages_wait_in_the_order_they_were_put(queue: ThreadQueue) -> None:
    ids = await queue.put("t-1", "one")
    ids += await queue.put("t-1", ("system", "two"))
    ids += await queue.put("t-1", {"role": "user", "content": "three"})
    ids += await queue.put("t-1", AIMessage("four", id="m-4"))
    ids += await queue.put("t-1", ["five", ("human", "six")])
    waiting = await queue.waiting("t-1")
    assert texts(waiting) == ["one", "two", "three", "four", "five", "six"]
    assert [message.id for message in waiting] == ids and len(set(ids)) == 6 and ids[3] == "m-4"
    assert list(map(type, waiting[:4])) == [HumanMessage, SystemMessage, HumanMessage, AIMessage]
    assert await queue.waiting("t-2") == []


async def test_a_message_that_is_put_again_keeps_its_place(queue: ThreadQueue) -> None:
    given = HumanMessage("first", id="m-1")
    await queue.put("t-1", [given, "second"])
    await queue.put("t-1", given.model_copy(update={"content": "changed"}))
    await queue.put("t-2", given)
    assert texts(await queue.waiting("t-1")) == ["changed", "second"]
    assert texts(await queue.waiting("t-2")) == ["first"]


async def test_a_message_that_is_put_is_not_changed(queue: ThreadQueue) -> None:
    given = HumanMessage("x")
    await queue.put("t-1", given, kind="notification")
    assert given == HumanMessage("x")


async def test_a_notification_says_that_it_is_one(queue: ThreadQueue) -> None:
    await queue.put("t-1", HumanMessage("built", additional_kwargs={"by": "ci"}), kind="notification")
    await queue.put("t-1", "and now?")
    built, asked = await queue.waiting("t-1")
    assert (built.additional_kwargs, asked.additional_kwargs) == ({"by": "ci", KIND: "notification"}, {})
    with pytest.raises(ValueError, match="'alarm'"):
        await queue.put("t-1", "x", kind="alarm")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong", [ToolMessage("x", tool_call_id="c-1"), RemoveMessage(id="x"), CALL, 7, object(), None]
)
async def test_what_can_follow_no_message_is_refused(queue: ThreadQueue, wrong: Any) -> None:
    with pytest.raises(UnstorableError):
        await queue.put("t-1", ["fine", wrong])
    assert await queue.waiting("t-1") == []


async def test_a_thread_needs_a_name(queue: ThreadQueue) -> None:
    with pytest.raises(ThreadIdError):
        await queue.put(None, "x")
    await queue.put(7, "x")
    assert texts(await queue.waiting("7")) == ["x"]


async def test_what_is_taken_waits_until_it_is_stored(queue: ThreadQueue) -> None:
    ids = await queue.put("t-1", ["one", "two"])
    assert texts(await queue.take("t-1", [])) == ["one", "two"]
    assert texts(await queue.take("t-1", {ids[0], None})) == ["two"]
    assert texts(await queue.waiting("t-1")) == ["one", "two"]
    await queue.clear("t-1")
    assert await queue.waiting("t-1") == []


async def test_a_stored_checkpoint_acknowledges_and_a_failed_one_does_not(
    saver: ThreadSaver, queue: ThreadQueue
) -> None:
    await queue.put("t-1", ["one", "two"])
    held = await queue.take("t-1", [])
    metadata: Any = {"source": "loop", "step": 1, "parents": {}}
    with pytest.raises(UnstorableError):
        await saver.aput(config("t-1"), checkpoint(1, messages=held, odd=object()), metadata, {})
    assert len(await queue.waiting("t-1")) == 2
    await saver.aput(config("t-1"), checkpoint(1, messages=held[:1]), metadata, {})
    assert texts(await queue.waiting("t-1")) == ["two"]
    await saver.aput(config("t-2"), checkpoint(2, messages=held), metadata, {})
    assert texts(await queue.waiting("t-1")) == ["two"]


async def test_what_the_thread_has_already_does_not_wait(saver: ThreadSaver, queue: ThreadQueue) -> None:
    metadata: Any = {"source": "loop", "step": 1, "parents": {}}
    await saver.aput(config("t-1"), checkpoint(1, messages=[HumanMessage("said", id="m-1")]), metadata, {})
    await queue.put("t-1", [HumanMessage("said", id="m-1"), "new"])
    assert texts(await queue.waiting("t-1")) == ["new"]


async def test_a_queue_goes_with_its_thread_and_is_not_copied(saver: ThreadSaver, queue: ThreadQueue) -> None:
    metadata: Any = {"source": "loop", "step": 1, "parents": {}}
    for name in ("t-1", "t-2", "new"):
        await queue.put(name, "x")
    for name in ("t-1", "t-2"):
        await saver.aput(config(name), checkpoint(1, messages=[HumanMessage("said")]), metadata, {})
    await saver.acopy_thread("t-1", "t-3")
    await ThreadStore(saver).fork("t-1", "t-4")
    assert [await queue.waiting(name) for name in ("t-3", "t-4")] == [[], []]
    await saver.adelete_thread("t-1")
    await saver.aprune(["t-2"], strategy="delete")
    await saver.adelete_thread("new")
    assert [await queue.waiting(name) for name in ("t-1", "t-2", "new")] == [[], [], []]


async def test_an_encrypted_file_shows_nothing_that_waits(path: Path) -> None:
    async with ThreadSaver.from_conn_string(path, serde=EncryptedSerializer(Swap())) as saver:
        queue = ThreadQueue(saver)
        graph = chat(saver, Scripted())
        await queue.put("t-1", "a secret of mine")
        assert texts(await queue.waiting("t-1")) == ["a secret of mine"]
        assert all(b"a secret of mine" not in file.read_bytes() for file in path.parent.iterdir())
        await graph.ainvoke(HELLO, config())
        assert await said(graph) == ["hello", "a secret of mine", "ok"]
        assert await queue.waiting("t-1") == []


# In a graph


def chat(saver: Any, model: Any, state: Any = MessagesState) -> Any:
    """START → follow_ups → model → END; both nodes work sync and async."""
    builder = StateGraph(state)
    builder.add_node("follow_ups", FollowUps(saver))
    builder.add_node("model", (lambda messages: messages["messages"]) | model | (lambda reply: {"messages": [reply]}))
    builder.add_edge(START, "follow_ups")
    builder.add_edge("follow_ups", "model")
    builder.add_edge("model", END)
    return builder.compile(checkpointer=saver)


def agent(saver: Any, replies: list[Any], tools: list[Any]) -> tuple[Any, Scripted]:
    model = Scripted(replies=replies)
    return create_agent(model, tools, middleware=[FollowUps(saver)], checkpointer=saver), model


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("channel", ["add", "delta"])
async def test_what_waits_is_said_once(saver: ThreadSaver, queue: ThreadQueue, channel: str, durability: Any) -> None:
    graph = chat(saver, Scripted(), STATES[channel])
    await queue.put("t-1", "before the run")
    for turn in range(3):
        await graph.ainvoke(HELLO, config(), durability=durability)
        assert await queue.waiting("t-1") == []
        await queue.put("t-1", f"after turn {turn}")
    assert await said(graph) == [
        *("hello", "before the run", "ok"),
        *("hello", "after turn 0", "ok"),
        *("hello", "after turn 1", "ok"),
    ]
    assert (await saver.verify()).problems == []


async def test_a_turn_can_begin_with_what_waits(saver: ThreadSaver, queue: ThreadQueue) -> None:
    graph = chat(saver, model := Scripted())
    await queue.put("t-1", "only this")
    await graph.ainvoke({"messages": []}, config())
    assert texts(model.last) == ["only this"] and await said(graph) == ["only this", "ok"]


async def test_a_rewind_brings_nothing_back_into_the_queue(saver: ThreadSaver, queue: ThreadQueue) -> None:
    graph = chat(saver, Scripted())
    await graph.ainvoke(HELLO, config())
    before = (await graph.aget_state(config())).config["configurable"]["checkpoint_id"]
    await queue.put("t-1", "taken in once")
    await graph.ainvoke(HELLO, config())
    await ThreadStore(saver).rewind("t-1", before)
    await graph.ainvoke(HELLO, config())
    assert await said(graph) == ["hello", "ok", "hello", "ok"]


async def test_a_graph_inside_acknowledges_when_the_thread_has_the_message(
    saver: ThreadSaver, queue: ThreadQueue
) -> None:
    seen: list[list[str]] = []

    async def look(state: MessagesState) -> None:
        seen.append(texts(await queue.waiting("t-1")))

    inner = StateGraph(MessagesState)
    inner.add_node("follow_ups", FollowUps(queue))
    inner.add_node("look", look)
    inner.add_edge(START, "follow_ups")
    inner.add_edge("follow_ups", "look")
    outer = StateGraph(MessagesState)
    outer.add_node("inner", inner.compile())
    outer.add_edge(START, "inner")
    graph = outer.compile(checkpointer=saver)
    await queue.put("t-1", "for the graph inside")
    await graph.ainvoke(HELLO, config(), durability="sync")
    assert seen == [["for the graph inside"]] and await queue.waiting("t-1") == []
    assert await said(graph) == ["hello", "for the graph inside"]


async def test_two_runs_at_once_take_in_the_same_messages(saver: ThreadSaver, queue: ThreadQueue) -> None:
    graph = chat(saver, Scripted())
    await queue.put("t-1", "for whoever wins")
    await asyncio.gather(*(graph.ainvoke(HELLO, config()) for _ in range(2)))
    await graph.ainvoke(HELLO, config())
    assert (await said(graph)).count("for whoever wins") == 1
    assert await queue.waiting("t-1") == []


async def test_a_run_without_a_thread_has_no_queue(saver: ThreadSaver) -> None:
    follow_ups = FollowUps(ThreadQueue(saver))
    assert await follow_ups.ainvoke(HELLO) == {}
    assert await asyncio.to_thread(follow_ups.invoke, HELLO, {"configurable": {}}) == {}


def test_follow_ups_need_a_saver_that_keeps_them() -> None:
    with pytest.raises(LangGraphMemoryError, match="InMemorySaver"):
        FollowUps(InMemorySaver())


# In an agent


async def test_an_agent_hears_what_came_while_its_tool_ran(saver: ThreadSaver, queue: ThreadQueue) -> None:
    @tool
    async def look() -> str:
        """Look."""
        await queue.put("t-1", ["stop", ("human", "do that instead")])
        return "seen"

    graph, model = agent(saver, [CALL, "done"], [look])
    await graph.ainvoke(HELLO, config())
    assert texts(model.last) == ["hello", "", "seen", "stop", "do that instead"]
    assert await said(graph) == ["hello", "", "seen", "stop", "do that instead", "done"]
    assert await queue.waiting("t-1") == []


@pytest.fixture
def away(path: Path) -> Iterator[Any]:
    """A saver whose event loop is in another thread, and how to await something there."""
    with contextlib.ExitStack() as stack:
        portal = stack.enter_context(start_blocking_portal())
        opening = ThreadSaver.from_conn_string(path)
        saver = stack.enter_context(portal.wrap_async_context_manager(opening))
        yield saver, lambda work, *args: portal.call(work, *args)


def test_a_sync_agent_hears_it_too(away: Any) -> None:
    saver, wait = away
    queue = ThreadQueue(saver)

    @tool
    def look() -> str:
        """Look."""
        wait(queue.put, "t-1", "stop")
        return "seen"

    graph, model = agent(saver, [CALL, "done"], [look])
    graph.invoke(HELLO, config())
    assert texts(model.last) == ["hello", "", "seen", "stop"]
    assert wait(queue.waiting, "t-1") == []


def test_a_sync_graph_takes_in_what_waits(away: Any) -> None:
    saver, wait = away
    queue = ThreadQueue(saver)
    graph = chat(saver, Scripted())
    wait(queue.put, "t-1", "follow-up")
    graph.invoke(HELLO, config())
    assert texts(graph.get_state(config()).values["messages"]) == ["hello", "follow-up", "ok"]
    assert wait(queue.waiting, "t-1") == []


async def test_a_graph_on_another_loop_takes_in_what_waits(away: Any) -> None:
    saver, _ = away
    queue = ThreadQueue(saver)
    await queue.put("t-1", "follow-up")
    graph, model = agent(saver, ["done"], [])
    await graph.ainvoke(HELLO, config())
    assert texts(model.last) == ["hello", "follow-up"]


# Several processes


PROGRAM = """
import asyncio, os, signal, sys
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph_memory.threads.queue import ThreadQueue
from langgraph_memory.threads.saver import ThreadSaver
from tests.support.savers import config

path, work, durability = sys.argv[1:]

def die():
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with ThreadSaver.from_conn_string(path) as saver:
        queue = ThreadQueue(saver)
        if work == "put":
            await queue.put("t-1", ["one", "two"])
            return

        async def follow_ups(state, config):
            found = await queue.follow_ups(state, config)
            if work == "die taking":
                die()
            return found

        async def model(state):
            if work == "die answering":
                die()
            return {"messages": [AIMessage("ok")]}

        async def after(state):
            if work == "die after":
                die()

        builder = StateGraph(MessagesState)
        for node in (follow_ups, model, after):
            builder.add_node(node)
        builder.add_edge(START, "follow_ups")
        builder.add_edge("follow_ups", "model")
        builder.add_edge("model", "after")
        graph = builder.compile(checkpointer=saver)
        await graph.ainvoke({"messages": [("human", "hello")]}, config(), durability=durability)

asyncio.run(main())
"""


def program(path: Path, work: str, durability: str = "sync") -> int:
    command = [sys.executable, "-c", PROGRAM, str(path), work, durability]
    return subprocess.run(command, cwd=ROOT, check=False, timeout=60).returncode


async def test_another_process_may_put_at_any_time(saver: ThreadSaver, queue: ThreadQueue, path: Path) -> None:
    await queue.put("t-1", "ours")
    assert await asyncio.to_thread(program, path, "put") == 0
    assert texts(await queue.waiting("t-1")) == ["ours", "one", "two"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "durability"),
    [("die taking", "async"), *(("die answering", each) for each in ("sync", "async", "exit")), ("die after", "exit")],
)
async def test_a_killed_run_loses_and_doubles_nothing(
    saver: ThreadSaver, queue: ThreadQueue, path: Path, work: str, durability: str
) -> None:
    ids = await queue.put("t-1", ["one", "two"])
    assert await asyncio.to_thread(program, path, work, durability) == -signal.SIGKILL
    waiting = [message.id for message in await queue.waiting("t-1")]
    found = await saver.aget_tuple(config())
    stored = [] if found is None else [message.id for message in found.checkpoint["channel_values"].get("messages", [])]
    assert [id for id in ids if id in stored] + waiting == ids
    graph = chat(saver, Scripted())
    await graph.ainvoke(HELLO, config(), durability=durability)
    messages = (await graph.aget_state(config())).values["messages"]
    assert [message.id for message in messages if message.id in ids] == ids
    assert texts(messages)[-1] == "ok" and await queue.waiting("t-1") == []
