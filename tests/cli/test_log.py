import json
from datetime import UTC, datetime, timedelta

import pytest

from langgraph_memory.errors import UnknownThreadError

from .recorded import assistant, call, lgm, lgm_json, long_task, stored, talk, texts, tool, user, write


def numbers(*options: object) -> list[int]:
    return [row["position"] for row in lgm_json("log", "t", *options)]


def test_a_log_has_every_message_also_those_a_summary_covers():
    lgm("replay", write("task.jsonl", [("a", long_task())]), "--window", 2500)
    rows = lgm_json("log", "task/a")
    assert [row["text"] for row in rows] == texts(stored("task/a"))
    assert [row["position"] for row in rows] == list(range(42))
    assert rows[1]["tool_calls"] == [{"id": "call-0-0", "name": "look", "args": {"step": 0}}]
    assert (rows[2]["role"], rows[2]["tool_call_id"]) == ("tool", "call-0-0")
    assert lgm_json("context", "task/a")["compacted"] > 0


def test_a_log_is_markdown_under_the_numbers_of_the_thread_and_the_times_of_the_messages():
    talk("one", "two")
    lines = lgm("log", "t", "-n", 1).stdout.splitlines()
    created = lgm_json("log", "t")[-1]["created"][:19].replace("T", " ")
    assert lines == [f"## 4. ai · `a two 3` · {created}", "", "```", "answer two", "```"]
    assert lgm("log", "t").stdout.count("\n## ") == 3


def test_the_newest_are_taken_of_those_that_hold_the_words_and_are_new_enough():
    talk("apple pie", "apple tart", "plum pie")
    assert numbers("-n", 2) == [4, 5]
    assert numbers("-q", "pie APPLE") == [0, 1]
    assert numbers("-q", "pie", "-n", 1) == [5]
    assert numbers("-q", "!!") == []
    assert numbers("--since", "2h") == list(range(6))
    assert numbers("--since", (datetime.now(UTC) + timedelta(hours=1)).isoformat()) == []
    assert "None of the 6 messages of t" in lgm("log", "t", "-q", "cherry").stderr


def test_a_message_is_as_old_as_the_checkpoint_it_came_with_also_after_a_rewind():
    talk("one", "two", "three")
    before = lgm_json("log", "t")
    lgm("rewind", "t", "--turns", 1)
    talk("else")
    after = lgm_json("log", "t")
    assert after[:4] == before[:4]
    assert after[4]["created"] > before[-1]["created"]
    assert numbers("--since", after[4]["created"]) == [4, 5]


@pytest.mark.parametrize("when", ["yesterday", "2h ago", "2026-13-01", ""])
def test_a_time_that_is_none_is_wrong_use_and_says_what_is_allowed(when):
    talk("one")
    result = lgm("log", "t", "--since", when)
    assert result.exit_code == 2
    assert repr(when) in result.output and "allowed" in result.output


@pytest.mark.parametrize("when", ["2026-03-31", "2026-03-31T12:00", "2026-03-31T12:00:00+02:00", "90m", "3d", "1w"])
def test_a_time_is_a_date_or_so_long_ago(when):
    talk("one")
    assert lgm("log", "t", "--since", when).exit_code == 0


@pytest.mark.parametrize("width", [30, 80, 160])
def test_a_short_log_is_a_line_a_message_with_its_calls(width):
    messages = [user("line one\nline two " * 50), assistant("", call("c", "look", '{"at": "x"}')), tool("c", "seen")]
    lgm("replay", write("task.jsonl", [("a", [*messages, assistant("done")])]))
    lines = lgm("log", "task/a", "-s", COLUMNS=str(width)).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2", "3", "4"]
    assert [line.split()[3] for line in lines] == ["human", "ai", "tool", "ai"]
    assert all(len(line) <= max(width, 50) for line in lines)
    assert '→ look({"at": "x"})' in lines[1] or width == 30


def test_escape_sequences_of_messages_do_not_reach_the_terminal():
    lgm("replay", write("t.jsonl", [("a", [user("\x1b[2Jcleared [bold]x[/bold]")])]))
    for options in ([], ["-s"]):
        out = lgm("log", "t/a", *options, FORCE_COLOR="1", TERM="xterm-256color").stdout
        assert "\x1b[2J" not in out and "[bold]x[/bold]" in out
    assert json.loads(lgm("log", "t/a", "--json").stdout)[0]["text"].startswith("\x1b[2J")


def test_a_thread_that_is_not_there_is_named():
    talk("one")
    result = lgm("log", "tt")
    assert isinstance(result.exception, UnknownThreadError)
    assert "'tt'. Nearest: 't'" in str(result.exception)
