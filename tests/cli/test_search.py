import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from langgraph_memory.cli.errors import DatabaseMissingError
from langgraph_memory.errors import UnknownThreadError

from .recorded import lgm, lgm_json, talk, user, write

# search


def test_messages_are_found_in_all_threads_or_in_one():
    talk("apple pie", thread="a")
    talk("plum pie", "潮汐表", thread="b")
    assert {hit["thread_id"] for hit in lgm_json("search", "pie")} == {"a", "b"}
    (hit,) = lgm_json("search", "潮汐", "-n", 1)
    assert hit.keys() == {"thread_id", "message_id", "checkpoint_id", "namespace", "role", "excerpt", "score"}
    assert "潮汐表" in hit["excerpt"]
    assert {hit["thread_id"] for hit in lgm_json("search", "pie", "--thread", "b")} == {"b"}
    assert len(lgm_json("search", "pie", "-n", 2)) == 2
    out = lgm("search", "apple").stdout
    assert out.splitlines()[0].split() == ["thread", "role", "message", "text"] and "apple pie" in out


def test_what_was_said_on_a_branch_is_found():
    talk("one", "two")
    lgm("rewind", "t", "--turns", 1)
    assert [hit["message_id"] for hit in lgm_json("search", "two")][:1] == ["q two"]


@pytest.mark.parametrize("query", ['"', "a AND (", "*", "nowhere", "-", "--"])
def test_any_text_is_a_query(query):
    talk("one")
    result = lgm("search", "--json", "--", query)
    assert result.exit_code == 0 and result.stdout == "[]\n"
    assert f"No message holds {query!r}" in result.stderr


def test_escape_sequences_and_markup_are_shown_and_not_obeyed():
    lgm("replay", write("t.jsonl", [("a", [user("\x1b[2J needle [bold]x[/nope]")])]))
    out = lgm("search", "needle", FORCE_COLOR="1", TERM="xterm-256color").stdout
    assert "\x1b[2J" not in out and "[bold]x[/nope]" in out


def test_a_thread_to_search_in_that_is_not_there_is_named():
    talk("one")
    assert isinstance(lgm("search", "one", "--thread", "x").exception, UnknownThreadError)


# verify


def test_a_clean_database_is_said_to_be_clean():
    talk("one")
    lgm("search", "one")
    result = lgm("verify")
    assert result.exit_code == 0 and result.stdout.startswith("clean: 3 checkpoints")
    report = lgm_json("verify")
    assert report["ok"] is True and report["problems"] == [] and report["items"] > 0


def test_what_is_wrong_is_listed_with_exit_code_1():
    talk("one")
    with closing(sqlite3.connect("memory/threads.db")) as database, database:
        database.execute("UPDATE lgm_items SET data = zeroblob(9) WHERE id = 1")
    result = lgm("verify")
    assert result.exit_code == 1 and "item 1" in result.stdout and "Not clean" in result.stderr
    report = lgm_json("verify")
    assert report["ok"] is False and any("item 1" in problem for problem in report["problems"])


# Without threads

COMMANDS = [
    ["search", "x"],
    ["verify"],
    ["log", "t"],
    ["tree", "t"],
    ["rewind", "t", "--turns", "1"],
    ["undo", "t"],
    ["fork", "t", "u"],
    ["threads", "stats"],
    ["threads", "export", "t"],
    ["threads", "export", "--all"],
    ["threads", "export", "--plain", "p.db"],
    ["threads", "rm", "t", "--yes"],
    ["threads", "prune", "--keep-latest"],
    ["threads", "backup", "b.db"],
    ["threads", "vacuum"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_without_a_database_the_error_says_where_it_looked_and_no_file_is_made(command):
    result = lgm(*command, LANGGRAPH_MEMORY_DB_PATH="some/where.db")
    assert isinstance(result.exception, DatabaseMissingError)
    assert str(result.exception).startswith("some/where.db: there is no database")
    assert result.stdout == "" and list(Path().iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_in_a_database_of_something_else_there_are_no_threads_and_it_stays_as_it_is(command):
    with closing(sqlite3.connect("other.db")) as database, database:
        database.execute("CREATE TABLE other (x)")
    result = lgm(*command, LANGGRAPH_MEMORY_DB_PATH="other.db")
    assert (result.exit_code == 0) or isinstance(result.exception, UnknownThreadError), result.output
    with closing(sqlite3.connect("other.db")) as database:
        assert [row[0] for row in database.execute("SELECT name FROM sqlite_master")] == ["other"]
