"""A compaction is worth its price and finite, and its source fits the summariser."""

import asyncio
import re

import pytest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage

from langgraph_memory import ContextBudgetError
from tests.support.graphs import (
    ENTRIES,
    GRAPHS,
    MODES,
    Bare,
    calls,
    chat,
    filled,
    grab,
    looping,
    result,
    rounds,
    sent,
    size,
    summaries_in,
    talk,
    text_of,
)
from tests.support.models import GOOD, Scripted, Slow, content_text, numbered_summaries, summariser
from tests.support.validity import faults

pytestmark = pytest.mark.slow

MARK = re.compile(r"(?<![\w-])[qar]-\d{4}(?![\w-])")
"""A mark of `chat` or `rounds`, and no part of a message id."""
SCRIPTS = {"English": "the boat is late ", "Chinese": "船今天晚到了", "JSON": '{"pier": 7, "at": "04:30"}, '}


def marks(text: str) -> list[str]:
    return MARK.findall(text)


def system_of(tokens: int) -> str:
    return "never quote prices " * (tokens // 3)


# The same history again


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("script", SCRIPTS)
async def test_five_calls_with_one_history_over_the_trigger_buy_one_summary(script, mode):
    bare = Bare({"context_window": 4000})
    history = chat(12, chars=600, text=SCRIPTS[script])
    views, bought = [], []
    for _ in range(5):
        views.append(await bare.by(mode, history))
        bought.append(len(bare.side.requests))
    assert bought[0] >= 1
    assert bought == bought[:1] * 5
    assert len(bare.named("compacted")) == 1
    assert all(view == views[0] for view in views)


@pytest.mark.parametrize("keep", [1, 2, 3, 6])
@pytest.mark.parametrize("words", [300, 600, 1200])
def test_a_kept_part_that_is_itself_over_the_trigger_is_not_summarised_again_and_again(words, keep):
    settings = {"context_window": 6000, "compaction.keep_messages": keep, "compaction.trigger_tokens": 500}
    bare = Bare(settings)
    history = [*chat(10, chars=400), *chat(1, chars=words * 5, start=20), HumanMessage("go", id="go")]
    bare.sync(history)
    bought = len(bare.side.requests)
    for _ in range(5):
        bare.sync(history)
    assert bought <= 2
    assert len(bare.side.requests) == bought


@pytest.mark.parametrize("kind", GRAPHS)
async def test_a_thread_that_idles_over_the_trigger_buys_no_summary_a_turn(kind):
    talked = talk({"context_window": 4000, "compaction.trigger_messages": 10}, kind=kind)
    await talked.send(*chat(12, chars=600), "go")
    bought = len(talked.side.requests)
    for _ in range(5):
        await talked.send("ok")
    assert bought == 1
    assert len(talked.side.requests) == 1


# No progress


@pytest.mark.parametrize("who", ["user", "tool", "chat"])
@pytest.mark.parametrize("tail", [1000, 3000])
def test_a_fixed_part_that_leaves_too_little_room_burns_no_summaries(who, tail):
    bare = Bare({"context_window": 8000, "budget.system_tokens": 5700, "budget.tools_tokens": 800})
    text = filled("", "berth nine at half past four. ", tail * 4)
    tails = {
        "user": [HumanMessage(text, id="h")],
        "tool": [HumanMessage("go", id="h"), calls("x", id="ai"), result("x", text, id="t")],
        "chat": chat(10, chars=tail * 4 // 20),
    }
    for _ in range(5):
        try:
            view = bare.sync([*chat(12), *tails[who]])
        except ContextBudgetError:
            continue
        assert size(view) <= 500
    assert len(bare.side.requests) <= 1


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("turns", [1, 12, 30])
async def test_a_system_prompt_above_the_window_is_named_in_the_error_and_no_model_is_called(kind, turns):
    talked = talk({"context_window": 4000}, kind=kind, system=system_of(5000))
    with pytest.raises(ContextBudgetError) as caught:
        await talked.send(*chat(turns, chars=800), "go")
    assert max(caught.value.parts, key=caught.value.parts.__getitem__) == "system"
    assert "system" in str(caught.value)
    assert talked.side.requests == []
    assert talked.model.requests == []


@pytest.mark.parametrize("chars", [20_000, 100_000])
@pytest.mark.parametrize("who", ["user", "tool"])
def test_one_message_above_the_window_is_shortened_by_itself_and_not_looped_over(who, chars):
    bare = Bare({"context_window": 4000})
    big = filled("", "the boat is late ", chars)
    history = [HumanMessage(big)] if who == "user" else [HumanMessage("go"), calls("x"), result("x", big)]
    for _ in range(3):
        view = bare.sync(history)
        assert size(view) <= 3500
        assert faults(view) == []
    assert len(bare.side.requests) <= 1


# Progress, not the kind of the last entry


@pytest.mark.parametrize("turns", [8, 15, 30])
def test_a_view_that_is_over_again_is_compacted_again_although_it_starts_with_a_summary(turns):
    bare = Bare({"context_window": 6000, "compaction.min_messages": 0})
    history: list[AnyMessage] = []
    for start in range(0, turns * 4, turns):
        history += chat(turns, chars=1200, start=start)
        assert size(bare.sync(history)) <= 4200
    assert len(bare.named("compacted")) >= 2


def test_what_one_cut_does_not_free_the_next_rung_does_in_the_same_call():
    bare = Bare({"context_window": 10_000, "compaction.keep_messages": 14, "compaction.min_messages": 0})
    view = bare.sync([*chat(3, chars=3000), *chat(7, chars=4000, start=10)])
    assert size(view) <= 8750
    assert faults(view) == []


# Figures and windows


@pytest.mark.parametrize("kind", GRAPHS)
async def test_usage_from_before_a_compaction_does_not_count_for_the_view_behind_it(kind):
    usage = iter([19_000, *[None] * 10])
    talked = talk(
        {"context_window": 20_000, "compaction.keep_messages": 8},
        kind=kind,
        model=Scripted(usage=lambda _: next(usage)),
    )
    await talked.send(*chat(20, chars=1500), "go")
    await talked.memory.compact(talked.graph, talked.config)
    bought = len(talked.side.requests)
    for _ in range(4):
        request = await talked.send("next")
        assert size(request) < 10_000
        assert (await talked.report()).total < 10_000
    assert len(talked.side.requests) == bought


@pytest.mark.parametrize("parallel", [2, 4, 8])
def test_results_of_the_newest_call_that_exceed_the_keep_budget_are_cut_and_the_old_part_is_compacted(parallel):
    bare = Bare({"context_window": 27_000})
    ids = [f"big{n}" for n in range(parallel)]
    history = [*chat(15, chars=1000), HumanMessage("all"), calls(*ids)]
    view = bare.sync([*history, *(result(i, filled(i, " row of rows", 24_000 * 4 // parallel)) for i in ids)])
    assert size(view) <= 27_000 - 2000
    assert {call["id"] for message in view for call in getattr(message, "tool_calls", ())} == set(ids)
    assert "all" in text_of(view)
    assert faults(view) == []


@pytest.mark.parametrize("window", [8000, 32_000])
@pytest.mark.parametrize("entry", ["chat", "one turn"])
def test_what_the_summariser_is_sent_always_fits_its_window(window, entry):
    side = summariser(profile={"max_input_tokens": window})
    bare = Bare({"context_window": 48_000, "pruning.enabled": False}, side=side)
    history = chat(34, chars=6000) if entry == "chat" else [HumanMessage("go"), *rounds(40, chars=9000)]
    view = bare.sync([*history, HumanMessage("and?")])
    assert side.requests
    assert max(size(request.messages) for request in side.requests) <= window
    assert size(view) <= 46_000


@pytest.mark.parametrize("window", [4000, 8000, 16_000])
def test_a_keep_budget_above_the_trigger_is_clamped_and_compaction_still_runs(window):
    bare = Bare({"context_window": window, "compaction.keep_recent_tokens": 20_000})
    view = bare.sync(chat(30, chars=window * 4 // 50))
    assert bare.named("compacted")
    assert size(view) <= window * 0.7
    assert "memory.compaction.keep_recent_tokens" in {event.data.get("key") for event in bare.named("capped")}


@pytest.mark.parametrize("kind", GRAPHS)
async def test_a_long_answer_of_the_summariser_does_not_count_as_the_conversation(kind):
    side = summariser(GOOD + " and so on" * 3000)
    talked = talk({"context_window": 8000}, kind=kind, side=side)
    request = await talked.send(*chat(20, chars=1500), "go")
    assert size(request) <= 7000
    bought = len(side.requests)
    assert bought <= 2
    assert (await talked.history())[-1].content == "ok"
    await talked.send("next")
    assert len(side.requests) == bought


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("tokens", [7000, 20_000])
async def test_a_result_that_jumps_past_the_window_is_dealt_with_before_the_next_call(kind, tokens):
    tool = grab(tokens * 4, text="one more row of it ")
    talked = talk({"context_window": 10_000}, kind=kind, model=Scripted(replies=looping(3)), tools=[tool])
    await talked.send(*chat(16, chars=1300), "now fetch")
    assert len(talked.model.requests) == 4
    for request in talked.model.requests:
        assert size(request.messages) <= 8750
        assert faults(request.messages) == []


# Time


async def test_each_summary_call_has_a_limit_of_its_own_so_a_long_healthy_job_is_finished():
    side = Slow(seconds=0.3, replies=GOOD, profile={"max_input_tokens": 4000})
    bare = Bare({"context_window": 8000, "compaction.timeout_seconds": 1}, side=side)
    view = await bare.call(chat(12, chars=2200))
    assert 4 <= len(side.requests) <= 8
    assert summaries_in(view) == 1
    assert "SUMMARY-TEXT" in text_of(view)


# A long chat


async def test_two_hundred_turns_are_summarised_step_by_step_and_no_message_is_read_twice():
    side = numbered_summaries()
    talked = talk({"context_window": 20_000}, model=Scripted(), side=side)
    for turn in range(200):
        question, answer = chat(1, chars=1500, start=turn)
        talked.model.replies = [AIMessage(answer.content)] * 1000
        request = await talked.send(HumanMessage(question.content))
        assert size(request) <= 18_000
    prompts = [request.text for request in side.requests]
    read = [mark for prompt in prompts for mark in marks(prompt)]
    view = await talked.view()
    everything = {f"{letter}-{turn:04d}" for turn in range(200) for letter in "qa"}
    assert len(read) == len(set(read))
    assert set(read) | set(marks(text_of(view))) == everything
    assert max(size(request.messages) for request in side.requests) <= 20_000
    assert len(prompts) <= 20
    assert all(f"SUMMARY-{number}\n" not in text_of(view) for number in range(1, len(prompts)))


def test_every_summary_is_made_from_the_one_before_it():
    side = numbered_summaries()
    bare = Bare({"context_window": 8000}, side=side)
    for turns in range(10, 80, 5):
        bare.sync(chat(turns, chars=1000))
    assert len(side.requests) >= 3
    for number, request in enumerate(side.requests[1:], 1):
        assert f"SUMMARY-{number} of" in request.text


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", GRAPHS)
async def test_one_long_turn_of_forty_tool_rounds_fits_on_every_call(kind, mode):
    request = "book berth 9 for 04:30, port side, 潮汐表 included"
    tool = grab(6000, text="row of the tide table ")
    talked = talk(
        {"context_window": 20_000}, kind=kind, mode=mode, model=Scripted(replies=looping(40)), tools=[tool], system="hi"
    )
    await talked.send(request)
    assert len(talked.model.requests) == 41
    tools = [tool, *(talked.memory.tools if kind == "agent" else [])]
    for received in talked.model.requests:
        assert size(received.messages, tools) <= 18_000
        assert faults(received.messages, alternating=True) == []
        assert any(request in content_text(m) for m in received.messages if isinstance(m, HumanMessage))
    assert len(talked.side.requests) <= 12
    assert len(await talked.history()) == 82


async def test_a_chat_of_short_messages_with_a_message_trigger_is_compacted_a_handful_of_times():
    settings = {
        "context_window": 128_000,
        "compaction.trigger_messages": 50,
        "compaction.keep_recent_tokens": 8000,
    }
    talked = talk(settings, model=Scripted(replies=filled("", "well said ", 300)))
    for turn in range(200):
        await talked.send(filled(f"q-{turn:04d} ", "a word ", 300))
    assert len(talked.model.requests) == 200
    assert 1 <= len(talked.named("compacted")) <= 8


@pytest.mark.parametrize("trigger", ["compaction.trigger_messages", "compaction.trigger_tokens"])
def test_what_a_compaction_kept_is_not_covered_by_the_very_next_call(trigger):
    bare = Bare({"context_window": 64_000, "compaction.keep_recent_tokens": 8000, trigger: 30})
    history = chat(60, chars=1000)
    kept = marks(text_of(bare.sync(history)))
    view = bare.sync([*history, HumanMessage("ok", id="ok")])
    assert len(kept) >= 8
    assert marks(text_of(view)) == kept


@pytest.mark.parametrize("kind", GRAPHS)
async def test_a_task_goes_on_in_the_same_run_after_a_compaction_in_its_middle(kind):
    talked = talk({"context_window": 8000}, kind=kind, model=Scripted(replies=looping(10)), tools=[grab(5000)])
    await talked.send("do all ten")
    history = await talked.history()
    assert talked.named("compacted")
    assert history[-1].content == "done"
    assert len(history) == 22


@pytest.mark.parametrize("entry", ENTRIES)
async def test_every_request_of_a_growing_thread_fits_and_is_valid(entry):
    history: list[BaseMessage] = []
    for part in (chat(6, chars=900), rounds(3, chars=4000), chat(2, start=20), rounds(6, chars=900, start=20)):
        history = [*history, *part]
        received = await sent(entry, [*history, HumanMessage("go on")], {"context_window": 5000})
        assert size(received) <= 4375
        assert faults(received) == []


async def test_the_same_summary_is_asked_for_once_although_two_calls_want_it_at_the_same_time():
    side = Slow(seconds=0.1, replies=GOOD)
    bare = Bare({"context_window": 4000}, side=side)
    history = chat(12, chars=600)
    views = await asyncio.gather(*(bare.call(history) for _ in range(4)))
    assert len(side.requests) == 1
    assert all(summaries_in(view) == 1 for view in views)
