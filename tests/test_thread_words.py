"""The messages of a thread, found by their words for what is shown beside long-term memory."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from langgraph_memory import MemoryMiddleware, ThreadSaver, ThreadStore
from langgraph_memory.errors import LangGraphMemoryError
from langgraph_memory.longterm.retrieve import Found
from langgraph_memory.place import Place
from langgraph_memory.thread_words import ThreadWords
from tests.support.graphs import node_graph, thread
from tests.support.models import Scripted

PLACE = Place("t-1")


async def told(saver: Any, *texts: str, name: str = "t-1") -> None:
    graph = node_graph(MemoryMiddleware(), Scripted(replies="fine"), saver=saver)
    for number, text in enumerate(texts):
        await graph.ainvoke({"messages": [{"role": "user", "content": text, "id": f"{name}-{number}"}]}, thread(name))


@pytest.fixture(params=["memory", "plain", "ours"])
async def saver(request: pytest.FixtureRequest) -> Any:
    if request.param == "memory":
        yield InMemorySaver()
        return
    kind = AsyncSqliteSaver if request.param == "plain" else ThreadSaver
    async with kind.from_conn_string("t.db") as opened:
        yield opened


async def test_messages_of_the_thread_are_found_and_of_no_other(saver: Any) -> None:
    await told(saver, "the spare key is under the pot", "lunch is at noon")
    await told(saver, "the spare key of another", name="t-2")
    found = await ThreadWords(saver).said(PLACE, "spare key", 10)
    assert [(one.source, one.place, one.thread_id, one.type) for one in found] == [
        ("thread", "msg:t-1-0", "t-1", "conversation")
    ]
    assert "spare" in found[0].text
    assert found[0].timestamp.startswith("2")
    assert found[0].score > 0


@pytest.mark.parametrize("query", ["", "nothing like it", '" OR (', "*", "\0", "\ud83d"])
async def test_any_text_is_a_query(saver: Any, query: str) -> None:
    await told(saver, "the spare key is under the pot")
    assert list(await ThreadWords(saver).said(PLACE, query, 10)) == []


async def test_the_limit_holds_and_none_means_none(saver: Any) -> None:
    await told(saver, *(f"spare key {n}" for n in range(4)))
    words = ThreadWords(saver)
    assert [len(await words.said(PLACE, "spare key", limit)) for limit in (3, 1, 0, -1)] == [3, 1, 0, 0]


async def test_what_cannot_be_searched_says_nothing(saver: Any) -> None:
    assert list(await ThreadWords(saver).said(PLACE, "spare key", 10)) == []
    assert list(await ThreadWords(saver).said(Place(), "spare key", 10)) == []
    assert list(await ThreadWords(None).said(PLACE, "spare key", 10)) == []
    assert list(ThreadWords(None).said_sync(PLACE, "spare key", 10)) == []
    assert list(ThreadWords(saver).said_sync(Place(), "spare key", 10)) == []


@pytest.mark.parametrize("error", [LangGraphMemoryError("encrypted"), sqlite3.OperationalError("locked")])
async def test_a_search_that_fails_fails_nothing_else(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    async def search(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(ThreadStore, "search", search)
    assert list(await ThreadWords(InMemorySaver()).said(PLACE, "spare key", 10)) == []


async def test_a_thread_without_an_event_loop_finds_the_same(saver: Any) -> None:
    await told(saver, "the spare key is under the pot")
    words = ThreadWords(saver)
    found = await words.said(PLACE, "spare key", 10)
    assert await asyncio.to_thread(words.said_sync, PLACE, "spare key", 10) == found
    assert isinstance(found[0], Found)


@pytest.mark.parametrize("kind", [AsyncSqliteSaver, ThreadSaver])
async def test_a_sync_call_on_the_loop_of_the_saver_waits_for_nothing(kind: Any) -> None:
    # The loop would wait for itself.
    async with kind.from_conn_string("t.db") as saver:
        await told(saver, "the spare key is under the pot")
        assert list(ThreadWords(saver).said_sync(PLACE, "spare key", 10)) == []


NOTEBOOK = """
import asyncio
from pathlib import Path
from langgraph.checkpoint.memory import InMemorySaver
from tests.support.remembering import Home

async def cell():
    home = Home(Path("work"), {"retrieval.auto_recall": True}, saver=InMemorySaver())
    for text in ("the spare key is under the pot", "what was that about a spare key?"):
        home.graph.invoke({"messages": [("user", text)]}, home.config("t-1"))
    print(home.notes.read_text())

asyncio.run(cell())
"""


def test_a_notebook_may_use_a_graph_without_await() -> None:
    # In a process of its own, as the tests forbid to block a loop.
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", NOTEBOOK],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert "the spare key is under the pot" in done.stdout, done.stderr
    assert "Traceback" not in done.stderr and "never awaited" not in done.stderr
