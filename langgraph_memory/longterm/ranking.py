"""Which entries fit a query best: first by SQLite's full-text search, then by a closer look at the best of those."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ..search_text import Query, quoted, words
from .stemming import stem

VERSION = 1
"""Of the words in the index."""
MOST_WORDS = 64
FIRST_LOOK = 200


def indexed(text: str) -> list[str]:
    """The words of a text as the index keeps them."""
    return [stem(word) for word in words(text)]


class Decay(NamedTuple):
    now: float
    floor: float
    hours: float

    def of(self, moment: float) -> float:
        if self.hours <= 0:
            return 1.0 if moment >= self.now else self.floor
        age = max(0.0, self.now - moment) / 3600 / self.hours
        return max(self.floor, 1.0 - (1.0 - self.floor) * age)


@dataclass(frozen=True)
class Question:
    words: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Question:
        needed = dict.fromkeys(stem(word) for term in Query.of(text).terms for word in term.needed)
        return cls(tuple(needed)[:MOST_WORDS])

    def __bool__(self) -> bool:
        return bool(self.words)

    @cached_property
    def match(self) -> str:
        return " OR ".join(map(quoted, self.words))


def best(db: sqlite3.Connection, question: Question, limit: int, decay: Decay) -> list[tuple[int, float]]:
    """Numbers and scores of the best entries."""
    size = FIRST_LOOK + 4 * limit
    while True:
        rows = db.execute(
            "SELECT rowid, -bm25(lookup) FROM lookup WHERE lookup MATCH ? ORDER BY rank, rowid DESC LIMIT ?",
            (question.match, size),
        ).fetchall()
        scores = dict(rows)
        about = db.execute(
            "SELECT number, moment, print FROM entries WHERE number IN (SELECT value FROM json_each(?))",
            (json.dumps(list(scores)),),
        ).fetchall()
        found: dict[bytes, tuple[float, float, int]] = {}
        for number, moment, print_ in about:
            row = scores[number] * decay.of(moment), moment, number
            found[print_] = max(row, found.get(print_, row))
        if len(found) >= limit or len(rows) < size:
            ordered = sorted(found.values(), reverse=True)[:limit]
            return [(number, score) for score, _, number in ordered]
        size *= 4
