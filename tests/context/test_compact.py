"""Where a history is cut: between units, keeping what was asked for, the request pinned; and what replaces the rest."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage

from langgraph_memory.config import CompactionConfig
from langgraph_memory.context.budget import Overhead, TokenBudget
from langgraph_memory.context.compact import Cut, Cuts, compacted, cuts, outline
from langgraph_memory.context.extract import NOTE
from langgraph_memory.context.history import History
from langgraph_memory.context.record import Scope, Summary
from langgraph_memory.context.render import render
from langgraph_memory.context.summarize import Ask, Recipe, Rejected, usable
from tests.support.histories import THIRDS, ai, human, named, result, system

RECIPE = Recipe(window=8000, room=500, most=500)


def budget_of(window: int, config: CompactionConfig) -> TokenBudget:
    return TokenBudget.of(window, counter=THIRDS, compaction=config, overhead=Overhead(0, 0))


def cuts_of(messages: list[BaseMessage], *, window: int = 8000, scope: Scope | None = None, **keys: Any) -> Cuts:
    history, config = History.of(messages, THIRDS), CompactionConfig(**keys)
    decided = scope or Scope()
    return cuts(history, decided, render(history, decided), budget_of(window, config), config)


def kept_from(messages: list[BaseMessage], **keys: Any) -> int:
    """Where the usual cut falls; 0 where there is none."""
    cut = cuts_of(messages, **keys).usual
    return cut.end if cut else 0


def chat(turns: int, size: int = 30) -> list[BaseMessage]:
    """Turns of a question and an answer of `size` tokens each."""
    text = "w" * (3 * size - 15)
    return named([message for _ in range(turns) for message in (human(text), ai(text))])


def rounds(count: int, parallel: int = 1, size: int = 30) -> list[BaseMessage]:
    text = "r" * (3 * size - 40)
    ids = [f"c{number}" for number in range(parallel)]
    return [message for _ in range(count) for message in (ai("", *ids), *(result(each, text) for each in ids))]


def parts_a_pair(messages: list[BaseMessage], end: int) -> bool:
    asked = {call["id"] for message in messages[:end] if message.type == "ai" for call in message.tool_calls}  # type: ignore[attr-defined]
    answered = {message.tool_call_id for message in messages[:end] if message.type == "tool"}  # type: ignore[attr-defined]
    return asked != answered


# How much is kept


@pytest.mark.parametrize(("keep", "messages"), [(30, 1), (60, 2), (89, 2), (90, 3), (300, 10), (599, 19)])
def test_as_many_tokens_are_kept_as_configured(keep: int, messages: int) -> None:
    thread = [human("Go.", "m"), *(ai("w" * 75, id=f"a{n}") for n in range(40))]
    assert len(thread) - kept_from(thread, keep_recent_tokens=keep, window=80_000) == messages


@pytest.mark.parametrize("keep", [0, 1, 10, 29])
def test_the_newest_unit_is_kept_however_large(keep: int) -> None:
    thread = named([*chat(10), ai("", "a", "b"), result("a", "x" * 9000), result("b", "y" * 9000)])
    assert kept_from(thread, keep_recent_tokens=keep) == 20


def test_keep_recent_tokens_is_capped_below_the_trigger() -> None:
    """window 8 000, 9 000 tokens of chat: 20 000 would cover everything, a quarter of the window is kept."""
    thread = chat(150)
    history, end = History.of(thread, THIRDS), kept_from(thread, keep_recent_tokens=20_000, window=8000)
    assert 1900 < history.span(end, 300) <= 2000


@pytest.mark.parametrize("keep", [1, 3, 5, 7, 17])
def test_as_many_messages_are_kept_as_configured(keep: int) -> None:
    """An odd number, so that the kept part begins with an answer."""
    assert 20 - kept_from(chat(10), keep_messages=keep) == keep


def test_a_kept_part_never_begins_with_a_human_message() -> None:
    """Its run goes into the one human message of the summary, verbatim, so that roles alternate."""
    thread = named([*chat(8), human("one"), human("two"), ai("x"), ai("y")])
    found = cuts_of(thread, keep_messages=4)
    assert found.usual is not None
    assert (found.usual.end, found.usual.pin) == (18, (16, 17))


def test_messages_are_counted_in_whole_units() -> None:
    thread = named([human(), *rounds(5, parallel=3)])
    assert [kept_from(thread, keep_messages=keep) for keep in (1, 4, 5, 7, 8, 11, 12)] == [17, 17, 17, 17, 13, 13, 9]


@pytest.mark.parametrize("turns", [1, 2, 5])
def test_as_many_turns_are_kept_as_configured(turns: int) -> None:
    thread = named([message for _ in range(8) for message in (human("a"), human("b"), *rounds(2), ai("Done."))])
    end = kept_from(thread, keep_turns=turns)
    size = len(thread) // 8
    first = len(thread) - turns * size
    assert end == first + 2, "the turn's opening run is pinned, the rest is kept"
    assert thread[end].type == "ai"
    found = cuts_of(thread, keep_turns=turns).usual
    assert found is not None and found.pin == (first, first + 1)


def test_more_turns_than_there_are_keep_everything_but_the_request() -> None:
    found = cuts_of(chat(3), keep_turns=9)
    assert found.usual is None or found.usual.end == 1


def test_nothing_to_cut_gives_no_cuts() -> None:
    assert cuts_of([]) == Cuts(None, None, None, None)
    assert cuts_of([]).keeping == []
    one = cuts_of(named([human()]))
    assert one.newest is None or one.newest.frees <= 0


# Where cuts fall


@pytest.mark.parametrize("parallel", [1, 2, 4, 12])
@pytest.mark.parametrize("keep", range(1, 30))
def test_no_cut_parts_a_call_from_its_result(parallel: int, keep: int) -> None:
    thread = named([*chat(2), human("go"), *rounds(6, parallel), ai("sum"), human("go on"), *rounds(2, parallel)])
    found = cuts_of(thread, keep_messages=keep)
    for cut in (found.careful, found.usual, found.newest, found.everything):
        assert cut is None or not parts_a_pair(thread[: cut.end], cut.end)


def test_trailing_results_above_the_keep_budget_do_not_stop_the_cut() -> None:
    """30 old messages, four results of 6 000 tokens, keep 20 000, window 27 000: the older 30 go."""
    thread = named([*chat(15), ai("", "a", "b", "c", "d"), *(result(each, "x" * 18_000) for each in "abcd")])
    assert kept_from(thread, keep_recent_tokens=20_000, window=27_000) == 30


def test_an_orphan_is_covered_with_what_stands_before_it() -> None:
    thread = named(
        [human("start"), ai("", "b"), result("b"), result("a", "left over"), ai("noted"), human("next"), ai("fine")]
    )
    for keep in range(1, 8):
        assert kept_from(thread, keep_messages=keep) != 3


@pytest.mark.parametrize("between", [[result("gone")], [ai("")], [ai(" \n"), result("gone")], [ai("x", None)]])
def test_what_is_not_shown_does_not_hide_a_human_message_behind_the_cut(between: list[BaseMessage]) -> None:
    thread = named([*chat(5), ai("old"), *between, human("now"), ai("y"), ai("z")])
    history = History.of(thread, THIRDS)
    for keep in range(1, 9):
        cut = cuts_of(thread, keep_messages=keep).usual
        assert cut is not None
        view = render(history, Scope(summary=outline(history, cut, None))).messages
        assert [message.type for message in view[:2]] == ["human", "ai"]


@pytest.mark.parametrize("since", [0, 1, 6])
def test_a_call_that_may_still_be_answered_and_all_behind_it_is_kept_if_possible(since: int) -> None:
    thread = named([*chat(10), ai("", "p9"), *(human(f"{number}") for number in range(since)), ai("x"), ai("y")])
    found = cuts_of(thread, keep_messages=1)
    assert found.careful is not None and found.usual is not None
    assert found.careful.end == 20
    assert found.usual.end == len(thread) - 1
    assert [cut.end for cut in found.keeping] == [20, len(thread) - 1]


def test_an_invalid_call_is_not_waited_for() -> None:
    broken = ai("", id="z")
    broken.invalid_tool_calls = [{"name": "dock", "args": "{", "id": "z1", "error": None, "type": "invalid_tool_call"}]
    thread = named([*chat(10), broken, ai("x"), ai("y"), ai("z")])
    found = cuts_of(thread, keep_messages=1)
    assert found.careful == found.usual
    assert found.careful is not None and found.careful.end == 23


@pytest.mark.parametrize("broken", [{"id": None, "name": "dock_list"}, {"id": "x", "name": ""}])
def test_a_call_that_is_not_shown_is_not_waited_for(broken: dict[str, Any]) -> None:
    unseen = AIMessage("", tool_calls=[{"args": {}, **broken}])
    thread = named([*chat(3), unseen, *chat(10)])
    found = cuts_of(thread, keep_messages=3)
    assert found.careful == found.usual


def test_cuts_fall_behind_the_summary_there_is() -> None:
    thread = chat(20)
    history = History.of(thread, THIRDS)
    first = cuts_of(thread, keep_messages=25).usual
    assert first is not None
    scope = Scope(summary=outline(history, first, None))
    assert cuts_of(thread, scope=scope, keep_messages=25).usual is None
    deeper = cuts_of(thread, scope=scope, keep_messages=5).usual
    assert deeper is not None
    covered = history.span(first.end, deeper.end) - sum(history.tokens[at] for at in deeper.pin)
    assert deeper.frees == covered + sum(history.tokens[at] for at in first.pin)


# What is pinned


@pytest.mark.parametrize("rounds_since", [1, 5, 40])
def test_the_request_of_the_turn_is_pinned_when_the_cut_falls_in_it(rounds_since: int) -> None:
    thread = named([*chat(2), human("book berth 9"), human("for 04:30"), *rounds(rounds_since + 3)])
    found = cuts_of(thread, keep_messages=2)
    assert found.usual is not None
    assert found.usual.pin == (4, 5)
    assert found.usual.frees == History.of(thread, THIRDS).span(0, found.usual.end) - sum(
        History.of(thread, THIRDS).tokens[4:6]
    )


def test_a_request_that_stands_in_the_kept_part_is_not_pinned() -> None:
    thread = named([human("w" * 9000), ai("x" * 600), ai("old"), human("new"), ai("y"), ai("z")])
    found = cuts_of(thread, keep_messages=4, window=8000)
    assert found.usual is not None
    if found.usual.end <= 3:
        assert found.usual.pin == ()


def test_a_cut_that_covers_only_the_pinned_request_is_none() -> None:
    thread = named([human("w" * 700), ai("", "a"), result("a", "x" * 9000)])
    found = cuts_of(thread)
    assert all(cut.frees <= 0 for cut in (found.careful, found.usual, found.newest) if cut)


def test_behind_everything_only_the_request_is_pinned() -> None:
    thread = named([*chat(3), human("now"), *rounds(2)])
    everything = cuts_of(thread).everything
    assert everything is not None
    assert (everything.end, everything.pin) == (len(thread), (6,))


# What stands for the covered part


def made(
    messages: list[BaseMessage],
    cut_keys: dict[str, Any],
    answer: str | Rejected,
    *,
    room: int = 400,
    scope: Scope | None = None,
) -> tuple[Summary, str, list[Ask]]:
    history, answers, asks = History.of(messages, THIRDS), dict[str, str | Rejected](), list[Ask]()
    scope = scope or Scope()
    cut = cuts_of(messages, scope=scope, **cut_keys).usual
    assert isinstance(cut, Cut)
    while isinstance(outcome := compacted(history, scope, cut, room, room, RECIPE, answers), Ask):
        asks.append(outcome)
        answers[outcome.digest] = answer
    return (*outcome, asks)


def test_an_accepted_answer_becomes_the_summary() -> None:
    thread = named([human("See /srv/port/plan.txt"), *chat(10)[1:]])
    summary, rung, asks = made(thread, {"keep_messages": 3}, "Pier B was chosen.")
    history = History.of(thread, THIRDS)
    assert (rung, summary.text, len(asks)) == ("summariser", "Pier B was chosen.", 1)
    assert (summary.count, summary.first, summary.last) == (17, "m0", "m16")
    assert summary.digest == history.digests[16].hex()
    assert "path: /srv/port/plan.txt" in summary.artifacts


def test_after_two_rejections_the_summary_is_extracted() -> None:
    thread = named([human("Plan the port."), *chat(30, 900)[1:]])
    summary, rung, asks = made(thread, {"keep_messages": 3}, Rejected("429"))
    assert rung == "extract"
    assert len({ask.digest for ask in asks}) == len(asks) == 2
    assert summary.text.startswith(NOTE) and "Plan the port." in summary.text
    assert THIRDS.text(summary.text) <= 400


@pytest.mark.parametrize("room", [1, 2, 5, 10, 30])
def test_a_summary_says_something_or_is_a_bare_marker(room: int) -> None:
    summary, rung, asks = made(chat(20), {"keep_messages": 3}, "Pier B.", room=room)
    assert asks == []
    assert usable(summary.text) if rung == "extract" else summary.text == ""


@pytest.mark.parametrize("room", [0, -5])
def test_where_no_text_fits_a_marker_without_text_stands_for_the_rest(room: int) -> None:
    summary, rung, asks = made(chat(20), {"keep_messages": 3}, "Pier B.", room=room)
    assert (summary.text, rung, asks) == ("", "marker", [])
    assert summary.count == 37


@pytest.mark.parametrize("room", [40, 100, 200, 400, 1000])
def test_text_and_artifacts_together_stay_in_their_room(room: int) -> None:
    paths = [human(f"See /srv/port/<messages>/plan-{number}.txt and TK-{number}") for number in range(60)]
    thread = named([message for path in paths for message in (path, ai("</conversation_summary> ok " * 9))])
    summary, _, _ = made(thread, {"keep_messages": 3}, Rejected("429"), room=room)
    history = History.of(thread, THIRDS)
    bare = Summary("", (), summary.count, summary.digest, summary.first, summary.last, summary.pin)
    full, empty = (render(history, Scope(summary=each)).tokens for each in (summary, bare))
    assert full - empty <= room + 2


def test_a_second_summary_is_made_of_the_first_and_what_is_newly_covered() -> None:
    thread = chat(20)
    for number, message in enumerate(thread):
        message.content = f"MARK{number}X {message.content}"
    first, _, _ = made(thread, {"keep_messages": 25}, "Pier A is closed.")
    scope = Scope(summary=first)
    second, _, (ask,) = made(thread, {"keep_messages": 5}, "Pier A is open again.", scope=scope)
    assert "Pier A is closed." in ask.prompt
    assert [f"MARK{n}X" in ask.prompt for n in range(40)] == [first.count <= n < second.count for n in range(40)]
    assert (second.text, second.first) == ("Pier A is open again.", "m0")


@pytest.mark.parametrize("text", ["", "<call name=dock><arg>7</arg></call>"])
def test_a_first_summary_that_is_not_usable_is_made_again_from_the_start(text: str) -> None:
    thread = chat(20)
    for number, message in enumerate(thread):
        message.content = f"MARK{number}X {message.content}"
    history = History.of(thread, THIRDS)
    cut = cuts_of(thread, keep_messages=25).usual
    assert cut is not None
    broken = Summary(text, (), cut.end, history.digests[cut.end - 1].hex(), "m0", history.keys[cut.end - 1])
    _, _, asks = made(thread, {"keep_messages": 5}, "Pier A.", scope=Scope(summary=broken))
    assert "MARK0X" in asks[0].prompt


def test_artifacts_of_the_first_summary_are_carried_on() -> None:
    thread = named([human("See /srv/port/plan.txt"), *chat(20)[1:30], human("And /srv/new.txt"), *chat(5)[1:]])
    first, _, _ = made(thread, {"keep_messages": 25}, "Pier A.")
    second, _, _ = made(thread, {"keep_messages": 3}, "Pier B.", scope=Scope(summary=first))
    assert set(second.artifacts) >= {"path: /srv/port/plan.txt", "path: /srv/new.txt"}


def test_system_messages_are_covered_without_being_lost() -> None:
    thread = named([system("Never quote prices."), *chat(6)])
    summary, _, _ = made(thread, {"keep_messages": 1}, "Pier B.")
    view = render(History.of(thread, THIRDS), Scope(summary=summary)).messages
    assert view[0] is thread[0]
    assert summary.count == 12
