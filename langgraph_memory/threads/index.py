"""The full-text index of a `ThreadSaver`'s messages, in tables beside its own.

It is derived: made at the first search, brought up to date by each search with what was added since, and made anew when
its version changed. A put never touches it. Each message stands in it once, under the number of its item, as its
distinct words. A trigger takes a message out in the transaction that removes the item, whichever process does that.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage

from .. import search_text
from ..context.text import message_text, to_json
from . import frames
from .codec import Codec
from .messages import joined
from .schema import MESSAGE, writing

BATCH = 200
"""Messages indexed in one transaction, so that nobody waits long for it."""

TABLES = (
    "CREATE TABLE lgm_search_words (item INTEGER PRIMARY KEY, words TEXT NOT NULL)",
    "CREATE VIRTUAL TABLE lgm_search USING fts5 (words, content='lgm_search_words', content_rowid='item', "
    f'tokenize="{search_text.TOKENIZE}")',
    f"CREATE TRIGGER lgm_search_gone AFTER DELETE ON lgm_items WHEN old.kind = {MESSAGE} BEGIN "
    "INSERT INTO lgm_search (lgm_search, rowid, words) "
    "SELECT 'delete', item, words FROM lgm_search_words WHERE item = old.id; "
    "DELETE FROM lgm_search_words WHERE item = old.id; END",
    "CREATE TABLE lgm_search_version (version INTEGER NOT NULL)",
)
DROP = (
    "DROP TRIGGER IF EXISTS lgm_search_gone",
    "DROP TABLE IF EXISTS lgm_search",
    "DROP TABLE IF EXISTS lgm_search_words",
    "DROP TABLE IF EXISTS lgm_search_version",
)


def text_of(message: Any) -> str:
    """What of a message is searched: its text, and what it calls with which arguments."""
    if not isinstance(message, BaseMessage) or isinstance(message, RemoveMessage):
        return ""
    parts = [message_text(message)]
    if isinstance(message, AIMessage):
        calls = (*message.tool_calls, *message.invalid_tool_calls)
        parts += (f"{call['name']} {_arguments(call['args'])}" for call in calls)
    return "\n".join(part for part in parts if part)


def _arguments(args: Any) -> str:
    return args if isinstance(args, str) else to_json(args)


def exists(db: sqlite3.Connection) -> bool:
    return db.execute("SELECT 1 FROM sqlite_master WHERE name = 'lgm_search'").fetchone() is not None


def is_current(db: sqlite3.Connection) -> bool:
    """Whether the index holds every message. New items have larger numbers than all before them."""
    if not _has_version(db):
        return False
    last = db.execute("SELECT max(id) FROM lgm_items WHERE kind = ?", (MESSAGE,)).fetchone()[0] or 0
    return bool(last <= _mark(db))


def _has_version(db: sqlite3.Connection) -> bool:
    if not exists(db):
        return False
    row = db.execute("SELECT version FROM lgm_search_version").fetchone()
    return row is not None and row[0] == search_text.VERSION


def _mark(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT max(item) FROM lgm_search_words").fetchone()[0] or 0)


def update(db: sqlite3.Connection, codec: Codec) -> bool:
    """Index the next messages; whether there are more."""
    if is_current(db):
        return False
    with writing(db):
        if not _has_version(db):
            _make(db)
        rows = db.execute(
            "SELECT id, type, CAST(data AS BLOB) FROM lgm_items WHERE kind = ? AND id > ? ORDER BY id LIMIT ?",
            (MESSAGE, _mark(db), BATCH),
        ).fetchall()
        found = [(row[0], search_text.distinct_words(item_text(codec, *row))) for row in rows]
        db.executemany("INSERT INTO lgm_search_words (item, words) VALUES (?, ?)", found)
        db.executemany("INSERT INTO lgm_search (rowid, words) VALUES (?, ?)", found)
    return len(found) == BATCH


def item_text(codec: Codec, number: int, type_: str, data: bytes) -> str:
    """The text of a stored message; one that cannot be read has none, so that it does not keep out the others."""
    with frames.left_out(f"message {number}"):
        return text_of(joined(codec.load(type_, data), None))
    return ""


def _make(db: sqlite3.Connection) -> None:
    for statement in (*DROP, *TABLES):
        db.execute(statement)
    db.execute("INSERT INTO lgm_search_version VALUES (?)", (search_text.VERSION,))


def find(
    db: sqlite3.Connection, match: str, thread: int | None, limit: int, offset: int
) -> list[tuple[int, float, str, bytes]]:
    """Number, score, type and data of items that match an expression, the best first, later ones before earlier."""
    within = "" if thread is None else "AND EXISTS (SELECT 1 FROM lgm_item_holds WHERE thread = ? AND held = rowid)"
    rows = db.execute(
        "SELECT id, -score, type, CAST(data AS BLOB) FROM "
        "(SELECT rowid AS number, bm25(lgm_search) AS score FROM lgm_search "
        f"WHERE lgm_search MATCH ? {within} ORDER BY score, number DESC LIMIT ? OFFSET ?) "
        "JOIN lgm_items ON id = number ORDER BY score, id DESC",
        (match, *([] if thread is None else [thread]), limit, offset),
    )
    return rows.fetchall()


def pages(
    db: sqlite3.Connection, match: str, thread: int | None, size: int
) -> Iterator[list[tuple[int, float, str, bytes]]]:
    """What `find` finds, `size` items first and then ever more at once, as finding the next ones begins anew."""
    offset = 0
    while rows := find(db, match, thread, size, offset):
        yield rows
        if len(rows) < size:
            return
        offset, size = offset + size, 2 * size


def holding(db: sqlite3.Connection, words: Collection[str], thread: int | None) -> tuple[int, Mapping[str, int]]:
    """How many messages there are, in all threads or in one, and how many of them hold each of some words."""
    if thread is not None:
        return _holding_of(db, words, thread)
    db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.lgm_search_vocabulary USING fts5vocab (main, lgm_search, row)")
    rows = db.execute(
        "SELECT term, doc FROM json_each(?) CROSS JOIN temp.lgm_search_vocabulary ON term = value",
        (to_json(list(words)),),
    )
    return db.execute("SELECT count(*) FROM lgm_search_words").fetchone()[0], dict(rows.fetchall())


def _holding_of(db: sqlite3.Connection, words: Collection[str], thread: int) -> tuple[int, Mapping[str, int]]:
    query = "SELECT words FROM lgm_item_holds JOIN lgm_search_words ON item = held WHERE thread = ?"
    wanted, texts, counts = frozenset(words), 0, Counter[str]()
    for (held,) in db.execute(query, (thread,)):
        texts += 1
        counts.update(wanted.intersection(held.split(" ")))
    return texts, counts


def forget(db: sqlite3.Connection) -> None:
    """Leave no word of removed messages in the index."""
    if exists(db):
        with writing(db):
            db.execute("INSERT INTO lgm_search (lgm_search) VALUES ('optimize')")


def problems(db: sqlite3.Connection) -> list[str]:
    """What is wrong with the index, which is then made anew by the next search once it is dropped."""
    if not exists(db):
        return []
    try:
        with writing(db):
            db.execute("INSERT INTO lgm_search (lgm_search, rank) VALUES ('integrity-check', 1)")
    except sqlite3.DatabaseError as error:
        return [f"the full-text index does not fit the messages: {error}"]
    return []
