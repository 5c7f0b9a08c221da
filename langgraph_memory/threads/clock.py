"""Checkpoint ids that keep sorting by time when the clock does not.

A checkpoint is the newest because its id is the largest, and an id begins with the time. LangGraph keeps the ids of one
process in order, by never giving a time that is not later than the last one it gave. That memory ends with the process:
where the clock was set back in the meantime, or another machine's runs behind, new checkpoints would sort before those
that are there. The thread would take every new message and show none of them.

So whoever reads the newest checkpoint of a thread, as every run does first, shows its id to LangGraph's memory. Ids
then run on from it, closely spaced, until the clock has caught up.
"""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from langgraph.checkpoint.base import id as lg_ids

LAST = "_last_v6_timestamp"
GREGORIAN = 0x01B21DD213814000
"""The beginning of 1970 in the time of an id, which counts from 1582."""
MOST = 1 << 59
"""Half of what the 60 bits of the time hold, the year 3409. A later id is not a time, and would use them up."""


def keep_ahead_of(checkpoint_id: str) -> None:
    """Let the next ids of this process sort behind `checkpoint_id`."""
    time = _time(checkpoint_id)
    last = getattr(lg_ids, LAST, 0)
    if time is None or time >= MOST or not hasattr(lg_ids, LAST):
        return
    if last is None or last < time:
        setattr(lg_ids, LAST, time)


def moment_of(checkpoint_id: str) -> datetime | None:
    """When a checkpoint was made, by its id; None where that does not say."""
    time = _time(checkpoint_id)
    if time is None or not GREGORIAN <= time < MOST:
        return None
    return datetime.fromtimestamp((time - GREGORIAN) / 1e7, UTC)


def _time(checkpoint_id: str) -> int | None:
    """The time in a version 6 UUID, in steps of 100 ns; None for any other text."""
    try:
        value = UUID(checkpoint_id)
    except ValueError:
        return None
    return (value.int >> 80 << 12) | (value.int >> 64 & 0xFFF) if value.version == 6 else None
