"""Retries of model calls stand before the memory, retries of tool calls behind it."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents.middleware import ModelRetryMiddleware, ToolRetryMiddleware
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool

from tests.neighbours.agents import (
    LONG,
    REQUEST,
    Provider,
    StreamingProvider,
    assert_single,
    assert_sound,
    beside,
    say,
    streamed,
)
from tests.support.graphs import MODES, as_bytes, grab, looping, summaries_in, text_of

pytestmark = pytest.mark.slow

AT_ONCE: dict[str, Any] = {"initial_delay": 0, "backoff_factor": 0}


class BadRequest(Exception):
    """A refusal as it arrives from servers whose client library does not classify errors."""

    status_code = 400


TOO_LONG = BadRequest(
    "This model's maximum context length is 4000 tokens. However, your messages resulted in 9000 tokens."
)


def failing(*errors: Exception, reply: Any = "ok") -> Any:
    """Replies of a model whose first calls fail."""
    left = list(errors)
    return lambda messages: left.pop(0) if left else reply(messages) if callable(reply) else reply


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", ["outer", "inner"])
async def test_a_call_that_is_made_again_after_a_failure_sends_the_same_bytes_and_buys_no_second_summary(order, mode):
    model = Provider(replies=failing(RuntimeError("503"), RuntimeError("503")))
    talk = beside(**{order: [ModelRetryMiddleware(**AT_ONCE)]}, model=model, mode=mode)
    await say(talk, *LONG, REQUEST)
    assert len({tuple(as_bytes(request.messages)) for request in model.requests}) == 1
    assert len(model.requests) == 3
    assert_sound(model, REQUEST)
    prompts = [request.text for request in talk.side.requests]
    assert len(set(prompts)) == len(prompts)
    assert (len(talk.named("compacting")), len(talk.named("compacted"))) == (1, 1)
    history = await talk.history()
    assert_single(history)
    assert len(history) == len(LONG) + 2


@pytest.mark.parametrize("mode", MODES)
async def test_behind_a_retry_that_gives_up_the_thread_goes_on_and_pays_for_nothing_twice(mode):
    model = Provider(replies=failing(*[RuntimeError("503")] * 3))
    talk = beside(outer=[ModelRetryMiddleware(**AT_ONCE)], model=model, mode=mode)
    await say(talk, *LONG, REQUEST)
    assert "failed after 3 attempts" in text_of((await talk.history())[-1:])
    bought = len(talk.side.requests)
    await say(talk, "try again")
    assert_sound(model)
    assert summaries_in(model.last) == 1
    assert len(talk.side.requests) == bought
    assert_single(await talk.history())


@pytest.mark.parametrize("mode", MODES)
async def test_an_overflow_is_recovered_from_before_a_retry_outside_hears_of_it(mode):
    model = Provider(replies=failing(TOO_LONG))
    talk = beside(outer=[ModelRetryMiddleware(**AT_ONCE)], model=model, mode=mode)
    await say(talk, *LONG, REQUEST)
    assert len(model.requests) == 2
    assert model.sizes[1] < model.sizes[0] / 2
    assert_sound(model, REQUEST)
    assert len(talk.named("overflow_recovered")) == 1
    assert (await talk.history())[-1].content == "ok"


@pytest.mark.parametrize("mode", MODES)
async def test_a_retry_behind_the_memory_repeats_what_was_refused_and_hides_the_refusal(mode):
    model = Provider(replies=failing(*[TOO_LONG] * 3))
    talk = beside(inner=[ModelRetryMiddleware(**AT_ONCE)], model=model, mode=mode)
    await say(talk, *LONG, REQUEST)
    assert len(set(model.sizes)) == 1
    assert len(model.sizes) == 3
    assert talk.named("overflow_recovered") == []
    assert "failed after 3 attempts" in text_of((await talk.history())[-1:])


@pytest.mark.parametrize("mode", MODES)
async def test_a_stream_that_fails_and_is_retried_shows_no_summary(mode):
    model = StreamingProvider(replies=failing(RuntimeError("503"), reply="the berth is booked"))
    talk = beside(outer=[ModelRetryMiddleware(**AT_ONCE)], model=model, mode=mode)
    parts = await streamed(talk, LONG, stream_mode=["messages", "custom"])
    shown = [chunk.text for name, (chunk, *_) in ((n, p) for n, p in parts if n == "messages")]
    assert "".join(shown) == "the berth is booked"
    assert [part["event"] for name, part in parts if name == "custom"].count("compacted") == 1
    assert_sound(model)


# Tools


def flaky(failures: int, error: str, result: str = "") -> Any:
    left = [failures]

    @tool("grab")
    def fetch(n: int) -> str:
        """Fetch rows."""
        left[0] -= 1
        if left[0] >= 0:
            raise RuntimeError(error)
        return result

    return fetch


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", ["outer", "inner"])
async def test_a_tool_that_is_tried_again_has_one_result_and_a_large_one_is_spilled_once(order, mode, tmp_path):
    model = Provider(replies=looping(1))
    fetch = flaky(2, "the line is busy", "row " * 20_000)
    retry = ToolRetryMiddleware(max_retries=3, **AT_ONCE)
    talk = beside(**{order: [retry]}, model=model, tools=[fetch], mode=mode, workspace=tmp_path / "w")
    await say(talk, *LONG, REQUEST)
    results = [m for m in await talk.history() if isinstance(m, ToolMessage)]
    assert len(results) == 1
    assert results[0].text.count("[spilled: 80000 bytes") == 1
    assert len(list((tmp_path / "w" / "spill").rglob("*.txt"))) == 1
    assert_sound(model, REQUEST)
    assert_single(await talk.history())


@pytest.mark.parametrize("mode", MODES)
async def test_a_long_error_of_a_tool_retry_behind_the_memory_is_spilled_too(mode, tmp_path):
    model = Provider(replies=looping(1))
    retry = ToolRetryMiddleware(max_retries=1, **AT_ONCE)
    tools = [flaky(9, "trace " * 15_000)]
    talk = beside(inner=[retry], model=model, tools=tools, mode=mode, workspace=tmp_path / "w")
    await say(talk, *LONG, REQUEST)
    (failed,) = [m for m in await talk.history() if isinstance(m, ToolMessage)]
    assert failed.status == "error"
    assert "[spilled:" in failed.text
    assert_sound(model, REQUEST)


@pytest.mark.parametrize("mode", MODES)
async def test_a_long_error_of_a_tool_retry_before_the_memory_stays_in_the_thread_and_is_cut_in_the_view_only(
    mode, tmp_path
):
    model = Provider(replies=looping(1))
    retry = ToolRetryMiddleware(max_retries=1, **AT_ONCE)
    tools = [flaky(9, "trace " * 15_000)]
    talk = beside(outer=[retry], model=model, tools=tools, mode=mode, workspace=tmp_path / "w")
    await say(talk, *LONG, REQUEST)
    (failed,) = [m for m in await talk.history() if isinstance(m, ToolMessage)]
    assert len(failed.text) > 80_000
    assert_sound(model, REQUEST)


@pytest.mark.parametrize("mode", MODES)
async def test_many_rounds_with_both_retries_stay_sound(mode):
    model = Provider(replies=failing(RuntimeError("503"), reply=looping(20)))
    talk = beside(
        outer=[ModelRetryMiddleware(**AT_ONCE)],
        inner=[ToolRetryMiddleware(**AT_ONCE)],
        model=model,
        tools=[grab(3000)],
        mode=mode,
    )
    await say(talk, REQUEST)
    assert len(model.requests) == 22
    assert_sound(model, REQUEST)
    assert_single(await talk.history())
