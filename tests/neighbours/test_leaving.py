"""Messages that leave the list once a summary covers them, beside other middleware."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents.middleware import (
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
    ModelRetryMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
)
from langchain_core.messages import BaseMessage, ToolMessage

from tests.neighbours.agents import LONG, REQUEST, Provider, assert_single, assert_sound, beside, say
from tests.neighbours.test_approval import APPROVE, EDIT, REJECT, answer, book
from tests.neighbours.test_model_switch import LARGE, Choosing
from tests.support.graphs import MODES, grab, looping
from tests.support.models import numbered_summaries

pytestmark = pytest.mark.slow

NEIGHBOURS: dict[str, dict[str, Any]] = {
    "none": {},
    "redaction": {"outer": [PIIMiddleware("email", apply_to_output=True, apply_to_tool_results=True)]},
    "prompt and limit": {"outer": [TodoListMiddleware(system_prompt="Plan."), ModelCallLimitMiddleware(run_limit=90)]},
    "clearing behind": {"inner": [ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=2000, keep=3)])]},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("neighbour", NEIGHBOURS)
async def test_a_thread_stays_short_and_every_request_is_sound(neighbour, mode):
    model = Provider(replies=looping(3, done="mail for ada@example.org"))
    talk = beside(**NEIGHBOURS[neighbour], leaves=True, model=model, tools=[grab(1500)], mode=mode)
    for turn in range(6):
        await say(talk, *(LONG if turn == 0 else ()), f"{turn}: {REQUEST}")
    history = await talk.history()
    assert len(history) < 30
    assert_single(history)
    assert_sound(model, REQUEST)
    assert talk.named("record_ignored") == []


@pytest.mark.parametrize("mode", MODES)
async def test_a_model_that_fails_and_is_asked_again_gets_the_same_messages(mode):
    work, asked = looping(3), [0]

    def flaky(messages: list[BaseMessage]) -> Any:
        asked[0] += 1
        return RuntimeError("503") if asked[0] % 4 == 0 else work(messages)

    retry = ModelRetryMiddleware(initial_delay=0)
    model = Provider(replies=flaky)
    talk = beside(outer=[retry], leaves=True, model=model, tools=[grab(1500)], mode=mode)
    for turn in range(6):
        await say(talk, *(LONG if turn == 0 else ()), f"{turn}: {REQUEST}")
    assert_sound(model, REQUEST)
    assert_single(await talk.history())
    assert talk.named("record_ignored") == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("asks", ["batched", "per_call"])
async def test_calls_that_wait_for_approval_stay_and_are_answered(asks, mode):
    gate: Any = HumanInTheLoopMiddleware({"book": True}, interrupt_mode=asks)  # type: ignore[arg-type]
    model = Provider(replies=looping(3, name="book"))
    talk = beside(outer=[gate], leaves=True, model=model, tools=[book], mode=mode)
    for turn in range(4):
        await say(talk, *(LONG if turn == 0 else ()), f"{turn}: {REQUEST}")
        for decision in (APPROVE, REJECT, EDIT):
            await answer(talk, decision)
    history = await talk.history()
    assert "berth 44 booked" in [m for m in history if isinstance(m, ToolMessage)][-1].text
    assert_sound(model, REQUEST)
    assert_single(history)
    assert len(history) < 30


@pytest.mark.parametrize("mode", MODES)
async def test_a_large_model_goes_on_with_what_a_small_one_has_left(mode):
    choosing = Choosing()
    large = Provider(window=LARGE, model_name="large", replies=looping(3))
    small = Provider(model_name="small", replies=large.replies)
    talk = beside(outer=[choosing], leaves=True, model=large, tools=[grab(1500)], mode=mode)
    for turn in range(6):
        choosing.choice = small if turn % 2 else None
        await say(talk, *(LONG if turn == 0 else ()), f"{turn}: {REQUEST}")
    assert_sound(large, REQUEST)
    assert_sound(small, REQUEST)
    assert_single(await talk.history())


@pytest.mark.parametrize("mode", MODES)
async def test_beside_a_second_summariser_the_requests_stay_sound(mode):
    second = SummarizationMiddleware(numbered_summaries(), trigger=("tokens", 4500), keep=("messages", 6))
    model = Provider(replies=looping(3))
    talk = beside(outer=[second], leaves=True, model=model, tools=[grab(1500)], mode=mode)
    for turn in range(6):
        await say(talk, *(LONG if turn == 0 else ()), f"{turn}: {REQUEST}")
    assert_sound(model)
    assert_single(await talk.history())
