"""Models that change from call to call: whoever changes them stands before the memory."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware, ModelFallbackMiddleware
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool

from langgraph_memory import ContextBudgetError
from tests.neighbours.agents import (
    LONG,
    REQUEST,
    WINDOW,
    Provider,
    StreamingProvider,
    assert_single,
    assert_sound,
    beside,
    say,
    streamed,
)
from tests.support.graphs import MODES, Talk, chat, looping, summaries_in, text_of
from tests.support.models import GOOD, Streaming
from tests.support.validity import faults

pytestmark = pytest.mark.slow

LARGE = 60_000


class Down:
    """Replies of a model that can be taken down."""

    def __init__(self, reply: str = "from the large one") -> None:
        self.down, self.reply = False, reply

    def __call__(self, _: Any) -> Any:
        return RuntimeError("503 the engine is overloaded") if self.down else self.reply


def fallback(order: str, mode: str = "async") -> tuple[Talk, Provider, Provider, Down]:
    """An agent whose large model falls back to a small one, by a middleware before (outer) or behind the memory."""
    down = Down()
    large = Provider(window=LARGE, model_name="large", replies=down)
    small = Provider(window=WINDOW, model_name="small", replies="from the small one")
    return beside(**{order: [ModelFallbackMiddleware(small)]}, model=large, mode=mode), large, small, down


@pytest.mark.parametrize("mode", MODES)
async def test_a_fallback_before_the_memory_is_sent_a_view_for_its_own_window_and_the_large_model_gets_its_own_back(
    mode,
):
    talk, large, small, down = fallback("outer", mode)
    await say(talk, *LONG, "hello")
    down.down = True
    await say(talk, REQUEST)
    assert_sound(small, REQUEST)
    assert summaries_in(small.last) == 1
    assert summaries_in(large.last) == 0
    assert (await talk.report()).window == WINDOW
    down.down = False
    bought = len(talk.side.requests)
    for turn in range(4):
        await say(talk, *chat(6, chars=1200, start=100 + 10 * turn), f"and back {turn}")
    assert_sound(large)
    assert (await talk.report()).window == LARGE
    assert large.sizes[-1] > 2 * WINDOW
    assert (len(small.requests), len(talk.side.requests)) == (1, bought)
    assert summaries_in(large.last) == 1
    history = await talk.history()
    assert_single(history)
    assert [m.content for m in history if "from the" in str(m.content)] == [
        "from the large one",
        "from the small one",
        *["from the large one"] * 4,
    ]


@pytest.mark.parametrize("mode", MODES)
async def test_only_the_decision_for_the_model_that_answered_is_kept_and_announced(mode):
    talk, _, _, down = fallback("outer", mode)
    down.down = True
    await say(talk, *LONG, REQUEST)
    assert [event.name for event in talk.events if event.name.startswith("comp")] == ["compacting", "compacted"]
    assert (await talk.state())["memory_record"]["ns"][""]["sizes"]["model"] == "small"
    assert talk.events[-1].after.window == WINDOW


@pytest.mark.parametrize("mode", MODES)
async def test_a_request_that_no_choice_fits_into_the_small_window_goes_to_a_larger_fallback(mode):
    large = Provider(window=LARGE, model_name="large")
    small = Provider(window=600, model_name="small")
    talk = beside(
        outer=[ModelFallbackMiddleware(large)], model=small, mode=mode, settings={"budget.system_tokens": 500}
    )
    await say(talk, REQUEST + " word" * 900)
    assert small.requests == []
    assert_sound(large, REQUEST + " word" * 900)


async def test_without_a_fallback_the_same_request_ends_with_the_error_that_names_the_parts():
    talk = beside(model=Provider(window=600), settings={"budget.system_tokens": 500})
    with pytest.raises(ContextBudgetError, match="system"):
        await say(talk, REQUEST + " word" * 900)


@pytest.mark.parametrize("mode", MODES)
async def test_a_fallback_behind_the_memory_costs_refused_requests(mode):
    talk, large, small, down = fallback("inner", mode)
    down.down = True
    await say(talk, *LONG, REQUEST)
    # Decided for the large window: the small model refuses it, and all is tried once more with a smaller view.
    assert (len(large.requests), len(small.requests), small.refused) == (2, 2, 1)
    assert [event.name for event in talk.events].count("overflow_recovered") == 1
    assert faults(small.last) == []
    assert REQUEST in text_of(small.last)
    assert_single(await talk.history())


@pytest.mark.parametrize("mode", MODES)
async def test_a_stream_through_a_fallback_shows_its_answer_once_and_no_summary(mode):
    large = Provider(window=LARGE, replies=RuntimeError("503"))
    small = StreamingProvider(replies="the small one answers", model_name="small")
    talk = beside(outer=[ModelFallbackMiddleware(small)], model=large, side=Streaming(replies=GOOD), mode=mode)
    parts = await streamed(talk, [*LONG, HumanMessage(REQUEST)], stream_mode="messages")
    assert "".join(chunk.text for chunk, _ in parts if chunk.type.startswith("AI")) == "the small one answers"
    assert talk.side.requests
    assert_sound(small, REQUEST)


# A model chosen by the user's own middleware


class Choosing(AgentMiddleware[Any, Any, Any]):
    """Replaces the model of a request by whatever `choice` is at the time."""

    def __init__(self, choice: Any = None) -> None:
        super().__init__()
        self.choice = choice

    def _chosen(self, request: Any) -> Any:
        return request.override(model=self.choice) if self.choice is not None else request

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(self._chosen(request))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(self._chosen(request))


def chosen(order: str, mode: str) -> tuple[Talk, Provider, Provider, Choosing]:
    large, small = Provider(window=LARGE, model_name="large"), Provider(model_name="small")
    choosing = Choosing()
    return beside(**{order: [choosing]}, model=large, mode=mode), large, small, choosing


@pytest.mark.parametrize("mode", MODES)
async def test_a_choice_before_the_memory_gets_a_view_for_its_window_and_back(mode):
    talk, large, small, choosing = chosen("outer", mode)
    for turn in range(6):
        choosing.choice = small if turn % 2 else None
        await say(talk, *chat(8, chars=1200, start=10 * turn), f"{REQUEST} {turn}")
        assert (await talk.report()).window == (WINDOW if turn % 2 else LARGE)
        assert f"{REQUEST} {turn}" in text_of((small if turn % 2 else large).last)
    assert (len(large.requests), len(small.requests)) == (3, 3)
    assert_sound(large, REQUEST)
    assert_sound(small, REQUEST)
    assert len(talk.named("compacted")) <= 3
    assert_single(await talk.history())


@pytest.mark.parametrize("mode", MODES)
async def test_a_choice_behind_the_memory_is_recovered_from_by_a_refused_request(mode):
    talk, large, small, choosing = chosen("inner", mode)
    choosing.choice = small
    await say(talk, *LONG, REQUEST)
    assert (large.requests, len(small.requests), small.refused) == ([], 2, 1)
    assert faults(small.last) == []
    assert REQUEST in text_of(small.last)
    assert len(talk.named("overflow_recovered")) == 1


@pytest.mark.parametrize("mode", MODES)
async def test_a_model_that_changes_between_the_steps_of_one_turn_keeps_pairs_and_request(mode):
    large = Provider(window=LARGE, model_name="large", replies=looping(8))
    small = Provider(model_name="small", replies=large.replies)
    choosing = Choosing()

    @tool
    def swap(n: int) -> str:
        """Fetch rows, and let the other model go on."""
        choosing.choice = small if choosing.choice is None else None
        return f"r-{n:04d} " + "row " * 900

    swap.name = "grab"
    talk = beside(outer=[choosing], model=large, tools=[swap], mode=mode)
    await say(talk, *LONG, REQUEST)
    assert (len(large.requests), len(small.requests)) == (5, 4)
    assert_sound(large, REQUEST)
    assert_sound(small, REQUEST)
    assert_single(await talk.history())


@pytest.mark.parametrize("mode", MODES)
async def test_a_choice_with_tools_of_its_own_is_counted_with_them(mode):
    class WithTools(Choosing):
        def _chosen(self, request: Any) -> Any:
            return request.override(model=self.choice, tools=[*request.tools, *map(described, range(6))])

    small = Provider(model_name="small")
    talk = beside(outer=[WithTools(small)], model=Provider(window=LARGE), mode=mode)
    await say(talk, *LONG, REQUEST)
    assert len(small.requests[0].tools) == 7
    assert_sound(small, REQUEST)


def described(number: int) -> dict[str, Any]:
    """A tool of the provider's format, with a description of some length."""
    parameters = {"type": "object", "properties": {"n": {"type": "integer", "description": "rows " * 60}}}
    function = {"name": f"fetch_{number}", "description": "Fetch rows. " * 30, "parameters": parameters}
    return {"type": "function", "function": function}
