"""Two runs at once on one thread, noticed when the second of them writes.

LangGraph lets any number of runs go on from the same checkpoint. Each writes a child of its own, the newest is what the
thread becomes, and what the other run said is on a branch that nobody looks at. Nothing fails, so somebody has to tell.

A run that goes on from the newest checkpoint is what always happens, and costs one look at an index. Any other parent
either has no child yet, as in a run that was overtaken before, or it has one: then the thread has just branched. Who
names the checkpoint to go on from wants that (LangGraph says so in the metadata of the run), and so do forks and
updates of the state; those are not reported.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..logs import failed
from .ids import Where

logger = logging.getLogger(__name__)

PINNED = "checkpoint_id"
STEPS = ("input", "loop")
NEWEST = (
    "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? "
    "ORDER BY checkpoint_id DESC LIMIT 1"
)
SIBLING = (
    "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id > ? "
    "AND parent_checkpoint_id IS ? AND checkpoint_id != ? ORDER BY checkpoint_id LIMIT 1"
)


@dataclass(frozen=True, slots=True)
class Branch:
    """Where a thread has branched because two runs went on from the same checkpoint."""

    thread_id: str
    namespace: str
    """Of the graph inside whose runs met; the thread's own graph has ''."""
    parent_id: str | None
    """The checkpoint both went on from; None where both began the thread."""
    new_id: str
    """The checkpoint just written."""
    other_id: str
    """The one that was there already."""


Listener = Callable[[Branch], None]


def is_watched(config: Mapping[str, Any], parent: Where, metadata: Mapping[str, Any]) -> bool:
    """Whether a checkpoint is a step of a run that nobody told to go on from `parent`."""
    pinned = (config.get("metadata") or {}).get(PINNED)
    if metadata.get("source") not in STEPS:
        return False
    if not pinned:
        return True
    # Where a graph inside goes back to is the choice of the graph around it.
    named = (config["configurable"].get("checkpoint_map") or {}).values()
    return not parent.namespace and parent.checkpoint_id not in (pinned, *named)


def find(db: sqlite3.Connection, at: Where, parent_id: str | None) -> Branch | None:
    """The branch that the checkpoint `at` is about to make. Inside the transaction that writes it."""
    newest = db.execute(NEWEST, at[:2]).fetchone()
    if newest is None or newest[0] in (parent_id, at.checkpoint_id):
        return None
    other = db.execute(SIBLING, (*at[:2], parent_id or "", parent_id, at.checkpoint_id)).fetchone()
    return Branch(at.thread_id, at.namespace, parent_id, str(at.checkpoint_id), other[0]) if other else None


def tell(listeners: Iterable[Listener], branch: Branch) -> None:
    """Tell everybody; one that fails is logged, as the checkpoint is written."""
    for listener in tuple(listeners):
        try:
            listener(branch)
        except Exception as error:  # noqa: BLE001 - the checkpoint is written
            failed(logger, f"A listener failed on the branch of thread {branch.thread_id!r}", error)
