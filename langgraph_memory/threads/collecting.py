"""Building many messages at once without the garbage collector looking at all of them again and again.

A message is a handful of small objects, none of them garbage yet; with the collector at work, building a list of
thousands takes five times as long. It rests for the few milliseconds that takes, for the whole process.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

MANY = 1000

_lock = threading.Lock()
_resting = 0
_was_enabled = True


@contextmanager
def collecting_later(messages: int = 0) -> Iterator[None]:
    """Leave the collector off inside, if it is on; it goes on when the last of several threads is done.

    After many messages it looks at them once and counts them as old. Otherwise it would look at those of one list again
    and again while the next ones are built.
    """
    global _resting, _was_enabled
    with _lock:
        if _resting == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _resting += 1
    try:
        yield
    finally:
        with _lock:
            _resting -= 1
            if _resting == 0 and _was_enabled:
                if messages >= MANY:
                    gc.collect(1)
                gc.enable()
