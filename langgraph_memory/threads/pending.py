"""Which nodes are to run next, found without the graph.

LangGraph starts a node when a channel it waits for has a newer version than the node has seen. The channels that edges
and branches write carry the name of their node, so a checkpoint tells by itself.
"""

from __future__ import annotations

from typing import Any

from langgraph.checkpoint.base import Checkpoint
from langgraph.graph import START

TASKS = "__pregel_tasks"
BRANCH, JOIN = "branch:", "join:"
OLD_START = "start:"
"""Before version 3 of checkpoints a first node was started by a channel `start:NODE`, the target of a condition by
`branch:SOURCE:CONDITION:NODE`; since then by `branch:to:NODE`."""


def pending(checkpoint: Checkpoint) -> list[str]:
    """The nodes that are to run next."""
    values: dict[str, Any] = checkpoint["channel_values"]
    versions: dict[str, Any] = checkpoint["channel_versions"]
    found = [str(getattr(send, "node", send)) for send in values.get(TASKS) or ()]
    for channel in sorted(values):
        node = _node(channel, values[channel])
        seen = checkpoint["versions_seen"].get(node, {}).get(channel) if node else None
        if node and channel in versions and (seen is None or versions[channel] > seen):
            found.append(node)
    return list(dict.fromkeys(found))


def tells(channel: str) -> bool:
    """Whether what stands in a channel says which nodes run; of the others `pending` needs nothing."""
    return channel in (START, TASKS) or channel.startswith((BRANCH, JOIN, OLD_START))


def _node(channel: str, value: Any) -> str | None:
    """The node that a channel with a value starts; None where it starts none."""
    if channel == START:
        return START
    value, finished = _parted(value)
    if not finished:
        return None
    if channel.startswith((BRANCH, OLD_START)):
        return channel.rpartition(":")[2]
    starts, _, end = channel.removeprefix(JOIN).rpartition(":")
    # Names may hold a plus; what has arrived are some of them, so all have where they take as much room.
    complete = channel.startswith(JOIN) and len("+".join(value)) == len(starts)
    return end if complete else None


def _parted(value: Any) -> tuple[Any, bool]:
    """The value of a channel, and whether it may be read: of a deferred node that is last."""
    if isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[1], bool):
        return value[0], value[1]
    return value, True
