"""What the middleware remembers between calls: bounded, shared by threads, safe to lose."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

from .context.history import History

HISTORIES = 64
MESSAGES = 100_000
THREADS = 10_000


class Caches:
    """The newest history of each thread and namespace, and when each thread's model was last called."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._histories: OrderedDict[Hashable, History] = OrderedDict()
        self._called: OrderedDict[str | None, float] = OrderedDict()
        self._clock = clock
        self._lock = threading.Lock()

    def history(self, key: Hashable) -> History | None:
        with self._lock:
            return self._histories.get(key)

    def keep(self, key: Hashable, history: History) -> None:
        with self._lock:
            self._histories[key] = history
            self._histories.move_to_end(key)
            while len(self._histories) > 1 and self._too_many():
                self._histories.popitem(last=False)

    def _too_many(self) -> bool:
        return len(self._histories) > HISTORIES or sum(map(len, self._histories.values())) > MESSAGES

    def touch(self, thread: str | None) -> None:
        """Note that the model of `thread` is called now."""
        with self._lock:
            self._called[thread] = self._clock()
            self._called.move_to_end(thread)
            if len(self._called) > THREADS:
                self._called.popitem(last=False)

    def idle(self, thread: str | None) -> float:
        """Seconds since the model of `thread` was called; 0 where that is not known."""
        with self._lock:
            now = self._clock()
            return now - self._called.get(thread, now)
