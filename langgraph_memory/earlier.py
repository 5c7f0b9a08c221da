"""The whole of a thread, also what has left its live list, for whoever looks back from inside a run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import BaseCheckpointSaver

from .errors import UnknownThreadError
from .threads import ThreadSaver, ThreadStore


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
        loop = None if isinstance(self._saver, ThreadSaver) else getattr(self._saver, "loop", None)
        if loop is None:
            return asyncio.run(self.messages(thread_id))
        return asyncio.run_coroutine_threadsafe(self.messages(thread_id), loop).result()
