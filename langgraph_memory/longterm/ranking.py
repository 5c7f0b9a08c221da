"""Which entries fit a query best.

A question becomes *features*: its words without those that only make it a question, names as a whole, and pairs of
characters where a script puts no blanks between words. SQLite's full-text index tells which entries hold each of them.

An entry counts for what it says, and for half and a quarter of that for what its neighbours say that stand one and two
places before and behind it in the file: a question is often asked in one entry and answered in the next. Neighbours do
not count where one word is looked up; and what holds none of the words itself is found by its neighbours only if the
question has several, and nothing holds them all.

Each feature counts by its rarity, as in BM25, and the more often it is met the less each time adds; long entries count
somewhat less. Who holds all features counts a quarter more. The same text in several places is found once.

Of a long question, such as a log with a question behind it, some features are enough: those at its beginning and at its
end, where it says what is wanted, and of the others the rarest that any entry holds.

The weights are round numbers on a plateau: with others for the neighbours (0.4 to 0.7), saturation (0.8 to 2) and
length (0 to 0.6), recall@10 of the LoCoMo questions in `python -m benchmarks retrieval` falls by 0.014 at most, in
either half of the conversations by 0.02.
"""

from __future__ import annotations

import heapq
import json
import math
import re
import sqlite3
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from ..search_text import Piece, pieces, quoted, words
from . import stop_words
from .stemming import stem

VERSION = 1
"""Of the words in the index."""

MOST = 64
"""Features of a question that count."""
ENDS = 16
"""Features at the beginning of a long question, and as many at its end, that count however common they are."""
COMMON = 1000
"""Entries that hold a feature which is as common as any."""
MOST_CHARS = 20_000
"""Characters of a question that are read, half of them at its end."""

NEIGHBOURS = {-2: 0.25, -1: 0.5, 0: 1.0, 1: 0.5, 2: 0.25}
"""Weight of what stands so many places away."""
SEVERAL = 3
"""Features that a question has for which an entry may be found by its neighbours alone."""
SATURATION = 1.2
LENGTH = 0.4
"""From 0 to 1: how much less a long entry counts. These two are `k1` and `b` of BM25."""
ALL = 1.25

FIRST_LOOK = 100
NEWEST = 500
"""Entries that are looked at closely whenever they match, as age may bring them before all others."""


def indexed(text: str) -> list[str]:
    """The words of a text as the index keeps them."""
    return [stem(word) for word in words(text)]


class Decay(NamedTuple):
    """How much less an entry counts for its age."""

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
    """What is looked for: FTS5 expressions, one a feature."""

    features: tuple[str, ...]
    ends: frozenset[str] = frozenset()
    """Of the features, those at the beginning and at the end."""

    @classmethod
    def of(cls, text: str) -> Question:
        text = unicodedata.normalize("NFKC", _read(text))
        found = list(pieces(text))
        written = set(re.findall(r"\w+", text.casefold()))
        stops = stop_words.spoken([word for piece in found for word in piece.words], written)
        kept = _features(found, stops) or _features(found, frozenset())
        ends = [feature for order in (kept, kept[::-1]) for feature in islice(dict.fromkeys(order), ENDS)]
        return cls(tuple(dict.fromkeys(kept)), frozenset(ends))

    def __bool__(self) -> bool:
        return bool(self.features)


def _read(text: str) -> str:
    half = MOST_CHARS // 2
    return text if len(text) <= MOST_CHARS else f"{text[:half]} {text[-half:]}"


def _features(found: Iterable[Piece], stops: frozenset[str]) -> list[str]:
    features: list[str] = []
    for piece in found:
        if piece.unspaced:
            features += map(quoted, _pairs(piece.words[0], parted=bool(stops)))
        elif len(piece.words) > 1 or piece.words[0] not in stops:
            # Of several words, the expression is a phrase.
            features.append(quoted(" ".join(map(stem, piece.words))))
    return features


def _pairs(run: str, *, parted: bool) -> list[str]:
    parts = [part for part in stop_words.CHINESE.split(run) if part] if parted else [run]
    pairs = [part[place : place + 2] for part in parts for place in range(max(1, len(part) - 1))]
    return stop_words.without_particles(pairs) if parted else pairs


def best(db: sqlite3.Connection, question: Question, limit: int, decay: Decay) -> list[tuple[int, float]]:
    """Numbers and scores of the best entries. Neighbours in a file have neighbouring numbers."""
    found = _Found(db, question)
    size = FIRST_LOOK + 4 * limit
    while True:
        candidates = found.candidates(size)
        scores = found.scored(candidates, decay)
        if len(scores) >= limit or size >= len(found.own):
            return [(number, score) for score, _, number in heapq.nlargest(limit, scores)]
        size *= 4


FUSED = 50
"""Hits of each kind that are fused, beside as many as are asked for."""
_RANK = 60
"""Of reciprocal rank fusion: the larger, the less it matters who is first."""


def fused(
    db: sqlite3.Connection, question: Question, near: Sequence[bytes], limit: int, decay: Decay
) -> list[tuple[int, float]]:
    """As `best`, together with the texts whose meaning is near, given by their prints in order."""
    ageless = Decay(decay.now, 1.0, 1.0)
    by_words = best(db, question, limit + FUSED, ageless) if question else []
    scores: dict[int, float] = {}
    of_print = {}
    for rank, (number, _) in enumerate(by_words, 1):
        scores[number] = 1 / (_RANK + rank)
        of_print[db.execute("SELECT print FROM entries WHERE number = ?", (number,)).fetchone()[0]] = number
    newest = "SELECT number FROM entries WHERE print = ? ORDER BY moment DESC LIMIT 1"
    for rank, print_ in enumerate(near, 1):
        if print_ not in of_print and (row := db.execute(newest, (print_,)).fetchone()):
            of_print[print_] = row[0]
        if print_ in of_print:
            scores[of_print[print_]] = scores.get(of_print[print_], 0.0) + 1 / (_RANK + rank)
    moments = {n: db.execute("SELECT moment FROM entries WHERE number = ?", (n,)).fetchone()[0] for n in scores}
    aged = ((score * decay.of(moments[number]), moments[number], number) for number, score in scores.items())
    return [(number, score) for score, _, number in heapq.nlargest(limit, aged)]


def _telling(db: sqlite3.Connection, question: Question) -> tuple[str, ...]:
    """The features of a long question that count, in their order."""
    query = "SELECT count(*) FROM (SELECT 1 FROM lookup WHERE lookup MATCH ? LIMIT ?)"
    holding = {
        feature: db.execute(query, (feature, COMMON)).fetchone()[0] or math.inf
        for feature in question.features
        if feature not in question.ends
    }
    rarest = heapq.nsmallest(MOST - len(question.ends), holding, key=holding.__getitem__)
    kept = question.ends.union(rarest)
    return tuple(feature for feature in question.features if feature in kept)


class _Found:
    """Which entries hold which features."""

    def __init__(self, db: sqlite3.Connection, question: Question) -> None:
        self._db, self._features = db, question.features
        if len(self._features) > MOST:
            self._features = _telling(db, question)
        self._entries, words_ = db.execute("SELECT entries, words FROM totals").fetchone()
        self._average = words_ / self._entries if self._entries else 1.0
        self._rarities: list[float] = []
        self._weights = NEIGHBOURS if len(self._features) > 1 else {0: 1.0}
        self.own: dict[int, float] = {}
        """By the number of an entry, the rarities of what it holds, added up."""
        self._held: dict[int, list[int]] = {}
        """By the number of an entry, the features it holds, by their places in the question."""
        for place, feature in enumerate(self._features):
            self._add(place, [row[0] for row in self._matching(feature)])

    def _matching(self, feature: str) -> list[tuple[int]]:
        return self._db.execute("SELECT rowid FROM lookup WHERE lookup MATCH ?", (feature,)).fetchall()

    def _add(self, place: int, numbers: list[int]) -> None:
        rarity = math.log(1 + (self._entries - len(numbers) + 0.5) / (len(numbers) + 0.5))
        self._rarities.append(rarity)
        own, held = self.own, self._held
        for number in numbers:
            if number in own:
                own[number] += rarity
                held[number].append(place)
            else:
                own[number] = rarity
                held[number] = [place]

    def candidates(self, size: int) -> set[int]:
        """The entries that are worth a closer look."""
        # Of those that are alike the later ones first.
        centres = self._by_rank(size) or heapq.nlargest(size, reversed(self.own), key=self.own.__getitem__)
        near = (number + step for number in centres[: max(1, size // 2)] for step in NEIGHBOURS)
        several = len(self._features) >= SEVERAL
        found = {*centres, *(number for number in near if several or number in self.own)}
        newest = self._db.execute("SELECT number FROM entries ORDER BY moment DESC LIMIT ?", (NEWEST,))
        return found.union(row[0] for row in newest if row[0] in self.own)

    def _by_rank(self, size: int) -> list[int]:
        """Where many have the one feature, what tells them apart is how often and in how long a text."""
        if len(self._features) > 1 or size >= len(self.own):
            return []
        rows = self._db.execute(
            "SELECT rowid FROM lookup WHERE lookup MATCH ? ORDER BY rank LIMIT ?", (self._features[0], size)
        )
        return [row[0] for row in rows]

    def scored(self, candidates: Iterable[int], decay: Decay) -> list[tuple[float, float, int]]:
        """Score, time and number of each candidate that exists and counts; of the same text, the best one."""
        rows = self._db.execute(
            "SELECT number, length, moment, print FROM entries WHERE number IN (SELECT value FROM json_each(?))",
            (json.dumps(list(candidates)),),
        ).fetchall()
        shares = {number: 1 / (1 - LENGTH + LENGTH * length / self._average) for number, length, _, _ in rows}
        literal = any(map(self._holds_all, shares))
        found: dict[bytes, tuple[float, float, int]] = {}
        for number, _, moment, print_ in rows:
            if literal and number not in self.own:
                continue
            row = self._relevance(number, shares) * decay.of(moment), moment, number
            if row[0] > 0 and (print_ not in found or row > found[print_]):
                found[print_] = row
        return list(found.values())

    def _holds_all(self, number: int) -> bool:
        return len(self._held.get(number, ())) == len(self._features)

    def _relevance(self, number: int, shares: Mapping[int, float]) -> float:
        """`shares` says for those that are looked at how much a word in them counts."""
        met: dict[int, float] = {}
        for step, weight in self._weights.items():
            if features := self._held.get(number + step):
                weight *= shares.get(number + step, 1.0)
                for feature in features:
                    met[feature] = met.get(feature, 0.0) + weight
        score = sum(self._rarities[feature] * weight / (weight + SATURATION) for feature, weight in met.items())
        return score * (ALL if self._holds_all(number) else 1.0) * (SATURATION + 1)
