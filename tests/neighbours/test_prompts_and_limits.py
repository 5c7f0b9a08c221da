"""Middleware that adds prompts and tools, limits calls or asks for structured answers."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents.middleware import (
    LLMToolSelectorMiddleware,
    ModelCallLimitMiddleware,
    TodoListMiddleware,
    ToolCallLimitMiddleware,
)
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from pydantic import BaseModel

from langgraph_memory.context.tokens import count_tools, load_counter
from tests.neighbours.agents import LONG, REQUEST, Provider, assert_single, assert_sound, beside, say
from tests.support.graphs import MODES, chat, grab, looping, summaries_in, text_of

pytestmark = pytest.mark.slow

ORDERS = ("outer", "inner")
PROMPT = "Plan before you act. " * 250
"""About a fifth of the window."""


def planning() -> TodoListMiddleware:
    return TodoListMiddleware(system_prompt=PROMPT)


def todos(count: int) -> AIMessage:
    items = [{"content": f"inspect pier {n}", "status": "pending"} for n in range(count)]
    return AIMessage("", tool_calls=[{"name": "write_todos", "args": {"todos": items}, "id": f"todo-{count}"}])


def planner(steps: int) -> Any:
    """Replies of a model that writes a list of things to do, works through it, and writes it again."""
    work = looping(steps)

    def reply(messages: list[BaseMessage]) -> AIMessage:
        written = sum(getattr(m, "name", "") == "write_todos" for m in messages)
        return todos(3) if not written and summaries_in(messages) == 0 else work(messages)

    return reply


# Prompts


@pytest.mark.parametrize("mode", MODES)
async def test_a_prompt_added_before_the_memory_is_counted_and_every_request_fits(mode):
    talk = beside(outer=[planning()], model=Provider(replies=looping(12)), tools=[grab(2000)], mode=mode)
    await say(talk, *LONG, REQUEST)
    assert len(talk.model.requests) == 13
    assert all(PROMPT.strip() in request.text for request in talk.model.requests)
    assert_sound(talk.model, REQUEST)
    assert (await talk.report()).parts["system"] > 1000


@pytest.mark.parametrize("mode", MODES)
async def test_a_prompt_added_behind_the_memory_is_not_counted_and_takes_the_room_of_the_answer(mode):
    talk = beside(inner=[planning()], model=Provider(replies=looping(12)), tools=[grab(2000)], mode=mode)
    await say(talk, *LONG, REQUEST)
    assert max(talk.model.sizes) > talk.model.room
    assert (await talk.report()).parts["system"] == 0


@pytest.mark.parametrize("mode", MODES)
async def test_a_prompt_added_behind_the_memory_can_be_reserved_for_in_the_configuration(mode):
    settings = {"budget.system_tokens": 1300}
    talk = beside(
        inner=[planning()], settings=settings, model=Provider(replies=looping(12)), tools=[grab(2000)], mode=mode
    )
    await say(talk, *LONG, REQUEST)
    assert_sound(talk.model, REQUEST)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", ORDERS)
async def test_a_list_of_things_to_do_stays_in_the_state_when_its_messages_are_summarised(order, mode):
    talk = beside(
        **{order: [TodoListMiddleware(system_prompt="Plan.")]},
        model=Provider(replies=planner(20)),
        tools=[grab(2500)],
        mode=mode,
    )
    await say(talk, REQUEST)
    state = await talk.state()
    assert [item["content"] for item in state["todos"]] == [f"inspect pier {n}" for n in range(3)]
    assert summaries_in(talk.model.last) == 1
    assert "Updated todo list" not in text_of(talk.model.last)
    assert_sound(talk.model, REQUEST)
    assert_single(state["messages"])


@pytest.mark.parametrize("mode", MODES)
async def test_two_lists_at_once_are_refused_and_both_calls_are_answered(mode):
    both = AIMessage("", tool_calls=[*todos(2).tool_calls, *todos(3).tool_calls])
    talk = beside(outer=[TodoListMiddleware(system_prompt="Plan.")], model=Provider(replies=[both, "done"]), mode=mode)
    await say(talk, *LONG, REQUEST)
    assert [m.status for m in await talk.history() if isinstance(m, ToolMessage)] == ["error", "error"]
    assert_sound(talk.model, REQUEST)


@pytest.mark.parametrize("mode", MODES)
async def test_a_prompt_added_behind_the_memory_is_learnt_from_what_the_provider_reports(mode):
    model = Provider(replies=looping(12))
    model.usage = lambda _: model.sizes[-1]
    talk = beside(inner=[planning()], model=model, tools=[grab(2000)], mode=mode)
    for turn in range(2):
        await say(talk, *(LONG if turn == 0 else ()), f"{turn}: {REQUEST}")
    assert_sound(model, REQUEST)


# Tools


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", ORDERS)
async def test_tools_that_are_selected_for_a_call_keep_recall_if_it_is_always_included(order, mode):
    tools = [grab(900), *(grab(10, name=f"grab_{n}") for n in range(6))]
    chosen = AIMessage("", tool_calls=[{"name": "ToolSelectionResponse", "args": {"tools": ["grab"]}, "id": "s"}])
    chooser = Provider(replies=chosen, window=50_000, model_name="chooser")
    selector = LLMToolSelectorMiddleware(model=chooser, max_tools=2, always_include=["recall"])
    talk = beside(**{order: [selector]}, model=Provider(replies=looping(3)), tools=tools, mode=mode)
    await say(talk, *LONG, REQUEST)
    assert {tuple(sorted(request.tools)) for request in talk.model.requests} == {("grab", "recall")}
    assert_sound(talk.model, REQUEST)
    sent = count_tools(load_counter("auto"), [*tools[:1], *talk.memory.tools])
    assert ((await talk.report()).parts["tools"] == sent) == (order == "outer")


# Limits


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", ORDERS)
async def test_summaries_are_not_counted_as_model_calls_and_the_thread_goes_on_behind_a_limit(order, mode):
    limit = ModelCallLimitMiddleware(run_limit=4)
    talk = beside(**{order: [limit]}, model=Provider(replies=looping(9)), tools=[grab(2000)], mode=mode)
    await say(talk, *LONG, REQUEST)
    assert len(talk.model.requests) == 4
    assert talk.side.requests
    assert "limits exceeded" in text_of((await talk.history())[-1:])
    await say(talk, "go on then")
    assert len(talk.model.requests) == 8
    assert_sound(talk.model)
    assert_single(await talk.history())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("behaviour", ["continue", "end"])
@pytest.mark.parametrize("order", ORDERS)
async def test_calls_beyond_a_limit_of_tool_calls_are_answered_and_stay_paired(order, behaviour, mode):
    limit = ToolCallLimitMiddleware(run_limit=3, exit_behavior=behaviour)  # type: ignore[arg-type]
    talk = beside(**{order: [limit]}, model=Provider(replies=looping(5)), tools=[grab(2000)], mode=mode)
    for turn in range(3):
        await say(talk, *(LONG if turn == 0 else ()), f"{turn}: {REQUEST}")
    assert_sound(talk.model, REQUEST)
    assert_single(await talk.history())
    assert talk.named("compacted")


# Structured answers


class Booking(BaseModel):
    """What was booked."""

    berth: int
    note: str = ""


def structured(steps: int, *, by_tool: bool) -> Any:
    """Replies of a model that works and then gives its answer as a `Booking`; its first try is not valid."""
    work, tries = looping(steps, done=""), [0]

    def reply(messages: list[BaseMessage]) -> AIMessage:
        message = work(messages) if tries[0] == 0 else AIMessage("")
        if message.tool_calls:
            return message
        tries[0] += 1
        if not by_tool:
            return AIMessage('{"berth": 9}')
        berth = "nine" if tries[0] == 1 else 9
        return AIMessage("", tool_calls=[{"name": "Booking", "args": {"berth": berth}, "id": f"b{tries[0]}"}])

    return reply


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("strategy", [ToolStrategy, ProviderStrategy])
async def test_a_structured_answer_comes_after_compaction_and_its_schema_is_counted(strategy, mode):
    model = Provider(replies=structured(8, by_tool=strategy is ToolStrategy))
    talk = beside(model=model, tools=[grab(2000)], mode=mode, response_format=strategy(Booking))
    await say(talk, *LONG, REQUEST)
    state = await talk.state()
    assert state["structured_response"] == Booking(berth=9)
    assert len(model.requests) == (10 if strategy is ToolStrategy else 9)
    assert talk.named("compacted")
    assert_sound(model, REQUEST)
    assert_single(state["messages"])
    model.replies = structured(2, by_tool=strategy is ToolStrategy)
    await say(talk, *chat(3, chars=1200, start=50), "and again")
    assert_sound(model)


@pytest.mark.parametrize("mode", MODES)
async def test_a_summary_is_never_asked_for_in_the_structure_of_the_answer(mode):
    model = Provider(replies=structured(1, by_tool=True))
    talk = beside(model=model, tools=[grab(2000)], mode=mode, response_format=ToolStrategy(Booking))
    await say(talk, *LONG, REQUEST)
    assert talk.side.requests
    for request in talk.side.requests:
        assert request.tools == []
        assert "response_format" not in request.options
