"""Searching without an index: the messages of every branch are read and compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from langchain_core.messages import BaseMessage

from ..search_parts import Parts, Some
from ..search_text import Query, relevance, words
from . import frames, tree
from .index import text_of
from .shapes import Hit
from .source import Source


class Found(NamedTuple):
    thread_id: str
    checkpoint_id: str
    message: BaseMessage
    text: str


async def hits(source: Source, text: str, thread_id: str | None, channel: str, limit: int) -> list[Hit]:
    """The best messages of a thread, or of all, for a query, with the end of the first branch that holds them."""
    query = Query.of(text)
    if not query or limit <= 0:
        return []
    if thread_id is not None:
        every = await read(source, thread_id, channel)
    else:
        every = await read_all(source, await source.threads(), channel)
    return whole(query, every, limit) or some(query, every, limit)


def whole(query: Query, every: Sequence[Found], limit: int) -> list[Hit]:
    """Hits for texts with every term."""
    return _best(query, every, [query.holds(found.text) == len(query.terms) for found in every], limit)


def some(query: Query, every: Sequence[Found], limit: int) -> list[Hit]:
    """Hits for texts with some of the query."""
    parts = Parts.of(query)
    counts = Counter(word for found in every for word in parts.needed.intersection(words(found.text)))
    told = Some(parts, len(every), counts)
    return _best(query, every, [told.held(found.text) for found in every], limit)


def _best(query: Query, every: Sequence[Found], right: Sequence[bool], limit: int) -> list[Hit]:
    good = [place for place, flag in enumerate(right) if flag]
    if not good:
        return []
    scores = relevance(query, [words(found.text) for found in every])
    good.sort(key=lambda place: (-scores[place], -place))
    return [_hit(query, every[place], scores[place]) for place in good[:limit]]


async def read_all(source: Source, threads: Iterable[str], channel: str) -> list[Found]:
    """The messages of threads; damaged threads are left out."""
    every: list[Found] = []
    for thread_id in threads:
        with frames.left_out():
            every += await read(source, thread_id, channel)
    return every


async def read(source: Source, thread_id: str, channel: str) -> list[Found]:
    """The messages of a thread. Raises `DamagedDatabaseError` where they cannot be read."""
    parents = await source.parents(thread_id)
    found: dict[tuple[str | None, str], Found] = {}
    for leaf in tree.leaves(parents):
        for message in await source.said(thread_id, tree.path(parents, leaf), channel, newest=True):
            text = text_of(message)
            found.setdefault((message.id, text), Found(thread_id, leaf, message, text))
    return list(found.values())


def _hit(query: Query, found: Found, score: float) -> Hit:
    message = found.message
    return Hit(found.thread_id, message.id, found.checkpoint_id, "", message.type, query.excerpt(found.text), score)
