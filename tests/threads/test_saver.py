"""`ThreadSaver` alone: sizes, odd values, ids, removing, copying, encryption and checking."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Interrupt, Overwrite, Send, interrupt

from langgraph_memory.errors import DamagedDatabaseError, ThreadIdError, UnstorableError
from langgraph_memory.threads.saver import ThreadSaver
from tests.support import savers
from tests.support.models import Scripted
from tests.support.savers import Swap, checkpoint, config, everything, talk

FILE = "threads.db"


@pytest.fixture
async def saver(tmp_path: Path) -> AsyncIterator[ThreadSaver]:
    async with ThreadSaver.from_conn_string(tmp_path / FILE) as made:
        yield made


async def put(saver: ThreadSaver, number: int, thread_id: Any = "t-1", parent: int | None = None, **values: Any) -> Any:
    parent_id = checkpoint(parent)["id"] if parent is not None else None
    metadata: Any = {"source": "loop", "step": number, "parents": {}}
    return await saver.aput(config(thread_id, parent_id), checkpoint(number, **values), metadata, {})


async def values(saver: ThreadSaver, place: Any) -> dict[str, Any]:
    found = await saver.aget_tuple(place)
    assert found is not None
    return found.checkpoint["channel_values"]


async def rows(saver: ThreadSaver, table: str) -> int:
    async with saver.conn.execute(f"SELECT count(*) FROM {table}") as found:
        row = await found.fetchone()
    assert row is not None
    return int(row[0])


OURS = ("lgm_items", "lgm_chains", "lgm_links", "lgm_threads", "lgm_item_holds", "lgm_chain_holds")


async def leftovers(saver: ThreadSaver) -> dict[str, int]:
    counts = {table: await rows(saver, table) for table in ("checkpoints", "writes", *OURS)}
    return {table: count for table, count in counts.items() if count}


def contents(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


def modes(folder: Path) -> set[int]:
    return {file.stat().st_mode & 0o077 for file in folder.iterdir()}


# Size


def echo(saver: Any) -> Any:
    async def model(state: MessagesState) -> Any:
        return {"messages": [AIMessage(f"{len(state['messages']):4}" * 375)]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_edge(START, "model")
    return builder.compile(checkpointer=saver)


async def test_a_thread_grows_by_what_was_said(saver: ThreadSaver) -> None:
    graph, sizes = echo(saver), []
    for turn in range(60):
        await graph.ainvoke({"messages": [HumanMessage(f"{turn:4}" * 125)]}, config())
        if turn in (19, 39, 59):
            sizes.append((await saver.stats()).file_bytes)
    assert sizes[2] - sizes[1] < 1.4 * (sizes[1] - sizes[0]) + 8192
    assert sizes[2] < 60 * 7500 + 150_000
    stats = await saver.stats()
    assert (stats.messages, stats.checkpoints, stats.chains, stats.links) == (120, 180, 1, 120)


async def test_large_values_that_do_not_change_are_stored_once(saver: ThreadSaver) -> None:
    for number in range(20):
        await put(saver, number, notes={"text": "n" * 5000}, small=[1, 2])
    stats = await saver.stats()
    assert (stats.blobs, stats.blob_bytes < 5100) == (1, True)


# Odd values


@pytest.mark.parametrize(
    "text", ["half \ud83d end", "\udc00", "nul \0 end", "\ue000d83d literal", "both \ue000 \ud800?"]
)
async def test_odd_text_comes_back_as_it_was(saver: ThreadSaver, text: str) -> None:
    call = {"name": "f", "args": {"x": [text]}, "id": "c", "type": "tool_call"}
    messages = [
        HumanMessage(text, id="a"),
        AIMessage([{"type": "text", "text": text}], tool_calls=[call]),
        ToolMessage(text, tool_call_id="c"),
    ]
    place = await put(saver, 1, messages=messages, plain=text, nested={text: [text] * 80}, one=messages[0])
    await saver.aput_writes(place, [("messages", messages), ("plain", text)], "task")
    found = await saver.aget_tuple(place)
    assert found is not None
    assert found.checkpoint["channel_values"] == {
        "messages": messages,
        "plain": text,
        "nested": {text: [text] * 80},
        "one": messages[0],
    }
    assert [value for _, _, value in found.pending_writes or ()] == [messages, text]
    # Again, from what was remembered.
    assert (await values(saver, place))["messages"] == messages


@dataclass(frozen=True, slots=True)
class Berth:
    names: list[str]
    ship: Any = None


class Buoy(NamedTuple):
    light: str


@pytest.mark.parametrize("text", ["half \ud83d end", "\udc00", "both \ue000d83d \ud800?"])
@pytest.mark.parametrize(
    "kept",
    [
        lambda text: Send("node", {"args": [text]}, timeout=5),
        lambda text: Interrupt({"ask": [text]}, id="i"),
        lambda text: Interrupt(text, id="i"),
        lambda text: Overwrite([text]),
        lambda text: Berth([text]),
        lambda text: Berth([], Send("node", HumanMessage(text, id="m"))),
        Buoy,
    ],
    ids=["sent", "asked deep", "asked", "overwritten", "dataclass", "inside", "named tuple"],
)
async def test_odd_text_in_what_langgraph_carries_comes_back_as_it_was(
    saver: ThreadSaver, kept: Callable[[str], Any], text: str
) -> None:
    value, same = kept(text), kept(text)
    place = await put(saver, 1, one=value, many=[value] * 30)
    await saver.aput_writes(place, [("x", value), ("y", (value,))], "task")
    found = await saver.aget_tuple(place)
    assert found is not None
    assert found.checkpoint["channel_values"] == {"one": same, "many": [same] * 30}
    assert [given for _, _, given in found.pending_writes or ()] == [same, [same]]
    assert value == same


async def test_an_agent_goes_on_where_the_model_calls_a_tool_with_odd_text(saver: ThreadSaver) -> None:
    @tool
    def grab(path: str) -> str:
        """Grab a file."""
        return interrupt({"really": path})

    call = AIMessage("", tool_calls=[{"name": "grab", "args": {"path": "b \ud83d"}, "id": "c"}])
    agent = create_agent(Scripted(replies=[call, "done"]), [grab], checkpointer=saver)
    await agent.ainvoke({"messages": [("user", "x")]}, config())
    (asked,) = (await agent.aget_state(config())).interrupts
    assert asked.value == {"really": "b \ud83d"}
    answered = (await agent.ainvoke(Command(resume="yes \udc00"), config()))["messages"]
    assert [message.text for message in answered[-2:]] == ["yes \udc00", "done"]
    assert (await agent.aget_state(config())).values["messages"] == answered


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (
            [AIMessage("", tool_calls=[{"name": "f", "args": {"n": [2**64]}, "id": "c"}])],
            r"\.tool_calls\[0\]\['args'\]\['n'\]\[0\]",
        ),
        ({"deep": {"n": -(2**70)}}, r"\['deep'\]\['n'\]"),
    ],
)
async def test_a_number_too_large_is_told_before_anything_is_written(
    saver: ThreadSaver, value: Any, where: str
) -> None:
    with pytest.raises(UnstorableError, match=r"Channel 'bad'.* does not fit into 64 bits"):
        await put(saver, 1, good=talk(3), bad=value)
    with pytest.raises(UnstorableError, match=where):
        await saver.aput_writes(config(checkpoint_id="x"), [("good", talk(3)), ("bad", value)], "task")
    assert await leftovers(saver) == {}


async def test_metadata_keeps_odd_text(saver: ThreadSaver) -> None:
    metadata: Any = {"source": "loop", "step": 1, "note": "half \ud83d é"}
    place = await saver.aput(config(), checkpoint(1), metadata, {})
    found = await saver.aget_tuple(place)
    assert found is not None and found.metadata == metadata


# Ids


async def test_ids_are_compared_by_their_text(saver: ThreadSaver) -> None:
    number = UUID("12345678123456781234567812345678")
    for given in (7, "7", number):
        await put(saver, 1, given, value=1)
    assert (await values(saver, config("7"))) == (await values(saver, config(7))) == {"value": 1}
    assert [found.config["configurable"]["thread_id"] async for found in saver.alist(config(number))] == [str(number)]
    await saver.adelete_thread(number)
    assert await saver.aget_tuple(config(str(number))) is None


@pytest.mark.parametrize("given", [None, "", True, 7.0, b"7", "half \ud83d", ["t"]])
async def test_what_names_no_thread_is_refused(saver: ThreadSaver, given: Any) -> None:
    for work in (
        put(saver, 1, given),
        saver.aget_tuple(config(given)),
        saver.adelete_thread(given),
        saver.aprune([given]),
    ):
        with pytest.raises(ThreadIdError, match="thread id"):
            await work
    with pytest.raises(ThreadIdError):
        await anext(saver.alist(config(given)))


@pytest.mark.parametrize("given", ["%", "a_b", "' OR 1=1 --", "nul\0here", "../up", "日本"])
async def test_ids_are_never_patterns_or_paths(saver: ThreadSaver, given: str) -> None:
    await put(saver, 1, "other", value=1)
    await put(saver, 1, given, messages=talk(2))
    await saver.adelete_thread(given)
    assert [found.config["configurable"]["thread_id"] async for found in saver.alist(None)] == ["other"]


# Removing and copying


async def test_deleting_on_a_fresh_database_works(tmp_path: Path) -> None:
    async with ThreadSaver.from_conn_string(tmp_path / "fresh.db") as fresh:
        await fresh.adelete_thread("t-1")
        await fresh.aprune(["t-1"])
        await fresh.adelete_for_runs(["r"])
        await fresh.acopy_thread("t-1", "t-2")
        assert await fresh.aget_tuple(config()) is None


async def test_a_deleted_thread_leaves_nothing(saver: ThreadSaver) -> None:
    await everything(saver).ainvoke(savers.given([("delta", 1), ("big", 0), ("reply", 3)]), config())
    await saver.adelete_thread("t-1")
    assert await leftovers(saver) == {}


async def test_what_another_thread_uses_stays(saver: ThreadSaver) -> None:
    await put(saver, 1, "a", messages=talk(4), notes="n" * 999)
    await put(saver, 1, "b", messages=[*talk(3), *talk(1, 9)], notes="n" * 999)
    await saver.adelete_thread("a")
    assert await values(saver, config("b")) == {"messages": [*talk(3), *talk(1, 9)], "notes": "n" * 999}
    assert (await saver.stats()).messages == 4
    assert (await saver.verify()).problems == []


async def test_a_copy_lives_on_its_own_and_shares_the_messages(saver: ThreadSaver) -> None:
    await put(saver, 1, "a", messages=talk(30))
    before = await saver.stats()
    await saver.acopy_thread("a", "b")
    assert (await saver.stats()).links == before.links
    await put(saver, 2, "a", 1, messages=talk(40))
    await put(saver, 2, "b", 1, messages=[*talk(30), HumanMessage("only b")])
    await saver.adelete_thread("a")
    assert (await values(saver, config("b")))["messages"] == [*talk(30), HumanMessage("only b")]
    assert (await saver.stats()).messages == 31
    assert (await saver.verify()).problems == []
    await put(saver, 3, "b", 2, messages=talk(50))
    assert (await values(saver, config("b")))["messages"] == talk(50)
    assert (await saver.verify()).problems == []
    await saver.adelete_thread("b")
    assert await leftovers(saver) == {}


@pytest.mark.parametrize("way", ["keep_latest", "runs"])
async def test_delta_channels_are_never_rebuilt_empty(saver: ThreadSaver, way: str) -> None:
    graph = everything(saver)
    for turn in range(4):
        await graph.ainvoke(
            savers.given([("delta", turn), ("reply", 1)]), {**config(), "metadata": {"run_id": f"r-{turn}"}}
        )
    before = (await graph.aget_state(config())).values
    assert before["delta"]
    count = await rows(saver, "checkpoints")
    if way == "keep_latest":
        await saver.aprune(["t-1"])
    else:
        await saver.adelete_for_runs(["r-0", "r-1", "r-2"])
    assert (await graph.aget_state(config())).values == before
    assert await rows(saver, "checkpoints") < count
    assert (await saver.verify()).problems == []
    await saver.acopy_thread("t-1", "t-2")
    assert (await graph.aget_state(config("t-2"))).values == before


async def test_runs_are_removed_beside_and_with_metadata_that_sqlite_cannot_read(saver: ThreadSaver) -> None:
    for number, run in enumerate(["r-1", "r-2", "r-3"]):
        await put(saver, number, thread_id=run, x=number)
        about = f'{{"score": {"NaN" if number else 1}, "run_id": "{run}"}}'.encode()
        await saver.conn.execute("UPDATE checkpoints SET metadata = ? WHERE thread_id = ?", (about, run))
    await saver.conn.commit()
    await saver.adelete_for_runs(["r-1", "r-2"])
    assert [found.config["configurable"]["thread_id"] async for found in saver.alist(None)] == ["r-3"]


async def test_pruning_frees_what_only_old_checkpoints_used(saver: ThreadSaver) -> None:
    await put(saver, 1, messages=talk(20), notes="old" * 200)
    await put(saver, 2, parent=1, messages=talk(5), notes="new" * 200)
    await saver.aprune(["t-1"])
    stats = await saver.stats()
    assert (stats.checkpoints, stats.messages, stats.blobs) == (1, 5, 1)
    assert await values(saver, config()) == {"messages": talk(5), "notes": "new" * 200}
    assert (await saver.verify()).problems == []
    await put(saver, 3, parent=2, messages=talk(7))
    assert (await values(saver, config()))["messages"] == talk(7)


async def test_an_unknown_strategy_removes_nothing(saver: ThreadSaver) -> None:
    await put(saver, 1, value=1)
    with pytest.raises(ValueError, match="'keep_latest' or 'delete'"):
        await saver.aprune(["t-1"], strategy="keep_last")
    assert await rows(saver, "checkpoints") == 1


async def test_vacuum_returns_the_space(saver: ThreadSaver, tmp_path: Path) -> None:
    await put(saver, 1, messages=[HumanMessage(f"secret {n}" * 500) for n in range(100)])
    await saver.vacuum()
    full = (tmp_path / FILE).stat().st_size
    await saver.adelete_thread("t-1")
    await saver.vacuum()
    assert (tmp_path / FILE).stat().st_size < full / 3
    assert b"secret 42" not in contents(tmp_path)


# Listing


async def test_listing_holds_nothing_while_the_caller_looks(saver: ThreadSaver) -> None:
    for number in range(60):
        await put(saver, number, messages=talk(number + 1))
    seen = []
    async for found in saver.alist(config()):
        seen.append(len(found.checkpoint["channel_values"]["messages"]))
        assert await asyncio.wait_for(saver.aget_tuple(found.config), 5)
        await asyncio.wait_for(put(saver, 0, "other", value=1), 5)
    assert seen == list(range(60, 0, -1))


async def test_a_page_of_the_history_takes_few_statements(saver: ThreadSaver) -> None:
    for number in range(40):
        await put(saver, number, messages=talk(number + 1))
    counted: list[str] = []
    fresh = ThreadSaver(saver.conn)
    await fresh.setup()
    await saver.conn.set_trace_callback(counted.append)
    assert len([found async for found in fresh.alist(config(), limit=20)]) == 20
    # One for the writes of each, and a handful for everything else.
    assert len(counted) < 20 + 15


async def test_messages_are_new_objects_every_time(saver: ThreadSaver) -> None:
    place = await put(saver, 1, messages=[AIMessage("x", additional_kwargs={"list": [1]})])
    for _ in range(3):
        message = (await values(saver, place))["messages"][0]
        assert message.additional_kwargs == {"list": [1]}
        message.additional_kwargs["list"].append(2)
        message.content = "changed"


# Encryption


async def test_encrypted_text_is_stored_once_and_nowhere_to_be_read(tmp_path: Path) -> None:
    serde = EncryptedSerializer(Swap())
    said = [HumanMessage("very secret text " * 30, id="secret-id"), AIMessage("another secret " * 30)]
    async with ThreadSaver.from_conn_string(tmp_path / FILE, serde=serde) as saver:
        for number in range(5):
            place = await put(saver, number, messages=said, notes="secret notes " * 40, small="secret")
            await saver.aput_writes(place, [("messages", said), ("small", "secret")], "task")
        assert ((await saver.stats()).messages, (await saver.stats()).blobs) == (2, 1)
    async with ThreadSaver.from_conn_string(tmp_path / FILE, serde=serde) as again:
        await put(again, 6, messages=said)
        assert (await again.stats()).messages == 2
        assert (await values(again, config(checkpoint_id=checkpoint(4)["id"])))["messages"] == said
        assert (await again.verify()).problems == []
    assert b"secret" not in contents(tmp_path)
    async with ThreadSaver.from_conn_string(tmp_path / FILE) as blind:
        with pytest.raises(NotImplementedError, match="EncryptedSerializer"):
            await blind.aget_tuple(config())


async def test_a_copy_with_another_allowlist_shares_everything(saver: ThreadSaver) -> None:
    strict = ThreadSaver(saver.conn, serde=savers.JsonPlusSerializer(allowed_msgpack_modules=[("a", "b")]))
    clone = strict.with_allowlist([("c", "d")])
    assert clone is not strict and isinstance(clone, ThreadSaver)
    await put(clone, 1, messages=talk(3))
    assert strict.shared is clone.shared and strict.is_setup
    assert (await values(strict, config()))["messages"] == talk(3)


# Checking


async def test_verify_finds_what_was_damaged(tmp_path: Path) -> None:
    damages = {
        "UPDATE lgm_items SET data = CAST('other' AS BLOB) WHERE id = 2": "not what its digest says",
        "DELETE FROM lgm_items WHERE id = 2": "does not exist",
        "DELETE FROM lgm_links WHERE position = 1": "links for the messages",
        "DELETE FROM lgm_item_holds": "without an entry",
        "INSERT INTO lgm_items (digest, kind, type, data) VALUES (x'00', 0, 'null', x'')": "held by no thread",
    }
    for number, (damage, told) in enumerate(damages.items()):
        path = tmp_path / f"{number}.db"
        async with ThreadSaver.from_conn_string(path) as saver:
            await put(saver, 1, messages=talk(4))
            assert (await saver.verify()).ok
            await saver.conn.execute(damage)
            await saver.conn.commit()
            assert told in " ".join((await saver.verify()).problems)


async def test_a_missing_message_is_an_error_not_a_shorter_thread(saver: ThreadSaver) -> None:
    await put(saver, 1, messages=talk(4))
    await saver.conn.execute("DELETE FROM lgm_items WHERE id = 2")
    await saver.conn.commit()
    with pytest.raises(DamagedDatabaseError):
        await ThreadSaver(saver.conn).aget_tuple(config())


async def test_a_new_file_is_for_its_owner_only(saver: ThreadSaver, tmp_path: Path) -> None:
    await put(saver, 1, messages=talk(4))
    assert modes(tmp_path) == {0}


def test_the_file_is_ordinary_sqlite(tmp_path: Path) -> None:
    async def write() -> None:
        async with ThreadSaver.from_conn_string(tmp_path / FILE) as saver:
            await put(saver, 1, messages=talk(2))

    asyncio.run(write())
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        assert db.execute("SELECT type FROM checkpoints").fetchall() == [("lgm1",)]
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_a_file_that_cannot_be_opened_leaves_no_thread_that_outlives_the_loop(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    for _ in range(5):
        with pytest.raises(sqlite3.OperationalError):
            async with ThreadSaver.from_conn_string(tmp_path / "no" / "threads.db"):
                pass
        assert not [each for each in set(threading.enumerate()) - before if "connection" in each.name]
