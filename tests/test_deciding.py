"""Summaries that are paid for are found again, and the next one is bought ahead; covered messages are logged."""

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_memory import MemoryMiddleware
from tests.support.graphs import (
    GRAPHS,
    MODES,
    Bare,
    Talk,
    chat,
    configured,
    node_graph,
    summaries_in,
    talk,
    text_of,
    thread,
)
from tests.support.models import Hanging, Scripted, Slow, numbered_summaries, summariser
from tests.support.validity import faults

pytestmark = pytest.mark.slow

SMALL = {"context_window": 8000}
WORDS = "word " * 60


NOT_AHEAD = {"compaction.prefetch_ratio": 1.0}
SHARED = {"namespace": []}


def talked(
    kind: str = "node", mode: str = "async", settings: Any = None, side: Any = None, workspace: Any = None
) -> Talk:
    side, model = side or summariser(), Scripted(replies="fine " * 60)
    return talk({**SMALL, **(settings or {})}, kind=kind, mode=mode, side=side, model=model, workspace=workspace)


async def fill(talk: Talk) -> float:
    """Send one more message; how full the view is now, as a share of the trigger."""
    await talk.send(WORDS)
    report = await talk.report()
    return float(report.total / report.trigger)


async def until(talk: Talk, share: float) -> None:
    """Talk until the view is that full."""
    while await fill(talk) < share:
        assert not talk.named("compacted")


async def until_compacted(talk: Talk, times: int = 1) -> None:
    while len(talk.named("compacted")) < times:
        await talk.send(WORDS)
        await talk.memory.adrain()


async def until_asked(side: Scripted) -> None:
    while not side.requests:  # noqa: ASYNC110 - the model is asked in a task of its own
        await asyncio.sleep(0.01)


# Bought ahead


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", GRAPHS)
async def test_a_summary_is_bought_before_it_is_needed_and_only_that_one(kind, mode):
    talk = talked(kind, mode)
    await until(talk, 0.94)
    await talk.memory.adrain()
    assert len(talk.side.requests) == 1 and summaries_in(talk.model.last) == 0
    await until_compacted(talk)
    assert len(talk.side.requests) == 1
    assert talk.named("compacted")[0].reason == "bought before"
    assert summaries_in(await talk.view()) == 1 and faults(await talk.view()) == []


@pytest.mark.parametrize("kind", GRAPHS)
async def test_as_much_is_kept_as_without_buying_ahead(kind):
    kept = {}
    for ratio in (0.9, 1.0):
        talk = talked(kind, settings={"compaction.prefetch_ratio": ratio})
        await until_compacted(talk, 3)
        kept[ratio] = [event.after.parts["human"] + event.after.parts["ai"] for event in talk.named("compacted")]
    assert all(abs(a - b) <= 400 for a, b in zip(kept[0.9], kept[1.0], strict=True)), kept


@pytest.mark.shows("memory.compaction.prefetch_ratio")
@pytest.mark.parametrize("ratio", [0.6, 0.8, 1.0])
async def test_prefetch_ratio_is_when_a_summary_is_bought_ahead(ratio):
    talk = talked(settings={"compaction.prefetch_ratio": ratio, "compaction.min_messages": 1})
    full = 0.0
    while not talk.side.requests and not talk.named("compacted"):
        full = await fill(talk)
        await talk.memory.adrain()
    assert ratio < full < ratio + 0.05 if ratio < 1 else talk.named("compacted")[0].reason == "summariser"


async def test_a_long_thread_buys_as_many_summaries_ahead_as_it_uses():
    talk = talked(side=numbered_summaries())
    await until_compacted(talk, 4)
    assert len(talk.side.requests) - len(talk.named("compacted")) in (0, 1)
    assert {event.reason for event in talk.named("compacted")} == {"bought before"}


async def test_nobody_waits_for_a_summary_that_is_bought_ahead_until_it_is_needed():
    side = Hanging(replies=summariser().replies)
    talk = talked(side=side)
    await until(talk, 0.94)
    await until_asked(side)
    waiting = asyncio.create_task(until_compacted(talk))
    done, _ = await asyncio.wait([waiting], timeout=0.5)
    assert not done
    side.release.set()
    await waiting
    assert len(side.requests) == 1


async def test_a_summary_bought_ahead_that_fails_is_asked_for_again_when_it_is_needed():
    side = Scripted(replies=[RuntimeError("busy")])
    talk = talked(side=side)
    await until(talk, 0.94)
    await talk.memory.adrain()
    failed, side.replies = len(side.requests), summariser().replies
    await until_compacted(talk)
    assert failed and len(side.requests) == failed + 1 and talk.named("compacted")[0].reason == "summariser"


@pytest.mark.parametrize(
    "settings", [{"compaction.enabled": False, "context_window": 16_000}, {"compaction.min_messages": 500}]
)
async def test_nothing_is_bought_ahead_that_would_not_be_bought(settings):
    talk = talked(settings=settings)
    for _ in range(16):
        await talk.send(WORDS)
    await talk.memory.adrain()
    assert talk.side.requests == []


async def test_tokens_of_a_summary_bought_ahead_never_reach_the_stream():
    talk = talked("agent")
    streamed: list[str] = []
    while not talk.named("compacted"):
        given = {"messages": [HumanMessage(WORDS)]}
        async for chunk, _ in talk.graph.astream(given, talk.config, stream_mode="messages"):
            streamed.append(str(chunk.content))
    assert "SUMMARY-TEXT" not in "".join(streamed)
    assert "SUMMARY-TEXT" in text_of(await talk.view())


async def test_leaving_open_waits_for_what_is_under_way(tmp_path):
    side = Slow(replies=summariser().replies, seconds=0.3)
    config = {**configured(SMALL).model_dump(), "persistence": {"workspace": str(tmp_path)}}
    async with MemoryMiddleware.open(config, model=side) as memory:
        graph = node_graph(memory, Scripted(replies="fine " * 60), saver=memory.saver)
        config = thread()
        while config["configurable"]["thread_id"] not in [key[0] for key in memory.background.under_way()]:
            await graph.ainvoke({"messages": [HumanMessage(WORDS)]}, config)
    assert len(side.requests) == 1
    with sqlite3.connect(tmp_path / "cache.db") as db:
        assert db.execute("SELECT count(*) FROM summaries").fetchone() == (1,)
    db.close()


# Paid for


@pytest.mark.parametrize("kept", ["in the workspace", "in the process"])
async def test_a_branch_uses_the_longest_summary_that_is_paid_for(tmp_path, kept):
    workspace = tmp_path if kept == "in the workspace" else None
    talk = talked(side=numbered_summaries(), settings=NOT_AHEAD, workspace=workspace)
    await until_compacted(talk, 2)
    bought = len(talk.side.requests)
    branches = [s async for s in talk.graph.aget_state_history(talk.config) if not summary_in(s.values)]
    given = {"messages": [HumanMessage("another way")]}
    await talk.graph.ainvoke(given, branches[0].config)
    await until_compacted(talk, 3)
    assert len(talk.side.requests) == bought
    assert talk.named("compacted")[2].reason == "bought before"
    assert faults(await talk.view()) == []


def summary_in(values: Any) -> Any:
    return next(iter(values.get("memory_record", {}).get("ns", {}).values()), {}).get("summary")


def paid_history(turns: int) -> list[BaseMessage]:
    return list(chat(turns, chars=600))


def test_a_summary_of_another_history_is_never_used():
    bare = Bare({**SMALL, **NOT_AHEAD}, side=numbered_summaries())
    bare.sync(paid_history(30))
    bare.record = {}
    edited = paid_history(30)
    edited[1] = AIMessage("something else", id=edited[1].id)
    bare.sync(edited)
    assert len(bare.side.requests) == 2


def test_a_paid_summary_is_used_although_the_record_is_lost_and_more_was_said():
    bare = Bare({**SMALL, **NOT_AHEAD}, side=numbered_summaries())
    bare.sync(paid_history(30))
    bare.record = {}
    view = bare.sync(paid_history(31))
    assert len(bare.side.requests) == 1 and summaries_in(view) == 1 and faults(view) == []
    assert bare.named("compacted")[-1].reason == "bought before"


def test_a_paid_summary_that_frees_too_little_is_not_enough():
    bare = Bare({**SMALL, **NOT_AHEAD}, side=numbered_summaries())
    bare.sync(paid_history(30))
    bare.record = {}
    bare.sync(paid_history(90))
    assert len(bare.side.requests) > 1


async def test_whoever_names_a_focus_gets_a_new_summary():
    side = numbered_summaries()
    talk = talked(side=side, settings=NOT_AHEAD)
    for _ in range(8):
        await talk.send(WORDS)
    await talk.memory.compact(talk.graph, talk.config)
    bought = len(side.requests)
    await talk.graph.aupdate_state(talk.config, {"memory_record": {"v": 1, "ns": {"": {}}}})
    await talk.memory.compact(talk.graph, talk.config)
    assert len(side.requests) == bought
    await talk.graph.aupdate_state(talk.config, {"memory_record": {"v": 1, "ns": {"": {}}}})
    await talk.memory.compact(talk.graph, talk.config, focus="the harbour")
    assert len(side.requests) == bought + 1 and "the harbour" in side.requests[-1].text


# Logged


def logged(folder: Path) -> list[str]:
    texts = [path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.jsonl"))]
    return [json.loads(line)["id"] for text in texts for line in text.splitlines()]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", GRAPHS)
async def test_covered_messages_are_logged_once_each(tmp_path, kind, mode):
    talk = talked(kind, mode, SHARED, workspace=tmp_path)
    await until_compacted(talk, 3)
    count = summary_in(await talk.state())["count"]
    assert logged(tmp_path) == [message.id for message in (await talk.history())[:count]]
    assert [path.parent for path in tmp_path.rglob("*.jsonl")] == [tmp_path / "sessions"]


@pytest.mark.shows("memory.compaction.offload_before")
@pytest.mark.parametrize("on", [True, False])
async def test_offload_before_is_whether_covered_messages_are_logged(tmp_path, on):
    talk = talked(settings={**SHARED, "compaction.offload_before": on}, workspace=tmp_path)
    await until_compacted(talk)
    assert bool(logged(tmp_path)) is on


async def test_a_session_log_is_kept_by_namespace_and_without_one_not_at_all(tmp_path):
    talk = talked(workspace=tmp_path)
    talk.config["configurable"]["user_id"] = "ada"
    await until_compacted(talk)
    assert [path.relative_to(tmp_path) for path in tmp_path.rglob("*.jsonl")] == [Path("ada/sessions/t-1.jsonl")]
    assert not talk.named("namespace_missing")
    talk.config = thread("t-2")
    await until_compacted(talk, 3)
    assert len(talk.named("namespace_missing")) == 1 and len(list(tmp_path.rglob("*.jsonl"))) == 1


async def test_a_log_that_cannot_be_written_leaves_the_run_alone(tmp_path, caplog):
    (tmp_path / "sessions").write_text("in the way", encoding="utf-8")
    talk = talked(settings=SHARED, workspace=tmp_path)
    await until_compacted(talk)
    assert "session log" in caplog.text
    assert summaries_in(await talk.view()) == 1
