"""Ids and figures in the log, never what was said."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import tool

from langgraph_memory import MemoryEvent, MemoryMiddleware
from langgraph_memory.events import DATA, announce
from langgraph_memory.logs import details, failed, outline
from tests.support.graphs import GRAPHS, agent_graph, chat, node_graph, thread
from tests.support.models import Scripted
from tests.support.remembering import FLUSH, MERGE, asked_for, noting

USER, RESULT, ARGUMENT = "KELP-USER", "KELP-RESULT", "KELP-ARGUMENT"
SUMMARY, ENTRY, FAULT, TOLD = "KELP-SUMMARY", "KELP-ENTRY", "KELP-FAULT", "KELP-LISTENER"
MARKS = "KELP-"


@tool
def look(what: str) -> str:
    """Look something up."""
    return f"{RESULT} " + "row " * 2000


def side_replies(*, fails: bool) -> Any:
    """A side model whose texts are marked; one that fails quotes the request in its error."""

    def reply(messages: list[BaseMessage]) -> Any:
        if fails:
            raise RuntimeError(f"400: {FAULT} cannot take {str(messages[-1].content)[:100_000]}")
        if asked_for(messages) == FLUSH:
            return f"- the {ENTRY} is at pier B"
        if asked_for(messages) == MERGE:
            return noting(messages)
        return f"## SESSION INTENT\n{SUMMARY}\n## SUMMARY\n{SUMMARY}\n## NEXT STEPS\ngo on"

    return reply


def scripted() -> Scripted:
    replies = [
        AIMessage("", tool_calls=[{"name": "look", "args": {"what": ARGUMENT}, "id": "c1"}]),
        AIMessage(f"{USER} done"),
    ]
    return Scripted(replies=lambda messages: replies[0 if messages[-1].type == "human" else 1])


async def lived(folder: Path, kind: str, *, fails: bool, listener: Any) -> None:
    """An opened memory that spills, compacts, flushes, consolidates and is looked after."""
    settings = {
        "memory": {
            "context_window": 6000,
            "compaction": {"min_messages": 4},
            "consolidation": {"min_interval_minutes": 0},
        },
        "tools": {"spill_buffer": {"default_threshold": 4000}},
        "persistence": {"thread_db": str(folder / "threads.db"), "workspace": str(folder / "work")},
    }
    side = Scripted(replies=side_replies(fails=fails))
    opening = MemoryMiddleware.open(settings, model=side, on_event=listener, inline=True)
    async with opening as memory:
        build = node_graph if kind == "node" else agent_graph
        graph = build(memory, scripted(), tools=[look, *memory.tools], saver=memory.saver)
        config = {**thread(), "configurable": {"thread_id": "t-1", "user_id": "ada"}}
        talked = [m.model_copy(update={"content": f"{USER} {m.content}"}) for m in chat(12, chars=1600)]
        for said in ([*talked, HumanMessage(f"{USER} go")], [HumanMessage(f"{USER} again")]):
            await graph.ainvoke({"messages": said}, config)
        async for _ in memory.upkeep().round(force=True):
            pass


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    formatter = logging.Formatter("%(levelname)s %(message)s")
    return [formatter.format(one) for one in caplog.records if one.name.startswith("langgraph_memory")]


@pytest.mark.parametrize("fails", [False, True], ids=["good", "failing"])
@pytest.mark.parametrize("kind", GRAPHS)
async def test_nothing_that_was_said_is_in_any_line_of_the_log(kind, fails, tmp_path, caplog):
    events: list[MemoryEvent] = []

    def listener(event: MemoryEvent) -> None:
        events.append(event)
        raise LookupError(f"{TOLD}: {event.to_json()}")

    caplog.set_level(logging.DEBUG, "langgraph_memory")
    await lived(tmp_path, kind, fails=fails, listener=listener)
    found = lines(caplog)
    names = {event.name for event in events}
    assert {"spilled", "compacted"} <= names
    assert {"memory_flushed", "memory_changed"} <= names or fails
    assert ("compaction_failed" in names) is fails
    for event in events:
        assert set(event.data) <= set(DATA.get(event.name, ()))
        assert any(line.startswith(f"INFO {event.name} thread={event.thread_id!r}") for line in found)
    assert any(line.startswith("INFO opened") for line in found)
    said = [line for line in found if MARKS in line]
    assert said == []
    digests = [str(event.data["ref"]).removeprefix("spill:") for event in events if event.name == "spilled"]
    assert digests
    assert not [line for line in found for digest in digests if digest in line]
    assert any("LookupError" in line for line in found)
    assert any("RuntimeError" in line for line in found) is fails


async def test_the_text_of_an_error_is_there_for_whoever_asks_for_it(tmp_path, caplog):
    caplog.set_level(logging.DEBUG, "langgraph_memory")
    caplog.set_level(logging.DEBUG, details.name)
    await lived(tmp_path, "node", fails=True, listener=None)
    assert {one.name for one in caplog.records if FAULT in one.getMessage()} == {details.name}


def test_a_root_logger_at_debug_has_not_asked_for_what_was_said():
    assert details.level == logging.INFO


def test_an_event_is_a_line_of_ids_and_figures(caplog):
    caplog.set_level(logging.INFO, "langgraph_memory")
    told = MemoryEvent("memory_flushed", "t-1", "turn", 12.3, data={"entries": 2, "messages": 4, "other": "x"})
    announce(told, None, in_run=False)
    assert caplog.messages == ["memory_flushed thread='t-1' ms=12 entries=2 messages=4 reason='turn'"]


def test_a_thread_id_cannot_forge_a_line(caplog):
    caplog.set_level(logging.INFO, "langgraph_memory")
    announce(MemoryEvent("capped", "t\nINFO root fine"), None, in_run=False)
    assert "\n" not in caplog.messages[0]


def test_no_line_is_made_where_nobody_reads_it(caplog, monkeypatch):
    monkeypatch.setattr("langgraph_memory.events._line", lambda event: pytest.fail("made"))
    caplog.set_level(logging.WARNING, "langgraph_memory")
    announce(MemoryEvent("capped", "t-1"), None, in_run=False)
    assert caplog.records == []


def test_importing_installs_no_handler():
    assert logging.getLogger("langgraph_memory").handlers == []


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError(USER), "ValueError"),
        (
            FileNotFoundError(2, "No such file or directory", f"/work/{USER}"),
            "FileNotFoundError (No such file or directory)",
        ),
        (type("RateLimit", (Exception,), {"status_code": 429})(USER), "RateLimit (429)"),
    ],
)
def test_an_error_is_told_by_its_kind(error, told):
    assert outline(error) == told


def test_a_failure_says_where_it_was_raised_and_not_what(caplog):
    def broken() -> None:
        raise RuntimeError(USER)

    try:
        broken()
    except RuntimeError as error:
        failed(logging.getLogger("langgraph_memory.test"), "It failed", error)
    assert caplog.messages[0].startswith("It failed: RuntimeError\n")
    assert "in broken" in caplog.text
    assert USER not in caplog.text


async def test_work_in_the_background_that_fails_is_logged_without_its_text(caplog):
    from langgraph_memory.background import Background

    async def work() -> None:
        raise RuntimeError(USER)

    background = Background()
    background.start("k", work)
    await background.drain(5)
    await asyncio.sleep(0)
    assert "Work in the background failed: RuntimeError" in caplog.text
    assert USER not in caplog.text
