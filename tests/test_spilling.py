"""Large tool results on their way into a thread: as agents, tool nodes and bare calls meet them."""

from __future__ import annotations

import asyncio
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import StateGraph
from langgraph.prebuilt import ToolNode

from langgraph_memory import MemoryEvent, MemoryMiddleware, MemoryState, RuntimeConfig
from langgraph_memory.config import MaintenanceConfig
from langgraph_memory.spill import SpillStore
from langgraph_memory.spilling import QUIET_SECONDS, Spiller, sweep
from langgraph_memory.threads.stored import stored_values
from tests.support.models import Scripted

SPILLED = re.compile(r'\[spilled: (\d+) bytes · recall\("spill:([0-9a-f]+)"\)\]')
LINES = 20_000


@tool
def dump(lines: int) -> str:
    """Dump numbered lines."""
    return "\n".join(f"line {n} of the log, 日志" for n in range(lines))


def call(name: str, **args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": f"c-{name}-{len(args)}"}])


def settings(tmp_path: Path, **spill: Any) -> dict[str, Any]:
    return {
        "persistence": {"thread_db": str(tmp_path / "threads.db"), "workspace": str(tmp_path / "work")},
        "tools": {"spill_buffer": spill},
    }


def graph_of(memory: MemoryMiddleware, model: Scripted, kind: str) -> Any:
    tools = [dump, *memory.tools]
    if kind == "agent":
        return create_agent(model, [dump], middleware=[memory], checkpointer=memory.saver)
    builder = StateGraph(MemoryState)
    builder.add_node("model", memory.model_node(model, tools=tools))
    wrapped = {"wrap_tool_call": memory.wrap_tool_call, "awrap_tool_call": memory.awrap_tool_call}
    builder.add_node("tools", ToolNode(tools, **wrapped) if kind == "wrapped" else ToolNode(tools))
    memory.attach(builder)
    return builder.compile(checkpointer=memory.saver)


async def run(memory: MemoryMiddleware, kind: str, *replies: Any, thread: str = "t") -> list[Any]:
    graph = graph_of(memory, Scripted(replies=[*replies, "done"]), kind)
    output = await graph.ainvoke({"messages": [("user", "go")]}, {"configurable": {"thread_id": thread}})
    messages: list[Any] = output["messages"]
    return messages


@pytest.mark.parametrize("kind", ["agent", "wrapped", "bare tool node"])
async def test_a_large_result_goes_to_a_file_and_can_be_read_back(tmp_path, kind):
    async with MemoryMiddleware.open(settings(tmp_path)) as memory:
        _, _, result, _ = await run(memory, kind, call("dump", lines=LINES))
        size, digest = SPILLED.search(result.content).groups()
        assert int(size) == len(dump.invoke({"lines": LINES}).encode())
        assert len(result.content) <= 2000
        assert (result.name, result.status) == ("dump", "success")
        graph = graph_of(
            memory, Scripted(replies=[call("recall", ref=f"spill:{digest}", pattern="line 19000 "), "ok"]), kind
        )
        config = {"configurable": {"thread_id": "t"}}
        output = await graph.ainvoke({"messages": [("user", "look it up")]}, config)
        assert "line 19000 of the log, 日志" in output["messages"][-2].content
        other = await graph_of(memory, Scripted(replies=[call("recall", ref=f"spill:{digest}"), "ok"]), kind).ainvoke(
            {"messages": [("user", "give me theirs")]}, {"configurable": {"thread_id": "stranger"}}
        )
        assert "Nothing here is called" in other["messages"][-2].content


@pytest.mark.parametrize("kind", ["agent", "wrapped"])
def test_sync_programs_spill_too(tmp_path, kind):
    with MemoryMiddleware.open(settings(tmp_path)) as memory:
        graph = graph_of(memory, Scripted(replies=[call("dump", lines=LINES), "done"]), kind)
        output = graph.invoke({"messages": [("user", "go")]}, {"configurable": {"thread_id": "t"}})
    assert SPILLED.search(output["messages"][2].content)


@pytest.mark.parametrize("kind", ["agent", "wrapped", "bare tool node"])
async def test_without_a_place_for_files_the_result_stays_and_the_run_goes_on(tmp_path, kind, caplog):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "spill").write_text("a file where the folder should be", encoding="utf-8")
    async with MemoryMiddleware.open(settings(tmp_path)) as memory:
        messages = await run(memory, kind, call("dump", lines=LINES))
    assert messages[2].content == dump.invoke({"lines": LINES})
    assert messages[-1].content == "done"
    assert "cannot be written" in caplog.text


async def test_a_middleware_without_a_workspace_spills_nothing():
    memory = MemoryMiddleware()
    message = ToolMessage("x" * 90_000, tool_call_id="c", id="t", name="dump")
    state = {"messages": [HumanMessage("h", id="h"), call("dump"), message], "memory_record": {}}
    assert "messages" not in await memory(state)


async def test_an_unknown_tool_keeps_its_usual_error(tmp_path):
    async with MemoryMiddleware.open(settings(tmp_path)) as memory:
        messages = await run(memory, "agent", call("nope"))
    assert "nope is not a valid tool" in messages[2].content


def aged(folder: Path, days: float) -> None:
    for file in folder.rglob("*.txt"):
        os.utime(file, (time.time() - days * 86_400,) * 2)


async def test_old_files_go_at_the_opening_unless_a_thread_or_a_left_branch_refers_to_them(tmp_path):
    folder = tmp_path / "work" / "spill"
    async with MemoryMiddleware.open(settings(tmp_path)) as memory:
        await run(memory, "agent", call("dump", lines=LINES))
    referred = {file.stem for file in folder.rglob("*.txt")}
    stray = await asyncio.to_thread(SpillStore(folder).put, "nobody refers to this " * 5000)
    aged(folder, 40)
    async with MemoryMiddleware.open(settings(tmp_path)):
        pass
    assert {file.stem for file in folder.rglob("*.txt")} == referred
    assert stray not in referred


async def test_files_that_another_database_may_refer_to_are_left_alone(tmp_path):
    folder = tmp_path / "work" / "spill"
    async with MemoryMiddleware.open(settings(tmp_path)) as memory:
        await run(memory, "agent", call("dump", lines=LINES))
    async with MemoryMiddleware.open(settings(tmp_path)):
        pass
    aged(folder, 400)
    other = settings(tmp_path)
    other["persistence"]["thread_db"] = str(tmp_path / "other.db")
    for _ in range(2):
        async with MemoryMiddleware.open(other):
            pass
    assert list(folder.rglob("*.txt"))


@pytest.mark.shows("memory.maintenance.spill_retention_days", "memory.maintenance.spill_max_mb")
@pytest.mark.parametrize(("days", "megabytes", "left"), [(30, 1024, 2), (5, 1024, 1), (30, 0, 1), (0, 1024, 1)])
async def test_age_and_size_decide_when_a_file_without_references_goes(tmp_path, days, megabytes, left):
    folder = tmp_path / "work" / "spill"
    async with MemoryMiddleware.open(settings(tmp_path)) as memory:
        await run(memory, "agent", call("dump", lines=LINES))
    await asyncio.to_thread(SpillStore(folder).put, "nobody refers to this " * 5000)
    aged(folder, 10)
    limits = MaintenanceConfig(spill_retention_days=days, spill_max_mb=megabytes)
    await asyncio.to_thread(sweep, folder, str(tmp_path / "threads.db"), stored_values, limits)
    assert len(list(folder.rglob("*.txt"))) == left


@pytest.mark.shows(
    "tools.spill_buffer.enabled",
    "tools.spill_buffer.default_threshold",
    "tools.spill_buffer.thresholds",
    "tools.spill_buffer.exclude_tools",
)
@pytest.mark.parametrize(
    ("spill", "spilled"),
    [
        ({}, True),
        ({"enabled": False}, False),
        ({"default_threshold": 10_000_000}, False),
        ({"default_threshold": 10_000_000, "thresholds": {"dump": 1000}}, True),
        ({"exclude_tools": ["dump"]}, False),
        ({"thresholds": {"dump": 10_000_000}}, False),
    ],
)
async def test_the_switches_decide_what_is_spilled(tmp_path, spill, spilled):
    async with MemoryMiddleware.open(settings(tmp_path, **spill)) as memory:
        result = (await run(memory, "agent", call("dump", lines=LINES)))[2]
    assert bool(SPILLED.search(result.content)) is spilled


@pytest.mark.parametrize(("hours", "removed"), [(1, 0), (23, 0), (25, 1)])
async def test_the_database_is_read_for_references_once_a_day_at_most(tmp_path, hours, removed):
    folder, limits = tmp_path / "work" / "spill", MaintenanceConfig(spill_retention_days=1)
    async with MemoryMiddleware.open(settings(tmp_path)) as memory:
        await run(memory, "agent", call("dump", lines=LINES))
    database = str(tmp_path / "threads.db")
    assert await asyncio.to_thread(sweep, folder, database, stored_values, limits) == 0
    await asyncio.to_thread(SpillStore(folder).put, "nobody refers to this " * 5000)
    aged(folder, 10)
    later = time.time() + hours * 3600
    assert await asyncio.to_thread(sweep, folder, database, stored_values, limits, lambda: later) == removed


@pytest.mark.shows("tools.spill_buffer.preview_chars")
@pytest.mark.parametrize("chars", [100, 2000, 9000])
async def test_preview_chars_is_what_stays(tmp_path, chars):
    async with MemoryMiddleware.open(settings(tmp_path, preview_chars=chars)) as memory:
        result = (await run(memory, "agent", call("dump", lines=LINES)))[2]
    assert chars // 3 <= len(result.content) <= chars


@pytest.mark.shows("tools.spill_buffer.path")
@pytest.mark.parametrize("path", ["elsewhere/deep", "{absolute}"])
async def test_path_is_where_the_files_are(tmp_path, path):
    place = tmp_path / "absolute" if path == "{absolute}" else tmp_path / "work" / path
    async with MemoryMiddleware.open(settings(tmp_path, path=str(place) if path == "{absolute}" else path)) as memory:
        await run(memory, "agent", call("dump", lines=LINES))
    assert len(list(place.rglob("*.txt"))) == 1


@pytest.mark.parametrize("mode", ["async", "sync"])
@pytest.mark.parametrize("kind", ["agent", "wrapped", "bare tool node"])
async def test_each_spilled_result_is_announced_on_the_stream_and_to_the_listener(tmp_path, kind, mode):
    heard: list[MemoryEvent] = []
    async with MemoryMiddleware.open(settings(tmp_path), on_event=heard.append) as memory:
        model = Scripted(replies=[call("dump", lines=LINES), "done"])
        graph = graph_of(memory, model, kind)
        given, config = {"messages": [("user", "go")]}, {"configurable": {"thread_id": "t"}}
        if mode == "async":
            streamed = [part async for part in graph.astream(given, config, stream_mode="custom")]
        else:
            streamed = await asyncio.to_thread(lambda: list(graph.stream(given, config, stream_mode="custom")))
        shown = [part for part in streamed if part["event"] == "spilled"]
        told = [event for event in heard if event.name == "spilled"]
        size, digest = SPILLED.search((await graph.aget_state(config)).values["messages"][2].content).groups()
    assert shown == [event.to_json() for event in told] and len(told) == 1
    assert told[0].thread_id == "t" and told[0].duration_ms > 0
    assert dict(told[0].data) == {"tool": "dump", "bytes": int(size), "ref": f"spill:{digest}"}


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_disk_that_cannot_be_written_is_warned_of_now_and_then_and_tried_every_time(tmp_path, caplog):
    (tmp_path / "spill").write_text("in the way", encoding="utf-8")
    clock = Clock()
    spiller = Spiller(SpillStore(tmp_path / "spill"), RuntimeConfig().tools.spill_buffer, clock=clock)
    large = ToolMessage("x" * 60_000, tool_call_id="c", name="dump", id="m")
    for _ in range(3):
        assert spiller.spill(large, "dump") == (large, [])
    assert caplog.text.count("cannot be written") == 1
    clock.now += QUIET_SECONDS
    assert spiller.spill(large, "dump") == (large, [])
    assert caplog.text.count("cannot be written") == 2
    (tmp_path / "spill").unlink()
    short, notes = spiller.spill(large, "dump")
    assert len(short.content) < 2100 and [note.bytes for note in notes] == [60_000]


def test_only_results_behind_the_newest_assistant_message_are_looked_at(tmp_path):
    spiller = Spiller(SpillStore(tmp_path), RuntimeConfig().tools.spill_buffer)
    large = ToolMessage("x" * 60_000, tool_call_id="c-dump-0", name="dump", id="m")
    asked = call("dump")
    assert spiller.replaced([asked, large])[0]
    assert spiller.replaced([asked, large, AIMessage("seen"), HumanMessage("next")]) == ([], [])


def test_what_signs_the_folder_is_nobody_elses_to_read(tmp_path):
    folder = tmp_path / "spill"
    SpillStore(folder).put("x" * 1000)
    (tmp_path / "threads.db").touch()
    sweep(folder, str(tmp_path / "threads.db"), lambda _: (), MaintenanceConfig())
    (sign,) = folder.glob(".database")
    assert sign.read_text(encoding="utf-8") == str(tmp_path / "threads.db")
    assert os.name == "nt" or sign.stat().st_mode & 0o777 == 0o600
