"""Covered messages leave the list, so that a thread's list, and with it the time of a turn, stays small.

They stay in the thread's history on disk. In the list remain the system messages and the pinned request, which the view
still shows, and the last covered message: it is what the summary is anchored to from then on.
"""

from __future__ import annotations

from dataclasses import replace

from .history import History
from .record import Scope, Summary


def leaving(history: History, scope: Scope) -> tuple[str, ...]:
    """Ids of the messages that may leave; none where a message has no id of its own to be named by."""
    summary = scope.summary
    if summary is None or any(key != message.id for key, message in zip(history.keys, history.messages, strict=True)):
        return ()
    staying = {*summary.pin, *(history.keys[position] for position in history.systems), history.keys[summary.count - 1]}
    return tuple(key for key in history.keys[: summary.count] if key not in staying)


def without(history: History, scope: Scope, left: tuple[str, ...]) -> tuple[History, Scope]:
    """History and scope once the messages of these ids, which `scope` covers, have left; the view stays the same."""
    gone = set(left)
    kept = [message for message in history.messages if message.id not in gone]
    remaining = History.of(kept, history.counter)
    assert scope.summary is not None
    since = (remaining.keys[-1], remaining.digests[-1].hex())
    return remaining, replace(scope, summary=_anchored(scope.summary, remaining, len(gone)), since=since)


def _anchored(summary: Summary, remaining: History, left: int) -> Summary:
    count = summary.count - left
    return replace(summary, count=count, digest=remaining.digests[count - 1].hex(), gone=summary.gone + left)
