import asyncio
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from langgraph_memory import ThreadQueue, ThreadSaver, Workspace
from langgraph_memory.cache import FileCache
from tests.support.processes import as_nobody, done

from .recorded import lgm, lgm_json, talk
from .test_threads import asking, run, said


def traces(folder: Path = Path()) -> dict[str, tuple[bytes, int]]:
    """Every file with its content and the time it was changed; SQLite's own shared memory changes with every reader."""
    return {
        str(path): (b"" if path.name.endswith("-shm") else path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith("-shm")
    }


def remember(*texts: str) -> None:
    async def main() -> None:
        await Workspace("memory", ("ada",)).append(list(texts))

    asyncio.run(main())


def looked() -> Any:
    before = traces()
    found = lgm_json("status")
    assert traces() == before
    return found


def test_where_nothing_is_nothing_is_made():
    found = looked()
    assert not any(found[name]["exists"] for name in ("database", "cache", "workspace", "spill"))
    assert (found["memories"], found["configured"], found["config_file"]) == ([], {}, None)
    assert "not there yet" in lgm("status").stdout and list(Path().iterdir()) == []


def test_it_counts_what_there_is_and_touches_nothing():
    talk("one", "two")
    talk("three", thread="u")
    remember("The pier is closed on Mondays.")
    FileCache("memory/cache.db").put("d", "text")
    Path("memory/spill/aa").mkdir(parents=True)
    Path("memory/spill/aa/x.txt").write_text("x" * 100)
    found = looked()
    database = found["database"]
    assert (database["threads"], database["messages"], database["version"]) == (2, 6, 2)
    assert database["checkpoints"] == sum(row["checkpoints"] for row in lgm_json("threads"))
    assert database["made_by"] == "langgraph_memory" and database["bytes"] > 1000 and database["waiting"] == []
    assert (found["cache"]["summaries"], found["spill"]["bytes"]) == (1, 100)
    [memory] = found["memories"]
    assert (memory["memory"], memory["indexed"], memory["behind"], memory["problem"]) == ("ada", True, [], None)


def test_a_file_of_the_plain_saver_stays_one():
    talk("one", kind=AsyncSqliteSaver)
    database = looked()["database"]
    assert (database["made_by"], database["version"], database["index"]) == ("langgraph", None, None)
    assert (database["threads"], database["messages"]) == (1, 2)


def test_the_index_of_threads_is_made_behind_or_in_step():
    talk("one")
    assert looked()["database"]["index"].startswith("not made yet")
    lgm("search", "one", "--threads")
    assert looked()["database"]["index"] == "in step"
    talk("two")
    assert looked()["database"]["index"].startswith("behind by 2 messages")


def test_a_memory_whose_files_were_edited_is_behind():
    remember("The pier is closed on Mondays.")
    Path("memory/ada/MEMORY.md").write_text("- likes tea\n")
    [ledger] = Path("memory/ada/memory").glob("*.md")
    ledger.write_text(ledger.read_text() + "- another\n")
    [memory] = looked()["memories"]
    assert memory["behind"] == ["MEMORY.md", f"memory/{ledger.name}"]
    assert "behind in MEMORY.md" in lgm("status").stdout


def test_what_waits_is_listed():
    run(asking, [said("one")], thread="asked")

    async def queue() -> None:
        async with ThreadSaver.from_conn_string("memory/threads.db") as saver:
            await ThreadQueue(saver).put("new", ["and this", "and that"])

    asyncio.run(queue())
    remember("x y z")
    with closing(sqlite3.connect("memory/ada/index.db")) as db, db:
        db.execute("INSERT INTO flush_due VALUES ('asked', NULL, 'k', 'turn', ?)", (time.time(),))
    Path("memory/.x.tmp").touch()
    found = looked()
    assert found["database"]["waiting"] == [
        {"thread_id": "asked", "queued": 0, "next": ["ask"]},
        {"thread_id": "new", "queued": 2, "next": []},
    ]
    assert found["memories"][0]["due"] == ["asked"] and len(found["interrupted"]) == 1
    drawn = lgm("status").stdout
    assert "thread asked has to run ask" in drawn and "thread new: 2 messages wait" in drawn
    assert "asked still to be extracted from" in drawn and ".x.tmp" in drawn


def test_what_is_configured_is_shown_with_where_it_is_from():
    Path("runtime.json").write_text('{"memory": {"context_window": 9000}}')
    result = lgm("status", LANGGRAPH_MEMORY_DB_PATH="other.db")
    assert "memory.context_window" in result.stdout and "9000 (runtime.json)" in result.stdout
    assert "(LANGGRAPH_MEMORY_DB_PATH)" in result.stdout
    assert looked()["configured"] == {"memory.context_window": {"value": 9000, "origin": "runtime.json"}}


def test_while_another_program_writes_it_shows_what_was_there_before():
    talk("one")
    with closing(sqlite3.connect("memory/threads.db", isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("INSERT INTO lgm_queue VALUES (NULL, 't', 'm', 'message', 'x', x'00')")
        other.execute("BEGIN IMMEDIATE")
        other.execute("DELETE FROM checkpoints")
        found = looked()
        assert found["database"]["threads"] == 1 and found["database"]["log_bytes"] > 0
        assert found["database"]["waiting"] == [{"thread_id": "t", "queued": 1, "next": []}]
        assert "has a log of" in lgm("status").stdout


def test_a_folder_that_cannot_be_written_is_looked_at_as_any_other():
    talk("one")
    remember("The pier is closed on Mondays.")
    FileCache("memory/cache.db").put("d", "text")
    expected = looked()
    # Programs load some modules where they are used first, and whoever is not root may not read those.
    assert lgm("view", "t").exit_code == 0 and lgm("threads").exit_code == 0
    folders = [Path("memory"), *(path for path in Path("memory").rglob("*") if path.is_dir())]
    for path in Path("memory").rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    Path("memory").chmod(0o555)
    # Whoever is not root has to get here.
    for parent in Path.cwd().parents[: len(Path.cwd().parts) - 2]:
        parent.chmod(parent.stat().st_mode | 0o055)
    Path().chmod(0o777)

    def look() -> None:
        assert not os.access("memory", os.W_OK)
        assert lgm_json("status") == expected
        assert lgm("view", "t").exit_code == 0 and lgm("threads").exit_code == 0

    try:
        assert done(as_nobody(look)) == 0
    finally:
        for folder in folders:
            folder.chmod(0o755)


@pytest.mark.parametrize("file", ["threads.db", "cache.db", "ada/index.db"])
def test_a_damaged_file_is_a_problem_of_its_part_only(file):
    talk("one")
    remember("The pier is closed on Mondays.")
    FileCache("memory/cache.db").put("d", "text")
    Path("memory", file).write_bytes(b"no database at all " * 500)
    found = looked()
    problems = {
        "threads.db": found["database"]["problem"],
        "cache.db": found["cache"]["problem"],
        "ada/index.db": found["memories"][0]["problem"],
    }
    assert {name for name, problem in problems.items() if problem} == {file}
    assert "cannot be used" in lgm("status").stdout


def test_a_database_of_a_newer_version_says_what_to_do():
    talk("one")
    with closing(sqlite3.connect("memory/threads.db")) as db, db:
        db.execute("INSERT INTO lgm_migrations VALUES (99, 'later')")
    assert "pgrade langgraph-memory-middleware" in looked()["database"]["problem"]
