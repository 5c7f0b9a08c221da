"""After any pruning and compaction the list that is sent is pair-closed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from tests.support.graphs import ENTRIES, Bare, calls, chat, result, sent, text_of
from tests.support.models import content_text
from tests.support.validity import faults


def always(keep: int = 0, **more: object) -> dict[str, object]:
    """Settings under which every call compacts what it may, keeping the newest `keep` messages."""
    return {
        "compaction.trigger_messages": 1,
        "compaction.keep_messages": keep,
        "pruning.min_reclaim_tokens": 0,
        "context_window": 3000,
        **more,
    }


LONG = "the tide table of the whole harbour, page by page. " * 40


def half_answered_run() -> list[AnyMessage]:
    return [
        HumanMessage("start " + LONG),
        calls("b", text="looking"),
        result("b", "tide ok"),
        result("a", "left over"),
        AIMessage("noted " + LONG),
        HumanMessage("next"),
        AIMessage("fine"),
    ]


def parallel_run(number: int) -> list[AnyMessage]:
    ids = [f"k{n}" for n in range(1, number + 1)]
    return [
        HumanMessage("start " + LONG * 3),
        AIMessage("well " + LONG),
        HumanMessage("all of them"),
        calls(*ids),
        *(result(call, f"answer {call} {LONG}") for call in ids),
        AIMessage("sum"),
        HumanMessage("go"),
    ]


def invalid_call() -> list[AnyMessage]:
    broken = AIMessage(
        [{"type": "text", "text": "let me see"}, {"type": "tool_use", "id": "z1", "name": "dock", "input": {}}],
        invalid_tool_calls=[
            {"type": "invalid_tool_call", "id": "z1", "name": "dock", "args": '{"dock":', "error": "x"}
        ],
    )
    return [
        HumanMessage("start " + LONG * 3),
        AIMessage("ok " + LONG),
        HumanMessage("look"),
        broken,
        HumanMessage("and?"),
    ]


def thinking_blocks() -> list[AnyMessage]:
    thinking = AIMessage(
        [
            {"type": "thinking", "thinking": "which dock?", "signature": "c2ln" * 20},
            {"type": "tool_use", "id": "w1", "name": "grab", "input": {"n": 1}},
        ],
        tool_calls=[{"name": "grab", "args": {"n": 1}, "id": "w1"}],
    )
    return [
        *chat(3, chars=2000),
        HumanMessage("go"),
        thinking,
        result("w1", LONG),
        AIMessage("done"),
        HumanMessage("more"),
    ]


def server_tools() -> list[AnyMessage]:
    served = AIMessage(
        [
            {"type": "server_tool_use", "id": "srv1", "name": "web_search", "input": {"query": "tide"}},
            {"type": "web_search_tool_result", "tool_use_id": "srv1", "content": [{"type": "x", "title": LONG}]},
            {"type": "text", "text": "high at four"},
        ]
    )
    return [*chat(3, chars=2000), HumanMessage("search"), served, HumanMessage("and low?")]


def silent_assistant() -> list[AnyMessage]:
    return [*chat(3, chars=2000), HumanMessage("say nothing"), AIMessage(""), HumanMessage("hello?"), AIMessage([])]


def raw_calls() -> list[AnyMessage]:
    raw = {"id": "o1", "type": "function", "function": {"name": "grab", "arguments": '{"n":'}}
    broken = AIMessage("", additional_kwargs={"tool_calls": [raw]})
    return [*chat(3, chars=2000), HumanMessage("go"), broken, HumanMessage("and?")]


HISTORIES = {
    "a run where only some results have their call": half_answered_run(),
    "two parallel calls": parallel_run(2),
    "twelve parallel calls": parallel_run(12),
    "forty parallel calls": parallel_run(40),
    "results as the last messages": [HumanMessage("h " + LONG), calls("q1", "q2"), result("q1"), result("q2", LONG)],
    "a call still waiting": [HumanMessage("h " + LONG), calls("p9"), *chat(3, chars=2000)],
    "keep would start on a result": [
        HumanMessage("h " + LONG),
        calls("c1"),
        result("c1", LONG),
        *chat(2, chars=2500)[:-1],
        AIMessage("end"),
    ],
    "one id in every round": [
        message
        for n in range(4)
        for message in (HumanMessage(f"{n} {LONG}"), calls("same"), result("same", f"round {n} {LONG}"))
    ],
    "the same id twice in one message": [
        HumanMessage("h " + LONG),
        calls("d", "d"),
        result("d", "one"),
        result("d", "two"),
        HumanMessage("next"),
    ],
    "two results for one call": [HumanMessage("h " + LONG), calls("e"), result("e", "1"), result("e", "2"), *chat(2)],
    "a result in front of its call": [
        HumanMessage("h " + LONG),
        result("f", "early"),
        calls("f"),
        result("f"),
        *chat(2),
    ],
    "results in another order": [
        HumanMessage("h"),
        calls("g1", "g2"),
        result("g2", LONG),
        result("g1", LONG),
        *chat(2),
    ],
    "a late result behind a question": [HumanMessage("h"), calls("l"), HumanMessage("still there?"), result("l", LONG)],
    "nothing but results": [result("n1", LONG), HumanMessage("h"), result("n2", LONG), AIMessage("a")],
    "an invalid call": invalid_call(),
    "a raw call that was not parsed": raw_calls(),
    "thinking blocks": thinking_blocks(),
    "server-side tools": server_tools(),
    "an assistant message that says nothing": silent_assistant(),
    "an assistant message first": [AIMessage("welcome " + LONG), *chat(3, chars=2000)],
}


def keeps(history: list[AnyMessage]) -> range:
    """About a dozen numbers of messages to keep."""
    return range(1, len(history) + 1, max(1, len(history) // 10))


@pytest.mark.parametrize("name", HISTORIES)
def test_wherever_the_cut_may_fall_the_view_is_valid(name):
    history = HISTORIES[name]
    for keep in keeps(history):
        view = Bare(always(keep)).sync(history)
        assert faults(view, first_human=not isinstance(view[0], AIMessage)) == [], f"keep {keep}"


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("name", HISTORIES)
async def test_what_the_provider_receives_is_valid_compacted_or_not(name, entry):
    for settings_ in ({}, always(3)):
        received = await sent(entry, HISTORIES[name], settings_)
        assert faults(received, first_human=not isinstance(received[0], AIMessage)) == []


@pytest.mark.parametrize("name", HISTORIES)
def test_a_compacted_list_starts_with_the_user_and_never_with_a_result_or_a_call(name):
    for keep in keeps(HISTORIES[name]):
        bare = Bare(always(keep))
        view = bare.sync(HISTORIES[name])
        if bare.named("compacted"):
            assert view[0].type == "human", f"keep {keep}"


@pytest.mark.parametrize("name", HISTORIES)
def test_a_view_of_pruned_results_is_valid(name):
    pruned = {"pruning.protect_recent": 0, "pruning.min_reclaim_tokens": 0, "pruning.soft_trim_chars": 50}
    view = Bare({**pruned, "pruning.hard_clear_threshold": 100}).sync(HISTORIES[name])
    assert faults(view, first_human=not isinstance(view[0], AIMessage)) == []


@pytest.mark.parametrize("keep", range(1, 8))
def test_a_result_whose_call_is_gone_leaves_the_tail_and_the_other_stays_with_its_call(keep):
    view = Bare(always(keep)).sync(half_answered_run())
    answered = [m.tool_call_id for m in view if isinstance(m, ToolMessage)]
    assert answered in ([], ["b"])
    assert (answered == ["b"]) == any(getattr(m, "tool_calls", ()) for m in view)


@pytest.mark.parametrize("number", [2, 12, 40])
@pytest.mark.parametrize("keep", [1, 3, 6, 11])
def test_parallel_calls_and_all_their_results_are_one_unit(number, keep):
    view = Bare(always(keep)).sync(parallel_run(number))
    assert sum(isinstance(message, ToolMessage) for message in view) in (0, number)


@pytest.mark.parametrize("late", [1, 3, 6, 12])
def test_a_call_that_still_waits_is_kept_so_that_its_late_result_finds_it(late):
    bare = Bare(always(2))
    history = [*chat(6, chars=2000), HumanMessage("start"), calls("p9", text="slow"), *chat(late, chars=100, start=50)]
    waiting = bare.sync(history)
    assert bare.named("compacted")
    assert any(call["id"] == "p9" for message in waiting for call in getattr(message, "tool_calls", ()))
    view = bare.sync([*history, result("p9", "the port answers")])
    assert faults(view) == []
    assert [m.content for m in view if isinstance(m, ToolMessage)] == ["the port answers"]


@pytest.mark.parametrize("rounds_", [2, 3, 7])
def test_rounds_that_use_one_call_id_again_are_pruned_each_for_itself(rounds_):
    history: list[AnyMessage] = [HumanMessage("go")]
    for n in range(rounds_):
        history += [calls("same", id=f"ai{n}"), result("same", f"round {n} " + "x" * 5000, id=f"r{n}")]
    settings_ = {"pruning.protect_recent": 1, "pruning.min_reclaim_tokens": 0, "pruning.hard_clear_threshold": 4000}
    view = Bare(settings_).sync(history)
    results = [str(m.content) for m in view if isinstance(m, ToolMessage)]
    assert len(results) == rounds_
    assert all(text.startswith("[cleared: ") for text in results[:-1])
    assert results[-1] == history[-1].content


@pytest.mark.parametrize("chars", [9_000, 30_000, 120_000])
def test_pruning_never_touches_an_assistant_message(chars):
    big = calls("c7", text="y" * chars)
    history = [HumanMessage("go"), big, result("c7", "ok"), HumanMessage("next")]
    settings_ = {"pruning.protect_recent": 0, "pruning.min_reclaim_tokens": 0, "pruning.hard_clear_threshold": 10_000}
    assert Bare(settings_).sync(history)[1] == big


@pytest.mark.parametrize("name", ["thinking blocks", "server-side tools", "an invalid call"])
@pytest.mark.parametrize("entry", ENTRIES)
async def test_messages_with_provider_bound_parts_are_sent_whole_or_not_at_all(name, entry):
    contents = [m.content for m in HISTORIES[name] if isinstance(m, AIMessage)]
    for keep in keeps(HISTORIES[name]):
        received = await sent(entry, HISTORIES[name], always(keep))
        assert all(m.content in contents for m in received if isinstance(m, AIMessage))


# Any history


CALL_IDS = st.sampled_from(["a", "b", "c", "same"])
TEXTS = st.sampled_from(["", "x", "hello", LONG, "潮汐表 " * 40])


@st.composite
def messages(draw: st.DrawFn) -> AnyMessage:
    kind = draw(st.sampled_from(["human", "ai", "call", "invalid", "result", "result", "system"]))
    text = draw(TEXTS)
    if kind == "human":
        return HumanMessage(text or "?")
    if kind == "system":
        return SystemMessage(text or "rule")
    if kind == "ai":
        return AIMessage(text)
    if kind == "call":
        return calls(*draw(st.lists(CALL_IDS, min_size=1, max_size=4)), text=text)
    if kind == "invalid":
        call = {"type": "invalid_tool_call", "id": draw(CALL_IDS), "name": "grab", "args": "{", "error": None}
        return AIMessage(text, invalid_tool_calls=[call])
    return result(draw(CALL_IDS), text)


@given(history=st.lists(messages(), min_size=1, max_size=14), keep=st.integers(0, 6))
@settings(max_examples=150)
def test_the_view_of_any_history_is_pair_closed(history, keep):
    view = Bare(always(keep)).sync(history)
    found = [fault for fault in faults(view, first_human=False) if "system message" not in fault]
    expected = ["nothing but system messages"] if all(m.type in ("system", "tool", "ai") for m in history) else []
    assert [fault for fault in found if fault not in expected] == []
    known = {content_text(m) for m in history}
    assert all(content_text(m) in known for m in view if isinstance(m, AIMessage)), text_of(view)
