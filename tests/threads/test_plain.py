"""Files of the plain saver open as they are; the plain saver refuses our rows; a newer file is refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from langgraph_memory.errors import DatabaseVersionError
from langgraph_memory.threads import ThreadStore, schema
from langgraph_memory.threads.saver import ThreadSaver
from tests.support import savers
from tests.support.savers import Swap, checkpoint, config, everything, talk

TURN = [("reply", 2), ("delta", 1), ("notes", 3), ("big", 2)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "threads.db"


async def history(saver: AsyncSqliteSaver) -> list[Any]:
    return [repr(one) async for one in everything(saver).aget_state_history(config())]


async def test_a_plain_file_is_read_and_continued(path: Path) -> None:
    async with AsyncSqliteSaver.from_conn_string(str(path)) as plain:
        for _ in range(2):
            await everything(plain).ainvoke(savers.given(TURN), config())
        before = await history(plain)
    async with ThreadSaver.from_conn_string(path) as ours:
        assert await history(ours) == before
        await everything(ours).ainvoke(savers.given(TURN), config())
        after = await history(ours)
        assert after[-len(before) :] == before and len(after) > len(before)
        stats = await ours.stats()
        assert 0 < stats.plain_checkpoints < stats.checkpoints
        state = await everything(ours).aget_state(config())
        await ours.aprune(["t-1"])
        assert (await everything(ours).aget_state(config())).values == state.values
        assert (await ours.verify()).problems == []


async def test_an_interrupt_of_the_plain_saver_is_answered_here(path: Path) -> None:
    async with AsyncSqliteSaver.from_conn_string(str(path)) as plain:
        await everything(plain).ainvoke(savers.given([("ask", 1)]), config())
    async with ThreadSaver.from_conn_string(path) as ours:
        found = await everything(ours).ainvoke(savers.answer("forty-two"), config())
        assert "answered forty-two" in [message.content for message in found["messages"]]


@pytest.mark.parametrize("serde", [None, EncryptedSerializer(Swap())], ids=["plain", "encrypted"])
async def test_the_plain_saver_refuses_our_rows(path: Path, serde: Any) -> None:
    async with ThreadSaver.from_conn_string(path, serde=serde) as ours:
        place = await ours.aput(config(), checkpoint(1, messages=talk(2)), {}, {})
        await ours.aput_writes(place, [("messages", talk(1))], "task")
    async with AsyncSqliteSaver.from_conn_string(str(path)) as plain:
        plain.serde = serde or plain.serde
        with pytest.raises(NotImplementedError, match="lgm1"):
            await plain.aget_tuple(config())
        with pytest.raises(NotImplementedError, match="lgm1"):
            [_ async for _ in plain.alist(None)]


async def test_a_file_from_before_task_paths_is_brought_up_to_date(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        for statement in schema.UPSTREAM:
            db.execute(statement.replace("task_path TEXT NOT NULL DEFAULT '', ", ""))
        db.execute("INSERT INTO writes VALUES ('t-1', '', 'c', 'task', 0, 'x', 'null', x'')")
        db.commit()
    async with ThreadSaver.from_conn_string(path) as ours:
        place = await ours.aput(config(), checkpoint(1), {}, {})
        await ours.aput_writes(place, [("x", 1)], "task", "path")
        found = await ours.aget_tuple(place)
        assert found is not None and found.pending_writes == [("task", "x", 1)]


async def test_a_file_that_cannot_be_written_is_read(path: Path) -> None:
    async with AsyncSqliteSaver.from_conn_string(str(path)) as plain:
        await plain.aput(config(), checkpoint(1, messages=talk(2)), {}, {})
    from langgraph_memory.threads import driver

    async with driver.connection(f"file:{path}?mode=ro", uri=True) as conn:
        found = await ThreadSaver(conn).aget_tuple(config())
        assert found is not None and found.checkpoint["channel_values"]["messages"] == talk(2)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            await ThreadSaver(conn).aput(config(), checkpoint(2), {}, {})


async def test_a_newer_file_is_refused_and_left_alone(path: Path) -> None:
    async with ThreadSaver.from_conn_string(path) as ours:
        await ours.aput(config(), checkpoint(1, messages=[HumanMessage("x")]), {}, {})
        await ours.conn.execute("INSERT INTO lgm_migrations VALUES (99, 'from_the_future')")
        await ours.conn.commit()
    async with ThreadSaver.from_conn_string(path) as ours:
        for work in (ours.aget_tuple(config()), ours.adelete_thread("t-1")):
            with pytest.raises(DatabaseVersionError, match=rf"{path}.* version 99.*up to {len(schema.MIGRATIONS)}"):
                await work


async def test_every_migration_is_noted_by_name(path: Path) -> None:
    async with ThreadSaver.from_conn_string(path) as ours:
        await ours.setup()
    with closing(sqlite3.connect(path)) as db:
        noted = db.execute("SELECT version, name FROM lgm_migrations ORDER BY version").fetchall()
    assert noted == [(n, migration.__name__) for n, migration in enumerate(schema.MIGRATIONS, 1)]


async def test_a_database_in_memory_works() -> None:
    async with ThreadSaver.from_conn_string(":memory:") as ours:
        await everything(ours).ainvoke(savers.given(TURN), config())
        assert (await ours.verify()).problems == []


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), [{"deep": float("-inf")}]])
async def test_a_plain_thread_with_metadata_that_is_no_json_can_be_rewound(path: Path, odd: Any) -> None:
    async with AsyncSqliteSaver.from_conn_string(str(path)) as plain:
        for _ in range(2):
            await everything(plain).ainvoke(savers.given(TURN), {**config(), "metadata": {"score": odd}})
    async with ThreadSaver.from_conn_string(path) as ours:
        store = ThreadStore(ours)
        first, *_, last = [node.checkpoint_id for node in await store.checkpoints("t-1")]
        await store.rewind("t-1", first)
        await store.rewind("t-1", last)
        assert (await ours.verify()).problems == []


@pytest.mark.parametrize("limit", [-1, 1.5, "2"])
async def test_a_limit_that_is_no_number_of_checkpoints_is_refused(path: Path, limit: Any) -> None:
    async with ThreadSaver.from_conn_string(path) as ours:
        await ours.aput(config(), checkpoint(1), {}, {})
        with pytest.raises(ValueError, match=r"limit is .*; allowed are whole numbers from 0"):
            [one async for one in ours.alist(config(), limit=limit)]
        assert [one async for one in ours.alist(config(), limit=0)] == []
