"""Which result answers which call, and what may not be parted, for every odd order that was ever reported."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage

from langgraph_memory.context.groups import Call, calls_of, pair, request_run, units
from tests.support.histories import ai, human, result, system


def invalid(call_id: str | None) -> AIMessage:
    return AIMessage("", invalid_tool_calls=[{"name": "dock", "args": '{"dock":', "id": call_id, "error": None}])


def cut_points(messages: list[BaseMessage], start: int = 0) -> list[int]:
    return [first for first, _ in units(messages, pair(messages, start), start)]


# Calls


def test_only_assistant_messages_call() -> None:
    assert [calls_of(message) for message in (human(), system(), result("c"), ai("Hello"))] == [[], [], [], []]


def test_all_kinds_of_calls_are_seen() -> None:
    message = AIMessage(
        [{"type": "tool_use", "id": "b", "name": "raw", "input": {}}, {"type": "text", "text": "x"}],
        tool_calls=[{"name": "dock", "args": {}, "id": "a"}],
        invalid_tool_calls=[{"name": "crane", "args": "{", "id": "c", "error": None}],
    )
    assert calls_of(message) == [Call("a", "dock"), Call("c", "crane", invalid=True), Call("b", "raw", invalid=True)]


def test_a_block_that_repeats_a_call_is_not_another_call() -> None:
    blocks = [{"type": "tool_use", "id": "a", "name": "dock", "input": {}}]
    assert calls_of(AIMessage(blocks, tool_calls=[{"name": "dock", "args": {}, "id": "a"}])) == [Call("a", "dock")]  # type: ignore[arg-type]
    broken = AIMessage(
        blocks,  # type: ignore[arg-type]
        invalid_tool_calls=[{"name": "dock", "args": "{", "id": "a", "error": None}],
    )
    assert calls_of(broken) == [Call("a", "dock", invalid=True)]


def test_raw_calls_that_were_never_parsed_are_calls() -> None:
    raw = [{"id": "a", "function": {"name": "dock", "arguments": "{"}, "type": "function"}]
    message = AIMessage("", additional_kwargs={"tool_calls": raw})
    assert [call.id for call in calls_of(message)] == ["a"]


def test_server_side_tool_blocks_are_not_calls_to_answer() -> None:
    blocks = [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}]
    assert calls_of(AIMessage(blocks)) == []  # type: ignore[arg-type]


# Pairs


def test_parallel_calls_are_answered_in_any_order() -> None:
    messages = [human(), ai("", "a", "b", "c"), result("c"), result("a"), result("b"), ai("Done")]
    pairing = pair(messages)
    assert pairing.results == {1: [2, 3, 4]}
    assert {position: call.id for position, (_, call) in pairing.owner.items()} == {2: "c", 3: "a", 4: "b"}
    assert not pairing.unanswered and not pairing.orphans


@pytest.mark.parametrize("size", [1, 2, 12, 40])
def test_any_number_of_parallel_calls_is_one_unit(size: int) -> None:
    ids = [f"k{number}" for number in range(size)]
    messages = [ai("", *ids), *map(result, ids), ai("sum"), human("go")]
    assert cut_points(messages) == [0, size + 1, size + 2]


@pytest.mark.parametrize("rounds", [2, 3, 9])
def test_one_id_used_in_every_round_pairs_round_by_round(rounds: int) -> None:
    messages = [message for _ in range(rounds) for message in (ai("", "same"), result("same"))]
    assert pair(messages).results == {2 * n: [2 * n + 1] for n in range(rounds)}
    assert cut_points(messages) == [2 * n for n in range(rounds)]


def test_one_id_twice_in_a_message_needs_two_results() -> None:
    messages = [ai("", "x", "x"), result("x", "one"), result("x", "two"), result("x", "three")]
    pairing = pair(messages)
    assert pairing.results == {0: [1, 2]}
    assert pairing.orphans == {3}
    assert pair(messages[:2]).unanswered == {0: [Call("x", "dock_list")]}


def test_a_late_result_belongs_to_its_call_and_holds_the_unit_together() -> None:
    messages = [human(), ai("", "slow"), *(human(str(n)) for n in range(6)), result("slow"), ai("Done")]
    assert pair(messages).results == {1: [8]}
    assert cut_points(messages) == [0, 1, 9]


def test_a_second_result_for_a_call_is_an_orphan() -> None:
    pairing = pair([ai("", "a"), result("a"), result("a")])
    assert pairing.results == {0: [1]}
    assert pairing.orphans == {2}


def test_a_result_in_front_of_its_call_is_an_orphan() -> None:
    pairing = pair([result("a"), ai("", "a")])
    assert pairing.orphans == {0}
    assert [call.id for call in pairing.unanswered[1]] == ["a"]


def test_a_late_result_answers_the_nearest_round_with_its_id() -> None:
    messages = [ai("", "same"), ai("", "same"), result("same")]
    assert pair(messages).results == {1: [2]}
    assert list(pair(messages).unanswered) == [0]


def test_a_call_without_id_cannot_be_answered() -> None:
    pairing = pair([ai("", None), result("")])
    assert pairing.unanswered == {0: [Call(None, "dock_list")]}
    assert pairing.orphans == {1}


def test_an_invalid_call_counts_as_a_call() -> None:
    assert pair([invalid("z1"), human("and?")]).unanswered == {0: [Call("z1", "dock", invalid=True)]}
    assert pair([invalid("z1"), result("z1")]).results == {0: [1]}


def test_what_stands_before_the_start_does_not_exist() -> None:
    messages = [ai("", "a"), human(), result("a"), ai("", "b"), result("b")]
    pairing = pair(messages, 1)
    assert pairing.orphans == {2}
    assert pairing.results == {3: [4]}


def test_the_reported_run_where_only_some_results_have_their_call() -> None:
    messages = [
        human("start"),
        ai("", "b"),
        result("b"),
        result("a", "left over"),
        ai("noted"),
        human("next"),
        ai("ok"),
    ]
    pairing = pair(messages)
    assert pairing.orphans == {3}
    assert cut_points(messages) == [0, 1, 4, 5, 6]


# Units


def test_orphans_stay_with_what_stands_before_them() -> None:
    messages = [human(), result("x"), result("y"), ai("Hello")]
    assert units(messages, pair(messages)) == [(0, 3), (3, 4)]


def test_interleaved_pairs_are_one_unit() -> None:
    messages = [ai("", "a"), ai("", "b"), result("a"), human(), result("b"), human()]
    assert units(messages, pair(messages)) == [(0, 5), (5, 6)]


def test_units_may_start_anywhere() -> None:
    messages = [human(), ai("", "a"), result("a"), human()]
    assert units(messages, pair(messages, 1), 1) == [(1, 3), (3, 4)]
    assert units(messages, pair(messages, 4), 4) == []


_messages = st.lists(
    st.one_of(
        st.just(human()),
        st.lists(st.sampled_from(("a", "b", "c", None)), max_size=4).map(lambda ids: ai("x", *ids)),
        st.sampled_from(("a", "b", "c", "d")).map(result),
    ),
    max_size=25,
)


@given(_messages, st.integers(0, 5))
def test_units_cover_everything_and_part_no_pair(messages: list[BaseMessage], start: int) -> None:
    start = min(start, len(messages))
    pairing = pair(messages, start)
    ranges = units(messages, pairing, start)
    assert [position for first, end in ranges for position in range(first, end)] == list(range(start, len(messages)))
    for first, _ in ranges[1:]:
        assert not any(owner < first <= answer for answer, (owner, _) in pairing.owner.items())
        assert first not in pairing.orphans
    answers = [answer for found in pairing.results.values() for answer in found]
    assert sorted([*answers, *pairing.orphans]) == [
        n for n in range(start, len(messages)) if messages[n].type == "tool"
    ]
    for position, calls in pairing.calls.items():
        answered = len(pairing.results.get(position, [])) + len(pairing.unanswered.get(position, []))
        assert answered == len(calls)


# The request


@pytest.mark.parametrize(
    ("messages", "run"),
    [
        ([], (0, 0)),
        ([ai("Hello"), system()], (0, 0)),
        ([human("a")], (0, 1)),
        ([human("a"), human("b"), ai("c")], (0, 2)),
        ([human("a"), ai("b"), human("c"), human("d"), human("e")], (2, 5)),
        ([human("a"), ai("", "x"), result("x"), ai("b")], (0, 1)),
        ([human("a"), system(), human("b"), ai("c")], (2, 3)),
    ],
)
def test_the_request_is_the_last_run_of_human_messages(messages: list[BaseMessage], run: tuple[int, int]) -> None:
    assert request_run(messages) == run


@pytest.mark.parametrize(("end", "run"), [(0, (0, 0)), (1, (0, 1)), (2, (0, 1)), (3, (2, 3)), (5, (2, 4)), (6, (2, 4))])
def test_the_request_of_an_earlier_place(end: int, run: tuple[int, int]) -> None:
    messages = [human("a"), ai("b"), human("c"), human("d"), ai("e"), ai("f"), human("g")]
    assert request_run(messages, end) == run
