"""Reading threads: what they hold, and what the model would be sent of them.

Any thread can be read, also those of graphs without memory: what they have of messages is taken from the channel
`messages`, and a thread without a record is looked at as if nothing had been decided yet. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import CheckpointTuple

from langgraph_memory import ContextReport, MemoryMiddleware, RuntimeConfig
from langgraph_memory.context.explain import ExplainedView
from langgraph_memory.context.record import Scope, read_scope
from langgraph_memory.opening import workspace_of
from langgraph_memory.state import MESSAGES, RECORD
from langgraph_memory.threads import ThreadStore
from langgraph_memory.threads.fold import Step, said
from langgraph_memory.threads.ids import thread_text
from langgraph_memory.threads.source import config_of, own_writes, told

from .bought import Bought

# Threads


async def read_thread(store: ThreadStore, thread_id: str, checkpoint_id: str | None = None) -> dict[str, Any]:
    """Messages and record of a thread at a checkpoint. Raises `UnknownThreadError`, `UnknownCheckpointError`."""
    name = thread_text(thread_id)
    with told(name):
        saved = await store.saver.aget_tuple(config_of(name, "", checkpoint_id))
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
    return MemoryMiddleware(as_recorded(config, values)).report(values)


def view_of(config: RuntimeConfig, values: Mapping[str, Any]) -> ExplainedView:
    """The view of a thread, message by message, with the reasons."""
    summary = scope_of(values).summary
    bought = Bought(workspace_of(config)).origin(summary.digest, summary.text) if summary else ""
    return MemoryMiddleware(as_recorded(config, values)).explain(values, bought=bought)


def scope_of(values: Mapping[str, Any]) -> Scope:
    """The decisions about a thread's own graph."""
    try:
        return read_scope(values[RECORD], "")
    except ValueError:
        # Of a newer version: the middleware ignores it too.
        return Scope()


def as_recorded(config: RuntimeConfig, values: Mapping[str, Any]) -> RuntimeConfig:
    """`config` with the encoding the thread was counted with, and without models, which are not needed for looking."""
    settings = config.memory
    sections = {
        "compaction": settings.compaction.model_copy(update={"model": None}),
        "flush": settings.flush.model_copy(update={"model": None}),
        "consolidation": settings.consolidation.model_copy(update={"model": None}),
        "retrieval": settings.retrieval.model_copy(update={"embeddings": None}),
    }
    tokenizer = scope_of(values).sizes.counter or settings.tokenizer
    memory = settings.model_copy(update={**sections, "tokenizer": tokenizer})
    return config.model_copy(update={"memory": memory})
