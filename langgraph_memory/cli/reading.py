"""Reading threads: what they hold, and what the model would be sent of them.

Any thread can be read, also those of graphs without memory: what they have of messages is taken from the channel
`messages`, and a thread without a record is looked at as if nothing had been decided yet. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.checkpoint.base import CheckpointTuple

from langgraph_memory import ContextReport, MemoryMiddleware, RuntimeConfig
from langgraph_memory.context.history import History
from langgraph_memory.context.prune import CLEAR
from langgraph_memory.context.record import Scope, fitted, read_scope
from langgraph_memory.context.render import Part, render
from langgraph_memory.context.text import message_text
from langgraph_memory.context.tokens import load_counter
from langgraph_memory.state import MESSAGES, RECORD
from langgraph_memory.threads import ThreadStore
from langgraph_memory.threads.fold import Step, gone, said
from langgraph_memory.threads.ids import thread_text
from langgraph_memory.threads.source import config_of, own_writes


@dataclass(frozen=True, slots=True)
class Shown:
    """A message of a view."""

    position: int | None
    """Where it stands in the history; None for messages that stand only in the view."""
    id: str | None
    role: str
    origin: str
    """as it is, trimmed, cleared, summary or synthetic"""
    tokens: int
    text: str
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    tool_call_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        row = {("from" if name == "origin" else name): value for name, value in asdict(self).items()}
        return {name: value for name, value in row.items() if value is not None and value != []}


# Threads


async def read_thread(store: ThreadStore, thread_id: str, checkpoint_id: str | None = None) -> dict[str, Any]:
    """Messages and record of a thread at a checkpoint. Raises `UnknownThreadError`, `UnknownCheckpointError`."""
    saved = await store.saver.aget_tuple(config_of(thread_text(thread_id), "", checkpoint_id))
    if saved is None:
        return {MESSAGES: await store.messages(thread_id, checkpoint_id), RECORD: {}}
    newest = own_writes(saved.pending_writes or (), MESSAGES) if checkpoint_id is None else []
    record = saved.checkpoint["channel_values"].get(RECORD) or {}
    return {MESSAGES: await _live(store, saved, newest), RECORD: record}


async def _live(store: ThreadStore, saved: CheckpointTuple, newest: list[Any]) -> list[BaseMessage]:
    """What the channel of messages holds; one that stores only what was added is rebuilt."""
    value, writes = saved.checkpoint["channel_values"].get(MESSAGES), newest
    if value is None and MESSAGES in saved.checkpoint["channel_versions"]:
        past = await store.saver.aget_delta_channel_history(config=saved.config, channels=[MESSAGES])
        value = past[MESSAGES].get("seed")
        writes = [*(write for _, _, write in past[MESSAGES]["writes"]), *newest]
    return said([Step(value or [], writes, 0), Step(None, [], 0)])


# What the model would be sent


def context_of(config: RuntimeConfig, values: Mapping[str, Any]) -> ContextReport:
    """The report on a thread, counted as its last decision was."""
    return MemoryMiddleware(_as_recorded(config, values)).report(values)


def view_of(config: RuntimeConfig, values: Mapping[str, Any]) -> list[Shown]:
    """The view of a thread, message by message."""
    history = History.of(values[MESSAGES], load_counter(_as_recorded(config, values).memory.tokenizer))
    left = gone(values[RECORD])
    return [_shown(part, left) for part in render(history, fitted(_scope(values), history)).parts]


def _scope(values: Mapping[str, Any]) -> Scope:
    try:
        return read_scope(values[RECORD], "")
    except ValueError:
        # Of a newer version: the middleware ignores it too.
        return Scope()


def _as_recorded(config: RuntimeConfig, values: Mapping[str, Any]) -> RuntimeConfig:
    """`config` with the encoding the thread was counted with, and without a model, which is not needed for looking."""
    settings = config.memory
    compaction = settings.compaction.model_copy(update={"model": None})
    tokenizer = _scope(values).sizes.counter or settings.tokenizer
    memory = settings.model_copy(update={"compaction": compaction, "tokenizer": tokenizer})
    return config.model_copy(update={"memory": memory})


def _shown(part: Part, left: int) -> Shown:
    """A part of a view before whose messages `left` have left the channel."""
    message = part.message
    return Shown(
        position=part.position + left if part.position >= 0 else None,
        id=message.id,
        role=message.type,
        origin=_origin(part),
        tokens=part.tokens,
        text=message_text(message),
        tool_calls=calls_of(message),
        tool_call_id=message.tool_call_id if isinstance(message, ToolMessage) else None,
    )


def _origin(part: Part) -> str:
    if part.source == "summary":
        return "summary"
    if part.position < 0:
        return "synthetic"
    if part.limit is None:
        return "as it is"
    return "cleared" if part.limit == CLEAR else "trimmed"


def calls_of(message: BaseMessage) -> list[dict[str, Any]]:
    """The tool calls of a message, broken ones included."""
    if not isinstance(message, AIMessage):
        return []
    calls = (*message.tool_calls, *message.invalid_tool_calls)
    return [{"id": call["id"], "name": call["name"], "args": call["args"]} for call in calls]
