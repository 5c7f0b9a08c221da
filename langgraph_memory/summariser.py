"""The rim of summaries: asks the model, judges its reply, remembers what was bought.

A summary is bought once: replies are kept in a `SummaryCache` by the digest of their prompt, at once, so a repeated
decision finds them; where the cache is a file, also after a crash and in another process. Who asks for what somebody
else is just buying waits for it: in the threads or on the event loop of a process by a lock, beyond that by a claim in
the cache.

A summariser that fails three times in a row on a thread is left alone for five minutes, then tried once; until that
succeeds every question is answered with a rejection at once, and the ladder goes on without a model.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

from langchain_core.messages import BaseMessage

from .cache import Guarded, ProcessCache, SummaryCache
from .context.summarize import Ask
from .context.verdict import Count, Rejected, accept
from .events import Heard
from .logs import details, outline
from .models import Model, bare, model_name
from .sidecalls import FAILURES, Breakers, Kind, beating, call, call_sync, fault, in_thread, named

logger = logging.getLogger(__name__)

KIND = Kind("memory_summary", "summarization", "the summariser")
MARGIN_SECONDS = 5.0
"""How long after the timeout somebody else's reply is still waited for: time to judge and keep it."""
CLAIM_SECONDS = 10.0
"""How long a claim holds if it is not prolonged: what others wait for a process that died while it asked."""
POLL_SECONDS = 0.1

Answer = str | Rejected


class Flights:
    """One lock a digest and event loop, and one a digest for threads, as long as somebody holds or wants it."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, tuple[Any, int]] = {}
        self._lock = threading.Lock()

    @asynccontextmanager
    async def on_loop(self, digest: str) -> AsyncIterator[None]:
        with self._joined((digest, id(asyncio.get_running_loop())), asyncio.Lock) as lock:
            async with lock:
                yield

    @contextmanager
    def in_thread(self, digest: str) -> Iterator[None]:
        with self._joined((digest, None), threading.Lock) as lock, lock:
            yield

    @contextmanager
    def _joined(self, key: Hashable, make: Callable[[], Any]) -> Iterator[Any]:
        with self._lock:
            lock, users = self._waiting.get(key, (None, 0))
            lock = lock or make()
            self._waiting[key] = lock, users + 1
        try:
            yield lock
        finally:
            with self._lock:
                lock, users = self._waiting.pop(key)
                if users > 1:
                    self._waiting[key] = lock, users - 1


class Summariser:
    """Answers `Ask`s with a model, at most `timeout` seconds each; without a `cache` summaries are kept in the process.

    A cache that cannot be used never fails an answer.
    """

    def __init__(
        self,
        *,
        timeout: float,
        cache: SummaryCache | None = None,
        heard: Heard | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._timeout, self._heard, self._clock = timeout, heard, clock
        self._cache: SummaryCache = ProcessCache() if cache is None else Guarded(cache)
        self._breakers = Breakers(clock=clock)
        self._flights = Flights()

    def bought(self, digest: str) -> str | None:
        """The summary bought for a prompt, if there is one. May read a file."""
        return self._cache.get(digest)

    def covering(self, boundaries: Sequence[str]) -> dict[str, str]:
        """Summaries that were bought for messages up to one of `boundaries`, by boundary. May read a file."""
        return self._cache.covering(boundaries)

    async def answer(self, ask: Ask, model: Model | None, thread: str | None, count: Count) -> Answer:
        """The answer to `ask`; whoever asks the same at the same time waits and shares it."""
        async with self._flights.on_loop(ask.digest):
            if (known := await in_thread(self._known, ask, model, thread, count)) is not None:
                return known
            assert model is not None
            owner, deadline = uuid4().hex, self._clock() + self.patience
            try:
                # No event tells of another process, so it is looked up again and again.
                while not (turn := await in_thread(self._turn, ask, owner, count)) and self._clock() < deadline:  # noqa: ASYNC110
                    await asyncio.sleep(POLL_SECONDS)
                if isinstance(turn, str):
                    return turn
                async with beating(partial(self._claim, ask.digest, owner), CLAIM_SECONDS / 3):
                    reply = await call(model, ask.prompt, self._timeout, self._kind(thread))
                return await in_thread(self._judged, ask, model, thread, reply, count)
            finally:
                await in_thread(self._cache.release, ask.digest, owner)

    def answer_sync(self, ask: Ask, model: Model | None, thread: str | None, count: Count) -> Answer:
        """As `answer`, for callers without an event loop."""
        with self._flights.in_thread(ask.digest):
            if (known := self._known(ask, model, thread, count)) is not None:
                return known
            assert model is not None
            owner, deadline = uuid4().hex, self._clock() + self.patience
            try:
                while not (turn := self._turn(ask, owner, count)) and self._clock() < deadline:
                    time.sleep(POLL_SECONDS)
                if isinstance(turn, str):
                    return turn
                beat = partial(self._claim, ask.digest, owner)
                kind, every = self._kind(thread), CLAIM_SECONDS / 3
                reply = call_sync(model, ask.prompt, self._timeout, kind, beat=beat, every=every)
                return self._judged(ask, model, thread, reply, count)
            finally:
                self._cache.release(ask.digest, owner)

    @property
    def patience(self) -> float:
        """How long somebody else's purchase is waited for."""
        return self._timeout + MARGIN_SECONDS

    def _kind(self, thread: str | None) -> Kind:
        return replace(KIND, thread=thread, heard=self._heard)

    def _claim(self, digest: str, owner: str) -> bool:
        return self._cache.claim(digest, owner, CLAIM_SECONDS)

    def _known(self, ask: Ask, model: Model | None, thread: str | None, count: Count) -> Answer | None:
        """The answer that can be given without the model."""
        if (text := self._fitting(ask, count)) is not None:
            return text
        if model is None:
            return Rejected("there is no model for summaries")
        if self._breakers.open(thread):
            return Rejected(f"the summariser failed {FAILURES} times in a row and is left alone for a while")
        return None

    def _turn(self, ask: Ask, owner: str, count: Count) -> str | bool:
        """What somebody else has bought meanwhile, else whether it is for `owner` to buy."""
        # In this order: whoever releases a claim has kept the text before.
        mine = self._claim(ask.digest, owner)
        return self._fitting(ask, count) or mine

    def _fitting(self, ask: Ask, count: Count) -> str | None:
        """The summary in the cache, if it is of use here: the room, the counter or the file may have changed."""
        text = self._cache.get(ask.digest)
        found = accept(text, replaces=ask.replaces, room=ask.room, count=count) if isinstance(text, str) else None
        return found if isinstance(found, str) else None

    def _judged(self, ask: Ask, model: Model, thread: str | None, reply: Any, count: Count) -> Answer:
        replied = isinstance(reply, BaseMessage | str)
        answer = _verdict(reply, ask, count) if replied else Rejected(fault(reply, self._timeout, KIND))
        name = model_name(model) or type(bare(model)).__name__
        if isinstance(answer, str):
            self._cache.put(ask.digest, answer, boundary=ask.boundary, tokens=count(answer), model=name)
        if replied:
            self._cache.add_usage(name, "summary", getattr(reply, "usage_metadata", None))
        self._breakers.count(thread, ok=isinstance(answer, str))
        if isinstance(answer, Rejected):
            # What a provider says of a failure may quote the request.
            said = answer.reason if replied else f"{KIND.who} failed: {outline(reply)}"
            logger.warning("A summary was not accepted: %s", said)
            details.debug("A summary was not accepted: %s", answer.reason)
        return answer


def _verdict(reply: Any, ask: Ask, count: Count) -> Answer:
    try:
        return accept(reply, replaces=ask.replaces, room=ask.room, count=count)
    except Exception as error:  # noqa: BLE001 - a reply may hold anything, and no reply may end the run
        return Rejected(f"the reply cannot be read: {named(error)}")
