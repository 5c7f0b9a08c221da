"""Covered messages leave the list: the view stays the same byte for byte, and so do the decisions after it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langgraph_memory.context.history import History
from langgraph_memory.context.leave import leaving, without
from langgraph_memory.context.record import Scope, Summary, fitted, read_scope, write_scope
from langgraph_memory.context.render import render
from tests.support.graphs import as_bytes, calls, chat, result, rounds
from tests.support.histories import Thirds

COUNTER: Any = Thirds()


def covered(messages: list[BaseMessage], count: int, *pin: str) -> tuple[History, Scope]:
    history = History.of(messages, COUNTER)
    last = history.digests[count - 1].hex()
    summary = Summary("It went well.", ("a.txt",), count, last, history.keys[0], history.keys[count - 1], pin)
    return history, Scope(summary=summary, since=(history.keys[-1], history.digests[-1].hex()))


def left(history: History, scope: Scope) -> tuple[History, Scope]:
    return without(history, scope, leaving(history, scope))


MIXED: list[BaseMessage] = [
    SystemMessage("be kind", id="s0"),
    *chat(3),
    HumanMessage("the request", id="h"),
    *rounds(4),
    SystemMessage("be brief", id="s1"),
    calls("x", "y", id="ai"),
    result("x", id="rx"),
    result("y", id="ry"),
    AIMessage("done", id="end"),
]


@pytest.mark.parametrize("count,pin", [(7, ()), (8, ("h",)), (12, ("h",)), (17, ("h",)), (20, ("h",)), (21, ("h",))])
def test_the_view_stays_the_same_and_the_list_gets_short(count, pin):
    history, scope = covered(MIXED, count, *pin)
    remaining, anchored = left(history, scope)
    assert as_bytes(render(remaining, anchored).messages) == as_bytes(render(history, scope).messages)
    assert render(remaining, anchored).tokens == render(history, scope).tokens
    assert len(remaining) < len(history) - count + 5
    assert fitted(anchored, remaining) is anchored


def test_what_the_view_still_shows_and_the_anchor_stay():
    history, scope = covered(MIXED, 17, "h")
    remaining, _ = left(history, scope)
    assert remaining.keys == ["s0", "h", "s1", *history.keys[17:]]
    history, scope = covered(MIXED, 16, "h")
    assert left(history, scope)[0].keys[:3] == ["s0", "h", "r3"]


def test_nobody_leaves_twice_and_the_count_is_of_all_that_ever_were_there():
    history, scope = covered(MIXED, 12, "h")
    remaining, anchored = left(history, scope)
    assert leaving(remaining, anchored) == ()
    assert anchored.summary and anchored.summary.count + anchored.summary.gone == 12
    assert 'messages="12"' in str(render(remaining, anchored).messages[1].content)


def test_the_anchor_survives_the_record_and_is_lost_with_another_list():
    history, scope = covered(MIXED, 12, "h")
    remaining, anchored = left(history, scope)
    read = read_scope(write_scope(anchored, ""), "")
    assert read == anchored
    other = History.of([m for m in remaining.messages if m.id != "h"], COUNTER)
    assert fitted(read, other).summary is None
    assert fitted(read, history).summary is None


@pytest.mark.parametrize("ids", [None, "same"])
def test_nothing_leaves_a_list_whose_messages_cannot_be_named(ids):
    messages: list[BaseMessage] = [HumanMessage("a", id="a"), AIMessage("b", id=ids), *chat(3)]
    messages.insert(1, HumanMessage("c", id=ids))
    history, scope = covered(messages, 6)
    assert leaving(history, scope) == ()


def test_without_a_summary_nothing_leaves():
    assert leaving(History.of(MIXED, COUNTER), Scope()) == ()


@given(st.integers(2, 30), st.integers(0, 8), st.integers(1, 6))
def test_messages_that_left_bit_by_bit_give_the_view_of_those_that_left_at_once(turns, more, step):
    messages = list(chat(turns + more))
    whole, scope = covered(messages, 2 * turns)
    once, at_once = left(whole, scope)
    history, now = covered(messages, 2 * step if step < turns else 2 * turns)
    history, now = left(history, now)
    while now.summary and now.summary.count + now.summary.gone < 2 * turns:
        before, total = now.summary, now.summary.count + now.summary.gone
        end = min(total + 2 * step, 2 * turns) - before.gone
        digest, last = history.digests[end - 1].hex(), history.keys[end - 1]
        now = Scope(summary=Summary(before.text, before.artifacts, end, digest, before.first, last, (), before.gone))
        history, now = left(history, now)
    assert as_bytes(render(history, now).messages) == as_bytes(render(once, at_once).messages)
