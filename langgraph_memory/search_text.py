"""Words for full-text search, in any script; pure functions that the indexes of threads and of memory share.

Text and query are *folded* alike: compatibility forms (NFKC), case, and the accents of scripts in which people leave
them out when they search. Marks that make another letter, as in Hindi, Thai or Japanese, stay. What is not seen, such
as a soft hyphen, goes.

A text becomes *words*, which an index stores as they are, parted by blanks (`TOKENIZE` keeps SQLite from parting them
further). Scripts that put no blanks between words give single characters and pairs, and so do emoji and other symbols.
A name such as `TK-204`, `foo_bar` or `v1.2` is a word as a whole, and so are its parts.

A query becomes *terms*, one for each piece between blanks and marks. `Query.match` is an expression for FTS5 in which
every word is quoted, so no text is query syntax. An index of words finds a few texts too many: pairs of characters may
stand apart, and so may the parts of a name. `Query.holds` tells those that are right by their text. What a text
may hold of a query that none holds as a whole is told in `search_parts`.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

TOKENIZE = "ascii tokenchars '-._@+#'"
"""For FTS5: what `words` gives is parted at blanks only."""
VERSION = 2
"""Of the words: an index made by another version has to be made anew."""
LONGEST = 64
"""Characters of a word that count."""
MOST_WORDS = 64
"""Words of a query that the index is asked for at once; the rest is looked at in what it finds."""
_FEW = 16
"""Terms that are looked for in a text one by one; of more, only those whose words it has."""

_UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f"  # Myanmar, Khmer
    "\u1100-\u11ff\u3130-\u318f\uac00-\ud7ff"  # Hangul
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
    # Arrows, mathematics, dingbats and emoji: no brackets, no digits, and nothing that lines are drawn with.
    "\u2190-\u2307\u230c-\u2328\u232b-\u23ff\u25a0-\u2767\u2794-\u27c4\u27c7-\u27e5\u27f0-\u2982\u2999-\u29d7"
    "\u29dc-\u29fb\u29fe-\u2bff\U0001f000-\U0001f0ff\U0001f10d-\U0001fbef"
)
_BASE = rf"(?:(?![{_UNSPACED}])[^\W_])"
"""A letter or digit of a spaced script."""
_TEXT = rf"(?:{_BASE}|[\u0300-\u036f\u0900-\u0dff\u200c\u200d])"
"""The same, and the marks behind one."""
_UNDER_WAY = re.compile(rf"[^\W_{_UNSPACED}]")
"""In front of a word it would be the middle of one."""
GOES_ON = re.compile(_TEXT)
_PIECE = re.compile(rf"[{_UNSPACED}]+|{_BASE}{_TEXT}*")
_TERM = re.compile(rf"(?:[{_UNSPACED}]|{_BASE}|_)(?:[{_UNSPACED}]|{_TEXT}|[-._@](?=[\w])|_)*[+#]{{0,2}}")
_NAME = re.compile(rf"{_BASE}(?:{_TEXT}|[-._@])*(?<=[^\W_]|[\u0900-\u0dff])")
_ASCII_TERM = re.compile(r"[a-z0-9_](?:[a-z0-9_]|[-.@](?=[a-z0-9_]))*[+#]{0,2}")
_SIGNED = re.compile(rf"{_BASE}{_TEXT}*[+#]{{1,2}}$")
"""C++, C#."""
_RUN = re.compile(rf"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]")

_LATIN_MARKS = re.compile(r"([A-Za-zı\u0370-\u03ff])[\u0300-\u036f]+|(?<=\u0435)\u0308")
_OPTIONAL = re.compile(
    r"[\u00ad\u200b\u200e\u200f\u2060\ufe00-\ufe0f\ufeff"  # not seen: soft hyphen, joiners, variants of a symbol
    r"\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670]"
)
_LETTERS = str.maketrans({"ø": "o", "đ": "d", "ł": "l", "ı": "i", "ħ": "h", "æ": "ae", "œ": "oe", "’": "'"})
_NEAR = re.compile(r"[\W_]{0,3}")
"""What may stand between the parts of a name."""


def fold(text: str) -> str:
    """`text` as it is compared."""
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text).casefold())
    text = _LATIN_MARKS.sub(r"\1", _OPTIONAL.sub("", text)).translate(_LETTERS)
    # NFKC once more: what was taken apart, Hangul and kana above all, is put together again.
    return unicodedata.normalize("NFKC", text)


def words(text: str) -> list[str]:
    """The words of a text, in order; a name comes before its parts."""
    return list(_words(fold(text)))


def distinct_words(text: str) -> str:
    """The words of a text once each, parted by blanks: for an index that need not know how often and where."""
    return " ".join(dict.fromkeys(_words(fold(text))))


def _words(folded: str) -> Iterator[str]:
    pattern = _ASCII_TERM if folded.isascii() else _TERM
    for term in pattern.findall(folded):
        if term.isalnum() and term.isascii():
            yield term[:LONGEST]
        else:
            yield from _words_of(term)


def _words_of(term: str) -> Iterator[str]:
    for name in _NAME.findall(term):
        if not _PIECE.fullmatch(name):
            yield name[:LONGEST]
    for piece in _PIECE.findall(term):
        yield from _grams(piece) if _IS_UNSPACED.match(piece) else (piece[:LONGEST],)
    if signed := _SIGNED.search(term):
        yield signed[0][:LONGEST]


def _grams(run: str) -> Iterator[str]:
    for place, char in enumerate(run):
        yield char
        if place + 1 < len(run):
            yield run[place : place + 2]


@dataclass(frozen=True)
class Term:
    """What stands between blanks in a query."""

    text: str

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """The words that a text with this term holds."""
        if _SIGNED.fullmatch(self.text):
            return (self.text[:LONGEST],)
        found: list[str] = []
        for piece in _PIECE.findall(self.text):
            if not _IS_UNSPACED.match(piece):
                found.append(piece[:LONGEST])
            elif len(piece) == 1:
                found.append(piece)
            else:
                found += (piece[place : place + 2] for place in range(len(piece) - 1))
        return tuple(dict.fromkeys(found))

    @property
    def exact(self) -> bool:
        """Whether every text with the needed words holds the term."""
        return len(self.needed) == 1 and len(self.text) < LONGEST

    @cached_property
    def _parts(self) -> tuple[str, ...]:
        return (self.text,) if _SIGNED.fullmatch(self.text) else tuple(_PIECE.findall(self.text))

    @cached_property
    def _rough(self) -> re.Pattern[str]:
        """Finds the parts near each other: quick to make and to run, since no class of letters is in it."""
        return re.compile(_NEAR.pattern.join(map(re.escape, self._parts)))

    @property
    def unspaced(self) -> bool:
        """Whether it begins in a script that puts no blanks between words."""
        return _IS_UNSPACED.match(self.text) is not None

    @cached_property
    def runs(self) -> tuple[Term, ...]:
        """Its parts in scripts of one kind, each a term by itself."""
        return tuple(Term(run) for run in _RUN.findall(self.text) if _PIECE.search(run))

    def place_in(self, folded: str) -> int:
        """Where the term first stands in a folded text; -1 where it does not."""
        place = -1
        while found := self._rough.search(folded, place + 1):
            place = found.start()
            if self._stands(folded, place):
                return place
        return -1

    def _stands(self, folded: str, place: int) -> bool:
        """Whether the parts stand at `place`, each as a word and near the one before."""
        starts = {place}
        for part in self._parts:
            ends = {at + len(part) for at in starts if folded.startswith(part, at)}
            ends = {end for end in ends if self._parted(folded, end - len(part), end)}
            starts = {at for end in ends for at in range(end, _gap_end(folded, end) + 1)}
        return bool(starts)

    def _parted(self, folded: str, place: int, end: int) -> bool:
        """Whether the part between `place` and `end` is a word there, not a piece of one."""
        if _IS_UNSPACED.match(folded, place):
            return True
        if place and _UNDER_WAY.match(folded, place - 1):
            return False
        if folded[end - 1] in "+#":
            return folded[end : end + 1] not in ("+", "#")
        return GOES_ON.match(folded, end) is None


def _gap_end(folded: str, start: int) -> int:
    gap = _NEAR.match(folded, start)
    assert gap is not None
    return gap.end()


@dataclass(frozen=True)
class Query:
    """A query, understood. Any text is one; a text without words finds nothing."""

    terms: tuple[Term, ...]

    @classmethod
    def of(cls, text: str) -> Query:
        found = (term[0] for term in _TERM.finditer(fold(text)) if _PIECE.search(term[0]))
        return cls(tuple(map(Term, dict.fromkeys(found))))

    def __bool__(self) -> bool:
        return bool(self.terms)

    @property
    def exact(self) -> bool:
        """Whether an index of words finds exactly the texts that hold every term."""
        return all(term.exact for term in self.terms) and len(self.terms) <= MOST_WORDS

    def match(self) -> str:
        """An FTS5 expression for the texts that may hold every term."""
        needed = dict.fromkeys(word for term in self.terms for word in term.needed)
        return " AND ".join(map(quoted, list(needed)[:MOST_WORDS]))

    def holds(self, text: str) -> int:
        """How many of the terms a text holds."""
        folded = fold(text)
        return sum(term.place_in(folded) >= 0 for term in self._likely(folded))

    def _likely(self, folded: str) -> Sequence[Term]:
        """The terms that a folded text may hold."""
        if len(self.terms) <= _FEW:
            return self.terms
        bag = set(_words(folded))
        return [term for term in self.terms if bag.issuperset(term.needed)]

    def excerpt(self, text: str, size: int = 160) -> str:
        """One line of about `size` characters around the first place that holds a term, or else most of a run."""
        start = max(0, self._place(text, size) - size // 4) if len(text) > size else 0
        line = " ".join(text[start : start + size].split())
        return f"{'…' if start else ''}{line}{'…' if start + size < len(text) else ''}"

    def _place(self, text: str, size: int) -> int:
        """About where in a text, which folding may have shortened or lengthened, what is shown stands."""
        folded = fold(text)
        guess = self._first(self._likely(folded), folded)
        if guess < 0:
            guess = self._part(folded)
        if len(folded) == len(text):
            return guess
        return _unfolded(text, guess)

    @staticmethod
    def _first(terms: Iterable[Term], folded: str) -> int:
        """The first place of a term; -1 where there is none."""
        return min((place for term in terms if (place := term.place_in(folded)) >= 0), default=-1)

    def _part(self, folded: str) -> int:
        """The first place of a part of a term; of scripts without blanks, of the longest piece that is there."""
        runs = [run for term in self.terms for run in term.runs]
        place = self._first((run for run in runs if not run.unspaced), folded)
        if place >= 0:
            return place
        return folded.find(max((_longest(run.text, folded) for run in runs if run.unspaced), key=len, default=""))


def _longest(run: str, folded: str) -> str:
    """The longest piece of a run that stands in a text."""
    longest, start = "", 0
    for end in range(1, len(run) + 1):
        while run[start:end] not in folded:
            start += 1
        longest = max(longest, run[start:end], key=len)
    return longest


def _unfolded(text: str, place: int) -> int:
    """The place in `text` whose beginning folds to `place` characters."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high) // 2
        if len(fold(text[:middle])) <= place:
            low = middle + 1
        else:
            high = middle
    return max(0, low - 1)


class Piece(NamedTuple):
    """A part of a query in one kind of script."""

    words: tuple[str, ...]
    """Of a name, such as `TK-204`, each of its parts; otherwise one."""
    unspaced: bool
    """Whether it is a run of a script that puts no blanks between words."""


def pieces(text: str) -> Iterator[Piece]:
    """The parts of a query that are looked for each by itself, in order."""
    for term in Query.of(text).terms:
        for run in _RUN.findall(term.text):
            unspaced = _IS_UNSPACED.match(run) is not None
            found = [run] if unspaced or _SIGNED.fullmatch(run) else _PIECE.findall(run)
            if found:
                yield Piece(tuple(found if unspaced else [word[:LONGEST] for word in found]), unspaced)


def quoted(word: str) -> str:
    """A word as FTS5 takes it literally."""
    return '"' + word.replace('"', '""') + '"'


def relevance(query: Query, texts: Iterable[list[str]]) -> list[float]:
    """How well texts, given as words, fit a query that some of them hold: BM25 over these texts."""
    bags = [Counter(text) for text in texts]
    lengths = [bag.total() for bag in bags]
    average = sum(lengths) / len(bags) if bags else 1.0
    scores = [0.0] * len(bags)
    for word in dict.fromkeys(word for term in query.terms for word in term.needed):
        counts = [bag[word] for bag in bags]
        holding = sum(count > 0 for count in counts)
        rarity = max(1e-6, math.log((len(bags) - holding + 0.5) / (holding + 0.5)))
        for place, count in enumerate(counts):
            scale = 1.2 * (0.25 + 0.75 * lengths[place] / (average or 1.0))
            scores[place] += rarity * count * 2.2 / (count + scale) if count else 0.0
    return scores
