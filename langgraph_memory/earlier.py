"""The whole of a thread, also what has left its live list, for whoever looks back from inside a run."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import BaseCheckpointSaver

from .errors import UnknownThreadError
from .threads import ThreadSaver, ThreadStore

T = TypeVar("T")


class StoredMessages:
    """All messages of the threads of `saver`; none of a thread that is not stored yet."""

    def __init__(self, saver: BaseCheckpointSaver[Any]) -> None:
        self._saver, self._store = saver, ThreadStore(saver)

    async def messages(self, thread_id: str) -> Sequence[BaseMessage]:
        try:
            return await self._store.messages(thread_id)
        except UnknownThreadError:
            return ()

    def messages_sync(self, thread_id: str) -> Sequence[BaseMessage]:
        """As `messages`, from a thread without an event loop."""
        return blocking(self._saver, self.messages(thread_id))


def blocking(saver: BaseCheckpointSaver[Any], work: Coroutine[Any, Any, T]) -> T:
    """What `work` on a saver gives, for a thread without an event loop; the plain saver works on its own loop only."""
    loop = None if isinstance(saver, ThreadSaver) else getattr(saver, "loop", None)
    return asyncio.run(work) if loop is None else asyncio.run_coroutine_threadsafe(work, loop).result()
