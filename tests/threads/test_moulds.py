"""Whether a message changed is told exactly, and what is cast from a mould is the message that was read."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langgraph_memory.threads import usual
from langgraph_memory.threads.blocks import LONG, SHORT, Moulds
from langgraph_memory.threads.codec import Codec
from langgraph_memory.threads.moulds import cast, mould_of
from tests.support.savers import Swap

SERDE = JsonPlusSerializer()
CODEC = Codec(SERDE)

atoms = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(), st.text(max_size=4), st.binary(max_size=3)
)
plain = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3) | st.integers(0, 9), inner, max_size=3)
    ),
    max_leaves=8,
)
odd = st.one_of(plain, st.tuples(atoms), st.frozensets(st.integers(0, 3), max_size=2), st.builds(bytearray))
mappings = st.dictionaries(st.sampled_from(["a", "b", "tool_calls", "model_provider"]), plain, max_size=2)
contents = st.one_of(
    st.text(max_size=8),
    st.lists(st.text(max_size=3) | st.dictionaries(st.text(max_size=3), plain, max_size=2), max_size=2),
)
names = st.none() | st.text(max_size=3)
common = {
    "content": contents,
    "additional_kwargs": mappings,
    "response_metadata": mappings,
    "name": names,
    "id": names,
}
calls = st.fixed_dictionaries(
    {"name": st.text(max_size=3), "args": st.dictionaries(st.text(max_size=3), plain, max_size=2), "id": names},
    optional={"type": st.just("tool_call")},
)
counts = st.integers(0, 99)
details = st.dictionaries(st.sampled_from(["audio", "cache_read", "reasoning", "cache_creation", "flex"]), counts)
usages = st.fixed_dictionaries(
    {"input_tokens": counts, "output_tokens": counts, "total_tokens": counts},
    optional={"output_token_details": details, "input_token_details": details},
)
invalid = st.fixed_dictionaries({"name": names, "args": names, "id": names, "error": names})
messages = st.one_of(
    st.builds(HumanMessage, **common),
    st.builds(HumanMessage, **common, example=st.booleans()),
    st.builds(SystemMessage, **common),
    st.builds(
        AIMessage,
        **common,
        tool_calls=st.lists(calls, max_size=2),
        invalid_tool_calls=st.lists(invalid, max_size=1),
        usage_metadata=st.none() | usages,
    ),
    st.builds(
        ToolMessage,
        **common,
        tool_call_id=st.text(max_size=3),
        artifact=plain,
        status=st.sampled_from(["success", "error"]),
    ),
)


def shown(message: Any) -> str:
    """All there is to a message: classes, values, their types and order."""
    fields = sorted(getattr(message, "__pydantic_fields_set__", ()))
    private = getattr(message, "__pydantic_private__", None)
    extra = getattr(message, "__pydantic_extra__", None)
    return repr((type(message), getattr(message, "__dict__", message), fields, extra, private))


def changed(before: list[Any], after: list[Any]) -> list[int]:
    return Moulds([mould_of(message, 1) for message in before]).changed(after)


def set_in(value: Any, path: list[int], new: Any) -> bool:
    """Put `new` somewhere into a value; whether there was a place."""
    places = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    if not places:
        return False
    place = places[path[0] % len(places)]
    if len(path) == 1 or not set_in(value[place], path[1:], new):
        value[place] = new
    return True


# Reading


@settings(max_examples=300)
@given(messages)
def test_a_usual_message_is_read_as_the_serializer_reads_it(message: BaseMessage) -> None:
    type_, data = CODEC.dump(message)
    if mould := CODEC.usual(type_, data):
        (made,) = cast([mould])
        assert shown(made) == shown(CODEC.load(type_, data))


@settings(max_examples=300)
@given(messages, st.sampled_from(list(usual.FIELDS[AIMessage])), odd)
def test_so_is_one_that_was_given_values_of_other_types(message: BaseMessage, field: str, value: Any) -> None:
    message.__dict__[field] = value
    try:
        type_, data = SERDE.dumps_typed(message)
    except (TypeError, ValueError):
        return
    if mould := CODEC.usual(type_, data):
        (made,) = cast([mould])
        assert shown(made) == shown(CODEC.load(type_, data))


@pytest.mark.parametrize("message", usual.SAMPLES.values(), ids=lambda message: message.type)
def test_common_messages_are_usual(message: BaseMessage) -> None:
    assert CODEC.usual(*CODEC.dump(message)) is not None
    assert usual._is_believed(type(message))


def test_a_class_that_does_more_than_before_is_left_to_the_serializer(monkeypatch: pytest.MonkeyPatch) -> None:
    init = HumanMessage.__init__

    def louder(self: Any, content: Any = None, **values: Any) -> None:
        init(self, content.upper(), **values)

    usual._is_believed.cache_clear()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(HumanMessage, "__init__", louder)
            assert CODEC.usual(*CODEC.dump(HumanMessage("x"))) is None
    finally:
        usual._is_believed.cache_clear()


def test_only_langgraphs_own_serializer_is_known() -> None:
    class Other(JsonPlusSerializer):
        pass

    hooked = JsonPlusSerializer(__unpack_ext_hook__=lambda code, data: None)
    sealed = EncryptedSerializer(Swap())
    stored = CODEC.dump(HumanMessage("x"))
    assert [Codec(serde).usual(*stored) for serde in (Other(), hooked, sealed)] == [None] * 3
    assert Codec(JsonPlusSerializer(allowed_msgpack_modules=[])).usual(*stored) is not None


@pytest.mark.parametrize("stored", [("null", b""), ("msgpack", b"\xc1"), ("msgpack", b"\x01"), CODEC.dump({"a": 1})])
def test_what_is_no_message_is_left_to_the_serializer(stored: tuple[str, bytes]) -> None:
    assert CODEC.usual(*stored) is None


# Casting


@given(messages)
def test_a_message_that_is_cast_is_the_one_that_was_read(message: BaseMessage) -> None:
    read = CODEC.load(*CODEC.dump(message))
    before = shown(read)
    mould = mould_of(read, 1, read=True)
    assert mould is not None
    first, second = cast([mould, mould])
    assert shown(first) == shown(second) == before


@given(messages, st.lists(st.integers(0, 9), min_size=2, max_size=4))
def test_what_is_done_to_one_message_shows_in_no_other(message: BaseMessage, path: list[int]) -> None:
    read = CODEC.load(*CODEC.dump(message))
    before = shown(read)
    mould = mould_of(read, 1, read=True)
    (made,) = cast([mould])
    for changing in (read, made):
        set_in(changing.__dict__, path, "changed")
        changing.name = "changed"
        changing.__pydantic_fields_set__.clear()
        changing.__pydantic_extra__["more"] = 1
    assert shown(*cast([mould])) == before


def test_only_what_was_read_is_cast() -> None:
    assert cast([mould_of(HumanMessage("x"), 1), None]) == [None, None]


# Comparing


def test_whatever_is_stored_differently_has_changed() -> None:
    values: list[Any] = [1, True, 1.0, "1", b"1", None, [1], (1,), {"a": 1, "b": 2}, {"b": 2, "a": 1}, 0.0, -0.0]
    values += [{1: 0}, {True: 0}, bytearray(b"1"), [[1], [2, 3]], [[1, 2], [3]], [0.0], [-0.0], {}, [], [{}], [[]]]
    said = [HumanMessage("x", additional_kwargs={"value": value}) for value in values]
    for at, message in enumerate(said):
        assert changed([message] * len(said), said) == [other for other in range(len(said)) if other != at]


@settings(max_examples=300)
@given(
    st.lists(messages, min_size=1, max_size=6),
    st.integers(0, 5),
    st.lists(st.integers(0, 9), min_size=1, max_size=4),
    odd,
)
def test_a_message_has_changed_exactly_if_its_bytes_have(
    said: list[BaseMessage], at: int, path: list[int], value: Any
) -> None:
    at %= len(said)
    after = [copy.deepcopy(message) for message in said]
    set_in(after[at].__dict__, path, value)
    try:
        bytes_differ = SERDE.dumps_typed(after[at]) != SERDE.dumps_typed(said[at])
    except (TypeError, ValueError):
        return
    found = changed(said, after)
    assert found == [at] or (found == [] and not bytes_differ)


def test_what_is_not_touched_has_not_changed_in_a_long_list() -> None:
    said = [AIMessage("x", tool_calls=[{"name": "f", "args": {"n": n}, "id": str(n)}]) for n in range(LONG + 99)]
    moulds = Moulds([mould_of(message, 1) for message in said])
    assert moulds.changed(said) == moulds.changed(said[:7]) == moulds.changed([*said, *said]) == []
    places = [0, 1, LONG - 1, LONG, LONG + SHORT, LONG + 98]
    for at in places:
        said[at].tool_calls[0]["args"]["n"] = "other"
    assert moulds.changed(said) == places
    assert moulds.changed(said[:1]) == [0]
    assert moulds.changed(said[1:]) == list(range(len(said) - 1))


def test_what_only_looks_the_same_has_changed() -> None:
    said = [HumanMessage("x", additional_kwargs={"n": 1}) for _ in range(5)]
    moulds = Moulds([mould_of(message, 1) for message in said])
    said[3].additional_kwargs["n"] = True
    assert moulds.changed(said) == [3]
    said[1].content = "y"
    assert moulds.changed(said) == [1, 3]


def test_messages_of_other_classes_and_with_objects_have_always_changed() -> None:
    class Special(HumanMessage):
        pass

    said = [HumanMessage("a"), Special("x"), HumanMessage("x", additional_kwargs={"object": object()})]
    assert changed(said, said) == [1, 2]
    assert changed([said[0]], [Special("a")]) == [0]


def test_extra_fields_are_looked_at_too() -> None:
    first, second = HumanMessage("x", more=[1]), HumanMessage("x")  # type: ignore[call-overload]
    assert changed([first, second], [first, second]) == []
    assert changed([first, second], [second, first]) == [0, 1]
    other = HumanMessage("x", more=[1])  # type: ignore[call-overload]
    moulds = Moulds([mould_of(other, 1)])
    other.more.append(2)
    assert moulds.changed([other]) == [0]


def test_a_list_that_grew_shares_its_blocks() -> None:
    said = [mould_of(HumanMessage(str(n)), 1) for n in range(LONG + SHORT + 1)]
    before = Moulds(said)
    after = Moulds([*said, said[0]], before)
    shared = [place for place, block in after.blocks.items() if before.blocks.get(place) is block]
    assert shared == [(0, LONG), (LONG, LONG + SHORT)]
    assert after.size > before.size > 1200 * LONG
