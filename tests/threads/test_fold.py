"""What has been said on a path, from what its checkpoints hold."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Overwrite

from langgraph_memory.threads.fold import Step, gone, said


def some(names: str, mark: str = "") -> list[BaseMessage]:
    return [HumanMessage(name + mark, id=name) for name in names]


def told(*steps: tuple[Any, int]) -> str:
    """What was said when the channel held each of these in turn; with how many had left because of us."""
    held = [Step(some(value) if isinstance(value, str) else value, [], left) for value, left in steps]
    return "".join(message.text for message in said(held))


def test_what_was_added_is_told_once_and_in_order() -> None:
    assert told(("", 0), ("a", 0), ("abc", 0)) == "abc"


def test_what_people_removed_is_not_told() -> None:
    assert told(("abc", 0), ("ac", 0), ("acd", 0)) == "acd"


def test_what_left_because_of_a_summary_is_told_where_it_stood() -> None:
    assert told(("abcd", 0), ("cd", 2), ("cde", 2), ("e", 4), ("ef", 4)) == "abcdef"
    assert told(("abcd", 0), ("bd", 2), ("bde", 2)) == "abcde"


def test_of_what_left_at_once_only_as_many_as_the_record_says_left_because_of_us() -> None:
    assert told(("abcdef", 0), ("df", 3)) == "abcdf"


def test_a_message_that_left_may_come_back_and_be_changed() -> None:
    steps = [Step(some("abc"), [], 0), Step(some("c"), [], 2), Step([*some("a", "!"), *some("cd")], [], 2)]
    assert "".join(message.text for message in said(steps)) == "a!bcd"


def test_when_people_remove_everything_the_history_begins_anew() -> None:
    assert told(("abcd", 0), ("cd", 2), ("", 2), ("x", 0)) == "x"
    assert told(("abcd", 0), ("cd", 2), ("xy", 0)) == "xy"


def test_when_everything_leaves_because_of_us_it_was_still_said() -> None:
    assert told(("abcd", 0), ("", 4), ("e", 4)) == "abcde"


def test_an_edited_message_is_told_as_it_is_in_the_end() -> None:
    assert told((some("abc"), 0), ([*some("a"), *some("b", "2"), *some("c")], 0), ("a", 0)) == "a"
    assert told((some("abc"), 0), ([*some("a"), *some("b", "2"), *some("c")], 0)) == "ab2c"


def test_messages_that_change_places_are_told_in_their_new_order() -> None:
    assert told(("abcd", 0), ("dcba", 0)) == "dcba"
    assert told(("abcd", 0), ("bcd", 1), ("dcb", 1)) == "dcab"


def test_what_is_written_to_a_delta_channel_counts_as_a_reducer_takes_it() -> None:
    def end(*writes: Any) -> str:
        steps = [Step(_DeltaSnapshot(some("ab")), list(writes), 0), Step(None, [], 0)]
        return "".join(message.text for message in said(steps))

    assert end(some("c"), HumanMessage("d", id="d")) == "abcd"
    assert end(some("a", "!"), some("c")) == "a!bc"
    assert end([RemoveMessage(id="a"), *some("c")], [RemoveMessage(id="never there")]) == "bc"
    assert end([*some("c"), RemoveMessage(id=REMOVE_ALL_MESSAGES), *some("d")]) == "d"
    for overwrite in (
        Overwrite(some("x")),
        {"__overwrite__": some("x")},
        {"type": "__overwrite__", "value": some("x")},
    ):
        assert end(some("c"), overwrite, some("y")) == "xy"
    assert (
        end(("user", "as a pair"), {"role": "user", "content": "as a dict"}, "as text") == "abas a pairas a dictas text"
    )
    assert end(Overwrite(None), some("y")) == "y"


def test_a_delta_channel_too_keeps_what_a_summary_covers() -> None:
    steps = [
        Step(some("abcd"), [[RemoveMessage(id="a"), RemoveMessage(id="b")]], 0),
        Step(None, [some("e")], 2),
        Step(None, [[RemoveMessage(id="c")]], 2),
        Step(None, [], 2),
    ]
    assert "".join(message.text for message in said(steps)) == "abde"


def test_messages_without_an_id_are_told_as_often_as_they_are_there() -> None:
    steps = [Step([AIMessage("x"), AIMessage("x")], [[AIMessage("x")]], 0), Step(None, [], 0)]
    assert len(said(steps)) == 3


@pytest.mark.parametrize(
    "record",
    [None, {}, [], {"v": 1}, {"ns": []}, {"ns": {"": {"summary": None}}}, {"ns": {"": {"summary": {"gone": "7"}}}},
     {"ns": {"": {"summary": {"gone": -1}}}}, {"ns": {"": {"summary": {"gone": True}}}},
     {"ns": {"x": {"summary": {"gone": 7}}}}],
)  # fmt: skip
def test_a_record_that_does_not_say_so_lets_nothing_leave(record: Any) -> None:
    assert gone(record) == 0


def test_a_record_says_how_many_have_left() -> None:
    assert gone({"v": 1, "ns": {"": {"summary": {"count": 9, "gone": 7}}}}) == 7
