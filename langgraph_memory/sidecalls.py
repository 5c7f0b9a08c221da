"""Calls of a model beside the run: for summaries, for the extraction of memories, for their merging.

Nobody sees them: they carry the `nostream` tag and LangChain's mark for internal calls, so none of their tokens gets
into the user's stream. None of them fails the run: whatever a model raises is given back as a value, and one that does
not answer in time has raised a `TimeoutError`. Only a cancelled caller has to stop, and does.

Who fails three times in a row is left alone for five minutes, then tried once; until that succeeds the rest starts
anew.
"""

from __future__ import annotations

import asyncio
import contextvars
import re
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ParamSpec, TypeVar

from langchain.agents.middleware.internal_call_transformer import internal_call_metadata
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langgraph.constants import TAG_NOSTREAM

from .context.text import clean_text, one_line
from .events import Activity, Heard
from .models import Model, bare, model_name

P = ParamSpec("P")
T = TypeVar("T")

FAILURES = 3
REST_SECONDS = 300.0
BREAKERS = 10_000
REASON_CHARS = 300
_SECRET = re.compile(r"\b(?:sk|pk|key|token|bearer|secret|api[-_ ]?key)\b[-_=:\s'\"]+[\w.*-]{8,}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Kind:
    """What a call is for."""

    name: str
    """Of the run and of the thread it may take."""
    source: str
    """`lc_source` in its metadata."""
    who: str = "the model"
    """How a sentence about a failure begins."""
    thread: str | None = None
    """The conversation it belongs to: a trace of a call in the background has no parent that would say so."""
    heard: Heard | None = None
    """Who hears of every call."""

    @property
    def config(self) -> RunnableConfig:
        thread = {} if self.thread is None else {"thread_id": self.thread}
        return {
            "run_name": self.name,
            "tags": [TAG_NOSTREAM],
            "metadata": {"lc_source": self.source, **thread, **internal_call_metadata()},
        }


@dataclass(slots=True)
class Breaker:
    """Counts failures in a row."""

    failures: int = 0
    opened: float = 0.0

    def open(self, now: float) -> bool:
        """Whether to leave the model alone; after the rest one try is let through, and the rest starts anew."""
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


class Breakers:
    """A breaker a key, such as a thread, for those that failed last; what has no key has none."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failing: OrderedDict[Hashable, Breaker] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._failing)

    def open(self, key: Hashable) -> bool:
        """Whether to leave the model alone now; where not, the caller has the one try there may be."""
        with self._lock:
            breaker = self._failing.get(key) if key is not None else None
            return breaker is not None and breaker.open(self._clock())

    def count(self, key: Hashable, *, ok: bool) -> None:
        if key is None:
            return
        with self._lock:
            breaker = self._failing.pop(key, None) or Breaker()
            if ok:
                return
            breaker.count(self._clock())
            self._failing[key] = breaker
            if len(self._failing) > BREAKERS:
                self._failing.popitem(last=False)


async def call(model: Model, prompt: str, seconds: float, kind: Kind) -> Any:
    """What the model returned for `prompt`, or the exception."""
    started = time.perf_counter()
    reply = await _called(model, prompt, seconds, kind)
    _tell(kind, model, reply, started)
    return reply


async def _called(model: Model, prompt: str, seconds: float, kind: Kind) -> Any:
    try:
        async with asyncio.timeout(seconds):
            if _only_sync(model):
                return await _in_daemon(model, prompt, kind)
            return await model.ainvoke([HumanMessage(prompt)], kind.config)
    except asyncio.CancelledError as error:
        # A client may raise it by itself; only who was cancelled has to stop.
        if (task := asyncio.current_task()) is None or task.cancelling():
            raise
        return error
    except Exception as error:  # noqa: BLE001 - whatever a model raises, the run goes on without it
        return error


def call_sync(
    model: Model, prompt: str, seconds: float, kind: Kind, *, beat: Callable[[], Any] | None = None, every: float = 3.0
) -> Any:
    """As `call`, for callers without an event loop; `beat` is called `every` so many seconds meanwhile."""
    result: list[Any] = []
    started = time.perf_counter()
    worker = _start(model, prompt, kind, result.append)
    until = time.monotonic() + seconds
    while worker.is_alive() and (left := until - time.monotonic()) > 0:
        worker.join(min(left, every))
        if beat is not None and worker.is_alive():
            beat()
    reply = _returned(result[0] if result else TimeoutError())
    _tell(kind, model, reply, started)
    return reply


def _tell(kind: Kind, model: Model, reply: Any, started: float) -> None:
    """Tell whoever hears of side calls about one that has come to its end."""
    if kind.heard is None:
        return
    error = reply if isinstance(reply, BaseException) else None
    usage = getattr(reply, "usage_metadata", None)
    used = usage if isinstance(usage, Mapping) else {}
    tokens = {name: used[name] for name in ("input_tokens", "output_tokens") if name in used}
    text = reply.text if isinstance(reply, BaseMessage) else ""
    kind.heard(
        Activity(
            kind.name,
            kind.thread,
            (time.perf_counter() - started) * 1000,
            error=error,
            data={"model": model_name(model) or type(bare(model)).__name__, **tokens},
            content={"reply": str(text)},
        )
    )


async def in_thread(call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """As `asyncio.to_thread`, but a cancelled caller waits for the thread, so that what it does next comes after."""
    run = partial(contextvars.copy_context().run, call, *args, **options)
    work = asyncio.get_running_loop().run_in_executor(None, run)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


@asynccontextmanager
async def beating(beat: Callable[[], Any], every: float) -> AsyncIterator[None]:
    """Call `beat` in a thread, `every` so many seconds, as long as the block is not left."""

    async def again() -> None:
        while True:
            await asyncio.sleep(every)
            await in_thread(beat)

    task = asyncio.create_task(again())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def fault(reply: Any, seconds: float, kind: Kind) -> str:
    """What is wrong with something that is no reply."""
    if isinstance(reply, TimeoutError):
        return f"{kind.who} did not answer within {seconds:g} s"
    if isinstance(reply, BaseException):
        return f"{kind.who} raised {named(reply)}"
    return f"{kind.who} returned {type(reply).__name__}, not a message"


def named(error: BaseException) -> str:
    """The error in a line without keys; it may quote a whole request, or not even have a text."""
    with suppress(Exception):
        return f"{type(error).__name__}: {_SECRET.sub('[…]', one_line(clean_text(str(error)), REASON_CHARS))}"
    return type(error).__name__


def _only_sync(model: Model) -> bool:
    """Whether `ainvoke` would work in the loop's own threads: a few that hang would hold up everything else there."""
    model = bare(model)
    if isinstance(model, BaseChatModel):
        kind = type(model)
        return kind._agenerate is BaseChatModel._agenerate and kind._astream is BaseChatModel._astream
    if isinstance(model, RunnableLambda):
        return not hasattr(model, "afunc")
    return getattr(type(model), "ainvoke", None) is Runnable.ainvoke


async def _in_daemon(model: Model, prompt: str, kind: Kind) -> Any:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(reply: Any) -> None:
        if not done.done():
            done.set_result(reply)

    def hand_over(reply: Any) -> None:
        # The loop may be closed by the time a model that hung is back.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, reply)

    _start(model, prompt, kind, hand_over)
    return _returned(await done)


def _start(model: Model, prompt: str, kind: Kind, done: Callable[[Any], None]) -> threading.Thread:
    """Call the model in a daemon thread, so that one that hangs never keeps the program alive."""
    context = contextvars.copy_context()

    def run() -> None:
        try:
            reply: Any = context.run(model.invoke, [HumanMessage(prompt)], kind.config)
        except BaseException as error:  # noqa: BLE001 - handed to the caller
            reply = error
        done(reply)

    worker = threading.Thread(target=run, daemon=True, name=kind.name.replace("_", "-"))
    worker.start()
    return worker


def _returned(reply: Any) -> Any:
    """`reply`, unless it is what ends a program."""
    if isinstance(reply, BaseException) and not isinstance(reply, Exception | asyncio.CancelledError):
        raise reply
    return reply
