"""Arguments of old calls are shortened without damage to what surrounds them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from langgraph_memory.context.truncate import truncate

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=400),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def calling(args: dict[str, Any], **fields: Any) -> AIMessage:
    return AIMessage(
        fields.pop("content", ""), id="a", tool_calls=[{"name": "write", "args": args, "id": "c"}], **fields
    )


def strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for item in items for text in strings(item)]


@pytest.mark.parametrize("text", ["x" * 5000, "仓库" * 3000, "line\n" * 1000, "🛳️" * 2000])
@pytest.mark.parametrize("limit", [100, 2000])
def test_a_long_text_keeps_head_and_tail_around_a_marker(text, limit):
    cut = truncate(calling({"path": "a.py", "content": text}), limit).tool_calls[0]["args"]
    assert cut["path"] == "a.py"
    assert len(cut["content"]) <= limit
    assert f"[arguments truncated: {len(text)} characters]" in cut["content"]
    assert text.startswith(cut["content"].split("[arguments")[0].rstrip("\n"))


def test_a_message_without_long_arguments_is_the_same_object():
    message = calling({"content": "x" * 100})
    assert truncate(message, 100) is message


@given(args=st.dictionaries(st.text(max_size=8), VALUES, max_size=5), limit=st.integers(60, 300))
def test_any_arguments_stay_json_of_the_same_shape_and_never_grow(args, limit):
    message = calling(args)
    before = json.dumps(args)
    cut = truncate(message, limit)
    assert json.dumps(message.tool_calls[0]["args"]) == before
    assert len(json.dumps(cut.tool_calls[0]["args"])) <= len(before)
    assert len(strings(cut.tool_calls[0]["args"])) == len(strings(args))
    assert all(len(text) <= max(limit, 60) for text in strings(cut.tool_calls[0]["args"]))


def test_everything_but_the_arguments_stays():
    thinking = {"type": "thinking", "thinking": "y" * 9000, "signature": "s" * 500}
    use = {"type": "tool_use", "id": "c", "name": "write", "input": {"content": "x" * 9000}}
    raw = {"id": "c", "type": "function", "function": {"name": "write", "arguments": json.dumps(use["input"])}}
    message = calling(
        use["input"],
        content=[thinking, {"type": "text", "text": "z" * 9000}, use],
        additional_kwargs={"tool_calls": [raw], "other": 1},
        response_metadata={"model_name": "m"},
    )
    cut = truncate(message, 500)
    assert cut.content[:2] == message.content[:2]
    args = cut.tool_calls[0]["args"]
    assert cut.content[2] == {**use, "input": args}
    assert json.loads(cut.additional_kwargs["tool_calls"][0]["function"]["arguments"]) == args
    assert len(args["content"]) <= 500
    assert (cut.id, cut.response_metadata, cut.additional_kwargs["other"]) == ("a", {"model_name": "m"}, 1)
    assert (cut.tool_calls[0]["id"], cut.tool_calls[0]["name"]) == ("c", "write")


@pytest.mark.parametrize("arguments", ["{broken", "[1, 2", ""])
def test_raw_arguments_that_are_no_json_are_left_alone(arguments):
    raw = {"id": "c", "type": "function", "function": {"name": "write", "arguments": arguments}}
    message = calling({"content": "x" * 900}, additional_kwargs={"tool_calls": [raw]})
    assert truncate(message, 100).additional_kwargs["tool_calls"] == [raw]
