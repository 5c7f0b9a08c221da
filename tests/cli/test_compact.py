import asyncio
import shutil
import sqlite3
from contextlib import chdir, closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from langgraph_memory import MemoryMiddleware
from langgraph_memory.cli import compact as command
from langgraph_memory.cli import models
from langgraph_memory.errors import ThreadBusyError, UnknownThreadError
from tests.support.graphs import configured, grab, looping, node_graph
from tests.support.models import GOOD, Scripted, summariser

from .recorded import lgm, lgm_json, long_task, talk, write
from .test_threads import asking, run, said

SMALL = 6000


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a thread of a replay."""
    folder = tmp_path_factory.mktemp("replayed")
    with chdir(folder):
        lgm("replay", write("task.jsonl", [("a", long_task())]), "--window", "32000")
    return folder


@pytest.fixture
def task(replayed: Path) -> str:
    """A thread that has no summary yet."""
    shutil.copytree(replayed, Path(), dirs_exist_ok=True)
    return "task/a"


@pytest.fixture
def side(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """What every named model is."""
    model = summariser()
    monkeypatch.setattr(models, "resolve_model", lambda name, key: model if name else None)
    monkeypatch.setattr("langgraph_memory.cli.compacting.resolve_model", lambda name, key: model if name else None)
    return model


def contents() -> dict[str, Any]:
    """Every file of the folder, and every row of the database."""
    files = {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    with closing(sqlite3.connect("memory/threads.db")) as db:
        return {**files, "rows": db.execute("SELECT * FROM checkpoints").fetchall()}


def test_a_dry_run_says_what_would_be_done_and_does_nothing(task, side):
    before = contents()
    plan = lgm_json("compact", task, "--dry-run", "--model", "any:thing")
    assert contents() == before and side.requests == []
    assert (plan["applied"], plan["covered_before"], plan["rung"]) == (False, 0, "summariser")
    assert 0 < plan["covered"] < 42 and plan["boundary"] and len(plan["digest"]) == 32
    assert plan["after"]["total"] < plan["before"]["total"]
    assert plan["prompts"]["calls"] == 1 and plan["prompts"]["input_tokens"] > 1000 and plan["prompts"]["exact"]
    drawn = lgm("compact", task, "--dry-run", "--model", "any:thing").stdout
    assert "would cover messages 1–" in drawn and "one call of any:thing:" in drawn and "at most" in drawn


def test_what_is_done_is_what_the_dry_run_said(task, side):
    plan = lgm_json("compact", task, "--dry-run", "--model", "any:thing")
    done = lgm_json("compact", task, "--model", "any:thing")
    assert done["applied"] and len(side.requests) == 1
    assert [done[name] for name in ("covered", "boundary", "digest", "pinned")] == [
        plan[name] for name in ("covered", "boundary", "digest", "pinned")
    ]
    assert done["after"]["total"] <= plan["after"]["total"]
    assert lgm_json("context", task)["total"] == done["after"]["total"]
    view = lgm_json("view", task)["messages"]
    assert GOOD.splitlines()[-1] in view[0]["text"]
    assert f"summary of messages 1–{done['covered']}, bought from scripted on" in view[0]["why"]
    # All that was said is still there, and the way back too.
    assert len(lgm_json("log", task)) == 42 and lgm_json("threads")[0]["branches"] == 1
    assert lgm_json("tree", task)[-1]["reason"] == "compact"


def test_a_summary_that_was_bought_is_not_paid_for_again(task, side):
    before = lgm_json("tree", task)[-1]["checkpoint_id"]
    lgm("compact", task, "--model", "any:thing")
    lgm("rewind", task, before)
    plan = lgm_json("compact", task, "--dry-run", "--model", "any:thing")
    assert (plan["rung"], plan["prompts"]) == ("bought before", None)
    assert "nothing is paid" in lgm("compact", task, "--dry-run", "--model", "any:thing").stdout
    assert lgm_json("compact", task, "--model", "any:thing")["rung"] == "bought before"
    assert len(side.requests) == 1
    # A focus asks for a new one.
    assert lgm_json("compact", task, "--dry-run", "--model", "any:thing", "--focus", "tides")["covered_before"] > 0


def test_a_focus_is_part_of_the_prompt(task, side):
    lgm("compact", task, "--model", "any:thing", "--focus", "the tides")
    assert "the tides" in side.requests[0].text


def test_without_a_model_a_summary_is_extracted(task):
    plan = lgm_json("compact", task, "--dry-run")
    done = lgm_json("compact", task)
    assert (plan["rung"], done["rung"], plan["prompts"]) == ("extract", "extract", None)
    assert done["after"]["total"] == plan["after"]["total"]
    assert "extracted without a model" in lgm_json("view", task)["messages"][0]["why"]
    again = lgm("compact", task)
    assert again.exit_code == 0


def test_the_sizes_and_the_model_of_the_thread_stay_what_its_agent_made_them(side):
    model = Scripted(replies=looping(3), model_name="the-agent", usage=lambda request: 1000)

    async def main() -> None:
        settings = configured({"context_window": SMALL, "flush.trigger": "never"})
        async with MemoryMiddleware.open(settings) as memory:
            graph = node_graph(memory, model, tools=[grab(2000)], system="be kind " * 30, saver=memory.saver)
            await graph.ainvoke(said("go"), {"configurable": {"thread_id": "t", "user_id": "ada"}})

    asyncio.run(main())
    before = lgm_json("context", "t")
    lgm("compact", "t", "--model", "any:thing")
    after = lgm_json("context", "t")
    assert after["window"] == SMALL and after["parts"]["system"] > 30 and after["compacted"] > 0
    assert after["counter"] == before["counter"]
    with closing(sqlite3.connect("memory/threads.db")) as db:
        assert any(b"the-agent" in row[0] for row in db.execute("SELECT data FROM lgm_items"))
        assert not any(b'"model":"scripted"' in row[0] for row in db.execute("SELECT data FROM lgm_items"))
    assert list(Path("memory/ada/sessions").iterdir()), "messages are logged before they are covered"


def test_a_thread_with_something_to_run_is_refused_before_anything_is_bought(side):
    run(asking, [said("one")], thread="t")
    for options in ([], ["--dry-run"]):
        result = lgm("compact", "t", "--model", "any:thing", *options)
        assert isinstance(result.exception, ThreadBusyError)
    assert side.requests == []


def test_an_unknown_thread_is_named(task):
    result = lgm("compact", "task/b")
    assert isinstance(result.exception, UnknownThreadError) and "'task/a'" in str(result.exception)


def test_a_thread_without_memory_in_a_file_of_the_plain_saver_is_compacted_too(monkeypatch):
    Path("runtime.json").write_text('{"memory": {"context_window": 2000}}')
    talk(*(f"question {number} " + "word " * 60 for number in range(12)), kind=AsyncSqliteSaver)
    done = lgm_json("compact", "t")
    assert done["covered"] > 0 and lgm_json("context", "t")["compacted"] == done["covered"]
    assert len(lgm_json("log", "t")) == 24
    with closing(sqlite3.connect("memory/threads.db")) as db:
        assert {row[0] for row in db.execute("SELECT DISTINCT type FROM checkpoints")} == {"msgpack"}


def test_nothing_to_compact_is_said(monkeypatch):
    talk("one")
    assert "nothing to compact" in lgm("compact", "t").stdout
    assert command.compact.__doc__ and len(lgm_json("tree", "t")) == 3
