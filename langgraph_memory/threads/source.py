"""Threads as any LangGraph saver holds them, read and copied through its own methods.

Where the saver is LangGraph's own on SQLite, the tree is read from its table, as listing would build every state.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    empty_checkpoint,
)
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from ..context.groups import says
from ..errors import DamagedDatabaseError, LangGraphMemoryError
from ..logs import outline
from . import driver, tables, tree
from .copies import Copy, Kept
from .fold import Step, as_messages, gone, keyed, said
from .ids import Where
from .pending import pending
from .shapes import Head, Look, ThreadRow

RECORD = "memory_record"
NULL_TASK = "00000000-0000-0000-0000-000000000000"
"""Writes under this id are part of the checkpoint they stand at."""

UNKNOWN = re.compile(r"Unknown serialization type: [^+]*$")
"""What LangGraph's serializer says of a type it does not know, if that is none of an encrypted value."""

T = TypeVar("T")
Plan = Callable[[list[Head]], list[T]]


class Source:
    """The threads of any saver."""

    def __init__(self, saver: BaseCheckpointSaver[Any]) -> None:
        self.saver = saver

    # Reading

    async def threads(self) -> list[str]:
        """The ids of all threads."""
        if isinstance(self.saver, AsyncSqliteSaver):
            return await self._sql(tables.thread_ids)
        return sorted({found.config["configurable"]["thread_id"] async for found in self.saver.alist(None)})

    async def heads(self, thread_id: str) -> list[Head]:
        """The checkpoints of a thread in all its namespaces, oldest first."""
        if isinstance(self.saver, AsyncSqliteSaver):
            return await self._sql(lambda db: tables.heads_of(db, thread_id))
        config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
        return sorted([_head(found) async for found in self.saver.alist(config)], key=lambda head: head.id)

    async def parents(self, thread_id: str) -> dict[str, str | None]:
        """The checkpoints of a thread's own graph with their parents, oldest first."""
        if isinstance(self.saver, AsyncSqliteSaver):
            return await self._sql(lambda db: tables.parents_of(db, thread_id))
        return tree.parents_of(tree.root(await self.heads(thread_id)))

    async def _sql(self, work: Callable[[sqlite3.Connection], T]) -> T:
        saver = cast(AsyncSqliteSaver, self.saver)
        await saver.setup()
        async with saver.lock:
            return await driver.call(saver.conn, work)

    async def get(self, thread_id: str, checkpoint_id: str | None, namespace: str = "") -> CheckpointTuple | None:
        """A checkpoint with its writes. Raises `DamagedDatabaseError`."""
        with told(thread_id):
            return await self.saver.aget_tuple(config_of(thread_id, namespace, checkpoint_id))

    async def looks(self, thread_id: str, channel: str) -> list[Look]:
        """The checkpoints of a thread's own graph."""
        found: list[Look] = []
        rebuilt: set[str | None] = set()
        with told(thread_id):
            async for saved in self.saver.alist(config_of(thread_id, "", None)):
                look = _look(saved, channel, rebuilt)
                if look.held is None:
                    rebuilt.add(look.parent_id)
                found.append(look)
        return found

    async def said(self, thread_id: str, way: Sequence[str], channel: str, *, newest: bool) -> list[BaseMessage]:
        """Everything that was said on the way to a checkpoint, `newest` if nothing follows it."""
        saved = await self.get(thread_id, way[-1])
        if saved is None:
            return []
        steps = [Step(await self._live(saved, channel), [], 0)]
        if gone(saved.checkpoint["channel_values"].get(RECORD)):
            steps = [step async for step in self._steps(thread_id, way, channel)]
        if newest:
            steps.append(Step(None, [], steps[-1].gone))
            steps[-2] = steps[-2]._replace(writes=own_writes(saved.pending_writes or (), channel))
        return said(steps)

    async def _live(self, saved: CheckpointTuple, channel: str) -> list[BaseMessage]:
        """The messages a checkpoint holds, rebuilt if need be."""
        value = saved.checkpoint["channel_values"].get(channel)
        if value is None and channel in saved.checkpoint["channel_versions"]:
            found = await self.saver.aget_delta_channel_history(config=saved.config, channels=[channel])
            writes = [write for _, _, write in found[channel]["writes"]]
            return said([Step(found[channel].get("seed", []), writes, 0), Step(None, [], 0)])
        return as_messages(value or [])

    async def _steps(self, thread_id: str, way: Iterable[str], channel: str) -> AsyncIterator[Step]:
        for checkpoint_id in way:
            if saved := await self.get(thread_id, checkpoint_id):
                values = saved.checkpoint["channel_values"]
                writes = [value for _, name, value in saved.pending_writes or () if name == channel]
                yield Step(values.get(channel), writes, gone(values.get(RECORD)))

    async def row(self, thread_id: str, channel: str) -> ThreadRow:
        """A thread in the list of threads."""
        parents = await self.parents(thread_id)
        way = tree.path(parents, next(reversed(parents), ""))
        saved = await self.get(thread_id, way[-1]) if way else None
        messages = await self.said(thread_id, way, channel, newest=True) if way else []
        created = saved.checkpoint["ts"] if saved else ""
        following = tuple(pending(saved.checkpoint)) if saved else ()
        size = (
            await self._sql(lambda db: tables.row_bytes(db, thread_id))
            if isinstance(self.saver, AsyncSqliteSaver)
            else None
        )
        branches = len(tree.leaves(parents))
        return ThreadRow(thread_id, len(parents), branches, turns(messages), len(messages), created, following, size)

    # Writing

    async def copy(self, thread_id: str, plan: Plan[Copy]) -> RunnableConfig:
        """Append what `plan` makes of the checkpoints there are; the config of the last one."""
        config = config_of(thread_id, "", None)
        for copy in plan(await self.heads(thread_id)):
            parent = config_of(thread_id, copy.namespace, copy.parent_id)
            checkpoint = await self._copied(thread_id, copy)
            # No new versions: every value is stored already, under the version it has here too.
            config = await self.saver.aput(parent, checkpoint, cast(CheckpointMetadata, copy.metadata), {})
        return config

    async def _copied(self, thread_id: str, copy: Copy) -> Checkpoint:
        saved = await self.get(thread_id, copy.origin, copy.namespace) if copy.origin else None
        checkpoint = saved.checkpoint if saved else empty_checkpoint()
        return {**checkpoint, "id": copy.id, "ts": datetime.now(UTC).isoformat()}

    async def fork(self, thread_id: str, new_thread_id: str, plan: Plan[Kept]) -> None:
        """Put what `plan` makes of the checkpoints there are under a new name. Raises `ThreadExistsError`."""
        if isinstance(self.saver, AsyncSqliteSaver):
            await self._sql(lambda db: tables.fork(db, thread_id, new_thread_id, plan))
            return
        if await self.heads(new_thread_id):
            raise tables.existing(new_thread_id)
        for kept in plan(await self.heads(thread_id)):
            saved = await self.get(thread_id, kept.id, kept.namespace)
            if saved is None:
                continue
            parent = saved.parent_config["configurable"]["checkpoint_id"] if saved.parent_config else None
            versions = saved.checkpoint["channel_versions"]
            stored = {name: versions[name] for name in saved.checkpoint["channel_values"] if name in versions}
            there = config_of(new_thread_id, kept.namespace, parent)
            config = await self.saver.aput(there, saved.checkpoint, saved.metadata, stored)
            if kept.with_writes:
                await self._put_writes(config, saved)

    async def _put_writes(self, config: RunnableConfig, saved: CheckpointTuple) -> None:
        tasks: dict[str, list[tuple[str, Any]]] = {}
        for task_id, channel, value in saved.pending_writes or ():
            tasks.setdefault(task_id, []).append((channel, value))
        for number, (task_id, writes) in enumerate(tasks.items()):
            # Savers do not tell the path of a task, which is what its writes are sorted by.
            await self.saver.aput_writes(config, writes, task_id, f"{number:08d}")


@contextmanager
def told(thread_id: str) -> Iterator[None]:
    """Tell what another saver's serializer raises for bytes that it cannot read."""
    try:
        yield
    except LangGraphMemoryError:
        raise
    except (TypeError, ValueError, KeyError, NotImplementedError) as error:
        if isinstance(error, NotImplementedError) and not UNKNOWN.match(str(error)):
            raise
        raise DamagedDatabaseError(f"Thread {thread_id!r}: a checkpoint cannot be read: {outline(error)}.") from error


def config_of(thread_id: str, namespace: str, checkpoint_id: str | None) -> RunnableConfig:
    return Where(thread_id, namespace, checkpoint_id).config()


def _head(saved: CheckpointTuple) -> Head:
    at = saved.config["configurable"]
    parent = saved.parent_config["configurable"].get("checkpoint_id") if saved.parent_config else None
    return Head(at.get("checkpoint_ns") or "", at["checkpoint_id"], parent, saved.metadata)


def _look(saved: CheckpointTuple, channel: str, rebuilt: set[str | None]) -> Look:
    """`rebuilt` are the checkpoints that later ones are rebuilt from; those come first in a listing."""
    head, values = _head(saved), saved.checkpoint["channel_values"]
    needed = head.id in rebuilt
    value = values.get(channel)
    held = None if value is None else keyed(value)
    if held is None and channel not in saved.checkpoint["channel_versions"]:
        held = {}
    return Look(
        head.id,
        head.parent_id,
        head.metadata,
        saved.checkpoint["ts"],
        tuple(pending(saved.checkpoint)),
        held if needed or held is None else len(held),
        [value for _, name, value in saved.pending_writes or () if name == channel] if needed else [],
        gone(values.get(RECORD)),
    )


def own_writes(writes: Iterable[tuple[str, str, Any]], channel: str) -> list[Any]:
    """What a `Command` wrote to a channel of a checkpoint whose tasks have not finished."""
    return [value for task_id, name, value in writes if task_id == NULL_TASK and name == channel]


def turns(messages: Iterable[BaseMessage]) -> int:
    """How many runs of human messages there are."""
    return runs(map(says, messages))


def runs(human: Iterable[bool]) -> int:
    count, before = 0, False
    for is_human in human:
        count += is_human and not before
        before = is_human
    return count
