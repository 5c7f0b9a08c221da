import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from langgraph_memory.context.history import History
from langgraph_memory.context.summarize import Ask, Recipe, Rejected, summarise
from langgraph_memory.sidecalls import FAILURES, REST_SECONDS
from langgraph_memory.summariser import Summariser
from tests.support.histories import THIRDS, human
from tests.support.models import GOOD, Hanging, Scripted, Slow, summariser

MODES = ("sync", "async")
number = iter(range(10**6))


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def ask() -> Ask:
    """A question nobody has asked before."""
    n = next(number)
    return Ask(f"digest-{n}", f"prompt {n}", replaces=1000, room=500)


def words(text: str) -> int:
    return len(text.split())


async def answer(mode: str, rim: Summariser, question: Ask, model: Any, thread: str | None = "t") -> Any:
    if mode == "sync":
        return await asyncio.to_thread(rim.answer_sync, question, model, thread, words)
    return await rim.answer(question, model, thread, words)


async def fail(mode: str, rim: Summariser, times: int, thread: str = "t") -> None:
    for _ in range(times):
        assert isinstance(await answer(mode, rim, ask(), summariser([RuntimeError("down")]), thread), Rejected)


@pytest.mark.parametrize("mode", MODES)
async def test_an_answer_is_bought_once(mode):
    rim, model, question = Summariser(timeout=5), summariser(), ask()
    assert rim.bought(question.digest) is None
    for _ in range(3):
        assert (await answer(mode, rim, question, model)).startswith("## SESSION INTENT")
    assert len(model.requests) == 1
    assert rim.bought(question.digest) == GOOD


@pytest.mark.parametrize("mode", MODES)
async def test_what_was_bought_on_one_thread_is_not_paid_for_again_with_the_breaker_open(mode):
    rim, model, question = Summariser(timeout=5), summariser(), ask()
    await answer(mode, rim, question, model)
    await fail(mode, rim, FAILURES)
    assert await answer(mode, rim, question, model) == GOOD


@pytest.mark.parametrize("mode", MODES)
async def test_a_rejected_answer_is_not_kept(mode):
    rim, question = Summariser(timeout=5), ask()
    assert isinstance(await answer(mode, rim, question, summariser([""])), Rejected)
    assert rim.bought(question.digest) is None
    assert await answer(mode, rim, question, summariser()) == GOOD


@pytest.mark.parametrize("mode", MODES)
async def test_without_a_model_the_answer_is_a_rejection_and_no_failure(mode, clock):
    rim = Summariser(timeout=5, clock=clock)
    for _ in range(5):
        assert "no model" in (await answer(mode, rim, ask(), None)).reason
    assert await answer(mode, rim, ask(), summariser()) == GOOD


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("failures", [1, 2])
async def test_below_three_failures_in_a_row_the_summariser_is_asked_again(mode, failures, clock):
    rim = Summariser(timeout=5, clock=clock)
    for _ in range(4):
        await fail(mode, rim, failures)
        assert await answer(mode, rim, ask(), summariser()) == GOOD


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "bad", ["", RuntimeError("x"), AIMessage("", tool_calls=[{"name": "a", "args": {}, "id": "1"}])]
)
async def test_after_three_failures_in_a_row_it_is_left_alone(mode, bad, clock):
    rim, model = Summariser(timeout=5, clock=clock), summariser([bad])
    for _ in range(10):
        assert isinstance(await answer(mode, rim, ask(), model), Rejected)
    assert len(model.requests) == 3
    assert "left alone" in (await answer(mode, rim, ask(), model)).reason


@pytest.mark.parametrize("mode", MODES)
async def test_other_threads_are_not_affected(mode, clock):
    rim = Summariser(timeout=5, clock=clock)
    await fail(mode, rim, 5, thread="broken")
    assert await answer(mode, rim, ask(), summariser(), thread="well") == GOOD
    assert isinstance(await answer(mode, rim, ask(), summariser(), thread="broken"), Rejected)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("waited,asked", [(REST_SECONDS - 1, 0), (REST_SECONDS, 1), (REST_SECONDS * 9, 1)])
async def test_after_five_minutes_one_try_is_let_through(mode, waited, asked, clock):
    rim, model = Summariser(timeout=5, clock=clock), summariser([""])
    await fail(mode, rim, 3)
    clock.now += waited
    for _ in range(4):
        assert isinstance(await answer(mode, rim, ask(), model), Rejected)
    assert len(model.requests) == asked
    assert REST_SECONDS == 300


@pytest.mark.parametrize("mode", MODES)
async def test_a_success_of_that_try_closes_the_breaker(mode, clock):
    rim = Summariser(timeout=5, clock=clock)
    await fail(mode, rim, 3)
    clock.now += REST_SECONDS
    model = summariser()
    for _ in range(5):
        assert await answer(mode, rim, ask(), model) == GOOD
    assert len(model.requests) == 5
    await fail(mode, rim, 2)
    assert await answer(mode, rim, ask(), model) == GOOD


@pytest.mark.parametrize("mode", MODES)
async def test_while_the_one_try_runs_nobody_else_is_let_through(mode, clock):
    rim, slow = Summariser(timeout=5, clock=clock), Slow(replies=GOOD, seconds=0.1)
    await fail(mode, rim, 3)
    clock.now += REST_SECONDS
    answers = await asyncio.gather(*(answer(mode, rim, ask(), slow) for _ in range(4)))
    assert len(slow.requests) == 1
    assert sum(isinstance(found, str) for found in answers) == 1


@pytest.mark.parametrize("mode", MODES)
async def test_a_call_that_takes_too_long_is_a_failure_that_says_so(mode):
    rim, model = Summariser(timeout=0.05), Hanging(replies=GOOD)
    found = await answer(mode, rim, ask(), model)
    model.release.set()
    assert found == Rejected("the summariser did not answer within 0.05 s")
    assert await answer(mode, rim, ask(), summariser()) == GOOD


@pytest.mark.parametrize("mode", MODES)
async def test_a_timeout_inside_the_model_is_a_failure_too(mode):
    found = await answer(mode, Summariser(timeout=5), ask(), summariser([TimeoutError("socket")]))
    assert isinstance(found, Rejected)


async def test_a_cancelled_call_is_cancelled_and_counts_as_no_failure(clock):
    rim, model = Summariser(timeout=30, clock=clock), Hanging(replies=GOOD)
    for _ in range(5):
        task = asyncio.create_task(rim.answer(ask(), model, "t", words))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await rim.answer(ask(), summariser(), "t", words) == GOOD


@pytest.mark.parametrize("mode", MODES)
async def test_one_question_asked_by_many_at_once_is_paid_for_once(mode):
    rim, model, question = Summariser(timeout=5), Slow(replies=GOOD, seconds=0.1), ask()
    answers = await asyncio.gather(*(answer(mode, rim, question, model, f"t{n}") for n in range(6)))
    assert answers == [GOOD] * 6
    assert len(model.requests) == 1


async def test_if_the_one_who_pays_is_cancelled_the_others_still_get_an_answer():
    rim, model, question = Summariser(timeout=5), Slow(replies=GOOD, seconds=0.1), ask()
    first = asyncio.create_task(rim.answer(question, model, "t", words))
    await asyncio.sleep(0.02)
    second = asyncio.create_task(rim.answer(question, model, "t", words))
    await asyncio.sleep(0.02)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await second == GOOD


@pytest.mark.parametrize("mode", MODES)
async def test_the_call_is_marked_so_that_it_never_shows_in_a_stream(mode):
    seen: list[Any] = []

    class Watched(Scripted):
        def invoke(self, input: Any, config: Any = None, **options: Any) -> Any:
            seen.append(config)
            return super().invoke(input, config, **options)

        async def ainvoke(self, input: Any, config: Any = None, **options: Any) -> Any:
            seen.append(config)
            return await super().ainvoke(input, config, **options)

    assert await answer(mode, Summariser(timeout=5), ask(), Watched(replies=GOOD)) == GOOD
    assert "nostream" in seen[0]["tags"]
    assert seen[0]["metadata"]["lc_source"] == "summarization"


@pytest.mark.parametrize("mode", MODES)
async def test_the_prompt_is_one_human_message_word_for_word(mode):
    model, question = summariser(), ask()
    await answer(mode, Summariser(timeout=5), question, model)
    assert [(m.type, m.content) for m in model.last] == [("human", question.prompt)]


@pytest.mark.parametrize("mode", MODES)
async def test_an_answer_of_a_foreign_type_is_a_failure(mode):
    class Odd:
        def invoke(self, *_: Any) -> Any:
            return {"text": "hello"}

        async def ainvoke(self, *_: Any) -> Any:
            return {"text": "hello"}

    found = await answer(mode, Summariser(timeout=5), ask(), Odd())
    assert found == Rejected("the summariser returned dict, not a message")


@pytest.mark.parametrize("mode", MODES)
async def test_what_it_remembers_is_bounded(mode):
    rim, model = Summariser(timeout=5), summariser()
    first = ask()
    await answer(mode, rim, first, model)
    for _ in range(520):
        await rim.answer(ask(), model, "t", words)
    assert rim.bought(first.digest) is None


@pytest.mark.parametrize("chunk", [0, 2])
def test_the_question_for_the_whole_names_the_messages_its_answer_covers(chunk):
    history = History.of([human(f"message {n} " + "and more " * 40) for n in range(6)], THIRDS)
    recipe, answers, boundaries = Recipe(window=8000, room=500, most=500, chunk_messages=chunk), {}, []
    while isinstance(asked := summarise(history, 0, 5, "", recipe, answers), Ask):
        boundaries.append(asked.boundary)
        answers[asked.digest] = GOOD
    assert boundaries == [*[""] * (3 if chunk else 0), history.digests[4].hex()]


@pytest.mark.parametrize("mode", MODES)
async def test_threads_that_are_well_are_not_remembered(mode):
    rim = Summariser(timeout=5)
    for name in ("a", "b"):
        await fail(mode, rim, 1, thread=name)
        assert await answer(mode, rim, ask(), summariser(), thread=name) == GOOD
    assert len(rim._breakers) == 0
