"""The list of threads, with what their newest call took of the window."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from langgraph_memory.errors import DamagedDatabaseError
from langgraph_memory.state import MESSAGES
from langgraph_memory.threads import ThreadRow, ThreadSaver, ThreadStore, frames
from langgraph_memory.threads.chains import read_messages
from langgraph_memory.threads.codec import Codec, is_ours
from langgraph_memory.threads.schema import reading
from langgraph_memory.threads.tree import unknown_thread
from langgraph_memory.threads.values import CHAIN

TAIL = 30
"""Messages among which the newest reply is looked for."""
NEWEST = (
    "SELECT type, CAST(checkpoint AS BLOB) FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = '' "
    "ORDER BY checkpoint_id DESC LIMIT 1"
)


@dataclass(frozen=True, slots=True)
class Listed:
    """A thread in the list."""

    row: ThreadRow
    tokens: int | None
    """Sent and answered in the newest call, as its reply says; None where no reply says so."""

    def to_json(self) -> dict[str, Any]:
        return {**self.row.to_json(), "tokens": self.tokens}


async def listed(store: ThreadStore) -> list[Listed]:
    """All threads, the one changed last first."""
    return [Listed(row, await _newest_tokens(store, row.thread_id)) for row in await store.threads()]


async def _newest_tokens(store: ThreadStore, thread_id: str) -> int | None:
    with frames.left_out(f"what the newest call of thread {thread_id!r} took"):
        return _tokens(await _newest(store, thread_id))
    return None


async def rows_of(store: ThreadStore, names: Iterable[str]) -> list[ThreadRow]:
    """The rows of the named threads. Raises `UnknownThreadError`, `DamagedDatabaseError`."""
    rows, damaged = await rows_and_damaged(store, names)
    if damaged:
        raise DamagedDatabaseError(f"Thread {damaged[0]!r} is damaged and cannot be read.")
    return rows


async def rows_and_damaged(store: ThreadStore, names: Iterable[str]) -> tuple[list[ThreadRow], list[str]]:
    """The rows of the named threads, and the names of those that cannot be read. Raises `UnknownThreadError`."""
    threads = await store.threads()
    rows = {row.thread_id: row for row in threads}
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if name not in rows and name not in threads.damaged:
            raise unknown_thread(name, [*rows, *threads.damaged])
    return [rows[name] for name in wanted if name in rows], [name for name in wanted if name not in rows]


async def _newest(store: ThreadStore, thread_id: str) -> list[BaseMessage]:
    """The newest messages of a thread; all of them where these cannot be had alone."""
    tail = None
    if isinstance(store.saver, ThreadSaver):
        tail = await store.saver.call(_tail, store.saver.codec, thread_id)
    return await store.messages(thread_id) if tail is None else tail


def _tail(db: sqlite3.Connection, codec: Codec, thread_id: str) -> list[BaseMessage] | None:
    with reading(db):
        row = db.execute(NEWEST, (thread_id,)).fetchone()
        form = frames.frame(codec, *row).forms.get(MESSAGES) if row and is_ours(row[0]) else None
        if form is None or form[0] != CHAIN:
            return None
        _, chain, length = form
        return [codec.load(one.type, one.data) for one in read_messages(db, chain, max(0, length - TAIL), length)]


def _tokens(messages: list[BaseMessage]) -> int | None:
    replies = (message for message in reversed(messages) if isinstance(message, AIMessage))
    return next((reply.usage_metadata["total_tokens"] for reply in replies if reply.usage_metadata), None)
