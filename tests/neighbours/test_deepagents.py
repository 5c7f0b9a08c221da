"""Memory inside `create_deep_agent`, which brings a summariser of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware, ModelFallbackMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from langgraph_memory import MemoryEvent, MemoryMiddleware
from tests.neighbours.agents import (
    LONG,
    NOT_AHEAD,
    REQUEST,
    Provider,
    StreamingProvider,
    assert_single,
    assert_sound,
    leaving,
    say,
    streamed,
)
from tests.support.graphs import MODES, Talk, configured, grab, looping, rounds, summaries_in, text_of, thread
from tests.support.models import numbered_summaries

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

deepagents = pytest.importorskip("deepagents")

WINDOW = 30_000
THEIRS = "Context Extraction Assistant"
"""Stands in the prompt of their summariser."""


in_their_place = partial(MemoryMiddleware, name="SummarizationMiddleware")
"""Memory that takes the place of their summariser, in the agent and in its general-purpose subagent."""


class Nothing(AgentMiddleware[Any, Any, Any]):
    """Takes the place of their summariser and does nothing."""

    name = "SummarizationMiddleware"  # type: ignore[assignment]


class Quiet(Provider):
    """A model for which a harness profile leaves their summariser out."""

    def _get_ls_params(self, stop: list[str] | None = None, **options: Any) -> Any:
        return {**super()._get_ls_params(stop, **options), "ls_provider": "neighbours-quiet"}


deepagents.register_harness_profile(
    "neighbours-quiet", deepagents.HarnessProfile(excluded_middleware=frozenset({"SummarizationMiddleware"}))
)


def deep(
    *,
    model: Provider | None = None,
    memory: Callable[..., MemoryMiddleware] = in_their_place,
    before: tuple[Any, ...] = (),
    tools: Any = None,
    mode: str = "async",
    settings: Any = None,
    workspace: Any = None,
    memory_files: list[str] | None = None,
    leaves: bool = False,
    **options: Any,
) -> Talk:
    side, events = numbered_summaries(), list[MemoryEvent]()
    model = model or Provider(window=WINDOW, replies=looping(4))
    config, saver = configured({**NOT_AHEAD, **(settings or {})}), InMemorySaver()
    config = leaving(config) if leaves else config
    ours = memory(config, model=side, saver=saver, on_event=events.append, workspace=workspace)
    graph = deepagents.create_deep_agent(
        model,
        [grab(6000)] if tools is None else tools,
        middleware=[*before, ours],
        checkpointer=saver,
        memory=memory_files,
        **options,
    )
    return Talk(ours, graph, model, side, events, thread(), mode)


def theirs(model: Provider) -> int:
    return sum(THEIRS in request.text for request in model.requests)


WAYS: dict[str, dict[str, Any]] = {
    "memory in their place": {},
    "nothing in their place": {"memory": MemoryMiddleware, "before": (Nothing(),)},
    "a profile without them": {"memory": MemoryMiddleware},
}


def by(way: str, **options: Any) -> Talk:
    if way == "a profile without them":
        options["model"] = Quiet(window=WINDOW, replies=looping(4))
    return deep(**WAYS[way], **options)


# Their summariser


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", WAYS)
async def test_without_their_summariser_a_long_thread_stays_whole_and_every_request_is_sound(way, mode):
    talk = by(way, mode=mode)
    for turn in range(8):
        await say(talk, *(LONG if turn == 0 else ()), f"{turn}: {REQUEST}")
        assert f"{turn}: {REQUEST}" in text_of(talk.model.last)
    state = await talk.state()
    assert len(state["messages"]) == len(LONG) + 8 * 10
    assert "_summarization_event" not in state
    assert_sound(talk.model, REQUEST)
    assert_single(state["messages"])
    assert theirs(talk.model) == 0
    assert len(talk.named("compacted")) == len(talk.side.requests) >= 2
    assert talk.named("record_ignored") == []
    assert summaries_in(talk.model.last) == 1


@pytest.mark.parametrize("mode", MODES)
async def test_messages_that_leave_the_list_leave_it_here_too(mode):
    talk = deep(mode=mode, leaves=True)
    for turn in range(10):
        await say(talk, *(LONG if turn == 0 else ()), f"{turn}: {REQUEST}")
    history = await talk.history()
    assert len(history) < 60
    assert_single(history)
    assert_sound(talk.model, REQUEST)
    assert talk.named("record_ignored") == []


@pytest.mark.parametrize("mode", MODES)
async def test_beside_their_summariser_both_are_paid_and_ours_is_lost_when_theirs_cuts(mode):
    talk = deep(memory=MemoryMiddleware, mode=mode)
    for turn in range(8):
        await say(talk, *(LONG if turn == 0 else ()), f"{turn}: {REQUEST}")
    asked = [request for request in talk.model.requests if THEIRS not in request.text]
    assert_sound(talk.model, among=asked)
    assert theirs(talk.model) >= 1
    assert talk.side.requests
    assert any("have changed" in event.reason for event in talk.named("record_ignored"))
    state = await talk.state()
    assert state["_summarization_event"]["cutoff_index"] > 0
    assert_single(state["messages"])


@pytest.mark.parametrize("mode", MODES)
async def test_a_trigger_of_none_does_not_keep_their_summariser_from_cutting_near_the_window(mode):
    from deepagents.backends import StateBackend
    from deepagents.middleware.summarization import SummarizationMiddleware

    model = Provider(window=WINDOW, replies=looping(4))
    never = SummarizationMiddleware(model, backend=StateBackend(), trigger=None)
    talk = deep(memory=MemoryMiddleware, before=(never,), model=model, mode=mode)
    for turn in range(8):
        await say(talk, *(LONG if turn == 0 else ()), f"{turn}: {REQUEST}")
    assert "_summarization_event" in await talk.state()


# Its other parts


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", WAYS)
async def test_a_stream_shows_the_answer_once_and_no_summary(way, mode):
    talk = by(way, mode=mode)
    talk.model.replies = "the berth is booked"
    given = [*LONG, *rounds(24, chars=6000), HumanMessage(REQUEST)]
    parts = await streamed(talk, given, stream_mode=["messages", "custom"])
    shown = [chunk for name, (chunk, *_) in ((n, p) for n, p in parts if n == "messages")]
    assert text_of([m for m in shown if m.type.lower().startswith("ai")]).strip() == "the berth is booked"
    assert [part["event"] for name, part in parts if name == "custom"].count("compacted") == 1
    assert_sound(talk.model, REQUEST)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("decision", ["approve", "reject"])
async def test_approval_works_while_the_memory_compacts(decision, mode):
    talk = deep(mode=mode, interrupt_on={"grab": True})
    await say(talk, *LONG, *rounds(24, chars=6000), REQUEST)
    for _ in range(4):
        await say(talk, Command(resume={"decisions": [{"type": decision}]}))
    history = await talk.history()
    assert history[-1].text == "done"
    assert talk.named("compacted")
    assert_sound(talk.model, REQUEST)
    assert_single(history)


@pytest.mark.parametrize("mode", MODES)
async def test_who_writes_while_a_call_waits_gets_a_valid_request_and_nothing_is_doubled(mode):
    talk = deep(mode=mode, interrupt_on={"grab": True})
    await say(talk, *LONG, *rounds(24, chars=6000), REQUEST)
    await say(talk, "forget it")
    assert_sound(talk.model, "forget it", among=talk.model.requests[1:])
    assert_single(await talk.history())


def delegating(steps: int) -> Any:
    """Replies for an agent and its subagent, which are told apart by what they were asked."""
    boss, worker = looping(1, name="task"), looping(steps)

    def reply(messages: list[BaseMessage]) -> AIMessage:
        if "inspect every pier" in text_of([m for m in messages if m.type == "human"]):
            return worker(messages)
        message: AIMessage = boss(messages)
        for call in message.tool_calls:
            call["args"] = {"description": "inspect every pier", "subagent_type": "general-purpose"}
        return message

    return reply


@pytest.mark.parametrize("mode", MODES)
async def test_memory_in_their_place_serves_the_general_purpose_subagent_too(mode):
    talk = deep(mode=mode, model=Provider(window=WINDOW, replies=delegating(30)))
    await say(talk, *LONG, REQUEST)
    inner = [request for request in talk.model.requests if "inspect every pier" in request.text]
    inner = [request for request in inner if REQUEST not in request.text]
    assert len(inner) == 31
    assert_sound(talk.model, "inspect every pier", among=inner)
    assert summaries_in(inner[-1].messages) == 1
    state = await talk.state()
    assert [m.text for m in state["messages"] if isinstance(m, ToolMessage)] == ["done"]
    assert set(state.get("memory_record", {}).get("ns", {})) <= {""}
    assert summaries_in(talk.model.last) == 0
    assert_single(state["messages"])


@pytest.mark.parametrize("mode", MODES)
async def test_a_subagent_can_have_a_memory_of_its_own(mode):
    side = numbered_summaries()
    worker = Provider(window=8000, model_name="worker", replies=looping(12))
    spec = {
        "name": "inspector",
        "description": "Inspects piers.",
        "system_prompt": "Inspect.",
        "model": worker,
        "tools": [grab(2500)],
        "middleware": [in_their_place(configured(NOT_AHEAD), model=side)],
    }
    call = {"name": "task", "args": {"description": "inspect every pier", "subagent_type": "inspector"}, "id": "t1"}
    boss = Provider(window=WINDOW, replies=[AIMessage("", tool_calls=[call]), "all fine"])
    talk = deep(mode=mode, model=boss, subagents=[spec])
    await say(talk, *LONG, REQUEST)
    assert_sound(worker, "inspect every pier")
    assert side.requests
    assert all(REQUEST not in request.text for request in [*worker.requests, *side.requests])
    assert_sound(boss, REQUEST)


@pytest.mark.parametrize("mode", MODES)
async def test_a_large_result_is_spilled_once_and_not_offloaded_again(mode, tmp_path):
    model = Provider(window=WINDOW, replies=looping(1))
    talk = deep(mode=mode, model=model, tools=[grab(200_000)], workspace=tmp_path)
    await say(talk, *LONG, REQUEST)
    (result,) = [m for m in await talk.history() if isinstance(m, ToolMessage)]
    assert result.text.count("[spilled:") == 1
    assert not (await talk.state()).get("files")
    assert_sound(model, REQUEST)


@pytest.mark.parametrize("mode", MODES)
async def test_a_fallback_goes_before_the_memory_with_nothing_in_their_place(mode):
    small = Provider(window=16_000, model_name="small", replies="from the small one")
    large = Provider(window=WINDOW, model_name="large", replies=RuntimeError("503"))
    before = (Nothing(), ModelFallbackMiddleware(small))
    talk = deep(mode=mode, model=large, memory=MemoryMiddleware, before=before)
    await say(talk, *LONG, *rounds(12, chars=6000), REQUEST)
    assert_sound(small, REQUEST)
    assert summaries_in(small.last) == 1
    assert (await talk.report()).window == 16_000


NOTES = "The harbour master is called Ada. " * 700


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("known_by", ["the provider's usage", "the configuration"])
async def test_what_their_memory_file_adds_to_the_prompt_behind_the_memory_is_learnt_or_reserved(known_by, mode):
    model = Provider(window=WINDOW, replies=looping(4))
    settings = {"budget.system_tokens": 7500} if known_by == "the configuration" else {}
    if not settings:
        model.usage = lambda _: model.sizes[-1]
    talk = deep(mode=mode, model=model, settings=settings, memory_files=["/AGENTS.md"])
    file = {"content": NOTES, "encoding": "utf-8", "created_at": "", "modified_at": ""}
    await say(talk, *LONG, REQUEST, files={"/AGENTS.md": file})
    for turn in range(6):
        await say(talk, f"{turn}: {REQUEST}")
    assert all("harbour master" in request.text for request in model.requests)
    assert talk.named("compacted")
    assert_sound(model, REQUEST)


@pytest.mark.parametrize("mode", MODES)
async def test_messages_that_its_state_leaves_without_an_id_are_summarised_and_pinned_like_others(mode):
    talk = deep(mode=mode)
    for turn in range(8):
        given = {"messages": [*(LONG if turn == 0 else ()), ("user", f"{turn}: {REQUEST}")]}
        await (
            asyncio.to_thread(talk.graph.invoke, given, talk.config)
            if mode == "sync"
            else talk.graph.ainvoke(given, talk.config)
        )
    assert any(message.id is None for message in await talk.history())
    assert_sound(talk.model, REQUEST)
    assert f"7: {REQUEST}" in text_of(talk.model.last)
    assert len(talk.side.requests) <= 2
    assert talk.named("record_ignored") == []


async def test_a_token_stream_of_a_deep_agent_is_that_of_its_model():
    talk = deep(model=StreamingProvider(window=WINDOW, replies="one two three"))
    parts = await streamed(talk, [HumanMessage(REQUEST)], stream_mode="messages")
    assert "".join(chunk.text for chunk, _ in parts) == "one two three"
