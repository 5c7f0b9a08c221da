"""Searching the messages of a `ThreadSaver` by its index."""

from __future__ import annotations

import sqlite3
from contextlib import nullcontext
from typing import Any

from ..errors import EncryptedSearchError
from ..search_text import Query
from . import frames, index, scan
from .codec import Codec, is_ours
from .items import find_thread
from .places import Place, Places, threads_with
from .saver import ThreadSaver
from .schema import reading
from .shapes import Hit
from .source import Source

Candidate = tuple[int, float, str, str]
"""Item, score, role and text."""


class Search:
    def __init__(self, saver: ThreadSaver, source: Source, channel: str) -> None:
        self.saver, self.source, self.channel = saver, source, channel

    async def hits(self, text: str, thread_id: str | None, limit: int) -> list[Hit]:
        """The best messages for a query, once each in every thread that holds them."""
        query = Query.of(text)
        if self.saver.codec.encrypts:
            raise EncryptedSearchError(
                "This saver encrypts what it stores, and an index of the words would undo that: search is off. Read "
                "threads with `messages` or `export` and search what they give."
            )
        if not query or limit <= 0:
            return []
        try:
            while await self.saver.call(index.update, self.saver.codec):
                pass
        except sqlite3.OperationalError as error:
            if "readonly" not in str(error):
                raise
            return await scan.hits(self.source, text, thread_id, self.channel, limit)
        found = await self.saver.call(_search, self.saver.codec, query, thread_id, limit)
        plain = [name for name in await self.saver.call(plain_threads) if thread_id in (None, name)]
        if plain:
            found += await scan.hits(self.source, text, thread_id, self.channel, limit, threads=plain)
        return sorted(found, key=lambda hit: -hit.score)[:limit]

    async def forget(self) -> None:
        """Leave no word of removed threads in the index."""
        await self.saver.call(index.forget)


def plain_threads(db: sqlite3.Connection) -> list[str]:
    """Threads whose newest checkpoint the plain saver wrote: their messages are no items yet."""
    rows = db.execute(
        "SELECT thread_id, type, max(checkpoint_id) FROM checkpoints WHERE checkpoint_ns = '' GROUP BY thread_id"
    )
    return [thread_id for thread_id, type_, _ in rows if not is_ours(type_)]


def _search(db: sqlite3.Connection, codec: Codec, query: Query, thread_id: str | None, limit: int) -> list[Hit]:
    with reading(db):
        thread = None if thread_id is None else find_thread(db, thread_id)
        if thread_id is not None and thread is None:
            return []
        return _hits(db, codec, query, thread, limit, any=False) or _hits(db, codec, query, thread, limit, any=True)


def _hits(
    db: sqlite3.Connection, codec: Codec, query: Query, thread: int | None, limit: int, *, any: bool
) -> list[Hit]:
    """Hits for texts with every term, or with `any` of them."""
    match, wanted, offset = query.match(any=any), 1 if any else len(query.terms), 0
    hits: dict[tuple[str, str | None, int], Hit] = {}
    size = 2 * limit + 10
    while len(hits) < limit:
        rows = index.find(db, match, thread, size, offset)
        checked = [row for row in _read(codec, rows) if query.exact or query.holds(row[3]) >= wanted]
        for item, place, (_, score, role, text) in _placed(db, codec, checked, thread):
            # An edited message is several items: the best stands for it.
            name = (place.thread_id, place.message_id, 0 if place.message_id else item)
            hits.setdefault(name, Hit(*_of(place), role, query.excerpt(text), score))
        if len(rows) < size:
            break
        offset += size
    return list(hits.values())[:limit]


def _of(place: Place) -> tuple[str, str | None, str, str]:
    return place


def _read(codec: Codec, rows: list[tuple[int, float, str, bytes]]) -> list[Candidate]:
    found: list[Candidate] = []
    for item, score, type_, data in rows:
        with frames.left_out(f"message {item}"):
            message: Any = codec.load(type_, data)
            found.append((item, score, getattr(message, "type", ""), index.text_of(message)))
    return found


def _placed(
    db: sqlite3.Connection, codec: Codec, candidates: list[Candidate], thread: int | None
) -> list[tuple[int, Place, Candidate]]:
    """The candidates in every thread that holds them, in their order."""
    holders = {row[0]: threads_with(db, row[0], thread) for row in candidates}
    wanted: dict[str, list[int]] = {}
    for item, threads in holders.items():
        for _, name in threads:
            wanted.setdefault(name, []).append(item)
    places: dict[str, dict[int, Place]] = {}
    for name, items in wanted.items():
        with nullcontext() if thread is not None else frames.left_out(), frames.thread(name):
            places[name] = Places(db, codec, name, items).look()
    return [
        (row[0], places[name][row[0]], row)
        for row in candidates
        for _, name in holders[row[0]]
        if row[0] in places.get(name, ())
    ]
