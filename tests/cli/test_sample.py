import sqlite3
from collections import Counter

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langgraph_memory.cli import sample
from langgraph_memory.cli.errors import ThreadMismatchError

from .recorded import lgm, lgm_json, long_task, stored, texts, write

pytestmark = pytest.mark.slow


def test_the_sample_makes_the_memory_prune_and_compact():
    result = lgm("replay")
    assert result.exit_code == 0, result.output
    assert result.stderr.count(": compacted (extract)") >= 3
    assert ": pruned, " in result.stderr
    messages = stored("sample")
    assert sum(isinstance(message, HumanMessage) for message in messages) == len(sample.REQUESTS) + 1
    used = Counter(message.name for message in messages if isinstance(message, ToolMessage))
    assert used.keys() == {"list_files", "grep", "read", "recall"}
    calls = [message for message in messages if isinstance(message, AIMessage)]
    assert 40 <= len(calls) <= 120
    assert calls[-1].text == f"Your first question was: {sample.REQUESTS[0][0]}"
    assert all(message.id for message in messages)
    for command in ("lgm context sample", "lgm view sample", "lgm replay --thread sample-2"):
        assert command in result.stderr


def test_a_second_run_reports_and_runs_nothing():
    first = lgm_json("replay")
    before = texts(stored("sample"))
    result = lgm("replay", "--json")
    assert "sample: already complete" in result.stderr
    assert lgm_json("replay")["total"] == first["total"]
    assert texts(stored("sample")) == before
    (row,) = first["rows"]
    assert (row["thread_id"], row["window"], row["complete"]) == ("sample", sample.SAMPLE_WINDOW, True)
    assert (row["over"], row["invalid"], row["lost"]) == (0, 0, 0)
    assert row["largest"] <= row["window"]


@pytest.mark.slow
def test_a_sample_that_was_stopped_goes_on_and_ends_like_an_unbroken_one():
    whole = lgm_json("replay", "--thread", "whole")["total"]
    lgm_json("replay")
    database = sqlite3.connect("memory/threads.db")
    with database:
        (half,) = database.execute("SELECT COUNT(*) / 2 FROM checkpoints WHERE thread_id = 'sample'").fetchone()
        newest = "SELECT checkpoint_id FROM checkpoints WHERE thread_id = 'sample' ORDER BY 1 DESC LIMIT ?"
        for row in database.execute(newest, (half,)).fetchall():
            database.execute("DELETE FROM checkpoints WHERE checkpoint_id = ?", row)
            database.execute("DELETE FROM writes WHERE checkpoint_id = ?", row)
    database.close()
    result = lgm("replay", "--json")
    assert "sample: goes on at message" in result.stderr
    assert lgm_json("replay")["total"] == whole
    assert texts(stored("sample")) == texts(stored("whole"))


def test_a_sample_of_an_older_source_goes_on(monkeypatch, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "old.py").write_text("def pair():\n    unanswered = 1\n" * 100)
    monkeypatch.setattr(sample, "ROOT", source)
    monkeypatch.setattr(sample, "REQUESTS", sample.REQUESTS[:2])
    assert lgm_json("replay")["rows"][0]["complete"]
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    asked = sum(isinstance(message, HumanMessage) for message in stored("sample"))
    result = lgm_json("replay")
    assert result["rows"][0]["complete"]
    assert asked == 3
    assert sum(isinstance(message, HumanMessage) for message in stored("sample")) == len(sample.REQUESTS) + 1


def test_a_thread_that_is_not_the_sample_is_refused():
    lgm("replay", write("task.jsonl", [("a", long_task(1, 1))]), "--thread", "sample")
    assert isinstance(lgm("replay").exception, ThreadMismatchError)


def test_the_tools_stay_within_the_package():
    assert "there is no file" in sample.read.invoke({"path": "../pyproject.toml"})
    assert "there is no file" in sample.read.invoke({"path": "/etc/passwd"})
    assert sample.read.invoke({"path": "errors.py", "start": 1, "lines": 1}).startswith('   1 """The errors')
    assert "sample.py" not in sample.list_files.invoke({})
    assert sample.grep.invoke({"pattern": "no such [w]ord anywhere"}) == "no match"
