"""A summary without a model fits, quotes what matters and does not grow when repeated."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_memory.context.extract import NOTE, extract
from tests.support.data import load_recordings, needs_recordings, to_messages

HEADINGS = ["## SESSION INTENT", "## SUMMARY", "## NEXT STEPS"]


def call(name: str, call_id: str, **args: object) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": call_id}])


def block(number: int) -> list[BaseMessage]:
    messages: list[BaseMessage] = []
    for index in range(20):
        messages += [
            HumanMessage(f"Request {number}.{index}: move the containers of berth {index} to pier B. " * 3),
            call("dock_move", f"c{number}.{index}", berth=index),
            ToolMessage("Error: crane is busy. " * 20, tool_call_id=f"c{number}.{index}"),
            AIMessage(f"The crane was busy, I moved {number}.{index} later. Then I checked the list. " * 5),
        ]
    return messages


def test_the_first_and_the_latest_request_are_quoted() -> None:
    messages = [
        HumanMessage("Plan the port."),
        AIMessage("Done."),
        HumanMessage("Use pier B."),
        HumanMessage("Now berth 9."),
    ]
    summary = extract(messages, "", 1000)
    assert summary == "\n".join(
        [
            NOTE,
            "## SESSION INTENT",
            "Plan the port.\n\nLatest request: Now berth 9.",
            "## SUMMARY",
            "- assistant: Done.",
            "- user: Use pier B.",
            "## NEXT STEPS",
            "- the latest request has no answer yet",
        ]
    )


def test_the_start_of_a_long_request_is_verbatim() -> None:
    request = "\n".join(f"Step {index}: check container {index}." for index in range(500))
    summary = extract([HumanMessage(request)], "", 2000)
    assert request[:300] in summary
    assert len(summary) <= 2000


def test_calls_in_progress_are_named_with_what_came_of_them() -> None:
    messages = [
        HumanMessage("Go."),
        AIMessage(
            "",
            tool_calls=[
                {"name": "dock_list", "args": {"pier": "B"}, "id": "c1"},
                {"name": "dock_move", "args": {"berth": 9}, "id": "c2"},
            ],
        ),
        ToolMessage("4 berths\nfree", tool_call_id="c1"),
    ]
    summary = extract(messages, "", 1000)
    assert '- called dock_list({"pier": "B"}), answered: 4 berths free' in summary
    assert '- called dock_move({"berth": 9}), no result yet' in summary


def test_errors_are_part_of_what_happened() -> None:
    messages = [HumanMessage("Go."), call("a", "1"), ToolMessage("Error: crane 7 is busy", tool_call_id="1")]
    assert "- error: Error: crane 7 is busy" in extract(messages, "", 1000)


def test_thinking_and_signatures_are_not_quoted() -> None:
    content: list[str | dict[str, object]] = [
        {"type": "thinking", "thinking": "secret", "signature": "Q" * 99},
        {"type": "text", "text": "Pier B."},
    ]
    summary = extract([HumanMessage("Which pier?"), AIMessage(content)], "", 1000)  # type: ignore[arg-type]
    assert "- assistant: Pier B." in summary
    assert "secret" not in summary and "QQQ" not in summary


def test_sentences_of_other_scripts_end_where_they_end() -> None:
    statement = "我已经查过所有的泊位。" * 40
    summary = extract([HumanMessage("查一下泊位"), AIMessage(statement)], "", 2000)
    assert "。…\n" in summary


@pytest.mark.parametrize(
    "message",
    [ToolMessage("rows", tool_call_id="1"), SystemMessage("rules"), AIMessage("hello"), call("dock_list", "1")],
)
@pytest.mark.parametrize("max_chars", [1, 20, 119, 120, 1000])
def test_one_message_of_any_kind_is_enough_for_a_summary(message: BaseMessage, max_chars: int) -> None:
    assert extract([message], "", max_chars).strip()


def test_nothing_to_say_is_blank() -> None:
    assert extract([], "", 1000) == ""
    assert extract([HumanMessage("  ")], "", 50) == ""


# previous summaries


def test_the_intent_of_a_written_summary_is_carried_on() -> None:
    previous = "## SESSION INTENT\nRefit the port.\n## SUMMARY\n- Pier B chosen\n### Cranes\n* 7 is broken"
    previous += "\n## NEXT STEPS\nAsk Ada"
    summary = extract([HumanMessage("Now berth 9.")], previous, 1000)
    assert "## SESSION INTENT\nRefit the port.\n\nLatest request: Now berth 9." in summary
    for line in ["- Pier B chosen", "- Cranes", "- 7 is broken", "- Ask Ada"]:
        assert line in summary.splitlines()


def test_facts_of_a_previous_summary_are_left_to_whoever_collects_them() -> None:
    previous = "## SUMMARY\nPier B\n## ARTIFACTS\npath: a.py\n## NEXT STEPS\nAsk"
    assert "a.py" not in extract([HumanMessage("Go.")], previous, 1000)


def test_a_previous_summary_without_headings_becomes_bullets() -> None:
    assert "- Pier B was chosen." in extract([HumanMessage("Go.")], "Pier B was chosen.", 1000)


def test_without_new_requests_the_earlier_latest_request_stays() -> None:
    once = extract([HumanMessage("Plan."), AIMessage("ok"), HumanMessage("Berth 9.")], "", 1000)
    twice = extract([AIMessage("Working on it.")], once, 1000)
    assert "Plan.\n\nLatest request: Berth 9." in twice


def test_an_earlier_latest_request_becomes_one_of_the_requests() -> None:
    once = extract([HumanMessage("Plan."), HumanMessage("Berth 9.")], "", 1000)
    twice = extract([HumanMessage("Berth 10.")], once, 1000)
    assert "Plan.\n\nLatest request: Berth 10." in twice
    assert "- user: Berth 9." in twice


@pytest.mark.parametrize("max_chars", [120, 400, 1500, 6000])
def test_five_passes_neither_grow_nor_nest(max_chars: int) -> None:
    summary = ""
    for number in range(5):
        summary = extract(block(number), summary, max_chars)
        assert len(summary) <= max_chars
        assert [summary.splitlines().count(heading) for heading in HEADINGS] == [1, 1, 1]
        assert summary.startswith(NOTE + "\n")
        assert summary.count(NOTE) == 1
    if max_chars >= 1500:
        assert "Request 0.0: move" in summary
        assert "Latest request: Request 4.19" in summary


def test_something_of_every_earlier_pass_is_remembered_where_there_is_room() -> None:
    summary = ""
    for number in range(5):
        summary = extract([HumanMessage(f"Fact {number}: {'x' * 50}"), AIMessage("ok")] * 3, summary, 3000)
    assert all(f"Fact {number}:" in summary for number in range(5))


def test_our_headings_in_a_message_do_not_open_a_section() -> None:
    request = "Explain this:\n## SUMMARY\nfoo\n## NEXT STEPS\nbar"
    once = extract([HumanMessage(request)], "", 1000)
    assert [once.splitlines().count(heading) for heading in HEADINGS] == [1, 1, 1]
    assert "foo" in extract([HumanMessage("More.")], once, 1000).partition("## SUMMARY")[0]


# sizes

TEXTS = st.one_of(
    st.text(st.characters(), max_size=400), st.sampled_from(["## SUMMARY\nx", "仓。" * 300, NOTE, "- a\n" * 50])
)
MESSAGES = st.lists(
    st.one_of(
        TEXTS.map(HumanMessage),
        TEXTS.map(AIMessage),
        TEXTS.map(lambda text: ToolMessage(text, tool_call_id="1")),
        TEXTS.map(lambda text: call("dock", "1", text=text)),
    ),
    max_size=8,
)


@given(MESSAGES, st.one_of(TEXTS, MESSAGES.map(lambda messages: extract(messages, "", 700))), st.integers(1, 900))
def test_any_messages_give_a_text_within_the_limit(messages: list[BaseMessage], previous: str, max_chars: int) -> None:
    summary = extract(messages, previous, max_chars)
    assert len(summary) <= max_chars
    assert summary == extract(messages, previous, max_chars)
    assert all(summary.splitlines().count(heading) <= 1 for heading in HEADINGS)
    summary.encode()
    if any(str(message.content).strip().isalnum() for message in messages):
        assert summary.strip()


@pytest.mark.parametrize("max_chars", range(0, 130))
def test_tiny_sizes_give_what_fits(max_chars: int) -> None:
    summary = extract(block(0), "", max_chars)
    assert len(summary) <= max_chars
    assert summary.strip() or max_chars == 0


@needs_recordings
@pytest.mark.parametrize("name", ["pi_sessions", "crosswoz_zh", "tau_airline", "swe_agent"])
def test_recordings_are_extracted_with_their_first_request(name: str) -> None:
    for record in load_recordings(name)[:10]:
        messages = to_messages(record)
        requests = [str(m.content).strip() for m in messages if isinstance(m, HumanMessage)]
        summary = extract(messages, "", 4000)
        assert len(summary) <= 4000
        assert requests[0][:200] in summary
