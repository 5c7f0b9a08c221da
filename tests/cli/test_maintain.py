import asyncio
import json
import os
import pty
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from langgraph_memory import MemoryMiddleware
from langgraph_memory.cli.errors import DatabaseUnusableError, MemoryMissingError
from langgraph_memory.errors import ConfigError
from langgraph_memory.longterm import flushed
from langgraph_memory.longterm.keeper import Keeper
from langgraph_memory.sessions import SessionLog
from langgraph_memory.upkeep import LOCK
from tests.support.models import Scripted

from .recorded import lgm, lgm_json, talk

WORKSPACE = Path("memory")
STEPS = ["flush", "consolidate", "ledgers", "sessions", "versions", "index"]
OLD = datetime.now() - timedelta(days=400)


def keeper(user: str = "ada") -> Keeper:
    return Keeper(WORKSPACE, (user,))


def of(rows: list[Any], step: str, memory: str | None = "ada") -> tuple[int, str]:
    (row,) = [row for row in rows if (row["step"], row["memory"]) == (step, memory)]
    return row["count"], row["problem"]


def test_each_step_is_told_for_each_memory_and_then_for_all():
    talk("one")
    for user in ("ada", "Bob@example.com"):
        keeper(user).append(["x is so"])
    rows = lgm_json("maintain")
    memories = sorted({row["memory"] for row in rows if row["memory"]})
    assert memories[0] == "ada" and memories[1].startswith("bob-example-com~")
    assert [(row["memory"], row["step"]) for row in rows] == [
        *((name, step) for name in memories for step in STEPS),
        (None, "spills"),
        (None, "threads"),
    ]
    assert of(rows, "consolidate") == (1, "")
    table = lgm("maintain").stdout.splitlines()
    assert table[0].split() == ["memory", "step", "count", "problem"] and len(table) == len(rows) + 1


def test_what_waits_is_done_and_what_is_old_is_put_away():
    talk("one")
    keeper().append([{"text": "Ada moved to Lisbon.", "timestamp": OLD}, "Ada likes tea."])
    log = SessionLog(keeper().folder.path, "t")
    log.append([])
    os.utime(log.path, (OLD.timestamp(), OLD.timestamp()))
    rows = lgm_json("maintain")
    assert [of(rows, step)[0] for step in STEPS] == [0, 2, 1, 1, 0, 0]
    assert "Ada moved to Lisbon." in keeper().memory_md()
    assert (keeper().folder.path / f"memory/archive/{OLD.date()}.md").is_file() and not log.path.exists()
    assert {hit["path"] for hit in lgm_json("search", "Lisbon")} <= {
        "MEMORY.md",
        f"memory/archive/{OLD.date()}.md",
    }


def test_what_was_due_is_flushed_from_the_thread():
    talk("I prefer dark mode in every editor.")
    keeper().append(["x is so"])
    with keeper().writing() as db:
        flushed.set_due(db, "t", "q I prefer dark mode in every editor.", reason="turn", now=0.0)
    assert of(lgm_json("maintain"), "flush") == (1, "")
    assert any("dark mode" in row.entry.text for row in keeper().ledger())
    assert lgm_json("memory", "status")["due"] == []


def test_the_interval_of_consolidation_holds_unless_it_is_forced():
    keeper().append(["one is so"])
    lgm("maintain")
    keeper().append(["two is so"])
    assert of(lgm_json("maintain"), "consolidate")[0] == 0
    assert of(lgm_json("maintain", "--force"), "consolidate") == (1, "")


def test_another_process_that_is_at_it_is_left_alone():
    keeper().append(["x is so"])
    lock = FileLock(WORKSPACE / LOCK)
    with lock:
        result = lgm("maintain")
        assert (result.exit_code, result.stdout) == (0, "") and "Another process" in result.stderr
        assert lgm_json("maintain") == []
    assert keeper().memory_md() == ""
    assert of(lgm_json("maintain"), "consolidate") == (1, "")


def test_it_works_while_an_agent_has_the_memory_open():
    keeper().append(["x is so"])

    async def main() -> subprocess.CompletedProcess[bytes]:
        async with MemoryMiddleware.open({"memory": {"maintenance": {"interval_hours": 0}}}, model=Scripted()):
            command = [sys.executable, "-m", "langgraph_memory", "maintain", "--json"]
            return await asyncio.to_thread(subprocess.run, command, capture_output=True)

    done = asyncio.run(main())
    assert done.returncode == 0, done.stderr
    assert of(json.loads(done.stdout), "consolidate") == (1, "")


def test_without_a_database_none_is_made_and_spill_files_stay():
    keeper().append(["x is so"])
    spilled = WORKSPACE / "spill/ab/abc.txt"
    spilled.parent.mkdir(parents=True)
    spilled.write_text("long", encoding="utf-8")
    os.utime(spilled, (OLD.timestamp(), OLD.timestamp()))
    rows = lgm_json("maintain")
    assert of(rows, "spills", None) == (0, "not all threads are known")
    assert spilled.exists() and not (WORKSPACE / "threads.db").exists()


def test_a_database_of_the_plain_saver_stays_one():
    talk("one", kind=AsyncSqliteSaver)
    keeper().append(["x is so"])
    before = (WORKSPACE / "threads.db").read_bytes()
    assert of(lgm_json("maintain"), "consolidate") == (1, "")
    assert (WORKSPACE / "threads.db").read_bytes() == before


def test_a_damaged_index_is_made_anew_and_told():
    keeper().append(["x is so"])
    (WORKSPACE / "ada/index.db").write_bytes(b"no database at all" * 500)
    for left in WORKSPACE.glob("ada/index.db-*"):
        left.unlink()
    assert lgm("maintain").exit_code == 0
    assert lgm_json("memory", "status")["index"] == {"exists": True, "behind": [], "problems": []}
    assert lgm_json("search", "x is so")[0]["memory"] == "ada"


def test_without_a_workspace_the_error_says_where_it_looked_and_nothing_is_made():
    error = lgm("maintain", LANGGRAPH_MEMORY_WORKSPACE="some/where").exception
    assert isinstance(error, MemoryMissingError) and str(error).startswith("some/where: ")
    assert list(Path().iterdir()) == []


def test_what_cannot_be_used_is_an_error():
    keeper().append(["x is so"])
    (WORKSPACE / "threads.db").write_text("no database at all" * 500, encoding="utf-8")
    assert isinstance(lgm("maintain").exception, DatabaseUnusableError)
    Path("runtime.json").write_text('{"memory": {"consolidation": {"model": "nothing:x"}}}', encoding="utf-8")
    (WORKSPACE / "threads.db").unlink()
    error = lgm("maintain").exception
    assert isinstance(error, ConfigError) and "memory.consolidation.model" in str(error)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo terminals")
def test_progress_is_drawn_on_a_terminal_and_data_goes_to_stdout_alone():
    keeper().append(["x is so"])
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "langgraph_memory", "maintain", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=slave, env={**os.environ, "TERM": "xterm"})
    os.close(slave)
    drawn = os.read(master, 100_000).decode(errors="replace")
    os.close(master)
    assert done.returncode == 0 and of(json.loads(done.stdout), "consolidate") == (1, "")
    assert "/8" in drawn
