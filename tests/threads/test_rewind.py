"""Going back, taking that back, and branching off: through real graphs, on every saver, in both kinds of channels."""

import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.base.id import uuid6
from langgraph.types import Command

from langgraph_memory.errors import NothingToUndoError, UnknownCheckpointError, UnknownThreadError
from langgraph_memory.threads import ThreadStore
from langgraph_memory.threads.copies import new_ids
from tests.support.stores import CHANNELS, IN_MEMORY, SAVERS, chat, opened, remembering, tell, texts, thread

pytestmark = [pytest.mark.parametrize("channel", CHANNELS), pytest.mark.parametrize("kind", SAVERS)]


async def told(store: ThreadStore, name: str = "t") -> list[str]:
    return [message.text for message in await store.messages(name)]


async def newest(store: ThreadStore, name: str = "t") -> str:
    return next(node.checkpoint_id for node in await store.checkpoints(name) if node.newest)


async def test_a_rewound_thread_goes_on_from_there_and_keeps_what_came_after_as_a_branch(
    kind: str, channel: str, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat(channel, saver), ThreadStore(saver)
        await tell(graph, "one", "two")
        two = await newest(store)
        await tell(graph, "three", "four")
        before = await store.checkpoints("t")
        config = await store.rewind("t", two)
        assert await newest(store) == config["configurable"]["checkpoint_id"]
        assert await texts(graph) == await told(store) == ["one", "answer one", "two", "answer two"]
        await tell(graph, "else")
        now = ["one", "answer one", "two", "answer two", "else", "answer else"]
        assert await texts(graph) == await told(store) == now
        assert (await graph.aget_state(thread())).values["notes"] == ["one", "two", "else"]
        after = await store.checkpoints("t")
        assert [node.checkpoint_id for node in after][: len(before)] == [node.checkpoint_id for node in before]
        old = [message.text for message in await store.messages("t", before[-1].checkpoint_id)]
        assert old[-2:] == ["four", "answer four"]
        assert len(await store.branches("t")) == 2
        assert not next(node for node in after if node.checkpoint_id == before[-1].checkpoint_id).active


async def test_the_copy_says_what_it_is_a_copy_of_and_why(kind: str, channel: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat(channel, saver), ThreadStore(saver)
        await tell(graph, "one", "two")
        nodes = await store.checkpoints("t")
        target = nodes[2]
        await store.rewind("t", target.checkpoint_id, reason="edit of a message")
        copy = (await store.checkpoints("t"))[-1]
        assert (copy.source, copy.reason, copy.origin) == ("fork", "edit of a message", target.checkpoint_id)
        assert (copy.parent_id, copy.step, copy.next) == (target.parent_id, target.step, target.next)
        assert copy.created > target.created and copy.newest
        saved = await saver.aget_tuple(thread())
        assert saved.metadata["replaces"] == nodes[-1].checkpoint_id


async def test_what_is_the_newest_already_can_be_rewound_to(kind: str, channel: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat(channel, saver), ThreadStore(saver)
        await tell(graph, "one")
        await store.rewind("t", await newest(store))
        await tell(graph, "two")
        assert await texts(graph) == ["one", "answer one", "two", "answer two"]


async def test_every_checkpoint_can_be_rewound_to_and_run_on_from(kind: str, channel: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat(channel, saver), ThreadStore(saver)
        await tell(graph, "one", "two", "three", "four")
        for node in await store.checkpoints("t"):
            await store.rewind("t", node.checkpoint_id)
            here = await texts(graph)
            assert len(here) == node.messages and here == await told(store)
            assert tuple((await graph.aget_state(thread())).next) == node.next
            await tell(graph, "else")
            assert (await texts(graph))[-2:] == ["else", "answer else"]
            assert await texts(graph) == await told(store)


@pytest.mark.parametrize("before", [0, 2])
async def test_an_interrupt_that_is_answered_anew_takes_the_new_answer(
    kind: str, channel: str, before: int, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat(channel, saver), ThreadStore(saver)
        await tell(graph, *("one", "two")[:before])
        await tell(graph, "sure?")
        waiting = await newest(store)
        await graph.ainvoke(Command(resume="yes"), thread())
        old_end = await newest(store)
        assert (await texts(graph))[-1] == "answer yes"
        await store.rewind("t", waiting)
        assert (await texts(graph))[-1] == "sure?"
        await graph.ainvoke(Command(resume="no"), thread())
        assert (await texts(graph))[-2:] == ["sure?", "answer no"]
        assert await texts(graph) == await told(store)
        assert [m.text for m in await store.messages("t", old_end)][-1] == "answer yes"
        old = await graph.aget_state({"configurable": {"thread_id": "t", "checkpoint_id": old_end}})
        assert [m.text for m in old.values["messages"]][-1] == "answer yes"


async def test_a_rewound_interrupt_asks_again_when_it_is_run(kind: str, channel: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat(channel, saver), ThreadStore(saver)
        await tell(graph, "sure?")
        waiting = await newest(store)
        await graph.ainvoke(Command(resume="yes"), thread())
        await store.rewind("t", waiting)
        assert (await store.checkpoints("t"))[-1].next == ("model",)
        found = await graph.ainvoke(None, thread())
        assert [asked.value for asked in found["__interrupt__"]] == ["really sure?"]
        await graph.ainvoke(Command(resume={found["__interrupt__"][0].id: "no"}), thread())
        assert await texts(graph) == ["sure?", "answer no"]


async def test_graphs_inside_that_remember_go_back_too(kind: str, channel: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = remembering(channel, saver), ThreadStore(saver)
        await tell(graph, "one")
        one = await newest(store)
        await tell(graph, "two", "three")
        assert (await texts(graph))[-1] == "three after 2"
        await store.rewind("t", one)
        await tell(graph, "else")
        assert (await texts(graph))[-1] == "else after 1"
        await store.rewind("t", (await store.checkpoints("t"))[0].checkpoint_id)
        await tell(graph, "first")
        assert (await texts(graph))[-1] == "first after 0"
        await store.undo("t")
        await tell(graph, "again")
        assert (await texts(graph))[-3:] == ["else after 1", "again", "again after 2"]


async def test_an_interrupt_inside_a_graph_that_remembers_is_answered_anew(
    kind: str, channel: str, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = remembering(channel, saver), ThreadStore(saver)
        await tell(graph, "one", "sure?")
        waiting = await newest(store)
        await graph.ainvoke(Command(resume="yes"), thread())
        assert (await texts(graph))[-1] == "yes after 1"
        await store.rewind("t", waiting)
        await graph.ainvoke(Command(resume="no"), thread())
        assert (await texts(graph))[-1] == "no after 1"
        await tell(graph, "next")
        assert (await texts(graph))[-1] == "next after 2"
        assert "yes after 1" not in await texts(graph)


async def test_a_graph_inside_runs_again_from_wherever_the_thread_was_rewound_to(
    kind: str, channel: str, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = remembering(channel, saver), ThreadStore(saver)
        await tell(graph, "one", "two")
        for node in await store.checkpoints("t"):
            await store.rewind("t", node.checkpoint_id)
            if node.next:
                await graph.ainvoke(None, thread())
            expected = ["one", "one after 0", "two", "two after 1"][: 4 if node.step > 2 else 2]
            assert await texts(graph) == await told(store) == expected
            await store.rewind("t", node.checkpoint_id)
            await tell(graph, "else")
            calls = len([text for text in await texts(graph) if " after " in text])
            assert (await texts(graph))[-1] == f"else after {calls - 1}"


async def test_undo_takes_back_the_rewind_even_after_more_turns(kind: str, channel: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat(channel, saver), ThreadStore(saver)
        await tell(graph, "one")
        one = await newest(store)
        await tell(graph, "two")
        await store.rewind("t", one)
        await tell(graph, "else")
        await store.undo("t")
        assert await texts(graph) == await told(store) == ["one", "answer one", "two", "answer two"]
        await store.undo("t")
        assert await texts(graph) == await told(store) == ["one", "answer one", "else", "answer else"]
        await store.undo("t")
        await tell(graph, "three")
        assert await texts(graph) == ["one", "answer one", "two", "answer two", "three", "answer three"]
        assert [node.reason for node in await store.checkpoints("t") if node.reason] == ["rewind", *["undo"] * 3]


async def test_without_a_rewind_there_is_nothing_to_undo(kind: str, channel: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat(channel, saver), ThreadStore(saver)
        await tell(graph, "one")
        with pytest.raises(NothingToUndoError, match="'t' was not rewound"):
            await store.undo("t")


async def test_unknown_names_are_errors_that_name_the_nearest(kind: str, channel: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat(channel, saver), ThreadStore(saver)
        with pytest.raises(UnknownThreadError, match="there are no threads at all"):
            await store.undo("thread-1")
        await tell(graph, "one", name="thread-1")
        wanted = await newest(store, "thread-1")
        with pytest.raises(UnknownThreadError, match=r"'thread-2'.*Nearest: 'thread-1'"):
            await store.rewind("thread-2", wanted)
        with pytest.raises(UnknownCheckpointError, match=rf"'thread-1' has no checkpoint '{wanted[:20]}'.*{wanted}"):
            await store.rewind("thread-1", wanted[:20])
        assert (await store.checkpoints("thread-1"))[-1].checkpoint_id == wanted


async def test_a_copy_becomes_the_newest_even_if_the_clock_was_set_back(
    kind: str, channel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat(channel, saver), ThreadStore(saver)
        real = time.time_ns
        monkeypatch.setattr("langgraph.checkpoint.base.id._last_v6_timestamp", None)
        with monkeypatch.context() as future:
            future.setattr("langgraph.checkpoint.base.id.time.time_ns", lambda: real() + 10**18)
            await tell(graph, "one", "two")
        monkeypatch.setattr("langgraph.checkpoint.base.id._last_v6_timestamp", None)
        nodes = await store.checkpoints("t")
        assert str(uuid6()) < nodes[0].checkpoint_id
        await store.rewind("t", nodes[2].checkpoint_id)
        assert await texts(graph) == ["one", "answer one"]
        await store.undo("t")
        assert await texts(graph) == ["one", "answer one", "two", "answer two"]


async def test_new_ids_grow_over_the_end_of_every_field(kind: str, channel: str) -> None:
    ids = [
        "3f1ecfff-ffff-6fff-8000-000000000000",
        "3f1ecf00-ffff-6ffe-8000-00000000abcd",
        "3fffffff-0000-6000-bfff-ffffffffffff",
    ]
    for id in ids:
        found = new_ids([id], 5000)
        assert sorted(found) == found and found[0] > id and len(set(found)) == 5000


@pytest.mark.parametrize("at_the_end", [True, False])
async def test_a_fork_is_a_thread_of_its_own(kind: str, channel: str, at_the_end: bool, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = remembering(channel, saver), ThreadStore(saver)
        await tell(graph, "one", "two")
        target = await newest(store)
        if not at_the_end:
            await tell(graph, "three")
        config = await store.fork("t", "u", None if at_the_end else target)
        assert config["configurable"]["checkpoint_id"] == target and config["configurable"]["thread_id"] == "u"
        await tell(graph, "else", name="u")
        assert await texts(graph, "u") == ["one", "one after 0", "two", "two after 1", "else", "else after 2"]
        assert await texts(graph, "u") == await told(store, "u")
        assert (await texts(graph))[-1] == ("two after 1" if at_the_end else "three after 2")
        await store.delete("t")
        assert await texts(graph, "u") == await told(store, "u")
        assert (await store.verify()).ok


async def test_a_fork_of_a_waiting_thread_waits_too_and_both_are_answered(
    kind: str, channel: str, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = remembering(channel, saver), ThreadStore(saver)
        await tell(graph, "one", "sure?")
        await store.fork("t", "u")
        waiting = (await graph.aget_state(thread("u"))).interrupts
        assert [asked.value for asked in waiting] == ["really sure?"]
        await graph.ainvoke(Command(resume={waiting[0].id: "no"}), thread("u"))
        await graph.ainvoke(Command(resume="yes"), thread())
        assert ((await texts(graph))[-1], (await texts(graph, "u"))[-1]) == ("yes after 1", "no after 1")


async def test_a_fork_of_an_answered_interrupt_does_not_know_the_answer(
    kind: str, channel: str, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat(channel, saver), ThreadStore(saver)
        await tell(graph, "sure?")
        waiting = await newest(store)
        await graph.ainvoke(Command(resume="yes"), thread())
        await store.fork("t", "u", waiting)
        found = await graph.ainvoke(None, thread("u"))
        assert [asked.value for asked in found["__interrupt__"]] == ["really sure?"]
        await graph.ainvoke(Command(resume="no"), thread("u"))
        assert await texts(graph, "u") == await told(store, "u") == ["sure?", "answer no"]


@settings(max_examples=12)
@given(
    plan=st.lists(
        st.tuples(st.sampled_from(["tell", "tell", "rewind", "undo", "fork"]), st.integers(0, 40)), max_size=9
    )
)
async def test_any_mixture_of_turns_rewinds_undos_and_forks_gives_what_was_there(
    kind: str, channel: str, plan: list[Any]
) -> None:
    if kind == "plain":
        pytest.skip("the other two differ most")
    async with opened("memory") if kind == "memory" else opened("ours", IN_MEMORY) as saver:
        graph, store, name = chat(channel, saver), ThreadStore(saver), "t"
        await tell(graph, "start", name=name)
        known = {await newest(store, name): await texts(graph, name)}
        undone: list[list[str]] = []
        for step, (action, number) in enumerate(plan):
            here = await texts(graph, name)
            if action == "tell":
                await tell(graph, f"{step}", name=name)
                here = [*here, f"{step}", f"answer {step}"]
            elif action == "rewind":
                undone.append(here)
                target, here = list(known.items())[number % len(known)]
                await store.rewind(name, target)
            elif action == "undo" and undone:
                undone[-1], here = here, undone[-1]
                await store.undo(name)
            elif action == "fork":
                name, old = f"{name}-{step}", name
                await store.fork(old, name)
                # What had been replaced is in the other thread only, unless the way leads through it.
                undone.clear()
                known = {id: texts for id, texts in known.items() if id in await _ids(store, name)}
                if any(node.reason for node in await store.checkpoints(name)):
                    return
            known[await newest(store, name)] = here
            assert await texts(graph, name) == await told(store, name) == here
        for id, expected in known.items():
            assert [message.text for message in await store.messages(name, id)] == expected


async def _ids(store: ThreadStore, name: str) -> set[str]:
    return {node.checkpoint_id for node in await store.checkpoints(name)}
