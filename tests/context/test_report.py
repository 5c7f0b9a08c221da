"""One report for all who ask where the window goes; its parts sum to its total."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage

from langgraph_memory.context.budget import Overhead, TokenBudget
from langgraph_memory.context.history import History
from langgraph_memory.context.record import Scope, Summary, Watermark
from langgraph_memory.context.render import render
from langgraph_memory.context.report import PARTS, ContextReport, report
from langgraph_memory.context.tokens import ESTIMATOR, Calibration
from tests.support.histories import THIRDS, ai, human, named, result, system


def thread() -> list[BaseMessage]:
    return named(
        [
            system("x" * 300),
            human("y" * 600),
            ai("", "a"),
            result("a", "z" * 20_000),
            ai("", "b"),
            result("b", "w" * 5000),
            ai("v" * 900),
        ]
    )


def reported(scope: Scope | None = None, before: Scope | None = None, **options: Any) -> ContextReport:
    budget = TokenBudget.of(20_000, counter=THIRDS, overhead=Overhead(100, 200), **options)
    return report(History.of(thread(), THIRDS), scope or Scope(), budget, before)


def compacted_scope() -> Scope:
    history = History.of(thread(), THIRDS)
    return Scope(summary=Summary("Pier B.", (), 4, history.digests[3].hex(), "m0", "m3", ("m1",)))


def test_each_part_is_counted_under_its_name() -> None:
    found = reported()
    tokens = History.of(thread(), THIRDS).tokens
    assert found.parts == {
        **dict.fromkeys(PARTS, 0),
        "system": 100 + tokens[0],
        "tools": 200,
        "human": tokens[1],
        "ai": tokens[2] + tokens[4] + tokens[6],
        "tool": tokens[3] + tokens[5],
    }
    assert found.total == 300 + sum(tokens)
    assert (found.window, found.reserve) == (20_000, 2000)
    assert found.free == 20_000 - 2000 - found.total
    assert found.trigger == 14_000
    assert (found.messages, found.view_messages, found.compacted) == (7, 7, 0)
    assert (found.exact, found.counter) == (True, "thirds")


def test_pruned_messages_are_numbered() -> None:
    found = reported(Scope(watermark=Watermark("m5", 3000, 10_000)))
    assert (found.trimmed, found.cleared) == (1, 1)
    assert found.total < reported().total


def test_a_summary_is_a_part_of_its_own() -> None:
    found = reported(compacted_scope())
    assert (found.compacted, found.messages, found.view_messages) == (4, 7, 5)
    assert found.parts["summary"] > 200
    assert found.parts["human"] == 0


def test_without_a_decision_the_whole_view_is_stable() -> None:
    scope = compacted_scope()
    for before in (None, scope, replace(scope)):
        found = reported(scope, before)
        assert found.stable_prefix == 5
        assert found.stable_prefix_tokens == found.total - 300


def test_a_decision_breaks_the_prefix_where_it_changes_the_first_message() -> None:
    found = reported(Scope(watermark=Watermark("m5", 3000, 10_000)), Scope())
    assert found.stable_prefix == 3
    assert found.stable_prefix_tokens == sum(History.of(thread(), THIRDS).tokens[:3])
    assert reported(compacted_scope(), Scope()).stable_prefix == 1


def test_what_the_provider_adds_is_a_part_of_its_own() -> None:
    found = reported(calibration=Calibration(1.5, 700.0))
    raw = reported()
    assert found.total == Calibration(1.5, 700.0).apply(raw.total)
    assert found.parts["provider"] == pytest.approx(700, abs=1)
    assert found.parts["ai"] == pytest.approx(1.5 * raw.parts["ai"], abs=1)
    assert found.trigger == pytest.approx(14_000, abs=2)


def test_an_overfull_window_has_nothing_free() -> None:
    history = History.of([human("x" * 90_000)], THIRDS)
    found = report(history, Scope(), TokenBudget.of(8000, counter=THIRDS))
    assert found.free == 0
    assert found.usage_ratio > 1


def test_an_estimate_says_so() -> None:
    history = History.of(thread(), ESTIMATOR)
    found = report(history, Scope(), TokenBudget.of(20_000, counter=ESTIMATOR))
    assert (found.exact, found.counter) == (False, "estimate")


def test_a_report_is_json() -> None:
    data = json.loads(json.dumps(reported(compacted_scope()).to_json()))
    assert sum(data["parts"].values()) == data["total"]
    assert data["usage_ratio"] == round(data["total"] / 20_000, 4)
    assert {"window", "exact", "stable_prefix", "counter", "free", "reserve"} <= data.keys()


def test_an_empty_history_has_a_report() -> None:
    found = report(History.of([], THIRDS), Scope(), TokenBudget.of(8000, counter=THIRDS))
    assert found.total == sum(found.parts.values()) == 500 + 500
    assert (found.messages, found.view_messages, found.stable_prefix) == (0, 0, 0)


_messages = st.lists(
    st.one_of(
        st.integers(0, 4000).map(lambda size: human("x" * size)),
        st.integers(0, 4000).map(lambda size: ai("y" * size + ".", "c")),
        st.integers(0, 4000).map(lambda size: result("c", "z" * size)),
        st.just(system()),
    ),
    max_size=12,
).map(named)


@settings(deadline=None)
@given(
    messages=_messages,
    window=st.integers(1, 100_000),
    calibration=st.builds(Calibration, st.floats(0.5, 12), st.floats(0, 40_000)),
    overhead=st.builds(Overhead, st.none() | st.integers(0, 5000), st.none() | st.integers(0, 5000)),
    pruned=st.booleans(),
)
def test_parts_sum_to_the_total_and_none_is_negative(
    messages: list[BaseMessage], window: int, calibration: Calibration, overhead: Overhead, pruned: bool
) -> None:
    history = History.of(messages, THIRDS)
    scope = Scope(watermark=Watermark(history.keys[-1], 100, 1000)) if pruned and messages else Scope()
    budget = TokenBudget.of(window, counter=THIRDS, overhead=overhead, calibration=calibration)
    found = report(history, scope, budget, Scope())
    view = render(history, scope)
    assert sum(found.parts.values()) == found.total == calibration.apply(view.tokens + budget.system + budget.tools)
    assert min(found.parts.values()) >= 0
    assert set(found.parts) == set(PARTS)
    assert 0 <= found.stable_prefix <= found.view_messages == len(view.messages)
    assert found.free == max(0, window - found.reserve - found.total)
