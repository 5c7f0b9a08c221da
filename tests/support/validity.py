"""What every provider asks of a message list, checked without any code of the library.

After each assistant message that asks for tools stand its results, each call answered once, before anything else; no
result stands anywhere else; no message stands twice; no assistant message says nothing; system messages stand at the
front, and the first message behind them is the user's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage


def faults(messages: Sequence[BaseMessage], *, alternating: bool = False, first_human: bool = True) -> list[str]:
    """Everything a strict provider would refuse; empty for a valid list.

    `alternating` also refuses two human messages in a row and two assistant messages in a row.
    """
    found = [*_pairs(messages), *_doubles(messages), *_blanks(messages), *_roles(messages, first_human)]
    return found + (_repeats(messages) if alternating else [])


def asked(message: BaseMessage) -> list[str]:
    """Ids of all calls the provider sees in a message: parsed, invalid, raw or as blocks."""
    if not isinstance(message, AIMessage):
        return []
    ids = [call["id"] or "" for call in [*message.tool_calls, *message.invalid_tool_calls]]
    if not ids:
        ids += [call["id"] for call in message.additional_kwargs.get("tool_calls", ())]
    if isinstance(message.content, list):
        blocks = [block for block in message.content if isinstance(block, dict)]
        ids += [b["id"] for b in blocks if b.get("type") == "tool_use" and b["id"] not in ids]
    return ids


def _pairs(messages: Sequence[BaseMessage]) -> list[str]:
    found = []
    position = 0
    while position < len(messages):
        message = messages[position]
        if isinstance(message, ToolMessage):
            found.append(f"{position}: result of {message.tool_call_id!r} without a call in front of it")
        position += 1
        if ids := asked(message):
            answered = []
            while position < len(messages) and isinstance(result := messages[position], ToolMessage):
                answered.append(result.tool_call_id)
                position += 1
            if Counter(answered) != Counter(ids):
                found.append(f"{position}: calls {ids} are answered by {answered}")
    return found


def _doubles(messages: Sequence[BaseMessage]) -> list[str]:
    counts = Counter(message.id for message in messages if message.id)
    return [f"message {id!r} stands {count} times" for id, count in counts.items() if count > 1]


def _blanks(messages: Sequence[BaseMessage]) -> list[str]:
    return [
        f"{position}: an assistant message without content and calls"
        for position, message in enumerate(messages)
        if isinstance(message, AIMessage) and not asked(message) and not _says_something(message.content)
    ]


def _says_something(content: Any) -> bool:
    if isinstance(content, str):
        return bool(content.strip())
    return any(
        bool(block.strip()) if isinstance(block, str) else block.get("type") != "text" or bool(block["text"].strip())
        for block in content
    )


def _roles(messages: Sequence[BaseMessage], first_human: bool) -> list[str]:
    systems = [isinstance(message, SystemMessage) for message in messages]
    front = systems.index(False) if False in systems else len(systems)
    found = [
        f"{position}: a system message behind others" for position in range(front, len(systems)) if systems[position]
    ]
    if first_human and front < len(messages) and not isinstance(messages[front], HumanMessage):
        found.append(f"{front}: the first message is of the {messages[front].type}")
    if front == len(messages):
        found.append("nothing but system messages")
    return found


def _repeats(messages: Sequence[BaseMessage]) -> list[str]:
    kinds = [message.type for message in messages]
    return [
        f"{i + 1}: {kinds[i]} after {kinds[i]}"
        for i in range(len(kinds) - 1)
        if kinds[i] == kinds[i + 1] and kinds[i] in ("human", "ai")
    ]
