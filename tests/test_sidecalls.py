import asyncio
import threading
import time
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda

from langgraph_memory.sidecalls import (
    FAILURES,
    REST_SECONDS,
    Breakers,
    Kind,
    beating,
    call,
    call_sync,
    fault,
    in_thread,
    named,
)
from tests.support.models import Hanging, Scripted, Slow

MODES = ("sync", "async")
KIND = Kind("memory_test", "testing", "the tester")


async def ask(mode: str, model: Any, seconds: float = 5.0) -> Any:
    if mode == "sync":
        return await asyncio.to_thread(call_sync, model, "prompt", seconds, KIND)
    return await call(model, "prompt", seconds, KIND)


@pytest.mark.parametrize("mode", MODES)
async def test_the_reply_to_one_human_message_comes_back(mode):
    model = Scripted(replies="fine")
    assert (await ask(mode, model)).content == "fine"
    assert [(m.type, m.content) for m in model.last] == [("human", "prompt")]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("error", [RuntimeError("down"), TimeoutError(), ValueError()])
async def test_whatever_the_model_raises_comes_back_as_a_value(mode, error):
    assert await ask(mode, Scripted(replies=[error])) is error


@pytest.mark.parametrize("mode", MODES)
async def test_a_model_that_takes_too_long_has_raised_a_timeout(mode):
    model = Hanging(replies="late")
    assert isinstance(await ask(mode, model, 0.05), TimeoutError)
    model.release.set()


ENDS = [KeyboardInterrupt(), SystemExit()]


def ending(error: BaseException) -> RunnableLambda[Any, Any]:
    def end(_: Any) -> Any:
        raise error

    return RunnableLambda(end)


@pytest.mark.parametrize("error", ENDS)
def test_what_ends_a_program_ends_it(error):
    with pytest.raises(type(error)):
        call_sync(ending(error), "prompt", 5, KIND)


@pytest.mark.parametrize("error", ENDS)
async def test_what_ends_a_program_ends_it_on_a_loop_too(error):
    with pytest.raises(type(error)):
        await call(ending(error), "prompt", 5, KIND)


@pytest.mark.parametrize("mode", MODES)
async def test_the_call_says_what_it_is_and_shows_in_no_stream(mode):
    seen: list[Any] = []

    class Watched(Scripted):
        def invoke(self, input: Any, config: Any = None, **options: Any) -> Any:
            seen.append((config, threading.current_thread().name))
            return super().invoke(input, config, **options)

    await ask(mode, Watched(replies="fine"))
    config, thread = seen[0]
    assert config["run_name"] == "memory_test"
    assert config["tags"] == ["nostream"]
    assert config["metadata"]["lc_source"] == "testing"
    assert len(config["metadata"]) > 1
    assert thread == "memory-test"


async def test_a_cancelled_caller_stops():
    model = Hanging(replies="late")
    task = asyncio.create_task(call(model, "prompt", 30, KIND))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    model.release.set()


async def test_a_client_that_cancels_itself_is_a_model_that_failed():
    assert isinstance(
        await call(Scripted(replies=[asyncio.CancelledError()]), "prompt", 5, KIND), asyncio.CancelledError
    )


def test_a_sync_caller_is_told_now_and_then_that_it_still_waits():
    beats: list[float] = []
    call_sync(
        Slow(replies="ok", seconds=0.3), "prompt", 5, KIND, beat=lambda: beats.append(time.monotonic()), every=0.05
    )
    assert len(beats) >= 2


async def test_an_async_caller_too_and_not_any_more_afterwards():
    beats: list[int] = []
    async with beating(lambda: beats.append(1), 0.02):
        while len(beats) < 3:  # noqa: ASYNC110 - a beat is no event
            await asyncio.sleep(0.01)
    count = len(beats)
    await asyncio.sleep(0.08)
    assert len(beats) == count


async def test_a_cancelled_caller_waits_for_its_thread():
    done = threading.Event()

    def work() -> None:
        time.sleep(0.1)
        done.set()

    task = asyncio.create_task(in_thread(work))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done.is_set()


def test_a_fault_is_a_sentence_about_whoever_was_asked():
    assert fault(TimeoutError(), 2.5, KIND) == "the tester did not answer within 2.5 s"
    assert fault(RuntimeError("down"), 1, KIND) == "the tester raised RuntimeError: down"
    assert fault({}, 1, KIND) == "the tester returned dict, not a message"


def test_an_error_is_one_short_line_without_keys():
    line = named(RuntimeError("bad key sk-proj-abcdef0123456789\n" + "x" * 1000))
    assert "abcdef" not in line
    assert "\n" not in line
    assert len(line) < 400


class Odd(Exception):
    def __str__(self) -> str:
        raise ValueError


def test_an_error_without_a_text_has_a_name():
    assert named(Odd()) == "Odd"


def test_a_breaker_opens_after_three_failures_in_a_row_and_lets_one_try_through_after_the_rest():
    now = [1000.0]
    breakers = Breakers(clock=lambda: now[0])
    for _ in range(FAILURES):
        assert not breakers.open("t")
        breakers.count("t", ok=False)
    assert breakers.open("t")
    assert not breakers.open("u")
    now[0] += REST_SECONDS
    assert not breakers.open("t")
    assert breakers.open("t")
    breakers.count("t", ok=True)
    assert not breakers.open("t")
    assert len(breakers) == 0


def test_what_has_no_key_has_no_breaker():
    breakers = Breakers()
    for _ in range(9):
        breakers.count(None, ok=False)
    assert not breakers.open(None)
    assert len(breakers) == 0


def test_a_reply_is_whatever_the_model_gave():
    assert call_sync(RunnableLambda(lambda _: AIMessage("x")), "p", 5, KIND).content == "x"
    assert call_sync(RunnableLambda(lambda _: {"a": 1}), "p", 5, KIND) == {"a": 1}
