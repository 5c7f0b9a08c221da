"""The points of a sweep: settings that load, the same ruler for all, and the choice between them."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from benchmarks import sweep
from benchmarks.advice import CAREFUL, CHEAP, HUGE, advised, blocks
from benchmarks.peers import our_config
from benchmarks.recordings import Recording
from benchmarks.sweep import DEFAULT, Found, Point, Result, around_results, cheapest, fullest, gated, grid, judged
from benchmarks.texts import encoding
from langgraph_memory import RuntimeConfig


@pytest.fixture(scope="module", autouse=True)
def _ranks() -> None:
    encoding()


@pytest.fixture
def played() -> Recording:
    messages: list[BaseMessage] = [HumanMessage("Count the words of all files.", id="request")]
    for step in range(30):
        call = {"name": "count", "args": {"file": step}, "id": f"call-{step}"}
        text = " ".join(f"{step}-{word} words" for word in range(40))
        messages += [
            AIMessage("", tool_calls=[call], id=f"ai-{step}"),
            ToolMessage(text, tool_call_id=f"call-{step}", id=f"tool-{step}"),
        ]
    return Recording("tau_airline", [[*messages, AIMessage("Done.", id="end")]])


def found(cost: int, recent: float, point: Point = DEFAULT, **counts: int) -> Found:
    return Found(point, cost, recent, **{"breaks": 0, "lost": 0, "over": 0, "summaries": 1, **counts})


@pytest.mark.parametrize("point", dict.fromkeys([*grid(), *around_results()]), ids=str)
def test_every_point_is_a_configuration_that_is_used_as_it_is(point: Point) -> None:
    config = our_config(32_000, point.settings(32_000)).memory
    assert config.compaction.keep_recent_tokens == round(point.keep * 32_000) <= 32_000 // 4
    assert config.pruning.min_reclaim_tokens <= 32_000 // 8
    # The trigger is not lowered by what is reserved.
    assert min(config.compaction.reserve_tokens, 32_000 // 4) <= (1 - point.ratio) * 32_000 + 1


def test_the_defaults_are_measured_first_and_once() -> None:
    for points in (grid(), around_results()):
        assert points[0] == DEFAULT
        assert len(set(points)) == len(points)


def test_keeping_less_costs_less_and_keeps_less(played: Recording) -> None:
    little, much = (judged(Point(keep=keep), [played]) for keep in (1 / 16, 1 / 4))
    assert little.recent < much.recent
    assert (little.lost, little.over) == (0, 0) and little.cost != much.cost


def test_points_that_lose_something_are_not_chosen() -> None:
    good, bad = found(200, 0.5), found(100, 0.9, lost=1)
    assert cheapest([bad, good]) == fullest([bad, good]) == good
    assert cheapest([bad]) == bad


def test_the_gate_is_varied_where_it_matters() -> None:
    cheap, full = found(100, 0.5, Point(keep=1 / 16)), found(300, 0.9, Point(ratio=0.85))
    points = gated([found(200, 0.7), cheap, full])
    assert {(point.keep, point.ratio) for point in points} == {(1 / 4, 0.7), (1 / 16, 0.7), (1 / 4, 0.85)}
    assert all(point.reclaim != DEFAULT.reclaim for point in points)


def test_a_sweep_ends_in_time_and_says_what_it_left_out(played: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "_part", lambda data, name: played if name == "openhands" else None)
    monkeypatch.setattr(sweep, "very_long", lambda data: None)
    *points, result = sweep.sweep(seconds=0)
    assert points == [] and isinstance(result, Result)
    assert result.left == len(grid()) and result.windows == {"tau_airline": 4_000}


def test_what_to_set_is_what_was_found_and_loads() -> None:
    talks = [found(200, 0.7), found(100, 0.5, Point(keep=1 / 16)), found(300, 0.9, Point(ratio=0.85))]
    huge = [found(50, 0.4), found(40, 0.3, Point(protect=1, clear=4_000))]
    given: Any = Result({"x": 1}, talks, huge, 0).to_json()
    made = blocks(given)
    assert made[CHEAP]["memory"]["compaction"]["keep_recent_tokens"] == 8_000
    assert made[CAREFUL]["memory"]["compaction"] == {
        "trigger_ratio": 0.85,
        "keep_recent_tokens": 32_000,
        "reserve_tokens": 19_200,
    }
    assert made[HUGE]["memory"]["pruning"]["protect_recent"] == 1 and "compaction" not in made[HUGE]["memory"]
    assert all(RuntimeConfig.model_validate(block) for block in made.values())
    text = "\n".join(advised(given))
    assert "0.50 of the defaults' cost, 0.50 word for word (defaults 0.70)" in text


def test_without_points_there_is_no_advice() -> None:
    assert list(advised(Result({}, [], [], 3).to_json())) == []


def test_very_long_results_are_a_valid_turn(tmp_path: Path) -> None:
    (tmp_path / "tool_outputs_raw.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n', encoding="utf-8")
    made = sweep.very_long(tmp_path)
    assert made is not None
    (messages,) = made.conversations
    assert [m.content for m in messages if m.type == "tool" and m.content in ("one", "two")] == ["one", "two"]
    assert sweep.very_long(tmp_path / "nothing") is None
