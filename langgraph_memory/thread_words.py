"""Searching the messages of a run's own thread, for what long-term memory shows beside its own."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Sequence
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver

from .earlier import blocking
from .errors import ClosedError, LangGraphMemoryError
from .longterm.retrieve import Found
from .place import Place
from .threads import ThreadStore
from .threads.clock import moment_of
from .threads.shapes import Hit

logger = logging.getLogger(__name__)


class ThreadWords:
    """Finds messages by their words; without a `saver`, and for a run without a thread, there are none."""

    def __init__(self, saver: BaseCheckpointSaver[Any] | None) -> None:
        self._saver = saver
        self._store = ThreadStore(saver) if saver is not None else None

    async def said(self, place: Place, query: str, limit: int) -> Sequence[Found]:
        """What fits `query` best in the thread of `place`; nothing where it cannot be searched.

        Raises `ClosedError` where the saver was closed.
        """
        if self._store is None or place.thread is None or limit <= 0:
            return ()
        try:
            hits = await self._store.search(query, thread_id=place.thread, limit=limit)
        except ClosedError:
            raise
        except (LangGraphMemoryError, sqlite3.Error) as error:
            logger.info("The thread's messages are not searched: %s", error)
            return ()
        return [_found(hit) for hit in hits]

    def said_sync(self, place: Place, query: str, limit: int) -> Sequence[Found]:
        """As `said`, for sync callers."""
        if self._saver is None or place.thread is None or limit <= 0:
            return ()
        try:
            return blocking(self._saver, self.said(place, query, limit))
        except ClosedError:
            raise
        except LangGraphMemoryError as error:
            logger.info("The thread's messages are not searched: %s", error)
            return ()


def _found(hit: Hit) -> Found:
    when = moment_of(hit.checkpoint_id)
    return Found(
        "thread",
        f"msg:{hit.message_id}" if hit.message_id else "history",
        hit.excerpt,
        hit.score,
        when.isoformat() if when else "",
        "conversation",
        hit.thread_id,
    )
