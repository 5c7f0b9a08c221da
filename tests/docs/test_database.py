"""`docs/database.md` names every table and column of the three databases, and no other."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

from langgraph_memory import ThreadSaver, ThreadStore, Workspace
from langgraph_memory.cache import FileCache
from tests.support.stores import chat, tell

from .blocks import ROOT

DERIVED = re.compile(r"sqlite_\w+|(lookup|lgm_search)_(data|idx|docsize|config)")
"""Tables that SQLite makes by itself."""


def described(heading: str) -> dict[str, list[str]]:
    """Table -> columns, as the section says."""
    text = (ROOT / "docs" / "database.md").read_text(encoding="utf-8")
    section = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    found: dict[str, list[str]] = {}
    for table, column in re.findall(r"^\| (?:`(\w+)`)? ?\| (?:`(\w+)`)? ?\| \S", section, re.MULTILINE):
        if table:
            columns = found[table] = []
        else:
            columns.append(column)
    return found


def actual(path: Path) -> dict[str, list[str]]:
    with closing(sqlite3.connect(path)) as db:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            name: [row[1] for row in db.execute(f"PRAGMA table_info({name})")]
            for name in names
            if not DERIVED.fullmatch(name)
        }


async def test_the_tables_of_the_threads(tmp_path: Path) -> None:
    async with ThreadSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        await tell(chat("add", saver), "hello", name="t")
        await ThreadStore(saver).search("hello")
    assert described("The tables of threads.db") == actual(tmp_path / "threads.db")


def test_the_tables_of_the_cache(tmp_path: Path) -> None:
    FileCache(tmp_path / "cache.db").put("digest", "text")
    assert described("The tables of cache.db") == actual(tmp_path / "cache.db")


async def test_the_tables_of_the_index(tmp_path: Path) -> None:
    async with Workspace(tmp_path) as workspace:
        await workspace.append(["Ada prefers tea."])
        assert described("The tables of index.db") == actual(tmp_path / "index.db")
