"""`ThreadSaver`: a LangGraph checkpointer on one SQLite file, in which a thread grows by what was said.

It is an `AsyncSqliteSaver` with the same file and tables. The plain saver writes the whole state into every checkpoint;
here a checkpoint names a chain of messages and how many of them it has (see `schema`). Files of the plain saver open as
they are, and rows of both kinds may stand in one thread; the plain saver refuses ours.

Every operation is one transaction on the connection's own thread (see `driver`): it waits for other processes, is
whole whatever happens to the task that awaits it, and may be asked for from any event loop or thread.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

import aiosqlite
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from ..errors import LangGraphMemoryError, NotEnteredError, WrongThreadError, described
from . import branched, clock, driver, getting, keys, putting, schema, sweep, verify
from .chains import StaleTipError
from .codec import Codec
from .ids import Where, thread_text, where
from .listing import Listing
from .tips import Tips
from .unentered import Unentered
from .verify import ThreadStats, VerifyReport

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")
NAMES = ("conn", "lock", "loop", "serde", "shared")
"""What a saver has beside its methods."""


@dataclass
class Shared:
    """Everything that changes while a saver is used: LangGraph works with shallow copies of it."""

    tips: Tips = field(default_factory=Tips)
    on_branched: list[branched.Listener] = field(default_factory=list)
    key: bytes = b""
    ready: bool = False
    has_task_path: bool = True


class Opening(Unentered, AbstractAsyncContextManager["ThreadSaver"]):
    """A saver that is open between entering and leaving.

    Not a generator: those are closed when nobody holds them any more, and many programs keep only the saver.
    """

    def __init__(self, kind: type[ThreadSaver], path: str, serde: SerializerProtocol | None) -> None:
        made = f"{kind.__name__}.from_conn_string(…)"
        super().__init__(kind, NAMES, made, f"`async with {made} as saver:`")
        self._kind, self._serde = kind, serde
        self._conn = driver.connection(path)

    async def __aenter__(self) -> ThreadSaver:
        self._process = driver.Process()
        return self._kind(await driver.begun(self._conn), serde=self._serde)

    async def __aexit__(self, *error: object) -> None:
        if self._process.is_here:
            await self._conn.close()

    # Programs without asyncio

    def __enter__(self) -> NoReturn:
        raise NotEnteredError(
            f"{self._kind.__name__}.from_conn_string(…) is entered with `async with`. A program without asyncio writes "
            "`with MemoryMiddleware.open(…) as memory:` and takes memory.saver."
        )

    def __exit__(self, *error: object) -> None:
        """Never reached; without it Python would not call `__enter__`."""


class ThreadSaver(AsyncSqliteSaver):
    """Stores the checkpoints of LangGraph graphs. See `from_conn_string`."""

    def __init__(self, conn: aiosqlite.Connection, *, serde: SerializerProtocol | None = None) -> None:
        if not isinstance(conn, aiosqlite.Connection):
            raise LangGraphMemoryError(
                f"ThreadSaver was given {described(conn)}; allowed: a connection of aiosqlite. A file is opened with "
                "`async with ThreadSaver.from_conn_string(…) as saver:`."
            )
        self.shared, self._process = Shared(), driver.Process()
        super().__init__(conn, serde=serde)

    @classmethod
    def from_conn_string(  # type: ignore[override]
        cls, conn_string: str | os.PathLike[str], *, serde: SerializerProtocol | None = None
    ) -> Opening:
        """A saver on the SQLite file `conn_string`, or on `":memory:"`: an async context manager that closes it."""
        return Opening(cls, os.fspath(conn_string), serde)

    @property
    def is_setup(self) -> bool:
        return self.shared.ready

    @is_setup.setter
    def is_setup(self, ready: bool) -> None:
        self.shared.ready = ready

    @property
    def on_branched(self) -> list[branched.Listener]:
        """Who is told when two runs at once have made a thread branch. Called on the event loop of the later run."""
        return self.shared.on_branched

    @property
    def codec(self) -> Codec:
        return Codec(self.serde, self.shared.key)

    async def setup(self) -> None:
        """Make the tables, if need be. Every method does it by itself."""
        if not self.shared.ready:
            await driver.opened(self.conn)
            await driver.call(self.conn, self._prepare)

    def _prepare(self, db: sqlite3.Connection) -> None:
        self.shared.has_task_path = schema.prepare(db)
        self.shared.key = keys.digest_key(db, Codec(self.serde))
        self.shared.ready = True

    async def call(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **options: P.kwargs
    ) -> T:
        """What `work` returns, run on the connection's thread with the database ready."""
        await self.setup()
        return await driver.call(self.conn, work, *args, **options)

    # Reading

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        at = where(config)
        await self.setup()
        shared = self.shared
        found = await self.call(getting.get, self.codec, shared.tips, at, config, shared.has_task_path)
        if found and not at.checkpoint_id:
            clock.keep_ahead_of(found.checkpoint["id"])
        return found

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Checkpoints, newest first. Nothing is locked while the caller looks at one."""
        listing = Listing(config, filter, before, limit, self.shared.tips)
        await self.setup()
        while rows := await self.call(listing.next_page, self.codec, self.shared.has_task_path):
            for row in rows:
                yield await self.call(listing.build, self.codec, row)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        at = where(config)
        await self.setup()
        return await self.call(
            getting.delta_history, self.codec, self.shared.tips, at, list(channels), self.shared.has_task_path
        )

    # Writing

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        parent = where(config)
        await self.setup()
        full = dict(get_checkpoint_metadata(config, metadata))
        watched = branched.is_watched(config, parent, metadata)

        def drafted() -> putting.CheckpointDraft:
            return putting.draft_checkpoint(self.codec, self.shared.tips, parent, checkpoint, full, watched)

        if branch := await self._write(putting.put, drafted):
            branched.tell(self.on_branched, branch)
        stored = Where(config["configurable"]["thread_id"], parent.namespace, checkpoint["id"])
        return stored.config()

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        at = where(config)
        await self.setup()

        def drafted() -> putting.WritesDraft:
            return putting.draft_writes(self.codec, self.shared.tips, at, writes, task_id, task_path)

        await self._write(putting.put_writes, drafted)

    async def _write(self, work: Callable[[sqlite3.Connection, Codec, Tips, T], R], drafted: Callable[[], T]) -> R:
        """Draft on the event loop, where nothing changes the values meanwhile, and write."""
        tips = self.shared.tips
        while True:
            try:
                return await self.call(work, self.codec, tips, drafted())
            except StaleTipError as stale:
                # Without it everything is serialized, which cannot be stale.
                tips.forget(stale.chain)

    # Removing and copying

    async def adelete_thread(self, thread_id: Any) -> None:
        """Remove a thread and every message only it used."""
        await self.call(sweep.delete_thread, thread_text(thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints of runs, except those that later values of delta channels are rebuilt from."""
        await self.call(sweep.delete_for_runs, self.codec, list(map(str, run_ids)))

    async def acopy_thread(self, source_thread_id: Any, target_thread_id: Any) -> None:
        """Copy everything of a thread. The copy shares the messages; nothing of the target is removed."""
        await self.call(sweep.copy_thread, thread_text(source_thread_id), thread_text(target_thread_id))

    async def aprune(self, thread_ids: Sequence[Any], *, strategy: str = "keep_latest") -> None:
        """Remove old checkpoints of threads: all but the newest of each namespace, or with `delete` all.

        Those that values of delta channels are rebuilt from stay.
        """
        await self.call(sweep.prune, self.codec, list(map(thread_text, thread_ids)), strategy)

    async def vacuum(self) -> None:
        """Give the space of removed rows back to the file system."""
        await self.call(sweep.vacuum)

    # Looking after it

    async def verify(self) -> VerifyReport:
        """Read everything again and report what does not hold together."""
        # The key of the digests is only known then.
        await self.setup()
        return await self.call(verify.check, self.codec)

    async def stats(self) -> ThreadStats:
        return await self.call(verify.count)

    # The same for blocking callers

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._wait(self.aget_tuple(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        listing = Listing(config, filter, before, limit, self.shared.tips)
        self._wait(self.setup())
        while rows := self._wait(self.call(listing.next_page, self.codec, self.shared.has_task_path)):
            for row in rows:
                yield self._wait(self.call(listing.build, self.codec, row))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return self._wait(self.aput(config, checkpoint, metadata, new_versions))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        self._wait(self.aput_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: Any) -> None:
        self._wait(self.adelete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        self._wait(self.adelete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: Any, target_thread_id: Any) -> None:
        self._wait(self.acopy_thread(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[Any], *, strategy: str = "keep_latest") -> None:
        self._wait(self.aprune(thread_ids, strategy=strategy))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return self._wait(self.aget_delta_channel_history(config=config, channels=channels))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, from a thread that may be blocked."""
        if not self._process.is_here:
            work.close()
            raise WrongThreadError(driver.FORKED)
        try:
            here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is not self.loop and self.loop.is_running():
            return asyncio.run_coroutine_threadsafe(work, self.loop).result()
        if here is None:
            # The loop it was made on has ended, and no operation needs that one.
            return asyncio.run(work)
        work.close()
        raise WrongThreadError(
            "A blocking method of ThreadSaver was called inside an event loop, which it would block. Await the method "
            "with an `a` in front (`aput`, `aget_tuple`, `graph.ainvoke`), or call it from another thread."
        )


def thread_saver(given: Any, who: str) -> ThreadSaver:
    """`given`, if it is a `ThreadSaver`. Raises `LangGraphMemoryError` that says what `who` needs."""
    if isinstance(given, ThreadSaver):
        return given
    if isinstance(given, Unentered):
        raise given.not_entered()
    if isinstance(getattr(given, "saver", None), ThreadSaver):
        raise LangGraphMemoryError(f"{who} needs a ThreadSaver and was given {described(given)}: give its `.saver`.")
    raise LangGraphMemoryError(
        f"{who} needs a ThreadSaver and was given {described(given)}; it is what "
        "`async with ThreadSaver.from_conn_string(…) as saver:` gives, and the `.saver` of MemoryMiddleware.open(…)."
    )
