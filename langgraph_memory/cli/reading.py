"""Reading threads: which there are, what they hold, and what the model would be sent of them.

Any thread can be read, also those of graphs without memory: what they have of messages is taken from the channel
`messages`, and a thread without a record is looked at as if nothing had been decided yet. Nothing is written.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from aiosqlite import Connection
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph

from langgraph_memory import ContextReport, MemoryMiddleware, RuntimeConfig
from langgraph_memory.context.history import History
from langgraph_memory.context.prune import CLEAR
from langgraph_memory.context.record import Scope, fitted, read_scope
from langgraph_memory.context.render import Part, render
from langgraph_memory.context.text import message_text
from langgraph_memory.context.tokens import load_counter
from langgraph_memory.state import MESSAGES, RECORD
from langgraph_memory.threads.pending import pending

from .channel import DeltaState
from .errors import UnknownThreadError

SUGGESTED = 3
LANGGRAPH = logging.getLogger("langgraph")


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """A thread in the list of threads."""

    thread_id: str
    checkpoints: int
    messages: int
    updated: str
    """Time of the newest checkpoint, ISO 8601."""
    next: list[str]
    """Nodes that have not run yet."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


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


async def list_threads(saver: AsyncSqliteSaver) -> list[ThreadRow]:
    """All threads, the one changed last first."""
    rows = [await _row(saver, thread, count) for thread, count in (await thread_counts(saver.conn)).items()]
    return sorted(rows, key=lambda row: row.updated, reverse=True)


async def thread_counts(connection: Connection) -> dict[str, int]:
    """Thread ids and their number of checkpoints; none where the database never held a thread."""
    async with connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'checkpoints'") as found:
        if await found.fetchone() is None:
            return {}
    async with connection.execute("SELECT thread_id, COUNT(*) FROM checkpoints GROUP BY thread_id") as rows:
        return {str(thread): count async for thread, count in rows}


async def _row(saver: AsyncSqliteSaver, thread_id: str, checkpoints: int) -> ThreadRow:
    saved = await saver.aget_tuple(_config(thread_id))
    messages = (await _values(saver, thread_id)).get(MESSAGES) or ()
    updated = saved.checkpoint["ts"] if saved else ""
    return ThreadRow(thread_id, checkpoints, len(messages), updated, pending(saved.checkpoint) if saved else [])


async def read_thread(saver: AsyncSqliteSaver, thread_id: str) -> dict[str, Any]:
    """Messages and record of a thread. Raises `UnknownThreadError` with the nearest names."""
    known = await thread_counts(saver.conn)
    if thread_id not in known:
        raise UnknownThreadError(f"There is no thread {thread_id!r}. {_nearest(thread_id, list(known))}")
    values = await _values(saver, thread_id)
    return {MESSAGES: values.get(MESSAGES) or [], RECORD: values.get(RECORD) or {}}


def _nearest(thread_id: str, known: list[str]) -> str:
    if not known:
        return "The database holds no threads."
    near = difflib.get_close_matches(thread_id, known, SUGGESTED, cutoff=0.4)
    near += [name for name in known if thread_id and thread_id in name and name not in near]
    return f"Nearest: {', '.join(map(repr, near[:SUGGESTED]))}." if near else "`lgm threads` lists them."


async def _values(saver: AsyncSqliteSaver, thread_id: str) -> Mapping[str, Any]:
    """The channels this library knows, whatever graph wrote the thread."""
    builder = StateGraph(DeltaState)
    builder.add_node("nothing", lambda _: {})
    builder.add_edge(START, "nothing")
    builder.add_edge("nothing", END)
    with _foreign_channels_expected():
        snapshot = await builder.compile(checkpointer=saver).aget_state(_config(thread_id))
    values: Mapping[str, Any] = snapshot.values
    return values


@contextmanager
def _foreign_channels_expected() -> Iterator[None]:
    """Keep LangGraph from warning of pending writes to channels and nodes of the graph that wrote the thread."""

    def graver(record: logging.LogRecord) -> bool:
        return record.levelno > logging.WARNING

    LANGGRAPH.addFilter(graver)
    try:
        yield
    finally:
        LANGGRAPH.removeFilter(graver)


def _config(thread_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}


# What the model would be sent


def context_of(config: RuntimeConfig, values: Mapping[str, Any]) -> ContextReport:
    """The report on a thread, counted as its last decision was."""
    return MemoryMiddleware(_as_recorded(config, values)).report(values)


def view_of(config: RuntimeConfig, values: Mapping[str, Any]) -> list[Shown]:
    """The view of a thread, message by message."""
    history = History.of(values[MESSAGES], load_counter(_as_recorded(config, values).memory.tokenizer))
    return list(map(_shown, render(history, fitted(_scope(values), history)).parts))


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


def _shown(part: Part) -> Shown:
    message = part.message
    return Shown(
        position=part.position if part.position >= 0 else None,
        id=message.id,
        role=message.type,
        origin=_origin(part),
        tokens=part.tokens,
        text=message_text(message),
        tool_calls=list(_calls(message)),
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


def _calls(message: BaseMessage) -> Iterator[dict[str, Any]]:
    if isinstance(message, AIMessage):
        for call in (*message.tool_calls, *message.invalid_tool_calls):
            yield {"id": call["id"], "name": call["name"], "args": call["args"]}
