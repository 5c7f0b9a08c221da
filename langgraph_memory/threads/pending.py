"""Which nodes are to run next, found without the graph.

LangGraph starts a node when a channel it waits for has a newer version than the node has seen. The channels that edges
and branches write carry the name of their node, so a checkpoint tells by itself.
"""

from __future__ import annotations

from typing import Any

from langgraph.checkpoint.base import Checkpoint
from langgraph.graph import START

TASKS = "__pregel_tasks"
BRANCH, JOIN = "branch:to:", "join:"


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
    return channel in (START, TASKS) or channel.startswith((BRANCH, JOIN))


def _node(channel: str, value: Any) -> str | None:
    """The node that a channel with a value starts; None where it starts none."""
    if channel == START:
        return START
    if channel.startswith(BRANCH):
        return channel.removeprefix(BRANCH)
    starts, _, end = channel.removeprefix(JOIN).rpartition(":")
    complete = channel.startswith(JOIN) and set(starts.split("+")) == set(value)
    return end if complete else None
