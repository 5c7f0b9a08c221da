import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from typer.testing import CliRunner

from langgraph_memory.cli import app
from langgraph_memory.cli.errors import RecordingError, ThreadMismatchError
from langgraph_memory.cli.recordings import Recording, read_recordings
from langgraph_memory.cli.replay_table import unused
from tests.support.data import data_dir, needs_recordings

from .recorded import assistant, call, lgm, lgm_json, long_task, stored, talk, texts, tool, user, write

pytestmark = pytest.mark.slow

SMALL = 2500
"""A window in which `long_task` has to be compacted several times."""


def recorded_texts(path: Path, number: int = 0) -> list[object]:
    return texts(list(read_recordings(path))[number].messages)


def test_a_replay_ends_with_the_recorded_messages_and_figures_for_every_call():
    path = write("task.jsonl", [("a", long_task())])
    result = lgm_json("replay", path, "--window", SMALL)
    (row,) = result["rows"]
    assert texts(stored("task/a")) == recorded_texts(path)
    assert row | {"thread_id": "task/a", "file": "task.jsonl", "conversation": "a", "calls": 21, "messages": 42} == row
    assert (row["over"], row["invalid"], row["lost"], row["complete"], row["error"]) == (0, 0, 0, True, None)
    assert row["largest"] <= row["window"] == SMALL
    assert row["sent"] < row["raw"]
    assert row["summaries"] >= 2
    assert 0 < row["cached"] < row["sent"]
    assert result["total"] == {name: row[name] for name in result["total"]}


def test_the_table_has_a_row_a_conversation_and_a_total_and_what_is_said_beside_it_goes_to_stderr():
    path = write("task.jsonl", [("a", long_task(1)), ("b", long_task(2))])
    result = lgm("replay", path, "--window", SMALL)
    assert result.exit_code == 0
    assert [line.split()[:2] for line in result.stdout.splitlines()] == [
        ["thread", "calls"],
        ["task/a", "7"],
        ["task/b", "14"],
        ["total", "of"],
    ]
    assert "task/b: message" in result.stderr
    assert "compacted (extract)" in result.stderr
    for command in ("lgm context task/b", "lgm view task/b", "lgm replay task.jsonl --window 2500"):
        assert command in result.stderr


def test_without_a_model_it_is_said_once_that_summaries_are_extracted():
    stderr = lgm("replay", write("task.jsonl", [("a", long_task()), ("b", long_task())]), "--window", SMALL).stderr
    assert stderr.count("without a model") == 1
    assert "compaction_failed" not in stderr


def test_many_conversations_are_shown_a_row_a_file():
    files = [write(f"{name}.jsonl", [(f"c{i}", long_task(1, 1)) for i in range(11)]) for name in "ab"]
    lines = lgm("replay", *files).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["file", "a.jsonl", "b.jsonl", "total"]


@pytest.mark.parametrize("width", [20, 40, 60, 70, 80, 120, 200])
def test_the_table_keeps_its_names_and_numbers_in_a_narrow_terminal(width):
    result = lgm("replay", write("task.jsonl", [("a", long_task())]), "--window", SMALL, COLUMNS=str(width))
    assert all(len(line) <= width for line in result.stdout.splitlines()) or width == 20
    assert "task/a" in result.stdout
    assert "of 2,500" in result.stdout
    assert "…" not in result.stdout
    assert ("sum." in result.stdout) == ("sum. is summaries" in result.stderr)


@pytest.mark.parametrize("width", [70, 100, 130])
def test_a_name_that_is_long_is_folded_and_pushes_no_figure_out(width):
    path = write("task.jsonl", [("a" * 100, long_task(1, 1))])
    out = lgm("replay", path, "--window", SMALL, COLUMNS=str(width)).stdout
    assert out.count("a") >= 100
    assert "of 2,500" in out and "…" not in out


def test_the_summaries_are_written_by_the_model_that_is_named(monkeypatch):
    model = GenericFakeChatModel(messages=iter(AIMessage(f"## SUMMARY\nNumber {i}.") for i in range(100)))
    named: list[str] = []
    monkeypatch.setattr("langgraph_memory.models.init_chat_model", lambda name: named.append(name) or model)
    result = lgm("replay", write("task.jsonl", [("a", long_task())]), "--window", SMALL, "--model", "some:model")
    assert result.exit_code == 0
    assert named == ["some:model"]
    assert "compacted (summariser)" in result.stderr
    assert "without a model" not in result.stderr
    assert "## SUMMARY\\nNumber" in lgm("view", "task/a", "--json").stdout


def test_the_window_is_the_option_else_the_configuration_else_32000():
    path = write("task.jsonl", [("a", long_task(1, 1))])
    Path("c.json").write_text('{"memory": {"context_window": 5000}}')
    window = {
        name: lgm_json("replay", path, "--thread", name, *options)["total"]["window"]
        for name, options in {
            "option": ("--window", 6000, "--config", "c.json"),
            "configuration": ("--config", "c.json"),
            "default": (),
        }.items()
    }
    assert window == {"option": 6000, "configuration": 5000, "default": 32_000}


def test_a_thread_name_is_used_alone_for_one_conversation_and_as_a_prefix_for_several():
    one, two = (
        write("one.jsonl", [("a", long_task(1, 1))]),
        write("two.jsonl", [("a", [user("u")]), ("b", [user("u")])]),
    )
    assert [row["thread_id"] for row in lgm_json("replay", one, "--thread", "t")["rows"]] == ["t"]
    assert [row["thread_id"] for row in lgm_json("replay", two, "--thread", "t")["rows"]] == ["t/a", "t/b"]
    assert [row["thread_id"] for row in lgm_json("replay", two, "--limit", 1)["rows"]] == ["two/a"]


def test_a_thread_name_that_is_not_unicode_is_stored_as_text():
    lgm("replay", write("one.jsonl", [("a", [user("u")])]), "--thread", "t-\udcff")
    assert [row["thread_id"] for row in lgm_json("threads")] == ["t-\ufffd"]


ODD = {
    "begins with an assistant": [assistant("hello"), user("hi"), assistant("yes")],
    "begins with a call": [assistant("", call("c")), tool("c", "t"), user("hi"), assistant("yes")],
    "ends with a request": [{"role": "system", "content": "s"}, user("hi"), assistant("yes"), user("bye")],
    "ends with a result": [user("hi"), assistant("", call("c")), tool("c", "t")],
    "requests in a row": [user("one"), user("two"), user([{"type": "text", "text": "three"}]), assistant("yes")],
    "replies in a row": [user("one"), assistant("a"), assistant("b"), user("two"), assistant("c")],
    "unknown results": [user("u"), tool("x", "orphan"), assistant("a"), tool(None, "no id"), assistant("b")],
    "broken arguments": [user("u"), assistant("", call("c", "f", "{no")), tool("c", "bad"), assistant("a")],
    "no result": [user("u"), assistant("", call("c")), user("v"), assistant("a")],
    "late result": [user("u"), assistant("", call("c")), user("v"), tool("c", "late"), assistant("a")],
    "blank replies": [user("u"), assistant(""), assistant(None), user("v"), assistant("a")],
    "no request": [{"role": "system", "content": "s"}, assistant("a")],
    "calls without ids": [user("u"), assistant("", call(None)), tool(None, "t"), assistant("a")],
    "many results": [user("u"), assistant("", *map(call, "abc")), *(tool(c, c) for c in "cab"), assistant("a")],
}


def test_odd_recordings_are_replayed_as_they_are():
    path = write("odd.jsonl", list(ODD.items()))
    result = lgm_json("replay", path)
    assert len(result["rows"]) == len(ODD)
    for number, row in enumerate(result["rows"]):
        name = row["conversation"]
        assert texts(stored(row["thread_id"])) == recorded_texts(path, number), name
        assert (row["complete"], row["over"], row["invalid"], row["lost"]) == (True, 0, 0, 0), name
    again = lgm_json("replay", path)
    assert [row["resumed_at"] for row in again["rows"]] == [len(each.messages) for each in read_recordings(path)]
    assert again["total"] == result["total"]


def test_a_file_without_conversations_is_an_error_and_its_lines_are_noted():
    result = lgm("replay", write("raw.jsonl", [{"id": "x", "text": "t"}]))
    assert isinstance(result.exception, RecordingError)
    assert result.stderr.startswith("raw.jsonl:1: no messages")


def test_a_fault_in_the_last_file_stops_the_replay_before_its_beginning():
    Path("broken.jsonl").write_text('{"id": ')
    result = lgm("replay", write("task.jsonl", [("a", long_task(1, 1))]), "broken.jsonl")
    assert isinstance(result.exception, RecordingError)
    assert not Path("memory").exists()


def piped(*args: object, data: bytes) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "langgraph_memory", *map(str, args)]
    return subprocess.run(command, input=data, capture_output=True, timeout=60)


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_a_stream_is_replayed_though_it_can_be_read_only_once(name):
    data = write("task.jsonl", [("a", long_task(1, 1)), ("b", [user("u"), assistant("a")])]).read_bytes()
    result = piped("replay", name, "--json", data=data)
    assert result.returncode == 0, result.stderr
    assert [row["thread_id"] for row in json.loads(result.stdout)["rows"]] == ["stdin/a", "stdin/b"]
    assert texts(stored("stdin/a")) == recorded_texts(Path("task.jsonl"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
def test_a_named_pipe_is_replayed():
    data = write("task.jsonl", [("a", long_task(1, 1))]).read_bytes()
    os.mkfifo("pipe")
    writer = threading.Thread(target=Path("pipe").write_bytes, args=(data,))
    writer.start()
    assert lgm_json("replay", "pipe")["rows"][0]["complete"]
    writer.join()


def test_a_fault_in_a_stream_names_it_and_its_line():
    result = CliRunner().invoke(app, ["replay", "-"], input='{"messages": []}\n{"id": ')
    assert isinstance(result.exception, RecordingError)
    assert str(result.exception).startswith("stdin:2: not JSON")
    assert str(CliRunner().invoke(app, ["replay", "-"], input="").exception) == "No conversations to replay in stdin."


def test_a_file_that_changes_between_its_two_readings_is_an_error(monkeypatch):
    readings = iter([[Recording("a", Path("t.jsonl"), [])], []])
    monkeypatch.setattr("langgraph_memory.cli.replay_run.read_recordings", lambda *_, **__: iter(next(readings)))
    assert "has changed" in str(lgm("replay", "t.jsonl").exception)


def test_files_whose_conversations_would_share_a_thread_are_refused():
    Path("sub").mkdir()
    one, two = write("x.jsonl", [("a", [user("u")])]), write("sub/x.jsonl", [("a", [user("v")])])
    assert "x/a" in str(lgm("replay", one, two).exception)


def test_a_conversation_that_cannot_fit_is_stopped_and_the_others_go_on():
    huge = [{"role": "system", "content": "word " * 3000}, user("u"), assistant("a")]
    path = write("task.jsonl", [("huge", huge), ("b", long_task(1, 1))])
    result = lgm("replay", path, "--window", SMALL)
    assert result.exit_code == 1
    assert "task/huge (stopped)" in result.stdout
    assert "task/huge: stopped: " in result.stderr, result.stderr
    assert texts(stored("task/b")) == recorded_texts(path, 1)
    row = lgm_json("replay", "task.jsonl", "--window", SMALL)["rows"][0]
    assert (row["complete"], row["messages"], row["calls"]) == (False, 2, 0)
    # With room enough the same thread goes on.
    assert lgm_json("replay", "task.jsonl", "--window", 20_000)["rows"][0]["complete"] is True


def test_a_finished_thread_is_reported_with_the_figures_of_its_run():
    path = write("task.jsonl", [("a", long_task())])
    first = lgm_json("replay", path, "--window", SMALL)
    again = lgm("replay", path, "--window", SMALL, "--json")
    assert json.loads(again.stdout)["total"] == first["total"]
    assert "task/a: already complete (42 messages)" in again.stderr
    assert "it ran with" not in again.stderr


def test_a_result_of_any_size_stays_as_recorded_so_the_thread_is_known_again():
    messages = [user("look"), assistant("", call("c")), tool("c", "row of data\n" * 20_000), assistant("seen")]
    write("big.jsonl", [("big", messages)])
    first = lgm_json("replay", "big.jsonl", "--window", "8000")
    again = lgm_json("replay", "big.jsonl", "--window", "8000")
    assert first["total"] == again["total"]
    assert again["rows"][0]["complete"]


def test_a_finished_thread_under_another_window_is_said_to_have_kept_its_figures():
    path = write("task.jsonl", [("a", long_task()), ("b", [user("u"), assistant("a")])])
    lgm("replay", path, "--window", SMALL, "--limit", 1)
    result = lgm("replay", path, "--window", 20_000)
    said = [line for line in result.stderr.splitlines() if "it ran with" in line]
    assert [line.split(":")[0] for line in said] == ["task/a"]
    assert "2,500" in said[0] and "20,000" in said[0]


def test_the_hints_name_only_what_is_left_to_do_and_a_thread_that_does_not_exist():
    path = write("task.jsonl", [("a", long_task(1, 1))])
    shown = [lgm("replay", path, *options).stderr for options in ([], ["--thread", "task/a-2"], [])]
    assert all("Go on:" not in stderr for stderr in shown)
    names = [re.search(r"^Anew: .*--thread (\S+)$", stderr, re.MULTILINE)[1] for stderr in shown]
    assert names == ["task/a-2", "task/a-3", "task/a-3"]
    huge = [{"role": "system", "content": "word " * 3000}, user("u"), assistant("a")]
    stopped = lgm("replay", write("huge.jsonl", [("a", huge)]), "--window", SMALL)
    assert "Go on:    lgm replay huge.jsonl --window 2500 --thread huge/a" in stopped.stderr


@pytest.mark.parametrize(
    ("threads", "free"),
    [
        ([], "t-2"),
        (["t-2"], "t-3"),
        (["t-2/a", "t-3"], "t-4"),
        (["t-22"], "t-2"),
    ],
)
def test_an_unused_name_is_that_of_no_thread_and_no_group_of_threads(threads, free):
    assert unused("t", threads) == free


def test_a_recording_that_has_grown_goes_on():
    messages = long_task()
    lgm_json("replay", write("task.jsonl", [("a", messages[:25])]), "--window", SMALL)
    result = lgm("replay", write("task.jsonl", [("a", messages)]), "--window", SMALL, "--json")
    assert "task/a: goes on at message 25 of 42" in result.stderr
    grown = json.loads(result.stdout)["total"]
    assert grown == lgm_json("replay", "task.jsonl", "--window", SMALL, "--thread", "whole")["total"]


@pytest.mark.parametrize("other", [long_task()[:-1], [user("something else")], [*long_task()[:5], user("x")]])
def test_another_recording_under_the_name_of_a_thread_is_refused(other):
    lgm_json("replay", write("task.jsonl", [("a", long_task())]))
    result = lgm("replay", write("task.jsonl", [("a", other)]))
    assert isinstance(result.exception, ThreadMismatchError)
    assert "'task/a' holds another conversation" in str(result.exception)


def test_a_thread_whose_messages_are_kept_in_another_way_is_refused_and_can_be_read():
    talk("one", "two", thread="t", channel="delta", kind=AsyncSqliteSaver)
    result = lgm("replay", write("task.jsonl", [("a", [user("one")])]), "--thread", "t")
    assert isinstance(result.exception, ThreadMismatchError) and "--thread" in str(result.exception)
    assert texts(stored("t")) == ["one", "answer one", "two", "answer two"]


def test_a_rewound_replay_goes_on_as_if_it_had_not_been_played_before():
    path = write("task.jsonl", [("a", long_task())])
    whole = lgm_json("replay", path, "--window", SMALL)["total"]
    lgm("rewind", "task/a", "--turns", 2)
    result = lgm("replay", path, "--window", SMALL, "--json")
    assert "task/a: goes on at message 14 of 42" in result.stderr
    assert json.loads(result.stdout)["total"] == whole


def test_a_replay_keeps_every_message_in_the_state_whatever_the_configuration_says():
    Path("c.json").write_text('{"persistence": {"state": "since_summary"}}')
    path = write("task.jsonl", [("a", long_task())])
    assert lgm_json("replay", path, "--window", SMALL, "--config", "c.json")["rows"][0]["complete"]


def test_a_task_that_had_finished_but_was_not_checkpointed_is_continued():
    path = write("task.jsonl", [("a", long_task())])
    whole = lgm_json("replay", path, "--window", SMALL)["total"]
    with sqlite3.connect("memory/threads.db") as database:
        newest = database.execute("SELECT checkpoint_id FROM checkpoints ORDER BY 1 DESC LIMIT 5").fetchall()
        for row in newest:
            database.execute("DELETE FROM checkpoints WHERE checkpoint_id = ?", row)
            database.execute("DELETE FROM writes WHERE checkpoint_id = ?", row)
    database.close()
    again = lgm_json("replay", path, "--window", SMALL)
    assert 0 < again["rows"][0]["resumed_at"] < 42
    assert again["total"] == whole
    assert texts(stored("task/a")) == recorded_texts(path)


def started(*args: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "langgraph_memory", *map(str, args)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_checkpoints(process: subprocess.Popen[str], number: int) -> None:
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if checkpoints() >= number:
            return
        time.sleep(0.005)
    raise AssertionError(f"the replay ended before it could be stopped: {process.communicate()}")


def checkpoints() -> int:
    if not Path("memory/threads.db").exists():
        return 0
    database = sqlite3.connect("memory/threads.db")
    try:
        return int(database.execute("SELECT COUNT(*) FROM checkpoints").fetchone()[0])
    except sqlite3.OperationalError:
        return 0
    finally:
        database.close()


@pytest.mark.slow
def test_a_replay_that_is_killed_and_started_again_ends_like_an_unbroken_one():
    path = write("task.jsonl", [("a", long_task(8))])
    for number in (30, 90):
        process = started("replay", path, "--window", SMALL, "--thread", "killed")
        wait_for_checkpoints(process, number)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    process = started("replay", path, "--window", SMALL, "--thread", "killed", "--json")
    out, err = process.communicate()
    assert "killed: goes on at message" in err
    assert process.returncode == 0, err
    assert texts(stored("killed")) == recorded_texts(path)
    assert json.loads(out)["total"] == lgm_json("replay", path, "--window", SMALL, "--thread", "whole")["total"]


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_is_one_line_and_exit_code_130():
    process = started("replay", write("task.jsonl", [("a", long_task(200))]), "--window", SMALL)
    wait_for_checkpoints(process, 20)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1].startswith("Interrupted. What was stored stays stored; go on with: ")
    assert err.endswith(" -m langgraph_memory replay task.jsonl --window 2500\n")
    assert "Traceback" not in err


def test_nothing_is_written_but_the_database():
    path = write("task.jsonl", [("a", long_task())])
    lgm("replay", path, "--window", SMALL)
    lgm("view", "task/a")
    files = {file.as_posix() for file in Path().rglob("*") if file.is_file()}
    upkeep = {"memory/.maintained", "memory/.maintaining"}
    assert files - {"memory/cache.db"} - upkeep == {"task.jsonl", "memory/threads.db"}


@needs_recordings
def test_recorded_agents_fit_into_a_small_window():
    folder = data_dir()
    assert folder is not None
    result = lgm_json("replay", folder / "open" / "misc_agents.jsonl", "--window", 8000)
    total = result["total"]
    assert (total["conversations"], total["messages"], total["calls"]) == (3, 50, 23)
    assert (total["over"], total["invalid"], total["lost"]) == (0, 0, 0)
    assert total["largest"] <= 8000
