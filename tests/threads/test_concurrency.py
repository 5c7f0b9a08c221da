"""Several tasks, threads, event loops and processes on one file; and a process that is killed at any moment."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from langgraph_memory.errors import WrongThreadError
from langgraph_memory.threads.saver import ThreadSaver
from tests.support.savers import checkpoint, config, talk

KILLS = int(os.environ.get("LANGGRAPH_MEMORY_EXAMPLES", "4"))
METADATA: Any = {"source": "loop", "step": 0, "parents": {}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "threads.db"


@pytest.fixture
async def saver(path: Path) -> AsyncIterator[ThreadSaver]:
    async with ThreadSaver.from_conn_string(path) as made:
        yield made


async def put(saver: ThreadSaver, number: int, thread_id: str = "t-1", **values: Any) -> Any:
    return await saver.aput(config(thread_id), checkpoint(number, **values), METADATA, {})


async def lengths(saver: ThreadSaver, thread_id: str) -> list[int]:
    found = [one async for one in saver.alist(config(thread_id))]
    return [len(one.checkpoint["channel_values"]["messages"]) for one in found]


def program(code: str, *args: Any) -> subprocess.Popen[str]:
    head = (
        "import asyncio, sys\n"
        "from langgraph_memory.threads.saver import ThreadSaver\n"
        "from tests.support.savers import checkpoint, config, talk\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", head + code, *map(str, args)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


PUTS = """
async def main(path, name, count):
    async with ThreadSaver.from_conn_string(path) as saver:
        for number in range(count):
            await saver.aput(config(name), checkpoint(number, messages=talk(number + 1)), {"step": number}, {})
            print(number, flush=True)
asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


async def test_savers_on_one_file_wait_for_each_other(path: Path) -> None:
    async def fill(name: str) -> None:
        async with ThreadSaver.from_conn_string(path) as saver:
            for number in range(40):
                await put(saver, number, name, messages=talk(number + 1))

    await asyncio.gather(*(fill(f"t-{n}") for n in range(4)))
    async with ThreadSaver.from_conn_string(path) as saver:
        for n in range(4):
            assert await lengths(saver, f"t-{n}") == list(range(40, 0, -1))
        assert (await saver.stats()).messages == 40
        assert (await saver.verify()).problems == []


async def test_processes_on_one_thread_lose_nothing(path: Path) -> None:
    running = [await asyncio.to_thread(program, PUTS, path, "t-1" if n else "t-2", 60) for n in range(3)]
    for one in running:
        _, errors = await asyncio.to_thread(one.communicate)
        assert (one.returncode, errors) == (0, "")
    async with ThreadSaver.from_conn_string(path) as saver:
        for name in ("t-1", "t-2"):
            assert await lengths(saver, name) == list(range(60, 0, -1))
        assert (await saver.verify()).problems == []


@pytest.mark.slow
async def test_a_write_held_elsewhere_is_waited_for(saver: ThreadSaver, path: Path) -> None:
    await put(saver, 1, messages=talk(2))
    with closing(sqlite3.connect(path, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.create_task(put(saver, 2, messages=talk(4)))
        # Longer than the five seconds that sqlite3 waits by itself.
        done, _ = await asyncio.wait([waiting], timeout=5.5)
        assert not done
        other.commit()
        await waiting
    assert await lengths(saver, "t-1") == [4, 2]


async def test_what_another_saver_removed_or_added_is_noticed(saver: ThreadSaver, path: Path) -> None:
    async with ThreadSaver.from_conn_string(path) as other:
        await put(saver, 1, messages=talk(6))
        await other.adelete_thread("t-1")
        await put(saver, 2, messages=talk(8))
        await put(other, 3, messages=[*talk(8), HumanMessage("theirs")])
        await put(saver, 4, messages=[*talk(8), HumanMessage("ours")])
        await put(saver, 5, messages=talk(3))
        await other.aprune(["t-1"])
        await put(saver, 6, messages=[*talk(8), HumanMessage("ours"), HumanMessage("more")])
        assert await lengths(other, "t-1") == await lengths(saver, "t-1") == [10, 3]
        assert (await saver.verify()).problems == []


async def test_a_cancelled_put_is_whole_or_absent(saver: ThreadSaver) -> None:
    for number in range(1, 40):
        task = asyncio.create_task(put(saver, number, messages=talk(number), notes="n" * 5000))
        await asyncio.sleep(random.random() / 500)
        task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    # Asked for on the connection's thread, which may still be busy with the last of them.
    assert not await saver.call(lambda db: db.in_transaction)
    await put(saver, 99, messages=talk(3))
    found = await lengths(saver, "t-1")
    assert found[0] == 3 and found[1:] == sorted(found[1:], reverse=True)
    assert (await saver.verify()).problems == []


async def test_listing_and_writing_at_once(saver: ThreadSaver) -> None:
    await asyncio.gather(*(put(saver, n, messages=talk(n + 1)) for n in range(30)))

    async def read() -> list[int]:
        return await lengths(saver, "t-1")

    results = await asyncio.gather(read(), read(), *(put(saver, n, "t-2", messages=talk(n)) for n in range(1, 20)))
    assert results[0] == results[1] == list(range(30, 0, -1))


# Threads and event loops


async def test_blocking_methods_work_from_other_threads(saver: ThreadSaver) -> None:
    def use() -> list[int]:
        place = saver.put(config(), checkpoint(1, messages=talk(3)), METADATA, {})
        saver.put_writes(place, [("messages", talk(1))], "task")
        saver.copy_thread("t-1", "t-2")
        saver.prune(["t-2"])
        saver.delete_for_runs(["none"])
        found = [*saver.list(config("t-2")), saver.get_tuple(config())]
        saver.get_delta_channel_history(config=config(), channels=["messages"])
        saver.delete_thread("t-2")
        return [len(one.checkpoint["channel_values"]["messages"]) for one in found if one]

    assert await asyncio.to_thread(use) == [3, 3]


async def test_blocking_methods_in_the_loop_say_what_to_do(saver: ThreadSaver) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: saver.put(config(), checkpoint(1), METADATA, {}),
        lambda: saver.get_tuple(config()),
        lambda: list(saver.list(config())),
        lambda: saver.delete_thread("t-1"),
    ]
    for call in calls:
        with pytest.raises(WrongThreadError, match="Await the method"):
            call()


async def test_another_event_loop_may_use_it_too(saver: ThreadSaver) -> None:
    def elsewhere() -> list[int]:
        async def use() -> list[int]:
            await asyncio.gather(*(put(saver, n, messages=talk(n + 1)) for n in range(10)))
            return await lengths(saver, "t-1")

        return asyncio.run(use())

    _, found = await asyncio.gather(put(saver, 99, "t-2", messages=talk(1)), asyncio.to_thread(elsewhere))
    assert found == list(range(10, 0, -1))


def test_it_can_be_used_when_its_loop_has_ended(path: Path) -> None:
    async def make() -> ThreadSaver:
        saver = await ThreadSaver.from_conn_string(path).__aenter__()
        await put(saver, 1, messages=talk(2))
        await put(saver, 2, messages=talk(3))
        return saver

    saver = asyncio.run(make())
    assert len(list(saver.list(config()))) == 2
    assert saver.get_tuple(config()) is not None
    asyncio.run(saver.conn.close())


# The end of a program


FORGOTTEN = """
async def main(path):
    saver = await ThreadSaver.from_conn_string(path).__aenter__()
    await saver.aput(config(), checkpoint(1, messages=talk(3)), {}, {})
    if sys.argv[2] == "raise":
        raise SystemExit(3)
asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.parametrize(("way", "code"), [("return", 0), ("raise", 3)])
def test_a_program_ends_although_the_saver_was_not_closed(path: Path, way: str, code: int) -> None:
    running = program(FORGOTTEN, path, way)
    running.communicate(timeout=60)
    assert running.returncode == code
    assert not any(thread.name.startswith("lgm") for thread in threading.enumerate())


@pytest.mark.slow
async def test_a_process_killed_at_any_moment_leaves_a_whole_file(path: Path) -> None:
    done = -1
    for _ in range(KILLS):
        running = await asyncio.to_thread(program, PUTS, path, "t-1", 100_000)
        done = max(done, await asyncio.to_thread(_kill_soon, running))
        async with ThreadSaver.from_conn_string(path) as saver:
            found = await lengths(saver, "t-1")
            assert found == list(range(len(found), 0, -1)) and len(found) > done
            assert (await saver.verify()).problems == []


def _kill_soon(running: subprocess.Popen[str]) -> int:
    """The number of the last put that was reported before the kill."""
    assert running.stdout is not None
    first = running.stdout.readline()
    time.sleep(random.random() / 3)
    running.send_signal(signal.SIGKILL)
    rest = running.communicate()[0]
    whole = [line for line in (first + rest).split("\n")[:-1] if line]
    return int(whole[-1])
