"""Nobody waits for what is done beside a run, and nobody sees it: the order of events, and what streams show."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.live.programs import BOTH, showing
from tests.live.remembering import FLUSH, MERGE, Rememberer, asked, noted, purpose, serving
from tests.support.server import ModelServer, Reply, Request

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

MARK = "zebra-of-the-side-model"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "north.log"
    path.write_text("all quiet\n" * 20, encoding="utf-8")
    return path


class Held:
    """A side model that answers nothing before two turns have ended; says what happened in which order."""

    def __init__(self) -> None:
        self.released, self.order = threading.Event(), list[str]()

    def __call__(self, request: Request) -> Reply:
        self.order.append(purpose(request))
        assert self.released.wait(60)
        return Reply(noted(request))

    def ended(self) -> None:
        self.order.append("turn")
        if self.order.count("turn") == 2:
            self.released.set()


@pytest.mark.parametrize(("kind", "mode"), [("node", "async"), ("agent", "async"), ("agent", "sync"), ("node", "sync")])
def test_steps_and_ends_of_turns_come_before_the_answer_to_a_flush_that_is_under_way(tmp_path, log, kind, mode):
    held = Held()
    with ModelServer(serving("Noted.", *(showing(log, f"c-{n}") for n in range(5)), "done", side=held)) as server:
        program = Rememberer(server.url, str(tmp_path), kind, mode)
        output = program.run("I like jazz.", "Look at the log five times.", each=held.ended)[-1]
        # The second turn ended while the flush of the first was being answered.
        assert sorted(held.order[:3]) == [FLUSH, "turn", "turn"]
        assert [message.type for message in output["messages"]][2:] == ["human", *["ai", "tool"] * 5, "ai"]
        assert "I like jazz." in "".join(program.ledger().values())
        assert "I like jazz." in program.notes.read_text(encoding="utf-8")
        assert [event.data["messages"] for event in program.named("memory_flushed")] == [2, 12]


class Streaming(Rememberer):
    """Says several things in one process and keeps all that is streamed."""

    def streams(self, given: list[str], modes: list[str]) -> list[Any]:
        def sync(graph: Any) -> list[Any]:
            return [one for said in given for one in graph.stream(_said(said), self.thread, stream_mode=modes)]

        async def act(graph: Any) -> list[Any]:
            found = []
            for said in given:
                found += [one async for one in graph.astream(_said(said), self.thread, stream_mode=modes)]
                await self._settled()
            return found

        return self._live(sync) if self.mode == "sync" else asyncio.run(self._alive(act))

    def events_of(self, given: list[str]) -> list[Any]:
        async def act(graph: Any) -> list[Any]:
            found = []
            for said in given:
                found += [event async for event in graph.astream_events(_said(said), self.thread, version="v2")]
                await self._settled()
            return found

        return asyncio.run(self._alive(act))

    async def _settled(self) -> None:
        """Until what is beside the run has been asked for, so that it may show in the next stream."""
        await asyncio.sleep(0.2)


def _said(text: str) -> dict[str, Any]:
    return {"messages": [("user", text)]}


def marked(request: Request) -> Reply:
    """An answer of the side model in many tokens."""
    if purpose(request) == FLUSH:
        return Reply(f"- The {MARK} likes jazz and chess and long walks.", pause=0.02)
    return Reply(f"<memory_file>\n- The {MARK} likes jazz and chess and long walks.\n</memory_file>", pause=0.02)


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize(("kind", "mode"), BOTH)
def test_no_stream_shows_what_the_side_model_says(tmp_path, log, kind, mode, inline):
    memory = {"retrieval": {"inject_curated": False}}
    script = serving("Noted.", showing(log), "done", "and done", side=marked)
    with ModelServer(script) as server:
        program = Streaming(server.url, str(tmp_path), kind, mode, streaming=True, memory=memory, inline=inline)
        seen = program.streams(["I like jazz.", "Look.", "And?"], ["messages", "custom", "updates", "values"])
        assert {mode for mode, _ in seen} >= {"messages", "updates", "values"}
        assert all(request.stream for request in server.requests)
        assert asked(server, FLUSH) and asked(server, MERGE)
        assert MARK not in str(seen) and "NO_REPLY" not in str(seen)
        assert [event.reason for event in program.named("memory_flushed")][:1] == ["turn"]
        assert "consolidated" in {event.reason for event in program.named("memory_changed")}
        flushed = program.named("memory_flushed")[0]
        assert flushed.thread_id == "t" and flushed.duration_ms > 0 and flushed.data["entries"] == 1


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("kind", ["node", "agent"])
def test_the_events_of_a_run_show_nothing_of_it(tmp_path, kind, inline):
    memory = {"retrieval": {"inject_curated": False}}
    with ModelServer(serving("Noted.", side=marked)) as server:
        program = Streaming(server.url, str(tmp_path), kind, streaming=True, memory=memory, inline=inline)
        events = program.events_of(["I like jazz.", "And chess."])
        assert asked(server, FLUSH) and asked(server, MERGE)
        shown = [event for event in events if MARK in str(event) or event["name"].startswith("memory_f")]
        assert not shown, shown[0]
