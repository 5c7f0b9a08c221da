"""What a saver remembers of the chains it wrote or read last, so that a put looks only at what is new.

Nothing here is trusted blindly: a chain's messages never change, but it may have been removed or cut by another
process, which is looked up in the transaction that uses it. Losing all of it costs time only.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

from .blocks import Moulds
from .messages import Key

MOST_BYTES = 64_000_000
MOST_PLACES = 4096


class Tip(NamedTuple):
    """The beginning of a chain as far as it is known: of each message its key and its mould, never changed in place."""

    chain: int
    keys: list[Key]
    moulds: Moulds


class Place(NamedTuple):
    """Where a list of messages stands in a thread: the parent of a new one is looked for here."""

    thread_id: str
    namespace: str
    channel: str


@dataclass
class Tips:
    """Bounded; used from the event loop and the connection's thread."""

    _tips: OrderedDict[int, tuple[Tip, int]] = field(default_factory=OrderedDict)
    _chains: OrderedDict[tuple[Place, str | None], int] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, place: Place, checkpoint_id: str | None) -> Tip | None:
        """The chain of a checkpoint's channel, else the newest that stood in its place."""
        with self._lock:
            for name in (checkpoint_id, None):
                chain = self._chains.get((place, name))
                if chain is not None and chain in self._tips:
                    self._tips.move_to_end(chain)
                    return self._tips[chain][0]
        return None

    def get(self, chain: int) -> Tip | None:
        with self._lock:
            found = self._tips.get(chain)
        return found[0] if found else None

    def keep(self, place: Place, checkpoint_id: str | None, tip: Tip) -> None:
        size = tip.moulds.size
        with self._lock:
            self._drop(tip.chain)
            self._tips[tip.chain] = tip, size
            self._bytes += size
            self._name(place, checkpoint_id, tip.chain)
            while self._bytes > MOST_BYTES:
                self._drop(next(iter(self._tips)))

    def name(self, place: Place, checkpoint_id: str, chain: int) -> None:
        """A checkpoint was found to refer to a chain."""
        with self._lock:
            self._name(place, checkpoint_id, chain)

    def forget(self, chain: int) -> None:
        with self._lock:
            self._drop(chain)

    def _name(self, place: Place, checkpoint_id: str | None, chain: int) -> None:
        for name in {checkpoint_id, None}:
            self._chains[place, name] = chain
            self._chains.move_to_end((place, name))
        while len(self._chains) > MOST_PLACES:
            self._chains.popitem(last=False)

    def _drop(self, chain: int) -> None:
        _, size = self._tips.pop(chain, (None, 0))
        self._bytes -= size
