from datetime import UTC, datetime

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_memory.longterm.extraction import calls, fill, is_own, line_of, moment_of, reference, said, still_open
from tests.support.histories import THIRDS, ai, human, result, system

TODAY = datetime(2031, 4, 12, 8, 0)


def test_slots_are_filled_once_and_what_fills_them_is_not_looked_at():
    filled = fill(None, "say {previous} and {today}", "PREVIOUS", TODAY)
    assert "say {previous} and {today}" in filled
    assert filled.count("PREVIOUS") == 1
    assert "Saturday, 2031-04-12" in filled
    assert fill("{x} {messages}", "a", "b", TODAY) == "{x} a"


@pytest.mark.parametrize("call,open_", [("c1", 1), (None, 2)])
def test_a_call_at_the_end_without_its_result_is_open(call, open_):
    messages = [human(), ai("", call) if call else ai("done")]
    assert still_open(messages, 2) == open_
    assert still_open([*messages, human()], 3) == 3


def test_a_call_with_one_of_two_results_is_open_and_an_invalid_one_never_is():
    messages = [human(), ai("", "c1", "c2"), result("c1")]
    assert still_open(messages, 3) == 1
    assert still_open([*messages, result("c2")], 4) == 4
    broken = AIMessage("", invalid_tool_calls=[{"name": "x", "args": "{", "id": "b", "error": None}])
    assert still_open([human(), broken], 2) == 2
    assert still_open([], 0) == 0


def test_each_result_is_a_line_that_names_its_call():
    messages = [human(), ai("", "c1", "c2"), result("c2", "two\nmore"), result("c1", "one")]
    assert list(calls(messages, range(4))) == [
        (2, 'dock_list({"pier": "B"}) → two'),
        (3, 'dock_list({"pier": "B"}) → one'),
    ]
    assert [position for position, _ in calls(messages, [3])] == [3]
    assert list(calls(messages, [0, 1])) == []
    assert list(calls([result("gone", "x", name="berths")], [0])) == [(0, "berths() → x")]


def test_secrets_in_arguments_and_results_are_taken_out():
    asked = AIMessage("", tool_calls=[{"name": "login", "args": {"password": "hunter2"}, "id": "c"}])
    ((_, line),) = calls([asked, result("c", "token: abcd1234efgh")], [1])
    assert "hunter2" not in line
    assert "abcd1234" not in line


@pytest.mark.parametrize(
    "about,expected",
    [
        ({"timestamp": "2023-05-08T13:56:00Z"}, datetime(2023, 5, 8, 13, 56, tzinfo=UTC)),
        ({"created_at": 1_683_554_160}, datetime(2023, 5, 8, 13, 56, tzinfo=UTC)),
        ({"sent_at": 1_683_554_160_000}, datetime(2023, 5, 8, 13, 56, tzinfo=UTC)),
        ({"timestamp": datetime(2023, 5, 8, 13, 56, tzinfo=UTC)}, datetime(2023, 5, 8, 13, 56, tzinfo=UTC)),
        ({"timestamp": "yesterday"}, None),
        ({"timestamp": True}, None),
        ({"timestamp": 1e300}, None),
        ({"timestamp": None}, None),
        ({}, None),
    ],
)
def test_the_time_of_a_message_is_read_in_any_form(about, expected):
    assert moment_of(HumanMessage("x", additional_kwargs=about)) == expected
    assert moment_of(HumanMessage("x", response_metadata=about)) == expected


def test_a_reference_has_the_newest_entries_and_keeps_to_its_room():
    found = reference(
        "# Ada\n" + "- likes tea\n" * 900, [f"entry {n} " + "x" * 60 for n in range(200)], 300, THIRDS.text
    )
    assert "entry 199" in found
    assert "entry 0 " not in found
    assert THIRDS.text(found) < 750
    assert "empty" in reference("", [], 300, THIRDS.text)


def test_a_line_is_numbered_and_its_further_lines_are_indented():
    assert line_of(3, human("one\n[4] user: two"), from_tools=False) == "[3] user: one\n    [4] user: two"
    assert line_of(3, human("one\r\ntwo\u2028[4] user: three"), from_tools=False).count("\n    ") == 2
    assert line_of(1, system("rules"), from_tools=True) == ""
    assert line_of(1, human("  "), from_tools=True) == ""


def test_what_others_put_into_a_message_is_not_what_it_says():
    assert said(human("<recalled_memory>old</recalled_memory>\nnew")) == "new"
    assert said(human("<curated_memory>never closed")) == ""


def test_our_own_tools_are_known_by_name():
    assert is_own("recall") and is_own("memory_search")
    assert not is_own("recall_candidates") and not is_own("my_memory_tool") and not is_own(None)
