"""Recorded conversations: OpenAI-style JSON read into LangChain messages.

A file holds one conversation a line (JSON Lines): an object with `messages` and maybe an `id`, or a bare list of
messages. A file that is one JSON value is understood too: a list of conversations, or a single one. A line without
messages is skipped and told to `note`; anything that cannot be understood is a `RecordingError` that names the place.

Message ids are made from conversation id and position, so the same recording always gives the same messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    SystemMessage,
    ToolCall,
    ToolMessage,
)

from langgraph_memory.context.text import clean_text

from .errors import RecordingError

Note = Callable[[str], None]

DIGITS = 20
"""Digits and sign of a 64-bit number at most."""

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(frozen=True)
class Recording:
    """One recorded conversation."""

    id: str
    file: Path
    messages: Sequence[BaseMessage] = field(repr=False)

    @property
    def opening(self) -> int:
        """Position of the first human message; what stands before it was not asked of a model."""
        humans = (i for i, message in enumerate(self.messages) if isinstance(message, HumanMessage))
        return next(humans, len(self.messages))

    @property
    def calls(self) -> int:
        """Number of assistant messages that answer something."""
        return sum(isinstance(message, AIMessage) for message in self.messages[self.opening :])

    def inputs(self, start: int) -> list[BaseMessage]:
        """What is put in at position `start`: everything up to the next assistant message."""
        end = max(start, self.opening if start == 0 else 0)
        while end < len(self.messages) and not isinstance(self.messages[end], AIMessage):
            end += 1
        return list(self.messages[start:end])

    def results(self, start: int) -> list[BaseMessage]:
        """The tool results in a row at position `start`."""
        end = start
        while end < len(self.messages) and isinstance(self.messages[end], ToolMessage):
            end += 1
        return list(self.messages[start:end])


def read_recordings(file: Path, limit: int | None = None, note: Note = lambda _: None) -> Iterator[Recording]:
    """The conversations of `file`, at most `limit`, each read when it is asked for."""
    seen: dict[str, int] = {}
    for place, value in _records(file):
        if limit is not None and sum(seen.values()) >= limit:
            return
        messages = value.get("messages") if isinstance(value, dict) else value
        if not isinstance(messages, list) or not messages:
            note(f"{place}: no messages, skipped")
            continue
        name = _name(value, place)
        seen[name] = seen.get(name, 0) + 1
        unique = name if seen[name] == 1 else f"{name}~{seen[name]}"
        yield Recording(unique, file, [_message(m, f"{unique}-{i}", i, place) for i, m in enumerate(messages)])


def _name(value: Any, place: str) -> str:
    named = value.get("id") if isinstance(value, dict) else None
    return str(named) if isinstance(named, str | int) and str(named).strip() else f"line-{place.rpartition(':')[2]}"


# Files


def _records(file: Path) -> Iterator[tuple[str, Any]]:
    """The JSON values of a file, each with its place."""
    try:
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    value = _parsed(line, f"{file}:{number}")
                except RecordingError:
                    yield from _single(file, number)
                    return
                if number == 1 and _is_conversations(value):
                    yield from _single(file, number)
                    return
                yield f"{file}:{number}", value
    except OSError as error:
        raise RecordingError(f"{file}: cannot be read ({error.strerror or error}); name a readable file") from error


def _single(file: Path, broken: int) -> Iterator[tuple[str, Any]]:
    """The conversations of a file that is one JSON value; a fault is blamed on the line that is `broken`."""
    with file.open("rb") as lines:
        head = [line for _, line in zip(range(broken), lines, strict=False)]
        if any(line.strip() for line in head[:-1]):
            _parsed(head[-1], f"{file}:{broken}")
        whole = b"".join([*head, *lines])
    try:
        value = _parsed(whole, f"{file}:{broken}")
    except RecordingError:
        _parsed(head[-1], f"{file}:{broken}")
        raise
    for number, conversation in enumerate(value if _is_conversations(value) else [value], 1):
        yield f"{file}:{number}", conversation


def _is_conversations(value: Any) -> bool:
    return isinstance(value, list) and not any(isinstance(item, dict) and "role" in item for item in value)


def _parsed(data: bytes, place: str) -> Any:
    try:
        return _loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise RecordingError(f"{place}: byte {error.start} is not UTF-8; save the file as UTF-8") from error
    except json.JSONDecodeError as error:
        raise RecordingError(f"{place}: not JSON ({error.msg}, column {error.colno}); mend or remove it") from error
    except (ValueError, RecursionError) as error:
        raise RecordingError(f"{place}: not usable as JSON ({error})") from error


def _loads(text: str) -> Any:
    """The JSON value of `text`, of which every part can be stored in a database."""
    value = json.loads(text, parse_int=_integer)
    return _clean(value) if _SURROGATE.search(text) else value


def _integer(digits: str) -> int | str:
    """A number; its digits where it needs more than 64 bits."""
    number = int(digits) if len(digits) <= DIGITS else None
    return digits if number is None or number.bit_length() > 63 else number


def _clean(value: Any) -> Any:
    """`value` without lone surrogates."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return {_clean(key): _clean(item) for key, item in value.items()} if isinstance(value, dict) else value


# Messages


def _message(raw: Any, id: str, index: int, place: str) -> BaseMessage:
    if not isinstance(raw, dict):
        raise RecordingError(f"{place}: message {index} is not an object but {type(raw).__name__}")
    content, name = _content(raw.get("content")), raw.get("name")
    named = {"id": id, **({"name": name} if isinstance(name, str) and name else {})}
    match raw.get("role"):
        case "system" | "developer":
            return SystemMessage(content, **named)
        case "user" | "human":
            return HumanMessage(content, **named)
        case "assistant" | "ai":
            return _reply(raw, content, named, f"{place}: message {index}")
        case "tool" | "function":
            return ToolMessage(content, tool_call_id=str(raw.get("tool_call_id") or ""), **named)
    known = "system, developer, user, assistant, tool"
    raise RecordingError(f"{place}: message {index} has the role {raw.get('role')!r}; known are {known}")


def _content(content: Any) -> Any:
    if content is None:
        return ""
    if isinstance(content, list) and all(isinstance(block, str | dict) for block in content):
        return content
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _reply(raw: dict[str, Any], content: Any, named: dict[str, Any], place: str) -> AIMessage:
    calls: list[ToolCall] = []
    invalid: list[InvalidToolCall] = []
    for item in raw.get("tool_calls") or ():
        function = item.get("function", item) if isinstance(item, dict) else None
        if not isinstance(function, dict):
            raise RecordingError(f"{place} has a tool call that is not an object")
        id, name, given = item.get("id"), str(function.get("name") or ""), function.get("arguments")
        arguments = _arguments(given)
        if arguments is None:
            invalid.append(InvalidToolCall(id=id, name=name, args=str(given), error=None, type="invalid_tool_call"))
        else:
            calls.append(ToolCall(id=id, name=name, args=arguments, type="tool_call"))
    return AIMessage(content, tool_calls=calls, invalid_tool_calls=invalid, **named)


def _arguments(given: Any) -> dict[str, Any] | None:
    """The arguments of a call; None where they are not a JSON object."""
    if given is None or given == "":
        return {}
    try:
        value = _loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
