"""A thread as text: for programs, for people, and for `lgm replay`.

jsonl       one JSON object a message: type, id, content, tool_calls, … as LangChain names them, empty fields left
            out; `convert_to_messages` takes them back
markdown    one heading a message, its text inside a fence that nothing in the text closes
recording   one line, the whole thread as OpenAI-style messages, which `lgm replay` reads
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, convert_to_openai_messages

from ..context.text import message_text, one_line, to_json

Format = Literal["jsonl", "markdown", "recording"]
FIRST = ("id", "type", "name", "content", "tool_calls", "tool_call_id")
HEADING = 80


def lines(thread_id: str, messages: Sequence[BaseMessage], format: Format) -> Iterator[str]:
    """The lines of an export, without line ends."""
    match format:
        case "jsonl":
            yield from (_json(_fields(message)) for message in messages)
        case "recording":
            yield _json({"id": str(thread_id), "messages": [_openai(message) for message in messages]})
        case "markdown":
            yield f"# {one_line(str(thread_id), HEADING)}"
            for number, message in enumerate(messages, 1):
                yield from _markdown(number, message)
        case _:
            raise ValueError(f"There is no export format {format!r}: use 'jsonl', 'markdown' or 'recording'.")


def _json(value: Any) -> str:
    text = to_json(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        # Half a surrogate pair: escaped it is kept.
        return json.dumps(value, default=str)
    return text


def _fields(message: BaseMessage) -> dict[str, Any]:
    fields = message.model_dump()
    order = (*FIRST, *(name for name in fields if name not in FIRST))
    kept = {name: fields[name] for name in order if name in fields and _says(fields[name])}
    return {**kept, "content": message.content}


def _says(value: Any) -> bool:
    return value is not None and value != [] and value != {} and value is not False


def _openai(message: BaseMessage) -> dict[str, Any]:
    try:
        found = convert_to_openai_messages(message)
    except (ValueError, TypeError, KeyError):
        found = {"role": "user", "content": message_text(message)}
    assert isinstance(found, dict)
    if isinstance(message, AIMessage) and message.invalid_tool_calls:
        broken = [
            {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["args"]}}
            for call in message.invalid_tool_calls
        ]
        found["tool_calls"] = [*found.get("tool_calls", ()), *broken]
    return found


# For people


def _markdown(number: int, message: BaseMessage) -> Iterator[str]:
    yield ""
    yield f"## {number}. {_title(message)}"
    if text := message_text(message):
        yield ""
        yield from _fenced(text, "")
    if isinstance(message, AIMessage):
        for call in (*message.tool_calls, *message.invalid_tool_calls):
            yield ""
            yield f"calls {_code(str(call['name']))} {_code(str(call['id']))}"
            yield ""
            args = call["args"]
            yield from _fenced(args if isinstance(args, str) else to_json(args), "json")


def _title(message: BaseMessage) -> str:
    name = f" {_code(message.name)}" if message.name else ""
    answers = f" answers {_code(message.tool_call_id)}" if isinstance(message, ToolMessage) else ""
    return f"{message.type}{name}{answers} · {_code(str(message.id))}"


def _code(text: str) -> str:
    """A short text as code on one line, whatever is in it."""
    line = one_line(text, HEADING)
    ticks = "`" * (_longest(line) + 1)
    return f"{ticks} {line} {ticks}" if "`" in line else f"`{line}`"


def _fenced(text: str, language: str) -> Iterator[str]:
    fence = "`" * max(3, _longest(text) + 1)
    yield f"{fence}{language}"
    yield from re.split("\r\n|\r|\n", text)
    yield fence


def _longest(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
