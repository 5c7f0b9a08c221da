"""The rim of summaries: asks the model, judges its reply, remembers what was bought.

A summary is bought once: replies are kept in a `SummaryCache` by the digest of their prompt, at once, so a repeated
decision finds them; where the cache is a file, also after a crash and in another process. Who asks for what somebody
else is just buying waits for it: in the threads or on the event loop of a process by a lock, beyond that by a claim in
the cache.

A summariser that fails three times in a row on a thread is left alone for five minutes, then tried once; until that
succeeds every question is answered with a rejection at once, and the ladder goes on without a model.

The calls never show in the user's stream: they carry the `nostream` tag and LangChain's mark for internal calls.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ParamSpec, TypeVar
from uuid import uuid4

from langchain.agents.middleware.internal_call_transformer import internal_call_metadata
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langgraph.constants import TAG_NOSTREAM

from .cache import Guarded, ProcessCache, SummaryCache
from .context.summarize import Ask
from .context.text import clean_text, one_line
from .context.verdict import Count, Rejected, accept
from .models import bare, model_name

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

MARGIN_SECONDS = 5.0
"""How long after the timeout somebody else's reply is still waited for: time to judge and keep it."""
CLAIM_SECONDS = 10.0
"""How long a claim holds if it is not prolonged: what others wait for a process that died while it asked."""
POLL_SECONDS = 0.1
FAILURES = 3
BREAKERS = 10_000
REST_SECONDS = 300.0
REASON_CHARS = 300
_SECRET = re.compile(r"\b(?:sk|pk|key|token|bearer|secret|api[-_ ]?key)\b[-_=:\s'\"]+[\w.*-]{8,}", re.IGNORECASE)

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

    def count(self, now: float) -> None:
        self.failures += 1
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
    """Answers `Ask`s with a model, at most `timeout` seconds each; without a `cache` summaries are kept in the process.

    A cache that cannot be used never fails an answer.
    """

    def __init__(
        self, *, timeout: float, cache: SummaryCache | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._timeout, self._clock = timeout, clock
        self._cache: SummaryCache = ProcessCache() if cache is None else Guarded(cache)
        self._breakers: OrderedDict[str, Breaker] = OrderedDict()
        self._lock = threading.Lock()
        self._flights = Flights()

    def bought(self, digest: str) -> str | None:
        """The summary bought for a prompt, if there is one. May read a file."""
        return self._cache.get(digest)

    def covering(self, boundaries: Sequence[str]) -> dict[str, str]:
        """Summaries that were bought for messages up to one of `boundaries`, by boundary. May read a file."""
        return self._cache.covering(boundaries)

    async def answer(self, ask: Ask, model: Runnable[Any, Any] | None, thread: str | None, count: Count) -> Answer:
        """The answer to `ask`; whoever asks the same at the same time waits and shares it."""
        async with self._flights.on_loop(ask.digest):
            if (known := await _in_thread(self._known, ask, model, thread, count)) is not None:
                return known
            assert model is not None
            owner, deadline = uuid4().hex, self._clock() + self.patience
            try:
                # No event tells of another process, so it is looked up again and again.
                while not (turn := await _in_thread(self._turn, ask, owner, count)) and self._clock() < deadline:  # noqa: ASYNC110
                    await asyncio.sleep(POLL_SECONDS)
                if isinstance(turn, str):
                    return turn
                async with self._holding(ask.digest, owner):
                    reply = await _call(model, ask.prompt, self._timeout)
                return await _in_thread(self._judged, ask, model, thread, reply, count)
            finally:
                await _in_thread(self._cache.release, ask.digest, owner)

    def answer_sync(self, ask: Ask, model: Runnable[Any, Any] | None, thread: str | None, count: Count) -> Answer:
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
                reply = _call_with_limit(model, ask.prompt, self._timeout, partial(self._claim, ask.digest, owner))
                return self._judged(ask, model, thread, reply, count)
            finally:
                self._cache.release(ask.digest, owner)

    @property
    def patience(self) -> float:
        """How long somebody else's purchase is waited for."""
        return self._timeout + MARGIN_SECONDS

    def _claim(self, digest: str, owner: str) -> bool:
        return self._cache.claim(digest, owner, CLAIM_SECONDS)

    @asynccontextmanager
    async def _holding(self, digest: str, owner: str) -> AsyncIterator[None]:
        """Prolong the claim again and again while the model is asked."""

        async def prolong() -> None:
            while True:
                await asyncio.sleep(CLAIM_SECONDS / 3)
                await _in_thread(self._claim, digest, owner)

        beat = asyncio.create_task(prolong())
        try:
            yield
        finally:
            beat.cancel()
            await asyncio.wait([beat])

    def _known(self, ask: Ask, model: Runnable[Any, Any] | None, thread: str | None, count: Count) -> Answer | None:
        """The answer that can be given without the model."""
        if (text := self._fitting(ask, count)) is not None:
            return text
        if model is None:
            return Rejected("there is no model for summaries")
        with self._lock:
            breaker = self._breakers.get(thread) if thread is not None else None
            if breaker is not None and breaker.open(self._clock()):
                return Rejected(f"the summariser failed {FAILURES} times in a row and is left alone for a while")
        return None

    def _counted(self, thread: str | None, *, ok: bool) -> None:
        """Keep count of failures in a row; runs without a thread id have nothing in common, so nothing is kept."""
        if thread is None:
            return
        with self._lock:
            breaker = self._breakers.pop(thread, None) or Breaker()
            if ok:
                return
            breaker.count(self._clock())
            self._breakers[thread] = breaker
            if len(self._breakers) > BREAKERS:
                self._breakers.popitem(last=False)

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

    def _judged(self, ask: Ask, model: Runnable[Any, Any], thread: str | None, reply: Any, count: Count) -> Answer:
        replied = isinstance(reply, BaseMessage | str)
        answer = _verdict(reply, ask, count) if replied else Rejected(_fault(reply, self._timeout))
        name = model_name(model) or type(bare(model)).__name__
        if isinstance(answer, str):
            self._cache.put(ask.digest, answer, boundary=ask.boundary, tokens=count(answer), model=name)
        if replied:
            self._cache.add_usage(name, "summary", getattr(reply, "usage_metadata", None))
        self._counted(thread, ok=isinstance(answer, str))
        if isinstance(answer, Rejected):
            logger.warning("A summary was not accepted: %s", answer.reason)
        return answer


def _verdict(reply: Any, ask: Ask, count: Count) -> Answer:
    try:
        return accept(reply, replaces=ask.replaces, room=ask.room, count=count)
    except Exception as error:  # noqa: BLE001 - a reply may hold anything, and no reply may end the run
        return Rejected(f"the reply cannot be read: {_named(error)}")


async def _in_thread(call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """As `asyncio.to_thread`, but a cancelled caller waits for the thread, so that what it does next comes after."""
    run = partial(contextvars.copy_context().run, call, *args, **options)
    work = asyncio.get_running_loop().run_in_executor(None, run)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


def _config() -> RunnableConfig:
    return {
        "run_name": "memory_summary",
        "tags": [TAG_NOSTREAM],
        "metadata": {"lc_source": "summarization", **internal_call_metadata()},
    }


def _fault(reply: Any, timeout: float) -> str:
    if isinstance(reply, TimeoutError):
        return f"the summariser did not answer within {timeout:g} s"
    if isinstance(reply, BaseException):
        return f"the summariser raised {_named(reply)}"
    return f"the summariser returned {type(reply).__name__}, not a message"


def _named(error: BaseException) -> str:
    """The error in a line without keys; it may quote a whole request, or not even have a text."""
    with suppress(Exception):
        return f"{type(error).__name__}: {_SECRET.sub('[…]', one_line(clean_text(str(error)), REASON_CHARS))}"
    return type(error).__name__


async def _call(model: Runnable[Any, Any], prompt: str, seconds: float) -> Any:
    """The reply or the exception."""
    try:
        async with asyncio.timeout(seconds):
            if _only_sync(model):
                return await _in_daemon(model, prompt)
            return await model.ainvoke([HumanMessage(prompt)], _config())
    except asyncio.CancelledError as error:
        # A client may raise it by itself; only who was cancelled has to stop.
        if (task := asyncio.current_task()) is None or task.cancelling():
            raise
        return error
    except Exception as error:  # noqa: BLE001 - whatever a summariser raises, the run goes on without it
        return error


def _call_with_limit(model: Runnable[Any, Any], prompt: str, seconds: float, beat: Callable[[], Any]) -> Any:
    """The reply or the exception; `beat` is called now and then meanwhile."""
    result: list[Any] = []
    worker = _start(model, prompt, result.append)
    until = time.monotonic() + seconds
    while worker.is_alive() and (left := until - time.monotonic()) > 0:
        worker.join(min(left, CLAIM_SECONDS / 3))
        if worker.is_alive():
            beat()
    return _returned(result[0] if result else TimeoutError())


def _only_sync(model: Runnable[Any, Any]) -> bool:
    """Whether `ainvoke` would work in the loop's own threads: a few that hang would hold up everything else there."""
    model = bare(model)
    if isinstance(model, BaseChatModel):
        kind = type(model)
        return kind._agenerate is BaseChatModel._agenerate and kind._astream is BaseChatModel._astream
    if isinstance(model, RunnableLambda):
        return not hasattr(model, "afunc")
    return getattr(type(model), "ainvoke", None) is Runnable.ainvoke


async def _in_daemon(model: Runnable[Any, Any], prompt: str) -> Any:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(reply: Any) -> None:
        if not done.done():
            done.set_result(reply)

    def hand_over(reply: Any) -> None:
        # The loop may be closed by the time a model that hung is back.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, reply)

    _start(model, prompt, hand_over)
    return _returned(await done)


def _start(model: Runnable[Any, Any], prompt: str, done: Callable[[Any], None]) -> threading.Thread:
    """Call the model in a daemon thread, so that one that hangs never keeps the program alive."""
    context = contextvars.copy_context()

    def call() -> None:
        try:
            reply: Any = context.run(model.invoke, [HumanMessage(prompt)], _config())
        except BaseException as error:  # noqa: BLE001 - handed to the caller
            reply = error
        done(reply)

    worker = threading.Thread(target=call, daemon=True, name="memory-summary")
    worker.start()
    return worker


def _returned(reply: Any) -> Any:
    """`reply`, unless it is what ends a program."""
    if isinstance(reply, BaseException) and not isinstance(reply, Exception | asyncio.CancelledError):
        raise reply
    return reply
