"""What a provider counts less than we do loosens no budget before it is known to be a finer count."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import StructuredTool

from langgraph_memory.context.budget import TokenBudget
from langgraph_memory.context.tokens import Calibration, calibrate, count_tools, load_counter
from tests.support.graphs import GRAPHS, MODES, calls, size, talk
from tests.support.models import Scripted

SIZES = st.lists(st.integers(1, 60_000), min_size=1, max_size=12)


@given(raw=st.integers(1, 300_000), share=st.floats(0.5, 1.0), grown=st.integers(0, 300_000))
def test_a_single_pair_below_our_count_leaves_the_prior_s_factor(raw: int, share: float, grown: int) -> None:
    found = calibrate([(raw, int(raw * share) + 1)])
    assert found.factor == 1.0
    assert found.apply(raw + grown) >= raw * share + grown


@given(surplus=st.integers(0, 40_000), steps=SIZES, start=st.integers(1, 60_000), grown=st.integers(0, 200_000))
def test_after_a_constant_surplus_growth_is_never_counted_too_low(
    surplus: int, steps: list[int], start: int, grown: int
) -> None:
    said = [start + sum(steps[:end]) for end in range(len(steps) + 1)]
    found = calibrate([(said_so_far + surplus, said_so_far) for said_so_far in said])
    assert found.apply(said[-1] + surplus + grown) >= said[-1] + grown


@pytest.mark.parametrize("window", [16_000, 32_000, 200_000])
@pytest.mark.parametrize("share", [0.95, 0.7, 0.6, 0.5, 0.3])
def test_tools_counted_too_high_leave_the_window_closed(share: float, window: int) -> None:
    tools = window // 6
    pairs = [(300 + 30 * turn + tools, int(300 + 30 * turn + share * tools)) for turn in range(5)]
    found = TokenBudget.of(window, counter=load_counter("cl100k_base"), calibration=calibrate(pairs))
    assert found.limit - tools + share * tools <= window - found.response


def test_short_messages_that_cost_a_little_less_teach_nothing_of_a_long_one() -> None:
    said = [(20 + 12 * turn, 14 + 7 * turn) for turn in range(12)]
    assert calibrate(said).factor >= 0.97


@pytest.mark.parametrize("factor", [0.6, 0.8, 0.95])
def test_a_finer_count_over_many_tokens_lowers_the_factor(factor: float) -> None:
    found = calibrate([(raw, round(factor * raw)) for raw in range(4_000, 60_000, 4_000)])
    assert found.factor == pytest.approx(factor, abs=0.04)
    assert found.apply(90_000) == pytest.approx(factor * 90_000, rel=0.06)


def test_a_factor_learnt_below_one_is_kept_and_raised_again_by_one_large_request() -> None:
    prior = Calibration(0.7, 0.0)
    assert calibrate([(5_000, 3_500)], prior).factor == pytest.approx(0.7)
    grown = calibrate([(5_000, 3_500), (45_000, 43_500)], prior)
    assert grown.factor > 0.95
    assert grown.apply(45_000) >= 43_500


def test_each_pair_more_of_a_finer_count_brings_the_prediction_nearer() -> None:
    pairs = [(raw, round(0.7 * raw)) for raw in range(2_000, 40_000, 2_000)]
    factors = [calibrate(pairs[:end]).factor for end in range(1, len(pairs))]
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(factors))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", GRAPHS)
async def test_a_large_result_after_small_turns_fits_where_tools_cost_less_than_their_schemas(kind, mode) -> None:
    def read(n: int = 0) -> str:
        return "row 1 2 3; " * 12_000 if n == 1 else "ok"

    about = "Tool of the harbour. " + "It reads a table and says what it found there. " * 22
    tools = [StructuredTool.from_function(read, name=f"read_{n}", description=about) for n in range(20)]
    cheap = int(0.6 * count_tools(load_counter("auto"), tools))

    def reply(messages):
        asked = isinstance(messages[-1], HumanMessage) and "big" in str(messages[-1].content)
        return calls("big", name="read_1") if asked else AIMessage("noted")

    model = Scripted(replies=reply, usage=lambda request: size(request.messages) + cheap)
    talked = talk({"context_window": 32_000}, kind=kind, mode=mode, tools=tools, model=model)
    for turn in range(4):
        await talked.send(f"question {turn}")
    await talked.send("now the big one")
    assert len(model.requests) == 6
    assert max(size(request.messages) + cheap for request in model.requests) <= 30_000
