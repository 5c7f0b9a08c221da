import json
from typing import Any, get_args

import pytest
from langchain_core.messages import HumanMessage

from langgraph_memory import ContextReport, MemoryEvent
from langgraph_memory.events import DATA, EventName
from tests.support.graphs import GRAPHS, MODES, Bare, chat, rounds, talk
from tests.support.models import summariser

SMALL = {"context_window": 5000}
LONG = chat(14, chars=1200)
FIELDS = {"type", "event", "thread_id", "reason", "duration_ms", "before", "after"}


def test_every_event_name_is_one_of_the_documented_ones():
    documented = {
        "pruned",
        "spilled",
        "compacting",
        "compacted",
        "compaction_failed",
        "overflow_recovered",
        "capped",
        "window_guessed",
        "conflict",
        "record_ignored",
        "namespace_missing",
        "branched",
        "memory_flushed",
        "memory_changed",
    }
    assert set(get_args(EventName)) <= documented


def test_an_event_as_json_has_one_shape():
    event = MemoryEvent("capped", "t-1", "because", 1.23456, data={"key": "k", "used": 5})
    assert event.to_json() == {
        "type": "langgraph_memory",
        "event": "capped",
        "thread_id": "t-1",
        "reason": "because",
        "duration_ms": 1.235,
        "before": None,
        "after": None,
        "key": "k",
        "used": 5,
    }


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", GRAPHS)
async def test_every_event_of_a_run_is_plain_json_with_thread_reason_and_duration(kind, mode):
    failing = summariser(["", "", "## SUMMARY\nfine"])
    talked = talk({**SMALL, "pruning.min_reclaim_tokens": 0}, kind=kind, mode=mode, side=failing)
    await talked.send(*LONG, *rounds(6, chars=5000), "go")
    assert {"capped", "compacted", "compaction_failed", "pruned"} & {event.name for event in talked.events}
    for event in talked.events:
        data = event.to_json()
        assert set(data) >= FIELDS
        assert (data["type"], data["event"], data["thread_id"]) == ("langgraph_memory", event.name, "t-1")
        assert json.loads(json.dumps(data)) == data
        assert data["duration_ms"] >= 0
        assert isinstance(data["reason"], str)
        assert set(event.data) <= set(DATA.get(event.name, ()))


@pytest.mark.parametrize("kind", GRAPHS)
async def test_the_stream_and_the_listener_get_the_same_events(kind):
    talked = talk(SMALL, kind=kind)
    given = {"messages": [*LONG, HumanMessage("go")]}
    streamed = [event async for event in talked.graph.astream(given, talked.config, stream_mode="custom")]
    assert [event.to_json() for event in talked.events] == streamed
    assert streamed


@pytest.mark.parametrize(
    "settings,history,name",
    [
        (SMALL, LONG, "compacted"),
        ({"pruning.min_reclaim_tokens": 0}, [HumanMessage("go", id="h"), *rounds(8, chars=5000)], "pruned"),
        ({**SMALL, "compaction.enabled": False}, [HumanMessage("go", id="h"), *rounds(8, chars=5000)], "pruned"),
    ],
)
def test_each_call_that_changes_the_view_announces_it_once_with_both_reports(settings, history, name):
    bare = Bare(settings)
    bare.sync(history)
    [event] = [event for event in bare.events if event.after is not None]
    assert event.name == name
    assert isinstance(event.before, ContextReport)
    assert isinstance(event.after, ContextReport)
    assert event.after.total < event.before.total
    assert event.after == bare.report(history) or event.after.total == bare.report(history).total
    for report in (event.before, event.after):
        assert sum(report.parts.values()) == report.total
        assert report.to_json()["usage_ratio"] == round(report.total / report.window, 4)
    assert 0 <= event.after.stable_prefix <= event.after.view_messages
    assert event.data["actions"]
    bare.sync(history)
    assert len([e for e in bare.events if e.after is not None]) == 1


def test_a_report_tells_how_much_of_the_view_stayed_the_same():
    bare = Bare({"context_window": 100_000, "pruning.protect_recent": 1, "pruning.min_reclaim_tokens": 1500})
    bare.sync([HumanMessage("go", id="h"), *chat(5), *rounds(6, chars=5000)])
    [event] = bare.named("pruned")
    assert event.after.stable_prefix == 12
    assert event.after.trimmed > 0
    assert event.before.trimmed == 0


def test_a_failed_summary_says_why():
    bare = Bare(SMALL, side=summariser([RuntimeError("429 slow down")]))
    bare.sync(LONG)
    assert bare.named("compaction_failed")
    assert all("429 slow down" in event.reason for event in bare.named("compaction_failed"))
    assert bare.named("compacted")[-1].reason == "extract"


def test_what_the_window_does_not_allow_is_said_once_a_thread_and_not_on_every_call():
    bare = Bare({**SMALL, "compaction.keep_recent_tokens": 3000})
    for turns in range(2, 8):
        bare.sync(chat(turns))
    capped = [event.data for event in bare.named("capped")]
    keys = [data["key"] for data in capped]
    assert "memory.compaction.keep_recent_tokens" in keys
    assert len(keys) == len(set(keys))
    assert {data["used"] for data in capped if data["key"].endswith("keep_recent_tokens")} == {1250}


def test_a_quiet_call_sends_nothing():
    bare = Bare({"context_window": 200_000})
    bare.sync(chat(3))
    bare.sync(chat(4))
    assert bare.events == []


@pytest.mark.parametrize("thread_id", ["t", "潮汐/1", None])
async def test_events_name_the_thread_they_belong_to(thread_id):
    events: list[Any] = []
    bare = Bare(SMALL)
    bare.memory._steps._listener = events.append
    config = {"configurable": {"thread_id": thread_id}} if thread_id else None
    await bare.memory({"messages": LONG}, config)
    assert {event.thread_id for event in events} == {thread_id}
