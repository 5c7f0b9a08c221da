"""The `recall` tool: what the view leaves out, given back from the thread's own messages.

The markers in the view name messages: `recall("msg:ID")` pages through one, `recall("history")` through all of them,
and `pattern` picks matching lines of either. Only messages of the running thread's own state can be reached.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import regex
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool, tool

from .context.text import clean_text, message_text, preview
from .state import MESSAGES

MAX_CHARS = 8000
LINE_CHARS = 500
NAME = "recall"
HISTORY = "history"
Line = tuple[str | None, str]
MATCH_SECONDS = 1.0
"""Time for all matches of a pattern; a pattern that takes longer is looked for as plain text."""


@tool(NAME)
def _recall(ref: str, runtime: ToolRuntime, offset: int = 0, limit: int = 4000, pattern: str = "") -> str:
    """Read an earlier message of this conversation that is shown shortened, cleared or summarised.

    Args:
        ref: "msg:ID" as it stands in a marker, or "history" for all messages from the beginning.
        offset: Character to start at (with a pattern: number of matching lines to skip).
        limit: Characters to return, at most 8000.
        pattern: Return only lines that contain this text (a regular expression, case-insensitive).
    """
    state = runtime.state
    messages = state.get(MESSAGES, ()) if isinstance(state, dict) else getattr(state, MESSAGES)
    return recall(messages, ref, offset=offset, limit=limit, pattern=pattern)


recall_tool: BaseTool = _recall


def recall(messages: Sequence[BaseMessage], ref: str, *, offset: int = 0, limit: int = 4000, pattern: str = "") -> str:
    """What the tool returns for the thread `messages`; sizes are characters."""
    offset, limit = max(0, offset), min(max(1, limit), MAX_CHARS)
    ref = ref.strip().strip("\"'")
    found = _said(messages) if ref == HISTORY else [m for m in messages if m.id and ref in (m.id, f"msg:{m.id}")]
    if not found:
        return f"Nothing here is called {ref!r}. Use a reference from a marker, such as msg:ID, or history."
    if pattern:
        return _matching(found, ref, pattern, offset, limit)
    text = clean_text("\n".join(_transcript(found)) if ref == HISTORY else full_text(found[-1]))
    return _page(text, ref, offset, limit)


def full_text(message: BaseMessage) -> str:
    """Everything a message says: its text, and the calls it makes, but for calls of this tool."""
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    shown = [f"→ {call['name']} {call['args']}" for call in calls if call["name"] != NAME]
    return "\n".join(filter(None, [message_text(message), *shown]))


def _said(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """All messages but what was recalled before: a search must not find itself."""
    return [m for m in messages if not (isinstance(m, ToolMessage) and m.name == NAME)]


def _transcript(messages: Sequence[BaseMessage]) -> Iterator[str]:
    for message in messages:
        yield f"[{message.type} msg:{message.id}]"
        yield full_text(message)


def _page(text: str, ref: str, offset: int, limit: int) -> str:
    end = min(offset + limit, len(text))
    if offset >= len(text):
        return f"{ref} has {len(text)} characters; there is nothing at {offset}."
    more = f"\n[characters {offset}-{end} of {len(text)}; go on with offset={end}]" if end < len(text) else ""
    return text[offset:end] + more


def _matching(messages: Sequence[BaseMessage], ref: str, pattern: str, skip: int, limit: int) -> str:
    lines = [(message.id, line) for message in messages for line in clean_text(full_text(message)).splitlines()]
    found = [f"msg:{id}: {preview(line, min(LINE_CHARS, limit), '[…]')}" for id, line in _matches(lines, pattern)]
    if not found:
        return f"No line of {ref} matches {pattern!r}."
    shown, used = 0, 0
    for line in found[skip:]:
        used += len(line) + 1
        if shown and used > limit:
            break
        shown += 1
    rest = len(found) - skip - shown
    more = f"\n[{rest} more matching lines; go on with offset={skip + shown}]" if rest > 0 else ""
    return "\n".join(found[skip : skip + shown]) + more


def _matches(lines: Sequence[Line], pattern: str) -> list[Line]:
    """The lines `pattern` is found in: as a regular expression, or as plain text where it is none or takes too long."""
    try:
        search = regex.compile(pattern, regex.IGNORECASE).search
        ends = time.monotonic() + MATCH_SECONDS
        return [(id, line) for id, line in lines if search(line, timeout=max(0.001, ends - time.monotonic()))]
    except (regex.error, TimeoutError):
        plain = pattern.casefold()
        return [(id, line) for id, line in lines if plain in line.casefold()]
