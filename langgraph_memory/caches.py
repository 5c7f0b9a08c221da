"""What the middleware remembers between calls: bounded, shared by threads, safe to lose."""

from __future__ import annotations

import copy
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from .context.history import History
from .context.record import Scope
from .context.render import View
from .place import Place

THREADS = 64
MESSAGES = 100_000
CLOCKS = 10_000


class Known(NamedTuple):
    """A history, and the view of it under a scope."""

    history: History
    scope: Scope
    view: View


class Caches:
    """The newest view of each thread and namespace, and when the model there was last called."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._known: OrderedDict[Hashable, Known] = OrderedDict()
        self._scopes: OrderedDict[Hashable, tuple[Any, Scope]] = OrderedDict()
        self._called: OrderedDict[tuple[str, str], float] = OrderedDict()
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

    def scope(self, key: Hashable, plain: Any) -> Scope | None:
        """The scope that `plain` was read as the last time, if it says the same: to compare is less than to read."""
        with self._lock:
            known = self._scopes.get(key)
        return known[1] if known is not None and plain is not None and known[0] == plain else None

    def keep_scope(self, key: Hashable, plain: Any, scope: Scope) -> None:
        """Remember what `plain` was read as. It is copied, since records are changed in place by those who like to."""
        with self._lock:
            self._scopes[key] = copy.deepcopy(plain), scope
            self._scopes.move_to_end(key)
            if len(self._scopes) > THREADS:
                self._scopes.popitem(last=False)

    def _too_many(self) -> bool:
        return len(self._known) > THREADS or sum(len(known.history) for known in self._known.values()) > MESSAGES

    def touch(self, place: Place) -> None:
        """Note that the model of a graph in a thread is called now; runs without a thread id have no clock."""
        if place.thread is None:
            return
        key = place.thread, place.namespace
        with self._lock:
            self._called[key] = self._clock()
            self._called.move_to_end(key)
            if len(self._called) > CLOCKS:
                self._called.popitem(last=False)

    def idle(self, place: Place) -> float:
        """Seconds since the model there was called; 0 where that is not known."""
        with self._lock:
            now = self._clock()
            return now - self._called.get((place.thread or "", place.namespace), now)
