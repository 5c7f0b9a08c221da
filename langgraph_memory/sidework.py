"""Work beside the run that needs a model now and then: the logic once, as a `Task`, and two shells that drive it.

    begin → the model's reply → finish → begin → … → begin gives None

`begin` and `finish` read and write files, so the shell for an event loop runs them in threads. They never overlap. What
a task has taken — a claim, for instance — it lets go in `finish`, which also comes if the caller was cancelled
meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Protocol, runtime_checkable

from langchain_core.messages import BaseMessage

from .cache import SummaryCache
from .events import Heard
from .logs import outline
from .models import Model, bare, model_name
from .sidecalls import Breakers, Kind, beating, call, call_sync, in_thread

logger = logging.getLogger(__name__)

BEAT_SECONDS = 3.0
"""Between two times that a task hears that the model is still being asked."""


class Task(Protocol):
    """Work in steps of one model call each. Its methods block; none of them raises for what a model does."""

    @property
    def name(self) -> str:
        """Of the run, and the kind of usage."""

    @property
    def result(self) -> Any:
        """What was done."""

    def begin(self) -> str | None:
        """The prompt for the next call; None when there is nothing more to ask."""

    def finish(self, reply: BaseMessage | BaseException) -> bool | None:
        """Judge the reply and write what came of it; False for one that is of no use, None says nothing about it.

        A `CancelledError`, or whatever else ends a program, means that there is no reply and will be none.
        """


@runtime_checkable
class Holding(Protocol):
    """A task that holds something which has to be prolonged while the model is asked."""

    def beat(self) -> Any: ...


def run(
    task: Task,
    model: Model | None,
    *,
    seconds: float,
    cache: SummaryCache | None = None,
    breakers: Breakers | None = None,
    key: Hashable = None,
    thread: str | None = None,
    heard: Heard | None = None,
) -> bool:
    """Drive `task` to its end, at most `seconds` for each call; whether it was begun at all.

    It is not while the breaker of `key` is open. Without a model it is begun, and hears that there is none if it asks.
    `cache` counts what answered calls took; `thread` is the conversation that traces show the calls with, and `heard`
    hears of each.
    """
    if _resting(task, model, breakers, key):
        return False
    kind, asking = Kind(task.name, task.name, thread=thread, heard=heard), False
    try:
        while True:
            asking = True
            if (prompt := task.begin()) is None:
                return True
            reply = (
                call_sync(model, prompt, seconds, kind, beat=_beat(task), every=BEAT_SECONDS)
                if model is not None
                else _no_model()
            )
            asking = False
            _finished(task, reply, model, cache, breakers, key)
    except BaseException as error:
        if asking:
            task.finish(error)
        raise


async def arun(
    task: Task,
    model: Model | None,
    *,
    seconds: float,
    cache: SummaryCache | None = None,
    breakers: Breakers | None = None,
    key: Hashable = None,
    thread: str | None = None,
    heard: Heard | None = None,
) -> bool:
    """As `run`, on an event loop: nothing of the task blocks it. Cancelled, it waits for what is being written."""
    if _resting(task, model, breakers, key):
        return False
    kind, asking = Kind(task.name, task.name, thread=thread, heard=heard), False
    try:
        while True:
            asking = True
            if (prompt := await in_thread(task.begin)) is None:
                return True
            async with _beating(task):
                reply = await call(model, prompt, seconds, kind) if model is not None else _no_model()
            asking = False
            await in_thread(_finished, task, reply, model, cache, breakers, key)
    except BaseException as error:
        if asking:
            await in_thread(task.finish, error)
        raise


def _resting(task: Task, model: Model | None, breakers: Breakers | None, key: Hashable) -> bool:
    return model is not None and breakers is not None and breakers.open(_breaker(task, key))


def _breaker(task: Task, key: Hashable) -> Hashable:
    return None if key is None else (task.name, key)


def _beat(task: Task) -> Callable[[], Any] | None:
    return task.beat if isinstance(task, Holding) else None


def _beating(task: Task) -> AbstractAsyncContextManager[None]:
    return nullcontext() if (beat := _beat(task)) is None else beating(beat, BEAT_SECONDS)


def _no_model() -> BaseException:
    return LookupError("there is no model")


def _finished(
    task: Task, reply: Any, model: Model | None, cache: SummaryCache | None, breakers: Breakers | None, key: Hashable
) -> None:
    answered = isinstance(reply, BaseMessage)
    if answered and cache is not None and model is not None:
        _counted(cache, model_name(model) or type(bare(model)).__name__, task.name, reply)
    if not answered and not isinstance(reply, BaseException):
        reply = TypeError(f"the model returned {type(reply).__name__}, not a message")
    useful = task.finish(reply)
    if breakers is not None and useful is not None:
        breakers.count(_breaker(task, key), ok=useful)


def _counted(cache: SummaryCache, model: str, kind: str, reply: BaseMessage) -> None:
    try:
        cache.add_usage(model, kind, getattr(reply, "usage_metadata", None))
    except Exception as error:  # noqa: BLE001 - a count that is lost costs nothing that was said
        logger.warning("What a side call took could not be counted: %s", outline(error))
