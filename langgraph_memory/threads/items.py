"""Items and who holds them. Plain functions over a `sqlite3` connection, inside a transaction of the caller."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

from .codec import Codec, Item

MOST_VARIABLES = 500


def thread_number(db: sqlite3.Connection, thread_id: str) -> int:
    """The number of a thread, which gets one if it has none."""
    found = find_thread(db, thread_id)
    if found is None:
        return int(db.execute("INSERT INTO lgm_threads (thread_id) VALUES (?)", (thread_id,)).lastrowid or 0)
    return found


def find_thread(db: sqlite3.Connection, thread_id: str) -> int | None:
    row = db.execute("SELECT id FROM lgm_threads WHERE thread_id = ?", (thread_id,)).fetchone()
    return int(row[0]) if row else None


def store(db: sqlite3.Connection, codec: Codec, thread: int, kind: int, item: Item) -> int:
    """The number of an item, which is written if it is new, held by `thread`."""
    number = lookup(db, item.digest)
    if number is None:
        row = (item.digest, kind, *codec.seal(item.type, item.data))
        number = db.execute("INSERT INTO lgm_items (digest, kind, type, data) VALUES (?, ?, ?, ?)", row).lastrowid or 0
    hold(db, thread, [number])
    return number


def lookup(db: sqlite3.Connection, digest: bytes) -> int | None:
    row = db.execute("SELECT id FROM lgm_items WHERE digest = ?", (digest,)).fetchone()
    return int(row[0]) if row else None


def hold(db: sqlite3.Connection, thread: int, items: Iterable[int]) -> None:
    rows = ((thread, item) for item in items)
    db.executemany("INSERT OR IGNORE INTO lgm_item_holds (thread, held) VALUES (?, ?)", rows)


def hold_chain(db: sqlite3.Connection, thread: int, chain: int) -> None:
    db.execute("INSERT OR IGNORE INTO lgm_chain_holds (thread, held) VALUES (?, ?)", (thread, chain))


def read_items(db: sqlite3.Connection, numbers: Iterable[int]) -> dict[int, tuple[str, bytes]]:
    """Type and stored bytes of items, those that exist."""
    found: dict[int, tuple[str, bytes]] = {}
    for part, marks in chunks(sorted(set(numbers))):
        rows = db.execute(f"SELECT id, type, CAST(data AS BLOB) FROM lgm_items WHERE id IN ({marks})", part)
        found.update({number: (type_, data) for number, type_, data in rows})
    return found


def chunks(values: list[Any]) -> Iterable[tuple[list[Any], str]]:
    """`values` in parts that a statement takes, each with its question marks."""
    for start in range(0, len(values), MOST_VARIABLES):
        part = values[start : start + MOST_VARIABLES]
        yield part, ",".join("?" * len(part))
