"""Types of threads and of long-term memory as users see them; mypy checks this file, nothing runs it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, assert_type

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from langgraph_memory import (
    Entry,
    ThreadDocuments,
    ThreadQueue,
    ThreadSaver,
    ThreadStore,
    Workspace,
    create_checkpointer,
)
from langgraph_memory.longterm.entry import EntryType
from langgraph_memory.longterm.index import Hit
from langgraph_memory.threads import listed, shapes, verify


async def threads() -> None:
    assert_type(create_checkpointer(), AbstractAsyncContextManager[ThreadSaver])
    async with ThreadSaver.from_conn_string("threads.db") as saver:
        assert_type(saver, ThreadSaver)
        plain: AsyncSqliteSaver = saver
        store = ThreadStore(plain)
        assert_type(await store.threads(), listed.Threads)
        assert_type(await store.messages("t-1"), listed.Messages)
        assert_type(await store.checkpoints("t-1"), listed.Tree)
        rows: list[shapes.ThreadRow] = await store.threads()
        nodes: list[shapes.Node] = (await store.checkpoints("t-1"))[-2:]
        assert_type((rows[0], nodes[0]), tuple[shapes.ThreadRow, shapes.Node])
        assert_type(await store.branches("t-1"), list[str])
        assert_type(await store.search("pier B", thread_id="t-1", limit=5), listed.Hits)
        assert_type(await store.rewind("t-1", "1ef"), RunnableConfig)
        assert_type(await store.undo("t-1"), RunnableConfig)
        assert_type(await store.fork("t-1", "t-2", checkpoint_id="1ef"), RunnableConfig)
        assert_type(await store.append("t-1", {"messages": []}, reason="because"), RunnableConfig)
        assert_type(await store.stats(), verify.ThreadStats)
        assert_type(await store.verify(), verify.VerifyReport)
        async for line in store.export("t-1", "jsonl"):
            assert_type(line, str)
        await store.delete("t-1")


async def beside_threads(saver: ThreadSaver) -> None:
    queue = ThreadQueue(saver)
    assert_type(await queue.waiting("t-1"), list[BaseMessage])
    assert_type(await queue.take("t-1", []), list[BaseMessage])
    documents = ThreadDocuments(saver)
    assert_type(await documents.names("t-1"), list[str])
    assert_type(await documents.delete("t-1", "plan"), bool)


async def remembering() -> None:
    async with Workspace("memory", ("ada",)) as workspace:
        assert_type(workspace, Workspace)
        added = await workspace.append([{"text": "Ada prefers dark mode."}, "or a text", Entry.of("or an entry")])
        assert_type(added, list[Entry])
        assert_type(added[0].type, EntryType)
        assert_type(added[0].timestamp, datetime)
        [hit, *_] = await workspace.search("dark mode", limit=3)
        assert_type(hit, Hit)
        assert_type(hit.path, str)
        assert_type(hit.line, int)
        assert_type(hit.text, str)
        assert_type(hit.score, float)
        assert_type(hit.timestamp, str)
        assert_type(hit.thread_id, str | None)
        assert_type(await workspace.get("MEMORY.md", 1, 20), str)
        assert_type(await workspace.memory_md(), str)
        assert_type(await workspace.forget("dark mode"), int)
        assert_type(await workspace.reindex(), int)


def counted(stats: verify.ThreadStats, report: verify.VerifyReport, row: shapes.ThreadRow) -> dict[str, Any]:
    assert_type(stats.checkpoints, int)
    assert_type(report.ok, bool)
    assert_type(report.problems, list[str])
    return row.to_json()
