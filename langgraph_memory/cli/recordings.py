"""Recorded conversations: OpenAI-style JSON read into LangChain messages.

A file holds one conversation a line (JSON Lines): an object with `messages` and maybe an `id`, or a bare list of
messages. A file that is one JSON value is understood too: a list of conversations, or a single one. A line without
messages and a message that no provider would take are skipped and told to `note`; anything that cannot be understood is
a `RecordingError` that names the place.

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

TOOL_ROLES = ("tool", "function")

SHOWN = 60
"""Characters of a value that are shown at most."""

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


def read_recordings(
    file: Path, limit: int | None = None, note: Note = lambda _: None, *, content: Path | None = None
) -> Iterator[Recording]:
    """The conversations of `file`, at most `limit`, each read when it is asked for.

    `content` is where its bytes are, if that is not `file` itself.
    """
    seen: dict[str, int] = {}
    for number, value in _records(content or file, str(file)):
        if limit is not None and sum(seen.values()) >= limit:
            return
        place = f"{file}:{number}"
        messages = list(_usable(value, place, note))
        if not messages:
            continue
        name = _name(value, number)
        seen[name] = seen.get(name, 0) + 1
        unique = name if seen[name] == 1 else f"{name}~{seen[name]}"
        recording = Recording(unique, file, [_message(raw, f"{unique}-{i}", i, place) for i, raw in messages])
        if not recording.calls:
            note(f"{place}: no assistant message answers a user message, so there are no calls to measure")
        yield recording


def _name(value: Any, number: int) -> str:
    named = value.get("id") if isinstance(value, dict) else None
    return str(named) if isinstance(named, str | int) and str(named).strip() else f"line-{number}"


def _usable(value: Any, place: str, note: Note) -> Iterator[tuple[int, Any]]:
    """The messages of a conversation with their positions; the others are told to `note`."""
    messages = value.get("messages") if isinstance(value, dict) else value
    if not isinstance(messages, list) or not messages:
        note(f"{place}: {_no_messages(value)}; expected is the key `messages` with a list of messages; skipped")
        return
    for index, raw in enumerate(messages):
        if fault := _fault(raw):
            note(f"{place}: message {index} {fault}; skipped")
        else:
            yield index, raw


def _no_messages(value: Any) -> str:
    if isinstance(value, dict) and "messages" in value and value["messages"] != []:
        return f"`messages` is {_shown(value['messages'])}, which is not a list"
    return "no messages"


def _fault(raw: Any) -> str | None:
    """Why no provider would take a message; None where one may."""
    if not isinstance(raw, dict):
        return None
    content = raw.get("content")
    if not (content is None or isinstance(content, str) or _is_blocks(content)):
        return f"has the content {_shown(content)}, which is neither text nor a list of blocks"
    if raw.get("role") in TOOL_ROLES and not raw.get("tool_call_id"):
        return "is a tool result without a tool_call_id"
    return None


def _shown(value: Any) -> str:
    """The beginning of `value`, in JSON."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _is_blocks(content: Any) -> bool:
    return isinstance(content, list) and all(isinstance(block, str | dict) for block in content)


# Files


def _records(file: Path, name: str) -> Iterator[tuple[int, Any]]:
    """The JSON values of a file, each with its line; faults are told of `name`."""
    try:
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    value = _parsed(line, f"{name}:{number}")
                except RecordingError:
                    yield from _single(file, name, number)
                    return
                if number == 1 and _is_conversations(value):
                    yield from _single(file, name, number)
                    return
                yield number, value
    except OSError as error:
        raise RecordingError(f"{name}: cannot be read ({error.strerror or error}); name a readable file") from error


def _single(file: Path, name: str, broken: int) -> Iterator[tuple[int, Any]]:
    """The conversations of a file that is one JSON value; a fault is blamed on the line that is `broken`."""
    with file.open("rb") as lines:
        head = [line for _, line in zip(range(broken), lines, strict=False)]
        if any(line.strip() for line in head[:-1]):
            _parsed(head[-1], f"{name}:{broken}")
        whole = b"".join([*head, *lines])
    try:
        value = _parsed(whole, f"{name}:{broken}")
    except RecordingError:
        _parsed(head[-1], f"{name}:{broken}")
        raise
    yield from enumerate(value if _is_conversations(value) else [value], 1)


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
    content, name = "" if raw.get("content") is None else raw["content"], raw.get("name")
    named = {"id": id, **({"name": name} if isinstance(name, str) and name else {})}
    match raw.get("role"):
        case "system" | "developer":
            return SystemMessage(content, **named)
        case "user" | "human":
            return HumanMessage(content, **named)
        case "assistant" | "ai":
            return _reply(raw, content, named, f"{place}: message {index}")
        case role if role in TOOL_ROLES:
            return ToolMessage(content, tool_call_id=str(raw["tool_call_id"]), **named)
    known = "system, developer, user, assistant, tool"
    raise RecordingError(f"{place}: message {index} has the role {_shown(raw.get('role'))}; known are {known}")


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
