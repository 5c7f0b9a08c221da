import json
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain_core.messages import HumanMessage
from langgraph.graph import StateGraph

from langgraph_memory import MemoryMiddleware
from langgraph_memory.retention import FOLDER, expire
from langgraph_memory.threads import ThreadSaver, ThreadStore
from tests.support.graphs import node_graph, thread
from tests.support.models import Scripted


class Foreign(TypedDict, total=False):
    messages: Any
    other: str


LATER = datetime.now(UTC) + timedelta(days=10)


async def said(saver: Any, *names: str) -> None:
    graph = node_graph(MemoryMiddleware(), Scripted(replies="fine"), saver=saver)
    for name in names:
        await graph.ainvoke({"messages": [HumanMessage(f"hello from {name}")]}, thread(name))


@pytest.mark.parametrize("days,gone", [(9, ["a", "b/c"]), (11, []), (0, [])])
async def test_idle_threads_leave_after_they_were_archived(tmp_path, days, gone):
    async with ThreadSaver.from_conn_string("t.db") as saver:
        await said(saver, "a", "b/c")
        store = ThreadStore(saver)
        assert sorted(await expire(store, days, tmp_path, now=LATER)) == gone
        assert sorted(row.thread_id for row in await store.threads()) == ([] if gone else ["a", "b/c"])
    files = sorted((tmp_path / FOLDER).glob("*")) if gone else []
    assert len(files) == len(gone)
    for file, name in zip(files, gone, strict=True):
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        assert [line["content"] for line in lines] == [f"hello from {name}", "fine"]
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_a_thread_that_cannot_be_archived_stays(tmp_path, caplog):
    (tmp_path / "archive").write_text("in the way", encoding="utf-8")
    async with ThreadSaver.from_conn_string("t.db") as saver:
        await said(saver, "a")
        assert await expire(ThreadStore(saver), 1, tmp_path, now=LATER) == []
        assert [row.thread_id for row in await ThreadStore(saver).threads()] == ["a"]
    assert "cannot be archived" in caplog.text


@pytest.mark.parametrize("value", [[{"from": "bob", "text": "y"}], [5, HumanMessage("hello")], []])
async def test_a_thread_of_another_graph_that_the_archive_would_not_have_whole_stays(tmp_path, caplog, value):
    builder = StateGraph(Foreign)
    builder.add_node("keep", lambda state: {"messages": value})
    builder.set_entry_point("keep")
    async with ThreadSaver.from_conn_string("t.db") as saver:
        await builder.compile(checkpointer=saver).ainvoke({"other": "kept"}, thread("a"))
        assert await expire(ThreadStore(saver), 1, tmp_path, now=LATER) == []
        assert [row.thread_id for row in await ThreadStore(saver).threads()] == ["a"]
    assert "cannot be archived" in caplog.text
    assert not (tmp_path / FOLDER).exists()


async def test_a_thread_that_waits_for_something_stays(tmp_path):
    async with ThreadSaver.from_conn_string("t.db") as saver:
        graph = node_graph(MemoryMiddleware(), Scripted(replies=[RuntimeError("down")]), saver=saver)
        with pytest.raises(RuntimeError):
            await graph.ainvoke({"messages": [HumanMessage("go")]}, thread("a"))
        assert await expire(ThreadStore(saver), 1, tmp_path, now=LATER) == []


@pytest.mark.shows("memory.maintenance.thread_retention_days")
@pytest.mark.parametrize("mode", ["async", "sync"])
async def test_thread_retention_days_is_when_idle_threads_leave_at_the_opening(tmp_path, mode, monkeypatch):
    async with ThreadSaver.from_conn_string("t.db") as saver:
        await said(saver, "a")
    monkeypatch.setattr("langgraph_memory.retention.datetime", Later)
    for days, left in ((30, ["a"]), (5, [])):
        config = {
            "memory": {"maintenance": {"thread_retention_days": days}},
            "persistence": {"thread_db": "t.db", "workspace": str(tmp_path / "w")},
        }
        if mode == "async":
            async with MemoryMiddleware.open(config) as memory:
                rows = await ThreadStore(memory.saver).threads()
        else:
            rows = await opened_sync(config)
        assert [row.thread_id for row in rows] == left
    assert [path.name for path in archived(tmp_path / "w")] == ["a.jsonl"]


def archived(workspace: Path) -> list[Path]:
    return list((workspace / FOLDER).iterdir())


class Later(datetime):
    @classmethod
    def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
        return LATER


async def opened_sync(config: Any) -> Any:
    import asyncio

    def run() -> Any:
        with MemoryMiddleware.open(config) as memory:
            return asyncio.run(ThreadStore(memory.saver).threads())

    return await asyncio.to_thread(run)
