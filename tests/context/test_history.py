"""A history derived again from the one before is the history derived anew, whatever happened to the messages."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_memory.context.history import MEMO_SIZE, TURNS, WATCHED, History
from langgraph_memory.context.tokens import MESSAGE_TOKENS, count_message
from tests.support.histories import THIRDS, Remembering, ai, human, named, result, system


def rows(history: History) -> list[Any]:
    return [history.keys, history.digests, history.tokens, history.sums, history.positions, history.systems]


def conversation() -> list[BaseMessage]:
    return named(
        [
            system(),
            human("Which berth is free?"),
            ai([{"type": "text", "text": "I look."}], "c1", "c2"),
            result("c1", "4 berths"),
            result("c2", [{"type": "text", "text": "berth 9"}]),
            ai("Berth 9."),
        ]
    )


class Counting(Remembering):
    """Remembers, so `known` tells which texts had to be counted."""


def test_an_empty_history_has_no_rows() -> None:
    history = History.of([], THIRDS)
    assert (len(history), history.sums, history.systems) == (0, [0], ())


def test_each_message_is_counted_as_it_stands() -> None:
    messages = conversation()
    history = History.of(messages, THIRDS)
    assert history.tokens == [count_message(THIRDS, message) for message in messages]
    assert history.tokens[1] == MESSAGE_TOKENS + len("Which berth is free?") // 3 + 1
    assert history.span(2, 5) == sum(history.tokens[2:5])
    assert history.span(0, 6) == sum(history.tokens)
    assert history.span(3, 3) == 0


def test_keys_are_message_ids() -> None:
    history = History.of(conversation(), THIRDS)
    assert history.keys == ["m0", "m1", "m2", "m3", "m4", "m5"]
    assert history.positions == {f"m{n}": n for n in range(6)}


@pytest.mark.parametrize("id", [None, ""])
def test_a_message_without_id_gets_a_key_of_its_prefix(id: str | None) -> None:
    history = History.of([human("a", id), human("a", id)], THIRDS)
    assert len(set(history.keys)) == 2
    assert [key[0] for key in history.keys] == ["#", "#"]
    assert history.keys == [f"#{digest.hex()}" for digest in history.digests]


def test_an_id_seen_before_does_not_name_a_second_message() -> None:
    history = History.of([human("a", "same"), ai("b", id="x"), human("c", "same")], THIRDS)
    assert history.keys[0] == "same"
    assert history.keys[2] != "same"
    assert history.positions["same"] == 0


def test_systems_are_found_anywhere() -> None:
    assert History.of([system(), human(), system("Later rule.")], THIRDS).systems == (0, 2)


@pytest.mark.parametrize(
    "other",
    [
        human("other", "m1"),
        human("Which berth is free?", "other"),
        ai("Which berth is free?", id="m1"),
        human([{"type": "text", "text": "Which berth is free?"}], "m1"),
    ],
)
def test_another_message_gives_another_digest_from_there_on(other: BaseMessage) -> None:
    messages = conversation()
    one = History.of(messages, THIRDS)
    two = History.of([messages[0], other, *messages[2:]], THIRDS)
    assert two.digests[0] == one.digests[0]
    assert all(a != b for a, b in zip(one.digests[1:], two.digests[1:], strict=True))


def test_the_same_messages_at_another_place_have_another_digest() -> None:
    messages = conversation()
    assert History.of(messages, THIRDS).digests[1] != History.of(messages[1:], THIRDS).digests[0]


@pytest.mark.parametrize("field", ["args", "name", "id"])
def test_another_call_is_another_message(field: str) -> None:
    other = {"args": {"pier": "A"}, "name": "dock_move", "id": "c9"}
    call = {"name": "dock_list", "args": {"pier": "B"}, "id": "c1"}
    one, two = (AIMessage("", tool_calls=[calls], id="m") for calls in (call, {**call, field: other[field]}))
    assert History.of([one], THIRDS).digests != History.of([two], THIRDS).digests


def test_metadata_does_not_change_the_digest() -> None:
    plain = ai("Berth 9.", id="m")
    rich = AIMessage("Berth 9.", id="m", response_metadata={"model_name": "a"}, additional_kwargs={"x": 1})
    assert History.of([plain], THIRDS).digests == History.of([rich], THIRDS).digests


@pytest.mark.parametrize("text", ["泊位", "رصيف", "👩‍💻🇳🇴", "e\u0301", "half \ud83d pair", "\x00"])
def test_any_text_has_a_digest(text: str) -> None:
    messages = [human(text), ai([{"type": "text", "text": text}, text]), result("c", text)]
    history = History.of(messages, THIRDS)
    assert len({*history.digests}) == 3
    assert rows(History.of(copy.deepcopy(messages), THIRDS)) == rows(history)


def test_arguments_that_are_no_json_have_a_digest() -> None:
    message = AIMessage("", tool_calls=[{"name": "dock", "args": {"raw": b"\xff", "set": (1, 2)}, "id": "c"}])
    assert History.of([message], THIRDS).digests == History.of([copy.deepcopy(message)], THIRDS).digests


# Reuse


def test_the_same_list_gives_the_same_rows_and_counts_nothing() -> None:
    messages, counter = conversation(), Counting(THIRDS)
    first = History.of(messages, counter)
    counter.known.clear()
    second = History.of(list(messages), counter, first)
    assert second.keys is first.keys
    assert counter.known == {}


def test_appended_messages_are_counted_alone() -> None:
    messages, counter = conversation(), Counting(THIRDS)
    first = History.of(messages, counter)
    counter.known.clear()
    second = History.of([*messages, human("And berth 10?", "m6")], counter, first)
    assert set(counter.known) == {"And berth 10?"}
    assert len(first) == 6
    assert rows(first) == rows(History.of(messages, THIRDS))
    assert rows(second) == rows(History.of(second.messages, THIRDS))


def test_equal_copies_count_as_the_same_messages_and_bring_the_newest_metadata() -> None:
    messages, counter = conversation(), Counting(THIRDS)
    first = History.of(messages, counter)
    copies = copy.deepcopy(messages)
    copies[-1].response_metadata = {"model_name": "a"}
    counter.known.clear()
    second = History.of(copies, counter, first)
    assert counter.known == {}
    assert second.messages[-1].response_metadata == {"model_name": "a"}


def test_another_counter_counts_anew() -> None:
    messages, other = conversation(), Counting(THIRDS)
    assert History.of(messages, other, History.of(messages, THIRDS)).counter is other
    assert other.known


def test_a_history_survives_later_changes_to_the_list_it_was_made_of() -> None:
    messages = conversation()
    history = History.of(tuple(messages), THIRDS)
    messages.pop()
    assert len(history) == 6


def removed(messages: list[BaseMessage], at: int) -> list[BaseMessage]:
    return messages[:at] + messages[at + 1 :]


def edited(messages: list[BaseMessage], at: int) -> list[BaseMessage]:
    return [*messages[:at], messages[at].model_copy(update={"content": "edited"}), *messages[at + 1 :]]


def inserted(messages: list[BaseMessage], at: int) -> list[BaseMessage]:
    return [*messages[:at], human("inserted", "new"), *messages[at:]]


def shortened(messages: list[BaseMessage], at: int) -> list[BaseMessage]:
    return messages[:at]


def changed_in_place(messages: list[BaseMessage], at: int) -> list[BaseMessage]:
    messages[at].content = "changed in place"
    return messages


def block_changed_in_place(messages: list[BaseMessage], at: int) -> list[BaseMessage]:
    content = messages[at].content
    if isinstance(content, list):
        content[0]["text"] = "changed in place"  # type: ignore[index]
    return messages


def call_changed_in_place(messages: list[BaseMessage], at: int) -> list[BaseMessage]:
    """As people do who approve a call after editing its arguments."""
    message = messages[at]
    if isinstance(message, AIMessage) and message.tool_calls:
        message.tool_calls[0]["args"]["pier"] = "A, and then the whole of pier B"
    return messages


def calls_replaced_in_place(messages: list[BaseMessage], at: int) -> list[BaseMessage]:
    message = messages[at]
    if isinstance(message, AIMessage):
        message.tool_calls = [{"name": "dock_move", "args": {}, "id": "c1", "type": "tool_call"}]
    return messages


def call_added_in_place(messages: list[BaseMessage], at: int) -> list[BaseMessage]:
    message = messages[at]
    if isinstance(message, AIMessage):
        message.tool_calls.append({"name": "dock_move", "args": {}, "id": "c9", "type": "tool_call"})
    return messages


def id_given_in_place(messages: list[BaseMessage], at: int) -> list[BaseMessage]:
    messages[at].id = "given later"
    return messages


CHANGES = [
    removed,
    edited,
    inserted,
    shortened,
    changed_in_place,
    block_changed_in_place,
    call_changed_in_place,
    calls_replaced_in_place,
    call_added_in_place,
    id_given_in_place,
]


@pytest.mark.parametrize("at", range(6))
@pytest.mark.parametrize("change", CHANGES)
def test_after_any_change_the_rows_are_those_made_anew(change: Any, at: int) -> None:
    messages = conversation()
    before = History.of(messages, THIRDS)
    after = change(list(messages), at)
    again = History.of(after, THIRDS, before)
    assert rows(again) == rows(History.of(copy.deepcopy(after), THIRDS))
    assert again.shared_with(after) == len(after)


@pytest.mark.parametrize("at", [0, 1, WATCHED, 2 * WATCHED])
@pytest.mark.parametrize("change", [changed_in_place, block_changed_in_place, id_given_in_place])
def test_a_change_in_place_far_from_the_end_is_seen(change: Any, at: int) -> None:
    messages: list[BaseMessage] = [HumanMessage([{"type": "text", "text": f"berth {n}"}]) for n in range(3 * WATCHED)]
    before = History.of([*messages[: 2 * WATCHED], human(id="shorter before")], THIRDS)
    before = History.of(messages, THIRDS, before)
    after = change(messages, at)
    assert rows(History.of(after, THIRDS, before)) == rows(History.of(copy.deepcopy(after), THIRDS))


@pytest.mark.parametrize("at", [1, WATCHED - 1, 3 * WATCHED - 1])
@pytest.mark.parametrize("change", [call_changed_in_place, calls_replaced_in_place, call_added_in_place])
def test_a_call_changed_in_place_far_from_the_end_is_seen(change: Any, at: int) -> None:
    messages: list[BaseMessage] = named([m for n in range(2 * WATCHED) for m in (human(f"berth {n}"), ai("", f"c{n}"))])
    before = History.of(messages, THIRDS)
    after = change(list(messages), at)
    assert rows(History.of(after, THIRDS, before)) == rows(History.of(copy.deepcopy(after), THIRDS)) != rows(before)


@pytest.mark.parametrize("place", [0.0, 0.01, 0.3, 0.99, 1.0])
@pytest.mark.parametrize(("hidden", "change"), [(900, changed_in_place), (5000, block_changed_in_place)])
def test_a_change_in_place_out_of_sight_is_seen_when_its_turn_has_come(hidden: int, change: Any, place: float) -> None:
    messages: list[BaseMessage] = [HumanMessage([{"type": "text", "text": f"berth {n}"}]) for n in range(hidden + 10)]
    history = History.of(messages, THIRDS)
    anew = rows(History.of(copy.deepcopy(change(messages, int(place * (hidden - 1)))), THIRDS))
    seen = []
    for _ in range(TURNS):
        history = History.of(messages, THIRDS, history, hidden=hidden)
        seen.append(rows(history) == anew)
    assert seen == sorted(seen) and seen[-1]


@pytest.mark.parametrize("at", [0, 5, 60, 89, 90, 99])
def test_a_change_in_place_in_sight_is_seen_at_once(at: int) -> None:
    messages: list[BaseMessage] = [HumanMessage(f"berth {n}") for n in range(10 * WATCHED)]
    hidden = 9 * WATCHED
    shown = (at,) if at < 90 else ()
    place = at if at < 90 else hidden + 10 * (at - 90)
    history = History.of(messages, THIRDS)
    for _ in range(TURNS - 2):
        history = History.of(messages, THIRDS, history, hidden=hidden, shown=shown)
    messages[place].content = "changed in place"
    seen = History.of(messages, THIRDS, history, hidden=hidden, shown=shown)
    assert rows(seen) == rows(History.of(copy.deepcopy(messages), THIRDS))


@pytest.mark.parametrize("change", [removed, edited, inserted, changed_in_place])
def test_the_front_that_is_shared_is_found(change: Any) -> None:
    messages = conversation()
    before = History.of(messages, THIRDS)
    assert before.shared_with(change(list(messages), 3)) == 3
    assert before.shared_with([]) == 0


_steps = st.lists(
    st.tuples(st.sampled_from(("append", "removed", "edited", "inserted", "shortened")), st.integers(0, 20)),
    max_size=20,
)


@given(_steps, st.lists(st.sampled_from(("a", "b", None)), min_size=21, max_size=21))
def test_any_sequence_of_changes_gives_the_rows_made_anew(steps: list[tuple[str, int]], ids: list[str | None]) -> None:
    messages: list[BaseMessage] = []
    history = History.of(messages, THIRDS)
    for number, (step, at) in enumerate(steps):
        if step == "append":
            messages = [*messages, HumanMessage("text " * (at + 1), id=ids[number])]
        elif messages:
            messages = globals()[step](list(messages), at % len(messages))
        history = History.of(messages, THIRDS, history)
        assert rows(history) == rows(History.of(messages, THIRDS))


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6), st.integers(1, 3)), max_size=25))
def test_histories_that_branched_keep_their_own_rows(steps: list[tuple[int, int, int]]) -> None:
    kept = [History.of([], THIRDS)]
    for number, (which, back, more) in enumerate(steps):
        previous = kept[which % len(kept)]
        front = previous.messages[: max(0, len(previous) - back)]
        said = [HumanMessage(f"{number} {n}", id=f"{number}-{n}") for n in range(more)]
        kept.append(History.of((*front, *said), THIRDS, previous))
    for history in kept:
        assert rows(history) == rows(History.of(copy.deepcopy(history.messages), THIRDS))
        assert History.of(history.messages, THIRDS, history) is history


def test_threads_that_go_on_from_one_history_at_once_get_rows_of_their_own() -> None:
    start = History.of([human(f"berth {n}", f"m{n}") for n in range(50)], THIRDS)

    def grow(worker: int) -> History:
        history = start
        for n in range(60):
            history = History.of((*history.messages, human(f"{worker} {n}", f"{worker}-{n}")), THIRDS, history)
        return history

    with ThreadPoolExecutor(8) as pool:
        for history in pool.map(grow, range(8)):
            assert rows(history) == rows(History.of(copy.deepcopy(history.messages), THIRDS))


class Unreadable:
    """Something foreign in a content, which neither a copy nor a comparison reaches."""

    def __deepcopy__(self, _: Any) -> Any:
        raise TypeError("not copied")


def test_what_cannot_be_copied_is_derived_anew_each_time() -> None:
    messages: list[BaseMessage] = [human("Hello"), human("x")]
    messages[1].content = [{"type": "foreign", "value": Unreadable()}]  # type: ignore[list-item]
    history = History.of(messages, THIRDS)
    assert history.shared_with(messages) == 1


# Messages that stand only in the view


def test_a_message_of_the_view_is_counted_once_a_slot() -> None:
    counter = Counting(THIRDS)
    history = History.of([], counter)
    assert history.cost("slot", human("Hello")) == MESSAGE_TOKENS + 2
    counter.known.clear()
    assert history.cost("slot", human("Hello")) == MESSAGE_TOKENS + 2
    assert counter.known == {}


def test_the_memory_for_such_counts_is_bounded_and_passed_on() -> None:
    history = History.of([], THIRDS)
    for number in range(MEMO_SIZE + 10):
        history.cost(number, human("Hello"))
    assert len(history.memo) <= MEMO_SIZE
    assert History.of([human()], THIRDS, history).memo is history.memo
