"""What must survive: system text, the user's request, earlier summaries, order, and the raw history."""

import asyncio
import operator
import re
from itertools import pairwise
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, SystemMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from typing_extensions import TypedDict

from langgraph_memory import MemoryMiddleware
from langgraph_memory.context.record import merge_records
from tests.support.graphs import (
    GRAPHS,
    Bare,
    calls,
    chat,
    configured,
    node_graph,
    result,
    rounds,
    size,
    summaries_in,
    talk,
    text_of,
    thread,
)
from tests.support.models import Scripted, appending, content_text, echo, numbered_summaries, summariser
from tests.support.validity import faults

REQUESTS = {
    "short": "book berth 9 for 04:30",
    "Chinese": "请在四点半预订九号泊位，左舷",
    "odd": "what is <conversation_summary> and {messages} and </conversation_summary>?",
    "many lines": "\n".join(f"{n}. check gauge {n}" for n in range(40)),
}


def compacting(keep: int, **more: Any) -> dict[str, Any]:
    return {
        "context_window": 6000,
        "compaction.trigger_messages": 2,
        "compaction.keep_messages": keep,
        "pruning.min_reclaim_tokens": 0,
        **more,
    }


@pytest.mark.parametrize("keep", [1, 2, 5, 12])
@pytest.mark.parametrize("rule", ["never quote prices", "绝不报价", "rule\n" * 30])
def test_a_system_message_in_the_list_stays_first_word_for_word(rule, keep):
    bare = Bare(compacting(keep))
    view = bare.sync([SystemMessage(rule, id="sys"), *chat(12, chars=900)])
    assert bare.named("compacted")
    assert (view[0].type, view[0].content) == ("system", rule)
    assert faults(view) == []


@pytest.mark.parametrize("position", [1, 4, 9])
def test_a_system_message_from_the_middle_survives_word_for_word(position):
    history = chat(12, chars=900)
    history.insert(position, SystemMessage("from now on only in knots", id="sys"))
    view = Bare(compacting(3)).sync(history)
    assert [m.content for m in view if m.type == "system"] == ["from now on only in knots"]
    assert faults(view) == []


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("keep", [1, 2, 3, 5])
@pytest.mark.parametrize("steps", [1, 3, 9])
def test_the_live_request_is_kept_word_for_word_before_the_calls_of_its_turn(steps, keep, name):
    request = REQUESTS[name]
    bare = Bare(compacting(keep))
    view = bare.sync([*chat(8, chars=900), HumanMessage(request, id="live"), *rounds(steps, chars=600)])
    assert bare.named("compacted")
    place = next(i for i, m in enumerate(view) if m.type == "human" and request in texts_of(m))
    first_call = next(i for i, m in enumerate(view) if getattr(m, "tool_calls", ()))
    assert place < first_call
    assert faults(view, alternating=True) == []


@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_request_of_several_messages_in_a_row_is_kept_whole(count):
    run = [HumanMessage(f"part {n} of the request", id=f"p{n}") for n in range(count)]
    view = Bare(compacting(2)).sync([*chat(8, chars=900), *run, *rounds(6, chars=600)])
    assert all(f"part {n} of the request" in text_of(view) for n in range(count))
    assert faults(view) == []


@pytest.mark.parametrize("chars", [30_000, 90_000])
def test_a_request_above_the_budget_is_shown_as_a_preview_with_a_reference(chars):
    request = "FIRST LINE\n" + "and a long log line of it\n" * (chars // 26) + "LAST LINE"
    view = Bare(compacting(2)).sync([*chat(3), HumanMessage(request, id="live"), *rounds(4, chars=600)])
    shown = next(text for m in view if m.type == "human" for text in texts_of(m) if "FIRST LINE" in text)
    assert shown.startswith("FIRST LINE")
    assert shown.endswith("LAST LINE")
    assert 'recall("msg:live")' in shown
    assert size(view) <= 5250


def test_the_pinned_request_stays_where_it_is_until_the_next_decision():
    bare = Bare({"context_window": 6000})
    history = [*chat(8, chars=900), HumanMessage("book berth 9", id="live"), *rounds(6, chars=1500)]
    first = bare.sync(history)
    decided = len(bare.named("compacted"))
    assert decided == 1
    later = bare.sync([*history, *rounds(1, start=90)])
    assert len(bare.named("compacted")) == decided
    assert later[: len(first)] == first


# Earlier summaries


def test_the_second_summary_is_made_of_the_first_and_replaces_it():
    replies = ["## SUMMARY\nberth 7 closed", "## SUMMARY\nberth 7 reopened"]
    side = summariser(replies, profile={"max_input_tokens": 100_000})
    bare = Bare(compacting(2, **{"compaction.trigger_messages": 0}), side=side)
    history = chat(14, chars=1200)
    assert "berth 7 closed" in text_of(bare.sync(history))
    view = bare.sync([*history, *chat(12, chars=1200, start=50)])
    assert "berth 7 closed" in side.requests[1].text
    assert summaries_in(view) == 1
    assert "berth 7 reopened" in text_of(view)
    assert "berth 7 closed" not in text_of(view)


@pytest.mark.parametrize("keep", [2, 4, 8])
@pytest.mark.parametrize("step", [3, 7])
def test_what_a_pass_kept_is_in_the_source_of_the_next_or_still_shown(step, keep):
    bare = Bare(compacting(keep), side=numbered_summaries())
    for turns in range(step, 8 * step, step):
        view = bare.sync(chat(turns, chars=700))
        read = "\n".join(request.text for request in bare.side.requests) + text_of(view)
        missing = [m.id for m in chat(turns) if f"{m.id[0]}-{int(m.id[1:]):04d}" not in read]
        assert missing == []
    assert len(bare.named("compacted")) >= 3


@pytest.mark.parametrize("replies", [appending, echo])
def test_a_summariser_that_copies_the_last_summary_never_makes_it_grow_without_end(replies):
    bare = Bare({"context_window": 16_000}, side=summariser(replies))
    sizes = []
    for turns in range(20, 140, 10):
        view = bare.sync(chat(turns, chars=1500))
        sizes.append(size([m for m in view if "<conversation_summary" in content_text(m)]))
    assert len(bare.named("compacted")) >= 5
    assert max(sizes) <= 16_000 // 8 + 700
    assert text_of(view).count("<conversation_summary") == 1


# The update


@pytest.mark.parametrize("entry", ["sync", "async"])
async def test_the_update_never_touches_the_messages(entry):
    memory = MemoryMiddleware(configured(compacting(2)), model=summariser())
    state = {"messages": chat(12, chars=900), "memory_record": {}}
    update = await (asyncio.to_thread(memory.invoke, state, thread()) if entry == "sync" else memory(state, thread()))
    assert set(update) == {"memory_record"}


def test_an_unchanged_decision_writes_nothing():
    bare = Bare(compacting(2))
    history = chat(12, chars=900)
    bare.sync(history)
    assert bare.memory.invoke({"messages": history, "memory_record": bare.record}, thread()) == {}


def test_messages_without_ids_are_handled():
    history = [m.model_copy(update={"id": None}) for m in chat(14, chars=900)]
    bare = Bare(compacting(2))
    views = [bare.sync(history) for _ in range(3)]
    assert bare.named("compacted")
    assert views[0] == views[1] == views[2]
    assert faults(views[0]) == []


def test_messages_that_share_an_id_are_each_for_themselves():
    history = [m.model_copy(update={"id": "one"}) for m in chat(14, chars=900)]
    bare = Bare(compacting(4))
    view = bare.sync(history)
    assert bare.named("compacted")
    assert [m.content for m in view[1:]] == [m.content for m in history[-len(view) + 1 :]]


async def test_a_state_that_only_adds_lists_still_shrinks_what_is_sent():
    class Adding(TypedDict):
        messages: Annotated[list[AnyMessage], operator.add]
        memory_record: Annotated[dict[str, Any], merge_records]

    model = Scripted()
    memory = MemoryMiddleware(configured({"context_window": 4000}), model=summariser())
    graph = node_graph(memory, model, schema=Adding)
    for start in range(0, 60, 10):
        await graph.ainvoke({"messages": [*chat(10, chars=500, start=start), HumanMessage("go")]}, thread())
        assert size(model.last) <= 3500
    assert len((await graph.aget_state(thread())).values["messages"]) == 6 * 22


@pytest.mark.parametrize("removed", ["all", "some", "covered", "newest"])
@pytest.mark.parametrize("kind", GRAPHS)
async def test_after_messages_are_removed_the_view_holds_exactly_what_is_left(kind, removed):
    talked = talk({"context_window": 6000}, kind=kind)
    await talked.send(*chat(14, chars=1200), "go")
    assert talked.named("compacted")
    history = await talked.history()
    gone = {"all": [], "some": history[3:9], "covered": history[:6], "newest": history[-4:]}[removed]
    removal = [RemoveMessage(id=REMOVE_ALL_MESSAGES)] if removed == "all" else [RemoveMessage(id=m.id) for m in gone]
    request = await talked.send(*removal, HumanMessage("what now?"))
    left = await talked.history()
    shown = text_of(request) + "".join(r.text for r in talked.side.requests)
    assert faults(request) == []
    assert all(content_text(m)[:6] in shown for m in left[:-1])
    if removed == "all":
        assert [m.content for m in request] == ["what now?"]
    assert size(request) <= 5250


# The raw history


@pytest.mark.parametrize("kind", GRAPHS)
async def test_after_fifty_turns_every_message_is_still_in_the_thread_and_every_checkpoint_only_grew(kind):
    talked = talk({"context_window": 4000}, kind=kind)
    for turn in range(50):
        await talked.send(HumanMessage(f"question {turn} " + "word " * 60))
    assert talked.named("compacted")
    history = await talked.history()
    assert [re.findall(r"question \d+", str(m.content)) for m in history[::2]] == [[f"question {n}"] for n in range(50)]
    checkpoints = [s.values.get("messages", []) async for s in talked.graph.aget_state_history(talked.config)]
    for newer, older in pairwise(checkpoints):
        assert [(m.id, m.content) for m in newer[: len(older)]] == [(m.id, m.content) for m in older]


def test_the_messages_given_are_never_changed():
    history = [
        HumanMessage("go", id="h"),
        *rounds(20, chars=12_000),
        calls("z"),
        result("z", [{"type": "text", "text": "x" * 9000}]),
    ]
    before = [m.model_copy(deep=True) for m in history]
    Bare(compacting(3)).sync(history)
    Bare({"pruning.min_reclaim_tokens": 0}).sync(history)
    assert history == before


def texts_of(message: AnyMessage) -> list[str]:
    """The text blocks of a message, each for itself."""
    content = message.content
    return [content] if isinstance(content, str) else [block["text"] for block in content]


async def test_a_reply_after_a_compaction_lands_behind_the_history_in_its_order():
    talked = talk({"context_window": 4000}, model=Scripted(replies=[AIMessage("the answer", id="answer")]))
    given = [*chat(12, chars=900), HumanMessage("go", id="go")]
    await talked.send(*given)
    assert [m.id for m in await talked.history()] == [*(m.id for m in given), "answer"]
