"""The whole of a thread, also what has left its live list, for whoever looks back from inside a run."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import BaseCheckpointSaver

from .errors import LangGraphMemoryError, UnknownThreadError
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
    """What `work` on a saver gives, for sync callers; the plain saver works on its own loop only.

    A notebook calls from a thread with an event loop. If that is the saver's own, the loop would wait for itself:
    raises `LangGraphMemoryError`.
    """
    own, here = getattr(saver, "loop", None), _running()
    if here is not None and own is here:
        work.close()
        raise LangGraphMemoryError("A sync call on the event loop of the saver cannot read it; use the async one.")
    if own is not None and not isinstance(saver, ThreadSaver):
        return asyncio.run_coroutine_threadsafe(work, own).result()
    if here is None:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as elsewhere:
        return elsewhere.submit(asyncio.run, work).result()


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
