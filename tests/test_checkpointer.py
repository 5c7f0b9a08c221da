"""`create_checkpointer` finds the configured file as everything else does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage

import langgraph_memory
from langgraph_memory.errors import ConfigError
from langgraph_memory.threads.saver import ThreadSaver
from tests.support.savers import checkpoint, config


async def kept(path: str) -> list[str]:
    async with ThreadSaver.from_conn_string(path) as saver:
        found = await saver.aget_tuple(config())
    return [] if found is None else [message.text for message in found.checkpoint["channel_values"]["messages"]]


def file(name: str, text: str) -> Path:
    Path(name).write_text(text)
    return Path(name)


def content(path: Path) -> str:
    return path.read_text()


async def put() -> None:
    async with langgraph_memory.create_checkpointer() as saver:
        await saver.aput(config(), checkpoint(1, messages=[HumanMessage("kept")]), {"step": 1}, {})


async def test_threads_are_kept_in_the_configured_file(monkeypatch: pytest.MonkeyPatch) -> None:
    await put()
    assert await kept("memory/threads.db") == ["kept"]
    file("runtime.json", json.dumps({"persistence": {"thread_db": "elsewhere/deep/t.db"}}))
    await put()
    assert await kept("elsewhere/deep/t.db") == ["kept"]
    monkeypatch.setenv("LANGGRAPH_MEMORY_DB_PATH", "named.db")
    await put()
    assert await kept("named.db") == ["kept"]


def test_it_stands_in_the_module_itself() -> None:
    # LangGraph's server looks nowhere else.
    assert callable(vars(langgraph_memory)["create_checkpointer"])


@pytest.mark.parametrize("path", ["file/threads.db", "."])
async def test_a_file_that_cannot_be_used_is_named(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file("file", "")
    monkeypatch.setenv("LANGGRAPH_MEMORY_DB_PATH", path)
    with pytest.raises(ConfigError, match=f"persistence.thread_db: '{re.escape(path)}'"):
        await put()


async def test_what_is_no_database_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    notes = file("notes.txt", text := "not a database " * 100)
    monkeypatch.setenv("LANGGRAPH_MEMORY_DB_PATH", "notes.txt")
    with pytest.raises(ConfigError, match=r"notes\.txt"):
        await put()
    assert content(notes) == text
