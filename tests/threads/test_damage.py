"""Rows that are not what they should be: each is named, and no other thread suffers from it."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from langgraph_memory.errors import DamagedDatabaseError
from langgraph_memory.threads import ThreadSaver, ThreadStore
from langgraph_memory.threads.codec import Codec
from langgraph_memory.threads.stored import stored_values
from tests.support.savers import Swap, checkpoint, config, talk
from tests.support.stores import chat, tell

NEWEST = "WHERE rowid = (SELECT max(rowid) FROM checkpoints WHERE thread_id = 'a')"
WRITE = "WHERE rowid = (SELECT max(rowid) FROM writes WHERE thread_id = 'a')"
CHECKPOINTS = {
    "cut": "checkpoint = substr(checkpoint, 1, length(checkpoint) - 1)",
    "longer": "checkpoint = CAST(checkpoint || x'00' AS BLOB)",
    "empty": "checkpoint = x''",
    "zeros": "checkpoint = zeroblob(40)",
    "text": "checkpoint = 'half'",
    "text that is none": "checkpoint = checkpoint || x'ff'",
    "number": "checkpoint = 7",
    "null": "checkpoint = NULL",
    "unknown type": "type = 'foo'",
    "no type": "type = NULL",
    "type of bytes": "type = x'00ff'",
    "plain": "type = 'msgpack', checkpoint = x'c1'",
    "plain that is cut": "type = 'msgpack', checkpoint = x'81a161'",
    "plain that is no checkpoint": "type = 'msgpack', checkpoint = x'01'",
}
METADATA = {"cut": "metadata = '{\"a\"'", "list": "metadata = '[]'", "bytes": "metadata = x'ff00'"}
WRITES = {
    "ours": "type = 'lgm1', value = x'0102'",
    "plain": "type = 'msgpack', value = x'c1'",
    "unknown type": "type = 'foo'",
    "no type": "type = NULL",
    "null": "value = NULL",
}
ITEMS = {
    "bytes": "data = x'c1'",
    "unknown type": "type = 'foo'",
    "cut": "data = substr(data, 1, 20)",
}


def damage(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        assert db.execute(statement).rowcount == 1


def write_of(path: Path) -> str:
    """The place of the newest write of the thread `a`, as it is told."""
    with closing(sqlite3.connect(path)) as db:
        row = db.execute(f"SELECT checkpoint_id, idx, channel FROM writes {WRITE}").fetchone()
    return f"thread 'a': checkpoint {row[0]!r}: write {row[1]} of task"


@asynccontextmanager
async def again(path: Path, **options: Any) -> AsyncIterator[ThreadSaver]:
    async with ThreadSaver.from_conn_string(path, **options) as saver:
        yield saver


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """Two threads with an answer of their own each, which wait for another."""
    path = tmp_path / "threads.db"
    async with again(path) as saver:
        for name in "ab":
            await tell(chat("add", saver), f"heron {name}", f"really {name}?", name=name)
    return path


@pytest.mark.parametrize("kind", CHECKPOINTS)
async def test_a_checkpoint_that_cannot_be_read_is_named_and_takes_nothing_with_it(
    path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    damage(path, f"UPDATE checkpoints SET {CHECKPOINTS[kind]} {NEWEST}")
    async with again(path) as saver:
        store, newest = ThreadStore(saver), (await ThreadStore(saver).branches("a"))[-1]
        (problem,) = (await store.verify()).problems
        assert problem.startswith(f"thread 'a': checkpoint {newest!r}: ")
        threads = await store.threads()
        assert ([row.thread_id for row in threads], threads.damaged) == (["b"], ("a",))
        assert "Thread 'a'" in caplog.text and "Left out" in caplog.text
        assert "a: damaged, cannot be read" in threads.lines()
        assert "b" in {hit.thread_id for hit in await store.search("heron")}
        for asked in (
            store.messages("a"),
            store.checkpoints("a"),
            store.search("heron", thread_id="a"),
            saver.aget_tuple(config("a")),
            store.append("a", {}),
        ):
            with pytest.raises(DamagedDatabaseError, match="'a'"):
                await asked
        await store.delete("a")
        assert (await store.verify()).ok and (await store.threads()).damaged == ()


@pytest.mark.parametrize("kind", METADATA)
async def test_metadata_that_are_no_json_are_named(path: Path, kind: str) -> None:
    damage(path, f"UPDATE checkpoints SET {METADATA[kind]} {NEWEST}")
    async with again(path) as saver:
        store = ThreadStore(saver)
        (problem,) = (await store.verify()).problems
        assert "thread 'a': checkpoint" in problem and "metadata" in problem
        assert {row.thread_id for row in await store.threads()} >= {"b"}
        for asked in (store.checkpoints("a"), saver.aget_tuple(config("a"))):
            with pytest.raises(DamagedDatabaseError, match="metadata"):
                await asked
        await saver.adelete_for_runs(["nobody"])


async def test_not_a_number_in_metadata_is_no_damage(path: Path) -> None:
    damage(path, f"UPDATE checkpoints SET metadata = '{{\"score\": NaN}}' {NEWEST}")
    async with again(path) as saver:
        assert (await saver.verify()).problems == []


@pytest.mark.parametrize("kind", WRITES)
async def test_a_write_that_cannot_be_read_is_named(path: Path, kind: str) -> None:
    place = write_of(path)
    damage(path, f"UPDATE writes SET {WRITES[kind]} {WRITE}")
    async with again(path) as saver:
        (problem,) = (await saver.verify()).problems
        assert problem.startswith(place)
        assert {row.thread_id for row in await ThreadStore(saver).threads()} >= {"b"}
        with pytest.raises(DamagedDatabaseError, match="Thread 'a'"):
            await saver.aget_tuple(config("a"))
        assert await saver.aget_tuple(config("b"))


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("kind", ITEMS)
async def test_a_message_that_cannot_be_read_is_named_with_its_thread_and_keeps_no_other_from_being_found(
    path: Path, kind: str, indexed: bool
) -> None:
    if indexed:
        async with again(path) as saver:
            assert len(await ThreadStore(saver).search("heron")) == 4
    damage(path, f"UPDATE lgm_items SET {ITEMS[kind]} WHERE id = 2")
    async with again(path) as saver:
        store = ThreadStore(saver)
        (problem,) = (await store.verify()).problems
        assert problem.startswith("item 2 ") and problem.endswith("used by thread 'a'")
        assert "b" in {row.thread_id for row in await store.threads()}
        assert {(hit.thread_id, hit.role) for hit in await store.search("heron")} >= {("b", "human"), ("b", "ai")}
        with pytest.raises(DamagedDatabaseError, match="Thread 'a'"):
            await saver.aget_tuple(config("a"))


async def test_everything_that_is_wrong_is_named_at_once(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        ids = [row[0] for row in db.execute("SELECT checkpoint_id FROM checkpoints WHERE thread_id = 'a'")]
        db.execute("UPDATE checkpoints SET type = 'foo', metadata = '{' WHERE thread_id = 'a'")
        writes = db.execute("UPDATE writes SET value = x'c1', type = 'msgpack' WHERE thread_id = 'b'").rowcount
    async with again(path) as saver:
        problems = (await saver.verify()).problems
        assert all(sum(f"'a': checkpoint {id!r}: " in problem for problem in problems) == 2 for id in ids)
        assert sum("thread 'b'" in problem and "write" in problem for problem in problems) == writes > 1


async def test_a_message_that_is_gone_is_not_counted_out(path: Path) -> None:
    damage(path, "DELETE FROM lgm_items WHERE id = 1")
    async with again(path) as saver:
        assert (await ThreadStore(saver).threads()).damaged == ("a",)


@pytest.mark.parametrize("kind", ["cut", "null", "unknown type", "plain"])
async def test_what_is_encrypted_is_looked_at_too(tmp_path: Path, kind: str) -> None:
    path, serde = tmp_path / "threads.db", EncryptedSerializer(Swap())
    async with again(path, serde=serde) as saver:
        for name in "ab":
            place = await saver.aput(config(name), checkpoint(1, messages=talk(3), n="x"), {}, {})
            await saver.aput_writes(place, [("n", {"odd": "half \ud83d"})], "task")
        assert (await saver.verify()).problems == []
    damage(path, f"UPDATE checkpoints SET {CHECKPOINTS[kind]} {NEWEST}")
    damage(path, f"UPDATE writes SET value = x'3e' {WRITE}")
    async with again(path, serde=serde) as saver:
        first, second = (await saver.verify()).problems
        assert "write 0 of task 'task' to 'n'" in second and "'a'" in first
        assert (await ThreadStore(saver).threads()).damaged == ("a",)
    async with again(path) as blind:
        with pytest.raises(NotImplementedError, match="EncryptedSerializer"):
            await blind.verify()


@pytest.mark.parametrize("statement", [CHECKPOINTS["plain"], CHECKPOINTS["unknown type"], METADATA["cut"]])
async def test_a_file_of_the_plain_saver_is_looked_at_in_the_same_way(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "plain.db"
    async with AsyncSqliteSaver.from_conn_string(str(path)) as plain:
        for name in "ab":
            await tell(chat("add", plain), f"heron {name}", name=name)
    damage(path, f"UPDATE checkpoints SET {statement} {NEWEST}")
    for kind in (AsyncSqliteSaver, ThreadSaver):
        async with kind.from_conn_string(str(path)) as saver:
            store = ThreadStore(saver)
            (problem,) = (await store.verify()).problems
            assert problem.startswith("thread 'a': checkpoint")
            assert "b" in {row.thread_id for row in await store.threads()}
            assert {hit.thread_id for hit in await store.search("heron b")} >= {"b"}
            with pytest.raises(DamagedDatabaseError, match="Thread 'a'"):
                await store.checkpoints("a")


async def test_verify_builds_no_object_of_what_langgraphs_serializer_wrote(path: Path) -> None:
    async with again(path) as saver:
        value = saver.codec.dump({"messages": [HumanMessage("x"), AIMessage("y")], "set": {1}})
        assert saver.codec.look(*value) == {"messages": [None, None], "set": None}
        torn = value[1].replace(b"content", b"\xc1ontent")
        with pytest.raises(DamagedDatabaseError):
            saver.codec.look(value[0], torn)


def test_another_serializer_is_asked_itself() -> None:
    class Own(JsonPlusSerializer):
        def loads_typed(self, data: tuple[str, bytes]) -> Any:
            return super().loads_typed(("msgpack", data[1][1:]))

    codec, (type_, data) = Codec(Own()), JsonPlusSerializer().dumps_typed([1])
    assert codec.look(type_, b"\xc1" + data) == [1]


def test_marks_are_not_missed_in_a_value_that_is_cut(path: Path) -> None:
    damage(path, f"UPDATE checkpoints SET {CHECKPOINTS['cut']} {NEWEST}")
    with pytest.raises(DamagedDatabaseError, match="cut off"):
        list(stored_values(str(path)))
