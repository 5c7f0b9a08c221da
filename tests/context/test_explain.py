from dataclasses import replace
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_memory.config import MemoryConfig
from langgraph_memory.context.budget import TokenBudget
from langgraph_memory.context.explain import ExplainedView, Shown, explained
from langgraph_memory.context.extract import NOTE
from langgraph_memory.context.history import History
from langgraph_memory.context.record import Arguments, Remembered, Scope, Sizes, Summary, Watermark
from langgraph_memory.context.render import render
from langgraph_memory.context.text import message_text
from langgraph_memory.context.tokens import load_counter
from tests.support.graphs import calls, chat, configured, result, rounds

COUNTER = load_counter("cl100k_base")


def explain(messages: list[AnyMessage], settings: dict[str, Any] | None = None, **decided: Any) -> ExplainedView:
    history, scope = History.of(messages, COUNTER), Scope(**decided)
    memory: MemoryConfig = configured(settings).memory
    budget = TokenBudget.of(32_000, counter=COUNTER, compaction=memory.compaction, pruning=memory.pruning)
    found = explained(history, scope, budget, memory)
    view = render(history, scope)
    assert [message.text for message in found.messages] == [message_text(message) for message in view.messages]
    assert sum(message.tokens for message in found.messages) == view.tokens
    for message in found.messages:
        assert message.why
        if message.pieces:
            assert sum(piece.tokens for piece in message.pieces) == message.tokens
            assert all(piece.why and piece.text in message.text for piece in message.pieces)
    return found


def summary(messages: list[AnyMessage], count: int, pin: tuple[str, ...] = (), text: str = "## SUMMARY\nit") -> Summary:
    history = History.of(messages, COUNTER)
    return Summary(text, (), count, history.digests[count - 1].hex(), history.keys[0], history.keys[count - 1], pin)


def by_id(view: ExplainedView) -> dict[Any, Shown]:
    return {message.id: message for message in view.messages}


def test_results_that_were_cut_name_the_threshold_they_are_above():
    shown = by_id(
        explain(
            [
                HumanMessage("go", id="h"),
                *rounds(1, chars=21_033),
                *rounds(1, chars=4000, start=1),
                *rounds(3, start=2),
            ],
            watermark=Watermark("r1", 3000, 10_000),
        )
    )
    clear, trim = shown["r0"], shown["r1"]
    assert clear.origin == "cleared" and trim.origin == "trimmed"
    assert clear.why == (
        "cleared: 21,033 characters > hard_clear_threshold 10,000, not among the newest 3 tool results"
    )
    assert "4,000 characters > soft_trim_chars 3,000" in trim.why


@pytest.mark.parametrize(
    ("settings", "name", "why"),
    [
        ({}, "grab", "not been worth min_reclaim_tokens 4,000"),
        ({}, "read_file", "read_file is in memory.pruning.exclude_tools"),
        ({}, "recall", "never pruned"),
        ({"pruning.enabled": False}, "grab", "pruning by size is off"),
        ({"pruning.protect_recent": 9}, "grab", "among the newest 9 tool results"),
        ({"pruning.soft_trim_chars": 9000}, "grab", "nothing is summarised yet"),
    ],
)
def test_a_long_result_that_was_not_cut_says_what_spared_it(settings, name, why):
    history = [HumanMessage("go", id="h"), *rounds(1, chars=8000, name=name), *rounds(3, start=1)]
    assert why in by_id(explain(history, settings))["r0"].why


def test_a_result_cut_under_pressure_says_so():
    history = [HumanMessage("go", id="h"), *rounds(1, chars=8000)]
    assert "so that the view fits the window" in by_id(explain(history, trims={"r0": 300}))["r0"].why


def test_a_summary_says_what_it_covers_and_the_request_beside_it_why_it_is_there():
    history = [*chat(6), HumanMessage("now this", id="now"), *rounds(3)]
    view = explain(history, summary=summary(history, 15, ("now",)))
    first = view.messages[0]
    assert first.origin == "summary" and view.covered == 15
    told, request = first.pieces
    assert told.why == "summary of messages 1–15, written by a model that the summary cache does not name"
    assert request.kind == "request" and request.text == "now this"
    assert request.why == "pinned request: message 13 opens the current turn"
    assert "within keep_recent_tokens" in by_id(view)["ai1"].why


def test_a_summary_without_a_model_or_a_text_says_so():
    history = chat(6)
    for text, why in ((f"{NOTE}\nit", "extracted without a model"), ("", "no room for one")):
        assert why in explain(history, summary=summary(history, 5, text=text)).messages[0].why


def test_messages_that_left_the_list_count_in_numbers_and_positions():
    history = chat(6)
    view = explain(history, summary=replace(summary(history, 5, ("q2",)), gone=100))
    assert view.messages[0].pieces[0].why.startswith("summary of messages 1–105,")
    assert view.messages[0].pieces[1].why.startswith("pinned request: message 105 opens the turn that the summary")
    assert view.messages[1].position == 105


def test_memories_are_pieces_of_the_message_they_stand_in():
    history = [*chat(1), HumanMessage("what now?", id="now")]
    remembered = Remembered("ada", "<curated_memory>\n- tea\n</curated_memory>", {"now": "<recalled_memory>x"})
    view = explain(history, remembered=remembered)
    first, _, last = view.messages
    assert [piece.kind for piece in first.pieces] == ["curated", "message"]
    assert [piece.kind for piece in last.pieces] == ["recalled", "request"]
    assert "inject_curated" in first.why and "opens the current turn" in last.why


def test_curated_memory_without_a_human_message_is_a_message_of_its_own():
    view = explain([AIMessage("hello", id="a")], remembered=Remembered("ada", "<curated_memory>x"))
    assert [message.origin for message in view.messages] == ["curated", "as it is"]


def test_synthetic_results_truncated_arguments_and_system_messages_have_their_reasons():
    call = AIMessage("", tool_calls=[{"name": "put", "args": {"text": "x" * 5000}, "id": "p"}], id="a")
    history = [SystemMessage("be kind", id="s"), HumanMessage("go", id="h"), call]
    view = explain(history, arguments=Arguments("a", 100))
    system, _, truncated, synthetic = view.messages
    assert "always sent" in system.why
    assert truncated.origin == "truncated" and "cut to 100 characters each" in truncated.why
    assert synthetic.origin == "synthetic" and "call p has no result" in synthetic.why


def test_what_is_not_sent_is_listed_with_the_reason():
    history = [
        HumanMessage("go", id="h"),
        ToolMessage("left over", tool_call_id="gone", id="orphan"),
        AIMessage("", id="blank"),
        calls("c", id="late"),
        HumanMessage("wait", id="h2"),
        result("c", id="moved"),
    ]
    view = explain(history)
    assert {left.id: left.why for left in view.left_out} == {
        "orphan": "a result whose call is not there",
        "blank": "it has neither text nor calls",
    }
    assert "though it came as message 6" in by_id(view)["moved"].why


def test_what_is_sent_beside_the_messages_is_known_by_its_size():
    assert explain(chat(1)).beside == []
    view = explain(chat(1), sizes=Sizes(window=32_000, system=120, tools=30))
    assert [(piece.kind, piece.tokens) for piece in view.beside] == [("system prompt", 120), ("tools", 30)]


def test_as_json_every_message_has_its_reason():
    row = explain(chat(1)).to_json()["messages"][0]
    assert row == {
        "position": 0,
        "id": "q0",
        "role": "human",
        "tokens": row["tokens"],
        "why": "request: opens the current turn, always sent",
        "text": row["text"],
        "from": "as it is",
    }
