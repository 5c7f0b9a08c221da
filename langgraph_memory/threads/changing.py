"""Changing a thread from outside a run: the newest checkpoint once more, with some channels changed.

LangGraph's `update_state` needs the graph, and through another graph it drops the channels that one lacks. Here all
channels stay; the changed ones get a new version, as after a step of a run. Messages go by the rules of `add_messages`,
and into a delta channel as a snapshot, so that whatever was rebuilt before is complete without its past.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, CheckpointMetadata, CheckpointTuple
from langgraph.checkpoint.serde.types import INTERRUPT, _DeltaSnapshot
from langgraph.graph.message import add_messages

from ..errors import ThreadBusyError
from .copies import OWN_KEYS
from .fold import Step, said
from .pending import pending

MESSAGES = "messages"
COUNTERS = "counters_since_delta_snapshot"


def refuse_busy(thread_id: str, saved: CheckpointTuple) -> None:
    """Raise `ThreadBusyError` where a run is under way, waits or has failed."""
    if any(channel == INTERRUPT for _, channel, _ in saved.pending_writes or ()):
        raise ThreadBusyError(
            f"Thread {thread_id!r} waits for an answer to an interrupt: resume it, or rewind it, then change it."
        )
    if nodes := pending(saved.checkpoint):
        raise ThreadBusyError(
            f"Thread {thread_id!r} still has to run {', '.join(nodes)}: let the run end, or rewind it, then change it."
        )


async def append(
    saver: BaseCheckpointSaver[Any],
    saved: CheckpointTuple,
    changes: Mapping[str, Any],
    new_id: str,
    source: str,
    reason: str | None,
) -> RunnableConfig:
    """Put `saved` once more, with `changes` and under `new_id`."""
    values = dict(saved.checkpoint["channel_values"])
    for channel, change in changes.items():
        values[channel] = await _changed(saver, saved, channel, change)
    old = saved.checkpoint["channel_versions"]
    version = saver.get_next_version(max(old.values(), default=None), None)
    moved = dict.fromkeys(changes, version)
    checkpoint: Checkpoint = {
        **saved.checkpoint,
        "id": new_id,
        "ts": datetime.now(UTC).isoformat(),
        "channel_values": values,
        "channel_versions": {**old, **moved},
        "updated_channels": sorted(changes),
    }
    return await saver.aput(saved.config, checkpoint, _metadata(saved.metadata, values, source, reason), moved)


async def _changed(saver: BaseCheckpointSaver[Any], saved: CheckpointTuple, channel: str, change: Any) -> Any:
    """The new value of a channel."""
    held = saved.checkpoint["channel_values"].get(channel)
    given = change if isinstance(change, list) else [change]
    if not (given and all(isinstance(message, BaseMessage) for message in given)):
        return change
    is_delta = False
    if isinstance(held, _DeltaSnapshot):
        is_delta, held = True, held.value
    if held is None and channel in saved.checkpoint["channel_versions"]:
        found = (await saver.aget_delta_channel_history(config=saved.config, channels=[channel]))[channel]
        is_delta = "seed" in found or bool(found["writes"])
        held = said([Step(found.get("seed", []), [write for _, _, write in found["writes"]], 0), Step(None, [], 0)])
    if not (_are_messages(held) or (not held and (is_delta or channel == MESSAGES))):
        return change
    # Copies: `add_messages` gives ids to what it is given.
    merged = add_messages(list(held or []), [message.model_copy() for message in given])
    return _DeltaSnapshot(merged) if is_delta else merged


def _are_messages(held: Any) -> bool:
    return isinstance(held, list) and bool(held) and all(isinstance(message, BaseMessage) for message in held)


def _metadata(
    before: Mapping[str, Any], values: Mapping[str, Any], source: str, reason: str | None
) -> CheckpointMetadata:
    kept = {name: value for name, value in before.items() if name not in (*OWN_KEYS, COUNTERS)}
    found = {**kept, "source": source, "step": int(before.get("step") or 0) + 1}
    if reason is not None:
        found["reason"] = reason
    counters = {
        channel: (updates, steps + 1)
        for channel, (updates, steps) in (before.get(COUNTERS) or {}).items()
        if channel not in values
    }
    return cast(CheckpointMetadata, found | ({COUNTERS: counters} if counters else {}))
