"""Whether somebody else shortens the same context: another summariser, or the provider itself.

Two that cut one history undo each other's work: what the other one removes is lost, what it changes no longer fits the
summary that was made of it, and both are paid for. Each leaves its mark in a place of its own: a key of the state, the
front of the messages, the newest answers, or the settings of the model. So a look costs the same for ten messages as
for ten thousand. Pure, and it never raises, whatever state and model are like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

FRONT = 64
"""Messages at the front that are looked at: summaries stand there, and what is cleared oldest first."""
NEWEST = 16
"""Messages at the end that are looked at for what the provider says it has done."""
LAYERS = 8
"""Bindings and other wrapping around a model that are looked into."""

Look = Callable[[Any, Sequence[BaseMessage], Any, Any], str]


def conflicts(state: Mapping[str, Any], messages: Sequence[BaseMessage], model: Any, model_settings: Any) -> str:
    """What else shortens the context of this call, in one sentence each: what was seen, what it does, what to do.

    `messages` are those of the request, `model_settings` what is bound to the model for this call. Empty if nothing
    was seen, which is no proof: most of the marks are left by the first cut.
    """
    found = (_quiet(look, state, messages, model, model_settings) for look in LOOKS)
    return " ".join(text for text in found if text)


def _quiet(look: Look, *seen: Any) -> str:
    try:
        return look(*seen)
    except Exception:  # noqa: BLE001 - states and models of others may raise anything, and this is only a hint
        return ""


# Other summarisers


def _summariser(state: Any, messages: Sequence[BaseMessage], *_: Any) -> str:
    if _get(state, "_summarization_event"):
        return DEEPAGENTS
    marked = any(
        isinstance(message, HumanMessage) and message.additional_kwargs.get("lc_source") == "summarization"
        for message in islice(messages, FRONT)
    )
    return LANGCHAIN if marked else ""


def _running_summary(state: Any, *_: Any) -> str:
    return LANGMEM if _get(_get(state, "context"), "running_summary") else ""


def _clearing(_: Any, messages: Sequence[BaseMessage], *__: Any) -> str:
    cleared = any(
        isinstance(message, ToolMessage | AIMessage) and message.response_metadata.get("context_editing")
        for message in islice(messages, FRONT)
    )
    return EDITING if cleared else ""


# The provider


def _provider(_: Any, messages: Sequence[BaseMessage], model: Any, model_settings: Any) -> str:
    """One sentence, by what is asked for; where nothing is, by what the provider says it has done."""
    settings = list(_settings(model, model_settings))
    if edits := [edit for values in settings for edit in _edits(values.get("context_management"))]:
        return MANAGED.format(seen=f"is asked for context_management with {edits[0]!r}")
    if any(values.get("truncation") == "auto" for values in settings):
        return TRUNCATED.format(seen="truncation='auto'", instead="truncation='disabled'")
    if any("middle-out" in _listed(values.get("transforms")) for values in settings):
        return TRUNCATED.format(seen="transforms=['middle-out']", instead="transforms=[]")
    if any(values.get("use_previous_response_id") is True or _is_id(values) for values in settings):
        return REMEMBERED
    done = next((edit for message in _newest(messages) for edit in _done(message)), "")
    return MANAGED.format(seen=f"has done {done!r} in this thread") if done else ""


NAMES = ("context_management", "truncation", "transforms", "use_previous_response_id", "previous_response_id")
NESTED = ("model_kwargs", "extra_body", "additional_model_request_fields", "kwargs")


def _settings(model: Any, model_settings: Any) -> Iterator[Mapping[str, Any]]:
    """Every place that says how a request is made: settings of the call, bound arguments, the model's own fields."""
    yield from _unfolded(model_settings)
    for _ in range(LAYERS):
        if model is None:
            return
        yield {name: _get(model, name) for name in NAMES}
        for name in NESTED:
            yield from _unfolded(_get(model, name))
        inner = _get(model, "bound")
        model = _get(model, "runnable") if inner is None else inner


def _unfolded(values: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(values, Mapping):
        yield values
        yield from (inner for name in NESTED if isinstance(inner := values.get(name), Mapping))


def _edits(value: Any) -> Iterator[str]:
    """Kinds of edits in a configuration, or in a report on what was applied; thinking is not part of the history."""
    if isinstance(value, Mapping):
        value = value.get("edits") or value.get("applied_edits")
    for edit in _listed(value):
        kind = edit.get("type") if isinstance(edit, Mapping) else None
        if isinstance(kind, str) and not kind.startswith("clear_thinking"):
            yield kind


def _done(message: BaseMessage) -> Iterator[str]:
    if isinstance(message, AIMessage):
        yield from _edits(message.response_metadata.get("context_management"))
        blocks = message.content if isinstance(message.content, list) else ()
        yield from (
            "compaction" for block in blocks if isinstance(block, Mapping) and block.get("type") == "compaction"
        )


def _is_id(values: Mapping[str, Any]) -> bool:
    return isinstance(given := values.get("previous_response_id"), str) and bool(given)


def _newest(messages: Sequence[BaseMessage]) -> Iterator[BaseMessage]:
    return (messages[-position] for position in range(1, min(NEWEST, len(messages)) + 1))


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _get(value: Any, name: str) -> Any:
    try:
        return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    except Exception:  # noqa: BLE001 - properties of other libraries may raise anything
        return None


LOOKS: tuple[Look, ...] = (_summariser, _running_summary, _clearing, _provider)

LANGCHAIN = (
    "LangChain's SummarizationMiddleware has replaced messages of this thread by a summary: it deletes what the memory "
    "would keep, even the user's request, and each of its cuts makes the memory's own summary worthless; take it out "
    "of the middleware list."
)
DEEPAGENTS = (
    "deepagents' summariser has cut this thread (_summarization_event): both are paid for summaries of the same "
    "messages, and each of its cuts makes the memory's summary worthless; give the memory its "
    'place, with MemoryMiddleware(…, name="SummarizationMiddleware"), or leave it out with '
    'HarnessProfile(excluded_middleware={"SummarizationMiddleware"}), because trigger=None does not stop it.'
)
LANGMEM = (
    "langmem keeps a running summary of this thread (context['running_summary']): both are paid for summaries of the "
    "same messages, and what its node removes the memory can neither show nor recall; take the SummarizationNode out "
    "of the graph and send the memory's view."
)
EDITING = (
    "LangChain's ContextEditingMiddleware clears tool results before the memory sees them: each result it clears later "
    "changes what a summary was made of, so the summary is dropped and bought again; put it behind the memory in the "
    "middleware list, or take it out and let memory.pruning do this."
)
MANAGED = (
    "The provider {seen}: it drops what the memory counts on, at a time the memory does not know of, so counts are "
    "wrong and the same messages are dealt with twice; leave it to one of the two, best by taking it out of the "
    "model's settings."
)
TRUNCATED = (
    "The model is called with {seen}: the provider then drops messages without a word, the user's request too, where "
    "the memory would be told that they do not fit and would make room; use {instead}."
)
REMEMBERED = (
    "The provider is asked to remember the conversation (previous_response_id): it goes on with the whole history, and "
    "what the memory sends in place of old messages does not count; leave previous_response_id out and set "
    "use_previous_response_id=False."
)
