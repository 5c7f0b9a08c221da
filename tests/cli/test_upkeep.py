import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from langgraph_memory.cli.errors import DatabaseUnusableError, FileUnwritableError
from langgraph_memory.cli.files import readable_size
from langgraph_memory.errors import ThreadBusyError, UnknownThreadError
from langgraph_memory.threads import ThreadSaver

from .recorded import lgm, lgm_json, long_task, talk, write

pytestmark = pytest.mark.slow


def names() -> set[str]:
    return {row["thread_id"] for row in lgm_json("threads")}


def aged(thread: str, days: int) -> None:
    """Make a thread look as if nothing had been said in it for so long."""

    async def main() -> None:
        async with ThreadSaver.from_conn_string("memory/threads.db") as saver:
            saved = await saver.aget_tuple({"configurable": {"thread_id": thread}})
            assert saved is not None
            checkpoint = {**saved.checkpoint, "ts": f"20{26 - days // 365:02}-01-01T00:00:00+00:00"}
            await saver.aput(saved.parent_config or saved.config, checkpoint, saved.metadata, {})

    asyncio.run(main())


# rm


def test_threads_are_removed_when_the_answer_is_yes():
    for name in "abc":
        talk("one", thread=name)
    asked = lgm("threads", "rm", "a", "b", input="n\n")
    assert asked.exit_code == 1 and names() == {"a", "b", "c"}
    assert "a: 1 turns, 2 messages" in asked.stderr and "Remove for good?" in asked.stderr and "?" not in asked.stdout
    assert lgm("threads", "rm", "a", input="y\n").exit_code == 0
    assert lgm("threads", "rm", "b", "--yes").exit_code == 0
    assert names() == {"c"}
    assert lgm("threads", "rm", "c").exit_code == 1, "without anybody to ask nothing is removed"
    assert names() == {"c"}


def test_what_was_only_in_a_removed_thread_is_gone_from_the_file():
    talk("a secret word", thread="a")
    talk("one", thread="b")
    lgm("search", "secret")
    lgm("threads", "rm", "a", "--yes")
    lgm("threads", "vacuum")
    assert b"secret" not in Path("memory/threads.db").read_bytes()
    assert lgm("verify").exit_code == 0


def test_a_thread_with_something_to_run_is_removed_only_by_force():
    talk("one?", thread="waits")
    talk("one", thread="done")
    for options in ([], ["--yes"]):
        result = lgm("threads", "rm", "done", "waits", *options)
        assert isinstance(result.exception, ThreadBusyError)
        assert "'waits' still has to run model" in str(result.exception) and "--force" in str(result.exception)
    assert names() == {"waits", "done"}
    assert lgm("threads", "rm", "done", "waits", "--yes", "--force").exit_code == 0
    assert names() == set()


def test_if_one_of_the_threads_is_not_there_none_is_removed():
    talk("one")
    result = lgm("threads", "rm", "t", "x", "--yes")
    assert isinstance(result.exception, UnknownThreadError) and "'x'" in str(result.exception)
    assert names() == {"t"}


# prune


def test_old_threads_are_only_named_until_it_is_to_be_done():
    for name in ("old", "new"):
        talk("one", thread=name)
    talk("one?", thread="waits")
    for name in ("old", "waits"):
        aged(name, 365)
    said = lgm("threads", "prune", "--older-than", 30)
    assert said.exit_code == 0 and "old" in said.stdout and "new" not in said.stdout
    assert "--apply does it" in said.stderr and "waits: left alone" in said.stderr
    assert names() == {"old", "new", "waits"}
    done = lgm_json("threads", "prune", "--older-than", 30, "--apply")
    assert done["applied"] is True and done["left_alone"] == ["waits"]
    assert [(one["thread_id"], one["kept"]) for one in done["threads"]] == [("old", 0)]
    assert names() == {"new", "waits"}
    assert "Nothing to prune" in lgm("threads", "prune", "--older-than", 30).stderr


@pytest.mark.parametrize("channel", ["add", "delta"])
@pytest.mark.parametrize("kind", [ThreadSaver, AsyncSqliteSaver])
def test_old_checkpoints_go_and_the_threads_go_on(kind, channel):
    for name in "ab":
        talk("one", "two", "three", "four", thread=name, kind=kind, channel=channel)
    before = {name: lgm_json("log", name) for name in "ab"}
    planned = lgm_json("threads", "prune", "--keep-latest", "a")
    assert [row["checkpoints"] for row in lgm_json("threads")] == [12, 12]
    done = lgm_json("threads", "prune", "--keep-latest", "a", "--apply")
    assert done == {**planned, "applied": True}
    (one,) = done["threads"]
    counts = {row["thread_id"]: row["checkpoints"] for row in lgm_json("threads")}
    assert counts == {"a": one["kept"], "b": 12} and one["checkpoints"] + one["kept"] == 12
    assert [row["text"] for row in lgm_json("log", "a")] == [row["text"] for row in before["a"]]
    talk("five", thread="a", channel=channel)
    assert lgm_json("log", "a")[-1]["text"] == "answer five"
    assert lgm_json("log", "b") == before["b"]
    assert lgm("verify").exit_code == 0


def test_a_thread_with_something_to_run_is_not_pruned():
    talk("one", "two?", thread="waits")
    talk("one", "two", thread="done")
    result = lgm("threads", "prune", "--keep-latest", "waits", "--apply")
    assert isinstance(result.exception, ThreadBusyError) and "'waits'" in str(result.exception)
    done = lgm_json("threads", "prune", "--keep-latest", "--apply")
    assert done["left_alone"] == ["waits"] and [one["thread_id"] for one in done["threads"]] == ["done"]


def test_pruning_wants_one_rule():
    talk("one")
    for options in ([], ["--keep-latest", "--older-than", "3"], ["--older-than", "-1"], ["t"]):
        assert lgm("threads", "prune", *options).exit_code == 2


# stats


def test_stats_count_what_the_database_holds_or_a_thread_uses():
    talk("one", "two", thread="a")
    lgm("fork", "a", "b")
    talk("one", thread="c")
    found = lgm_json("threads", "stats")
    assert (found["threads"], found["messages"], found["plain_checkpoints"]) == (3, 4, 0)
    assert found["file_bytes"] > found["message_bytes"] > 0
    assert lgm_json("threads", "stats", "c")["messages"] == 2
    assert lgm("threads", "stats").stdout.splitlines()[0].split() == ["threads", "3"]
    assert isinstance(lgm("threads", "stats", "x").exception, UnknownThreadError)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 KB"), (1_260_000, "1.3 MB"), (5e12, "5000.0 GB"), (None, "–")],
)
def test_sizes_are_for_people(size, text):
    assert readable_size(size) == text


# backup, vacuum


def test_a_backup_is_whole_while_the_database_is_written_to():
    talk("one", "two")
    before = lgm_json("log", "t")
    with closing(sqlite3.connect("memory/threads.db")) as database:
        database.execute("BEGIN IMMEDIATE")
        database.execute("DELETE FROM checkpoints")
        assert lgm_json("threads", "backup", "copy.db")["bytes"] == Path("copy.db").stat().st_size
        database.rollback()
    assert json.loads(lgm("log", "t", "--json", LANGGRAPH_MEMORY_DB_PATH="copy.db").stdout) == before
    assert lgm("verify", LANGGRAPH_MEMORY_DB_PATH="copy.db").exit_code == 0
    assert Path("copy.db").stat().st_mode & 0o077 == 0


def test_a_backup_replaces_no_file_and_leaves_none_behind_that_is_not_whole():
    talk("one")
    Path("there.db").write_text("mine")
    result = lgm("threads", "backup", "there.db")
    assert isinstance(result.exception, FileUnwritableError) and "there.db: there is a file" in str(result.exception)
    assert Path("there.db").read_text() == "mine"
    assert "no/where.db: cannot be written" in str(lgm("threads", "backup", "no/where.db").exception)
    Path("memory/threads.db").write_bytes(b"this is not a database " * 1000)
    assert isinstance(lgm("threads", "backup", "b.db").exception, DatabaseUnusableError)
    assert {path.name for path in Path().iterdir()} == {"memory", "there.db"}


def test_vacuum_gives_space_back_and_says_how_much():
    lgm("replay", write("task.jsonl", [("a", long_task(3, 6, 600)), ("b", long_task(1, 1))]))
    lgm("threads", "rm", "task/a", "--yes")
    done = lgm_json("threads", "vacuum")
    assert done["after"] < done["before"]
    assert done["after"] == Path("memory/threads.db").stat().st_size
    assert "before" in lgm("threads", "vacuum").stdout
    assert names() == {"task/b"}


def test_a_database_that_somebody_keeps_locked_is_said_to_be_in_use(monkeypatch):
    monkeypatch.setattr("langgraph_memory.cli.upkeep.BUSY_SECONDS", 0.05)
    talk("one")
    with closing(sqlite3.connect("memory/threads.db")) as database:
        database.execute("BEGIN IMMEDIATE")
        result = lgm("threads", "vacuum")
    assert isinstance(result.exception, DatabaseUnusableError)
    assert "Another program is writing to it" in str(result.exception)
