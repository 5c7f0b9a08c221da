"""The regular round: what is done in which order, by whom, how often, and what a failure leaves to the others."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from filelock import FileLock
from langchain_core.messages import HumanMessage

from langgraph_memory import MemoryMiddleware, ThreadStore
from langgraph_memory.earlier import StoredMessages
from langgraph_memory.errors import LangGraphMemoryError
from langgraph_memory.longterm import flushed
from langgraph_memory.longterm.keeper import Keeper
from langgraph_memory.longterm.maintain import Done
from langgraph_memory.sidebranches import SideBranches
from langgraph_memory.spill import SpillStore
from langgraph_memory.upkeep import LOCK, RETRY_SECONDS, STAMP, TICK_SECONDS
from tests.support.graphs import configured, node_graph
from tests.support.models import Scripted
from tests.support.processes import ended, start
from tests.support.remembering import noting

OF_A_MEMORY = ["flush", "consolidate", "ledgers", "sessions", "versions", "index"]
ALL = [*OF_A_MEMORY, "spills", "threads"]
Settings = dict[str, Any]


async def kept(workspace: Path, user: str, *entries: Any) -> Keeper:
    keeper = Keeper(workspace, (user,))
    await asyncio.to_thread(keeper.append, entries)
    return keeper


def notes(workspace: Path, user: str = "ada") -> str:
    file = workspace / user / "MEMORY.md"
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def memory_of(workspace: Path | None, settings: Settings | None = None, **more: Any) -> MemoryMiddleware:
    return MemoryMiddleware(configured(settings), workspace=workspace, **more)


async def round_of(memory: MemoryMiddleware, *, spills: bool = False, force: bool = False) -> list[Done]:
    return [done async for done in memory.upkeep(spills=spills).round(force=force)]


def names(found: list[Done]) -> list[str]:
    return [done.name for done in found]


def opened(folder: Path, settings: Settings | None = None, **options: Any) -> Any:
    """A memory with real files in `folder`."""
    config = configured(settings).model_dump(mode="json")
    config["persistence"] = {"thread_db": str(folder / "t.db"), "workspace": str(folder / "work")}
    return MemoryMiddleware.open(config, **options)


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(holds):  # noqa: ASYNC110 - files have no events
            await asyncio.sleep(0.01)


# The order


async def test_memory_by_memory_and_then_what_belongs_to_all(tmp_path: Path) -> None:
    await kept(tmp_path, "ada", "Ada likes tea.")
    await kept(tmp_path, "bob", "Bob likes jazz.")
    found = await round_of(memory_of(tmp_path))
    assert names(found) == [*OF_A_MEMORY, *OF_A_MEMORY, "spills", "threads"]
    assert [done.count for done in found if done.name == "consolidate"] == [1, 1]
    assert "jazz" in notes(tmp_path, "bob")
    assert (tmp_path / STAMP).exists()


async def test_what_is_old_is_merged_before_it_goes_to_the_archive(tmp_path: Path) -> None:
    moment = (datetime.now() - timedelta(days=400)).isoformat()
    await kept(tmp_path, "ada", {"text": "Ada likes tea.", "timestamp": moment})
    found = {done.name: done for done in await round_of(memory_of(tmp_path))}
    assert (found["consolidate"].count, found["ledgers"].count) == (1, 1)
    assert "tea" in notes(tmp_path)


async def test_the_interval_between_two_merges_holds_unless_it_is_forced(tmp_path: Path) -> None:
    memory = memory_of(tmp_path)
    await kept(tmp_path, "ada", "Ada likes tea.")
    await round_of(memory)
    await kept(tmp_path, "ada", "Ada likes jazz.")
    await round_of(memory)
    assert "jazz" not in notes(tmp_path)
    await round_of(memory, force=True)
    assert "jazz" in notes(tmp_path)


async def test_without_a_workspace_there_is_nothing_to_do(tmp_path: Path) -> None:
    memory = memory_of(None)
    assert await round_of(memory) == []
    await memory.upkeep().tick()
    assert files_in(tmp_path) == set()


async def test_where_there_are_only_session_logs_no_memory_is_made(tmp_path: Path) -> None:
    log = tmp_path / "ada/sessions/t-1.jsonl"
    log.parent.mkdir(parents=True)
    log.touch()
    assert names(await round_of(memory_of(tmp_path))) == ALL
    assert not [name for name in files_in(tmp_path) if name.endswith(".md") or "/memory/" in name]


# One at a time


def test_a_process_that_finds_another_at_it_leaves_it_to_that(tmp_path: Path) -> None:
    asyncio.run(kept(tmp_path, "ada", "Ada likes tea."))
    sign = tmp_path / "taken"

    def hold() -> None:
        with FileLock(tmp_path / LOCK):
            sign.touch()
            time.sleep(120)

    child = start(hold)
    try:
        asyncio.run(until(sign.exists))
        (done,) = asyncio.run(round_of(memory_of(tmp_path)))
        assert (done.name, done.count) == ("round", 0) and "another" in done.problem
        assert not (tmp_path / STAMP).exists()
    finally:
        os.kill(child, signal.SIGKILL)
        ended(child)
    # The lock of a process that was killed is free.
    assert names(asyncio.run(round_of(memory_of(tmp_path)))) == ALL


async def test_rounds_at_once_do_everything_once(tmp_path: Path) -> None:
    await kept(tmp_path, "ada", "Ada likes tea.")
    rounds = await asyncio.gather(*(round_of(memory_of(tmp_path)) for _ in range(4)))
    assert [sum(done.count for done in found if done.name == "consolidate") for found in rounds].count(1) == 1
    assert all(names(found) in (ALL, ["round"]) for found in rounds)


async def test_a_round_that_is_given_up_leaves_the_lock(tmp_path: Path) -> None:
    await kept(tmp_path, "ada", "Ada likes tea.")
    half = memory_of(tmp_path).upkeep().round()
    assert (await anext(half)).name == "flush"
    assert names(await round_of(memory_of(tmp_path))) == ["round"]
    await half.aclose()
    assert names(await round_of(memory_of(tmp_path))) == ALL


async def test_a_round_that_is_cancelled_as_it_takes_the_lock_leaves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taking, take = threading.Event(), threading.Event()
    real = FileLock.acquire

    def acquire(self: FileLock, *args: Any, **options: Any) -> Any:
        taking.set()
        take.wait(60)
        return real(self, *args, **options)

    monkeypatch.setattr(FileLock, "acquire", acquire)
    memory = memory_of(tmp_path)
    task = asyncio.create_task(round_of(memory))
    await until(taking.is_set)
    task.cancel()
    take.set()
    assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], asyncio.CancelledError)
    assert names(await round_of(memory)) == ["spills", "threads"]


# When


class EndedError(Exception):
    """The ticker would sleep now."""


async def ticked(memory: MemoryMiddleware, monkeypatch: pytest.MonkeyPatch) -> float:
    """Let the ticker do what is due; how long it would sleep then."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        raise EndedError

    monkeypatch.setattr("langgraph_memory.upkeep.asyncio", SimpleNamespace(sleep=sleep))
    with pytest.raises(EndedError):
        await memory.upkeep().tick()
    await memory.adrain(30)
    return slept[0]


@pytest.mark.parametrize(("ago", "due"), [(None, True), (0, False), (3590, False), (3610, True), (-10, True)])
async def test_a_round_is_due_when_the_last_of_anybody_is_long_ago(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ago: float | None, due: bool
) -> None:
    await kept(tmp_path, "ada", "Ada likes tea.")
    if ago is not None:
        (tmp_path / STAMP).touch()
        os.utime(tmp_path / STAMP, (time.time() - ago,) * 2)
    assert await ticked(memory_of(tmp_path, {"maintenance.interval_hours": 1}), monkeypatch) == TICK_SECONDS
    assert (tmp_path / "ada/MEMORY.md").exists() == due


async def test_a_short_interval_is_kept_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await ticked(memory_of(tmp_path, {"maintenance.interval_hours": 0.001}), monkeypatch) == pytest.approx(3.6)


async def test_a_round_that_failed_is_not_tried_every_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / LOCK).mkdir()
    assert await ticked(memory_of(tmp_path), monkeypatch) == RETRY_SECONDS
    assert not (tmp_path / STAMP).exists()
    assert len([one for one in caplog.records if "not finished" in one.message]) == 1


async def test_what_was_due_is_made_up_for_whatever_the_interval_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await kept(tmp_path, "ada", "x")
    asked: list[str] = []

    async def recover(_: SideBranches, keeper: Keeper, tokenizer: str) -> int:
        asked.append(keeper.folder.path.name)
        return 0

    monkeypatch.setattr(SideBranches, "recover", recover)
    for hours in (0, 6):
        (tmp_path / STAMP).touch()
        memory = memory_of(tmp_path, {"maintenance.interval_hours": hours})
        if hours:
            await ticked(memory, monkeypatch)
        else:
            await memory.upkeep().tick()
            await memory.adrain(30)
    assert asked == ["ada", "ada"]


# Failures

STEPS = {
    "flush": "langgraph_memory.sidebranches.SideBranches.recover",
    "ledgers": "langgraph_memory.longterm.maintain.expire_ledgers",
    "sessions": "langgraph_memory.longterm.maintain.prune_sessions",
    "versions": "langgraph_memory.longterm.history.prune",
    "index": "langgraph_memory.longterm.maintain.refresh_index",
    "spills": "langgraph_memory.upkeep.sweep",
    "threads": "langgraph_memory.upkeep.expire",
}


@pytest.mark.parametrize("error", [OSError("no"), sqlite3.OperationalError("locked"), LangGraphMemoryError("damaged")])
@pytest.mark.parametrize("step", STEPS)
async def test_a_step_that_fails_does_not_keep_the_others_from_being_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: Exception
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(STEPS[step], fail)
    await kept(tmp_path / "work", "ada", "Ada likes tea.")
    await kept(tmp_path / "work", "bob", "Bob likes jazz.")
    settings = {"maintenance.thread_retention_days": 1, "maintenance.interval_hours": 0}
    async with opened(tmp_path, {**settings, "maintenance.thread_retention_days": 0}) as memory:
        again = MemoryMiddleware(configured(settings), saver=memory.saver, workspace=memory.workspace)
        found = await round_of(again, spills=True)
    assert names(found) == [*OF_A_MEMORY, *OF_A_MEMORY, "spills", "threads"]
    problems = {done.name for done in found if done.problem}
    assert problems == ({step} if step != "flush" else set())
    assert "jazz" in notes(tmp_path / "work", "bob")
    assert (tmp_path / "work" / STAMP).exists()


async def test_a_damaged_memory_does_not_keep_the_others_from_being_looked_after(tmp_path: Path) -> None:
    broken = tmp_path / "ada"
    (broken / "memory").mkdir(parents=True)
    (broken / "MEMORY.md").mkdir()
    (broken / "index.db").write_bytes(b"not a database" * 100)
    (broken / "memory/2026-11-30.md").write_bytes(b"\xff\xfe\0\0")
    await kept(tmp_path, "bob", "Bob likes jazz.")
    assert names(await round_of(memory_of(tmp_path))) == [*OF_A_MEMORY, *OF_A_MEMORY, "spills", "threads"]
    assert "jazz" in notes(tmp_path, "bob")


async def test_the_ticker_lives_on_whatever_a_round_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: Any) -> Any:
        raise ValueError("no active connection")

    monkeypatch.setattr("langgraph_memory.upkeep.expire", fail)
    # Without a ticker of its own, which would be one of those that are watched.
    async with opened(tmp_path, {"maintenance.interval_hours": 0}) as memory:
        settings = {"maintenance.thread_retention_days": 1}
        again = MemoryMiddleware(configured(settings), saver=memory.saver, workspace=tmp_path / "other")
        assert await ticked(again, monkeypatch) == RETRY_SECONDS


# What belongs to all


async def test_spill_files_nobody_refers_to_go(tmp_path: Path) -> None:
    store = SpillStore(tmp_path / "work/spill")
    digest = await asyncio.to_thread(store.put, "x" * 1000)
    (file,) = (path for path in (tmp_path / "work/spill").rglob("*") if digest in path.name)
    async with opened(tmp_path, {"maintenance.interval_hours": 0}) as memory:
        # It is looked for once a day, and that was done at the opening.
        for sign in (tmp_path / "work/spill").iterdir():
            os.utime(sign, (time.time() - 100 * 86_400,) * 2)
        os.utime(file, (time.time() - 100 * 86_400,) * 2)
        unknown = {done.name: done for done in await round_of(memory)}["spills"]
        assert (unknown.count, bool(unknown.problem), file.exists()) == (0, True, True)
        assert {done.name: done.count for done in await round_of(memory, spills=True)}["spills"] == 1
    assert not file.exists()


async def test_threads_nobody_has_used_for_long_go_to_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz or UTC) + timedelta(days=10)

    async with opened(tmp_path, {"maintenance.interval_hours": 0}) as memory:
        graph = node_graph(memory, Scripted(), saver=memory.saver)
        run = {"configurable": {"thread_id": "t", "user_id": "ada"}}
        await graph.ainvoke({"messages": [HumanMessage("I like jazz")]}, run)
        await memory.adrain(30)
        monkeypatch.setattr("langgraph_memory.retention.datetime", Later)
        for days, gone in ((30, 0), (0, 0), (5, 1)):
            settings = {"maintenance.thread_retention_days": days}
            again = MemoryMiddleware(configured(settings), saver=memory.saver, workspace=memory.workspace)
            assert {done.name: done.count for done in await round_of(again)}["threads"] == gone
        assert await ThreadStore(memory.saver).threads() == []
    assert (tmp_path / "work/archive/threads/t.jsonl").exists()


# Opening and leaving


async def test_the_ticker_does_a_round_at_the_opening_and_ends_with_it(tmp_path: Path) -> None:
    await kept(tmp_path / "work", "ada", "Ada likes tea.")
    async with opened(tmp_path):
        await until((tmp_path / "work" / STAMP).exists)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert "tea" in notes(tmp_path / "work")


def test_the_ticker_of_a_sync_program_ends_with_it_too(tmp_path: Path) -> None:
    asyncio.run(kept(tmp_path / "work", "ada", "Ada likes tea."))
    with opened(tmp_path):
        asyncio.run(until((tmp_path / "work" / STAMP).exists))
    assert not [thread for thread in threading.enumerate() if thread.name == "memory-loop"]
    assert "tea" in notes(tmp_path / "work")


async def test_leaving_waits_for_no_model_and_leaves_no_lock(tmp_path: Path) -> None:
    await kept(tmp_path / "work", "ada", "Ada likes tea.")
    asked = asyncio.Event()

    class Never(Scripted):
        async def _agenerate(self, messages: Any, *args: Any, **options: Any) -> Any:
            asked.set()
            await asyncio.Event().wait()

    async with asyncio.timeout(60), opened(tmp_path, model=Never()):
        await asked.wait()
    assert not (tmp_path / "work" / STAMP).exists()
    assert notes(tmp_path / "work") == ""
    found = await round_of(memory_of(tmp_path / "work", model=Scripted(replies=noting)))
    assert names(found) == ALL
    assert "tea" in notes(tmp_path / "work")


async def test_with_no_interval_there_is_no_ticker(tmp_path: Path) -> None:
    await kept(tmp_path / "work", "ada", "Ada likes tea.")
    async with opened(tmp_path, {"maintenance.interval_hours": 0}) as memory:
        await memory.adrain(30)
    assert not (tmp_path / "work" / STAMP).exists()
    assert notes(tmp_path / "work") == ""


async def test_one_thread_that_cannot_be_read_does_not_hold_up_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = StoredMessages.messages

    async def messages(self: StoredMessages, thread_id: str) -> Any:
        if thread_id == "a":
            raise LangGraphMemoryError("damaged")
        return await real(self, thread_id)

    keeper = await kept(tmp_path / "work", "ada", "x")

    def noted() -> None:
        with keeper.writing() as db:
            for name in ("a", "b"):
                flushed.set_due(db, name, name, reason="turn", now=time.time())

    def left() -> list[str]:
        with keeper.reading() as db:
            return [due.thread for due in flushed.due(db)]

    settings = {"flush.trigger": "never", "maintenance.interval_hours": 0}
    async with opened(tmp_path, settings, model=Scripted(replies=noting)) as memory:
        graph = node_graph(memory, Scripted(), saver=memory.saver)
        for name in ("a", "b"):
            run = {"configurable": {"thread_id": name, "user_id": "ada"}}
            await graph.ainvoke({"messages": [HumanMessage(f"I like {name}", id=name)]}, run)
        await asyncio.to_thread(noted)
        monkeypatch.setattr(StoredMessages, "messages", messages)
        assert {done.name: done.count for done in await round_of(memory)}["flush"] == 1
        assert await asyncio.to_thread(left) == ["a"]
