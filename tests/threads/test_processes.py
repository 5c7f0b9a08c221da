"""Processes that run graphs on one file at once: each of their turns is there, and none is refused."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from langgraph_memory.threads.saver import ThreadSaver
from tests.support.savers import config

pytestmark = pytest.mark.slow

PROCESSES = 4
TURNS = int(os.environ.get("LANGGRAPH_MEMORY_EXAMPLES", "5"))

RUN = """
import asyncio, sys
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph_memory import ThreadSaver

async def model(state):
    return {"messages": [AIMessage("a" + state["messages"][-1].content, id="a" + state["messages"][-1].id)]}

async def main(path, thread, name, turns):
    builder = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_edge(START, "model")
    async with ThreadSaver.from_conn_string(path) as saver:
        graph = builder.compile(checkpointer=saver)
        sys.stdin.readline()
        for turn in range(int(turns)):
            asked = HumanMessage("q" * 500, id=f"{name}-{turn}")
            await graph.ainvoke({"messages": [asked]}, {"configurable": {"thread_id": thread}})

asyncio.run(main(*sys.argv[1:]))
"""


def process(path: Path, thread: str, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RUN, str(path), thread, name, str(TURNS)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


async def asked(saver: ThreadSaver) -> set[str]:
    """The ids of everything that was asked and answered in any checkpoint."""
    found: set[str] = set()
    async for one in saver.alist(None):
        ids: list[Any] = [message.id for message in one.checkpoint["channel_values"].get("messages", [])]
        found |= {id for id in ids if f"a{id}" in ids}
    return found


@pytest.mark.parametrize("threads", ["own", "shared"])
async def test_every_turn_of_every_process_is_there(tmp_path: Path, threads: str) -> None:
    path, names = tmp_path / "threads.db", [f"p{number}" for number in range(PROCESSES)]
    running = [await asyncio.to_thread(process, path, name if threads == "own" else "shared", name) for name in names]
    ended = await asyncio.gather(*(asyncio.to_thread(one.communicate, "go\n") for one in running))
    assert [(one.returncode, errors) for one, (_, errors) in zip(running, ended, strict=True)] == [(0, "")] * PROCESSES
    async with ThreadSaver.from_conn_string(path) as saver:
        assert await asked(saver) == {f"{name}-{turn}" for name in names for turn in range(TURNS)}
        newest = {name: await saver.aget_tuple(config(name)) for name in names}
        if threads == "own":
            lengths = {len(one.checkpoint["channel_values"]["messages"]) for one in newest.values() if one}
            assert lengths == {2 * TURNS}
        report = await saver.verify()
        assert report.ok, report.problems
