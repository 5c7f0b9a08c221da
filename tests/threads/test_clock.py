"""A thread goes on although the clock was set back between two processes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from langgraph.checkpoint.base import id as lg_ids
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from langgraph_memory.threads import clock
from langgraph_memory.threads.saver import ThreadSaver
from langgraph_memory.threads.store import ThreadStore
from tests.support.savers import config
from tests.support.stores import chat

HOUR = 3_600_000_000_000


@pytest.fixture
def restart(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Begin a process anew with the clock set back by so many nanoseconds."""
    now = time.time_ns
    monkeypatch.setattr(lg_ids, clock.LAST, None)

    def at(back: int) -> None:
        monkeypatch.setattr(time, "time_ns", lambda: now() - back)
        monkeypatch.setattr(lg_ids, clock.LAST, None)

    return at


@pytest.fixture
async def saver(tmp_path: Path) -> AsyncIterator[ThreadSaver]:
    async with ThreadSaver.from_conn_string(tmp_path / "threads.db") as made:
        yield made


def say(text: str) -> Any:
    return {"messages": [("human", text)]}


async def said(graph: Any) -> list[str]:
    found = (await graph.aget_state(config())).values["messages"]
    return [message.text for message in found if message.type == "human"]


async def test_a_plain_saver_shows_none_of_it(restart: Callable[[int], None]) -> None:
    async with AsyncSqliteSaver.from_conn_string(":memory:") as plain:
        graph = chat("add", plain)
        await graph.ainvoke(say("one"), config())
        restart(HOUR)
        await graph.ainvoke(say("two"), config())
        assert await said(graph) == ["one"]


@pytest.mark.parametrize("durability", ["sync", "exit"])
async def test_a_thread_goes_on_when_the_clock_was_set_back(
    saver: ThreadSaver, restart: Callable[[int], None], durability: Any
) -> None:
    graph = chat("add", saver)
    for number, back in enumerate((0, HOUR, 2 * HOUR, HOUR, 24 * HOUR)):
        restart(back)
        await graph.ainvoke(say(f"{number}"), config(), durability=durability)
        assert await said(graph) == [str(earlier) for earlier in range(number + 1)]
    assert len(await ThreadStore(saver).branches("t-1")) == 1


async def test_going_back_and_updating_work_too(saver: ThreadSaver, restart: Callable[[int], None]) -> None:
    graph = chat("add", saver)
    await graph.ainvoke(say("one"), config())
    first = (await graph.aget_state(config())).config
    await graph.ainvoke(say("two"), config())
    restart(HOUR)
    await graph.ainvoke(say("another two"), first)
    assert await said(graph) == ["one", "another two"]
    restart(HOUR)
    await graph.aupdate_state(config(), say("added"), as_node="model")
    assert await said(graph) == ["one", "another two", "added"]


@pytest.mark.parametrize("strange", ["", "x", "ffffffff-ffff-6fff-bfff-ffffffffffff", str(UUID(int=5, version=4))])
async def test_a_strange_id_moves_nothing(strange: str, restart: Callable[[int], None]) -> None:
    restart(0)
    clock.keep_ahead_of(strange)
    assert getattr(lg_ids, clock.LAST) is None


def test_a_langgraph_without_this_memory_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    newest = str(lg_ids.uuid6())
    monkeypatch.delattr(lg_ids, clock.LAST)
    clock.keep_ahead_of(newest)
    assert not hasattr(lg_ids, clock.LAST)
