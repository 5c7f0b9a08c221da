"""Searching the messages of a `ThreadSaver` by its index."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from ..errors import EncryptedSearchError
from ..search_parts import Parts, Some
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
MOST_WRONG = 2000
"""Texts that are looked at in vain before no more are looked for that hold some of a query."""


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
        read = await self._plain(thread_id)
        for ours, others in ((_whole, scan.whole), (_some, scan.some)):
            found = await self.saver.call(_search, ours, self.saver.codec, query, thread_id, limit)
            if found := found + others(query, read, limit):
                return sorted(found, key=lambda hit: -hit.score)[:limit]
        return []

    async def _plain(self, thread_id: str | None) -> list[scan.Found]:
        """The messages that the plain saver wrote, which are in no index."""
        plain = await self.saver.call(plain_threads)
        if thread_id is None:
            return await scan.read_all(self.source, plain, self.channel)
        return await scan.read(self.source, thread_id, self.channel) if thread_id in plain else []

    async def forget(self) -> None:
        """Leave no word of removed threads in the index."""
        await self.saver.call(index.forget)


def plain_threads(db: sqlite3.Connection) -> list[str]:
    """Threads whose newest checkpoint the plain saver wrote: their messages are no items yet."""
    rows = db.execute(
        "SELECT thread_id, type, max(checkpoint_id) FROM checkpoints WHERE checkpoint_ns = '' GROUP BY thread_id"
    )
    return [thread_id for thread_id, type_, _ in rows if not is_ours(type_)]


Look = Callable[[sqlite3.Connection, Codec, Query, int | None, int], list[Hit]]
"""For a query in the thread of a number, or in all, and at most so many hits."""


def _search(
    db: sqlite3.Connection, look: Look, codec: Codec, query: Query, thread_id: str | None, limit: int
) -> list[Hit]:
    with reading(db):
        thread = None if thread_id is None else find_thread(db, thread_id)
        if thread_id is not None and thread is None:
            return []
        return look(db, codec, query, thread, limit)


def _whole(db: sqlite3.Connection, codec: Codec, query: Query, thread: int | None, limit: int) -> list[Hit]:
    """Hits for texts with every term."""
    hits = _Hits(db, codec, query, thread, limit)
    for rows in index.pages(db, query.match(), thread, _page(limit)):
        read = _read(codec, rows)
        hits.add([row for row in read if query.exact or query.holds(row[3]) == len(query.terms)])
        if hits.enough:
            break
    return hits.best


def _some(db: sqlite3.Connection, codec: Codec, query: Query, thread: int | None, limit: int) -> list[Hit]:
    """Hits for texts with some of the query; those with its common words are looked for where there are no others."""
    parts = Parts.of(query)
    some = Some(parts, *index.holding(db, parts.needed, thread))
    hits, wrong = _Hits(db, codec, query, thread, limit), 0
    for match in some.matches():
        for rows in index.pages(db, match, thread, _page(limit)):
            right = [row for row in _read(codec, rows) if some.held(row[3])]
            hits.add(right)
            wrong += len(rows) - len(right)
            if hits.enough or wrong > MOST_WRONG:
                return hits.best
    return hits.best


def _page(limit: int) -> int:
    return 2 * limit + 10


class _Hits:
    """Collects hits, the best first."""

    def __init__(self, db: sqlite3.Connection, codec: Codec, query: Query, thread: int | None, limit: int) -> None:
        self._db, self._codec, self._query, self._thread, self._limit = db, codec, query, thread, limit
        self._found: dict[tuple[str, str | None, int], Hit] = {}

    @property
    def enough(self) -> bool:
        return len(self._found) >= self._limit

    @property
    def best(self) -> list[Hit]:
        return list(self._found.values())[: self._limit]

    def add(self, candidates: list[Candidate]) -> None:
        for item, place, (_, score, role, text) in _placed(self._db, self._codec, candidates, self._thread):
            # An edited message is several items: the best stands for it.
            name = (place.thread_id, place.message_id, 0 if place.message_id else item)
            if name not in self._found:
                self._found[name] = Hit(*_of(place), role, self._query.excerpt(text), score)


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
