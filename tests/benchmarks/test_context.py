"""What is timed: valid threads that grow by steps, and contenders that do what an agent would have them do."""

import asyncio
import gc
from itertools import pairwise
from time import thread_time

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from benchmarks.context import PEER, contenders, measure
from benchmarks.longthread import Ourselves, growing, read_anew
from benchmarks.loop import watched
from benchmarks.peers import our_config
from benchmarks.recordings import Recording
from langgraph_memory import RuntimeConfig
from tests.support.validity import faults

WINDOW = 2_000


@pytest.fixture
def conversation() -> list[BaseMessage]:
    messages: list[BaseMessage] = [HumanMessage("Count the words of all files.", id="request")]
    for file in range(5):
        call = {"name": "count", "args": {"file": file}, "id": f"call-{file}"}
        messages += [
            AIMessage("", tool_calls=[call], id=f"ai-{file}"),
            ToolMessage("one two three " * 10, tool_call_id=f"call-{file}", id=f"tool-{file}"),
        ]
    return [*messages, AIMessage("Done.", id="end")]


def test_a_long_thread_is_valid_before_each_call_and_grows_by_a_step(conversation: list[BaseMessage]) -> None:
    threads = growing([conversation], 100, 6)
    assert len(threads) == 6
    assert len(threads[0]) >= 100
    for before, after in pairwise(threads):
        assert len(before) < len(after) <= len(before) + 3
        assert after[: len(before)] == before
    assert [faults(thread) for thread in threads] == [[]] * 6


def test_messages_read_anew_are_equal_and_not_the_same(conversation: list[BaseMessage]) -> None:
    copies = read_anew(conversation)
    assert copies == conversation
    assert not [old for old, new in zip(conversation, copies, strict=True) if old is new]


@pytest.fixture
def config() -> RuntimeConfig:
    # Made outside the event loop: the name of the tokenizer is looked up in files.
    return our_config(WINDOW)


async def test_every_way_to_call_ours_ends_with_the_same_view(
    conversation: list[BaseMessage], config: RuntimeConfig
) -> None:
    histories = growing([conversation], 100, 3)
    views = []
    for way in ("node", "hook", "anode", "ahook"):
        ours = Ourselves(config)
        call = getattr(ours, way)
        for history in histories:
            await (call(history) if way.startswith("a") else asyncio.to_thread(call, history))
        await ours.memory.adrain()
        views.append(ours.memory.view(ours.state(histories[-1])))
    assert views[0] == views[1] == views[2] == views[3]
    assert 1 < len(views[0]) < len(histories[-1])


def test_everybody_is_measured_on_the_same_thread(conversation: list[BaseMessage]) -> None:
    result = measure(Recording("made", [conversation]), 60, WINDOW)
    assert [timing.name for timing in result.timings] == list(contenders(WINDOW, WINDOW, {}))
    assert all(timing.milliseconds > 0 for timing in result.timings)
    assert [timing.faster for timing in result.timings if timing.name == PEER] == [1.0]
    assert len({gap.name for gap in result.gaps}) == len(result.gaps) == 8
    assert all(gap.took >= gap.longest > 0 for gap in result.gaps)


async def test_a_call_that_keeps_the_loop_shows_as_a_gap() -> None:
    async def busy(_: list[BaseMessage]) -> None:
        until = thread_time() + 0.05
        while thread_time() < until:
            pass

    gap = await watched("busy", busy, [])
    assert gap.computing >= 50


async def test_computing_in_another_thread_is_told_apart() -> None:
    async def busy(_: list[BaseMessage]) -> None:
        await asyncio.to_thread(sum, range(5_000_000))

    gap = await watched("busy", busy, [])
    assert gap.computing < gap.longest


async def test_a_collection_shows() -> None:
    async def collect(_: list[BaseMessage]) -> None:
        gc.collect()

    assert (await watched("collect", collect, [])).collecting > 0
