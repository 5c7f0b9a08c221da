"""What was said in a thread, with the time of each message and the turn it belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

from langgraph_memory.context.explain import calls_of
from langgraph_memory.context.text import message_text
from langgraph_memory.search_text import Query
from langgraph_memory.threads import Node, ThreadStore
from langgraph_memory.threads.export import lines


@dataclass(frozen=True, slots=True)
class Said:
    """A message of a thread."""

    position: int
    message: BaseMessage
    created: str
    """Time of the first checkpoint that holds it, ISO 8601."""

    def to_json(self) -> dict[str, Any]:
        message = self.message
        row = {
            "position": self.position,
            "id": message.id,
            "role": message.type,
            "name": message.name,
            "created": self.created,
            "text": message_text(message),
            "tool_calls": calls_of(message),
            "tool_call_id": message.tool_call_id if isinstance(message, ToolMessage) else None,
        }
        return {name: value for name, value in row.items() if value is not None and value != []}

    def markdown(self) -> Iterator[str]:
        """As `lgm threads export` writes it, under its number in the thread and with its time."""
        _, blank, heading, *rest = lines("", [self.message], "markdown")
        yield blank
        yield f"{heading.replace('## 1.', f'## {self.position + 1}.', 1)} · {self.created[:19].replace('T', ' ')}"
        yield from rest


async def all_said(store: ThreadStore, thread_id: str) -> list[Said]:
    """Everything that was said on the way to the newest checkpoint. Raises `UnknownThreadError`."""
    messages, nodes = await store.messages(thread_id), await store.checkpoints(thread_id)
    return [Said(*each) for each in zip(range(len(messages)), messages, _times(nodes, len(messages)), strict=True)]


def _times(nodes: Sequence[Node], number: int) -> list[str]:
    """When each of `number` messages was said; a copy of a checkpoint says when its original was made."""
    known = {node.checkpoint_id: node for node in nodes}
    found: list[str] = []
    for node in nodes:
        if node.active:
            created = node.created
            while node.origin in known:
                node = known[node.origin]
            found += [min(created, node.created)] * (node.messages - len(found))
    return [*found, *[nodes[-1].created] * number][:number]


def chosen(everything: Iterable[Said], *, query: str | None, since: datetime | None, newest: int | None) -> list[Said]:
    """The newest of the messages that hold every word of `query` and were said `since` then."""
    words = Query.of(query) if query is not None else None
    found = [
        one
        for one in everything
        if (words is None or (words and words.holds(message_text(one.message)) == len(words.terms)))
        and (since is None or datetime.fromisoformat(one.created) >= since)
    ]
    return found if newest is None else found[max(0, len(found) - newest) :]


# Turns


@dataclass(frozen=True, slots=True)
class Turn:
    """A run of human messages and all that follows it."""

    number: int
    """From 1."""
    start: int
    """Position of its first message."""
    request: str


def turns_of(messages: Sequence[BaseMessage]) -> list[Turn]:
    found: list[Turn] = []
    for position, message in enumerate(messages):
        opens = isinstance(message, HumanMessage) and not (
            position and isinstance(messages[position - 1], HumanMessage)
        )
        if opens:
            found.append(Turn(len(found) + 1, position, message_text(message)))
    return found
