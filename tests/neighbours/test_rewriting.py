"""Middleware that changes messages: in the state before the model is called, or only in the request."""

from __future__ import annotations

import re
from typing import Any

import pytest
from langchain.agents.middleware import (
    AgentMiddleware,
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
)
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
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
from tests.support.graphs import MODES, Talk, calls, grab, looping, summaries_in, text_of
from tests.support.models import numbered_summaries
from tests.support.validity import faults

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

ORDERS = ("outer", "inner")
SECRET = "ada@example.org"


@tool("grab")
def leaky(n: int) -> str:
    """Fetch rows."""
    return f"r-{n:04d} {SECRET} " + "row " * 700


def redacting() -> PIIMiddleware:
    return PIIMiddleware("email", apply_to_output=True, apply_to_tool_results=True)


# Its hooks rewrite the state around the model node, so its place in the list makes no difference.


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", ORDERS)
async def test_redacted_text_reaches_neither_the_model_nor_the_summariser_nor_a_summary(order, mode):
    model = Provider(replies=looping(3, done=f"sent to {SECRET}"))
    talk = beside(**{order: [redacting()]}, model=model, tools=[leaky], mode=mode)
    for turn in range(4):
        await say(talk, *(LONG if turn == 0 else ()), f"{turn}: {REQUEST}, write to {SECRET}")
    assert talk.named("compacted")
    for request in [*model.requests, *talk.side.requests]:
        assert SECRET not in request.text
    assert SECRET not in str(await talk.state())
    assert_sound(model, f"{REQUEST}, write to [REDACTED_EMAIL]")
    assert_single(await talk.history())
    assert talk.named("record_ignored") == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", ORDERS)
async def test_a_stream_of_redacted_text_is_whole_and_without_summaries(order, mode):
    model = StreamingProvider(replies=f"sent to {SECRET} just now")
    talk = beside(**{order: [redacting()]}, model=model, mode=mode)
    parts = await streamed(talk, LONG, stream_mode=["messages", "values", "custom"])
    assert [part["event"] for name, part in parts if name == "custom"].count("compacted") == 1
    shown = [chunk.text for name, (chunk, *_) in ((n, p) for n, p in parts if n == "messages")]
    assert "".join(shown) == f"sent to {SECRET} just now"
    states = [part["messages"] for name, part in parts if name == "values"]
    assert states[-1][-1].content == "sent to [REDACTED_EMAIL] just now"
    assert "SUMMARY-" not in text_of([message for messages in states for message in messages])
    assert_sound(model)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", ORDERS)
async def test_a_spilled_result_keeps_the_original_in_its_file_and_is_redacted_again_when_it_is_recalled(
    order, mode, tmp_path
):
    @tool("grab")
    def large(n: int) -> str:
        """Fetch rows."""
        return f"{SECRET} " + "row " * 20_000

    def reply(messages: list[BaseMessage]) -> AIMessage:
        spilled = re.search(r"spill:\w+", text_of(messages))
        if spilled is None:
            return calls("c1")
        if "recall" in text_of(messages[-2:-1]):
            return AIMessage("done")
        return AIMessage("", tool_calls=[{"name": "recall", "args": {"ref": spilled[0]}, "id": "c2"}])

    model = Provider(replies=reply)
    talk = beside(**{order: [redacting()]}, model=model, tools=[large], mode=mode, workspace=tmp_path)
    await say(talk, *LONG, REQUEST)
    assert [m.content for m in (await talk.history())[-1:]] == ["done"]
    (file,) = (tmp_path / "spill").rglob("*.txt")
    assert SECRET in file.read_text()
    for request in model.requests:
        assert SECRET not in request.text
    assert "[REDACTED_EMAIL]" in text_of(model.last[-1:])
    assert_sound(model, REQUEST)


@pytest.mark.parametrize("mode", MODES)
async def test_text_that_is_blocked_stops_the_run_and_the_thread_goes_on_once_it_is_gone(mode):
    model = Provider()
    talk = beside(outer=[PIIMiddleware("email", strategy="block")], model=model, mode=mode)
    await say(talk, *LONG, REQUEST)
    with pytest.raises(Exception, match="email"):
        await say(talk, f"write to {SECRET}")
    await say(talk, "never mind")
    assert len(model.requests) == 2
    assert_sound(model)
    assert_single(await talk.history())


# Tool results that another middleware clears in the request


def clearing(keep: int) -> ContextEditingMiddleware:
    return ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=3000, keep=keep)])


async def cleared(order: str | None, keep: int, mode: str) -> tuple[Any, Provider]:
    model = Provider(replies=looping(20))
    talk = beside(**({order: [clearing(keep)]} if order else {}), model=model, tools=[grab(2500)], mode=mode)
    for turn in range(4):
        await say(talk, f"{turn}: {REQUEST}")
    assert_sound(model, REQUEST)
    assert_single(await talk.history())
    return talk, model


@pytest.mark.parametrize("mode", MODES)
async def test_clearing_behind_the_memory_buys_no_summary_more_than_the_memory_alone(mode):
    alone, _ = await cleared(None, 3, mode)
    both, model = await cleared("inner", 3, mode)
    assert len(both.side.requests) <= len(alone.side.requests)
    assert both.named("record_ignored") == []
    assert any("[cleared]" in request.text for request in model.requests)


@pytest.mark.parametrize("mode", MODES)
async def test_clearing_before_the_memory_changes_what_was_summarised_so_each_summary_is_lost_and_bought_again(mode):
    alone, _ = await cleared(None, 3, mode)
    both, _ = await cleared("outer", 3, mode)
    assert len(both.side.requests) > len(alone.side.requests)
    assert len(both.named("record_ignored")) > len(both.named("compacted")) / 2


# Messages that stand only in one request


class Adding(AgentMiddleware[Any, Any, Any]):
    """Adds a message to each request that is different every time, in front of the others or behind them."""

    def __init__(self, *, front: bool) -> None:
        super().__init__()
        self.front, self.hour = front, 0

    def _with_time(self, request: Any) -> Any:
        self.hour += 1
        time = [HumanMessage(f"it is {self.hour} o'clock")]
        messages = [*time, *request.messages] if self.front else [*request.messages, *time]
        return request.override(messages=messages)

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(self._with_time(request))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(self._with_time(request))


async def with_time(order: str | None, front: bool, mode: str) -> Talk:
    added = {order: [Adding(front=front)]} if order else {}
    talk = beside(**added, model=Provider(replies=looping(20)), tools=[grab(2500)], mode=mode)  # type: ignore[arg-type]
    await say(talk, *LONG, REQUEST)
    assert_sound(talk.model, REQUEST)
    assert "o'clock" not in text_of(await talk.history())
    return talk


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("front", [False, True])
async def test_what_is_added_to_a_request_behind_the_memory_changes_no_decision(front, mode):
    alone, both = await with_time(None, front, mode), await with_time("inner", front, mode)
    assert len(both.side.requests) == len(alone.side.requests)
    assert all("o'clock" in request.text for request in both.model.requests)
    assert all("o'clock" not in request.text for request in both.side.requests)


@pytest.mark.parametrize("mode", MODES)
async def test_what_is_added_behind_all_messages_before_the_memory_leaves_the_request_pinned(mode):
    talk = await with_time("outer", False, mode)
    assert talk.named("record_ignored") == []
    assert all("o'clock" in text_of(request.messages[-1:]) for request in talk.model.requests)


@pytest.mark.parametrize("mode", MODES)
async def test_what_is_added_in_front_before_the_memory_is_summarised_away_and_makes_each_summary_worthless(mode):
    alone, both = await with_time(None, True, mode), await with_time("outer", True, mode)
    assert not all("o'clock" in request.text for request in both.model.requests)
    assert len(both.side.requests) > 3 * len(alone.side.requests)
    assert len(both.named("record_ignored")) > 10


# A second summariser


async def doubled(order: str, trigger: int, mode: str) -> tuple[Any, Provider, Any]:
    """Seven turns of an agent with LangChain's summariser beside the memory."""
    model, other = Provider(replies=looping(3)), numbered_summaries()
    second = SummarizationMiddleware(other, trigger=("tokens", trigger), keep=("messages", 6))
    talk = beside(**{order: [second]}, model=model, tools=[grab(1500)], mode=mode)
    for turn in range(7):
        await say(talk, *(LONG if turn == 0 else ()), f"{turn}: {REQUEST}")
    return talk, model, other


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("trigger", [2500, 4500, 9000])
@pytest.mark.parametrize("order", ORDERS)
async def test_a_second_summariser_is_survived_in_any_order(order, trigger, mode):
    talk, model, other = await doubled(order, trigger, mode)
    assert_sound(model)
    assert all(summaries_in(request.messages) <= 1 for request in model.requests)
    assert_single(await talk.history())
    assert other.requests
    assert all("have changed" in event.reason for event in talk.named("record_ignored"))
    # Who asks last is served: whatever the other one has left stays valid, and the thread can be looked at.
    assert faults(await talk.view()) == []


@pytest.mark.parametrize("mode", MODES)
async def test_a_second_summariser_takes_messages_out_of_the_thread_and_the_request_with_them(mode):
    talk, model, _ = await doubled("outer", 2500, mode)
    history = await talk.history()
    assert len(history) < len(LONG)
    assert history[0].additional_kwargs == {"lc_source": "summarization"}
    assert "6: book berth" not in text_of(history)
    assert "6: book berth" not in text_of(model.last)


@pytest.mark.parametrize("mode", MODES)
async def test_with_triggers_close_together_both_summarisers_are_paid_for_the_same_messages(mode):
    talk, _, other = await doubled("outer", 4500, mode)
    assert talk.side.requests
    assert other.requests
    assert talk.named("record_ignored")
