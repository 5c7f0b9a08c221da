"""Every key of long-term memory in `runtime.json` changes what happens: one test a key, through graphs and files."""

from __future__ import annotations

import os
import time
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_memory import ConfigError, MemoryMiddleware
from langgraph_memory.context.tokens import load_counter
from tests.support.graphs import GRAPHS, calls, chat, configured, grab, text_of
from tests.support.models import Scripted
from tests.support.remembering import FLUSH, MERGE, Home, noting

NO_MERGE = {"consolidation.enabled": False}
NO_FLUSH = {"flush.enabled": False, **NO_MERGE}
LONG = [*chat(40, chars=300), HumanMessage("go on", id="go")]
"""More than a window of 6,000 tokens holds."""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def reasons(home: Home) -> list[str]:
    return [event.reason for event in home.named("memory_flushed")]


def tokens(text: str) -> int:
    return load_counter("auto").text(text)


async def rounds_of(memory: MemoryMiddleware) -> dict[str, int]:
    """What each step of a round through the only memory did."""
    return {done.name: done.count async for done in memory.upkeep().round(force=True)}


# memory


@pytest.mark.shows("memory.namespace")
@pytest.mark.parametrize(
    ("namespace", "folder"), [([], "."), (["{user_id}"], "ada"), (["team", "{user_id}"], "team/ada")]
)
async def test_namespace_is_where_the_memory_of_a_run_is(tmp_path, namespace, folder):
    home = Home(tmp_path, {"namespace": namespace, **NO_MERGE})
    await home.say("I like jazz")
    assert [path.parent for path in tmp_path.rglob("????-??-??.md")] == [tmp_path / folder / "memory"]


# memory.compaction


@pytest.mark.shows("memory.compaction.flush_before")
@pytest.mark.parametrize("flushes", [True, False])
async def test_flush_before_is_whether_covered_messages_are_flushed_first(tmp_path, flushes):
    settings = {"context_window": 6000, "flush.trigger": "compaction", "compaction.flush_before": flushes, **NO_MERGE}
    home = Home(tmp_path, settings)
    await home.say(LONG)
    assert len(home.named("compacted")) == 1
    assert reasons(home) == (["compaction"] if flushes else [])


# memory.flush


@pytest.mark.shows("memory.flush.enabled")
@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("enabled", [True, False])
async def test_flush_off_extracts_nothing_at_any_time(tmp_path, kind, enabled):
    home = Home(tmp_path, {"context_window": 6000, "flush.enabled": enabled, **NO_MERGE}, kind)
    await home.say("I like jazz")
    await home.say(LONG)
    assert home.named("compacted")
    assert bool(home.asked(FLUSH)) == bool(reasons(home)) == bool(await home.entries()) == enabled


@pytest.mark.shows("memory.flush.trigger")
@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize(
    ("trigger", "short", "long"),
    [("turn", ["turn"], ["turn", "compaction", "turn"]), ("compaction", [], ["compaction"]), ("never", [], [])],
)
async def test_trigger_is_when_memories_are_extracted(tmp_path, kind, trigger, short, long):
    home = Home(tmp_path, {"context_window": 6000, "flush.trigger": trigger, **NO_MERGE}, kind)
    await home.say("I like jazz")
    assert reasons(home) == short
    await home.say(LONG)
    assert reasons(home) == long


@pytest.mark.shows("memory.flush.min_interval_seconds")
@pytest.mark.parametrize("seconds", [0, 3600])
async def test_min_interval_seconds_puts_the_next_extraction_of_a_thread_off(tmp_path, seconds):
    saver = InMemorySaver()
    home = Home(tmp_path, {"flush.min_interval_seconds": seconds, **NO_MERGE}, saver=saver)
    await home.say("I like jazz")
    await home.say("I like chess")
    await home.say("I like tea", "t-2")
    both = ["I like jazz", "I like chess"]
    assert await home.entries() == [*(both if seconds == 0 else both[:1]), "I like tea"]
    later = Home(tmp_path, NO_MERGE, saver=saver)
    await later.say("go on")
    assert sorted(await later.entries()) == sorted([*both, "I like tea", "go on"])


@pytest.mark.shows("memory.flush.from_tools")
@pytest.mark.parametrize("from_tools", [True, False])
async def test_from_tools_is_whether_tool_output_is_extracted_from(tmp_path, from_tools):
    model = Scripted(replies=[calls("a"), AIMessage("done")])
    home = Home(tmp_path, {"flush.from_tools": from_tools, **NO_MERGE}, model=model, tools=lambda _: [grab(100)])
    await home.say("go")
    (asked,) = home.asked(FLUSH)
    assert ("r-0001 row" in asked) == from_tools


def made(monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], Scripted]:
    """The names that models are asked for by, and the model that each of them gets."""
    named, asked = Scripted(replies=noting), list[str]()
    monkeypatch.setattr("langgraph_memory.models.init_chat_model", lambda name: asked.append(name) or named)
    return asked, named


@pytest.mark.shows("memory.flush.model", "memory.consolidation.model")
@pytest.mark.parametrize(("section", "kind"), [("flush", FLUSH), ("consolidation", MERGE)])
async def test_model_names_who_extracts_and_who_merges(tmp_path, monkeypatch, section, kind):
    asked, named = made(monkeypatch)
    home = Home(tmp_path, {f"{section}.model": "acme:small"})
    await home.say("I like jazz")
    assert asked == ["acme:small"]
    assert [bool(home.asked(one)) for one in (FLUSH, MERGE)] == [one != kind for one in (FLUSH, MERGE)]
    assert len(named.requests) == 1
    assert "I like jazz" in home.notes.read_text(encoding="utf-8")


@pytest.mark.parametrize("section", ["flush", "consolidation"])
def test_a_model_that_cannot_be_made_is_named_at_once(section):
    with pytest.raises(ConfigError, match=rf"memory\.{section}\.model: 'nosuch:thing'"):
        MemoryMiddleware(configured({f"{section}.model": "nosuch:thing"}))


@pytest.mark.shows("memory.flush.prompt", "memory.consolidation.prompt")
@pytest.mark.parametrize("section", ["flush", "consolidation"])
@pytest.mark.parametrize("prompt", ["Kurz: {messages}", "{previous} and {messages} {not_a_slot} {}", "{messages}" * 2])
async def test_prompt_is_what_is_asked(tmp_path, section, prompt):
    home = Home(tmp_path, {f"{section}.prompt": prompt, **({} if section == "consolidation" else NO_MERGE)})
    write(home.notes, "- likes tea\n")
    await home.say("I like jazz")
    sent = home.side.requests[-1].text
    assert sent.startswith(prompt.split("{")[0])
    assert sent.count("I like jazz") == prompt.count("{messages}")
    assert ("{not_a_slot} {}" in sent) == ("{not_a_slot} {}" in prompt)
    assert "NO_REPLY" not in sent and "<new_entries>" not in sent
    assert "likes tea" in sent or section == "flush"


# memory.consolidation


@pytest.mark.shows("memory.consolidation.enabled")
@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("enabled", [True, False])
async def test_consolidation_off_leaves_memory_md_alone(tmp_path, kind, enabled):
    home = Home(tmp_path, {"consolidation.enabled": enabled}, kind)
    await home.say("I like jazz")
    assert await home.entries() == ["I like jazz"]
    assert home.notes.exists() == bool(home.asked(MERGE)) == enabled
    done = await rounds_of(home.memory)
    assert ("consolidate" in done) == home.notes.exists() == enabled


@pytest.mark.shows("memory.consolidation.max_memory_tokens")
@pytest.mark.parametrize("most", [0, 100, 300])
async def test_max_memory_tokens_is_the_size_of_memory_md_and_of_what_is_shown(tmp_path, most):
    home = Home(tmp_path / "work", {"consolidation.max_memory_tokens": most})
    facts = [f"Fact number {n}: the crane at pier {n} is painted in colour {n}." for n in range(60)]
    await home.workspace().append(facts)
    # Without a model, which would be asked for less until it obeys.
    await rounds_of(MemoryMiddleware(home.memory.config, workspace=tmp_path / "work"))
    text = home.notes.read_text(encoding="utf-8") if home.notes.exists() else ""
    assert tokens(text) <= most
    assert ("number 59:" in text) == (most > 0)
    by_hand = Home(tmp_path / "other", {"consolidation.max_memory_tokens": most, **NO_FLUSH})
    write(by_hand.notes, "\n".join(f"- {fact}" for fact in facts))
    shown = text_of(await by_hand.say("hello"))
    report = by_hand.memory.report(await by_hand.state(), by_hand.config("t-1"))
    assert report.parts["curated"] <= most + 5
    assert ("number 59:" in shown) == (most > 0)


@pytest.mark.shows("memory.consolidation.min_interval_minutes")
@pytest.mark.parametrize(("minutes", "merges"), [(0, 2), (30, 1)])
async def test_min_interval_minutes_puts_the_next_merge_off(tmp_path, minutes, merges):
    home = Home(tmp_path, {"consolidation.min_interval_minutes": minutes})
    await home.say("I like jazz")
    await home.say("I like chess")
    assert len(home.asked(MERGE)) == merges
    assert ("chess" in home.notes.read_text(encoding="utf-8")) == (merges == 2)


# memory.maintenance


class EndedError(Exception):
    """The ticker would sleep now."""


@pytest.mark.shows("memory.maintenance.interval_hours")
@pytest.mark.parametrize(
    ("hours", "ago", "done"), [(1, 2.0, True), (3, 2.0, False), (3, None, True), (3, -1.0, True), (0, None, False)]
)
async def test_interval_hours_is_when_the_next_round_is_due(tmp_path, monkeypatch, hours, ago, done):
    async def sleep(seconds: float) -> None:
        assert 0 < seconds <= 60
        raise EndedError

    monkeypatch.setattr("langgraph_memory.upkeep.asyncio", SimpleNamespace(sleep=sleep))
    stamp = tmp_path / ".maintained"
    if ago is not None:
        stamp.touch()
        os.utime(stamp, (time.time() - ago * 3600,) * 2)
    before = stamp.stat().st_mtime if ago is not None else None
    memory = MemoryMiddleware(configured({"maintenance.interval_hours": hours}), workspace=tmp_path)
    if hours:
        with pytest.raises(EndedError):
            await memory.upkeep().tick()
    else:
        await memory.upkeep().tick()
    assert (stamp.exists() and stamp.stat().st_mtime != before) == done


@pytest.mark.shows("memory.maintenance.ledger_retention_days")
@pytest.mark.parametrize(("days", "archived"), [(0, 0), (9, 1), (11, 0)])
async def test_ledger_retention_days_is_when_a_ledger_goes_to_the_archive(tmp_path, days, archived):
    home = Home(tmp_path, {"maintenance.ledger_retention_days": days})
    moment = datetime.now() - timedelta(days=10)
    await home.workspace().append([{"text": "Ada likes jazz", "timestamp": moment.isoformat()}, "Ada likes tea"])
    done = await rounds_of(home.memory)
    assert (done["consolidate"], done["ledgers"]) == (2, archived)
    old = f"{moment.date()}.md"
    assert (tmp_path / "ada/memory/archive" / old).exists() == bool(archived)
    assert (tmp_path / "ada/memory" / old).exists() != bool(archived)


@pytest.mark.shows("memory.maintenance.session_retention_days")
@pytest.mark.parametrize(("days", "removed"), [(0, 0), (9, 1), (11, 0)])
async def test_session_retention_days_is_when_a_session_log_goes(tmp_path, days, removed):
    home = Home(tmp_path, {"context_window": 6000, "maintenance.session_retention_days": days, **NO_FLUSH})
    await home.say(LONG)
    (log,) = (tmp_path / "ada/sessions").glob("*.jsonl")
    os.utime(log, (time.time() - 10 * 86_400,) * 2)
    assert (await rounds_of(home.memory))["sessions"] == removed
    assert log.exists() == (removed == 0)


# memory.retrieval


@pytest.mark.shows("memory.retrieval.inject_curated")
@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("shown", [True, False])
async def test_inject_curated_is_whether_memory_md_is_shown(tmp_path, kind, shown):
    home = Home(tmp_path, {"retrieval.inject_curated": shown, **NO_FLUSH}, kind)
    write(home.notes, "- likes jazz\n")
    assert ("likes jazz" in text_of(await home.say("hello"))) == shown
    report = home.memory.report(await home.state(), home.config("t-1"))
    assert bool(report.parts["curated"]) == shown


@pytest.mark.shows("memory.retrieval.auto_recall")
@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("shown", [True, False])
async def test_auto_recall_is_whether_requests_are_searched_for(tmp_path, kind, shown):
    home = Home(tmp_path, {"retrieval.auto_recall": shown, **NO_FLUSH}, kind)
    await home.workspace().append(["The spare key is under the blue pot."])
    assert ("blue pot" in text_of(await home.say("where is the spare key?"))) == shown


@pytest.mark.shows("memory.retrieval.limit")
@pytest.mark.parametrize("limit", [1, 3, 50])
async def test_limit_is_the_number_of_hits(tmp_path, limit):
    home = Home(tmp_path, {"retrieval.auto_recall": True, "retrieval.limit": limit, **NO_FLUSH})
    await home.workspace().append([f"The spare key number {n} is there." for n in range(5)])
    text = text_of(await home.say("where is the spare key?"))
    assert sum(f"key number {n} " in text for n in range(5)) == min(limit, 5)
    retriever = home.memory.retriever(home.config("t-1"))
    assert retriever is not None
    assert len(await retriever.search("spare key")) == min(limit, 5)


async def best(tmp_path: Path, settings: dict[str, Any], *, said: str = "hello", notes: list[Any]) -> str:
    """The text of the first hit for "spare key", in a thread where `said` was said."""
    home = Home(tmp_path, {**settings, **NO_FLUSH}, saver=InMemorySaver())
    await home.workspace().append(notes)
    await home.say(said)
    retriever = home.memory.retriever(home.config("t-1"))
    assert retriever is not None
    return (await retriever.search("spare key"))[0].text


@pytest.mark.shows("memory.retrieval.long_term_weight")
@pytest.mark.parametrize(("weight", "first"), [(0.2, "say"), (5, "noted")])
async def test_long_term_weight_puts_memories_before_what_was_said(tmp_path, weight, first):
    found = await best(
        tmp_path,
        {"retrieval.long_term_weight": weight},
        said="I say the spare key is here.",
        notes=["I noted the spare key is here."],
    )
    assert first in found


def aged(days: float) -> list[Any]:
    """A note that fits well and is `days` old, and one of now that fits less."""
    moment = (datetime.now() - timedelta(days=days)).isoformat()
    good = {"text": "spare key", "timestamp": moment}
    return [good, "The spare bed and the spare chair are in the other room, with one key and many other things."]


@pytest.mark.shows("memory.retrieval.decay_floor")
@pytest.mark.parametrize(("floor", "old_wins"), [(0.0, False), (1.0, True)])
async def test_decay_floor_is_what_an_old_hit_keeps(tmp_path, floor, old_wins):
    found = await best(tmp_path, {"retrieval.decay_floor": floor}, notes=aged(30))
    assert (found == "spare key") == old_wins


@pytest.mark.shows("memory.retrieval.decay_hours")
@pytest.mark.parametrize(("hours", "old_wins"), [(24, False), (24 * 3000, True)])
async def test_decay_hours_is_how_fast_a_hit_grows_old(tmp_path, hours, old_wins):
    settings = {"retrieval.decay_floor": 0.0, "retrieval.decay_hours": hours}
    found = await best(tmp_path, settings, notes=aged(30))
    assert (found == "spare key") == old_wins


class Meanings(Embeddings):
    """Knows what drinks are."""

    model = "meanings-1"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return list(map(self.embed_query, texts))

    def embed_query(self, text: str) -> list[float]:
        return [float("tea" in text or "beverage" in text), float("pier" in text)]


@pytest.mark.shows("memory.retrieval.embeddings")
@pytest.mark.parametrize("given", ["by name", "as an object", "not at all"])
async def test_embeddings_name_the_model_that_finds_what_shares_no_word(tmp_path, monkeypatch, given):
    pytest.importorskip("numpy")
    asked: list[str] = []
    monkeypatch.setattr("langgraph_memory.models.init_embeddings", lambda name: asked.append(name) or Meanings())
    named = {"retrieval.embeddings": "acme:meanings-1"} if given == "by name" else {}
    home = Home(
        tmp_path,
        {"retrieval.auto_recall": True, **named, **NO_FLUSH},
        options={"embeddings": Meanings()} if given == "as an object" else {},
    )
    await home.workspace().append(["Ada drinks tea.", "The crane stands at pier B."])
    request = text_of(await home.say("beverage?"))
    assert asked == (["acme:meanings-1"] if named else [])
    assert ("Ada drinks tea." in request) == (given != "not at all")
    assert "crane" not in request


def test_embeddings_that_cannot_be_made_are_named_at_once():
    with pytest.raises(ConfigError, match=r"memory\.retrieval\.embeddings: 'nosuch:thing'"):
        MemoryMiddleware(configured({"retrieval.embeddings": "nosuch:thing"}))
