"""Searching without an index: the messages of every branch are read and compared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from langchain_core.messages import BaseMessage

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


async def hits(
    source: Source, text: str, thread_id: str | None, channel: str, limit: int, *, threads: Iterable[str] | None = None
) -> list[Hit]:
    """The best messages for a query, with the end of the first branch that holds them.

    Of the named thread, else of `threads`, by default all.
    """
    query = Query.of(text)
    if not query or limit <= 0:
        return []
    if thread_id is not None:
        every = await _read(source, thread_id, channel)
    else:
        every = await _read_all(source, await source.threads() if threads is None else threads, channel)
    counts = [query.holds(found.text) for found in every]
    least = len(query.terms) if len(query.terms) in counts else 1
    scores = relevance(query, [words(found.text) for found in every])
    good = [place for place, count in enumerate(counts) if count >= least]
    good.sort(key=lambda place: (-scores[place], -place))
    return [_hit(query, every[place], scores[place]) for place in good[:limit]]


async def _read_all(source: Source, threads: Iterable[str], channel: str) -> list[Found]:
    every: list[Found] = []
    for thread_id in threads:
        with frames.left_out():
            every += await _read(source, thread_id, channel)
    return every


async def _read(source: Source, thread_id: str, channel: str) -> list[Found]:
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
