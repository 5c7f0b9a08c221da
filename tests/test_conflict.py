"""Others that shorten the same context are noticed by the marks they leave, cheaply and without ever raising."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware, SummarizationMiddleware
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI

from langgraph_memory.conflict import conflicts
from tests.neighbours.agents import LONG, REQUEST, beside, say
from tests.support.graphs import calls, chat, grab, result
from tests.support.models import Scripted, numbered_summaries

CLEAR = {"edits": [{"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 30_000}}]}
COMPACT = {"edits": [{"type": "compact_20260112"}]}
THINKING = {"edits": [{"type": "clear_thinking_20251015"}]}
COMPACTION = [{"type": "compaction", "compact_threshold": 200_000}]


def seen(state: Any = None, messages: Sequence[BaseMessage] = LONG, model: Any = None, settings: Any = None) -> str:
    return conflicts(state or {"messages": messages}, messages, model or Scripted(), settings or {})


def test_an_ordinary_call_has_none():
    assert seen() == ""
    assert seen(model=ChatOpenAI(model="m", api_key="x")) == ""
    assert seen(messages=[]) == ""
    assert seen(state={"context": {}, "_summarization_event": None, "todos": [1]}) == ""


# Other summarisers


def test_a_summary_of_langchains_summariser_is_noticed_at_the_front():
    summary = HumanMessage("Here is a summary", additional_kwargs={"lc_source": "summarization"})
    for front in ([summary], [SystemMessage("be brief"), summary]):
        assert seen(messages=[*front, *LONG]).startswith("LangChain's SummarizationMiddleware has replaced")


async def test_the_mark_of_langchains_summariser_is_what_it_writes_today():
    other = SummarizationMiddleware(numbered_summaries(), trigger=("messages", 10), keep=("messages", 4))
    talk = beside(outer=[other])
    await say(talk, *LONG, REQUEST)
    state = await talk.state()
    assert "SummarizationMiddleware" in conflicts(state, state["messages"], talk.model, {})


async def test_the_mark_of_deepagents_summariser_is_what_it_writes_today():
    pytest.importorskip("deepagents")
    from tests.neighbours.test_deepagents import MemoryMiddleware, deep

    talk = deep(memory=MemoryMiddleware)
    for turn in range(7):
        await say(talk, *(LONG if turn == 0 else ()), f"{turn}: {REQUEST}")
    state = await talk.state()
    text = conflicts(state, state["messages"], talk.model, {})
    assert text.startswith("deepagents' summariser has cut this thread")
    assert "LangChain's" not in text


def test_the_running_summary_of_langmem_is_what_it_writes_today():
    with warnings.catch_warnings():
        # It imports something deprecated.
        warnings.simplefilter("ignore")
        langmem = pytest.importorskip("langmem.short_term")
    node = langmem.SummarizationNode(model=numbered_summaries(), max_tokens=1000, max_summary_tokens=100)
    state = {"messages": [*LONG, HumanMessage(REQUEST, id="go")], "context": {}}
    state |= node.invoke(state)
    assert conflicts(state, LONG, Scripted(), {}).startswith("langmem keeps a running summary")


def test_a_context_without_a_running_summary_is_no_conflict():
    assert seen(state={"context": {"running_summary": {"summary": "the berths"}}}).startswith("langmem")
    assert seen(state={"context": {"running_summary": None}}) == ""
    assert seen(state={"context": "a text of the user's own"}) == ""


def test_results_cleared_before_the_memory_are_noticed_and_those_cleared_behind_it_are_not():
    history: list[AnyMessage] = [*LONG]
    for n in range(8):
        history += [calls(f"c{n}"), result(f"c{n}", "row " * 900)]
    shown: list[Any] = []

    class Request(SimpleNamespace):
        def override(self, **changes: Any) -> Any:
            return Request(**{**vars(self), **changes})

    editing = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=1000, keep=3)])
    editing.wrap_model_call(Request(messages=history, model=None, system_message=None), shown.append)  # type: ignore[arg-type]
    assert seen(messages=shown[0].messages).startswith("LangChain's ContextEditingMiddleware clears")
    assert seen(messages=history) == ""


# The provider, by what it is asked for


PLACES: dict[str, Any] = {
    "a field of the model": lambda values: {"model": SimpleNamespace(**values)},
    "arguments of the model": lambda values: {"model": SimpleNamespace(model_kwargs=values)},
    "the body of the request": lambda values: {"model": SimpleNamespace(extra_body=values)},
    "the body of the request, in the arguments": lambda values: {"model": Scripted().bind(extra_body=values)},
    "fields of a request to Bedrock": lambda values: {"model": SimpleNamespace(additional_model_request_fields=values)},
    "settings of the call": lambda values: {"settings": values},
    "the body, in the settings of the call": lambda values: {"settings": {"extra_body": values}},
    "bound arguments": lambda values: {"model": Scripted().bind(**values)},
    "bound arguments under others": lambda values: {"model": Scripted().bind(**values).bind(stop=["x"])},
    "bound arguments of the first of several": lambda values: {
        "model": Scripted().bind(**values).with_fallbacks([Scripted()])
    },
    "bound arguments under a retry": lambda values: {"model": Scripted().bind(**values).with_retry()},
}
ASKED: dict[str, tuple[dict[str, Any], str]] = {
    "Anthropic clears tool uses": ({"context_management": CLEAR}, "clear_tool_uses_20250919"),
    "Anthropic compacts": ({"context_management": COMPACT}, "compact_20260112"),
    "OpenAI compacts": ({"context_management": COMPACTION}, "'compaction'"),
    "OpenAI truncates": ({"truncation": "auto"}, "truncation='auto'"),
    "OpenRouter truncates": ({"transforms": ["middle-out"]}, "middle-out"),
    "OpenAI remembers": ({"previous_response_id": "resp_1"}, "previous_response_id"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("asked", ASKED)
def test_what_the_provider_is_asked_for_is_noticed_wherever_it_is_said(asked, place):
    values, named = ASKED[asked]
    assert named in seen(**PLACES[place](values))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "values",
    [
        {"context_management": THINKING},
        {"context_management": {"edits": []}},
        {"context_management": None},
        {"truncation": "disabled"},
        {"truncation": None},
        {"transforms": []},
        {"previous_response_id": ""},
        {"use_previous_response_id": False},
    ],
)
def test_settings_that_leave_the_history_alone_are_no_conflict(values, place):
    assert seen(**PLACES[place](values)) == ""


@pytest.mark.parametrize(
    "options,named",
    [
        ({"truncation": "auto"}, "truncation='auto'"),
        ({"context_management": COMPACTION}, "'compaction'"),
        ({"use_previous_response_id": True}, "previous_response_id"),
        ({"extra_body": {"transforms": ["middle-out"]}}, "middle-out"),
    ],
)
def test_the_fields_of_openais_models_are_those_of_today(options, named):
    model = ChatOpenAI(model="m", api_key="x", **options)
    assert named in seen(model=model)
    assert named in seen(model=model.bind_tools([grab(1)]))


def test_the_field_of_anthropics_models_is_that_of_today():
    anthropic = pytest.importorskip("langchain_anthropic")
    model = anthropic.ChatAnthropic(model="claude-sonnet-4-5", api_key="x", context_management=CLEAR)
    assert "clear_tool_uses" in seen(model=model)
    plain = anthropic.ChatAnthropic(model="claude-sonnet-4-5", api_key="x")
    assert seen(model=plain) == ""
    assert "compact_20260112" in seen(model=plain.bind(context_management=COMPACT))


# The provider, by what it says it has done


@pytest.mark.parametrize(
    "message",
    [
        AIMessage("ok", response_metadata={"context_management": {"applied_edits": CLEAR["edits"]}}),
        AIMessage([{"type": "compaction", "content": "the berths"}, {"type": "text", "text": "ok"}]),
    ],
)
def test_what_the_provider_has_done_is_noticed_in_the_newest_answers(message):
    assert seen(messages=[*LONG, message, HumanMessage("go")]).startswith("The provider has done '")
    assert seen(messages=[message, *chat(40)]) == ""


@pytest.mark.parametrize("applied", [{"applied_edits": []}, {"applied_edits": THINKING["edits"]}, None, "x", 7])
def test_answers_in_which_nothing_was_done_are_no_conflict(applied):
    assert seen(messages=[*LONG, AIMessage("ok", response_metadata={"context_management": applied})]) == ""


def test_what_is_asked_for_and_done_is_said_once():
    done = AIMessage("ok", response_metadata={"context_management": {"applied_edits": CLEAR["edits"]}})
    assert seen(messages=[*LONG, done], settings={"context_management": CLEAR}).count("The provider") == 1


# How it is said, and what it costs


def test_each_of_several_is_said_in_a_sentence_of_its_own():
    text = seen(state={"_summarization_event": {"cutoff_index": 4}}, settings={"truncation": "auto"})
    assert text.startswith("deepagents'")
    assert "truncation='auto'" in text
    assert text.count(". ") == 1


@pytest.mark.parametrize("asked", ASKED)
def test_a_sentence_says_what_was_seen_what_it_does_and_what_to_do(asked):
    text = seen(settings=ASKED[asked][0])
    seen_part, rest = text.split(": ", 1)
    assert seen_part
    assert ";" in rest
    assert text.endswith(".")
    assert len(text) < 400


class Raising:
    """A model whose every attribute raises."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class Endless:
    """A model that is bound to another one, and that to another one, and so on."""

    @property
    def bound(self) -> Any:
        return Endless()


ODD: dict[str, Any] = {
    "none": None,
    "raising": Raising(),
    "endless": Endless(),
    "mock": MagicMock(),
    "object": object(),
    "text": "openai:m",
    "number": 5,
    "nested": {"bound": 1, "extra_body": 5, "context_management": [None, 5], "context": Raising()},
}


@pytest.mark.parametrize("settings", ODD)
@pytest.mark.parametrize("model", ODD)
def test_odd_models_and_settings_are_no_conflict_and_never_raise(model, settings):
    assert conflicts({}, LONG, ODD[model], ODD[settings]) == ""


@pytest.mark.parametrize("state", ODD)
def test_odd_states_never_raise(state):
    text = conflicts(ODD[state], LONG, Scripted(), {})
    assert text == "" or state == "mock"


@pytest.mark.parametrize("value", [5, "x", [], [5], [[]], {"edits": 5}, {"edits": [{"type": 5}]}, {"edits": {"a": 1}}])
def test_values_that_mean_nothing_are_no_conflict(value):
    assert seen(settings={"context_management": value, "truncation": value, "transforms": value}) == ""


class Watched(Sequence[BaseMessage]):
    """Ten thousand messages that count how many of them are looked at."""

    def __init__(self) -> None:
        self.messages, self.looked = chat(5000), 0

    def __len__(self) -> int:
        return len(self.messages)

    def __getitem__(self, position: Any) -> Any:
        self.looked += 1
        return self.messages[position]


def test_of_ten_thousand_messages_only_the_first_and_the_newest_are_looked_at():
    messages = Watched()
    assert conflicts({}, messages, Scripted(), {}) == ""
    assert messages.looked < 200
