import asyncio
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Send, interrupt

from langgraph_memory import MemoryMiddleware
from langgraph_memory.cli.errors import DatabaseMissingError, DatabaseUnusableError
from langgraph_memory.errors import UnknownCheckpointError, UnknownThreadError
from tests.support.graphs import node_graph
from tests.support.models import Scripted
from tests.support.stores import Delta

from .recorded import lgm, lgm_json, long_task, stored, talk, user, write

SMALL = 2500
Builder = StateGraph[Any, Any, Any, Any]


def run(
    build: Callable[[Builder], None], inputs: list[Any], *, schema: Any = MessagesState, thread: str = "own"
) -> None:
    """Run a user's own graph, without any memory, in the database of the command line."""
    Path("memory").mkdir(exist_ok=True)

    async def main() -> None:
        async with AsyncSqliteSaver.from_conn_string("memory/threads.db") as saver:
            builder = StateGraph(schema)
            build(builder)
            graph: CompiledStateGraph[Any, Any, Any, Any] = builder.compile(checkpointer=saver)
            for value in inputs:
                await graph.ainvoke(value, {"configurable": {"thread_id": thread}})

    asyncio.run(main())


def answering(builder: Builder) -> None:
    builder.add_node("answer", lambda state: {"messages": [AIMessage(f"answer {len(state['messages'])}")]})
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)


def asking(builder: Builder) -> None:
    def ask(state: Any) -> dict[str, Any]:
        return {"messages": [AIMessage(interrupt("really?"))]}

    answering(builder)
    builder.add_node("ask", ask)
    builder.add_edge("answer", "ask")


def said(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text, id=text)]}


# threads


def test_threads_are_listed_the_one_changed_last_first():
    lgm("replay", write("task.jsonl", [("a", long_task(1, 1)), ("b", long_task(1, 2))]))
    before = datetime.now(UTC)
    run(answering, [said("one"), said("two")])
    own, b, a = lgm_json("threads")
    assert [row["thread_id"] for row in (own, b, a)] == ["own", "task/b", "task/a"]
    assert (own["messages"], own["checkpoints"], own["next"]) == (4, 6, [])
    assert (a["messages"], b["messages"]) == (4, 6)
    assert datetime.fromisoformat(own["updated"]) >= before > datetime.fromisoformat(b["updated"])
    table = lgm("threads").stdout.splitlines()
    assert [line.split()[0] for line in table] == ["thread", "own", "task/b", "task/a"]


def test_a_thread_is_listed_with_turns_branches_size_and_the_tokens_of_its_newest_call():
    lgm("replay", write("task.jsonl", [("a", long_task(3, 1))]))
    lgm("rewind", "task/a", "--turns", 1)
    talk("one", thread="silent")
    silent, row = lgm_json("threads", "list")
    assert (row["turns"], row["messages"], row["branches"], row["next"]) == (2, 8, 2, [])
    assert row["bytes"] > 1000 and row["checkpoints"] > 10
    *_, reply = stored("task/a")
    assert row["tokens"] == reply.usage_metadata["total_tokens"]
    assert silent["tokens"] is None
    assert " – " in lgm("threads").stdout


def test_options_of_a_subcommand_stand_behind_its_name():
    result = lgm("threads", "--json", "stats")
    assert result.exit_code == 2 and "stand behind its name" in result.output


def test_looking_at_a_file_of_the_plain_saver_leaves_it_as_it_was():
    talk("one", "two", kind=AsyncSqliteSaver)
    tables = "SELECT name, sql FROM sqlite_master ORDER BY name"
    with closing(sqlite3.connect("memory/threads.db")) as database:
        before = database.execute(tables).fetchall()
    for command in (["threads"], ["log", "t"], ["tree", "t"], ["view", "t"], ["context", "t"], ["search", "one"]):
        assert lgm(*command).exit_code == 0, command
    for command in (["rewind", "t", "--turns", "1"], ["undo", "t"], ["fork", "t", "u"], ["verify"]):
        assert lgm(*command).exit_code == 0, command
    with closing(sqlite3.connect("memory/threads.db")) as database:
        assert database.execute(tables).fetchall() == before
        assert {row[0] for row in database.execute("SELECT DISTINCT type FROM checkpoints")} == {"msgpack"}


def test_nodes_that_wait_are_shown():
    run(asking, [said("one")], thread="interrupted")

    def branching(builder: Builder) -> None:
        for name in ("left", "right", "both", "sent"):
            builder.add_node(name, lambda state: interrupt("?") if state.get("messages") else None)
        builder.add_node("open", lambda _: None)
        builder.add_edge(START, "open")
        builder.add_conditional_edges("open", lambda s: ["left", "right", Send("sent", s)], ["left", "right", "sent"])
        builder.add_edge(["left", "right"], "both")

    run(branching, [said("one")], thread="branching")
    waiting = {row["thread_id"]: row["next"] for row in lgm_json("threads")}
    assert waiting == {"interrupted": ["ask"], "branching": ["sent", "left", "right"]}


def test_what_waits_is_what_the_graph_itself_says():
    run(asking, [said("one")], thread="t")

    async def theirs() -> tuple[str, ...]:
        async with AsyncSqliteSaver.from_conn_string("memory/threads.db") as saver:
            builder = StateGraph(MessagesState)
            asking(builder)
            state = await builder.compile(checkpointer=saver).aget_state({"configurable": {"thread_id": "t"}})
            return state.next

    assert tuple(lgm_json("threads")[0]["next"]) == asyncio.run(theirs()) == ("ask",)


def test_without_a_database_there_are_no_threads_and_none_is_made():
    assert lgm_json("threads") == []
    for options in ([], ["--json"]):
        result = lgm("threads", *options, LANGGRAPH_MEMORY_DB_PATH="some/where.db")
        assert result.exit_code == 0
        assert result.stderr.startswith("some/where.db: there is no database")
        assert "lgm replay" in result.stderr
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("width", [20, 40, 60, 160])
def test_a_list_of_threads_has_every_id_and_time_however_narrow_the_terminal(width):
    lgm("replay", write("task.jsonl", [("a", [user("u")]), ("b" * 90, [user("u")])]))
    updated = [row["updated"][:19].replace("T", " ") for row in lgm_json("threads")]
    out = lgm("threads", COLUMNS=str(width)).stdout
    assert "task/a" in out and out.count("b") >= 90 and "…" not in out
    assert all(time in out for time in updated)


def test_a_thread_of_a_killed_run_is_read_without_a_word_about_its_graph(caplog):
    lgm("replay", write("task.jsonl", [("a", long_task(1, 1))]))
    with closing(sqlite3.connect("memory/threads.db")) as database, database:
        (first,) = database.execute("SELECT MIN(checkpoint_id) FROM checkpoints").fetchone()
        for table in ("checkpoints", "writes"):
            database.execute(f"DELETE FROM {table} WHERE checkpoint_id <> ?", (first,))
        assert database.execute("SELECT 1 FROM writes WHERE channel LIKE 'branch:to:%'").fetchone()
    caplog.clear()
    for command in (["threads"], ["context", "task/a"], ["view", "task/a"]):
        assert lgm(*command).stderr == ""
    assert caplog.messages == []


@pytest.mark.parametrize("command", ["context", "view"])
def test_without_a_database_the_error_says_where_it_looked_and_none_is_made(command):
    result = lgm(command, "t", LANGGRAPH_MEMORY_DB_PATH="some/where.db")
    assert isinstance(result.exception, DatabaseMissingError)
    assert str(result.exception).startswith("some/where.db: there is no database")
    assert "lgm replay" in str(result.exception)
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("command", [["threads"], ["context", "t"], ["view", "t"]])
def test_a_file_that_is_no_database_is_named(command):
    Path("no.db").write_text("this is not a database " * 100)
    result = lgm(*command, LANGGRAPH_MEMORY_DB_PATH="no.db")
    assert isinstance(result.exception, DatabaseUnusableError)
    assert "no.db" in str(result.exception)


def test_a_database_without_tables_has_no_threads_and_stays_without():
    with closing(sqlite3.connect("other.db")) as database, database:
        database.execute("CREATE TABLE other (x)")
    before = Path("other.db").read_bytes()
    assert lgm("threads", "--json", LANGGRAPH_MEMORY_DB_PATH="other.db").stdout == "[]\n"
    result = lgm("view", "t", LANGGRAPH_MEMORY_DB_PATH="other.db")
    assert str(result.exception).startswith("There is no thread 't': there are no threads at all.")
    assert Path("other.db").read_bytes() == before


def test_an_unknown_thread_is_named_with_the_nearest_ones():
    lgm("replay", write("task.jsonl", [("alpha", [user("u")]), ("beta", [user("u")])]))
    for name, nearest in (("task/alhpa", "'task/alpha'"), ("beta", "'task/beta'")):
        result = lgm("context", name)
        assert isinstance(result.exception, UnknownThreadError)
        assert f"There is no thread {name!r}. Nearest: {nearest}" in str(result.exception)
        assert "threads.db; `lgm threads` lists all" in str(result.exception)


def test_the_configuration_names_the_database():
    Path("c.json").write_text('{"persistence": {"thread_db": "deep/er/t.db"}}')
    lgm("replay", write("task.jsonl", [("a", long_task(1, 1))]), "--config", "c.json")
    assert [row["thread_id"] for row in lgm_json("threads", "--config", "c.json")] == ["task/a"]
    assert lgm_json("context", "task/a", "--config", "c.json")["messages"] == 4
    assert lgm_json("threads") == []


def test_a_database_in_the_home_folder_is_found(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LANGGRAPH_MEMORY_DB_PATH", "~/threads.db")
    lgm("replay", write("task.jsonl", [("a", long_task(1, 1))]))
    assert (tmp_path / "home" / "threads.db").exists()
    assert [row["thread_id"] for row in lgm_json("threads")] == ["task/a"]


# context


def test_the_parts_of_a_context_sum_to_its_total_and_with_reserve_and_free_to_the_window():
    lgm("replay", write("task.jsonl", [("a", long_task())]), "--window", SMALL)
    report = lgm_json("context", "task/a")
    assert report["thread_id"] == "task/a"
    assert sum(report["parts"].values()) == report["total"]
    assert report["total"] + report["reserve"] + report["free"] == report["window"] == SMALL
    assert report["messages"] == 42
    assert report["compacted"] > 0


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_bar_has_a_stretch_for_each_part_in_proportion(width):
    lgm("replay", write("task.jsonl", [("a", long_task())]), "--window", SMALL)
    report = lgm_json("context", "task/a")
    title, bar, *legend = lgm("context", "task/a", COLUMNS=str(width)).stdout.splitlines()
    assert title == f"task/a: {report['total']:,} of 2,500 tokens ({report['usage_ratio']:.0%})"
    assert len(bar) == min(100, width)
    assert abs(bar.count("·") - len(bar) * report["free"] / SMALL) <= 6
    shown = [line.split()[1:3] for line in legend if line[1] == " "]
    parts = {name: tokens for name, tokens in report["parts"].items() if tokens}
    sizes = {**parts, "reserve": report["reserve"], "free": report["free"]}
    assert shown == [[name, f"{tokens:,}"] for name, tokens in sizes.items() if tokens]


def test_the_bar_has_colours_only_where_they_are_wanted():
    lgm("replay", write("task.jsonl", [("a", long_task(1, 1))]))
    assert "\x1b[" not in lgm("context", "task/a").stdout
    assert "\x1b[7;32m" in lgm("context", "task/a", FORCE_COLOR="1", TERM="xterm-256color").stdout
    plain = lgm("context", "task/a", FORCE_COLOR="1", NO_COLOR="1", TERM="xterm-256color").stdout
    assert "32m" not in plain


# view


def test_a_view_says_where_each_message_comes_from():
    lgm("replay", write("task.jsonl", [("a", long_task())]), "--window", SMALL)
    first, *rest = lgm_json("view", "task/a")["messages"]
    assert (first["role"], first["from"], "position" in first) == ("human", "summary", False)
    assert first["text"].startswith("<conversation_summary")
    assert [message["position"] for message in rest] == list(range(42 - len(rest), 42))
    assert sum(message["tokens"] for message in (first, *rest)) == lgm_json("context", "task/a")["total"]


def test_pruned_and_synthetic_messages_are_marked():
    long, short = long_task(1, 5, 250), long_task(1, 5, 600)
    dangling = [*long[:1], *short[1:3], *long[3:7], *short[7:8], user("and now?")]
    Path("c.json").write_text('{"memory": {"pruning": {"protect_recent": 1, "min_reclaim_tokens": 0}}}')
    recording = [*dangling, {"role": "assistant", "content": "done"}]
    lgm("replay", write("task.jsonl", [("a", recording)]), "--config", "c.json")
    origins = {message.get("tool_call_id"): message["from"] for message in lgm_json("view", "task/a")["messages"]}
    assert origins["call-0-0"] == "cleared"
    assert origins["call-0-1"] == "trimmed"
    assert origins["call-0-3"] == "synthetic"
    shown = lgm("view", "task/a").stdout
    assert "tool · cleared · message 3" in shown
    assert "tool · synthetic" in shown


def test_a_view_shows_first_lines_unless_all_is_asked_for():
    lgm("replay", write("task.jsonl", [("a", [user("\n".join(f"line {i}" for i in range(50)))])]))
    short, full = lgm("view", "task/a").stdout, lgm("view", "task/a", "--full").stdout
    assert "line 5" in short and "line 6" not in short and "44 more lines" in short
    assert "line 49" in full and "more lines" not in full


def test_escape_sequences_in_messages_do_not_reach_the_terminal():
    lgm("replay", write("task.jsonl", [("a", [user("\x1b[2Jcleared\a")])]))
    assert "␛[2Jcleared" in lgm("view", "task/a").stdout
    assert lgm_json("view", "task/a")["messages"][0]["text"] == "\x1b[2Jcleared\a"


def test_markup_in_messages_and_names_is_shown_as_it_is():
    lgm("replay", write("task.jsonl", [("[red]x[/red]", [user("[bold]text[/nope]")])]))
    assert "[bold]text[/nope]" in lgm("view", "task/[red]x[/red]").stdout
    assert "[red]x[/red]" in lgm("threads").stdout
    assert "[red]x[/red]" in lgm("context", "task/[red]x[/red]").stdout


@pytest.mark.parametrize("channel", ["add", "delta"])
def test_a_view_and_a_context_can_be_those_of_an_earlier_checkpoint(channel):
    talk("one", "two", "three", channel=channel)
    second = [node for node in lgm_json("tree", "t") if not node["next"]][1]["checkpoint_id"]
    assert [message["text"] for message in lgm_json("view", "t", "--at", second)["messages"]] == [
        "one",
        "answer one",
        "two",
        "answer two",
    ]
    assert lgm_json("context", "t", "--at", second)["messages"] == 4
    unknown = lgm("view", "t", "--at", "nothing")
    assert isinstance(unknown.exception, UnknownCheckpointError)
    assert "tree THREAD` shows all" in str(unknown.exception)


def test_messages_that_have_left_the_state_count_in_the_places_of_those_that_are_in_it():
    settings = {"memory": {"context_window": 4000}, "persistence": {"state": "since_summary"}}

    async def main() -> None:
        async with MemoryMiddleware.open(settings) as memory:
            graph = node_graph(memory, Scripted(replies="fine " * 60), saver=memory.saver)
            for number in range(60):
                await graph.ainvoke(said(f"question {number} " + "word " * 60), {"configurable": {"thread_id": "t"}})

    asyncio.run(main())
    whole = [row["text"] for row in lgm_json("log", "t")]
    summary, *rest = lgm_json("view", "t")["messages"]
    assert len(whole) == 120 and summary["from"] == "summary"
    assert [message["position"] for message in rest] == list(range(120 - len(rest), 120))
    assert [message["text"] for message in rest] == whole[-len(rest) :]
    assert lgm_json("threads")[0]["messages"] == 120


# Threads of other graphs


@pytest.mark.parametrize("schema", [MessagesState, Delta])
def test_threads_without_memory_are_shown_as_they_are(schema):
    run(answering, [said(f"question {i}") for i in range(60)], schema=schema)
    assert lgm_json("threads")[0]["messages"] == 120
    report = lgm_json("context", "own")
    assert (report["messages"], report["view_messages"], report["compacted"]) == (120, 120, 0)
    assert report["window"] == 128_000
    view = lgm_json("view", "own")["messages"]
    assert [m["text"] for m in view][:3] == ["question 0", "answer 1", "question 1"]
    assert {m["from"] for m in view} == {"as it is"}


@pytest.mark.parametrize("odd", [{"from": "bob", "text": "hello"}, 5])
def test_what_another_graph_keeps_as_messages_and_is_none_hides_no_thread(odd):
    class Letters(dict[str, Any]):
        __annotations__ = {"messages": list}

    def writing(builder: Builder) -> None:
        builder.add_node("write", lambda state: {"messages": [odd]})
        builder.add_edge(START, "write")

    run(writing, [{"messages": [odd]}], schema=Letters, thread="odd")
    run(answering, [said("question")])
    assert {row["thread_id"]: row["messages"] for row in lgm_json("threads")} == {"odd": 0, "own": 2}
    for command in ("view", "log", "tree", "context"):
        assert lgm(command, "odd").exit_code == 0


def test_a_thread_without_messages_has_an_empty_view():
    class Counted(dict[str, Any]):
        __annotations__ = {"count": int}

    def counting(builder: Builder) -> None:
        builder.add_node("count", lambda state: {"count": state.get("count", 0) + 1})
        builder.add_edge(START, "count")

    run(counting, [{"count": 1}], schema=Counted)
    assert lgm_json("threads")[0]["messages"] == 0
    assert lgm_json("view", "own")["messages"] == []
    assert lgm_json("context", "own")["messages"] == 0
    assert lgm("view", "own").exit_code == 0


def test_a_record_of_a_newer_version_is_looked_at_as_if_there_were_none():
    def remembering(builder: Builder) -> None:
        builder.add_node("note", lambda _: {"memory_record": {"v": 99, "ns": {}}})
        builder.add_edge(START, "note")

    run(remembering, [said("hello")], schema=Delta)
    assert [message["text"] for message in lgm_json("view", "own")["messages"]] == ["hello"]
    assert lgm_json("context", "own")["messages"] == 1


def test_json_is_valid_however_narrow_the_terminal():
    lgm("replay", write("task.jsonl", [("a" * 100, [user("word " * 100)])]))
    name = "task/" + "a" * 100
    for command in (["threads"], ["context", name], ["view", name]):
        assert json.loads(lgm(*command, "--json", COLUMNS="20").stdout)


def test_no_id_of_a_thread_commands_the_terminal():
    name = "x\x1b[2J\x9b2J"

    def build(builder: Builder) -> None:
        builder.add_node("n", lambda _: {"messages": [("ai", "hello")]})
        builder.add_edge(START, "n")

    run(build, [{"messages": [("user", "hello")]}], thread=name)
    for command in (["threads"], ["context", name], ["log", name], ["tree", name], ["view", name]):
        result = lgm(*command)
        assert result.exit_code == 0, result.output
        assert "x␛[2J␛[2J" in result.output or command[0] not in ("threads", "context", "tree")
        assert not {"\x1b", "\x9b"} & set(result.output)
