"""The window is divided as the configuration says, capped where the window does not allow it, and adds up."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_memory.config import BudgetConfig, CompactionConfig, PruningConfig
from langgraph_memory.context.budget import Cap, Overhead, TokenBudget, UsageTotals, usage_totals
from langgraph_memory.context.tokens import ESTIMATOR, Calibration
from tests.support.histories import THIRDS, ai, human, result


def budget(window: int, **options: Any) -> TokenBudget:
    return TokenBudget.of(window, counter=options.pop("counter", THIRDS), **options)


@pytest.mark.parametrize(
    ("window", "trigger"),
    [
        (500, 350),
        (4000, 2800),
        (8000, 5600),
        (20_000, 14_000),
        (54_614, 38_229),
        (60_000, 42_000),
        (128_000, 89_600),
        (200_000, 140_000),
    ],
)
def test_the_default_trigger_is_the_ratio_where_the_reserve_is_capped_at_a_quarter(window: int, trigger: int) -> None:
    assert budget(window).trigger == trigger


@pytest.mark.parametrize("window", [500, 1000, 8000, 65_536, 128_000, 200_000])
@pytest.mark.parametrize("ratio", [0.05, 0.5, 0.7, 0.95, 1.0])
@pytest.mark.parametrize("reserve", [0, 1000, 16_384, 10**6])
def test_the_trigger_follows_the_rule(window: int, ratio: float, reserve: int) -> None:
    config = CompactionConfig(trigger_ratio=ratio, reserve_tokens=reserve)
    wanted = max(window // 2, int(min(ratio * window, window - min(reserve, window // 4))))
    found = budget(window, compaction=config, budget=BudgetConfig(response_tokens=0))
    assert found.trigger == min(wanted, window)


def test_the_trigger_is_never_above_the_limit() -> None:
    found = budget(8000, compaction=CompactionConfig(trigger_ratio=1.0, reserve_tokens=0))
    assert found.trigger == found.limit == 7000


def test_reserve_tokens_lower_the_trigger() -> None:
    config = CompactionConfig(trigger_ratio=0.95, reserve_tokens=16_384)
    assert budget(128_000, compaction=config).trigger == 128_000 - 16_384
    assert budget(200_000, compaction=config).trigger == 200_000 - 16_384


@pytest.mark.parametrize(
    ("window", "keep", "reclaim", "response"),
    [
        (500, 125, 62, 62),
        (4000, 1000, 500, 500),
        (8000, 2000, 1000, 1000),
        (32_000, 8000, 4000, 2000),
        (200_000, 20_000, 4000, 2000),
    ],
)
def test_sizes_are_capped_by_the_window(window: int, keep: int, reclaim: int, response: int) -> None:
    found = budget(window)
    assert (found.keep, found.min_reclaim, found.response) == (keep, reclaim, response)


def test_each_cap_is_reported_with_its_key() -> None:
    assert budget(8000).caps == (
        Cap("memory.budget.response_tokens", 2000, 1000),
        Cap("memory.compaction.reserve_tokens", 16_384, 2000),
        Cap("memory.compaction.keep_recent_tokens", 20_000, 2000),
        Cap("memory.pruning.min_reclaim_tokens", 4000, 1000),
    )
    assert budget(200_000).caps == ()


@pytest.mark.parametrize("value", [0, 1, 999])
def test_a_size_that_the_window_allows_is_used_as_it_is(value: int) -> None:
    found = budget(
        8000,
        compaction=CompactionConfig(keep_recent_tokens=value, reserve_tokens=value),
        pruning=PruningConfig(min_reclaim_tokens=value),
        budget=BudgetConfig(response_tokens=value),
    )
    assert (found.keep, found.min_reclaim, found.response, found.caps) == (value, value, value, ())


@pytest.mark.parametrize(
    ("window", "system", "tools"), [(500, 31, 31), (8000, 500, 500), (12_800, 500, 800), (200_000, 500, 800)]
)
def test_unknown_overhead_is_guessed_and_capped_at_a_sixteenth(window: int, system: int, tools: int) -> None:
    found = budget(window)
    assert (found.system, found.tools) == (system, tools)


def test_measured_overhead_is_used_as_it_is() -> None:
    found = budget(8000, overhead=Overhead(3000, 0))
    assert (found.system, found.tools) == (3000, 0)


def test_configured_overhead_goes_before_what_is_measured() -> None:
    config = BudgetConfig(system_tokens=7, tools_tokens=0)
    found = budget(8000, overhead=Overhead(3000, 3000), budget=config)
    assert (found.system, found.tools) == (7, 0)


def test_the_parts_make_up_the_window() -> None:
    found = budget(8000)
    assert found.system + found.tools + found.response + found.available == 8000


def test_an_estimate_holds_a_tenth_back() -> None:
    assert budget(10_000).limit == 8750
    assert budget(10_000, counter=ESTIMATOR).limit == 9000 - 1250
    assert budget(10_000, counter=ESTIMATOR).exact is False


def test_a_calibration_turns_the_provider_s_tokens_into_ours() -> None:
    found = budget(10_000, calibration=Calibration(2.0, 1000.0))
    assert found.limit == (10_000 - 1250 - 1000) // 2
    assert found.trigger == (7000 - 1000) // 2
    assert found.keep == 1250
    assert found.min_reclaim == 625


def test_compaction_is_due_above_the_trigger() -> None:
    found = budget(8000, overhead=Overhead(100, 200))
    assert not found.needs_compaction(5300)
    assert found.needs_compaction(5301)


@given(
    window=st.integers(1, 2_000_000),
    exact=st.booleans(),
    factor=st.floats(0.5, 20),
    offset=st.floats(0, 50_000),
    ratio=st.floats(0.01, 1),
    sizes=st.lists(st.integers(0, 300_000), min_size=4, max_size=4),
)
def test_any_division_keeps_the_provider_within_its_window(
    window: int, exact: bool, factor: float, offset: float, ratio: float, sizes: list[int]
) -> None:
    calibration = Calibration(factor, offset)
    found = budget(
        window,
        counter=THIRDS if exact else ESTIMATOR,
        calibration=calibration,
        compaction=CompactionConfig(trigger_ratio=ratio, reserve_tokens=sizes[0], keep_recent_tokens=sizes[1]),
        pruning=PruningConfig(min_reclaim_tokens=sizes[2]),
        budget=BudgetConfig(response_tokens=sizes[3]),
    )
    assert found.response <= window // 8
    if found.limit > 0:
        assert factor * found.limit + offset + found.response <= window * (1 if exact else 0.9) + 1e-6
    assert found.trigger <= max(found.limit, 0) or offset > window // 2 or found.limit <= 0
    assert found.keep * factor <= window // 4 + 1e-6
    assert found.min_reclaim * factor <= window // 8 + 1e-6
    assert found.available == found.limit - found.system - found.tools


# Usage


def test_usage_is_added_up_over_the_calls_that_report_it() -> None:
    messages = [
        human(),
        ai("a", usage_metadata={"input_tokens": 100, "output_tokens": 5, "total_tokens": 105}),
        ai("b"),
        result("c"),
        ai(
            "d",
            usage_metadata={
                "input_tokens": 200,
                "output_tokens": 7,
                "total_tokens": 207,
                "input_token_details": {"cache_read": 150},
            },
        ),
    ]
    assert usage_totals(messages) == UsageTotals(calls=2, input=300, cached=150, output=12)


def test_no_usage_is_no_call() -> None:
    assert usage_totals([human(), ai("a"), result("c")]) == UsageTotals()


def test_missing_details_count_as_nothing_cached() -> None:
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, "input_token_details": {"cache_read": None}}
    assert usage_totals([ai("a").model_copy(update={"usage_metadata": usage})]).cached == 0
