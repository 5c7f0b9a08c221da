"""Arguments of the middleware that would fail only once they are used, if at all: told at once, in one line."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import iscoroutinefunction
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import StateGraph

from .errors import LangGraphMemoryError, described
from .threads.unentered import Unentered


def check_given(saver: Any, embeddings: Any, on_event: Any) -> None:
    """Raise `LangGraphMemoryError` for an argument that would fail only once it is used."""
    if isinstance(saver, Unentered):
        raise saver.not_entered()
    if saver is not None and not isinstance(saver, BaseCheckpointSaver):
        raise LangGraphMemoryError(
            f"saver: {described(saver)} is no saver; allowed: a checkpointer of LangGraph that is open, as "
            "MemoryMiddleware.open(…) and `async with ThreadSaver.from_conn_string(…) as saver:` give."
        )
    if embeddings is not None and not callable(getattr(embeddings, "embed_documents", None)):
        raise LangGraphMemoryError(
            f"embeddings: {described(embeddings)} is no embedding model; allowed: one of LangChain. A provider:name "
            "goes to memory.retrieval.embeddings of the configuration."
        )
    if on_event is not None and (not callable(on_event) or _is_async(on_event)):
        given = "an async function" if callable(on_event) else described(on_event)
        raise LangGraphMemoryError(
            f"on_event: {given} cannot be told; allowed: a plain function that takes a MemoryEvent. It may hand events "
            "over to an event loop."
        )


def _is_async(listener: Any) -> bool:
    return iscoroutinefunction(listener) or iscoroutinefunction(type(listener).__call__)


def check_compacted(graph: Any, config: Any) -> None:
    if not callable(getattr(graph, "aget_state", None)):
        hint = "; compile it first" if isinstance(graph, StateGraph) else ""
        raise LangGraphMemoryError(
            f"compact was given {described(graph)} as graph; allowed: a compiled graph or an agent{hint}."
        )
    if not isinstance(config, Mapping):
        raise LangGraphMemoryError(
            f"compact was given {described(config)} as config; allowed: a mapping, as in "
            '{"configurable": {"thread_id": "t-1"}}.'
        )
