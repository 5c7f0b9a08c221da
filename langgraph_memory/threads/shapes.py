"""What `ThreadStore` answers with: plain values, the same for every saver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from . import frames


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """A thread in the list of threads."""

    thread_id: str
    checkpoints: int
    branches: int
    """Checkpoints that nothing follows. More than one: it was rewound, or two runs went on from the same place."""
    turns: int
    """Runs of human messages, each with all that follows."""
    messages: int
    """What was said on the way to the newest checkpoint."""
    updated: str
    """Time of the newest checkpoint, ISO 8601."""
    next: tuple[str, ...]
    """Nodes that have not run yet."""
    bytes: int | None
    """What its rows and its messages take, those it shares with other threads included; None where that is unknown."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Node:
    """A checkpoint in the tree of a thread."""

    checkpoint_id: str
    parent_id: str | None
    created: str
    """ISO 8601."""
    source: str
    """`input`, `loop`, `update` or `fork`, as LangGraph says."""
    step: int
    reason: str | None
    """Why it was put there from outside a run: `rewind`, `undo`, or what `append` was told."""
    origin: str | None
    """The checkpoint it is a copy of."""
    messages: int
    """What had been said by then."""
    next: tuple[str, ...]
    """Nodes that were to run."""
    active: bool
    """On the way to the newest checkpoint."""
    newest: bool

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Hit:
    """A message that a search found."""

    thread_id: str
    message_id: str | None
    checkpoint_id: str
    """The first checkpoint that holds it."""
    namespace: str
    """Of the checkpoint; empty for the thread's own graph."""
    role: str
    excerpt: str
    """One line around the first place that was found."""
    score: float
    """Larger is better; comparable within one search."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Head:
    """What is known of a checkpoint without its values."""

    namespace: str
    id: str
    parent_id: str | None
    about: Mapping[str, Any] | str | bytes | None
    """Its metadata, or the JSON of them."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        if isinstance(self.about, Mapping):
            return self.about
        return frames.metadata(self.about)


@dataclass(frozen=True, slots=True)
class Look:
    """A checkpoint as the tree needs it."""

    id: str
    parent_id: str | None
    metadata: Mapping[str, Any]
    created: str
    next: tuple[str, ...]
    held: int | Mapping[Any, Any] | None
    """How many messages it stores, or which, where a later checkpoint is rebuilt from them; None: it stores none."""
    writes: list[Any]
    """What the tasks that ran after it gave the channel, where a later checkpoint is rebuilt from that."""
    gone: int
    """How many messages have left the channel because a summary covers them."""
