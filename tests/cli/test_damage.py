"""Commands on a database in which a row of one thread is damaged."""

import sqlite3
from contextlib import closing

import pytest
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from langgraph_memory.errors import DamagedDatabaseError
from langgraph_memory.threads import ThreadSaver

from .recorded import lgm, lgm_json, talk

DAMAGES = {
    "cut": "checkpoint = substr(checkpoint, 1, length(checkpoint) - 1)",
    "null": "checkpoint = NULL",
    "unknown type": "type = 'foo'",
    "no type": "type = NULL",
}


@pytest.fixture(params=DAMAGES)
def _damaged(request):
    spoil(DAMAGES[request.param])


def spoil(change, kind=ThreadSaver):
    talk("one heron", thread="a", kind=kind)
    talk("two herons", thread="b", kind=kind)
    with closing(sqlite3.connect("memory/threads.db")) as database, database:
        database.execute(
            f"UPDATE checkpoints SET {change} WHERE rowid = (SELECT max(rowid) FROM checkpoints WHERE thread_id = 'a')"
        )


@pytest.mark.usefixtures("_damaged")
def test_the_other_threads_are_listed_found_counted_and_exported():
    assert [row["thread_id"] for row in lgm_json("threads")] == ["b"]
    assert "b" in {row["thread_id"] for row in lgm_json("search", "two", "--threads")}
    status = lgm_json("status")["database"]
    assert (status["threads"], status["damaged"], status["problem"]) == (1, ["a"], None)
    assert "thread a is damaged" in lgm("status").stdout
    exported = lgm("threads", "export", "--all")
    assert exported.exit_code == 0 and "two herons" in exported.stdout
    pruned = lgm_json("threads", "prune", "--keep-latest", "--apply")
    assert [one["thread_id"] for one in pruned["threads"]] == ["b"]


@pytest.mark.usefixtures("_damaged")
@pytest.mark.parametrize(
    "command",
    [
        ["search", "heron", "--thread", "a"],
        ["log", "a"],
        ["tree", "a"],
        ["view", "a"],
        ["threads", "export", "a"],
        ["threads", "prune", "a", "--keep-latest"],
    ],
    ids=" ".join,
)
def test_who_asks_for_the_damaged_thread_is_told_what_to_do(command):
    error = lgm(*command).exception
    assert isinstance(error, DamagedDatabaseError)
    assert "'a'" in str(error) and "verify` lists everything that is wrong" in str(error)


@pytest.mark.usefixtures("_damaged")
def test_verify_names_the_row_and_rm_removes_the_thread():
    result = lgm("verify")
    assert result.exit_code == 1 and result.stdout.startswith("thread 'a': checkpoint ")
    removed = lgm("threads", "rm", "b", "a", "--yes")
    assert removed.exit_code == 0 and "a: damaged" in removed.stderr and "b: 1 turns" in removed.stderr
    assert lgm("verify").exit_code == 0
    assert lgm_json("threads") == []


@pytest.mark.parametrize("change", ["type = 'foo'", "checkpoint = x'c1'", "metadata = '{'"])
def test_a_file_of_the_plain_saver_is_no_other(change):
    spoil(change, AsyncSqliteSaver)
    assert [row["thread_id"] for row in lgm_json("threads")] == ["b"]
    assert lgm("verify").exit_code == 1
    for command in ("log", "view"):
        assert isinstance(lgm(command, "a").exception, DamagedDatabaseError)
    assert lgm("threads", "rm", "a", "--yes").exit_code == 0
    assert lgm("verify").exit_code == 0


def test_a_warning_says_what_to_run(capsys, monkeypatch):
    from langgraph_memory.cli import commands

    spoil("type = NULL")
    monkeypatch.setattr("sys.argv", ["lgm", "threads"])
    assert commands.run() in (0, None)
    told = capsys.readouterr().err
    assert "Left out, as it cannot be read: Thread 'a'" in told and "verify` lists everything that is wrong" in told
