"""What the middleware remembers between calls: bounded, shared by threads, safe to lose."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import NamedTuple

from .context.history import History
from .context.record import Scope
from .context.render import View

THREADS = 64
MESSAGES = 100_000
CLOCKS = 10_000


class Known(NamedTuple):
    """A history, and the view of it under a scope."""

    history: History
    scope: Scope
    view: View


class Caches:
    """The newest view of each thread and namespace, and when each thread's model was last called."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._known: OrderedDict[Hashable, Known] = OrderedDict()
        self._called: OrderedDict[str, float] = OrderedDict()
        self._clock = clock
        self._lock = threading.Lock()

    def known(self, key: Hashable) -> Known | None:
        with self._lock:
            return self._known.get(key)

    def keep(self, key: Hashable, known: Known) -> None:
        with self._lock:
            self._known[key] = known
            self._known.move_to_end(key)
            while len(self._known) > 1 and self._too_many():
                self._known.popitem(last=False)

    def _too_many(self) -> bool:
        return len(self._known) > THREADS or sum(len(known.history) for known in self._known.values()) > MESSAGES

    def touch(self, thread: str | None) -> None:
        """Note that the model of `thread` is called now; runs without a thread id have no clock."""
        if thread is None:
            return
        with self._lock:
            self._called[thread] = self._clock()
            self._called.move_to_end(thread)
            if len(self._called) > CLOCKS:
                self._called.popitem(last=False)

    def idle(self, thread: str | None) -> float:
        """Seconds since the model of `thread` was called; 0 where that is not known."""
        with self._lock:
            now = self._clock()
            return now - self._called.get(thread or "", now)
