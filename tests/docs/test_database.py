"""`docs/database.md` names every table and column of the three databases, and its views say what was said."""

import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from langgraph_memory import ThreadSaver, ThreadStore, Workspace
from langgraph_memory.cache import FileCache
from tests.support.stores import chat, tell

from .blocks import ROOT, blocks_of
from .running import Sample

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


@pytest.fixture
def copy(sample: Callable[[], Sample], tmp_path: Path) -> Path:
    """The threads of the sample."""
    return Path(shutil.copyfile(sample().folder / "memory" / "threads.db", tmp_path / "copy.db"))


async def test_the_views_say_what_the_store_says(copy: Path) -> None:
    async with ThreadSaver.from_conn_string(str(copy)) as saver:
        store = ThreadStore(saver)
        turns = [node.checkpoint_id for node in await store.checkpoints("sample") if not node.next]
        # So far into the thread that its beginning is shared and not linked again.
        await store.fork("sample", "forked", turns[-3])
        await tell(chat("add", saver), "And now for something else: " + "x" * 70_000, name="forked")
        said = {name: [str(message.content) for message in await store.messages(name)] for name in ("sample", "forked")}
    [views] = [block.text for block in blocks_of(ROOT / "docs" / "database.md") if "changes" in block.remarks]
    with closing(sqlite3.connect(copy)) as db:
        db.executescript(views)
        assert db.execute("SELECT count(*) FROM lgm_chains WHERE parent IS NOT NULL").fetchone()[0] > 0
        query = "SELECT text FROM messages WHERE thread_id = ? AND channel = '/messages' ORDER BY position"
        assert {name: [text for (text,) in db.execute(query, (name,))] for name in said} == said
