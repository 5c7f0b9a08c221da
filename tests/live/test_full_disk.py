"""A workspace that cannot be written: what it is for costs more or stays where it is, and the agent works on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.live.child import can_mount, ended, started
from tests.live.programs import BOTH, SMALL, TALK, Program, answering, calls, is_for_summary, refusals, said, showing
from tests.support.server import FAILED, ModelServer
from tests.support.validity import faults

pytestmark = pytest.mark.slow

PLACES = {
    "full disk": "mount -t tmpfs -o size=256k none work; cat /dev/zero > work/filler 2> /dev/null || true",
    "read-only folder": "mount --bind work work; mount -o remount,ro,bind work",
}
"""What is done to the workspace before a program starts."""
LOG = "".join(f"entry {number:05d}: the pier is quiet\n" for number in range(6000))
GIVEN = ["what does the log say?", None, "thanks"]
"""Said to an agent whose model fails in the first turn."""
LOST, LONG = "Summaries are kept in this process only", "A large tool result stays in the conversation"
"""What is warned of."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ModelServer]:
    """It has talked with the agent while the workspace was all right."""
    (tmp_path / "pier.log").write_text(LOG, encoding="utf-8")
    with ModelServer(answering("ready", FAILED, showing(tmp_path / "pier.log"), "all quiet", "done")) as server:
        yield server


@pytest.mark.parametrize(
    ("place", "kind", "mode"), [("full disk", "agent", "async"), ("read-only folder", "node", "sync")]
)
def test_on_a_disk_that_cannot_be_written_the_agent_works_on_with_what_it_has(tmp_path, server, place, kind, mode):
    if not can_mount():
        pytest.skip("no file system can be mounted here")
    wants: dict[str, Any] = {"url": server.url, "kind": kind, "mode": mode}
    Program(folder=str(tmp_path), **wants).run(TALK)
    with started(tmp_path, inside=PLACES[place], memory=SMALL, given=GIVEN, patient=True, **wants) as process:
        outcome = ended(process)
    assert outcome.code == 0, outcome.errors
    failed, *answered = outcome.printed["said"]
    assert failed is None
    assert [messages[-1] for messages in answered] == [["ai", "all quiet"], ["ai", "done"]]
    assert naming(LOST, outcome.printed["warnings"]) == 1
    assert naming(LONG, outcome.printed["warnings"]) >= 1
    assert not [name for name in outcome.printed["files"] if name.endswith((".tmp", ".txt"))]
    worked_on(server, Program(folder=str(tmp_path), **wants))


@pytest.mark.parametrize(("kind", "mode"), BOTH)
def test_with_a_file_in_place_of_the_workspace_the_agent_works_on_with_what_it_has(
    tmp_path, server, caplog, mode, kind
):
    program = Program(server.url, str(tmp_path), kind, mode)
    program.run(TALK)
    (tmp_path / "work").rename(tmp_path / "moved")
    (tmp_path / "work").write_text("in the way", encoding="utf-8")
    program.memory, program.patient = SMALL, True
    failed, *answered = program.run(*GIVEN)
    assert failed is None
    assert [output["messages"][-1].text for output in answered] == ["all quiet", "done"]
    assert naming(LOST, caplog.messages) == 1
    assert naming(LONG, caplog.messages) >= 1
    assert (tmp_path / "work").read_text(encoding="utf-8") == "in the way"
    worked_on(server, program)


def worked_on(server: ModelServer, program: Program) -> None:
    """The summary was bought before the call that failed and not again, and nothing of the thread is missing."""
    assert [is_for_summary(request) for request in server.requests][:4] == [False, True, False, False]
    assert all("SUMMARY-TEXT" in str(request.messages) for request in calls(server)[1:])
    assert all(refusals(request) == [] for request in calls(server))
    program.memory = SMALL
    look = program.look()
    assert said(look.messages)[: len(TALK)] == said(TALK)
    assert [message.content for message in look.messages if message.type == "tool"] == [LOG]
    assert faults(look.view) == []
    assert look.report.total < look.report.window


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        ("node", "sync"),
        ("agent", "async"),
    ],
)
def test_a_result_that_cannot_be_kept_in_a_file_is_warned_of_once(tmp_path, caplog, mode, kind):
    (tmp_path / "pier.log").write_text(LOG, encoding="utf-8")
    (tmp_path / "work").write_text("in the way", encoding="utf-8")
    with ModelServer(answering(showing(tmp_path / "pier.log"), "all quiet", "done")) as server:
        Program(server.url, str(tmp_path), kind, mode).run("what does the log say?", "thanks", "bye")
    assert len(calls(server)) == 4
    assert naming(LONG, caplog.messages) == 1


def naming(text: str, warnings: Sequence[str]) -> int:
    return sum(text in warning for warning in warnings)
