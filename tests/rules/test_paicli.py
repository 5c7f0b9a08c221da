"""The table "PaiCLI → ours" of docs/long-term.md, row by row."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage

from langgraph_memory import MemoryMiddleware, Workspace
from langgraph_memory.config import RetrievalConfig
from langgraph_memory.context.tokens import estimator_for
from langgraph_memory.longterm.retrieve import CLOSING, Found, Retriever
from tests.support.graphs import Bare, chat, configured, node_graph, summaries_in, talk
from tests.support.ledgers import pending
from tests.support.models import Scripted, content_text

COUNT = estimator_for("auto").text
DOCS = (Path(__file__).parents[2] / "docs" / "long-term.md").read_text(encoding="utf-8")


def test_every_row_of_the_table_names_a_test_of_this_file():
    named = set(re.findall(r"`(test_\w+)`", DOCS))
    assert named and all(callable(globals().get(name)) for name in named)


@pytest.mark.parametrize("kind", ["conversation", "fact", "summary", "tool_result"])
async def test_every_field_of_an_entry_survives(tmp_path, kind):
    given = {
        "id": "e-1",
        "text": "Ada keeps bees.\nTwo hives.",
        "type": kind,
        "timestamp": "2025-02-03T04:05:06+09:00",
        "tokens": 12,
        "metadata": {"source": "import", "n": 3},
    }
    await Workspace(tmp_path, ("ada",)).append([given])
    (hit,) = await Workspace(tmp_path, ("ada",)).search("bees")
    assert (hit.id, hit.text, hit.type) == ("e-1", given["text"], kind)
    assert datetime.fromisoformat(hit.timestamp) == datetime.fromisoformat(given["timestamp"])
    (row,) = await asyncio.to_thread(pending, Workspace(tmp_path, ("ada",)).keeper, {})
    assert (row.entry.tokens, dict(row.entry.metadata)) == (12, given["metadata"])


def test_the_usage_ratio_is_the_share_of_the_window():
    bare = Bare({"context_window": 8000})
    bare.sync(chat(20))
    report = bare.report(chat(20))
    assert report.usage_ratio == report.total / 8000
    assert 0 < report.usage_ratio < 1


async def test_what_is_evicted_from_the_view_is_in_the_summary_and_the_thread():
    said = talk({"context_window": 6000})
    view = await said.send(*chat(60, chars=300))
    assert summaries_in(view) == 1
    shown = {message.id for message in view}
    history = await said.history()
    assert any(message.id not in shown for message in history)
    assert len(history) == len(chat(60)) + 1


@pytest.mark.parametrize(("chunk", "asks"), [(0, 1), (5, 2)])
def test_one_chunk_is_not_reduced_and_several_are(chunk, asks):
    bare = Bare({"context_window": 6000, "compaction.map_chunk_messages": chunk})
    bare.sync(chat(60, chars=200))
    assert (len(bare.side.requests) == 1) is (asks == 1)


@pytest.mark.parametrize("again", ["I like Java", "  i LIKE java. ", "Ｉ ｌｉｋｅ Java"])
async def test_the_same_text_is_stored_once(tmp_path, again):
    ada = Workspace(tmp_path, ("ada",))
    assert len(await ada.append(["I like Java", again])) == 1
    assert await ada.append([again]) == []
    assert len(await ada.search("java")) == 1


async def test_facts_are_extracted_at_the_end_of_a_turn(tmp_path):
    side = Scripted(
        replies=lambda messages: "- Ada moved to Lyon." if "NO_REPLY" in content_text(messages[-1]) else "x"
    )
    memory = MemoryMiddleware(configured({"consolidation.enabled": False}), model=side, workspace=tmp_path, inline=True)
    graph = node_graph(memory, Scripted())
    config = {"configurable": {"thread_id": "t", "user_id": "ada"}}
    await graph.ainvoke({"messages": [HumanMessage("I have moved to Lyon")]}, config)
    (hit,) = await Workspace(tmp_path, ("ada",)).search("Lyon")
    assert hit.text == "Ada moved to Lyon."
    await memory.adrain()


def found(text: str, score: float, **more: str) -> Found:
    return Found("thread", f"msg:{text}", text, score, **more)


async def test_recency_and_source_weigh_what_is_found(tmp_path):
    now = datetime.now(UTC)
    for hours, factor in [(0, 1.0), (12, 0.75), (24, 0.5), (500, 0.5)]:
        workspace = Workspace(tmp_path, (str(hours),))
        old = now - timedelta(hours=hours)
        await workspace.append([{"text": "pier 1 opens"}, {"text": "pier 2 opens", "timestamp": old.isoformat()}])
        scores = {hit.text: hit.score for hit in await workspace.search("opens")}
        assert scores["pier 2 opens"] / scores["pier 1 opens"] == pytest.approx(factor, abs=0.01)

    ada = Workspace(tmp_path, ("ada",))
    await ada.append(["pier 1 opens"])
    said = [found("pier 7 opens", 1.0, timestamp=now.isoformat())]
    ranked = await asyncio.to_thread(Retriever(ada.keeper, RetrievalConfig()).ranked, "opens", said, 10)
    scores = {one.source: one.score for one in reversed(ranked)}
    assert scores["memory"] / scores["thread"] == pytest.approx(1.2, abs=0.02)
    ranked = await asyncio.to_thread(
        Retriever(ada.keeper, RetrievalConfig(long_term_weight=0.5)).ranked, "opens", said, 10
    )
    assert ranked[0].source == "thread"


@pytest.mark.parametrize("tokens", [100, 200, 1000])
async def test_a_context_is_built_within_its_budget(tmp_path, tokens):
    ada = Workspace(tmp_path, ("ada",))
    await ada.append([f"note {n} about the harbour, {'and more ' * n}" for n in range(30)])
    text = await Retriever(ada.keeper).build_context("harbour", max_tokens=tokens, count=COUNT)
    assert 0 < COUNT(text) <= tokens
    assert text.endswith(CLOSING)
    assert await Retriever(ada.keeper).build_context("zebra", max_tokens=tokens, count=COUNT) == ""


def test_the_budget_is_divided_as_configured():
    bare = Bare(
        {
            "context_window": 200_000,
            "budget.system_tokens": 500,
            "budget.tools_tokens": 800,
            "budget.response_tokens": 2000,
        }
    )
    bare.sync(chat(3))
    report = bare.report(chat(3))
    assert (report.parts["system"], report.parts["tools"], report.reserve) == (500, 800, 2000)
    assert report.total + report.free + report.reserve == 200_000
