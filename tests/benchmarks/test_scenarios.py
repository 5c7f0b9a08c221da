"""Each situation is passed by ours, small enough to be quick, and what others do in it is told as it is."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks import scenarios
from benchmarks.__main__ import app
from benchmarks.scenarios import SCENARIOS, outcome
from benchmarks.scenarios.agents import AGENTS
from benchmarks.scenarios.outcome import OURS, Outcome, Scenario, judged, lines, run, short

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

SMALL = {
    "context.TURNS": 30,
    "context.CALLS": 130,
    "threads.TURNS": 10,
    "threads.BUSY": 0.3,
}
"""Enough for ours to have something to do."""


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SMALL.items():
        monkeypatch.setattr(f"benchmarks.scenarios.{name}", value)


TESTED_ELSEWHERE = ("17", "29")
"""By `tests/threads/test_conformance.py` and `test_beside.py`, with the same code."""
QUICK = [each for each in SCENARIOS if each.row not in TESTED_ELSEWHERE]


@pytest.mark.parametrize("each", QUICK, ids=lambda each: f"row {each.row}")
def test_ours_passes(each: Scenario) -> None:
    (result,) = run([each.row], [OURS])
    found = result.outcomes[OURS]
    assert found.mark == "pass", found.figure


def test_every_row_has_a_number_of_its_own_and_ours_in_it() -> None:
    assert len({each.row for each in SCENARIOS}) == len(SCENARIOS) > 30
    assert [each.row for each in SCENARIOS if OURS not in each.among] == []
    assert {each.group for each in SCENARIOS} == {"context", "threads", "long-term"}


@pytest.mark.parametrize(("row", "contender", "mark"), [("1", "LangChain", "pass"), ("14", "LangChain", "fail")])
def test_a_peer_passes_or_fails_by_what_it_does(row: str, contender: str, mark: str) -> None:
    (result,) = run([row], [contender])
    assert result.outcomes[contender].mark == mark
    assert result.outcomes[contender].figure


@pytest.mark.parametrize("contender", ["deepagents", "langmem"])
def test_a_peer_that_is_not_installed_is_not_run(contender: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: Any) -> Any:
        raise ImportError(contender)

    monkeypatch.setitem(AGENTS, contender, missing)
    (result,) = run(["3"], [contender])
    assert result.outcomes[contender] == Outcome("not run", "not installed")


def test_systems_that_do_not_install_are_told_as_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.scenarios.outcome.outcome", lambda each, name: judged(True))
    found = {result.row: result.outcomes for result in run()}
    assert found["1"]["Mycel"].mark == "not run"
    assert found["26"]["PaiCLI"].mark == "not run"
    assert found["1"][OURS].mark == "pass"


# The machinery


def made(function: Any) -> Scenario:
    return Scenario("0", "context", "made", ("somebody",), function)


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(outcome, "SECONDS", 0.05)
    yield


async def hang(_: str, __: Path) -> Outcome:
    await asyncio.sleep(60)
    return judged(True)


@pytest.mark.usefixtures("_impatient")
def test_who_hangs_fails() -> None:
    assert outcome.outcome(made(hang), "somebody") == Outcome("fail", "hangs")


def test_an_error_is_the_result_of_who_raises_it_and_tells_no_path() -> None:
    async def fail(_: str, folder: Path) -> Outcome:
        raise RuntimeError(f"cannot open {folder}/threads.db\nand more")

    found = outcome.outcome(made(fail), "somebody")
    assert found == Outcome("fail", "RuntimeError: cannot open …")


def test_an_error_without_words_is_its_name() -> None:
    assert short(KeyError()) == "KeyError"


def test_what_is_printed_has_every_contender() -> None:
    result = scenarios.Result("7", "context", "A title", {"one": Outcome("pass", "2 of 2"), "other": Outcome("–")})
    assert [line.split() for line in lines([result])] == [
        ["7", "A", "title"],
        ["one", "pass", "2", "of", "2"],
        ["other", "–"],
    ]
    assert result.to_json()["outcomes"]["one"] == {"mark": "pass", "figure": "2 of 2"}


def test_the_command_runs_one_row_and_refuses_an_unknown_one(tmp_path: Path) -> None:
    told = CliRunner().invoke(
        app, ["scenarios", "--row", "18", "--contender", OURS, "--json", str(tmp_path / "f.json")]
    )
    assert told.exit_code == 0 and "pass" in told.output
    assert '"18"' in (tmp_path / "f.json").read_text(encoding="utf-8")
    assert CliRunner().invoke(app, ["scenarios", "--row", "99"]).exit_code == 2
