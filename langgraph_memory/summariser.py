"""The rim of summaries: asks the model, judges its reply, remembers what was bought.

A summary is bought once: replies are kept by the digest of their prompt, so a repeated decision finds them. A
summariser that fails three times in a row on a thread is left alone for five minutes, then tried once; until that
succeeds every question is answered with a rejection at once, and the ladder goes on without a model.

The calls never show in the user's stream: they carry the `nostream` tag and LangChain's mark for internal calls.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from langchain.agents.middleware.internal_call_transformer import internal_call_metadata
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.constants import TAG_NOSTREAM

from .context.summarize import Ask, Rejected, accept

logger = logging.getLogger(__name__)

KEPT = 512
FAILURES = 3
REST_SECONDS = 300.0

Answer = str | Rejected


@dataclass(slots=True)
class Breaker:
    """Counts failures in a row on one thread."""

    failures: int = 0
    opened: float = 0.0

    def open(self, now: float) -> bool:
        """Whether to leave the summariser alone; after the rest one try is let through, and the rest starts anew."""
        if self.failures < FAILURES:
            return False
        if now - self.opened < REST_SECONDS:
            return True
        self.opened = now
        return False

    def count(self, ok: bool, now: float) -> None:
        self.failures = 0 if ok else self.failures + 1
        if self.failures == FAILURES:
            self.opened = now


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
    """Answers `Ask`s with a model, at most `timeout` seconds each."""

    def __init__(self, *, timeout: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._timeout, self._clock = timeout, clock
        self._bought: OrderedDict[str, str] = OrderedDict()
        self._breakers: dict[str | None, Breaker] = {}
        self._lock = threading.Lock()
        self._flights = Flights()

    def bought(self, digest: str) -> str | None:
        """The summary bought for a prompt, if there is one."""
        with self._lock:
            return self._bought.get(digest)

    async def answer(
        self, ask: Ask, model: Runnable[Any, Any] | None, thread: str | None, count: Callable[[str], int]
    ) -> Answer:
        """The answer to `ask`; whoever asks the same at the same time waits and shares it."""
        async with self._flights.on_loop(ask.digest):
            if (known := self._known(ask, model, thread)) is not None:
                return known
            assert model is not None
            try:
                async with asyncio.timeout(self._timeout):
                    reply: Any = await model.ainvoke([HumanMessage(ask.prompt)], _config())
            except Exception as error:  # noqa: BLE001 - whatever a summariser raises, the run goes on without it
                reply = error
            return await asyncio.to_thread(self._judged, ask, thread, reply, count)

    def answer_sync(
        self, ask: Ask, model: Runnable[Any, Any] | None, thread: str | None, count: Callable[[str], int]
    ) -> Answer:
        """As `answer`, for callers without an event loop."""
        with self._flights.in_thread(ask.digest):
            if (known := self._known(ask, model, thread)) is not None:
                return known
            assert model is not None
            return self._judged(ask, thread, _call_with_limit(model, ask.prompt, self._timeout), count)

    def _known(self, ask: Ask, model: Runnable[Any, Any] | None, thread: str | None) -> Answer | None:
        with self._lock:
            if (text := self._bought.get(ask.digest)) is not None:
                return text
            if model is None:
                return Rejected("there is no model for summaries")
            if self._breakers.setdefault(thread, Breaker()).open(self._clock()):
                return Rejected(f"the summariser failed {FAILURES} times in a row and is left alone for a while")
        return None

    def _judged(self, ask: Ask, thread: str | None, reply: Any, count: Callable[[str], int]) -> Answer:
        if isinstance(reply, BaseMessage | str):
            answer = accept(reply, replaces=ask.replaces, room=ask.room, count=count)
        else:
            answer = Rejected(_fault(reply, self._timeout))
        with self._lock:
            self._breakers.setdefault(thread, Breaker()).count(isinstance(answer, str), self._clock())
            if isinstance(answer, str):
                self._bought[ask.digest] = answer
                while len(self._bought) > KEPT:
                    self._bought.popitem(last=False)
        if isinstance(answer, Rejected):
            logger.warning("A summary was not accepted: %s", answer.reason)
        return answer


def _config() -> RunnableConfig:
    return {
        "run_name": "memory_summary",
        "tags": [TAG_NOSTREAM],
        "metadata": {"lc_source": "summarization", **internal_call_metadata()},
    }


def _fault(reply: Any, timeout: float) -> str:
    if isinstance(reply, TimeoutError):
        return f"the summariser did not answer within {timeout:g} s"
    if isinstance(reply, Exception):
        return f"the summariser raised {type(reply).__name__}: {reply}"
    return f"the summariser returned {type(reply).__name__}, not a message"


def _call_with_limit(model: Runnable[Any, Any], prompt: str, seconds: float) -> Any:
    """The reply or the exception. A daemon thread, so that a hanging model never keeps the program alive."""
    result: list[Any] = []
    context = contextvars.copy_context()

    def call() -> None:
        try:
            result.append(context.run(model.invoke, [HumanMessage(prompt)], _config()))
        except Exception as error:  # noqa: BLE001 - handed to the caller
            result.append(error)

    worker = threading.Thread(target=call, daemon=True, name="memory-summary")
    worker.start()
    worker.join(seconds)
    return result[0] if result else TimeoutError()
