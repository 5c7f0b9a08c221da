from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableLambda

from langgraph_memory import sidework
from langgraph_memory.cache import ProcessCache
from langgraph_memory.errors import LangGraphMemoryError
from langgraph_memory.sidecalls import FAILURES, Breakers
from langgraph_memory.sidework import arun, run
from tests.support.models import Hanging, Scripted, Slow

MODES = ("sync", "async")


class Steps:
    """Asks `prompts` one after the other, and remembers what it hears and where."""

    name = "memory_steps"

    def __init__(self, *prompts: str, verdict: bool | None = True) -> None:
        self._prompts, self._verdict = list(prompts), verdict
        self.heard: list[Any] = []
        self.threads: set[str] = set()
        self.beats = 0

    @property
    def result(self) -> int:
        return len(self.heard)

    def begin(self) -> str | None:
        self.threads.add(threading.current_thread().name)
        return self._prompts.pop(0) if self._prompts else None

    def finish(self, reply: BaseMessage | BaseException) -> bool | None:
        self.threads.add(threading.current_thread().name)
        self.heard.append(reply)
        return self._verdict

    def beat(self) -> None:
        self.beats += 1


async def drive(mode: str, task: Any, model: Any, **options: Any) -> bool:
    options = {"seconds": 5, **options}
    if mode == "sync":
        return await asyncio.to_thread(run, task, model, **options)
    return await arun(task, model, **options)


@pytest.mark.parametrize("mode", MODES)
async def test_each_prompt_is_asked_and_its_reply_handed_over(mode):
    task, model = Steps("one", "two"), Scripted(replies=["1", "2"])
    assert await drive(mode, task, model)
    assert [reply.content for reply in task.heard] == ["1", "2"]
    assert [str(request.messages[0].content) for request in model.requests] == ["one", "two"]


@pytest.mark.parametrize("mode", MODES)
async def test_a_task_with_nothing_to_ask_asks_nothing(mode):
    model = Scripted()
    assert await drive(mode, Steps(), model)
    assert model.requests == []


async def test_nothing_of_a_task_runs_on_the_event_loop():
    task = Steps("one")
    await arun(task, Scripted(), seconds=5)
    assert threading.current_thread().name not in task.threads


@pytest.mark.parametrize("mode", MODES)
async def test_what_the_model_raises_is_handed_over_too(mode):
    task, error = Steps("one"), RuntimeError("down")
    await drive(mode, task, Scripted(replies=[error]))
    assert task.heard == [error]


@pytest.mark.parametrize("mode", MODES)
async def test_what_is_no_message_is_an_error(mode):
    task = Steps("one")
    await drive(mode, task, RunnableLambda(lambda _: {"text": "x"}))
    assert [str(error) for error in task.heard] == ["the model returned dict, not a message"]


@pytest.mark.parametrize("mode", MODES)
async def test_a_model_that_hangs_is_a_timeout(mode):
    task, model = Steps("one"), Hanging()
    await drive(mode, task, model, seconds=0.05)
    model.release.set()
    assert isinstance(task.heard[0], TimeoutError)


@pytest.mark.parametrize("mode", MODES)
async def test_without_a_model_a_task_that_asks_hears_so(mode):
    task = Steps("one")
    assert await drive(mode, task, None)
    assert isinstance(task.heard[0], LookupError)


@pytest.mark.parametrize("mode", MODES)
async def test_answered_calls_are_counted_whether_they_were_of_use_or_not(mode):
    cache = ProcessCache()
    task = Steps("one", "two", "three", verdict=False)
    model = Scripted(replies=["1", RuntimeError("x"), "3"], usage=lambda _: 100)
    await drive(mode, task, model, cache=cache)
    counted = cache.usage()[0]
    assert (counted.model, counted.kind, counted.calls, counted.input, counted.output) == (
        "scripted",
        "memory_steps",
        2,
        200,
        20,
    )


@pytest.mark.parametrize("mode", MODES)
async def test_a_count_that_cannot_be_kept_fails_nothing(mode):
    class Broken(ProcessCache):
        def add_usage(self, *_: Any) -> None:
            raise LangGraphMemoryError("full")

    task = Steps("one")
    await drive(mode, task, Scripted(), cache=Broken())
    assert task.result == 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("verdict,asked", [(False, FAILURES), (True, 9), (None, 9)])
async def test_after_three_failures_in_a_row_a_task_is_not_begun(mode, verdict, asked):
    breakers, model = Breakers(), Scripted()
    for _ in range(9):
        await drive(mode, Steps("one", verdict=verdict), model, breakers=breakers, key="t")
    assert len(model.requests) == asked
    other = Steps("one")
    assert await drive(mode, other, model, breakers=breakers, key="u")
    without = Steps()
    assert await drive(mode, without, None, breakers=breakers, key="t")


@pytest.mark.parametrize("mode", MODES)
async def test_a_task_that_holds_something_hears_that_the_model_is_still_asked(mode, monkeypatch):
    monkeypatch.setattr(sidework, "BEAT_SECONDS", 0.05)
    task = Steps("one")
    await drive(mode, task, Slow(seconds=0.3))
    assert task.beats >= 2


async def test_a_cancelled_task_hears_of_it_and_the_caller_stops():
    task, model = Steps("one"), Hanging()
    running = asyncio.create_task(arun(task, model, seconds=30))
    while not model.requests:  # noqa: ASYNC110 - the model knows no events
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [type(reply) for reply in task.heard] == [asyncio.CancelledError]


async def test_cancelled_while_it_writes_it_writes_to_the_end_and_hears_nothing_more():
    writing, written = threading.Event(), threading.Event()

    class Writer(Steps):
        def finish(self, reply: BaseMessage | BaseException) -> bool | None:
            writing.set()
            threading.Event().wait(0.2)
            super().finish(reply)
            written.set()
            return True

    task = Writer("one", "two")
    running = asyncio.create_task(arun(task, Scripted(), seconds=30))
    while not writing.is_set():  # noqa: ASYNC110 - it is set from another thread
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert written.is_set()
    assert [type(reply) for reply in task.heard] == [AIMessage]


@pytest.mark.parametrize("mode", MODES)
async def test_what_ends_the_program_is_told_to_the_task_first(mode):
    def end(_: Any) -> Any:
        raise KeyboardInterrupt

    task = Steps("one")
    with pytest.raises(KeyboardInterrupt):
        if mode == "sync":
            run(task, RunnableLambda(end), seconds=5)
        else:
            await arun(task, RunnableLambda(end), seconds=5)
    assert [type(reply) for reply in task.heard] == [KeyboardInterrupt]
