import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langgraph_memory.cli.meter import Meter, Totals, figures_of, is_lost, is_paired
from langgraph_memory.context.tokens import ESTIMATOR, count_message


def asking(*ids: str) -> AIMessage:
    return AIMessage("", tool_calls=[{"id": id, "name": "look", "args": {}} for id in ids])


def result(id: str) -> ToolMessage:
    return ToolMessage("r", tool_call_id=id)


def tokens(*messages: object) -> int:
    return sum(count_message(ESTIMATOR, message) for message in messages)


@pytest.mark.parametrize(
    ("view", "paired"),
    [
        ([], True),
        ([HumanMessage("a"), asking("1", "2"), result("2"), result("1"), AIMessage("b")], True),
        ([asking("1")], False),
        ([asking("1"), HumanMessage("a"), result("1")], False),
        ([asking("1"), result("1"), result("1")], False),
        ([result("1")], False),
        ([asking("1", "2"), result("1"), AIMessage("b")], False),
    ],
)
def test_a_view_is_paired_when_each_call_is_followed_by_its_one_result(view, paired):
    assert is_paired(view) is paired


def test_an_invalid_call_needs_its_result_too():
    broken = AIMessage("", invalid_tool_calls=[{"id": "1", "name": "look", "args": "{", "error": None}])
    assert is_paired([broken, result("1")])
    assert not is_paired([broken])


@pytest.mark.parametrize(
    ("shown", "lost"),
    [
        (HumanMessage("the request"), False),
        (HumanMessage([{"type": "text", "text": "summary"}, {"type": "text", "text": "the request"}]), False),
        (HumanMessage('the [trimmed: 3 of 11 characters · recall("msg:r-1")]'), False),
        (HumanMessage("something else"), True),
        (AIMessage("the request"), True),
    ],
)
def test_the_request_is_lost_when_no_human_message_shows_or_names_it(shown, lost):
    history = [HumanMessage("first", id="r-0"), HumanMessage("the request", id="r-1"), AIMessage("working")]
    assert is_lost([shown], history) is lost


def test_figures_count_what_was_sent_and_what_of_it_was_sent_before():
    meter = Meter(ESTIMATOR, 20)
    history = [HumanMessage("one " * 10), AIMessage("two " * 10), HumanMessage("three " * 10)]
    first = meter.measure(history[:1], history[:1])
    second = meter.measure(history, history)
    third = meter.measure([history[0], history[2]], history)
    assert (first.sent, first.cached, first.over) == (tokens(history[0]), 0, False)
    assert (second.sent, second.raw, second.cached) == (tokens(*history), tokens(*history), tokens(history[0]))
    assert (third.sent, third.raw) == (tokens(history[0], history[2]), tokens(*history))
    assert third.cached == tokens(history[0])
    assert second.over and third.over


def test_a_meter_that_is_told_the_last_view_goes_on_as_if_it_had_measured_it():
    history = [HumanMessage("one", id="a"), AIMessage("two"), HumanMessage("three", id="b")]
    whole, resumed = Meter(ESTIMATOR, 100), Meter(ESTIMATOR, 100)
    whole.measure(history[:1], history[:1])
    resumed.remember(history[:1])
    assert resumed.measure(history, history) == whole.measure(history, history)


def test_totals_are_made_from_the_figures_in_the_replies():
    meter = Meter(ESTIMATOR, 100)
    summary = HumanMessage("s", id="summary-1")
    history = [HumanMessage("a", id="a")]
    for view in ([history[0]], [summary, history[0]], [summary, history[0]]):
        history.append(meter.answered(AIMessage("b"), meter.measure(view, history)))
    totals = Totals.of(history)
    calls = [figures_of(message) for message in history[1:]]
    assert (totals.calls, totals.messages, totals.summaries) == (3, 4, 1)
    assert totals.sent == sum(call.sent for call in calls)
    assert totals.largest == max(call.sent for call in calls)
    assert totals.sound
    both = totals + totals
    assert (both.conversations, both.calls, both.largest, both.window) == (2, 6, totals.largest, 100)


def test_the_usage_of_a_reply_is_what_a_provider_would_have_counted():
    meter = Meter(ESTIMATOR, 100)
    view = [HumanMessage("a")]
    meter.measure(view, view)
    reply = meter.answered(AIMessage("b"), meter.measure(view, view))
    usage = reply.usage_metadata
    assert usage["input_tokens"] == usage["input_token_details"]["cache_read"] == tokens(*view)
    assert usage["output_tokens"] == tokens(AIMessage("b"))
