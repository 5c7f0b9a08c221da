"""Thread ids, and where a config points.

A thread id is compared by its text: `7` and `"7"` are the same thread, a UUID is the thread of its text. That is what
LangGraph's savers do and what becomes of ids in URLs and JSON. What has no one text form, or none at all, is refused:
`None`, `True`, floats, the empty text and text that cannot be written.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

from langchain_core.runnables import RunnableConfig

from ..errors import ThreadIdError


def thread_text(thread_id: Any) -> str:
    """The text that names a thread. Raises `ThreadIdError`."""
    if isinstance(thread_id, bool) or not isinstance(thread_id, str | int | UUID) or thread_id == "":
        raise ThreadIdError(
            f"The thread id {thread_id!r} names no thread: use a text that is not empty, an int or a UUID."
        )
    text = str(thread_id)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ThreadIdError(
            f"The thread id {thread_id!r} holds half a surrogate pair, which no file can hold."
        ) from None
    return text


class Where(NamedTuple):
    """A checkpoint, or the newest where `checkpoint_id` is None."""

    thread_id: str
    namespace: str
    checkpoint_id: str | None

    def config(self) -> RunnableConfig:
        names = {"thread_id": self.thread_id, "checkpoint_ns": self.namespace, "checkpoint_id": self.checkpoint_id}
        return {"configurable": names}


def where(config: RunnableConfig) -> Where:
    """Where `config` points. Raises `ThreadIdError`."""
    given = config.get("configurable") or {}
    checkpoint_id = given.get("checkpoint_id")
    namespace = given.get("checkpoint_ns")
    return Where(
        thread_text(given.get("thread_id")),
        "" if namespace is None else str(namespace),
        str(checkpoint_id) if checkpoint_id else None,
    )


def same_thread(config: RunnableConfig | None) -> RunnableConfig | None:
    """`config` with its thread id as text, for LangGraph's own queries."""
    if config is None:
        return None
    return {**config, "configurable": {**config["configurable"], "thread_id": where(config).thread_id}}
