"""Comparing many messages with their moulds at once.

Every put looks at every message of the thread, so this is most of what a long thread costs. Messages stand side by side
in blocks, and whole columns of their values are compared by a handful of calls: first the values of all messages, then
whatever stands inside those, level by level. They are the same if types, order and values are; `==` alone would take
`1` for `True`, and a dict for one in another order. What is shared with the mould, as text is, costs no comparison.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain, compress
from operator import attrgetter, is_
from typing import Any

from .moulds import SEQUENCES, Mould

LONG, SHORT = 512, 32
"""Lengths of blocks. Those at the end of a list, which are made anew as it grows, are short."""
OVERHEAD = 1200
"""About how many bytes are kept of a message beside its text."""

_values, _extra = attrgetter("__dict__"), attrgetter("__pydantic_extra__")


class Level:
    """What stands at the same depth: the names in dicts, and all values."""

    def __init__(self, names: list[Any], values: list[Any]) -> None:
        self.names, self.values = names, values
        self.types = list(map(type, values))
        kinds = set(map(type, names))
        # As names hardly ever are anything but text, their types are looked at only if they can be.
        self._kinds = None if kinds <= {str} else list(map(type, names))
        # `==` takes `0.0` for `-0.0`.
        self._zeros = [at for at, value in enumerate(values) if self.types[at] is float and not value]
        full = [at for at, value in enumerate(values) if value and self.types[at] in SEQUENCES]
        self._sequences = full
        self._dicts = [at for at, value in enumerate(values) if value and self.types[at] is dict]

    @classmethod
    def of(cls, dicts: list[dict[Any, Any]]) -> Level:
        return cls(*_side_by_side(dicts))

    def is_like(self, names: list[Any], values: list[Any]) -> bool:
        """Whether names and values could be those of this level, as far as there is no need to look inside."""
        if names != self.names or list(map(type, values)) != self.types:
            return False
        if self._kinds and list(map(type, names)) != self._kinds:
            return False
        return all(repr(values[at]) == repr(self.values[at]) for at in self._zeros)

    def inside(self, values: list[Any]) -> tuple[list[Any], list[Any]]:
        """Names and values one level below `values`, which are like those of this level."""
        names, found = _side_by_side([values[at] for at in self._dicts])
        found += chain.from_iterable([values[at] for at in self._sequences])
        return names, found


def _side_by_side(dicts: list[dict[Any, Any]]) -> tuple[list[Any], list[Any]]:
    return list(chain.from_iterable(dicts)), list(chain.from_iterable(map(dict.values, dicts)))


class Block:
    """Some moulds that follow each other. Never changed."""

    def __init__(self, moulds: Sequence[Mould | None]) -> None:
        self.moulds = moulds

    @cached_property
    def size(self) -> int:
        return sum(mould.size for mould in self._known) + OVERHEAD * len(self.moulds)

    @cached_property
    def _is_known(self) -> list[bool]:
        return [mould is not None for mould in self.moulds]

    @cached_property
    def _known(self) -> list[Mould]:
        return [mould for mould in self.moulds if mould is not None]

    @cached_property
    def _kinds(self) -> list[type]:
        return [mould.kind for mould in self._known]

    @cached_property
    def _extends(self) -> list[bool]:
        return [bool(mould.extra) for mould in self._known]

    @cached_property
    def _levels(self) -> list[Level]:
        extras = [mould.extra for mould in self._known if mould.extra]
        levels = [Level.of([*(mould.values for mould in self._known), *extras])]
        while levels[-1].values:
            levels.append(Level(*levels[-1].inside(levels[-1].values)))
        return levels

    def changed(self, messages: Sequence[Any]) -> list[int]:
        """Which of as many messages are not those of the moulds, as far as can be told."""
        if self._are(list(compress(messages, self._is_known))):
            return [at for at, known in enumerate(self._is_known) if not known]
        if len(messages) == 1:
            return [0]
        differ = list(map(_differ, messages, self.moulds))
        if not any(differ):
            return [at for at, mould in enumerate(self.moulds) if Block([mould]).changed([messages[at]])]
        same = [at for at, does in enumerate(differ) if not does]
        found = Block([self.moulds[at] for at in same]).changed([messages[at] for at in same])
        return sorted([*(same[at] for at in found), *compress(range(len(differ)), differ)])

    def _are(self, messages: list[Any]) -> bool:
        if list(map(type, messages)) != self._kinds:
            return False
        extras = list(map(_extra, messages))
        if list(map(bool, extras)) != self._extends:
            return False
        names, values = _side_by_side([*map(_values, messages), *filter(None, extras)])
        first = values
        for level in self._levels:
            if not level.is_like(names, values):
                return False
            names, values = level.inside(values)
        # Only now, as what is compared is known to be plain, and no deeper than the moulds.
        return first == self._levels[0].values


def _differ(message: Any, mould: Mould | None) -> bool:
    """Whether a message is seen at once not to be that of a mould."""
    try:
        return mould is None or bool(type(message) is not mould.kind or message.__dict__ != mould.values)
    except Exception:  # noqa: BLE001 - arrays, for one, are not compared so
        return True


class Moulds:
    """The moulds of a list of messages. Never changed; what is made of it shares its blocks."""

    def __init__(self, moulds: Sequence[Mould | None] = (), before: Moulds | None = None) -> None:
        self.all = moulds
        known: Mapping[tuple[int, int], Block] = before.blocks if before else {}
        self.blocks: Mapping[tuple[int, int], Block] = {
            place: _block(moulds[slice(*place)], known.get(place)) for place in _places(len(moulds))
        }

    def __len__(self) -> int:
        return len(self.all)

    @property
    def size(self) -> int:
        """About how many bytes are kept."""
        return sum(block.size for block in self.blocks.values())

    def changed(self, messages: Sequence[Any]) -> list[int]:
        """Which messages are not those of the moulds, of as many as both have."""
        found: list[int] = []
        for (start, end), block in self.blocks.items():
            part = messages[start:end]
            compared = block if len(part) == len(block.moulds) else Block(block.moulds[: len(part)])
            if part:
                found += [start + at for at in compared.changed(part)]
        return found


def _places(length: int) -> list[tuple[int, int]]:
    long = length - length % LONG
    ends = [*range(LONG, long + 1, LONG), *range(long + SHORT, length, SHORT), length]
    return [(start, end) for start, end in zip([0, *ends], ends, strict=False) if start < end]


def _block(moulds: Sequence[Mould | None], known: Block | None) -> Block:
    if known and len(known.moulds) == len(moulds) and all(map(is_, known.moulds, moulds)):
        return known
    return Block(moulds)
