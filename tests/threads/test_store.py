"""Threads as a list, as a tree and as what was said in them; changing and removing them."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command

from langgraph_memory.errors import (
    ThreadBusyError,
    ThreadExistsError,
    ThreadIdError,
    UnknownCheckpointError,
    UnknownThreadError,
)
from langgraph_memory.threads import ThreadSaver, ThreadStore
from tests.support.savers import Swap
from tests.support.stores import CHANNELS, SAVERS, chat, opened, remembering, tell, texts, thread

both = pytest.mark.parametrize("channel", CHANNELS)
every = pytest.mark.parametrize("kind", SAVERS)


async def told(store: ThreadStore, *place: Any) -> list[str]:
    return [message.text for message in await store.messages(*(place or ("t",)))]


def leave(count: int, *names: str) -> dict[str, Any]:
    """What the memory does when a summary covers messages: they leave, and the record says so."""
    record = {"v": 1, "ns": {"": {"summary": {"count": count, "gone": count, "first": "q one", "last": names[-1]}}}}
    return {"messages": [RemoveMessage(id=name) for name in names], "memory_record": record}


async def update(graph: Any, values: dict[str, Any], name: str = "t") -> None:
    """A run in which the node returns `values`."""
    await graph.ainvoke({"update": values}, thread(name))


# The list


@every
@both
async def test_a_row_says_what_there_is_of_a_thread(kind: str, channel: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = remembering(channel, saver), ThreadStore(saver)
        assert await store.threads() == []
        await tell(graph, "one", name="first")
        await tell(graph, "one", "two", "sure?", name="second")
        second, first = await store.threads()
        nodes = await store.checkpoints("second")
        assert (second.thread_id, second.turns, second.messages, second.next) == ("second", 3, 5, ("sub",))
        assert (second.checkpoints, second.branches, second.updated) == (len(nodes), 1, nodes[-1].created)
        assert (first.thread_id, first.turns, first.messages, first.next) == ("first", 1, 2, ())
        assert (first.bytes is None) == (kind == "memory") and (kind == "memory" or (second.bytes or 0) > 1000)
        assert first.to_json()["thread_id"] == "first"
        await store.rewind("first", (await store.checkpoints("first"))[1].checkpoint_id)
        assert (await store.threads())[0].branches == 2
        assert len(await store.branches("first")) == 2


@every
async def test_several_human_messages_in_a_row_open_one_turn(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat("add", saver), ThreadStore(saver)
        await graph.ainvoke({"messages": [HumanMessage("a"), HumanMessage("b")]}, thread())
        await tell(graph, "c")
        [row] = await store.threads()
        assert (row.turns, row.messages) == (2, 5)


async def test_an_encrypted_thread_is_listed_and_read_all_the_same(tmp_path: Path) -> None:
    from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

    async with ThreadSaver.from_conn_string(tmp_path / "t.db", serde=EncryptedSerializer(Swap())) as saver:
        graph, store = chat("add", saver), ThreadStore(saver)
        await tell(graph, "one", "two")
        await update(graph, leave(2, "q one", "a one 1"))
        [row] = await store.threads()
        assert (row.turns, row.messages) == (2, 4)
        assert await told(store) == ["one", "answer one", "two", "answer two"]
        assert (await store.checkpoints("t"))[-1].messages == 4


# What was said


@every
@both
async def test_what_left_because_of_a_summary_is_told_and_what_people_removed_is_not(
    kind: str, channel: str, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat(channel, saver), ThreadStore(saver)
        await tell(graph, "one", "two", "three")
        await update(graph, {"messages": [RemoveMessage(id="q two")]})
        assert await told(store) == ["one", "answer one", "answer two", "three", "answer three"]
        before = (await store.checkpoints("t"))[-1].checkpoint_id
        await update(graph, leave(3, "q one", "a one 1", "a two 3"))
        await tell(graph, "four")
        await update(graph, {"messages": [RemoveMessage(id="q four")]})
        expected = ["one", "answer one", "answer two", "three", "answer three", "answer four"]
        assert await texts(graph) == expected[3:]
        assert await told(store) == expected
        assert (await store.threads())[0].messages == len(expected)
        assert (await store.checkpoints("t"))[-1].messages == len(expected)
        await store.rewind("t", before)
        assert await told(store) == expected[:-1]
        await update(graph, {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage("new")]})
        assert await told(store) == ["new"]


@every
@both
async def test_messages_can_be_asked_for_at_any_checkpoint(kind: str, channel: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat(channel, saver), ThreadStore(saver)
        await tell(graph, "one", "two")
        for node in await store.checkpoints("t"):
            assert len(await told(store, "t", node.checkpoint_id)) == node.messages
        with pytest.raises(UnknownCheckpointError, match="no checkpoint 'nowhere'"):
            await store.messages("t", "nowhere")
        with pytest.raises(UnknownThreadError):
            await store.messages("nowhere")


@every
@both
async def test_what_a_command_adds_to_a_waiting_thread_is_told(kind: str, channel: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat(channel, saver), ThreadStore(saver)
        await tell(graph, "sure?")
        await graph.ainvoke(Command(update={"messages": [HumanMessage("by the way?", id="extra")]}), thread())
        assert await told(store) == await texts(graph)
        [row] = await store.threads()
        assert row.messages == len(await texts(graph))


@every
async def test_another_channel_may_hold_the_messages(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        made = empty_checkpoint()
        made["channel_values"] = {"talk": [HumanMessage("hello", id="h")], "messages": "no list"}
        made["channel_versions"] = dict.fromkeys(made["channel_values"], "1")
        await saver.aput(
            {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, made, {"step": 0}, made["channel_versions"]
        )
        assert await told(ThreadStore(saver, channel="talk")) == ["hello"]
        assert [m.text for m in await ThreadStore(saver).messages("t", channel="talk")] == ["hello"]
        assert await told(ThreadStore(saver, channel="neither")) == []
        assert (await ThreadStore(saver).checkpoints("t", channel="talk"))[0].messages == 1


@every
async def test_a_thread_id_is_its_text_and_what_has_none_is_refused(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat("add", saver), ThreadStore(saver)
        await tell(graph, "one", name=7)
        assert await told(store, 7) == ["one", "answer one"]
        for wrong in (None, "", True, 1.5):
            with pytest.raises(ThreadIdError):
                await store.messages(wrong)


async def test_threads_of_the_plain_saver_are_read_and_gone_on_with(tmp_path: Path) -> None:
    for channel in CHANNELS:
        file = tmp_path / f"{channel}.db"
        async with AsyncSqliteSaver.from_conn_string(str(file)) as plain:
            await tell(chat(channel, plain), "one", "two")
        async with ThreadSaver.from_conn_string(file) as saver:
            graph, store = chat(channel, saver), ThreadStore(saver)
            [row] = await store.threads()
            assert (row.turns, row.messages) == (2, 4)
            nodes = await store.checkpoints("t")
            assert nodes[-1].messages == 4
            await store.rewind("t", nodes[2].checkpoint_id)
            await tell(graph, "else")
            assert await told(store) == await texts(graph) == ["one", "answer one", "else", "answer else"]
            assert (await store.checkpoints("t"))[-1].messages == 4


# Changing


@every
@both
async def test_append_changes_the_named_channels_and_keeps_the_others(kind: str, channel: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat(channel, saver), ThreadStore(saver)
        await tell(graph, "one", "two")
        config = await store.append("t", {"messages": HumanMessage("aside"), "memory_record": {"v": 1}}, reason="test")
        now = ["one", "answer one", "two", "answer two", "aside"]
        assert await texts(graph) == await told(store) == now
        state = await graph.aget_state(thread())
        assert state.values["notes"] == ["one", "two"] and state.values["memory_record"] == {"v": 1}
        assert state.next == () and state.config["configurable"] == config["configurable"]
        node = (await store.checkpoints("t"))[-1]
        assert (node.source, node.reason, node.messages, node.parent_id) == (
            "update", "test", 5, (await store.checkpoints("t"))[-2].checkpoint_id,
        )  # fmt: skip
        await tell(graph, "three")
        assert await texts(graph) == await told(store) == [*now, "three", "answer three"]
        edits = [HumanMessage("one!", id="q one"), RemoveMessage(id="a one 1")]
        await store.append("t", {"messages": edits, "notes": []}, source="fork")
        assert (await texts(graph))[:2] == ["one!", "two"]
        assert (await graph.aget_state(thread())).values["notes"] == []
        await tell(graph, "four")
        assert await texts(graph) == await told(store)


@every
async def test_append_writes_a_snapshot_into_a_delta_channel(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        await tell(chat("delta", saver), "one", "two", "three")
        await ThreadStore(saver).append("t", {"messages": [AIMessage("x")]})
        saved = await saver.aget_tuple(thread())
        assert isinstance(saved.checkpoint["channel_values"]["messages"], _DeltaSnapshot)
        assert "messages" not in (saved.metadata.get("counters_since_delta_snapshot") or {})


@every
@both
async def test_a_busy_thread_is_not_changed(kind: str, channel: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat(channel, saver), ThreadStore(saver)
        with pytest.raises(UnknownThreadError):
            await store.append("t", {"notes": ["x"]})
        await tell(graph, "one", "sure?")
        with pytest.raises(ThreadBusyError, match="'t' waits for an answer"):
            await store.append("t", {"notes": ["x"]})
        await store.rewind("t", (await store.checkpoints("t"))[-1].checkpoint_id)
        with pytest.raises(ThreadBusyError, match="'t' still has to run model"):
            await store.append("t", {"notes": ["x"]})
        await graph.ainvoke(Command(resume="yes"), thread())
        await store.append("t", {"notes": ["x"]})


# Forks, removal, checks


@every
async def test_a_fork_never_overwrites_a_thread(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat("add", saver), ThreadStore(saver)
        await tell(graph, "one", name="a")
        await tell(graph, "two", name="b")
        with pytest.raises(ThreadExistsError, match="thread 'b' already"):
            await store.fork("a", "b")
        with pytest.raises(UnknownCheckpointError):
            await store.fork("a", "c", "nowhere")
        with pytest.raises(UnknownThreadError):
            await store.fork("nowhere", "c")
        assert {row.thread_id for row in await store.threads()} == {"a", "b"}


async def test_a_fork_shares_the_messages_and_holds_only_those_on_its_way(tmp_path: Path) -> None:
    async with opened("ours", tmp_path) as saver:
        graph, store = chat("add", saver), ThreadStore(saver)
        await tell(graph, "one")
        one = (await store.checkpoints("t"))[-1].checkpoint_id
        await tell(graph, "secret")
        before = await saver.stats()
        await store.fork("t", "u", one)
        after = await saver.stats()
        assert (after.messages, after.chains, after.links) == (before.messages, before.chains, before.links)
        await store.delete("t")
        assert (await saver.verify()).ok and (await saver.stats()).messages == 2
        assert b"secret" not in b"".join(
            row[0] for row in await saver.call(lambda db: db.execute("SELECT data FROM lgm_items").fetchall())
        )


@every
async def test_a_deleted_thread_is_gone(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat("add", saver), ThreadStore(saver)
        with pytest.raises(UnknownThreadError):
            await store.delete("t")
        await tell(graph, "one")
        await tell(graph, "one", name="u")
        await store.delete("t")
        assert [row.thread_id for row in await store.threads()] == ["u"]


@every
@both
async def test_verify_finds_a_past_that_is_not_there(kind: str, channel: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat(channel, saver), ThreadStore(saver)
        await tell(graph, "one", "two")
        report = await store.verify()
        assert report.ok and report.checkpoints == 6
        if kind == "ours":
            return
        lost = [node.checkpoint_id for node in await store.checkpoints("t")][:5]
        if kind == "memory":
            for id in lost:
                del saver.storage["t"][""][id]
        else:
            await saver.conn.executemany("DELETE FROM checkpoints WHERE checkpoint_id = ?", [(id,) for id in lost])
            await saver.conn.commit()
        problems = (await store.verify()).problems
        assert f"has the parent {lost[-1]!r}, which is not there" in problems[0]
        assert len(problems) == (2 if channel == "delta" and kind == "plain" else len(problems))


@every
async def test_figures_of_a_thread_and_of_all(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat("add", saver), ThreadStore(saver)
        await tell(graph, "one", name="a")
        await tell(graph, "one", "two", name="b")
        whole, part = await store.stats(), await store.stats("b")
        assert (whole.threads, whole.checkpoints) == (2, 9)
        assert (part.threads, part.checkpoints, part.messages) == (1, 6, 4)
        with pytest.raises(UnknownThreadError):
            await store.stats("c")
