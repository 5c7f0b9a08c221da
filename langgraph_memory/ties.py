"""What ties the middleware to a saver of threads: messages that wait for a thread, and runs that met on one."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver

from .state import MESSAGES
from .steps import Call
from .threads import ThreadSaver
from .threads.branched import Branch
from .threads.queue import ThreadQueue

Told = Callable[[str, str, Mapping[str, Any]], None]


class ThreadTies:
    """Ties to `saver`, if it is a `ThreadSaver`; `branched` is told of runs that met. Other savers have no queue."""

    def __init__(self, saver: BaseCheckpointSaver[Any] | None, branched: Told) -> None:
        self._queue = ThreadQueue(saver) if isinstance(saver, ThreadSaver) else None
        if isinstance(saver, ThreadSaver):
            saver.on_branched.append(_listener(branched))

    async def waiting(self, call: Call, config: RunnableConfig | None) -> Sequence[BaseMessage]:
        """What waits in the queue of the thread that `call` belongs to; its outermost graph takes it in."""
        if self._queue is None or not _takes(call):
            return ()
        found = await self._queue.follow_ups({MESSAGES: call.messages}, config)
        messages: Sequence[BaseMessage] = found.get(MESSAGES, ())
        return messages

    def waiting_sync(self, call: Call, config: RunnableConfig | None) -> Sequence[BaseMessage]:
        """As `waiting`, for programs without an event loop."""
        if self._queue is None or not _takes(call):
            return ()
        found = self._queue.saver._wait(self._queue.follow_ups({MESSAGES: call.messages}, config))
        messages: Sequence[BaseMessage] = found.get(MESSAGES, ())
        return messages


def _takes(call: Call) -> bool:
    return call.place.in_run and call.place.thread is not None and not call.place.namespace


def _listener(branched: Told) -> Callable[[Branch], None]:
    # A saver may outlive many memories; it must not keep them.
    told = weakref.WeakMethod(branched) if hasattr(branched, "__self__") else lambda: branched

    def tell(branch: Branch) -> None:
        if (tell := told()) is not None:
            reason = "another run has gone on from the same checkpoint; what one of the two said is on a branch"
            ids = {"parent_id": branch.parent_id, "checkpoint_id": branch.new_id, "other_id": branch.other_id}
            tell(branch.thread_id, reason, ids)

    return tell
