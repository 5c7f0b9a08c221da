"""Which entries were made on a branch that their thread has left: they are shown as such, and not consolidated."""

from __future__ import annotations

from collections.abc import Callable, Collection

from . import flushed
from .keeper import Keeper


def has_left(keeper: Keeper, thread: str, keys: Collection[str]) -> bool:
    """Whether the newest flushed message of a thread is none of `keys`, so that it may have left a branch."""
    with keeper.reading() as db:
        mark = flushed.mark_of(db, thread)
    return mark is not None and mark.key not in keys


def mark(keeper: Keeper, thread: str, active: Collection[str]) -> None:
    """Mark the entries of a thread by the keys of the messages on the branch it is on."""
    with keeper.writing() as db:
        left: dict[bool, list[str]] = {True: [], False: []}
        for row in keeper.index.rows_of_thread(db, thread):
            left[any(one not in active for one in row.entry.message_ids)].append(row.entry.id)
        for flag, ids in left.items():
            keeper.index.mark_abandoned(db, ids, flag)


def marked(keeper: Keeper, thread: str, keys: Collection[str], whole: Callable[[], Collection[str]]) -> None:
    """Mark the entries of a thread if it has left a branch since it was flushed; `whole` gives all its keys."""
    if has_left(keeper, thread, keys):
        mark(keeper, thread, whole())
