"""People who approve, edit or reject tool calls while the memory compacts."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from langgraph_memory.errors import ThreadBusyError
from tests.neighbours.agents import LONG, REQUEST, Provider, assert_single, assert_sound, beside, say
from tests.support.graphs import MODES, Talk, as_bytes, calls, looping, summaries_in, text_of
from tests.support.validity import faults

pytestmark = pytest.mark.slow

ORDERS = ("outer", "inner")
APPROVE = {"type": "approve"}
REJECT = {"type": "reject", "message": "not that pier"}
EDIT = {"type": "edit", "edited_action": {"name": "book", "args": {"n": 44}}}
DECISIONS: dict[str, Any] = {"approve": APPROVE, "edit": EDIT, "reject": REJECT}
EXPECTED = {"approve": "berth 1 booked", "edit": "berth 44 booked", "reject": "not that pier"}


@tool
def book(n: int) -> str:
    """Book a berth."""
    return f"berth {n} booked " + "tide " * 500


def gated(order: str, *, mode: str, asks: str = "batched", **options: Any) -> Talk:
    gate: Any = HumanInTheLoopMiddleware({"book": True}, interrupt_mode=asks)  # type: ignore[arg-type]
    options = {"model": Provider(replies=looping(3, name="book")), "tools": [book], **options}
    return beside(**{order: [gate]}, mode=mode, **options)


async def answer(talk: Talk, *decisions: Any) -> None:
    """Answer the pending questions of a thread, whichever way they were asked."""
    questions = (await talk.graph.aget_state(talk.config)).interrupts
    if "action_requests" in questions[0].value:
        await say(talk, Command(resume={"decisions": list(decisions)}))
    else:
        await say(talk, Command(resume={q.id: d for q, d in zip(questions, decisions, strict=True)}))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("asks", ["batched", "per_call"])
@pytest.mark.parametrize("decision", DECISIONS)
@pytest.mark.parametrize("order", ORDERS)
async def test_a_decision_about_a_call_is_carried_out_once_and_shown_to_the_model(order, decision, asks, mode):
    talk = gated(order, asks=asks, mode=mode)
    await say(talk, *LONG, REQUEST)
    assert summaries_in(talk.model.last) == 1
    await answer(talk, DECISIONS[decision])
    results = [m for m in await talk.history() if isinstance(m, ToolMessage)]
    assert [EXPECTED[decision] in m.text for m in results] == [True]
    assert EXPECTED[decision] in text_of(talk.model.last)
    for _ in range(2):
        await answer(talk, APPROVE)
    history = await talk.history()
    assert history[-1].content == "done"
    assert len([m for m in history if isinstance(m, ToolMessage)]) == 3
    assert_sound(talk.model, REQUEST)
    assert_single(history)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("asks", ["batched", "per_call"])
@pytest.mark.parametrize("order", ORDERS)
async def test_each_of_several_calls_of_one_message_gets_its_own_answer(order, asks, mode):
    replies = [calls("c1", "c2", "c3", name="book"), "done"]
    talk = gated(order, asks=asks, mode=mode, model=Provider(replies=replies))
    await say(talk, *LONG, REQUEST)
    await answer(talk, APPROVE, REJECT, EDIT)
    results = {m.tool_call_id: m.text for m in await talk.history() if isinstance(m, ToolMessage)}
    expected = {"c1": "berth 1 booked", "c2": "not that pier", "c3": "berth 44 booked"}
    assert {call: expected[call] in text for call, text in results.items()} == dict.fromkeys(expected, True)
    assert_sound(talk.model, REQUEST)
    assert len(talk.model.requests) == 2
    assert_single(await talk.history())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", ORDERS)
async def test_a_summary_made_while_calls_wait_for_approval_leaves_question_and_request_in_the_view(order, mode):
    talk = gated(order, mode=mode, model=Provider(replies=looping(12, name="book")))
    await say(talk, *LONG, REQUEST)
    for _ in range(12):
        with pytest.raises(ThreadBusyError):
            await talk.memory.compact(talk.graph, talk.config)
        view = await talk.view()
        assert faults(view) == []
        assert REQUEST in text_of(view)
        await answer(talk, APPROVE)
    assert len(talk.named("compacted")) >= 2
    assert_sound(talk.model, REQUEST)
    assert_single(await talk.history())


@pytest.mark.parametrize("mode", MODES)
async def test_an_answer_given_in_another_process_sees_the_same_view_and_buys_nothing(mode):
    saver = InMemorySaver()
    talk = gated("outer", mode=mode, checkpointer=saver)
    await say(talk, *LONG, REQUEST)
    later = gated("outer", mode=mode, checkpointer=saver, model=Provider(replies="thank you"))
    await answer(later, APPROVE)
    first, second = talk.model.last, later.model.last
    assert as_bytes(second)[: len(first)] == as_bytes(first)
    assert later.side.requests == []
    assert_sound(later.model, REQUEST)


@pytest.mark.parametrize("mode", MODES)
async def test_who_writes_instead_of_answering_gets_a_valid_request(mode):
    talk = gated("outer", mode=mode)
    await say(talk, *LONG, REQUEST)
    await say(talk, "forget it, what is the tide?")
    history = await talk.history()
    assert sum(isinstance(m, AIMessage) and bool(m.tool_calls) for m in history) == 2
    assert_sound(talk.model, "what is the tide?", among=talk.model.requests[1:])
    assert_single(history)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("asks", ["batched", "per_call"])
@pytest.mark.parametrize("order", ORDERS)
async def test_a_large_result_of_an_edited_call_is_spilled_once_and_the_note_about_the_edit_is_seen(
    order, asks, mode, tmp_path
):
    @tool("book")
    def verbose(n: int) -> str:
        """Book a berth."""
        return f"berth {n} booked " + "tide " * 20_000

    model = Provider(replies=looping(1, name="book"))
    talk = gated(order, asks=asks, mode=mode, model=model, tools=[verbose], workspace=tmp_path)
    await say(talk, *LONG, REQUEST)
    await answer(talk, EDIT)
    (file,) = (tmp_path / "spill").rglob("*.txt")
    assert "berth 44 booked" in file.read_text()
    assert ("Note:" in file.read_text()) == (order == "inner")
    (result,) = [m for m in await talk.history() if isinstance(m, ToolMessage)]
    assert result.text.count("[spilled:") == 1
    assert_sound(model, REQUEST)
    seen = text_of(model.last)
    assert "44" in seen
    assert ("edited" in seen) or ("reviewer" in seen.lower())


# An interrupt inside the model step


class Asking(AgentMiddleware[Any, Any, Any]):
    """Asks a person before each model call."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        assert interrupt(f"send {len(request.messages)} messages?") == "yes"
        return handler(request)

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        assert interrupt(f"send {len(request.messages)} messages?") == "yes"
        return await handler(request)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", ORDERS)
async def test_a_pause_around_the_model_call_is_no_failure_and_the_summary_is_paid_once(order, mode):
    talk = beside(**{order: [Asking()]}, mode=mode)
    await say(talk, *LONG, REQUEST)
    (question,) = (await talk.graph.aget_state(talk.config)).interrupts
    shown = len(LONG) + 1 if order == "outer" else question.value.split()[1]
    assert question.value == f"send {shown} messages?"
    await say(talk, Command(resume="yes"))
    assert_sound(talk.model, REQUEST)
    prompts = [request.text for request in talk.side.requests]
    assert len(set(prompts)) == len(prompts)
    assert len(talk.named("compacted")) == 1
    assert talk.named("overflow_recovered") == []
    assert_single(await talk.history())
