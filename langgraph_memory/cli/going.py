"""Going back in a thread, and where that leads."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig

from langgraph_memory.threads import ThreadStore

from .called import program
from .errors import TooFewTurnsError
from .said import turns_of


@dataclass(frozen=True, slots=True)
class Place:
    """Where a thread is after it was changed."""

    thread_id: str
    checkpoint_id: str
    turns: int
    messages: int
    next: tuple[str, ...]
    """Nodes that are to run."""
    turns_before: int | None = None
    """Where the thread was; None for a new one."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


async def rewind(store: ThreadStore, thread_id: str, checkpoint_id: str | None, turns: int | None) -> Place:
    """Go back to a checkpoint, or with None by `turns`. Raises `TooFewTurnsError`."""
    before = len(turns_of(await store.messages(thread_id)))
    target = checkpoint_id or await turns_back(store, thread_id, turns or 0)
    return await _place(store, await store.rewind(thread_id, target), before)


async def undo(store: ThreadStore, thread_id: str) -> Place:
    before = len(turns_of(await store.messages(thread_id)))
    return await _place(store, await store.undo(thread_id), before)


async def fork(store: ThreadStore, thread_id: str, new_thread_id: str, checkpoint_id: str | None) -> Place:
    return await _place(store, await store.fork(thread_id, new_thread_id, checkpoint_id), None)


async def turns_back(store: ThreadStore, thread_id: str, number: int) -> str:
    """The checkpoint on the way to the newest one at which the last `number` turns had not begun.

    Raises `TooFewTurnsError`.
    """
    turns = turns_of(await store.messages(thread_id))
    if number >= len(turns):
        most = f"at most {len(turns) - 1}, so that one stays" if len(turns) > 1 else "none, as one has to stay"
        raise TooFewTurnsError(f"{thread_id!r} has {len(turns)} turns and cannot go back {number}: {most}.")
    nodes = [node for node in await store.checkpoints(thread_id) if node.active]
    said = turns[-number].start
    for node in reversed(nodes):
        if node.messages <= said and not node.next:
            return node.checkpoint_id
    raise TooFewTurnsError(
        f"{thread_id!r} has no checkpoint at which it waited for what opens its turn {turns[-number].number}: "
        f"name one that `{program()} tree {thread_id} --all` shows."
    )


async def _place(store: ThreadStore, config: RunnableConfig, before: int | None) -> Place:
    at = config["configurable"]
    messages = await store.messages(at["thread_id"])
    node = (await store.checkpoints(at["thread_id"]))[-1]
    return Place(at["thread_id"], at["checkpoint_id"], len(turns_of(messages)), len(messages), node.next, before)
