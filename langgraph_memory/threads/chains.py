"""Chains: lists of messages that only grow, and share what they have in common.

A list that extends a chain is written to its end; one that leaves it earlier becomes a chain of its own, which begins
with the common part of the other. So that reading stays cheap whatever is edited how often, a fork takes over short
pieces of its ancestors as links of its own: the pieces that remain grow towards the root, and there are at most about
log2 of the length.
"""

from __future__ import annotations

import sqlite3
from typing import Any, NamedTuple

from ..errors import DamagedDatabaseError
from .blocks import Moulds
from .codec import Codec
from .items import hold, hold_chain, lookup, store
from .messages import Key
from .schema import MESSAGE
from .tips import Place, Tip
from .values import Messages, compare


class StaleTipError(Exception):
    """What the saver remembers of `chain` is not in the file any more: its messages have to be serialized again."""

    def __init__(self, chain: int) -> None:
        super().__init__(f"chain {chain}")
        self.chain = chain


class Piece(NamedTuple):
    """Messages `start` to `end` of a list, which stand in the links of `chain`."""

    chain: int
    start: int
    end: int


class StoredMessage(NamedTuple):
    """A message as the file has it; type and data are those of the message without its id."""

    digest: bytes
    id: str | None
    type: str
    data: bytes


def pieces(db: sqlite3.Connection, chain: int, length: int) -> list[Piece]:
    """Where the first `length` messages of a chain stand, from the beginning."""
    found: list[Piece] = []
    current: int | None = chain
    while current is not None and length > 0:
        row = db.execute("SELECT parent, fork FROM lgm_chains WHERE id = ?", (current,)).fetchone()
        if row is None:
            raise DamagedDatabaseError(f"The database holds no chain {current}, which a checkpoint refers to.")
        parent, fork = row
        if fork < length:
            found.append(Piece(current, fork, length))
            length = fork
        current = parent
    return found[::-1]


def read_messages(db: sqlite3.Connection, chain: int, start: int, length: int) -> list[StoredMessage]:
    """The first `length` messages of a chain without the first `start`."""
    columns = "digest, message_id, type, CAST(data AS BLOB)"
    return list(map(StoredMessage._make, _read(db, columns, chain, start, length)))


def read_keys(db: sqlite3.Connection, chain: int, length: int) -> list[Key]:
    """What identifies the first `length` messages of a chain."""
    return list(map(Key._make, _read(db, "digest, message_id", chain, 0, length)))


def read_items_of(db: sqlite3.Connection, chain: int, length: int) -> list[int]:
    """The items of the first `length` messages of a chain."""
    return [item for (item,) in _read(db, "item", chain, 0, length)]


def _read(db: sqlite3.Connection, columns: str, chain: int, start: int, length: int) -> list[Any]:
    found: list[Any] = []
    for piece in pieces(db, chain, length):
        found += db.execute(
            f"SELECT {columns} FROM lgm_links JOIN lgm_items ON id = item "
            "WHERE chain = ? AND position >= ? AND position < ? ORDER BY position",
            (piece.chain, max(start, piece.start), piece.end),
        )
    if len(found) != length - start:
        raise DamagedDatabaseError(f"Of the messages {start} to {length} of chain {chain} {len(found)} are there.")
    return found


def _newest(db: sqlite3.Connection, thread: int, place: Place) -> Tip | None:
    """The newest chain that stood in a place of a thread."""
    row = db.execute(
        "SELECT id, length FROM lgm_chains JOIN lgm_chain_holds h ON held = id WHERE h.thread = ? AND place = ? "
        "ORDER BY id DESC LIMIT 1",
        (thread, _name(thread, place)),
    ).fetchone()
    return load_tip(db, *row) if row else None


def settle(db: sqlite3.Connection, codec: Codec, thread: int, place: Place, messages: Messages) -> tuple[int, int]:
    """The chain that begins with `messages`, and their number; written as far as it is new."""
    if messages.tip is None:
        compare(messages, _newest(db, thread, place))
    same, length = messages.same, len(messages.keys)
    if messages.tip is None or not same:
        chain = _fork(db, thread, place, None, 0)
    else:
        chain = messages.tip.chain
        known, is_open = _state(db, thread, chain)
        if known < same:
            raise StaleTipError(chain)
        if same < length and (known > same or not is_open):
            chain = _fork(db, thread, place, chain, same)
    if same < length:
        _append(db, codec, thread, chain, messages)
    return chain, length


def _state(db: sqlite3.Connection, thread: int, chain: int) -> tuple[int, bool]:
    """Length of a chain that a thread holds, 0 if it does not, and whether it may grow."""
    row = db.execute(
        "SELECT length, open FROM lgm_chains JOIN lgm_chain_holds h ON held = id WHERE id = ? AND h.thread = ?",
        (chain, thread),
    ).fetchone()
    return (row[0], bool(row[1])) if row else (0, False)


def _append(db: sqlite3.Connection, codec: Codec, thread: int, chain: int, messages: Messages) -> None:
    rows = [
        (chain, position, item_of(db, codec, thread, key, messages), key.id)
        for position, key in enumerate(messages.keys[messages.same :], messages.same)
    ]
    db.executemany("INSERT INTO lgm_links (chain, position, item, message_id) VALUES (?, ?, ?, ?)", rows)
    db.execute("UPDATE lgm_chains SET length = ? WHERE id = ?", (len(messages.keys), chain))


def item_of(db: sqlite3.Connection, codec: Codec, thread: int, key: Key, messages: Messages) -> int:
    """The number of one of `messages`, written if it is new."""
    body = messages.bodies.get(key.digest)
    if body is not None:
        return store(db, codec, thread, MESSAGE, body)
    number = lookup(db, key.digest)
    if number is None:
        raise StaleTipError(messages.tip.chain if messages.tip else 0)
    hold(db, thread, [number])
    return number


def _fork(db: sqlite3.Connection, thread: int, place: Place, parent: int | None, length: int) -> int:
    """A new chain that begins with the first `length` messages of `parent`."""
    kept = pieces(db, parent, length) if parent is not None else []
    taken: list[Piece] = []
    while kept and kept[-1].end - kept[-1].start <= 2 * sum(piece.end - piece.start for piece in taken) + 8:
        taken.append(kept.pop())
    base = kept[-1] if kept else None
    chain = db.execute(
        "INSERT INTO lgm_chains (place, parent, fork, length) VALUES (?, ?, ?, ?)",
        (_name(thread, place), base.chain if base else None, base.end if base else 0, length),
    ).lastrowid
    assert chain is not None
    for piece in taken:
        db.execute(
            "INSERT INTO lgm_links (chain, position, item, message_id) SELECT ?, position, item, message_id "
            "FROM lgm_links WHERE chain = ? AND position >= ? AND position < ?",
            (chain, *piece),
        )
    hold_chain(db, thread, chain)
    return chain


def _name(thread: int, place: Place) -> str:
    return f"{thread}\n{place.namespace}\n{place.channel}"


def load_tip(db: sqlite3.Connection, chain: int, length: int) -> Tip:
    """What identifies the messages of a chain, without moulds."""
    keys = read_keys(db, chain, length)
    return Tip(chain, keys, Moulds([None] * len(keys)))
