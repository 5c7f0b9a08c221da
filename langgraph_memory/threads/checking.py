"""Figures and faults of any saver's threads; a `ThreadSaver` knows its own better."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple

from ..errors import DamagedDatabaseError
from . import index, tree
from .items import find_thread
from .rows import Rows
from .schema import BLOB, MESSAGE, reading
from .source import Source
from .verify import ThreadStats, VerifyReport


async def stats(source: Source, thread_id: str | None, channel: str) -> ThreadStats:
    """What there is in all, or of one thread."""
    if isinstance(source, Rows):
        if thread_id is None:
            return await source.ours.stats()
        return await source.ours.call(_of_thread, thread_id)
    names = await source.threads() if thread_id is None else [thread_id]
    rows = [await source.row(name, channel) for name in names]
    heads = [len(await source.heads(name)) for name in names]
    total = sum(heads)
    size = sum(row.bytes or 0 for row in rows)
    return _figures(
        threads=len(names),
        checkpoints=total,
        plain_checkpoints=total,
        messages=sum(row.messages for row in rows),
        message_bytes=size,
    )


def _figures(**known: int) -> ThreadStats:
    return ThreadStats(**{**dict.fromkeys(ThreadStats.__dataclass_fields__, 0), **known})


def _of_thread(db: sqlite3.Connection, thread_id: str) -> ThreadStats:
    def one(query: str, name: Any = thread_id) -> int:
        return int(db.execute(query, (name,)).fetchone()[0] or 0)

    with reading(db):
        thread = find_thread(db, thread_id)
        sizes = {
            kind: (number, size)
            for kind, number, size in db.execute(
                "SELECT kind, count(*), sum(length(data)) FROM lgm_item_holds JOIN lgm_items ON id = held "
                "WHERE thread = ? GROUP BY kind",
                (thread,),
            )
        }
        messages, blobs = sizes.get(MESSAGE, (0, 0)), sizes.get(BLOB, (0, 0))
        return _figures(
            threads=1,
            checkpoints=one("SELECT count(*) FROM checkpoints WHERE thread_id = ?"),
            plain_checkpoints=one("SELECT count(*) FROM checkpoints WHERE type NOT LIKE 'lgm1%' AND thread_id = ?"),
            writes=one("SELECT count(*) FROM writes WHERE thread_id = ?"),
            messages=messages[0],
            message_bytes=messages[1],
            blobs=blobs[0],
            blob_bytes=blobs[1],
            chains=one("SELECT count(*) FROM lgm_chain_holds WHERE thread = ?", thread),
            links=one("SELECT count(*) FROM lgm_links JOIN lgm_chain_holds ON held = chain WHERE thread = ?", thread),
        )


async def verify(source: Source) -> VerifyReport:
    """What does not hold together: parents that are not there, and delta channels that cannot be rebuilt."""
    if isinstance(source, Rows):
        report = await source.ours.verify()
        faults = [*report.problems, *await source.ours.call(index.problems)]
        return VerifyReport(report.checkpoints, report.writes, report.items, report.chains, faults)
    checkpoints = writes = 0
    problems: list[str] = []
    for thread_id in await source.threads():
        heads = await source.heads(thread_id)
        for namespace in sorted({head.namespace for head in heads}):
            parents = {head.id: head.parent_id for head in heads if head.namespace == namespace}
            for id in parents:
                place = f"thread {thread_id!r}: checkpoint {id!r}{f' of {namespace!r}' if namespace else ''}"
                checkpoints += 1
                try:
                    if saved := await source.get(thread_id, id, namespace):
                        writes += len(saved.pending_writes or ())
                        problems += [f"{place} {fault}" for fault in await _faults(source, saved, parents)]
                except DamagedDatabaseError as error:
                    problems.append(f"{place} or a write at it cannot be read ({error})")
    return VerifyReport(checkpoints, writes, 0, 0, problems)


async def _faults(source: Source, saved: CheckpointTuple, parents: Mapping[str, str | None]) -> list[str]:
    id = saved.checkpoint["id"]
    faults = []
    if parents[id] is not None and parents[id] not in parents:
        faults.append(f"has the parent {parents[id]!r}, which is not there")
    counted: Mapping[str, Any] = saved.metadata.get("counters_since_delta_snapshot") or {}
    missing = [channel for channel in counted if channel not in saved.checkpoint["channel_values"]]
    if missing and parents[tree.path(parents, id)[0]] is not None:
        # The way back ends before the root: only a stored value on it helps.
        found = await source.saver.aget_delta_channel_history(config=saved.config, channels=missing)
        lost = [channel for channel in missing if "seed" not in found[channel]]
        faults += [f"cannot be rebuilt: the past of channel {channel!r} is not there" for channel in lost]
    return faults
