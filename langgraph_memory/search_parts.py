"""What a text may hold of a query that none holds as a whole; pure functions that searches with and without an index
share.

The parts of a query are *words*, names among them, and *runs* of scripts that put no blanks between words. A text holds
some of a query if it holds one of the words, or enough of a run. That is told by the pairs of characters that they
share, each counted by its rarity: what everybody says weighs little, so a text that shares nothing else with a run is
not one of them. Letters say less than Han and Hangul: kana count where three stand in a row, those of Thai and its
neighbours where five do.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from .search_text import MOST_WORDS, Query, Term, fold, quoted, words

LEAST = 0.15
"""Of a run, by the rarity of its pairs, that a text has to hold."""
STRETCH = 24
"""Characters of a run that are looked for together; a longer one is several runs."""
_KANA = re.compile("[\u3040-\u30ff\u31f0-\u31ff]+")
_LETTERS = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f]+")
"""Of Thai, Lao, Myanmar and Khmer."""


def _row(pair: str) -> int:
    """How many characters have to stand in a row for a pair among them to count."""
    if _LETTERS.fullmatch(pair):
        return 5
    return 3 if _KANA.fullmatch(pair) else 2


@dataclass(frozen=True)
class Run:
    """A part of a query in a script that puts no blanks between words."""

    text: str

    @cached_property
    def pairs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.text[place : place + 2] for place in range(len(self.text) - 1)))

    def shared(self, folded: str, bag: Collection[str]) -> set[str]:
        """The pairs that say something and stand in a folded text, whose words are `bag`."""
        if self.text in folded:
            return set(self.pairs)
        places = [place for place in range(len(self.text) - 1) if self.text[place : place + 2] in bag]
        return {self.text[place : place + 2] for place in places if self._counts(place, folded)}

    def _counts(self, place: int, folded: str) -> bool:
        size = _row(self.text[place : place + 2])
        starts = range(max(0, place + 2 - size), min(place, len(self.text) - size) + 1)
        return any(self.text[start : start + size] in folded for start in starts)


@dataclass(frozen=True)
class Parts:
    """The parts of a query."""

    words: tuple[Term, ...]
    runs: tuple[Run, ...]

    @classmethod
    def of(cls, query: Query) -> Parts:
        runs = [run for term in query.terms if len(term.text) > 1 for run in term.runs]
        spaced = (run for run in runs if not run.unspaced)
        single = (term for term in query.terms if len(term.text) == 1)
        # A single character that is glued to something else says too little.
        stretches = (part for run in runs if run.unspaced and len(run.text) > 1 for part in _stretches(run.text))
        return cls(tuple(dict.fromkeys((*single, *spaced))), tuple(map(Run, dict.fromkeys(stretches))))

    @cached_property
    def needed(self) -> frozenset[str]:
        """The words of texts that tell which of the parts they hold."""
        pairs = (pair for run in self.runs for pair in run.pairs)
        return frozenset((*pairs, *(word for term in self.words for word in term.needed)))


def _stretches(run: str) -> Iterator[str]:
    """A run in stretches of about the same length, each of which begins with the last character of the one before."""
    number = math.ceil((len(run) - 1) / (STRETCH - 1))
    size = math.ceil((len(run) - 1) / number)
    for start in range(0, len(run) - 1, size):
        yield run[start : start + size + 1]


class Some:
    """Tells which texts hold some of a query, among `texts` of which so many are `holding` each of its words."""

    def __init__(self, parts: Parts, texts: int, holding: Mapping[str, int]) -> None:
        self._parts, self._texts, self._holding = parts, texts, holding

    @cached_property
    def _weights(self) -> dict[str, float]:
        return {pair: self._rarity(pair) for run in self._parts.runs for pair in run.pairs}

    @cached_property
    def _enough(self) -> dict[Run, float]:
        return {run: LEAST * self._weight(run.pairs) for run in self._parts.runs}

    def _rarity(self, word: str) -> float:
        holding = max(1, self._holding.get(word, 0))
        return math.log(1 + max(0.0, self._texts - holding + 0.5) / (holding + 0.5))

    def _weight(self, pairs: Collection[str]) -> float:
        return math.fsum(self._weights[pair] for pair in pairs)

    def held(self, text: str) -> bool:
        """Whether a text holds a word, or enough of a run."""
        folded = fold(text)
        bag = self._parts.needed.intersection(words(text))
        return any(
            bag.issuperset(term.needed) and (term.exact or term.place_in(folded) >= 0) for term in self._parts.words
        ) or any(
            not bag.isdisjoint(run.pairs) and self._weight(run.shared(folded, bag)) >= self._enough[run] - 1e-9
            for run in self._parts.runs
        )

    def matches(self) -> Iterator[str]:
        """FTS5 expressions, each for texts that may hold one of so many parts, the rarest parts first."""
        known = sorted((part for part in self._asked() if self._count(part)), key=self._count)
        for start in range(0, len(known), MOST_WORDS):
            group = known[start : start + MOST_WORDS]
            yield " OR ".join(f"({' AND '.join(map(quoted, part))})" for part in group)

    def _asked(self) -> list[tuple[str, ...]]:
        pairs = dict.fromkeys((pair,) for run in self._parts.runs for pair in self._telling(run))
        return list(dict.fromkeys((*(term.needed for term in self._parts.words), *pairs)))

    def _telling(self, run: Run) -> list[str]:
        """The pairs of a run of which everybody who holds enough of it holds one: not the most common ones."""
        pairs, rest = sorted(run.pairs, key=self._weights.__getitem__), 0.0
        for place, pair in enumerate(pairs):
            rest += self._weights[pair]
            if rest >= self._enough[run] - 1e-9:
                return pairs[place:]
        return pairs

    def _count(self, part: tuple[str, ...]) -> int:
        return min(self._holding.get(word, 0) for word in part)
