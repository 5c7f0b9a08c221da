"""The threads of a `ThreadSaver`: read from its rows, and copied row by row, each time in one transaction.

A copied row names the same chains and items as its original, so it costs a few hundred bytes whatever it holds.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint

from . import frames
from .codec import Codec, is_ours
from .copies import Copy, Kept
from .getting import EXACT
from .items import hold, hold_chain, thread_number
from .putting import INSERT_CHECKPOINT, as_json
from .reads import Reads
from .saver import ThreadSaver
from .schema import reading, writing
from .shapes import Head, Look, ThreadRow
from .source import Plan, Source, config_of
from .sweep import used
from .tables import copy_tables, heads_of, parents_of, thread_ids

T = TypeVar("T")


class Rows(Source):
    """The threads of a `ThreadSaver`."""

    def __init__(self, saver: ThreadSaver) -> None:
        super().__init__(saver)
        self.ours = saver

    async def threads(self) -> list[str]:
        return await self.ours.call(thread_ids)

    async def heads(self, thread_id: str) -> list[Head]:
        return await self.ours.call(heads_of, thread_id)

    async def parents(self, thread_id: str) -> dict[str, str | None]:
        return await self.ours.call(parents_of, thread_id)

    async def looks(self, thread_id: str, channel: str) -> list[Look]:
        return await self._read(thread_id, channel, Reads.looks)

    async def said(self, thread_id: str, way: Sequence[str], channel: str, *, newest: bool) -> list[BaseMessage]:
        return await self._read(thread_id, channel, lambda reads: reads.said(way, newest=newest))

    async def row(self, thread_id: str, channel: str) -> ThreadRow:
        return await self._read(thread_id, channel, Reads.row)

    async def _read(self, thread_id: str, channel: str, work: Callable[[Reads], T]) -> T:
        def run(db: sqlite3.Connection) -> T:
            shared = self.ours.shared
            with reading(db), frames.thread(thread_id):
                return work(Reads(db, self.ours.codec, shared.tips, thread_id, channel, shared.has_task_path))

        return await self.ours.call(run)

    async def copy(self, thread_id: str, plan: Plan[Copy]) -> RunnableConfig:
        newest = await self.ours.call(copy_rows, self.ours.codec, thread_id, plan)
        return config_of(thread_id, "", newest)

    async def fork(self, thread_id: str, new_thread_id: str, plan: Plan[Kept]) -> None:
        await self.ours.call(fork_rows, self.ours.codec, thread_id, new_thread_id, plan)


def copy_rows(db: sqlite3.Connection, codec: Codec, thread_id: str, plan: Callable[[list[Head]], list[Copy]]) -> str:
    """Append copies to a thread; the id of the last one."""
    newest = ""
    with writing(db):
        for copy in plan(heads_of(db, thread_id)):
            frame = _copied(db, codec, thread_id, copy)
            at = (thread_id, copy.namespace, copy.id)
            db.execute(INSERT_CHECKPOINT, (*at, copy.parent_id, *frame, as_json(_finite(copy.metadata))))
            newest = copy.id
    return newest


def _finite(metadata: dict[str, Any]) -> dict[str, Any]:
    """Metadata as it is stored, without NaN and infinities, which the plain saver lets in."""
    found: dict[str, Any] = json.loads(json.dumps(metadata), parse_constant=lambda _: None)
    return found


def _copied(db: sqlite3.Connection, codec: Codec, thread_id: str, copy: Copy) -> tuple[str, bytes]:
    """The row of a copy, without its values being built if it is in our form."""
    now = datetime.now(UTC).isoformat()
    if copy.origin is None:
        empty: dict[str, Any] = {**empty_checkpoint(), "ts": now}
        rest = {name: value for name, value in empty.items() if name not in ("id", "channel_values")}
        return codec.pack([*codec.dump(rest), {}])
    query = f"SELECT type, CAST(checkpoint AS BLOB) FROM checkpoints {EXACT}"
    type_, data = db.execute(query, (thread_id, copy.namespace, copy.origin)).fetchone()
    if not is_ours(type_):
        return codec.seal(*codec.dump({**frames.fields(codec, type_, data), "id": copy.id, "ts": now}))
    frame = frames.frame(codec, type_, data)
    return codec.pack([*codec.dump({**frames.fields(codec, *frame.rest), "ts": now}), frame.forms])


def fork_rows(
    db: sqlite3.Connection, codec: Codec, thread_id: str, new_thread_id: str, plan: Callable[[list[Head]], list[Kept]]
) -> None:
    """Copy rows under a new thread id, which then holds what they refer to."""
    with writing(db):
        copy_tables(db, thread_id, new_thread_id, plan)
        thread = thread_number(db, new_thread_id)
        with frames.thread(thread_id):
            items, chains = used(db, codec, new_thread_id)
        hold(db, thread, items)
        for chain in chains:
            hold_chain(db, thread, chain)
