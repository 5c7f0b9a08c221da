"""Threads on their way out: as lines of text, or as a database of LangGraph's own saver."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from langgraph_memory.threads import ThreadSaver, ThreadStore
from langgraph_memory.threads.export import Format
from langgraph_memory.threads.tables import thread_ids

from .database import naming
from .files import replacing
from .upkeep import backup

Paths = dict[tuple[str, str, str], str]
"""Namespace, checkpoint and task -> the path of the task."""


# Text


async def lines(store: ThreadStore, name: str, format: Format, *, named: bool) -> list[str]:
    """The lines of a thread; `named`: each line of JSON says whose it is."""
    found = [line async for line in store.export(name, format)]
    return [_named(name, line) for line in found] if named and format == "jsonl" else found


def _named(thread_id: str, line: str) -> str:
    return f'{{"thread_id": {json.dumps(thread_id, ensure_ascii=False)}, {line.removeprefix("{")}'


@contextmanager
def writing(target: Path) -> Iterator[TextIO]:
    """A text file that appears when everything is in it; what is no regular file is written to directly."""
    if target.exists() and not target.is_file() and not target.is_dir():
        with target.open("w", encoding="utf-8", errors="backslashreplace") as stream:
            yield stream
        return
    with replacing(target) as made, made.open("w", encoding="utf-8", errors="backslashreplace") as file:
        yield file


# The plain saver's database


def export_plain(file: Path, target: Path) -> int:
    """Write all threads of `file` to `target`, a new file which the plain saver opens; the number of checkpoints.

    What is read is a copy, so a thread that is written to meanwhile is whole.
    """
    with TemporaryDirectory(prefix="lgm-") as folder:
        copy = Path(folder, "threads.db")
        backup(file, copy)
        with replacing(target, new=True) as made, naming(str(file)):
            return asyncio.run(_copy(copy, made))


async def _copy(source: Path, target: Path) -> int:
    count = 0
    async with (
        ThreadSaver.from_conn_string(source) as ours,
        AsyncSqliteSaver.from_conn_string(str(target)) as plain,
    ):
        await plain.setup()
        # Nobody reads the file before it is whole.
        await plain.conn.execute("PRAGMA synchronous = OFF")
        for thread_id in await ours.call(thread_ids):
            paths = await ours.call(_paths, thread_id)
            async for saved in ours.alist({"configurable": {"thread_id": thread_id}}):
                await _put(plain, saved, paths)
                count += 1
    return count


async def _put(plain: AsyncSqliteSaver, saved: CheckpointTuple, paths: Paths) -> None:
    config = await plain.aput(_parent(saved), saved.checkpoint, saved.metadata, {})
    at = saved.config["configurable"]
    tasks: dict[str, list[tuple[str, Any]]] = {}
    for task_id, channel, value in saved.pending_writes or ():
        tasks.setdefault(task_id, []).append((channel, value))
    for task_id, writes in tasks.items():
        path = paths.get((at["checkpoint_ns"], at["checkpoint_id"], task_id), "")
        await plain.aput_writes(config, writes, task_id, path)


def _parent(saved: CheckpointTuple) -> RunnableConfig:
    at = saved.config["configurable"]
    names = {"thread_id": at["thread_id"], "checkpoint_ns": at["checkpoint_ns"]}
    before = (saved.parent_config or {}).get("configurable") or {}
    return cast(RunnableConfig, {"configurable": names | {"checkpoint_id": before.get("checkpoint_id")}})


def _paths(db: sqlite3.Connection, thread_id: str) -> Paths:
    rows = db.execute(
        "SELECT checkpoint_ns, checkpoint_id, task_id, task_path FROM writes WHERE thread_id = ?", (thread_id,)
    )
    return {(namespace, checkpoint, task): path for namespace, checkpoint, task, path in rows}
