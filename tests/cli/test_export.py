import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import convert_to_messages
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

from langgraph_memory.cli.errors import FileUnwritableError
from langgraph_memory.errors import UnknownThreadError
from langgraph_memory.threads import ThreadSaver
from tests.support import savers
from tests.support.savers import everything, exact

from .recorded import lgm, lgm_json, long_task, stored, talk, texts, write


def test_a_thread_is_exported_as_messages_that_langchain_takes_back():
    lgm("replay", write("task.jsonl", [("a", long_task(1, 2))]))
    out = lgm("threads", "export", "task/a").stdout
    messages = convert_to_messages([json.loads(line) for line in out.splitlines()])
    assert [(one.id, one.type, one.content) for one in messages] == [
        (one.id, one.type, one.content) for one in stored("task/a")
    ]


def test_all_threads_are_exported_with_their_names():
    talk("one", thread="a")
    talk("two", thread="b")
    lines = [json.loads(line) for line in lgm("threads", "export", "--all").stdout.splitlines()]
    assert [line["thread_id"] for line in lines] == ["b", "b", "a", "a"]
    markdown = lgm("threads", "export", "--all", "--format", "markdown").stdout
    assert markdown.startswith("# b\n") and "\n\n# a\n" in markdown


def test_a_recording_can_be_replayed():
    lgm("replay", write("task.jsonl", [("a", long_task(2, 1)), ("b", long_task(1, 1))]))
    assert lgm("threads", "export", "--all", "--format", "recording", "--out", "again.jsonl").exit_code == 0
    assert all(row["complete"] for row in lgm_json("replay", "again.jsonl")["rows"])
    assert texts(stored("again/task/a")) == texts(stored("task/a"))


def test_a_file_appears_when_it_is_whole_and_what_was_there_is_replaced():
    talk("one")
    Path("out.jsonl").write_text("old")
    result = lgm("threads", "export", "nothing", "--out", "out.jsonl")
    assert isinstance(result.exception, UnknownThreadError)
    assert Path("out.jsonl").read_text() == "old"
    result = lgm("threads", "export", "t", "--out", "out.jsonl")
    assert result.stdout == "" and "out.jsonl: 1 thread" in result.stderr
    assert len(Path("out.jsonl").read_text().splitlines()) == 2
    assert {path.name for path in Path().iterdir()} == {"memory", "out.jsonl"}
    assert isinstance(lgm("threads", "export", "t", "--out", "memory").exception, FileUnwritableError)


@pytest.mark.skipif(os.name == "nt", reason="devices")
def test_a_device_is_written_to_and_stays_one():
    talk("one")
    command = [sys.executable, "-m", "langgraph_memory", "threads", "export", "t", "--out", "/dev/stdout"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 2, done.stderr


def test_it_is_said_what_an_export_wants():
    talk("one")
    for options in ([], ["t", "--all"], ["--all", "--plain", "p.db"], ["t", "--format", "xml"]):
        assert lgm("threads", "export", *options).exit_code == 2


# For the plain saver

TURN = [("reply", 2), ("delta", 1), ("notes", 3), ("big", 2)]


async def _made(path: Path) -> None:
    """A thread with everything, one that waits for an answer, and rows of both savers."""
    async with AsyncSqliteSaver.from_conn_string(str(path)) as plain:
        await everything(plain).ainvoke(savers.given(TURN), savers.config())
    async with ThreadSaver.from_conn_string(path) as ours:
        for _ in range(2):
            await everything(ours).ainvoke(savers.given(TURN), savers.config())
        await everything(ours).ainvoke(savers.given([("ask", 1)]), savers.config("waits"))


async def _all(saver: Any) -> list[Any]:
    return [exact(found) async for found in saver.alist(None)]


def test_the_plain_saver_opens_a_plain_export_and_finds_the_same():
    Path("memory").mkdir()
    asyncio.run(_made(Path("memory/threads.db")))
    result = lgm("threads", "export", "--plain", "plain.db")
    assert result.exit_code == 0 and "plain.db: " in result.stderr

    async def compared() -> tuple[Any, Any, list[str]]:
        async with (
            ThreadSaver.from_conn_string("memory/threads.db") as ours,
            AsyncSqliteSaver.from_conn_string("plain.db") as plain,
        ):
            mine, theirs = await _all(ours), await _all(plain)
            answer: Command[Any] = savers.answer("forty-two")
            found = await everything(plain).ainvoke(answer, savers.config("waits"))
            return mine, theirs, [message.content for message in found["messages"]]

    mine, theirs, said = asyncio.run(compared())
    assert mine == theirs and len(mine) > 20
    assert "answered forty-two" in said
    assert {path.name for path in Path().iterdir()} == {"memory", "plain.db"}


def test_a_plain_export_has_the_paths_of_the_tasks_and_the_branches():
    talk("one", "two", "three")
    lgm("rewind", "t", "--turns", 1)
    talk("else")
    lgm("threads", "export", "--plain", "plain.db")
    plain = {"LANGGRAPH_MEMORY_DB_PATH": "plain.db"}
    assert json.loads(lgm("tree", "t", "--json", **plain).stdout) == lgm_json("tree", "t")
    assert json.loads(lgm("log", "t", "--json", **plain).stdout) == lgm_json("log", "t")
    rows = "SELECT checkpoint_id, task_id, task_path, idx, channel FROM writes ORDER BY 1, 2, 4"
    found = []
    for name in ("memory/threads.db", "plain.db"):
        with closing(sqlite3.connect(name)) as database:
            found.append(database.execute(rows).fetchall())
    assert found[0] == found[1] != []


def test_a_plain_export_replaces_no_file():
    talk("one")
    Path("there.db").write_text("mine")
    assert isinstance(lgm("threads", "export", "--plain", "there.db").exception, FileUnwritableError)
    assert Path("there.db").read_text() == "mine"
    assert {path.name for path in Path().iterdir()} == {"memory", "there.db"}
