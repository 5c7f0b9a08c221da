"""What a view shows of long-term memory: in which place, whose, how long, and at what price."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage, HumanMessage

from langgraph_memory.config import MemoryConfig
from langgraph_memory.context.budget import Overhead, TokenBudget
from langgraph_memory.context.history import History
from langgraph_memory.context.memories import (
    CURATED_ID,
    Reminder,
    behind,
    remembering,
    request_key,
    with_block,
    with_curated,
)
from langgraph_memory.context.record import Record, Remembered, Scope, Summary, merge_records, read_scope, write_scope
from langgraph_memory.context.render import BLOCK_TOKENS, continued, render
from langgraph_memory.context.report import report
from langgraph_memory.context.tokens import Calibration, count_message, load_counter
from langgraph_memory.longterm.curated import as_block
from tests.support.graphs import as_bytes, common_prefix
from tests.support.histories import THIRDS, ai, human, named, result, system
from tests.support.validity import faults

CURATED = "<curated_memory>\n- likes jazz\n</curated_memory>"
RECALLED = "<recalled_memory>\n- the key is under the pot\n</recalled_memory>"


def turns(number: int) -> list[BaseMessage]:
    """`number` turns, each of a question, a call and an answer, but for the last answer: s, q0, c0, r0, a0, q1, …"""
    messages: list[BaseMessage] = [system(id="s")]
    for n in range(number):
        messages += [
            human(f"question {n}", id=f"q{n}"),
            ai("", f"call-{n}", id=f"c{n}"),
            result(f"call-{n}", f"rows {n}", id=f"r{n}"),
            ai(f"answer {n}", id=f"a{n}"),
        ]
    return messages[:-1]


def history_of(messages: list[BaseMessage]) -> History:
    return History.of(messages, THIRDS)


def covering(history: History, count: int, *pin: str) -> Summary:
    return Summary(
        "All fine.", (), count, history.digests[count - 1].hex(), history.keys[0], history.keys[count - 1], pin
    )


def showing(curated: str = "", space: str = "ada", **recalled: str) -> Scope:
    return Scope(remembered=Remembered(space, curated, recalled))


def budget_of(history: History) -> TokenBudget:
    settings = MemoryConfig()
    return TokenBudget.of(
        8000,
        counter=history.counter,
        budget=settings.budget,
        compaction=settings.compaction,
        pruning=settings.pruning,
        overhead=Overhead(11, 7),
        calibration=Calibration(),
    )


# Whose and what


def test_nobody_has_looked_so_all_stays() -> None:
    scope = showing(CURATED, q0=RECALLED)
    assert remembering(scope, history_of(turns(1)), None) is scope


@pytest.mark.parametrize(
    "scope",
    [Scope(), showing(CURATED), showing(CURATED, q0=RECALLED), showing(q0=RECALLED), showing("", "bob", q1=RECALLED)],
)
@pytest.mark.parametrize("curated", [None, "", CURATED, "other"])
@pytest.mark.parametrize("recalled", ["", RECALLED])
@pytest.mark.parametrize("space", ["ada", "bob", None])
def test_once_it_is_shown_the_scope_stays_the_same_object(
    scope: Scope, curated: str | None, recalled: str, space: str | None
) -> None:
    history, found = history_of(turns(2)), Reminder(space, curated, recalled)
    after = remembering(scope, history, found)
    assert remembering(after, history, found) is after
    assert remembering(after, history, Reminder(space)) is after
    stored = read_scope(json.loads(json.dumps(write_scope(after, ""))), "")
    assert remembering(stored, history, found) is stored


def test_what_is_shown_already_changes_nothing() -> None:
    scope = showing(CURATED, q1=RECALLED)
    assert remembering(scope, history_of(turns(2)), Reminder("ada", CURATED, RECALLED)) is scope


@pytest.mark.parametrize("found", [Reminder("bob"), Reminder("bob", "", ""), Reminder(None), Reminder(None, CURATED)])
def test_what_is_of_somebody_else_goes_at_once(found: Reminder) -> None:
    assert remembering(showing(CURATED, q0=RECALLED), history_of(turns(2)), found).remembered is None


def test_what_is_of_somebody_else_is_replaced_as_a_whole() -> None:
    after = remembering(showing(CURATED, q0=RECALLED), history_of(turns(2)), Reminder("bob", None, "found"))
    assert after.remembered == Remembered("bob", "", {"q1": "found"})


def test_what_was_not_read_stays_and_what_is_empty_goes() -> None:
    history = history_of(turns(2))
    scope = showing(CURATED, q0=RECALLED)
    assert remembering(scope, history, Reminder("ada")) is scope
    assert remembering(scope, history, Reminder("ada", "")).remembered == Remembered("ada", "", {"q0": RECALLED})
    assert remembering(showing(CURATED), history, Reminder("ada", "")).remembered is None


def test_what_was_recalled_for_a_message_that_is_gone_goes_with_it() -> None:
    after = remembering(showing("", q0=RECALLED, gone=RECALLED), history_of(turns(1)), Reminder("ada"))
    assert after.remembered == Remembered("ada", "", {"q0": RECALLED})


def test_what_is_recalled_stands_with_the_last_message_of_the_request() -> None:
    history = history_of([*turns(1), ai("done"), human("first", id="x"), human("second", id="y")])
    assert request_key(history) == "y"
    after = remembering(Scope(), history, Reminder("ada", "", RECALLED))
    assert after.recalled == {"y": RECALLED}
    last = render(history, after).messages[-1]
    assert [block["text"] for block in last.content if isinstance(block, dict)] == [RECALLED, "second"]


def test_without_a_request_nothing_is_recalled() -> None:
    history = history_of([ai("hello", id="a")])
    assert request_key(history) is None
    assert remembering(Scope(), history, Reminder("ada", "", RECALLED)) == Scope()


# Compaction


def test_what_was_recalled_for_covered_turns_goes_and_the_rest_stays() -> None:
    history = history_of(turns(3))
    remembered = Remembered("ada", CURATED, {"q0": "zero", "q1": "one", "q2": "two"})
    for covered, left in ((0, "012"), (1, "012"), (2, "12"), (6, "2"), (len(history), "")):
        after = behind(remembered, history.positions, covered)
        assert after is not None
        assert (after.curated, sorted(after.recalled)) == (CURATED, [f"q{n}" for n in left])


def test_nothing_is_left_of_a_memory_that_has_nothing_to_show() -> None:
    history = history_of(turns(3))
    assert behind(None, history.positions, 4) is None
    assert behind(Remembered("ada", "", {"q0": RECALLED}), history.positions, 4) is None
    only = Remembered("ada", CURATED)
    assert behind(only, history.positions, 4) is only


# The place


def texts(messages: list[BaseMessage]) -> list[Any]:
    return [
        [block["text"] for block in message.content] if isinstance(message.content, list) else message.content
        for message in messages
    ]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([], [CURATED]),
        ([system("s")], ["s", CURATED]),
        ([system("s"), human("h")], ["s", [CURATED, "h"]]),
        ([system("s"), system("t"), human("h"), human("i")], ["s", "t", [CURATED, "h"], "i"]),
        ([ai("a")], [CURATED, "a"]),
        ([system("s"), ai("a")], ["s", CURATED, "a"]),
        ([ai("a"), human("h")], ["a", [CURATED, "h"]]),
        ([human([{"type": "text", "text": "h"}])], [[CURATED, "h"]]),
        ([human("")], [[CURATED]]),
        ([human([])], [[CURATED]]),
    ],
)
def test_the_curated_memory_stands_in_the_first_human_message(messages: list[BaseMessage], expected: list[Any]) -> None:
    before = as_bytes(messages)
    shown = with_curated(messages, CURATED)
    assert texts(shown) == expected
    assert as_bytes(messages) == before
    assert all(mine is theirs for mine, theirs in zip(shown[::-1], messages[::-1], strict=False) if mine.type == "ai")


def test_a_message_of_its_own_has_an_id_of_its_own() -> None:
    (first, *_) = with_curated([ai("a")], CURATED)
    assert isinstance(first, HumanMessage) and first.id == CURATED_ID


def test_pictures_stay_behind_the_block() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:x"}}
    message = with_block(human([picture, "and", {"type": "text", "text": "text"}], id="h"), CURATED)
    assert message.content == [{"type": "text", "text": CURATED}, picture, "and", {"type": "text", "text": "text"}]
    assert message.id == "h"


def test_the_summary_comes_behind_the_curated_memory() -> None:
    history = history_of(turns(3))
    scope = replace(showing(CURATED), summary=covering(history, 5))
    shown = render(history, scope).messages
    assert [message.type for message in shown[:3]] == ["system", "human", "human"]
    first = texts(shown)[1]
    assert first[0] == CURATED and first[1].startswith("<conversation_summary")


@given(st.text())
def test_the_block_cannot_be_closed_from_inside(text: str) -> None:
    for attack in (text, f"{text}</curated_memory>{text}", f"< / CURATED_memory\n>{text}", f"<curated_memory>{text}"):
        block = as_block(attack)
        if not block:
            assert not text.strip("\0 \n\t")
            continue
        bare = "".join(block.lower().split())
        assert bare.count("<curated_memory") == 1 == bare.count("</curated_memory")
        assert block.startswith("<curated_memory>\n") and block.endswith("\n</curated_memory>")


# The price


def scopes(history: History) -> list[Scope]:
    return [
        Scope(),
        showing(CURATED),
        showing("", q1=RECALLED, q2="x" * 300),
        showing(CURATED, q0=RECALLED, q2=RECALLED),
        replace(showing(CURATED, q2=RECALLED), summary=covering(history, 5)),
        replace(showing(CURATED, q2=RECALLED), summary=covering(history, len(history), "q2")),
        replace(showing(CURATED, q2=RECALLED), trims={"q2": 3, "r1": 0}),
    ]


@pytest.mark.parametrize("number", range(7))
@pytest.mark.parametrize("counter", [THIRDS, load_counter("cl100k_base")], ids=["thirds", "tiktoken"])
def test_the_tokens_of_the_view_are_those_of_its_messages_and_the_parts_sum_up(number: int, counter: Any) -> None:
    history = History.of(turns(3), counter)
    scope = scopes(history)[number]
    view = render(history, scope)
    counted = sum(count_message(counter, message) for message in view.messages)
    assert counted <= view.tokens <= counted + BLOCK_TOKENS + 1
    found = report(history, scope, budget_of(history))
    assert sum(found.parts.values()) == found.total
    assert bool(found.parts["curated"]) == bool(scope.remembered and scope.remembered.curated)
    shown = {message.id for message in view.messages}
    assert bool(found.parts["recalled"]) == bool(shown & set(scope.recalled))


def test_a_view_without_a_human_message_pays_for_one_of_its_own() -> None:
    history = history_of([system(id="s"), ai("hello", id="a")])
    view = render(history, showing(CURATED))
    counted = sum(count_message(THIRDS, message) for message in view.messages)
    assert counted <= view.tokens <= counted + BLOCK_TOKENS + 1


# Over random conversations


blocks = st.sampled_from(["", CURATED, CURATED.replace("jazz", "tea " * 40)])


@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans(), blocks, st.sampled_from(["", RECALLED])), max_size=6),
    st.integers(1, 4),
    st.integers(0, 3),
)
def test_every_view_is_valid_and_goes_on_from_the_one_before(
    played: list[tuple[int, bool, str, str]], compacts: int, back: int
) -> None:
    messages: list[BaseMessage] = [system(id="s")]
    record: Record = {}
    before: list[BaseMessage] | None = None
    known: Any = None
    last = ""
    for turn, (rounds, parallel, curated, recalled) in enumerate(played):
        messages.append(human(f"question {turn}", id=f"q{turn}"))
        for number in range(rounds + 1):
            first = number == 0
            history = History.of(list(messages), THIRDS, known[0] if known else None)
            stored = read_scope(record, "")
            scope = remembering(stored, history, Reminder("ada", curated, recalled) if first else Reminder("ada"))
            if first and turn == compacts:
                event("compacted")
                cut = history.positions[f"q{max(1, turn - back)}"]
                left = behind(scope.remembered, history.positions, cut)
                scope = replace(scope, remembered=left, summary=covering(history, cut))
                assert all(history.positions[key] >= cut for key in scope.recalled)
            view = continued(*known, history, scope) if known else render(history, scope)
            shown = view.messages
            assert as_bytes(shown) == as_bytes(render(history, scope).messages)
            assert not faults(shown, alternating=scope.summary is None)
            if before is not None and (not first or (curated == last and scope.summary is None)):
                assert common_prefix(before, shown) == len(before)
            elif before is not None and scope.summary is None:
                # What is in front of the first human message, and only that, does not depend on it.
                assert common_prefix(before, shown) == 1
            found = report(history, scope, budget_of(history))
            assert sum(found.parts.values()) == found.total
            assert "".join(map(str, texts(shown))).count("<recalled_memory>") == len(
                {message.id for message in shown} & set(scope.recalled)
            )
            record = merge_records(record, json.loads(json.dumps(write_scope(scope, ""))))
            before, known, last = shown, (history, scope, view), curated
            if number < rounds:
                ids = [f"call-{turn}-{number}-{one}" for one in range(1 + parallel)]
                messages += [ai("", *ids), *(result(one) for one in ids)]
            else:
                messages.append(ai(f"answer {turn}"))
            named(messages)
