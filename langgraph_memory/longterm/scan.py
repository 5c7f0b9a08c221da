"""Searching entries without an index: what is left where the index cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ..search_text import Query, relevance, words
from .index import Hit, Row
from .ranking import Decay


def scan(
    rows: Sequence[Row], query: str, limit: int, *, now: datetime, decay_floor: float, decay_hours: float
) -> list[Hit]:
    """The rows that hold a term of `query`, the best first."""
    asked, decay = Query.of(query), Decay(now.timestamp(), decay_floor, decay_hours)
    found = [row for row in rows if asked.holds(row.entry.text)] if asked else []
    scores = relevance(asked, [words(row.entry.text) for row in found])
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
        for row, score in zip(found, scores, strict=True)
    ]
    return sorted(hits, key=lambda hit: -hit.score)[:limit]
