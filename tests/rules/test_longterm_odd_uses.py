"""Uses of long-term memory that nobody thinks of first: odd ids, odd files, ends of runs, many at once."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from langgraph_memory import MemoryMiddleware
from langgraph_memory.longterm.keeper import Keeper
from tests.support.graphs import GRAPHS, calls, configured, node_graph, text_of
from tests.support.models import Scripted
from tests.support.remembering import FLUSH, Home, asked_for, noting

pytestmark = pytest.mark.slow

USERS = [7, UUID(int=5), "😀", "u" * 300, "a/../b", "CON", "memory", "Ada\n", "\ud83d"]


@pytest.mark.parametrize("thread", ["t-\ud83d", "a/../b", "x\0y", "%_'\"", "t" * 1000, "线程", "-"])
async def test_any_thread_id_is_flushed_once(tmp_path, thread):
    home = Home(tmp_path)
    for said in ("I like jazz", "I like chess"):
        await home.say(said, thread)
    assert await home.entries() == ["I like jazz", "I like chess"]
    assert len(home.asked(FLUSH)) == 2


async def test_any_user_has_a_folder_of_its_own(tmp_path):
    home = Home(tmp_path)
    for number, user in enumerate(USERS):
        config = {"configurable": {"thread_id": f"t-{number}", "user_id": user}}
        await home.graph.ainvoke({"messages": [("user", f"I am number {number}")]}, config)
        await home.graph.ainvoke(
            {"messages": [("user", "hello")]}, {"configurable": {**config["configurable"], "thread_id": "o"}}
        )
        shown = text_of(home.model.last)
        assert [f"number {n}" in shown for n in range(len(USERS))] == [n == number for n in range(len(USERS))]
    assert len(await asyncio.to_thread(home.memory.longterm.homes.all)) == len(USERS)


async def test_a_namespace_of_two_parts_and_a_user_named_by_the_context(tmp_path):
    @dataclass
    class Context:
        user_id: str

    memory = MemoryMiddleware(
        configured({"namespace": ["team-{team}", "{user_id}"], "consolidation.min_interval_minutes": 0}),
        model=Scripted(replies=noting),
        workspace=tmp_path,
        inline=True,
    )
    agent = create_agent(Scripted(), [], middleware=[memory], context_schema=Context)
    config: Any = {"configurable": {"thread_id": "t", "team": "x"}}
    await agent.ainvoke({"messages": [HumanMessage("I like jazz")]}, config, context=Context("ada"))
    assert "I like jazz" in (tmp_path / "team-x" / "ada" / "MEMORY.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("threads", [True, False])
async def test_twenty_threads_of_one_user_at_once_lose_nothing(tmp_path, kind, threads):
    home = Home(tmp_path, kind=kind, inline=False)

    def say(number: int) -> None:
        home.graph.invoke({"messages": [("user", f"fact number {number}.")]}, home.config(f"t-{number}"))

    if threads:
        await asyncio.gather(*(asyncio.to_thread(say, number) for number in range(20)))
        await asyncio.to_thread(home.memory.drain, 60)
    else:
        await asyncio.gather(*(home.say(f"fact number {number}.", f"t-{number}") for number in range(20)))
        await home.memory.adrain(60)
    wanted = {f"fact number {number}." for number in range(20)}
    entries, memory = await home.entries(), home.notes.read_text(encoding="utf-8").splitlines()
    assert len(entries) == 20 and set(entries) == wanted
    assert len(memory) == 20 and set(memory) == {f"- {one}" for one in wanted}


async def test_two_middlewares_share_a_workspace_and_a_thread(tmp_path):
    saver = InMemorySaver()
    homes = [Home(tmp_path, saver=saver) for _ in range(2)]
    for turn in range(6):
        await homes[turn % 2].say(f"fact {turn}")
    assert await homes[0].entries() == [f"fact {turn}" for turn in range(6)]
    assert sum(len(home.asked(FLUSH)) for home in homes) == 6


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("what", ["folder", "link", "binary", "one line"])
async def test_whatever_stands_in_the_place_of_the_memory_no_turn_fails(tmp_path, kind, what):
    home = Home(tmp_path / "work", kind=kind)
    home.notes.parent.mkdir(parents=True)
    secret = tmp_path / "secret"
    secret.write_text("SECRET", encoding="utf-8")
    {
        "folder": home.notes.mkdir,
        "link": lambda: home.notes.symlink_to(secret),
        "binary": lambda: home.notes.write_bytes(os.urandom(50_000)),
        "one line": lambda: home.notes.write_text("x" * 1_000_000),
    }[what]()
    assert "SECRET" not in text_of(await home.say("I like jazz"))
    assert secret.read_text(encoding="utf-8") == "SECRET"
    # What could not be flushed is once there is a file again.
    if what in ("folder", "link"):
        home.notes.rmdir() if what == "folder" else home.notes.unlink()
    await home.say("and chess")
    assert set(await home.entries()) >= {"I like jazz", "and chess"}


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("part", ["", "ada", "ada/index.db"])
async def test_a_workspace_that_is_deleted_under_a_program_is_made_anew(tmp_path, kind, part):
    home = Home(tmp_path / "work", kind=kind)
    await home.say("I like jazz")
    gone: Path = home.folder / part
    await asyncio.to_thread(gone.unlink if part.endswith(".db") else partial(shutil.rmtree, gone))
    await home.say("I like chess")
    await home.say("I like tea")
    assert {"I like chess", "I like tea"} <= set(await home.entries())
    assert len(await home.entries()) == len(set(await home.entries()))


@pytest.mark.parametrize("kind", GRAPHS)
async def test_the_end_of_a_turn_waits_for_no_writer_of_the_memory(tmp_path, kind):
    home = Home(tmp_path, kind=kind, inline=False)
    held, ended = threading.Event(), threading.Event()

    def hold() -> None:
        with Keeper(tmp_path, ("ada",)).folder.locked():
            held.set()
            ended.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    await asyncio.to_thread(held.wait, 60)
    await asyncio.wait_for(home.say("I like jazz"), 25)
    assert holder.is_alive()
    ended.set()
    await home.memory.adrain(60)
    holder.join()
    assert await home.entries() == ["I like jazz"]


async def test_a_turn_that_waits_for_a_person_is_flushed_when_it_has_ended(tmp_path):
    @tool
    def ask(n: int) -> str:
        """Ask a person."""
        return str(interrupt("may I?"))

    asks = calls("a", name="ask")
    asks.tool_calls[0]["args"] = {"n": 1}
    model = Scripted(replies=[asks, AIMessage("done")])
    home = Home(tmp_path, model=model, tools=lambda memory: [ask], saver=InMemorySaver())
    await home.say("I like jazz")
    assert await home.entries() == []
    await home.graph.ainvoke(Command(resume="yes"), home.config("t-1"))
    assert (await home.entries())[0] == "I like jazz"


@pytest.mark.parametrize("kind", GRAPHS)
async def test_runs_that_are_cancelled_anywhere_lose_and_double_nothing(tmp_path, kind):
    home = Home(tmp_path, kind=kind, inline=False, saver=InMemorySaver())
    delays = [0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12]
    for delay in delays:
        run = asyncio.create_task(home.say(f"fact after {delay} s", f"t-{delay}"))
        await asyncio.sleep(delay)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        kept = "messages" in (await home.state(f"t-{delay}"))
        await home.say("go on", f"t-{delay}")
        await home.memory.background.drain(60)
        assert (await home.entries()).count(f"fact after {delay} s") == kept
    await home.memory.adrain(60)


async def test_a_side_model_that_only_has_invoke_and_an_agent_that_says_nothing(tmp_path):
    memory = MemoryMiddleware(
        configured({"consolidation.min_interval_minutes": 0}),
        model=RunnableLambda(lambda messages: AIMessage(noting(messages))),
        workspace=tmp_path,
        inline=True,
    )
    home = Home(tmp_path)
    graph = node_graph(memory, Scripted(replies=[AIMessage("")]))
    await graph.ainvoke({"messages": [("user", "I like jazz")]}, home.config("t"))
    assert home.notes.read_text(encoding="utf-8") == "- I like jazz\n"


async def test_messages_that_have_left_the_list_are_flushed_once(tmp_path):
    side, saver = Scripted(replies=noting), InMemorySaver()
    settings = {"memory": {"context_window": 6000}, "persistence": {"state": "since_summary"}}
    memory = MemoryMiddleware(settings, model=side, workspace=tmp_path, saver=saver, inline=True)
    graph, config = node_graph(memory, Scripted(), saver=saver), Home(tmp_path).config("t")
    for number in range(30):
        await graph.ainvoke({"messages": [("user", f"fact number {number} {'and so on ' * 60}")]}, config)
    assert len((await graph.aget_state(config)).values["messages"]) < 60
    shown = [one.text.rpartition("<messages>")[2] for one in side.requests if asked_for(one.messages) == FLUSH]
    assert all(sum(f"user: fact number {n} " in text for text in shown) == 1 for n in range(30))


async def test_a_large_memory_by_hand_holds_up_no_turn_for_long(tmp_path):
    home = Home(tmp_path, {"consolidation.enabled": False})
    home.notes.parent.mkdir(parents=True)
    home.notes.write_text("\n".join(f"- note {n} {'words ' * 8}" for n in range(20_000)), encoding="utf-8")
    started = time.perf_counter()
    request = await home.say("hello")
    assert "note 19999" in text_of(request) and len(text_of(request)) < 30_000
    assert time.perf_counter() - started < 60
