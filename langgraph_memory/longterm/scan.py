"""Searching entries without an index: what is left where the index cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ..context.text import clean_text
from ..search_text import Query, relevance
from .index import Hit, Row, print_of
from .ranking import Decay, indexed


def scan(
    rows: Sequence[Row], query: str, limit: int, *, now: datetime, decay_floor: float, decay_hours: float
) -> list[Hit]:
    """The rows that hold a word of `query`, the best first, and the same text once."""
    asked, decay = dict.fromkeys(indexed(clean_text(query))), Decay(now.timestamp(), decay_floor, decay_hours)
    bags = [(row, bag) for row in rows if not set(asked).isdisjoint(bag := indexed(row.entry.text))]
    scores = relevance(Query.of(" ".join(asked)), [bag for _, bag in bags])
    hits = [
        Hit(
            row.entry.id,
            row.path,
            row.line,
            row.entry.text,
            score * decay.of(row.entry.timestamp.timestamp()),
            row.entry.timestamp.isoformat(),
            row.entry.thread_id,
            row.entry.type,
        )
        for (row, _), score in zip(bags, scores, strict=True)
    ]
    best: dict[bytes, Hit] = {}
    for hit in sorted(hits, key=lambda hit: -hit.score):
        best.setdefault(print_of(hit.text), hit)
    return list(best.values())[: max(0, limit)]
