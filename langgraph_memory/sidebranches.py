"""What is done beside a run: flushing what was said into the ledger, and consolidating that into MEMORY.md.

    turn ends, or messages are about to be covered → note what is due → background: flush → consolidate

A superstep waits for its slowest node, so the nodes of a graph only note down what is due and hand it over. The note
outlives a crash: `recover` flushes what was noted and not done, from the thread as its saver has it; where no model is
known yet, behind the first flush that knows one. Scripts that end with the run can have everything done before it ends
(`inline`).
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable, Collection, Coroutine, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import BaseCheckpointSaver

from .background import Background
from .cache import SummaryCache
from .config import MemoryConfig
from .context.budget import DEFAULT_WINDOW
from .context.history import History
from .context.text import clean_text
from .context.tokens import TokenCounter, load_counter
from .earlier import StoredMessages
from .errors import LangGraphMemoryError
from .events import Listener, MemoryEvent, announce, heard_by
from .homes import Homes
from .logs import outline
from .longterm import flushed, lineage
from .longterm.consolidate import Consolidated, Consolidation
from .longterm.flush import Flush, Flushed
from .longterm.keeper import UNUSABLE, Keeper
from .models import Model, for_side_calls, model_window, resolve_model
from .place import Place
from .sidecalls import Breakers, in_thread
from .sidework import arun, run

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 3600.0
"""How long a piece of work waits for the one before it on the same thread or namespace."""
CLAIM_PATIENCE = 1.5 * flushed.CLAIM_SECONDS
"""How long one that makes up for a crash, or that a run waits for, waits for a claim: that of a dead one runs out."""
POLL_SECONDS = 1.0
THREADS = 1000
NOTE_SECONDS = 1.0
"""How long the end of a turn waits for whoever is writing its memory."""
Work = TypeVar("Work", Flush, Consolidation)
Key = tuple[Hashable, ...]
"""What work is for, `flush` or `consolidate`, and whose memory; `next` at its end: it waits for the one under way."""
MODEL_PATIENCE = 24 * 3600.0
"""How long a note waits for a run that brings a model. Then a rule extracts what it can."""


@dataclass(frozen=True, slots=True)
class Job:
    """A thread whose messages before position `end` are to be flushed."""

    keeper: Keeper
    thread: str
    history: History
    end: int
    model: Model | None
    reason: str
    checkpoint: str | None = None
    patience: float = CLAIM_PATIENCE
    """Seconds that it waits for another process that is flushing the thread."""

    @property
    def key(self) -> Key:
        return "flush", self.keeper.folder.given, self.thread


class Piece(NamedTuple, Generic[Work]):
    """Work that a task does, made anew where somebody else is at it."""

    make: Callable[[], Work]
    model: Model | None
    key: Hashable
    """What its breaker goes by."""
    patience: float
    """Seconds that it is tried again for."""
    thread: str | None
    """The conversation that it comes of."""


class SideBranches:
    """Flush and consolidation for the memories of `homes`; `model` is for side calls where no other is named."""

    def __init__(
        self,
        settings: MemoryConfig,
        homes: Homes,
        background: Background,
        *,
        model: Model | None,
        cache: SummaryCache | None,
        saver: BaseCheckpointSaver[Any] | None,
        listener: Listener | None,
        inline: bool,
    ) -> None:
        self._settings, self._homes, self._background = settings, homes, background
        self._model, self._cache, self._listener, self._inline = model, cache, listener, inline
        self._flush_model = resolve_model(settings.flush.model, "memory.flush.model")
        self._merge_model = resolve_model(settings.consolidation.model, "memory.consolidation.model")
        self._stored = StoredMessages(saver) if saver is not None else None
        self._breakers = Breakers()
        self._waiting: dict[Hashable, Job] = {}
        self._met: list[Model | None] = []
        """The model of the last run, once there was one."""
        self._newest: dict[str, Sequence[str]] = {}
        """Of threads the keys of the messages that end a turn, which may not be in a checkpoint yet."""
        self._put_off: set[Hashable] = set()
        """Memories whose notes wait for a model."""
        self._looked: set[Hashable] = set()
        """Memories that were looked at for what is due since this began."""

    @property
    def flushes_turns(self) -> bool:
        """Whether the end of a turn is a time to flush."""
        return self._flushes and self._settings.flush.trigger == "turn"

    @property
    def flushes_before(self) -> bool:
        """Whether messages are flushed before a summary covers them."""
        return self._flushes and self._settings.flush.trigger != "never" and self._settings.compaction.flush_before

    @property
    def consolidates(self) -> bool:
        return self._homes.workspace is not None and self._settings.consolidation.enabled

    @property
    def _flushes(self) -> bool:
        return self._homes.workspace is not None and self._settings.flush.enabled

    def job(
        self, place: Place, history: History, model: Model | None, reason: str, end: int | None = None
    ) -> Job | None:
        """The flush of a run's messages; None for one without a memory or a thread, and inside another graph."""
        keeper = self._homes.of(place)
        if keeper is None or place.thread is None or place.namespace or not len(history):
            return None
        self._met = [model]
        checkpoint, end = place.configurable.get("checkpoint_id"), len(history) if end is None else end
        patience = CLAIM_PATIENCE if self._inline else PATIENCE_SECONDS
        job = Job(keeper, clean_text(place.thread), history, end, model, reason, checkpoint, patience)
        if self._stored is not None and self.consolidates:
            self._newest.pop(job.thread, None)
            self._newest[job.thread] = history.keys[-2:]
            if len(self._newest) > THREADS:
                self._newest.pop(next(iter(self._newest)), None)
        return job

    # Handing over

    def flush(self, job: Job) -> None:
        """Note a flush and have it done; inline it is done on return."""
        if not self._noted(job):
            return
        if self._inline:
            self._background.fresh().run(self._done_sync, job)
            return
        self._waiting[job.key] = job
        self._start_in_thread(job.key, lambda: self._turn_sync(job.key))

    async def aflush(self, job: Job) -> None:
        """As `flush`, as a task of the running loop."""
        if not await in_thread(self._noted, job):
            return
        if self._inline:
            await self._apart(self._done(job))
            return
        self._waiting[job.key] = job
        self._start(job.key, lambda: self._turn(job.key))

    def consolidate(self, place: Place, counter: TokenCounter, model: Model | None) -> None:
        """Have a run's memory consolidated, behind what is being flushed; inline it is done on return."""
        if not self.consolidates or (keeper := self._homes.of(place)) is None:
            return
        if self._inline:
            fresh = self._background.fresh()
            fresh.run(partial(self.consolidated_sync, keeper, counter, model, thread=place.thread))
            return

        def work() -> None:
            until = time.monotonic() + self._seconds
            while (flushes := self._flushes_of(keeper)) and (left := until - time.monotonic()) > 0:
                for flush in flushes:
                    self._background.settled_sync(flush, left)
            self.consolidated_sync(keeper, counter, model, thread=place.thread)

        self._start_in_thread(("consolidate", keeper.folder.given), work)

    async def aconsolidate(self, place: Place, counter: TokenCounter, model: Model | None) -> None:
        if not self.consolidates or (keeper := self._homes.of(place)) is None:
            return
        if self._inline:
            await self._apart(self.consolidated(keeper, counter, model, thread=place.thread))
            return

        async def work() -> None:
            until = time.monotonic() + self._seconds
            while (flushes := self._flushes_of(keeper)) and (left := until - time.monotonic()) > 0:
                for flush in flushes:
                    await self._background.settled(flush, left)
            await self.consolidated(keeper, counter, model, thread=place.thread)

        self._start(("consolidate", keeper.folder.given), work)

    async def _apart(self, work: Coroutine[Any, Any, Any]) -> None:
        """Wait for work in a context of its own, so that nothing of it shows in the streams and events of the run."""
        await asyncio.get_running_loop().create_task(work, context=self._background.fresh())

    def _noted(self, job: Job) -> bool:
        """Write down that a flush is due; whether there is anything to flush. Without the note it is tried anyway."""
        try:
            with job.keeper.folder.locked(NOTE_SECONDS), job.keeper.writing() as db:
                if not flushed.unflushed(db, job.thread, job.history, job.end):
                    return False
                flushed.set_due(
                    db,
                    job.thread,
                    job.history.keys[job.end - 1],
                    checkpoint=job.checkpoint,
                    reason=job.reason,
                    now=time.time(),
                )
        except Exception as error:  # noqa: BLE001 - a turn that was answered does not fail for its memory
            logger.warning("It could not be noted that a thread is to be flushed: %s", outline(error))
        return True

    def _turn_sync(self, key: Key) -> None:
        if (job := self._waiting.pop(key, None)) is not None:
            self._done_sync(job)

    async def _turn(self, key: Key) -> None:
        if (job := self._waiting.pop(key, None)) is not None:
            await self._done(job)

    def _flushes_of(self, keeper: Keeper) -> list[Hashable]:
        """What has to be flushed before a memory is merged, of any of its threads: under way, or waiting for that."""
        of = "flush", keeper.folder.given
        return [key for key in self._background.under_way() if isinstance(key, tuple) and key[:2] == of]

    def _start_in_thread(self, key: Key, work: Callable[[], Any]) -> None:
        """Start a piece of work, behind the one that is under way for its key; one that waits does for all."""

        def behind() -> None:
            self._background.settled_sync(key, PATIENCE_SECONDS)
            self._background.start_in_thread(key, work)

        if not self._background.start_in_thread(key, work):
            self._background.start_in_thread((*key, "next"), behind)

    def _start(self, key: Key, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        async def behind() -> None:
            await self._background.settled(key, PATIENCE_SECONDS)
            self._background.start(key, work)

        if not self._background.start(key, work):
            self._background.start((*key, "next"), behind)

    # Doing

    def _done_sync(self, job: Job) -> None:
        """Flush, and make up for what waited for the model of this run."""
        self._flushed_sync(job)
        if self._owes(job.keeper) and self._stored is not None:
            for due in self._due(job.keeper):
                with _staying_due(due.thread):
                    messages = self._stored.messages_sync(due.thread)
                    if found := self._made_up(job.keeper, due, messages, job.history.counter):
                        self._flushed_sync(found)

    def _owes(self, keeper: Keeper) -> bool:
        """Whether something may be due in a memory that a run with a model can make up for: nobody has looked yet, or
        whoever did had none."""
        known = keeper.folder.given in self._looked
        self._looked.add(keeper.folder.given)
        return not known or keeper.folder.given in self._put_off

    async def _done(self, job: Job) -> None:
        await self._flushed(job)
        if self._owes(job.keeper):
            await self._recover(job.keeper, job.history.counter)

    def _flushed_sync(self, job: Job) -> Flushed:
        self._mark_branches(job)
        started = time.perf_counter()
        return self._told(job, self._worked_sync(self._flushing(job)).result, started)

    async def _flushed(self, job: Job) -> Flushed:
        await in_thread(self._mark_branches, job)
        started = time.perf_counter()
        return self._told(job, (await self._worked(self._flushing(job))).result, started)

    def consolidated_sync(
        self,
        keeper: Keeper,
        counter: TokenCounter,
        model: Model | None,
        *,
        force: bool = False,
        dry_run: bool = False,
        thread: str | None = None,
    ) -> Consolidated:
        """Consolidate one memory now, behind whoever else is doing that; `thread` is the one whose turn led to it."""
        started = time.perf_counter()
        task = self._worked_sync(self._merging(keeper, counter, model, force, dry_run, thread))
        return self._changed(task.result, started, dry_run=dry_run)

    async def consolidated(
        self,
        keeper: Keeper,
        counter: TokenCounter,
        model: Model | None,
        *,
        force: bool = False,
        dry_run: bool = False,
        thread: str | None = None,
    ) -> Consolidated:
        started = time.perf_counter()
        task = await self._worked(self._merging(keeper, counter, model, force, dry_run, thread))
        return self._changed(task.result, started, dry_run=dry_run)

    def _worked_sync(self, piece: Piece[Work]) -> Work:
        """A task that has come to its end."""
        until = time.monotonic() + piece.patience
        while True:
            task = piece.make()
            run(task, piece.model, key=piece.key, thread=piece.thread, **self._driving)
            if task.result.outcome != "busy" or time.monotonic() >= until:
                return task
            time.sleep(POLL_SECONDS)

    async def _worked(self, piece: Piece[Work]) -> Work:
        until = time.monotonic() + piece.patience
        while True:
            task = piece.make()
            await arun(task, piece.model, key=piece.key, thread=piece.thread, **self._driving)
            if task.result.outcome != "busy" or time.monotonic() >= until:
                return task
            await asyncio.sleep(POLL_SECONDS)

    async def recover(self, keeper: Keeper, tokenizer: str) -> int:
        """Flush what was due in a memory and is not done, from the threads as they are; how many threads that were."""
        return await self._recover(keeper, await in_thread(load_counter, tokenizer))

    async def _recover(self, keeper: Keeper, counter: TokenCounter) -> int:
        if self._stored is None or not self._flushes:
            return 0
        count = 0
        for due in await in_thread(self._due, keeper):
            with _staying_due(due.thread):
                messages = await self._stored.messages(due.thread)
                if job := await in_thread(self._made_up, keeper, due, messages, counter):
                    await self._flushed(job)
                    count += 1
        return count

    def _due(self, keeper: Keeper) -> list[flushed.Due]:
        """What is due in a memory and may be flushed now."""
        try:
            with keeper.reading() as db:
                found = flushed.due(db)
        except UNUSABLE as error:
            logger.warning("What is due in a memory could not be read: %s", error)
            return []
        if not self._met and (self._flush_model or self._model) is None:
            # The model of the run that it was to be flushed with is not known here.
            later = [due for due in found if 0 <= time.time() - due.time < MODEL_PATIENCE]
            if later:
                self._put_off.add(keeper.folder.given)
            return [due for due in found if due not in later]
        self._put_off.discard(keeper.folder.given)
        return found

    def _made_up(
        self, keeper: Keeper, due: flushed.Due, messages: Collection[BaseMessage], counter: TokenCounter
    ) -> Job | None:
        """The flush that a note is about; None where its message is in no checkpoint."""
        history = History.of(tuple(messages), counter)
        if due.key in history.positions:
            end, model = history.positions[due.key] + 1, next(iter(self._met), None)
            return Job(keeper, due.thread, history, end, model, due.reason, due.checkpoint)
        # Its thread is gone, or the message was never stored; of a run that is just ending it will be.
        if not 0 <= time.time() - due.time < PATIENCE_SECONDS:
            with keeper.writing() as db:
                flushed.settle(db, due)
        return None

    def _flushing(self, job: Job) -> Piece[Flush]:
        model = _side(self._flush_model or self._model or job.model)
        return Piece(partial(self._flush, job, model), model, job.thread, job.patience, job.thread)

    def _merging(
        self,
        keeper: Keeper,
        counter: TokenCounter,
        given: Model | None,
        force: bool,
        dry_run: bool,
        thread: str | None,
    ) -> Piece[Consolidation]:
        model = _side(self._merge_model or self._model or given)
        make = partial(self._consolidation, keeper, counter, model, force=force, dry_run=dry_run)
        return Piece(make, model, keeper.folder.given, CLAIM_PATIENCE, thread)

    def _flush(self, job: Job, model: Model | None) -> Flush:
        return Flush(
            job.keeper,
            job.thread,
            job.history,
            self._settings.flush,
            counter=job.history.counter,
            has_model=model is not None,
            window=model_window(model) or self._window,
            checkpoint=job.checkpoint,
            end=job.end,
            cache=self._cache,
        )

    def _consolidation(
        self, keeper: Keeper, counter: TokenCounter, model: Model | None, *, force: bool, dry_run: bool
    ) -> Consolidation:
        return Consolidation(
            keeper,
            self._settings.consolidation,
            counter=counter,
            has_model=model is not None,
            window=model_window(model) or self._window,
            alive=self._alive,
            force=force,
            dry_run=dry_run,
        )

    def _mark_branches(self, job: Job) -> None:
        try:
            keys = job.history.positions
            lineage.marked(job.keeper, job.thread, keys, lambda: {*keys, *(self._alive(job.thread) or ())})
        except UNUSABLE as error:
            logger.warning("Entries of abandoned branches could not be marked: %s", error)

    def _alive(self, thread: str) -> Collection[str] | None:
        """Ids of the messages on the branch that a thread is on; None where that is not known. Blocking."""
        if self._stored is None:
            return None
        try:
            found = self._stored.messages_sync(thread)
        except (sqlite3.Error, LangGraphMemoryError) as error:
            logger.warning("The thread %r could not be read: %s", thread, error)
            return None
        ids = {str(message.id) for message in found}
        newest = self._newest.get(thread, ())
        if ids.issuperset(newest):
            self._newest.pop(thread, None)
        return ids.union(newest) if ids else None

    # Models and events

    @property
    def _seconds(self) -> float:
        return self._settings.compaction.timeout_seconds

    @property
    def _driving(self) -> dict[str, Any]:
        """What every task is driven with."""
        heard = heard_by(self._listener)
        return {"seconds": self._seconds, "cache": self._cache, "breakers": self._breakers, "heard": heard}

    @property
    def _window(self) -> int:
        window = self._settings.context_window
        return window if isinstance(window, int) else DEFAULT_WINDOW

    def _told(self, job: Job, result: Flushed, started: float) -> Flushed:
        if result.messages:
            data = {"entries": result.entries, "messages": result.messages}
            self._tell("memory_flushed", job.thread, job.reason, started, data)
        return result

    def _changed(self, result: Consolidated, started: float, *, dry_run: bool) -> Consolidated:
        if result.changed and not dry_run:
            self._tell("memory_changed", None, "consolidated", started, {"entries": result.entries})
        return result

    def changed(self, thread: str | None, reason: str, count: int) -> None:
        """Announce that a tool has changed a memory."""
        self._tell("memory_changed", thread, reason, time.perf_counter(), {"entries": count}, in_run=True)

    def _tell(
        self, name: Any, thread: str | None, reason: str, started: float, data: dict[str, Any], *, in_run: bool = False
    ) -> None:
        took = (time.perf_counter() - started) * 1000
        announce(MemoryEvent(name, thread, reason, took, data=data), self._listener, in_run=in_run)


@contextmanager
def _staying_due(thread: str) -> Iterator[None]:
    """A thread that cannot be read or flushed holds up no other one."""
    try:
        yield
    except (*UNUSABLE, LangGraphMemoryError) as error:
        logger.warning("The thread %r could not be flushed, it stays due: %s", thread, error)


def _side(model: Model | None) -> Model | None:
    return for_side_calls(model) if model is not None else None
