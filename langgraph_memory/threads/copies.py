"""Going back by going on: what is appended to a thread so that an earlier checkpoint becomes the newest.

LangGraph takes the newest checkpoint of a thread for its state. So a rewind puts a copy of an earlier one at the end,
with the same parent, and nothing is deleted. What tasks wrote after the original stays with the original: the copy asks
and runs again whatever its next nodes are.

Graphs inside that remember (namespaces without task ids) go back too, to a copy of their newest checkpoint from before
the target, or to an empty one. If the target's next nodes call such a graph, it goes to where it had been given its
input and had done nothing yet: LangGraph gives none to a graph inside when it resumes a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from langgraph.checkpoint.base.id import uuid6

from ..errors import NothingToUndoError
from . import tree
from .shapes import Head

UNDOABLE = "replaces"
OWN_KEYS = ("reason", "origin", UNDOABLE, "run_id")
STAMP = 1 << 64
"""One step of the time in a version 6 UUID, whose version stands in the four bits above the lowest twelve of it."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A checkpoint to append."""

    namespace: str
    origin: str | None
    """The checkpoint it copies; None for an empty one."""
    parent_id: str | None
    id: str
    metadata: dict[str, Any]


def rewind(heads: Sequence[Head], thread_id: str, checkpoint_id: str, reason: str) -> list[Copy]:
    """The copies that make a checkpoint the newest one, its own last. Raises `UnknownCheckpointError`."""
    own = tree.root(heads)
    target = own[tree.known(own, thread_id, checkpoint_id)]
    inside = _inside(heads)
    ids = iter(new_ids((head.id for head in heads), len(inside) + 1))
    copies = [
        _copy(namespace, _at(found, target.id, own), found[-1].id, next(ids), reason)
        for namespace, found in inside.items()
    ]
    return [*copies, _copy("", target, next(reversed(own)), next(ids), reason)]


def undo(heads: Sequence[Head], thread_id: str) -> list[Copy]:
    """The copies that take back the newest rewind or undo. Raises `NothingToUndoError`."""
    own = tree.root(heads)
    for head in reversed(own.values()):
        if (replaced := head.metadata.get(UNDOABLE)) in own:
            return rewind(heads, thread_id, replaced, "undo")
    raise NothingToUndoError(
        f"Thread {thread_id!r} was not rewound, or what it held before that is gone: there is nothing to undo."
    )


def _inside(heads: Iterable[Head]) -> dict[str, list[Head]]:
    """The checkpoints of graphs inside that remember, oldest first."""
    found: dict[str, list[Head]] = {}
    for head in sorted(heads, key=lambda head: head.id):
        if head.namespace and ":" not in head.namespace:
            found.setdefault(head.namespace, []).append(head)
    return found


def _at(heads: Sequence[Head], target: str, own: Iterable[str]) -> Head | None:
    """Where a graph inside stood at a checkpoint of the thread's own graph, whose ids are `own`."""
    end = min((id for id in own if id > target), default="~")
    called = next((head for head in heads if target < head.id < end), None)
    if called and called.metadata.get("source") == "input":
        return called
    return next((head for head in reversed(heads) if head.id < target), None)


def _copy(namespace: str, origin: Head | None, newest: str, new_id: str, reason: str) -> Copy:
    about: Mapping[str, Any] = origin.metadata if origin else {"step": -2, "parents": {}}
    kept = {name: value for name, value in about.items() if name not in OWN_KEYS}
    metadata = {**kept, "source": "fork", "reason": reason, "origin": origin.id if origin else None, UNDOABLE: newest}
    return Copy(namespace, origin.id if origin else None, origin.parent_id if origin else None, new_id, metadata)


def new_ids(taken: Iterable[str], number: int = 1) -> list[str]:
    """Ids that sort behind all that are taken, even if the clock was set back."""
    largest = max(taken, default="")
    return [largest := _after(largest) for _ in range(number)]


def _after(largest: str) -> str:
    now = str(uuid6(clock_seq=-2))
    if now > largest:
        return now
    try:
        value = UUID(largest).int
    except ValueError:
        # Not an id of LangGraph's: there is no rule to follow.
        return now
    low = (value >> 64) & 0xFFF
    if low < 0xFFF:
        return str(UUID(int=value + STAMP))
    return str(UUID(int=value - 0xFFF * STAMP + (1 << 80)))


@dataclass(frozen=True, slots=True)
class Kept:
    """A checkpoint that a fork takes over."""

    namespace: str
    id: str
    with_writes: bool
    """Whether what its tasks wrote goes along."""


def fork(heads: Sequence[Head], thread_id: str, checkpoint_id: str | None) -> list[Kept]:
    """What a fork takes over, oldest first: the way to a checkpoint, and what the graphs inside had come to by then.

    What the tasks of the checkpoint itself wrote, an interrupt that waits above all, goes along only if nothing follows
    it in time: otherwise it belongs to what came next.
    """
    own = tree.root(heads)
    target = own[tree.known(own, thread_id, checkpoint_id or next(reversed(own)))]
    is_newest = target.id == next(reversed(own))
    kept = _way(tree.parents_of(own), "", target.id, is_newest)
    for namespace, found in _inside(heads).items():
        tip = found[-1] if is_newest else _at(found, target.id, own)
        if tip:
            kept += _way({head.id: head.parent_id for head in found}, namespace, tip.id, is_newest)
    if is_newest:
        running = (head for head in heads if ":" in head.namespace and head.id > target.id)
        kept += [Kept(head.namespace, head.id, True) for head in running]
    return sorted(kept, key=lambda one: one.id)


def _way(parents: Mapping[str, str | None], namespace: str, tip: str, open: bool) -> list[Kept]:
    return [Kept(namespace, id, open or id != tip) for id in tree.path(parents, tip)]
