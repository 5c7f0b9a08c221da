"""Rewind, resume, fork and interrupts through graphs with memory: a branch knows its own past and nothing else's."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.types import Command, Send, interrupt
from typing_extensions import TypedDict

from langgraph_memory import MemoryMiddleware, RuntimeConfig
from langgraph_memory.errors import LangGraphMemoryError, ThreadBusyError
from langgraph_memory.threads import ThreadSaver, ThreadStore
from langgraph_memory.threads.queue import ThreadQueue
from tests.support.graphs import (
    GRAPHS,
    agent_graph,
    as_bytes,
    chat,
    configured,
    grab,
    looping,
    node_graph,
    summaries_in,
    text_of,
    thread,
)
from tests.support.models import Scripted, summariser
from tests.support.stores import CHANNELS, tell, texts
from tests.support.stores import chat as plain_chat
from tests.support.validity import faults

pytestmark = pytest.mark.slow

SMALL = {"context_window": 4000, "compaction.min_messages": 4}
DURABILITIES = ("sync", "async", "exit")


@pytest.fixture
async def saver(tmp_path: Path) -> AsyncIterator[ThreadSaver]:
    async with ThreadSaver.from_conn_string(tmp_path / "threads.db") as made:
        yield made


def settings(state: str = "all") -> RuntimeConfig:
    memory = configured(SMALL).model_dump(exclude_unset=True)
    return RuntimeConfig.model_validate({**memory, "persistence": {"state": state}})


def built(kind: str) -> Any:
    return node_graph if kind == "node" else agent_graph


async def turn(graph: Any, word: str, config: Any = None, chars: int = 2000) -> None:
    text = (word + " " + "word " * (chars // 5))[:chars]
    await graph.ainvoke({"messages": [HumanMessage(text)]}, config or thread())


async def place(graph: Any, config: Any = None) -> str:
    found: str = (await graph.aget_state(config or thread())).config["configurable"]["checkpoint_id"]
    return found


def words(messages: Any) -> list[str]:
    return [message.text.split()[0] for message in messages if isinstance(message, HumanMessage)]


# Memory


@pytest.mark.parametrize("state", ["all", "since_summary"])
@pytest.mark.parametrize("kind", GRAPHS)
async def test_rewinding_behind_a_compaction_and_undoing_it_show_the_bytes_of_that_time(kind: str, state: str) -> None:
    model = Scripted()
    async with MemoryMiddleware.open(settings(state), model=summariser()) as memory:
        graph, store = built(kind)(memory, model, saver=memory.saver), ThreadStore(memory.saver)

        async def seen() -> list[str]:
            return as_bytes(memory.view((await graph.aget_state(thread())).values, thread()))

        views, places = [], []
        for number in range(14):
            await turn(graph, f"old-{number}")
            views.append(await seen())
            places.append(await place(graph))
        assert summaries_in(model.last) == 1
        whole = [m.text for m in await store.messages("t-1")]
        for back in (11, 0, 6, 13):
            await store.rewind("t-1", places[back])
            assert await seen() == views[back]
            assert words(await store.messages("t-1")) == [f"old-{n}" for n in range(back + 1)]
            await turn(graph, "else")
            assert not any(f"old-{n} " in text_of(model.last) for n in range(back + 1, 14))
            assert faults(model.last) == []
            await store.undo("t-1")
            assert await seen() == views[13]
            assert [m.text for m in await store.messages("t-1")] == whole
        assert (await memory.saver.verify()).problems == []


@pytest.mark.parametrize("state", ["all", "since_summary"])
@pytest.mark.parametrize("kind", GRAPHS)
async def test_compacting_after_going_back_covers_what_is_there_and_nothing_that_was_left(
    kind: str, state: str
) -> None:
    model, side = Scripted(), summariser()
    async with MemoryMiddleware.open(settings(state), model=side) as memory:
        graph, store = built(kind)(memory, model, saver=memory.saver), ThreadStore(memory.saver)
        for number in range(4):
            await turn(graph, f"old-{number}", chars=700)
        back = await place(graph)
        for number in range(4, 8):
            await turn(graph, f"old-{number}", chars=700)
        await store.rewind("t-1", back)
        await memory.compact(graph, thread())
        assert "old-5" not in text_of(side.last)
        await turn(graph, "on", chars=100)
        assert summaries_in(model.last) == 1 and "old-5" not in text_of(model.last)
        assert words(await store.messages("t-1")) == [*(f"old-{n}" for n in range(4)), "on"]
        await store.undo("t-1")
        assert words(await store.messages("t-1")) == [f"old-{n}" for n in range(8)]


@pytest.mark.parametrize("kind", GRAPHS)
async def test_a_fork_goes_on_with_the_summary_of_its_past_and_the_threads_stay_apart(kind: str) -> None:
    model = Scripted()
    async with MemoryMiddleware.open(settings("since_summary"), model=summariser()) as memory:
        graph, store = built(kind)(memory, model, saver=memory.saver), ThreadStore(memory.saver)
        for number in range(12):
            await turn(graph, f"old-{number}")
        await store.fork("t-1", "fork")
        await turn(graph, "left")
        await turn(graph, "right", thread("fork"))
        assert summaries_in(model.last) == 1 and "left" not in text_of(model.last)
        old = [f"old-{n}" for n in range(12)]
        assert words(await store.messages("t-1")) == [*old, "left"]
        await store.delete("t-1")
        assert words(await store.messages("fork")) == [*old, "right"]
        await turn(graph, "on", thread("fork"))
        assert (await memory.saver.verify()).problems == []


@pytest.mark.parametrize("change", ["all", "all but the last turn", "one"])
async def test_removing_messages_after_a_compaction_can_be_undone_by_going_back(change: str) -> None:
    model = Scripted()
    async with MemoryMiddleware.open(settings("since_summary"), model=summariser()) as memory:
        graph, store = node_graph(memory, model, saver=memory.saver), ThreadStore(memory.saver)
        for number in range(12):
            await turn(graph, f"old-{number}")
        before, back = await store.messages("t-1"), await place(graph)
        held = (await graph.aget_state(thread())).values["messages"]
        removals = {
            "all": [RemoveMessage(id=REMOVE_ALL_MESSAGES)],
            "all but the last turn": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *held[-2:]],
            "one": [RemoveMessage(id=held[-1].id)],
        }
        await graph.aupdate_state(thread(), {"messages": removals[change]}, as_node="model")
        await turn(graph, "on")
        assert faults(model.last) == [] and words(model.last)[-1] == "on"
        await store.rewind("t-1", back)
        assert await store.messages("t-1") == before
        await turn(graph, "again")
        assert words(await store.messages("t-1"))[-2:] == ["old-11", "again"]


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("kind", GRAPHS)
async def test_in_every_durability_mode_the_thread_can_go_back(kind: str, durability: Any) -> None:
    model = Scripted(replies=looping(2))
    async with MemoryMiddleware.open(settings(), model=summariser()) as memory:
        graph = built(kind)(memory, model, tools=[grab(400)], saver=memory.saver)
        store, places = ThreadStore(memory.saver), []
        for number in range(6):
            given = {"messages": [HumanMessage(f"old-{number} " + "word " * 60)]}
            await graph.ainvoke(given, thread(), durability=durability)
            places.append(await place(graph))
        await store.rewind("t-1", places[2])
        await graph.ainvoke({"messages": [HumanMessage("else")]}, thread(), durability=durability)
        assert words(await store.messages("t-1")) == ["old-0", "old-1", "old-2", "else"]
        assert faults(model.last) == []
        assert (await memory.saver.verify()).problems == []


def test_a_sync_program_goes_back_too() -> None:
    model = Scripted()
    with MemoryMiddleware.open(settings(), model=summariser()) as memory:
        graph = node_graph(memory, model, saver=memory.saver)
        places = []
        for number in range(8):
            graph.invoke({"messages": [HumanMessage(f"old-{number} " + "word " * 500)]}, thread())
            places.append(graph.get_state(thread()).config)
        assert summaries_in(model.last) == 1
        graph.invoke({"messages": [HumanMessage("else")]}, places[1])
        assert words(graph.get_state(thread()).values["messages"]) == ["old-0", "old-1", "else"]
        moved = graph.update_state(places[4], {"messages": [HumanMessage("put")]}, as_node="__start__")
        graph.invoke(None, moved)
        assert words(graph.get_state(thread()).values["messages"]) == [*(f"old-{n}" for n in range(5)), "put"]
        assert len(list(graph.get_state_history(thread(), limit=3))) == 3


# Questions


@tool
def approve(n: int) -> str:
    """Ask a person."""
    return f"person said {interrupt({'n': n})}"


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("kind", GRAPHS)
async def test_going_back_behind_an_answer_asks_again_and_takes_the_new_one(kind: str, durability: Any) -> None:
    model = Scripted(replies=looping(1, name="approve"))
    async with MemoryMiddleware.open(settings(), model=summariser()) as memory:
        graph = built(kind)(memory, model, tools=[approve], saver=memory.saver)
        store = ThreadStore(memory.saver)
        asked = await graph.ainvoke({"messages": [*chat(6, chars=700), HumanMessage("go")]}, thread())
        assert "__interrupt__" in asked
        with pytest.raises(ThreadBusyError):
            await store.append("t-1", {"messages": [HumanMessage("not now")]})
        waits = await place(graph)
        await graph.ainvoke(Command(resume="yes"), thread(), durability=durability)
        for answer in ("no", "perhaps"):
            await store.rewind("t-1", waits)
            again = await graph.ainvoke(None, thread(), durability=durability)
            assert "__interrupt__" in again
            await graph.ainvoke(Command(resume=answer), thread(), durability=durability)
            state = (await graph.aget_state(thread())).values["messages"]
            assert [m.text for m in state if m.type == "tool"] == [f"person said {answer}"]
        assert faults(model.last) == []


class Fan(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    answers: Annotated[list[str], operator.add]
    runs: Annotated[list[str], operator.add]


def fan(saver: Any) -> Any:
    """Sends three questions at once; each asks a person."""

    async def ask(given: Any) -> Any:
        return {"answers": [f"{given['n']}:{interrupt(given['n'])}"]}

    builder = StateGraph(Fan)
    builder.add_node("begin", lambda state: {"runs": ["begin"]})
    builder.add_node("ask", ask)
    builder.add_node("end", lambda state: {"messages": [AIMessage(" ".join(sorted(state["answers"])))]})
    builder.add_edge(START, "begin")
    builder.add_conditional_edges("begin", lambda state: [Send("ask", {"n": n}) for n in range(3)], ["ask"])
    builder.add_edge("ask", "end")
    builder.add_edge("end", END)
    return builder.compile(checkpointer=saver)


async def answered(graph: Any, word: str, config: Any = None) -> list[str]:
    state = await graph.aget_state(config or thread())
    resume = {one.id: f"{word}{one.value}" for one in state.interrupts}
    done = await graph.ainvoke(Command(resume=resume), config or thread())
    found: list[str] = done["answers"]
    return sorted(found)


async def test_questions_asked_at_once_are_each_asked_again_after_going_back(saver: ThreadSaver) -> None:
    graph, store = fan(saver), ThreadStore(saver)
    await graph.ainvoke({"messages": [HumanMessage("go")]}, thread())
    waits = await place(graph)
    await store.fork("t-1", "fork")
    assert await answered(graph, "a") == ["0:a0", "1:a1", "2:a2"]
    await store.rewind("t-1", waits)
    await graph.ainvoke(None, thread())
    assert len((await graph.aget_state(thread())).interrupts) == 3
    assert await answered(graph, "b") == ["0:b0", "1:b1", "2:b2"]
    assert await answered(graph, "c", thread("fork")) == ["0:c0", "1:c1", "2:c2"]
    await store.undo("t-1")
    assert sorted((await graph.aget_state(thread())).values["answers"]) == ["0:a0", "1:a1", "2:a2"]
    assert (await saver.verify()).problems == []


async def test_of_several_questions_one_answer_is_kept_while_the_others_wait(saver: ThreadSaver) -> None:
    graph = fan(saver)
    await graph.ainvoke({"messages": [HumanMessage("go")]}, thread())
    first = (await graph.aget_state(thread())).interrupts[0]
    await graph.ainvoke(Command(resume={first.id: "early"}), thread())
    assert len((await graph.aget_state(thread())).interrupts) == 2
    assert await answered(graph, "late") == ["0:early", "1:late1", "2:late2"]
    assert (await graph.aget_state(thread())).values["runs"] == ["begin"]


# Threads


@pytest.mark.parametrize("channel", CHANNELS)
async def test_going_back_from_where_one_went_back_to_leads_to_every_state_there_was(
    saver: ThreadSaver, channel: str
) -> None:
    graph, store = plain_chat(channel, saver), ThreadStore(saver)
    known: dict[str, list[str]] = {}
    for number in range(9):
        await tell(graph, f"m{number}", name="t")
        known[(await store.branches("t"))[-1]] = await texts(graph)
        if number % 2:
            target = list(known)[number // 2]
            moved = await store.rewind("t", target)
            known[moved["configurable"]["checkpoint_id"]] = known[target]
    for checkpoint_id, said in known.items():
        config = {"configurable": {"thread_id": "t", "checkpoint_id": checkpoint_id}}
        assert [m.text for m in (await graph.aget_state(config)).values["messages"]] == said
        assert [m.text for m in await store.messages("t", checkpoint_id)] == said
    await saver.aprune(["t"])
    assert await texts(graph) == list(known.values())[-1]
    assert (await saver.verify()).problems == []


@pytest.mark.parametrize("channel", CHANNELS)
async def test_a_history_can_be_limited_filtered_and_begun_anywhere(saver: ThreadSaver, channel: str) -> None:
    graph = plain_chat(channel, saver)
    await tell(graph, *"abcdefghijkl", name="t")
    config = {"configurable": {"thread_id": "t"}}
    whole = [state async for state in graph.aget_state_history(config)]
    assert len(whole) == 36
    for limit in (0, 1, 24, 25, 26, 50, 51, 1000):
        assert [s async for s in graph.aget_state_history(config, limit=limit)] == whole[:limit]
    for start in (0, 10, 24, 25, 35):
        before = whole[start].config
        assert [s async for s in graph.aget_state_history(config, before=before, limit=30)] == whole[start + 1 :][:30]
    inputs = [s async for s in graph.aget_state_history(config, filter={"source": "input"})]
    assert inputs == [s for s in whole if s.metadata["source"] == "input"]
    assert [s async for s in graph.aget_state_history(config, filter={"source": "input", "step": 2})] == [
        s for s in inputs if s.metadata["step"] == 2
    ]
    assert [s async for s in graph.aget_state_history(config, filter={"nobody": "knows"})] == []


@pytest.mark.parametrize("channel", CHANNELS)
async def test_changing_a_thread_while_it_runs_is_refused_or_a_branch_and_loses_nothing(
    saver: ThreadSaver, channel: str
) -> None:
    graph, store = plain_chat(channel, saver), ThreadStore(saver)
    await tell(graph, "first", name="t")

    async def append(number: int) -> bool:
        try:
            await store.append("t", {"messages": [HumanMessage(f"put {number}", id=f"p{number}")]})
        except ThreadBusyError:
            return False
        return True

    done = await asyncio.gather(tell(graph, *"abcdef", name="t"), *(append(n) for n in range(8)))
    said = {m.text for leaf in await store.branches("t") for m in await store.messages("t", leaf)}
    assert set("abcdef") <= said
    assert {f"put {n}" for n, was_put in enumerate(done[1:]) if was_put} <= said
    assert (await store.verify()).problems == []


async def test_what_waits_in_the_queue_is_said_once_whatever_branch_the_thread_goes_to() -> None:
    model = Scripted()
    async with MemoryMiddleware.open(settings(), model=summariser()) as memory:
        graph, store = node_graph(memory, model, saver=memory.saver), ThreadStore(memory.saver)
        queue = ThreadQueue(memory.saver)
        await turn(graph, "one")
        back = await place(graph)
        await queue.put("t-1", "queued")
        await turn(graph, "two")
        assert words(await store.messages("t-1")).count("queued") == 1
        await queue.put("t-1", "later")
        await store.rewind("t-1", back)
        await turn(graph, "three")
        found = words(await store.messages("t-1"))
        assert found.count("later") == 1 and "queued" not in found
        assert await queue.waiting("t-1") == []


async def test_unknown_names_are_errors_and_create_nothing() -> None:
    async with MemoryMiddleware.open(settings(), model=summariser()) as memory:
        store = ThreadStore(memory.saver)
        await turn(node_graph(memory, Scripted(), saver=memory.saver), "one")
        for work in (
            store.rewind("nobody", "x"),
            store.rewind("t-1", "no such checkpoint"),
            store.fork("t-1", "new", "no such checkpoint"),
            store.fork("nobody", "new"),
            store.undo("nobody"),
            store.messages("t-1", "no such checkpoint"),
            store.messages("T-1"),
            store.delete("t-1 "),
            store.append("nobody", {"messages": []}),
        ):
            with pytest.raises(LangGraphMemoryError):
                await work
        assert [row.thread_id for row in await store.threads()] == ["t-1"]
