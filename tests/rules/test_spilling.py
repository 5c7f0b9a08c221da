"""Huge tool results as threads meet them: on disk before the pointer stands, private, there as long as needed."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import sqlite3
import stat
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.graph import StateGraph
from langgraph.prebuilt import ToolNode

from langgraph_memory import MemoryMiddleware, MemoryState
from langgraph_memory.spill import SpillStore
from tests.support.graphs import MODES
from tests.support.models import Scripted
from tests.support.validity import faults

pytestmark = pytest.mark.slow

KINDS = ("agent", "wrapped", "bare tool node")
REF = re.compile(r'recall\("(spill:([0-9a-f]{32}))"\)')
MORE = re.compile(r"\n\[characters \d+-\d+ of (\d+); go on with offset=(\d+)\]$")
BIG = "".join(f"line {n} of the log, 日志 🛳\n" for n in range(1800))
ODD_IDS = [
    "../../x",
    "/abs/x",
    "..\\x",
    "C:x",
    "a\x00b",
    "CON",
    "%",
    "pier_1",
    "长" * 300,
    "call_7__sig__" + "A" * 1400,
]


def giving(*results: Any, name: str = "fetch", **options: Any) -> BaseTool:
    """A tool whose n-th argument picks the result; an exception is raised."""

    @tool(name, **options)
    def fetch(n: int) -> Any:
        """Fetch."""
        if isinstance(results[n], Exception):
            raise results[n]
        return results[n]

    return fetch


def asks(n: int = 0, *, id: str = "c", name: str = "fetch") -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": {"n": n}, "id": id}])


def reads(ref: str, **arguments: Any) -> AIMessage:
    number = "-".join(map(str, arguments.values()))
    arguments = {"ref": ref, "limit": 8000, **arguments}
    return AIMessage("", tool_calls=[{"name": "recall", "args": arguments, "id": f"read-{number}"}])


def settings(tmp_path: Path, **spilling: Any) -> dict[str, Any]:
    return {
        "persistence": {"thread_db": str(tmp_path / "threads.db"), "workspace": str(tmp_path / "work")},
        "tools": {"spill_buffer": spilling},
    }


def graph_of(memory: MemoryMiddleware, kind: str, replies: Sequence[Any], tools: Sequence[BaseTool]) -> Any:
    model = Scripted(replies=replies[0] if replies and callable(replies[0]) else [*replies, "done"])
    if kind == "agent":
        return create_agent(model, list(tools), middleware=[memory], checkpointer=memory.saver)
    wraps = {"wrap_tool_call": memory.wrap_tool_call, "awrap_tool_call": memory.awrap_tool_call}
    everything = [*tools, *memory.tools]
    node = ToolNode(everything, handle_tool_errors=True, **(wraps if kind == "wrapped" else {}))
    builder = StateGraph(MemoryState)
    builder.add_node("model", memory.model_node(model, tools=everything))
    builder.add_node("tools", node)
    memory.attach(builder)
    return builder.compile(checkpointer=memory.saver)


async def run(
    memory: MemoryMiddleware, kind: str, *replies: Any, tools: Sequence[BaseTool] = (), thread: Any = "t"
) -> list[BaseMessage]:
    """The messages that a turn adds to a thread."""
    graph = graph_of(memory, kind, replies, tools)
    config = {"configurable": {"thread_id": thread}, "recursion_limit": 500}
    before = len((await graph.aget_state(config)).values.get("messages", ()))
    output = await graph.ainvoke({"messages": [("user", "go")]}, config)
    messages: list[BaseMessage] = output["messages"][before:]
    return messages


def results(messages: Sequence[BaseMessage], name: str = "fetch") -> list[ToolMessage]:
    return [m for m in messages if isinstance(m, ToolMessage) and m.name == name]


def ref_in(message: BaseMessage) -> str:
    [found] = REF.findall(str(message.content))
    return str(found[0])


async def read_back(memory: MemoryMiddleware, kind: str, ref: str, thread: str = "t") -> str:
    """What the model of a thread gets by going on from page to page."""

    def reply(messages: list[BaseMessage]) -> AIMessage:
        more = MORE.search(str(messages[-1].content))
        if isinstance(messages[-1], ToolMessage):
            return reads(ref, offset=int(more[2])) if more else AIMessage("done")
        return reads(ref, offset=0)

    pages = [str(message.content) for message in results(await run(memory, kind, reply, thread=thread), "recall")]
    assert max(map(len, pages)) <= 8100
    return "".join(MORE.sub("", page) for page in pages)


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if not path.is_dir()]


def spills_in(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "work" / "spill").rglob("*.txt"))


def aged(tmp_path: Path, days: float) -> None:
    """The spill files and the last sweep, as if that many days had passed."""
    for path in files_in(tmp_path / "work" / "spill"):
        os.utime(path, (time.time() - days * 86_400,) * 2)


# What is written


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call", ODD_IDS)
async def test_whatever_the_call_is_called_its_result_is_spilled_under_a_short_name_of_our_own(tmp_path, call, kind):
    async with MemoryMiddleware.open(settings(tmp_path)) as memory:
        messages = await run(memory, kind, asks(id=call), tools=[giving(BIG)], thread="../../t")
        [result] = results(messages)
        assert result.tool_call_id == call
        assert await read_back(memory, kind, ref_in(result), thread="../../t") == BIG
    [file] = spills_in(tmp_path)
    assert re.fullmatch(r"[0-9a-f]{32}\.txt", file.name)
    outside = [p for p in files_in(tmp_path) if not p.is_relative_to(tmp_path / "work") and "threads.db" not in p.name]
    assert outside == []


@pytest.mark.parametrize("kind", KINDS)
async def test_one_call_id_used_again_and_ids_that_differ_by_case_keep_their_texts_apart(tmp_path, kind):
    texts = [f"{mark} " * 30_000 for mark in ("first", "second", "upper", "lower")]
    calls = [asks(0, id="c"), asks(1, id="c"), asks(2, id="ID"), asks(3, id="id")]
    async with MemoryMiddleware.open(settings(tmp_path)) as memory:
        found = results(await run(memory, kind, *calls, tools=[giving(*texts)]))
        refs = [ref_in(message) for message in found]
        assert len(set(refs)) == 4
        for ref, text in zip(refs, texts, strict=True):
            answers = results(await run(memory, kind, reads(ref, offset=0, limit=50)), "recall")
            assert str(answers[-1].content).startswith(text[:50])


CONTENTS: dict[str, Any] = {
    "a byte order mark, NUL and bare returns": "\ufeffa\x00b\r\n\rc\r\r\n" + BIG,
    "lone surrogates": "half \ud83d of it " * 4000,
    "line separators": "a\u2028b\u2029c\x0b\x0c\x85" * 6000,
    "one long line": "泊" * 40_000,
    "bidirectional marks": "\u202eabc\u202c" * 6000,
    "a quoted pointer": f'[spilled: 9 bytes · recall("spill:{"0" * 32}")]\n' + BIG,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CONTENTS)
async def test_any_text_comes_back_as_it_was(tmp_path, name, kind):
    text = CONTENTS[name]
    async with MemoryMiddleware.open(settings(tmp_path)) as memory:
        [result] = results(await run(memory, kind, asks(), tools=[giving(text)]))
        digest = next(found[0] for found in REF.findall(str(result.content)) if found[1] != "0" * 32)
        assert await read_back(memory, kind, digest) == text.replace("\ud83d", "\ufffd")
    assert len(spills_in(tmp_path)) == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_of_a_result_in_blocks_the_text_is_spilled_and_the_image_stays(tmp_path, kind):
    image = {"type": "image", "base64": "AAAA" * 100, "mime_type": "image/png"}
    async with MemoryMiddleware.open(settings(tmp_path)) as memory:
        messages = await run(memory, kind, asks(), tools=[giving([{"type": "text", "text": BIG}, image])])
        [result] = results(messages)
        assert [block["type"] for block in result.content] == ["text", "image"]
        assert result.content[1] == image
        assert await read_back(memory, kind, ref_in(result)) == BIG


@pytest.mark.parametrize("kind", KINDS)
async def test_artifact_and_name_stay_with_the_preview(tmp_path, kind):
    fetch = giving((BIG, {"rows": [1, 2]}), response_format="content_and_artifact")
    async with MemoryMiddleware.open(settings(tmp_path)) as memory:
        [result] = results(await run(memory, kind, asks(), tools=[fetch]))
        assert result.artifact == {"rows": [1, 2]}
        assert (result.name, result.status) == ("fetch", "success")
        assert ref_in(result)


@pytest.mark.parametrize("kind", ["wrapped", "bare tool node"])
async def test_the_text_of_an_error_is_spilled_and_stays_an_error(tmp_path, kind):
    async with MemoryMiddleware.open(settings(tmp_path)) as memory:
        [result] = results(await run(memory, kind, asks(), tools=[giving(RuntimeError(BIG))]))
        assert result.status == "error"
        assert "line 1799 of the log" in await read_back(memory, kind, ref_in(result))


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_read_back_is_not_spilled_again_even_where_everything_is(tmp_path, kind):
    text = "\n".join(letter * 20_000 for letter in "abcde")
    config = settings(tmp_path, default_threshold=100, thresholds={"recall": 10}, preview_chars=80)
    async with MemoryMiddleware.open(config) as memory:
        [result] = results(await run(memory, kind, asks(), tools=[giving(text)]))
        assert await read_back(memory, kind, ref_in(result)) == text
        found = results(await run(memory, kind, reads(ref_in(result), pattern="d")), "recall")
        assert "line 4: " in str(found[-1].content)
    assert len(spills_in(tmp_path)) == 1


# Who may look


@pytest.mark.parametrize("kind", KINDS)
async def test_files_and_folders_are_for_their_owner_only(tmp_path, kind):
    before = os.umask(0o022)
    try:
        async with MemoryMiddleware.open(settings(tmp_path)) as memory:
            await run(memory, kind, asks(), tools=[giving("token=demo " * 9000)])
    finally:
        os.umask(before)
    [file] = spills_in(tmp_path)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent, file.parent.parent)]
    assert modes == [0o600, 0o700, 0o700]


@pytest.mark.parametrize("planted", ["other text", "a link", "a folder that is a link"])
@pytest.mark.parametrize("kind", KINDS)
async def test_what_stands_at_the_expected_name_is_not_trusted(tmp_path, kind, planted):
    folder, outside = tmp_path / "work" / "spill", tmp_path / "outside"
    outside.mkdir()
    (outside / "mine.txt").write_text("mine", encoding="utf-8")
    digest = await asyncio.to_thread(SpillStore(tmp_path / "elsewhere").put, BIG)
    place = folder / digest[:2] / f"{digest}.txt"
    place.parent.parent.mkdir(parents=True)
    if planted == "a folder that is a link":
        place.parent.symlink_to(outside)
    else:
        place.parent.mkdir()
        if planted == "a link":
            place.symlink_to(outside / "mine.txt")
        else:
            place.write_text("x" * len(BIG.encode()), encoding="utf-8")
    async with MemoryMiddleware.open(settings(tmp_path)) as memory:
        [result] = results(await run(memory, kind, asks(), tools=[giving(BIG)]))
        if planted == "a folder that is a link":
            assert result.content == BIG
        else:
            assert await read_back(memory, kind, ref_in(result)) == BIG
            assert not place.is_symlink()
    assert [(path.name, path.read_text()) for path in files_in(outside)] == [("mine.txt", "mine")]


async def test_a_workspace_behind_a_link_of_ones_own_works(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "work").symlink_to(tmp_path / "disk")
    async with MemoryMiddleware.open(settings(tmp_path)) as memory:
        [result] = results(await run(memory, "agent", asks(), tools=[giving(BIG)]))
        assert await read_back(memory, "agent", ref_in(result)) == BIG


@pytest.mark.parametrize("kind", KINDS)
async def test_a_thread_that_only_heard_of_a_pointer_is_shown_nothing(tmp_path, kind):
    async with MemoryMiddleware.open(settings(tmp_path)) as memory:
        [theirs] = results(await run(memory, kind, asks(), tools=[giving("secret " * 20_000)], thread="ada"))
        ref = ref_in(theirs)
        graph = graph_of(memory, kind, [reads(ref), reads(ref, pattern="secret"), reads("spills")], [])
        config = {"configurable": {"thread_id": "bob"}}
        output = await graph.ainvoke({"messages": [HumanMessage(f"please read {theirs.content}")]}, config)
        answers = [str(message.content) for message in results(output["messages"], "recall")]
    assert [answer.split(" ")[0] for answer in answers] == ["Nothing", "Nothing", "No"]


# When the disk fails


@pytest.mark.parametrize("fails", ["mkstemp", "write", "fsync", "replace"])
@pytest.mark.parametrize("kind", KINDS)
async def test_where_writing_fails_no_pointer_is_shown_and_after_a_restart_the_next_result_is_spilled(
    tmp_path, kind, fails, monkeypatch, caplog
):
    failures = 0

    def failing(*_: Any, **__: Any) -> Any:
        nonlocal failures
        failures += 1
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with MemoryMiddleware.open(settings(tmp_path)) as memory:
        with monkeypatch.context() as patched:
            patched.setattr(tempfile if fails == "mkstemp" else os, fails, failing)
            messages = await run(memory, kind, asks(), tools=[giving(BIG)])
        [result] = results(messages)
        assert failures
        assert result.content == BIG
        assert str(messages[-1].content) == "done"
        assert spills_in(tmp_path) == []
        assert not any(path.name.endswith(".tmp") for path in files_in(tmp_path / "work"))
    async with MemoryMiddleware.open(settings(tmp_path)) as memory:
        [later] = results(await run(memory, kind, asks(id="d"), tools=[giving(BIG[::-1])]))
        assert await read_back(memory, kind, ref_in(later)) == BIG[::-1]
    assert "line 17 of the log" not in caplog.text


async def test_a_result_that_could_not_be_spilled_is_cut_in_the_view_so_that_it_fits(tmp_path, monkeypatch):
    monkeypatch.setattr(SpillStore, "_put", lambda *_: (_ for _ in ()).throw(OSError(errno.EROFS, "read-only")))
    config = {**settings(tmp_path), "memory": {"context_window": 8000}}
    async with MemoryMiddleware.open(config) as memory:
        graph = graph_of(memory, "agent", [asks()], [giving(BIG)])
        config = {"configurable": {"thread_id": "t"}}
        await graph.ainvoke({"messages": [("user", "go")]}, config)
        state = (await graph.aget_state(config)).values
        view = memory.view(state, config)
        assert results(state["messages"])[0].content == BIG
        assert len(str(results(view)[0].content)) < 20_000
        assert faults(view) == []


@pytest.mark.parametrize("damage", ["gone", "changed"])
async def test_of_a_file_that_is_gone_or_changed_the_model_is_told_and_the_run_goes_on(tmp_path, damage):
    async with MemoryMiddleware.open(settings(tmp_path)) as memory:
        [result] = results(await run(memory, "agent", asks(), tools=[giving(BIG)]))
        [file] = spills_in(tmp_path)
        if damage == "gone":
            file.unlink()
        else:
            file.write_text("another text", encoding="utf-8")
        messages = await run(memory, "agent", reads(ref_in(result), pattern="log"))
        [answer] = results(messages, "recall")
        assert f"{damage if damage == 'gone' else 'damaged'}" in str(answer.content)
        assert "another" not in str(answer.content)
        assert str(messages[-1].content) == "done"


# How long they stay


async def test_a_fork_and_a_restart_still_open_what_their_history_points_to(tmp_path):
    config = {"configurable": {"thread_id": "t"}}
    async with MemoryMiddleware.open(settings(tmp_path)) as memory:
        [result] = results(await run(memory, "agent", asks(), tools=[giving(BIG)]))
        graph = graph_of(memory, "agent", [], [giving(BIG)])
        history = [state async for state in graph.aget_state_history(config)]
        before = next(s for s in history if not results(s.values.get("messages", ())))
        await graph.ainvoke({"messages": [HumanMessage("another way")]}, before.config)
        assert results((await graph.aget_state(config)).values["messages"]) == []
    aged(tmp_path, 400)
    for _ in range(2):
        async with MemoryMiddleware.open(settings(tmp_path)) as memory:
            graph = graph_of(memory, "agent", [reads(ref_in(result), offset=0)], [giving(BIG)])
            output = await graph.ainvoke({"messages": [HumanMessage("back")]}, history[0].config)
            assert str(results(output["messages"], "recall")[-1].content).startswith("line 0 of the log")
        aged(tmp_path, 400)


@pytest.mark.parametrize("kept", [True, False])
async def test_the_files_of_a_thread_go_after_the_thread_and_those_another_points_to_stay(tmp_path, kept):
    shared, own = "shared " * 20_000, "own " * 20_000
    async with MemoryMiddleware.open(settings(tmp_path)) as memory:
        await run(memory, "agent", asks(0), asks(1, id="d"), tools=[giving(shared, own)], thread="a%")
        if kept:
            await run(memory, "agent", asks(0), tools=[giving(shared, own)], thread="ab")
        assert memory.saver is not None
        await memory.saver.adelete_thread("a%")
    aged(tmp_path, 400)
    async with MemoryMiddleware.open(settings(tmp_path)):
        pass
    assert [path.read_text() for path in spills_in(tmp_path)] == ([shared] if kept else [])


async def test_over_the_limit_the_oldest_files_nobody_points_to_go_and_live_pointers_open(tmp_path):
    config = {**settings(tmp_path), "memory": {"maintenance": {"spill_max_mb": 1}}}
    store = SpillStore(tmp_path / "work" / "spill")
    async with MemoryMiddleware.open(config) as memory:
        [result] = results(await run(memory, "agent", asks(), tools=[giving(BIG)]))
    strays = [await asyncio.to_thread(store.put, f"stray {n} " * 20_000) for n in range(20)]
    for days, digest in enumerate(reversed(strays), 1):
        path = store.folder / digest[:2] / f"{digest}.txt"
        os.utime(path, (time.time() - days * 3600 * 2,) * 2)
    [live] = [path for path in spills_in(tmp_path) if path.stem == ref_in(result).removeprefix("spill:")]
    os.utime(live, (0, 0))
    async with MemoryMiddleware.open(config) as memory:
        left = {path.stem for path in spills_in(tmp_path)} - {live.stem}
        assert sum(path.stat().st_size for path in spills_in(tmp_path)) <= 1_000_000
        assert left == set(strays[-len(left) :])
        assert left
        assert await read_back(memory, "agent", ref_in(result)) == BIG


async def test_what_a_pending_write_points_to_is_kept(tmp_path):
    async with MemoryMiddleware.open(settings(tmp_path)) as memory:
        await run(memory, "agent", asks(), tools=[giving(BIG)])
    with sqlite3.connect(tmp_path / "threads.db") as connection:
        # A crash between the tools and the next checkpoint leaves the result in the pending writes alone.
        connection.execute("DELETE FROM checkpoints WHERE instr(checkpoint, 'spill:') > 0")
    connection.close()
    aged(tmp_path, 400)
    async with MemoryMiddleware.open(settings(tmp_path)):
        pass
    assert len(spills_in(tmp_path)) == 1


# Streams and callers


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_stream_shows_each_result_once(tmp_path, kind, mode):
    given, config = {"messages": [HumanMessage("go")]}, {"configurable": {"thread_id": "t"}}

    def stream(memory: MemoryMiddleware) -> list[Any]:
        return list(graph_of(memory, kind, [asks()], [giving(BIG)]).stream(given, config, stream_mode="messages"))

    if mode == "sync":
        found = await asyncio.to_thread(lambda: _with_memory(tmp_path, stream))
    else:
        async with MemoryMiddleware.open(settings(tmp_path)) as memory:
            graph = graph_of(memory, kind, [asks()], [giving(BIG)])
            found = [part async for part in graph.astream(given, config, stream_mode="messages")]
    assert len([message for message, _ in found if isinstance(message, ToolMessage)]) == 1


def _with_memory(tmp_path: Path, use: Any) -> Any:
    with MemoryMiddleware.open(settings(tmp_path)) as memory:
        return use(memory)


async def test_a_run_cancelled_while_it_writes_leaves_whole_files_and_a_usable_thread(tmp_path, monkeypatch):
    loop, started, real = asyncio.get_running_loop(), asyncio.Event(), os.fsync
    let_go = asyncio.Event()

    def slow(descriptor: int) -> None:
        loop.call_soon_threadsafe(started.set)
        asyncio.run_coroutine_threadsafe(let_go.wait(), loop).result(30)
        real(descriptor)

    async with MemoryMiddleware.open(settings(tmp_path)) as memory:
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", slow)
            task = asyncio.create_task(run(memory, "agent", asks(), tools=[giving(BIG)]))
            await started.wait()
            task.cancel()
            let_go.set()
            with pytest.raises(asyncio.CancelledError):
                await task
        messages = await run(memory, "agent", asks(id="again"), tools=[giving(BIG)])
        assert await read_back(memory, "agent", ref_in(results(messages)[-1])) == BIG
    assert [path.suffix for path in files_in(tmp_path / "work" / "spill") if path.parent.name != "spill"] == [".txt"]
