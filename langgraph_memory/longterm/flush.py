"""A flush: what is worth remembering in the new messages of a thread goes to the ledger, each message once.

What is new is computed from what was flushed, so nothing has to be remembered between two flushes and nothing is lost
by a crash. It is cut into chunks that fit the model's window; each is asked for, judged and written by itself, in one
step with the note that its messages are flushed. A failure writes nothing, and the same messages come again; where the
same chunk has failed three times, and where there is no model, what a rule finds in it is written instead.

A reply that is paid for is kept at once, by what it was made from, so that a crash before it is written does not pay
twice. Two flushes of a thread never ask for the same messages: one of them has claimed the thread.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import blake2b
from typing import Any, Literal
from uuid import uuid4

from langchain_core.messages import BaseMessage

from ..cache import Guarded, ProcessCache, SummaryCache
from ..config import FlushConfig
from ..context.groups import says
from ..context.text import clean_text
from ..context.tokens import TokenCounter
from ..context.verdict import Rejected
from ..logs import details, failed, outline
from ..sidecalls import named
from . import flushed
from .extraction import calls, fill, fitted, line_of, moment_of, reference, said, still_open
from .flushed import AlreadyFlushedError, Due, Rows
from .forgetting import BY, FLUSH, RULE, flushed_upto
from .keeper import Keeper
from .notice import notice
from .redact import redact
from .replies import parse

logger = logging.getLogger(__name__)

NAME = "memory_flush"
FAILURES = 3
"""Failures of a chunk in a row after which it is left to the rule."""
MOST_MESSAGES = 200
"""Of a chunk."""
LEAST_ROOM = 64
"""Tokens of messages below which the model is not asked."""
REPLY_TOKENS = 2000
REFERENCE_TOKENS = 4000
SEPARATOR = 2
WRITTEN = "-"
"""Stands in the cache for a reply that is no longer needed; nothing is forgotten by so short a text."""

Outcome = Literal["flushed", "nothing", "throttled", "busy", "refused", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Flushed:
    """What a flush did. Where it ended badly, what it had flushed before stands."""

    outcome: Outcome = "nothing"
    reason: str = ""
    entries: int = 0
    """Entries written."""
    messages: int = 0
    """Messages that are flushed now and were not before."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Messages that are flushed in one step."""

    positions: tuple[int, ...]
    names: tuple[str, ...]
    """What a reply about the messages up to each position is kept by."""
    begin: str
    """Names the first message."""
    text: str = ""
    """The messages as the model is shown them; "" where they say nothing."""

    def up_to(self, name: str) -> Chunk:
        """The beginning that a reply kept by `name` is about."""
        size = self.names.index(name) + 1
        return replace(self, positions=self.positions[:size], names=self.names[:size])


class Flush:
    """A task for `sidework`: flushes the messages of a thread before position `end`.

    `force` leaves the interval between two flushes out of account.
    """

    name = NAME

    def __init__(
        self,
        keeper: Keeper,
        thread: str,
        history: Rows,
        config: FlushConfig,
        *,
        counter: TokenCounter,
        has_model: bool,
        window: int = 128_000,
        checkpoint: str | None = None,
        end: int | None = None,
        cache: SummaryCache | None = None,
        force: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._keeper, self._thread, self._rows, self._config = keeper, clean_text(thread), history, config
        self._count, self._window, self._has_model = counter.text, window, has_model
        self._checkpoint, self._force, self._clock = checkpoint, force, clock
        self._upto = len(history.keys) if end is None else min(end, len(history.keys))
        self._end = still_open(history.messages, self._upto)
        self._cache: SummaryCache = ProcessCache() if cache is None else Guarded(cache)
        self._owner = uuid4().hex
        self._due: Due | None = None
        self._asked: Chunk | None = None
        self._started = self._ended = self._claimed = False
        self.result = Flushed()

    def begin(self) -> str | None:
        """The prompt for the next chunk; None when all is flushed. What needs no model is flushed here."""
        if self._ended:
            return None
        try:
            return self._next() if self._started or self._start() else None
        except Exception as error:  # noqa: BLE001 - whatever is wrong with the files, the run goes on without it
            self._fail(error)
            return None

    def finish(self, reply: BaseMessage | BaseException) -> bool | None:
        """Judge a reply and write what is in it. A failure changes nothing but the count of them, and ends the task."""
        chunk, self._asked = self._asked, None
        if self._ended or chunk is None or _ends(reply):
            self._stop("cancelled", "ended while the model was asked")
            return None
        try:
            return self._finished(reply, chunk)
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(error)
            return None

    def beat(self) -> None:
        """Prolong the claim."""
        # The claim is only about not paying twice; what is written is checked again.
        with suppress(Exception), self._keeper.writing() as db:
            flushed.claim(db, self._thread, self._owner, self._clock())

    # Steps

    def _start(self) -> bool:
        """Whether there is something to do, and it is for this task to do it."""
        self._started = True
        if not self._end:
            return self._stop("nothing", "there are no messages")
        self._recover()
        with self._keeper.reading() as db:
            mark = flushed.mark_of(db, self._thread)
            self._due = flushed.due_of(db, self._thread)
            new = flushed.unflushed(db, self._thread, self._rows, self._end)
        if not new:
            return self._done()
        if mark is not None and not self._force and 0 <= self._clock() - mark.time < self._config.min_interval_seconds:
            return self._stop("throttled", f"the last one is less than {self._config.min_interval_seconds:g} s ago")
        with self._keeper.writing() as db:
            self._claimed = flushed.claim(db, self._thread, self._owner, self._clock())
        return self._claimed or self._stop("busy", "somebody else is flushing this thread")

    def _recover(self) -> None:
        """Where an index was lost, entries and what `forget` kept tell up to which message the thread was flushed."""
        if not self._keeper.index.path.exists():
            with self._keeper.writing():
                pass
        with self._keeper.reading() as db:
            if flushed.mark_of(db, self._thread) is not None:
                return
        self._keeper.sync()
        with self._keeper.reading() as db:
            rows = self._keeper.index.rows_of_thread(db, self._thread)
        ids = {one for row in rows if BY in row.entry.metadata for one in row.entry.message_ids}
        ids.update(flushed_upto(self._keeper).get(self._thread, ()))
        if key := next((key for key in reversed(self._rows.keys) if key in ids), None) if ids else None:
            with self._keeper.writing() as db:
                flushed.recover(db, self._thread, key)

    def _next(self) -> str | None:
        while (chunk := self._chunk()) is not None:
            if not self._asks(chunk):
                self._write(chunk, self._noticed(chunk))
            elif (known := self._bought(chunk)) is not None:
                self._write(*known)
            else:
                self._asked = chunk
                return fill(self._config.prompt, chunk.text, self._reference(), datetime.fromtimestamp(self._clock()))
        self._done()
        return None

    def _finished(self, reply: BaseMessage | BaseException, chunk: Chunk) -> bool:
        found: list[str] | Rejected
        if isinstance(reply, BaseException):
            outcome, found = "failed", Rejected(f"the model raised {named(reply)}")
        else:
            outcome, found = (
                "refused",
                parse(reply, messages=len(chunk.positions), source=chunk.text, known=self._known()),
            )
        if isinstance(found, Rejected):
            # What a provider says of a failure may quote the request.
            said = f"the model failed: {outline(reply)}" if outcome == "failed" else found.reason
            logger.warning("Memories were not extracted: %s", said)
            details.debug("Memories were not extracted: %s", found.reason)
            self._failed(chunk)
            self._stop("failed" if outcome == "failed" else "refused", found.reason)
            return False
        texts = list(map(redact, found))
        self._cache.put(chunk.names[-1], json.dumps(texts), boundary=chunk.names[-1])
        self._write(chunk, self._extracted(chunk, texts))
        return True

    def _failed(self, chunk: Chunk) -> None:
        """Count a failure; the last one that is borne has the chunk flushed without a model."""
        with self._keeper.writing() as db:
            times = flushed.failed(db, self._thread, chunk.begin)
        if times >= FAILURES:
            self._write(chunk, self._noticed(chunk))

    def _write(self, chunk: Chunk, entries: Sequence[dict[str, Any]]) -> None:
        """Write entries and that their messages are flushed, in one step; nothing where somebody else has done so."""

        def within(db: Any) -> None:
            flushed.mark_flushed(db, self._thread, self._rows, chunk.positions, self._clock())
            flushed.succeeded(db, self._thread)

        try:
            written = self._keeper.append([*entries, *self._calls(chunk)], within=within)
        except AlreadyFlushedError:
            return
        self._forget(chunk)
        self.result = replace(
            self.result,
            outcome="flushed",
            entries=self.result.entries + len(written),
            messages=self.result.messages + len(chunk.positions),
        )

    def _done(self) -> bool:
        # A note about messages that this history does not have yet is for another flush.
        if self._due is not None and self._due.key in map(clean_text, reversed(self._rows.keys[: self._upto])):
            with self._keeper.writing() as db:
                flushed.settle(db, self._due)
        return self._stop(self.result.outcome, "" if self.result.messages else "there is nothing new")

    def _fail(self, error: Exception) -> None:
        failed(logger, "Memories are not flushed", error, level=logging.WARNING)
        self._stop("failed", named(error))

    def _stop(self, outcome: Outcome, reason: str) -> bool:
        """Nothing more is done, and the claim is given back. False, for those who return it."""
        if not self._ended:
            self._ended = True
            self.result = replace(self.result, outcome=outcome, reason=reason)
        if self._claimed:
            self._claimed = False
            # A claim that cannot be given back runs out.
            with suppress(Exception), self._keeper.writing() as db:
                flushed.release(db, self._thread, self._owner)
        return False

    # Chunks

    def _chunk(self) -> Chunk | None:
        """The first messages that are not flushed, as many as the window holds."""
        with self._keeper.reading() as db:
            positions = flushed.unflushed(db, self._thread, self._rows, self._end)
        if not positions:
            return None
        room, begin = self._room, self._rows.digests[positions[0]].hex()
        taken: list[int] = []
        lines: list[str] = []
        names: list[str] = []
        print_ = blake2b(self._settings.encode("utf-8", "surrogatepass"), digest_size=16)
        for position in positions[:MOST_MESSAGES]:
            line = self._line(len(lines) + 1, position)
            size = self._count(line) + SEPARATOR if line else 0
            if taken and size > room:
                break
            if size > room:
                line = fitted(line, max(LEAST_ROOM, room), self._count)
            room -= size
            print_.update(self._rows.digests[position])
            taken.append(position)
            names.append(f"flush:{print_.hexdigest()}")
            lines += [line] if line else []
        return Chunk(tuple(taken), tuple(names), begin, "\n".join(lines))

    def _line(self, number: int, position: int) -> str:
        return line_of(number, self._rows.messages[position], from_tools=self._config.from_tools)

    @property
    def _settings(self) -> str:
        """What shapes a reply beside the messages. Another memory means another reference."""
        return f"{self._keeper.folder.path}\n{self._config.from_tools}\n{self._config.prompt}"

    @property
    def _room(self) -> int:
        """Tokens for messages. It depends on no memory, so a repeated flush makes the same chunks."""
        fixed = self._count(fill(self._config.prompt, "", "", datetime.fromtimestamp(self._clock()))) + 20
        return (self._window - min(REPLY_TOKENS, self._window // 4) - 2 * self._reference_room - fixed) * 9 // 10

    @property
    def _reference_room(self) -> int:
        return min(REFERENCE_TOKENS, self._window // 8)

    def _asks(self, chunk: Chunk) -> bool:
        return self._has_model and bool(chunk.text) and self._room >= LEAST_ROOM

    def _reference(self) -> str:
        today = [row.entry.text for row in self._keeper.ledger() if row.entry.type != "tool_result"]
        return reference(self._keeper.memory_md(), today, self._reference_room, self._count)

    def _known(self) -> list[str]:
        """What the model was shown of the memory, line by line."""
        return [*(row.entry.text for row in self._keeper.ledger()), *self._keeper.memory_md().splitlines()]

    # Replies that are paid for

    def _bought(self, chunk: Chunk) -> tuple[Chunk, list[dict[str, Any]]] | None:
        """The longest beginning of a chunk that a reply was bought for, and the entries in that."""
        kept = self._cache.covering(chunk.names)
        for name in reversed(chunk.names):
            with suppress(ValueError):
                if name in kept and isinstance(texts := json.loads(kept[name]), list):
                    chunk = chunk.up_to(name)
                    return chunk, self._extracted(chunk, list(map(str, texts)))
        return None

    def _forget(self, chunk: Chunk) -> None:
        """What was written is no longer kept elsewhere, so that it can be forgotten."""
        if self._has_model and self._cache.get(chunk.names[-1]) is not None:
            self._cache.put(chunk.names[-1], WRITTEN, boundary=chunk.names[-1])

    # Entries

    def _extracted(self, chunk: Chunk, texts: Sequence[str]) -> list[dict[str, Any]]:
        messages = [self._rows.messages[position] for position in chunk.positions]
        moment = next(filter(None, map(moment_of, reversed(messages))), None)
        first, last = self._rows.keys[chunk.positions[0]], self._rows.keys[chunk.positions[-1]]
        keys = list(dict.fromkeys((first, last)))
        return [self._entry(text, keys, moment, metadata={BY: FLUSH}) for text in texts]

    def _noticed(self, chunk: Chunk) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for position in chunk.positions:
            message = self._rows.messages[position]
            if says(message):
                found += (
                    self._entry(
                        redact(one.text),
                        [self._rows.keys[position]],
                        moment_of(message),
                        {BY: RULE, "kind": one.kind},
                    )
                    for one in notice(said(message))
                )
        return found

    def _calls(self, chunk: Chunk) -> Iterator[dict[str, Any]]:
        for position, line in calls(self._rows.messages, chunk.positions):
            moment = moment_of(self._rows.messages[position])
            yield {**self._entry(line, [self._rows.keys[position]], moment, {BY: FLUSH}), "type": "tool_result"}

    def _entry(self, text: str, keys: list[str], moment: datetime | None, metadata: dict[str, str]) -> dict[str, Any]:
        entry = {"text": text, "thread_id": self._thread, "checkpoint_id": self._checkpoint, "message_ids": keys}
        return {**entry, "timestamp": moment or datetime.fromtimestamp(self._clock()), "metadata": metadata}


def _ends(reply: object) -> bool:
    """Whether what came instead of a reply is a cancellation, or ends the program."""
    return isinstance(reply, asyncio.CancelledError) or (
        isinstance(reply, BaseException) and not isinstance(reply, Exception)
    )
