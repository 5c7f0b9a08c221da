"""Removing and copying: rows go first, then whatever no thread holds any more, in one transaction.

A value of a delta channel is rebuilt from the writes of the checkpoints before it, back to the nearest that stores the
value. Those checkpoints stay as long as one that needs them does, whatever run they belong to.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import suppress

from ..errors import DamagedDatabaseError
from . import frames
from .chains import read_items_of
from .codec import Codec, is_ours
from .getting import COLUMNS, Row, ancestors, unpacked
from .ids import Where
from .items import chunks, find_thread, thread_number
from .schema import writing
from .values import Form, lengths_and_items

TABLES = ("checkpoints", "writes")
PLACE = "thread_id, checkpoint_ns, checkpoint_id"
METADATA = "CAST(metadata AS TEXT)"
RUN_ID = f"CASE WHEN json_valid({METADATA}) THEN json_extract({METADATA}, '$.run_id') END"
BELONGINGS = ("lgm_queue", "lgm_documents")
"""What goes with a thread and is not copied."""


# Removing


def delete_thread(db: sqlite3.Connection, thread_id: str) -> None:
    with writing(db):
        _delete_thread(db, thread_id)


def _delete_thread(db: sqlite3.Connection, thread_id: str) -> None:
    for table in (*TABLES, *BELONGINGS):
        db.execute(f"DELETE FROM {table} WHERE thread_id = ?", (thread_id,))
    thread = find_thread(db, thread_id)
    if thread is not None:
        release(db, thread, set(), set())
        db.execute("DELETE FROM lgm_threads WHERE id = ?", (thread,))


def delete_for_runs(db: sqlite3.Connection, codec: Codec, run_ids: Sequence[str]) -> None:
    with writing(db):
        doomed: dict[str, set[Where]] = {}
        for part, marks in chunks(list(run_ids)):
            rows = db.execute(f"SELECT {PLACE} FROM checkpoints WHERE {RUN_ID} IN ({marks})", part)
            for row in (*rows, *_with_odd_metadata(db, part)):
                doomed.setdefault(row[0], set()).add(Where(*row))
        for thread_id, checkpoints in doomed.items():
            _remove(db, codec, thread_id, checkpoints)


def _with_odd_metadata(db: sqlite3.Connection, run_ids: Sequence[str]) -> list[tuple[str, str, str]]:
    """The checkpoints of runs whose metadata SQLite cannot read: the plain saver writes `NaN` as Python does."""
    rows = db.execute(f"SELECT {PLACE}, CAST(metadata AS BLOB) FROM checkpoints WHERE NOT json_valid({METADATA})")
    return [row[:3] for row in rows if _run_id(row[3]) in run_ids]


def _run_id(metadata: bytes) -> object:
    # Metadata that Python cannot read either name no run.
    with suppress(DamagedDatabaseError):
        return frames.metadata(metadata).get("run_id")
    return None


def prune(db: sqlite3.Connection, codec: Codec, thread_ids: Sequence[str], strategy: str) -> None:
    if strategy not in ("keep_latest", "delete"):
        raise ValueError(f"There is no pruning strategy {strategy!r}: use 'keep_latest' or 'delete'.")
    for thread_id in thread_ids:
        with writing(db):
            if strategy == "delete":
                _delete_thread(db, thread_id)
            else:
                newest = db.execute(
                    "SELECT thread_id, checkpoint_ns, max(checkpoint_id) FROM checkpoints WHERE thread_id = ? "
                    "GROUP BY checkpoint_ns",
                    (thread_id,),
                )
                _remove(db, codec, thread_id, checkpoints_of(db, thread_id) - set(map(Where._make, newest)))


def checkpoints_of(db: sqlite3.Connection, thread_id: str) -> set[Where]:
    query = "SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints WHERE thread_id = ?"
    return set(map(Where._make, db.execute(query, (thread_id,))))


def _remove(db: sqlite3.Connection, codec: Codec, thread_id: str, doomed: set[Where]) -> None:
    """Remove checkpoints of a thread with their writes, except those that others are rebuilt from."""
    kept = checkpoints_of(db, thread_id) - doomed
    with frames.thread(thread_id):
        doomed = doomed - needed(db, codec, kept)
    for table in TABLES:
        statement = f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
        db.executemany(statement, doomed)
    # Writes may have been put before their checkpoint, or for one that never came; those of a kept one stay.
    thread = find_thread(db, thread_id)
    if thread is not None:
        with frames.thread(thread_id):
            release(db, thread, *used(db, codec, thread_id))


def needed(db: sqlite3.Connection, codec: Codec, kept: Iterable[Where]) -> set[Where]:
    """The checkpoints that delta channels of `kept` are rebuilt from."""
    found: set[Where] = set()
    settled: set[tuple[Where, str]] = set()
    for at in kept:
        row = _row(db, codec, at)
        missing = _delta_channels(row) - _stored(codec, row).keys()
        for before in ancestors(db, codec, at, has_task_path=False) if missing else ():
            missing = {channel for channel in missing if (before.at, channel) not in settled}
            if not missing:
                break
            found.add(before.at)
            settled.update((before.at, channel) for channel in missing)
            missing -= _stored(codec, before).keys()
    return found


def _row(db: sqlite3.Connection, codec: Codec, at: Where) -> Row:
    where = "WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
    return unpacked(codec, db.execute(f"SELECT {COLUMNS} FROM checkpoints {where}", at).fetchone(), [])


def _delta_channels(row: Row) -> set[str]:
    """Channels whose value is not in `row` because it is rebuilt: LangGraph counts the steps since it was stored."""
    with suppress(DamagedDatabaseError):
        return set(frames.metadata(row.metadata).get("counters_since_delta_snapshot") or ())
    return set()


def _stored(codec: Codec, row: Row) -> dict[str, object]:
    if row.plain is not None:
        return dict(frames.fields(codec, *row.plain).get("channel_values") or {})
    return dict(row.forms)


# What is held


def used(db: sqlite3.Connection, codec: Codec, thread_id: str) -> tuple[set[int], set[int]]:
    """The items and the chains that rows of a thread refer to."""
    lengths, items = lengths_and_items(forms_of(db, codec, thread_id))
    chains: set[int] = set()
    for chain, length in lengths.items():
        chains.update(_lineage(db, chain))
        items.update(read_items_of(db, chain, length))
    return items, chains


def forms_of(db: sqlite3.Connection, codec: Codec, thread_id: str) -> Iterable[Form]:
    """The forms in checkpoints and writes of a thread."""
    checkpoints = "SELECT type, CAST(checkpoint AS BLOB) FROM checkpoints WHERE thread_id = ?"
    for type_, data in db.execute(checkpoints, (thread_id,)):
        if is_ours(type_):
            yield from frames.frame(codec, type_, data).forms.values()
    for type_, data in db.execute("SELECT type, CAST(value AS BLOB) FROM writes WHERE thread_id = ?", (thread_id,)):
        if is_ours(type_):
            yield frames.form(codec, type_, data)


def _lineage(db: sqlite3.Connection, chain: int) -> Iterable[int]:
    current: int | None = chain
    while current is not None:
        yield current
        row = db.execute("SELECT parent FROM lgm_chains WHERE id = ?", (current,)).fetchone()
        current = row[0] if row else None


def release(db: sqlite3.Connection, thread: int, items: set[int], chains: set[int]) -> None:
    """Let a thread hold only `items` and `chains`, and remove what nobody holds then."""
    dropped = _dropped(db, "lgm_chain_holds", thread, chains)
    for chain in dropped:
        db.execute("DELETE FROM lgm_links WHERE chain = ?", (chain,))
        db.execute("DELETE FROM lgm_chains WHERE id = ?", (chain,))
    dead = _dropped(db, "lgm_item_holds", thread, items)
    for part, marks in chunks(dead):
        _cut(db, part, marks)
        db.execute(f"DELETE FROM lgm_items WHERE id IN ({marks})", part)


def _dropped(db: sqlite3.Connection, table: str, thread: int, kept: set[int]) -> list[int]:
    """Drop a thread's holds except `kept`; those that were the last."""
    held = {row[0] for row in db.execute(f"SELECT held FROM {table} WHERE thread = ?", (thread,))}
    gone = sorted(held - kept)
    db.executemany(f"DELETE FROM {table} WHERE thread = ? AND held = ?", ((thread, one) for one in gone))
    last: list[int] = []
    for part, marks in chunks(gone):
        still = {row[0] for row in db.execute(f"SELECT held FROM {table} WHERE held IN ({marks})", part)}
        last += [one for one in part if one not in still]
    return last


def _cut(db: sqlite3.Connection, dead: list[int], marks: str) -> None:
    """End the chains that other threads still hold before the first message that nobody does."""
    rows = db.execute(f"SELECT chain, min(position) FROM lgm_links WHERE item IN ({marks}) GROUP BY chain", dead)
    for chain, position in rows.fetchall():
        db.execute("DELETE FROM lgm_links WHERE chain = ? AND position >= ?", (chain, position))
        db.execute("UPDATE lgm_chains SET length = ?, open = 0 WHERE id = ?", (position, chain))


# Copying


def copy_thread(db: sqlite3.Connection, source: str, target: str) -> None:
    if source == target:
        return
    with writing(db):
        for table in TABLES:
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})") if row[1] != "thread_id"]
            names = ", ".join(columns)
            db.execute(
                f"INSERT OR REPLACE INTO {table} (thread_id, {names}) SELECT ?, {names} FROM {table} "
                "WHERE thread_id = ?",
                (target, source),
            )
        origin = find_thread(db, source)
        if origin is not None:
            copy = thread_number(db, target)
            for table in ("lgm_item_holds", "lgm_chain_holds"):
                db.execute(
                    f"INSERT OR IGNORE INTO {table} (thread, held) SELECT ?, held FROM {table} WHERE thread = ?",
                    (copy, origin),
                )


def vacuum(db: sqlite3.Connection) -> None:
    if db.in_transaction:
        db.commit()
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    db.execute("VACUUM")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
