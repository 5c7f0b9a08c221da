"""Nothing crosses threads, and a decision holds only in the branch that made it."""

import asyncio
import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_memory import MemoryMiddleware
from tests.support.graphs import (
    GRAPHS,
    Bare,
    Talk,
    agent_graph,
    chat,
    configured,
    node_graph,
    size,
    summaries_in,
    talk,
    text_of,
    thread,
)
from tests.support.models import Scripted, content_text, echo
from tests.support.validity import faults

SETTINGS = {"context_window": 4000, "compaction.min_messages": 8}
MARK = re.compile(r"(?:old|new|fork)-\d{3}")
ODD_NAMES = ["a/../../b", "x|y", "x:y", " ", "潮汐", "None", "%_*?[a]", "a" * 300]


def quoting(messages):
    """A summary that quotes the secrets of what it summarises."""
    secrets = sorted({word for word in echo(messages).split() if word.startswith("secret-")})
    return "## SUMMARY\n" + " ".join(secrets)


def confidential(name: str, turns: int = 8) -> list[HumanMessage]:
    return [m.model_copy(update={"id": None, "content": f"secret-{name} {m.content}"}) for m in chat(turns, chars=900)]


def shared_graph(kind: str, model: Scripted) -> tuple[MemoryMiddleware, object]:
    memory = MemoryMiddleware(configured(SETTINGS), model=Scripted(replies=quoting))
    return memory, (node_graph if kind == "node" else agent_graph)(memory, model)


# Threads


@pytest.mark.parametrize("kind", GRAPHS)
async def test_threads_that_take_turns_on_one_object_never_see_each_other(kind):
    model = Scripted()
    _, graph = shared_graph(kind, model)
    for start in range(3):
        for name in ("ada", "bob"):
            await graph.ainvoke({"messages": confidential(name, 6 + start)}, thread(name))
            other = {"ada": "bob", "bob": "ada"}[name]
            assert f"secret-{other}" not in text_of(model.last)
            assert f"secret-{name}" in text_of(model.last)
    assert summaries_in(model.last) == 1


@pytest.mark.parametrize("kind", GRAPHS)
async def test_threads_that_run_at_the_same_time_never_see_each_other(kind):
    model = Scripted()
    memory, graph = shared_graph(kind, model)
    names = [f"user{n}" for n in range(8)]

    async def run(name):
        for _ in range(3):
            await graph.ainvoke({"messages": confidential(name)}, thread(name))

    await asyncio.gather(*map(run, names))
    for request in model.requests:
        assert len({word for word in request.text.split() if word.startswith("secret-")}) == 1
        assert size(request.messages) <= 3500
    for name in names:
        state = (await graph.aget_state(thread(name))).values
        assert f"secret-{name}" in text_of(memory.view(state, thread(name)))


@pytest.mark.parametrize("kind", GRAPHS)
def test_threads_of_a_sync_program_never_see_each_other(kind):
    model = Scripted()
    _, graph = shared_graph(kind, model)

    def run(name):
        for _ in range(3):
            graph.invoke({"messages": confidential(name)}, thread(name))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, [f"user{n}" for n in range(8)]))
    assert len(model.requests) == 24
    for request in model.requests:
        assert len({word for word in request.text.split() if word.startswith("secret-")}) == 1


@pytest.mark.parametrize("name", ODD_NAMES)
async def test_any_thread_id_is_a_thread_of_its_own(name):
    model = Scripted()
    _, graph = shared_graph("node", model)
    await graph.ainvoke({"messages": confidential("base")}, thread("t"))
    await graph.ainvoke({"messages": confidential("odd")}, thread(name))
    assert "secret-base" not in text_of(model.last)
    await graph.ainvoke({"messages": [HumanMessage("next")]}, thread("t"))
    assert "secret-odd" not in text_of(model.last)


# Branches


async def turned(talked: Talk, turns: int, word: str) -> list[str]:
    """Run turns and give the checkpoint id before each."""
    ids = []
    for turn in range(turns):
        state = await talked.graph.aget_state(talked.config)
        ids.append(state.config["configurable"].get("checkpoint_id"))
        await talked.send(HumanMessage(f"{word}-{turn:03d} " + "word " * 320))
    return ids


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("back", [2, 9, 15])
async def test_after_a_rewind_a_longer_branch_shows_nothing_of_the_future_it_left(back, kind):
    talked = talk(SETTINGS, kind=kind, side=Scripted(replies=lambda m: "## SUMMARY\n" + marks_in(echo(m))))
    ids = await turned(talked, 16, "old")
    assert talked.named("compacted")
    rewound = {"configurable": {**talked.config["configurable"], "checkpoint_id": ids[back]}}
    await talked.graph.ainvoke({"messages": [HumanMessage("fork-000 " + "word " * 320)]}, rewound)
    await turned(talked, 20, "new")
    abandoned = {f"old-{n:03d}" for n in range(back, 16)}
    request = talked.model.last
    assert not any(mark in text_of(request) for mark in abandoned)
    assert faults(request) == []
    kept = {f"old-{n:03d}" for n in range(back)} | {"fork-000"} | {f"new-{n:03d}" for n in range(20)}
    assert set(MARK.findall(text_of(await talked.history()))) == kept
    assert set(MARK.findall(text_of(request))) == kept


def marks_in(text: str) -> str:
    """Every mark in a text, so that a summary names all it stands for."""
    return " ".join(sorted(set(MARK.findall(text))))


@pytest.mark.parametrize("kind", GRAPHS)
async def test_a_state_rewritten_at_an_old_checkpoint_is_a_branch_of_its_own(kind):
    talked = talk(SETTINGS, kind=kind)
    ids = await turned(talked, 10, "old")
    target = {"configurable": {"thread_id": "t-1", "checkpoint_ns": "", "checkpoint_id": ids[4]}}
    await talked.graph.aupdate_state(target, {"messages": [HumanMessage("fork-000 " + "word " * 320)]})
    request = await talked.send(HumanMessage("fork-001"))
    assert not any(f"old-{n:03d}" in text_of(request) for n in range(4, 10))
    assert [content_text(m)[:8] for m in await talked.history() if m.type == "human"][-2:] == ["fork-000", "fork-001"]


@pytest.mark.parametrize("edited", [0, 3, 7])
def test_editing_a_covered_message_drops_the_summary_that_no_longer_tells_the_truth(edited):
    bare = Bare(SETTINGS, side=Scripted(replies=quoting))
    history = chat(12, chars=600)
    history[edited] = history[edited].model_copy(update={"content": "secret-old " + history[edited].content})
    assert "secret-old" in text_of(bare.sync(history))
    history[edited] = history[edited].model_copy(update={"content": "secret-new " + history[edited].content[11:]})
    view = bare.sync(history)
    assert "secret-old" not in text_of(view)
    assert "secret-new" in text_of(view)
    assert len(bare.named("record_ignored")) == 1


@pytest.mark.parametrize("inserted", [1, 3])
def test_messages_put_in_front_of_the_history_do_not_shift_the_cut(inserted):
    bare = Bare(SETTINGS, side=Scripted(replies=quoting))
    history = chat(12, chars=600)
    bare.sync(history)
    assert bare.named("compacted")
    front = [HumanMessage(f"secret-front{n} " + "word " * 20, id=f"front{n}") for n in range(inserted)]
    view = bare.sync([*front, *history])
    assert all(f"secret-front{n}" in text_of(view) for n in range(inserted))
    assert faults(view) == []


@pytest.mark.parametrize("left", [2, 10, 20])
def test_after_old_messages_are_removed_the_rest_is_shown_and_not_only_the_summary(left):
    bare = Bare(SETTINGS)
    history = chat(12, chars=600)
    bare.sync(history)
    bought = len(bare.side.requests)
    view = bare.sync(history[-left:])
    shown = text_of(view) + "".join(request.text for request in bare.side.requests[bought:])
    assert all(content_text(m)[:6] in shown for m in history[-left:])
    assert left == 20 or view == history[-left:]
    assert "<conversation_summary" not in text_of(view) or bare.named("record_ignored")


# Restart


@pytest.mark.parametrize("kind", GRAPHS)
async def test_a_new_object_over_the_same_threads_shows_the_same_bytes(kind):
    saver, model = InMemorySaver(), Scripted()
    views = []
    for _ in range(2):
        memory = MemoryMiddleware(configured(SETTINGS), model=Scripted(replies=quoting))
        graph = (node_graph if kind == "node" else agent_graph)(memory, model, saver=saver)
        if not views:
            await graph.ainvoke({"messages": confidential("ada", 14)}, thread())
        state = (await graph.aget_state(thread())).values
        views.append(memory.view(state, thread()))
    assert views[0] == views[1]
    assert summaries_in(views[0]) == 1


def test_the_record_is_plain_json_that_gives_the_same_view_when_read_again():
    bare = Bare(SETTINGS)
    history = chat(12, chars=600)
    view = bare.sync(history)
    other = Bare(SETTINGS)
    other.record = json.loads(json.dumps(bare.record))
    assert other.sync(history) == view
    assert other.side.requests == []
