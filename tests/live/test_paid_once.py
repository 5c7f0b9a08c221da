"""A summary is paid for once: whatever happens to the call it was bought for, and whoever else wants it."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.live.child import ended, started
from tests.live.programs import KINDS, SMALL, SUMMARY, TALK, Program, answering, calls, said, summaries
from tests.support.server import FAILED, ModelServer, Reply, Request, Reset
from tests.support.validity import faults

pytestmark = pytest.mark.slow

both_kinds = pytest.mark.parametrize("kind", KINDS)


def failing_runs(program: Program, runs: int, given: Any = None) -> None:
    """Abort so many runs in the model call."""
    for number in range(runs):
        with pytest.raises(Exception, match=r"500|[Cc]onnection"):
            program.run(TALK if number == 0 else given)


@both_kinds
@pytest.mark.parametrize(("fault", "mode"), [(FAILED, "sync"), (Reset(), "async")], ids=["500", "reset"])
def test_a_call_that_fails_three_times_after_a_compaction_pays_for_one_summary(tmp_path, fault, mode, kind):
    with ModelServer(answering(fault, fault, fault, "booked", "done")) as server:
        program = Program(server.url, str(tmp_path), kind, mode, memory=SMALL)
        failing_runs(program, 3)
        assert len(summaries(server)) == 1
        assert said(program.look().messages) == said(TALK)
        assert program.run(None)[0]["messages"][-1].content == "booked"
        assert program.run("thanks")[0]["messages"][-1].content == "done"
        assert len(calls(server)) == 5
        assert len(summaries(server)) == 1
        first, *others = [request.messages for request in calls(server)[:4]]
        assert others == [first] * 3
        assert "SUMMARY-TEXT" in str(first)


@both_kinds
def test_a_program_that_sends_the_same_turn_again_pays_for_one_summary(tmp_path, kind):
    """As clients do that do not know whether the first try was kept."""
    with ModelServer(answering(FAILED, FAILED, FAILED, "booked")) as server:
        program = Program(server.url, str(tmp_path), kind, memory=SMALL)
        failing_runs(program, 3, TALK)
        program.run(TALK)
        assert len(summaries(server)) == 1
        assert said(program.look().messages) == [*said(TALK), ("ai", "booked")]


@both_kinds
def test_a_user_who_asks_more_after_a_failure_pays_for_one_summary(tmp_path, kind):
    """A longer request moves the place to cut, but what is paid for covers enough."""
    with ModelServer(answering(FAILED, FAILED, FAILED, "booked")) as server:
        program = Program(server.url, str(tmp_path), kind, memory=SMALL)
        failing_runs(program, 3, "are you there? " * 80)
        program.run("hello?")
        assert len(summaries(server)) == 1
        assert "SUMMARY-TEXT" in str(calls(server)[-1].messages)


@both_kinds
def test_two_processes_on_one_thread_pay_for_one_summary(tmp_path, kind):
    def late(_: Request) -> str:
        """When both processes have found that they need a summary."""
        until(lambda: (tmp_path / "saw-compacting").exists() and program.named("compacting") != [])
        return SUMMARY

    with ModelServer(answering("ready", "booked", summary=late)) as server:
        Program(server.url, str(tmp_path), kind).run(TALK)
        wants: dict[str, Any] = {"url": server.url, "kind": kind, "memory": SMALL}
        program = Program(folder=str(tmp_path), mode="async", **wants)
        with started(tmp_path, mode="sync", meets=str(tmp_path / "go"), given=["now"], **wants) as other:
            until(lambda: list(tmp_path.glob("go-*")) != [])
            (tmp_path / "go").touch()
            [output] = program.run("at once")
            outcome = ended(other)
        assert outcome.code == 0, outcome.errors
        assert [output["messages"][-1].text, outcome.printed["said"][0][-1][1]] == ["booked", "booked"]
        assert len(summaries(server)) == 1
        assert all("SUMMARY-TEXT" in str(request.messages) for request in calls(server)[1:])
        assert faults(program.look().view) == []


def test_a_process_killed_in_its_model_call_leaves_the_summary_to_the_next_one(tmp_path):
    def kill(_: Request) -> Reply:
        process.kill()
        process.wait(30)
        return Reply("nobody hears this")

    with ModelServer(answering("ready", kill, "booked")) as server:
        wants: dict[str, Any] = {"url": server.url, "kind": "agent"}
        Program(folder=str(tmp_path), **wants).run(TALK)
        with started(tmp_path, memory=SMALL, given=["now"], **wants) as process:
            outcome = ended(process)
        assert outcome.code == -signal.SIGKILL, outcome.errors
        assert (len(calls(server)), len(summaries(server))) == (2, 1)
        restarted(server, tmp_path, "agent")
        assert calls(server)[1].messages == calls(server)[2].messages


def test_a_process_killed_before_its_model_call_leaves_the_summary_to_the_next_one(tmp_path):
    with ModelServer(answering("ready", "booked")) as server:
        wants: dict[str, Any] = {"url": server.url, "kind": "node", "mode": "sync"}
        Program(folder=str(tmp_path), **wants).run(TALK)
        with started(tmp_path, memory=SMALL, given=["now"], dies_on="compacted", **wants) as process:
            outcome = ended(process)
        assert outcome.code == -signal.SIGKILL, outcome.errors
        assert (len(calls(server)), len(summaries(server))) == (1, 1)
        restarted(server, tmp_path, "node")


def restarted(server: ModelServer, folder: Path, kind: str) -> None:
    """The next program takes the turn up, and finds all there is."""
    program = Program(server.url, str(folder), kind, memory=SMALL)
    [output] = program.run(None)
    assert said(output["messages"]) == [*said(TALK), ("ai", "ready"), ("human", "now"), ("ai", "booked")]
    assert len(summaries(server)) == 1
    assert "SUMMARY-TEXT" in str(calls(server)[-1].messages)
    assert faults(program.look().view) == []
    assert program.named("compaction_failed") == []


def until(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not found() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert found()
