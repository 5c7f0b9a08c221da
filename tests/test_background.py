import asyncio
import contextvars
import threading

import pytest

from langgraph_memory.background import Background

marked: contextvars.ContextVar[str] = contextvars.ContextVar("marked", default="fresh")


async def test_a_task_runs_beside_its_caller_in_a_fresh_context():
    background, go, seen = Background(), asyncio.Event(), []

    async def work() -> None:
        await go.wait()
        seen.append(marked.get())

    marked.set("the caller's")
    background.start("k", work)
    assert seen == []
    go.set()
    await background.settled("k", 5)
    assert seen == ["fresh"]


def test_a_thread_runs_beside_its_caller_in_a_fresh_context():
    background, go, seen = Background(), threading.Event(), []
    marked.set("the caller's")
    background.start_in_thread("k", lambda: (go.wait(5), seen.append(marked.get())))
    assert seen == []
    go.set()
    background.settled_sync("k", 5)
    assert seen == ["fresh"]


async def test_a_key_is_taken_until_its_work_has_ended():
    background, go, runs = Background(), asyncio.Event(), []

    async def work() -> None:
        runs.append(1)
        await go.wait()

    for _ in range(3):
        background.start("k", work)
        background.start_in_thread("k", lambda: runs.append(2))
    background.start("other", work)
    await asyncio.sleep(0.01)
    assert runs == [1, 1]
    go.set()
    await background.settled("k", 5)
    background.start("k", work)
    await background.settled("k", 5)
    assert runs == [1, 1, 1]
    await background.drain(5)


async def test_waiting_ends_with_the_time_limit_and_leaves_the_work_alone():
    background, go, done = Background(), asyncio.Event(), []

    async def work() -> None:
        await go.wait()
        done.append(1)

    background.start("k", work)
    await background.settled("k", 0.01)
    await asyncio.to_thread(background.settled_sync, "k", 0.01)
    assert done == []
    go.set()
    await asyncio.to_thread(background.settled_sync, "k", 5)
    assert done == [1]


async def test_a_cancelled_waiter_leaves_the_work_alone():
    background, go, done = Background(), asyncio.Event(), []

    async def work() -> None:
        await go.wait()
        done.append(1)

    background.start("k", work)
    waiter = asyncio.create_task(background.settled("k", 5))
    await asyncio.sleep(0.01)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    go.set()
    await background.settled("k", 5)
    assert done == [1]


async def test_draining_waits_and_then_cancels():
    background, ended = Background(), []

    async def work(seconds: float) -> None:
        try:
            await asyncio.sleep(seconds)
            ended.append("done")
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    background.start("short", lambda: work(0.01))
    background.start("long", lambda: work(60))
    await background.drain(0.2)
    assert ended == ["done", "cancelled"]
    await background.drain(0.2)


@pytest.mark.parametrize("mode", ["task", "thread"])
async def test_a_failure_is_logged_and_frees_the_key(mode, caplog):
    background = Background()

    async def fail() -> None:
        raise RuntimeError("broken")

    def fail_sync() -> None:
        raise RuntimeError("broken")

    for _ in range(2):
        background.start("k", fail) if mode == "task" else background.start_in_thread("k", fail_sync)
        await background.settled("k", 5)
        await asyncio.sleep(0)
    assert caplog.text.count("Work in the background failed") == 2


def test_work_whose_loop_was_closed_over_it_is_not_waited_for():
    background = Background()
    loop = asyncio.new_event_loop()

    async def begin() -> None:
        background.start("k", lambda: asyncio.sleep(0))

    loop.run_until_complete(begin())
    loop.close()
    background.settled_sync("k", 30)
    runs: list[int] = []
    background.start_in_thread("k", lambda: runs.append(1))
    background.settled_sync("k", 5)
    assert runs == [1]
