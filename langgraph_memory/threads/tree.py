"""The checkpoints of a thread form a tree, of which the newest checkpoint is the active one.

Checkpoint ids sort by time. A parent that is not there any more makes its children roots, and a circle, which only a
damaged database has, ends where it closes.
"""

from __future__ import annotations

import difflib
from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence

from ..errors import UnknownCheckpointError, UnknownThreadError
from .fold import fold
from .shapes import Head, Look, Node

SUGGESTED = 3
MOST_NAMES = 1000


def root(heads: Iterable[Head]) -> dict[str, Head]:
    """The checkpoints of the thread's own graph by id, oldest first."""
    found = sorted((head for head in heads if not head.namespace), key=lambda head: head.id)
    return {head.id: head for head in found}


def path(parents: Mapping[str, str | None], checkpoint_id: str) -> list[str]:
    """The ids on the way to a checkpoint, itself last."""
    found: dict[str, None] = {}
    current: str | None = checkpoint_id
    while current is not None and current in parents and current not in found:
        found[current] = None
        current = parents[current]
    return list(found)[::-1]


def parents_of(heads: Mapping[str, Head]) -> dict[str, str | None]:
    return {id: head.parent_id for id, head in heads.items()}


def leaves(parents: Mapping[str, str | None]) -> list[str]:
    """Checkpoints that nothing follows, oldest first."""
    followed = set(parents.values())
    return [id for id in sorted(parents) if id not in followed]


def known(ids: Iterable[str], thread_id: str, checkpoint_id: str) -> str:
    """The id of a checkpoint that is among `ids`. Raises `UnknownCheckpointError`."""
    ids = sorted(ids)
    if checkpoint_id in ids:
        return checkpoint_id
    near = ", ".join(map(repr, _nearest(ids, checkpoint_id)))
    raise UnknownCheckpointError(f"Thread {thread_id!r} has no checkpoint {checkpoint_id!r}. Nearest: {near}.")


def _nearest(ids: Sequence[str], wanted: str) -> Sequence[str]:
    begin = [id for id in ids if wanted and id.startswith(wanted)]
    place = max(0, min(bisect(ids, wanted), len(ids)) - 1)
    return begin[:SUGGESTED] or ids[place : place + 2]


def unknown_thread(thread_id: str, known: Sequence[str]) -> UnknownThreadError:
    """The error that names the threads which are called most like `thread_id`."""
    if not known:
        return UnknownThreadError(f"There is no thread {thread_id!r}: there are no threads at all.")
    near = difflib.get_close_matches(thread_id, known[:MOST_NAMES], SUGGESTED, cutoff=0.4)
    near += [name for name in known if thread_id and thread_id in name and name not in near]
    hint = f"Nearest: {', '.join(map(repr, near[:SUGGESTED]))}." if near else f"There are {len(known)} others."
    return UnknownThreadError(f"There is no thread {thread_id!r}. {hint}")


def nodes(looks: Iterable[Look]) -> list[Node]:
    """The tree, oldest first."""
    ordered = sorted(looks, key=lambda look: look.id)
    parents = {look.id: look.parent_id for look in ordered}
    newest = ordered[-1].id if ordered else ""
    active = set(path(parents, newest))
    totals = counts(ordered)
    return [_node(look, totals[look.id], look.id in active, look.id == newest) for look in ordered]


def _node(look: Look, messages: int, active: bool, newest: bool) -> Node:
    about = look.metadata
    return Node(
        look.id,
        look.parent_id,
        look.created,
        str(about.get("source") or ""),
        int(about.get("step") or 0),
        about.get("reason"),
        about.get("origin"),
        messages,
        look.next,
        active,
        newest,
    )


def counts(ordered: Sequence[Look]) -> dict[str, int]:
    """How many messages had been said at each checkpoint. Parents come before their children."""
    left = {look.id: 0 for look in ordered}
    for look in ordered:
        if look.held is None and look.parent_id in left:
            left[look.parent_id] += 1
    known = {look.id: look for look in ordered}
    live: dict[str, dict[object, object]] = {}
    totals: dict[str, int] = {}
    for look in ordered:
        if isinstance(look.held, int):
            totals[look.id] = look.held + look.gone
            continue
        here = dict(look.held) if look.held is not None else _rebuilt(look, known, live, left)
        totals[look.id] = len(here) + look.gone
        if left[look.id]:
            live[look.id] = here
    return totals


def _rebuilt(
    look: Look, known: Mapping[str, Look], live: dict[str, dict[object, object]], left: dict[str, int]
) -> dict[object, object]:
    """What a delta channel holds, from its parent's; copied only where another child needs that too."""
    parent = look.parent_id or ""
    if parent not in live:
        return {}
    left[parent] -= 1
    here = dict(live[parent]) if left[parent] else live.pop(parent)
    fold(here, known[parent].writes)
    return here
