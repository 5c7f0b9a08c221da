import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from langgraph_memory.cli.errors import DatabaseMissingError, MemoryMissingError, UnknownMemoryError
from langgraph_memory.errors import UnknownThreadError
from langgraph_memory.longterm.keeper import Keeper

from .recorded import lgm, lgm_json, talk, user, write

OF_THREADS = {"source", "thread_id", "message_id", "checkpoint_id", "namespace", "role", "excerpt", "score"}
OF_MEMORY = {"source", "memory", "path", "line", "id", "type", "text", "timestamp", "thread_id", "abandoned", "score"}


def remember(*texts: str, user: str = "ada", **more: Any) -> None:
    Keeper(Path("memory"), (user,)).append([{"text": text, **more} for text in texts])


# search


def test_messages_are_found_in_all_threads_or_in_one():
    talk("apple pie", thread="a")
    talk("plum pie", "潮汐表", thread="b")
    assert {hit["thread_id"] for hit in lgm_json("search", "pie")} == {"a", "b"}
    (hit,) = lgm_json("search", "潮汐", "-n", 1)
    assert hit.keys() == OF_THREADS
    assert "潮汐表" in hit["excerpt"]
    assert {hit["thread_id"] for hit in lgm_json("search", "pie", "--thread", "b")} == {"b"}
    assert len(lgm_json("search", "pie", "-n", 2)) == 2
    for options in (["--threads"], ["--thread", "a"]):
        out = lgm("search", "apple", *options).stdout
        assert out.splitlines()[0].split() == ["thread", "role", "message", "text"] and "apple pie" in out
    out = lgm("search", "apple").stdout
    assert out.splitlines()[0].split() == ["source", "of", "kind", "place", "text"] and "apple pie" in out


def test_threads_and_memories_are_found_in_one_list_the_best_first():
    talk("Which tea does Ada like?", "Something else entirely.", thread="a")
    remember("Ada likes green tea.", "Ada moved to Lisbon.")
    rows = lgm_json("search", "tea Ada likes")
    assert {row["source"]: row.keys() for row in rows} == {"memory": OF_MEMORY, "thread": OF_THREADS}
    assert rows[0]["source"] == "memory" and rows[0]["text"] == "Ada likes green tea."
    assert (rows[0]["memory"], rows[0]["type"], rows[0]["abandoned"]) == ("ada", "fact", False)
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)
    assert {row["source"] for row in lgm_json("search", "tea", "--memory")} == {"memory"}
    assert {row["source"] for row in lgm_json("search", "tea", "--threads")} == {"thread"}
    assert {row["source"] for row in lgm_json("search", "tea", "--thread", "a")} == {"thread"}
    assert len(lgm_json("search", "tea Ada", "-n", 1)) == 1
    table = lgm("search", "green tea").stdout.splitlines()
    assert table[1].split()[:3] == ["memory", "ada", "fact"] and "Ada likes green tea." in table[1]


def test_what_is_said_in_both_stands_there_once():
    talk("Ada likes green tea.")
    remember("Ada likes green tea.")
    texts = [row.get("text") or row["excerpt"] for row in lgm_json("search", "green tea")]
    assert texts.count("Ada likes green tea.") == 1


def test_a_place_that_is_found_can_be_shown():
    remember("Ada likes tea.", "Ada keeps a list:\n- bread\n- milk")
    (hit,) = lgm_json("search", "bread")
    assert "bread" in lgm_json("memory", "show", hit["path"], "--lines", f"{hit['line']}:")["text"]


def test_all_memories_are_searched_unless_one_is_named():
    remember("Ada likes green tea.")
    remember("Bob likes green tea, and black tea.", *(f"Bob noted {n}." for n in range(20)), user="Bob@example.com")
    memories = [row["memory"] for row in lgm_json("search", "green tea", "--memory")]
    assert len(memories) == 2 and "ada" in memories
    assert {row["memory"] for row in lgm_json("search", "tea", "--user", "ada")} == {"ada"}
    (other,) = {row["memory"] for row in lgm_json("search", "tea", "--user", "Bob@example.com")}
    assert other.startswith("bob-example-com~")
    assert lgm_json("search", "green", "--namespace", other)[0]["memory"] == other
    error = lgm("search", "tea", "--user", "cy").exception
    assert isinstance(error, UnknownMemoryError) and "ada, bob-example-com~" in str(error)


def test_a_memory_is_searched_where_there_is_no_database_and_threads_where_there_is_no_memory():
    remember("Ada likes tea.")
    assert [row["source"] for row in lgm_json("search", "tea")] == ["memory"]
    assert not Path("memory/threads.db").exists()
    assert isinstance(lgm("search", "tea", "--threads").exception, DatabaseMissingError)
    environ = {"LANGGRAPH_MEMORY_WORKSPACE": "elsewhere"}
    talk("Some tea.")
    assert "Some tea." in lgm("search", "tea", **environ).stdout
    error = lgm("search", "tea", "--memory", **environ).exception
    assert isinstance(error, MemoryMissingError) and str(error).startswith("elsewhere: ")


@pytest.mark.parametrize(
    "options", [["--threads", "--memory"], ["--thread", "a", "--memory"], ["--threads", "--user", "ada"]], ids=" ".join
)
def test_options_that_exclude_each_other_are_refused(options):
    talk("one")
    assert lgm("search", "one", *options).exit_code == 2


def test_what_was_said_on_a_branch_is_found():
    talk("one", "two")
    lgm("rewind", "t", "--turns", 1)
    assert "q two" in [hit["message_id"] for hit in lgm_json("search", "two")][:2]
    assert [hit["message_id"] for hit in lgm_json("search", "two", "--threads")][:1] == ["q two"]


@pytest.mark.parametrize("query", ['"', "a AND (", "*", "nowhere", "-", "--"])
def test_any_text_is_a_query(query):
    talk("one")
    for options, what in ((["--threads"], "message"), ([], "message or entry")):
        result = lgm("search", "--json", *options, "--", query)
        assert result.exit_code == 0 and result.stdout == "[]\n"
        assert f"No {what} holds {query!r}" in result.stderr
    remember("x is so")
    assert lgm("search", "--json", "--", query).stdout == "[]\n"


def test_escape_sequences_and_markup_are_shown_and_not_obeyed():
    lgm("replay", write("t.jsonl", [("a", [user("\x1b[2J needle [bold]x[/nope]")])]))
    remember("\x1b[3J needle [bold]y[/nope] \x9b31m")
    out = lgm("search", "needle", FORCE_COLOR="1", TERM="xterm-256color").stdout
    assert not any(sign in out for sign in ("\x1b[2J", "\x1b[3J", "\x9b"))
    assert "[bold]x[/nope]" in out and "[bold]y[/nope]" in out


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
