"""Two runs at once on one thread are noticed, whatever LangGraph does on purpose is not."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from langgraph_memory.threads.branched import Branch
from langgraph_memory.threads.saver import ThreadSaver
from langgraph_memory.threads.store import ThreadStore
from tests.support.savers import config

FILE = "threads.db"


@pytest.fixture
async def saver(tmp_path: Path) -> AsyncIterator[ThreadSaver]:
    async with ThreadSaver.from_conn_string(tmp_path / FILE) as made:
        yield made


@pytest.fixture
def noticed(saver: ThreadSaver) -> list[Branch]:
    found: list[Branch] = []
    saver.on_branched.append(found.append)
    return found


class State(TypedDict, total=False):
    said: Annotated[list[str], operator.add]


def graph(saver: Any, work: Callable[[State], Awaitable[Any]] | None = None, *, inside: Any = None) -> Any:
    """START → work → done → END."""

    async def echo(state: State) -> State:
        return {"said": ["echo"]}

    async def done(state: State) -> State:
        return {"said": ["done"]}

    builder = StateGraph(State)
    builder.add_node("work", inside or work or echo)
    builder.add_node("done", done)
    builder.add_edge(START, "work")
    builder.add_edge("work", "done")
    builder.add_edge("done", END)
    return builder.compile(checkpointer=saver)


class Gate:
    """A node that waits in its first run until it is opened."""

    def __init__(self) -> None:
        self.reached, self.opened, self.used = asyncio.Event(), asyncio.Event(), False

    async def __call__(self, state: State) -> State:
        if not self.used:
            self.used = True
            self.reached.set()
            await self.opened.wait()
        return {"said": ["worked"]}


async def overtaken(saver: ThreadSaver, place: Any, durability: Any = "sync", other: ThreadSaver | None = None) -> None:
    """A run that waits in its first node while another one begins and ends."""
    gate = Gate()
    slow = asyncio.create_task(graph(saver, gate).ainvoke({"said": ["slow"]}, place, durability=durability))
    await gate.reached.wait()
    await graph(other or saver).ainvoke({"said": ["fast"]}, config(), durability=durability)
    gate.opened.set()
    await slow


async def newest(saver: ThreadSaver) -> str:
    found = await saver.aget_tuple(config())
    assert found is not None
    return str(found.checkpoint["id"])


async def test_a_run_that_is_overtaken_notices_it_once(saver: ThreadSaver, noticed: list[Branch]) -> None:
    await graph(saver).ainvoke({"said": ["first"]}, config())
    await overtaken(saver, config())
    [branch] = noticed
    assert (branch.thread_id, branch.namespace) == ("t-1", "")
    for child in (branch.new_id, branch.other_id):
        found = await saver.aget_tuple(config("t-1", child))
        assert found is not None and found.parent_config == config("t-1", branch.parent_id)
    assert len(await ThreadStore(saver).branches("t-1")) == 2


@pytest.mark.parametrize("begun", [True, False])
async def test_runs_that_write_at_the_end_are_noticed(saver: ThreadSaver, noticed: list[Branch], begun: bool) -> None:
    if begun:
        await graph(saver).ainvoke({"said": ["first"]}, config())
    parent = await newest(saver) if begun else None
    await overtaken(saver, config(), "exit")
    assert [branch.parent_id for branch in noticed] == [parent]


async def test_runs_in_two_programs_are_noticed(saver: ThreadSaver, noticed: list[Branch], tmp_path: Path) -> None:
    async with ThreadSaver.from_conn_string(tmp_path / FILE) as other:
        await overtaken(saver, config(), other=other)
    assert len(noticed) == 1


async def test_a_run_that_went_back_on_purpose_can_be_overtaken_too(saver: ThreadSaver, noticed: list[Branch]) -> None:
    await graph(saver).ainvoke({"said": ["first"]}, config())
    first = (await graph(saver).aget_state(config())).config
    await graph(saver).ainvoke({"said": ["second"]}, config())
    await overtaken(saver, first)
    [branch] = noticed
    assert branch.parent_id != first["configurable"]["checkpoint_id"]


async def test_turns_resumes_and_updates_are_no_branches(saver: ThreadSaver, noticed: list[Branch]) -> None:
    async def ask(state: State) -> State:
        return {"said": [interrupt("well?")]}

    asking = graph(saver, ask)
    for durability in ("sync", "async", "exit"):
        await asking.ainvoke({"said": ["hello"]}, config(), durability=durability)
        await asking.ainvoke(Command(resume="yes"), config(), durability=durability)
        await asking.ainvoke({"said": ["hello"]}, config(), durability=durability)
        await asking.ainvoke({"said": ["instead of an answer"]}, config(), durability=durability)
        await asking.ainvoke(Command(resume="yes"), config(), durability=durability)
        await asking.aupdate_state(config(), {"said": ["update"]})
        await asking.ainvoke(None, config(), durability=durability)
    assert noticed == []


async def test_a_failed_run_that_goes_on_is_no_branch(saver: ThreadSaver, noticed: list[Branch]) -> None:
    failed = False

    async def fail_once(state: State) -> State:
        nonlocal failed
        if not failed:
            failed = True
            raise RuntimeError("once")
        return {"said": ["worked"]}

    failing = graph(saver, fail_once)
    with pytest.raises(RuntimeError, match="once"):
        await failing.ainvoke({"said": ["hello"]}, config())
    await failing.ainvoke(None, config())
    assert noticed == []


@pytest.mark.parametrize("durability", ["sync", "exit"])
async def test_going_back_on_purpose_is_no_branch(saver: ThreadSaver, noticed: list[Branch], durability: Any) -> None:
    made = graph(saver)
    for text in ("one", "two", "three"):
        await made.ainvoke({"said": [text]}, config(), durability=durability)
    states = [state async for state in made.aget_state_history(config())]
    for state in states:
        await made.ainvoke({"said": ["again"]}, state.config, durability=durability)
        await made.ainvoke(None, state.config, durability=durability)
        updated = await made.aupdate_state(state.config, {"said": ["changed"]})
        await made.ainvoke(None, updated, durability=durability)
        await made.ainvoke({"said": ["on"]}, config(), durability=durability)
    await ThreadStore(saver).rewind("t-1", states[-1].config["configurable"]["checkpoint_id"])
    await made.ainvoke({"said": ["after a rewind"]}, config(), durability=durability)
    await ThreadStore(saver).undo("t-1")
    await made.ainvoke({"said": ["after an undo"]}, config(), durability=durability)
    assert noticed == []


@pytest.mark.parametrize("keeps", [True, None])
async def test_going_back_with_graphs_inside_is_no_branch(
    saver: ThreadSaver, noticed: list[Branch], keeps: bool | None
) -> None:
    async def ask(state: State) -> State:
        return {"said": [interrupt("well?")]}

    inner = graph(keeps, ask)
    outer = graph(saver, inside=inner)
    for _ in range(2):
        await outer.ainvoke({"said": ["hello"]}, config())
        waiting = await outer.aget_state(config(), subgraphs=True)
        await outer.ainvoke(Command(resume="yes"), config())
        await outer.ainvoke(Command(resume="another answer"), waiting.config)
        await outer.ainvoke(None, waiting.tasks[0].state.config)
        await outer.ainvoke({"said": ["anew"]}, waiting.tasks[0].state.config)
        await outer.ainvoke(Command(resume="a third"), config())
    for state in [state async for state in outer.aget_state_history(config())]:
        await outer.ainvoke(None, state.config)
    assert noticed == []


async def test_a_listener_that_fails_is_logged(
    saver: ThreadSaver, noticed: list[Branch], caplog: pytest.LogCaptureFixture
) -> None:
    def fail(branch: Branch) -> None:
        raise RuntimeError("cannot tell")

    saver.on_branched.insert(0, fail)
    await overtaken(saver, config())
    assert len(noticed) == 1 and "failed on the branch" in caplog.text and "RuntimeError" in caplog.text


async def test_copies_of_a_saver_tell_the_same_listeners(saver: ThreadSaver, noticed: list[Branch]) -> None:
    await overtaken(saver.with_allowlist([("x", "Y")]), config())
    assert len(noticed) == 1
