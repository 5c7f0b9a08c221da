"""The stem of an English word, by the rules of M. F. Porter (1980), so that `preference` finds `prefers`.

A stem need not be a word. Words of other scripts, with digits or marks, and words of one or two letters are their own
stems.
"""

from __future__ import annotations

import re
from functools import lru_cache

_CONSONANTS = "[^aeiou][^aeiouy]*"
_VOWELS = "[aeiouy][aeiou]*"
_ONE = re.compile(f"^({_CONSONANTS})?{_VOWELS}{_CONSONANTS}")
"""At least one vowel is followed by a consonant."""
_JUST_ONE = re.compile(f"^({_CONSONANTS})?{_VOWELS}{_CONSONANTS}({_VOWELS})?$")
_TWO = re.compile(f"^({_CONSONANTS})?{_VOWELS}{_CONSONANTS}{_VOWELS}{_CONSONANTS}")
_VOWEL = re.compile(f"^({_CONSONANTS})?[aeiouy]")
_SHORT = re.compile(f"^{_CONSONANTS}[aeiouy][^aeiouwxy]$")
_DOUBLE = re.compile(r"([^aeioulsz])\1$")
_WORD = re.compile(r"[a-z]{3,}")

_SECOND = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble", "logi": "log",
}  # fmt: skip
_THIRD = {
    "icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": "",
}  # fmt: skip
_FOURTH = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ou", "ism", "ate", "iti", "ous",
    "ive", "ize",
)  # fmt: skip


def _endings(*several: str) -> re.Pattern[str]:
    """The longest of several endings, with what stands before it."""
    return re.compile(f"^(.+?)({'|'.join(sorted(several, key=len, reverse=True))})$")


_ENDS_SECOND, _ENDS_THIRD, _ENDS_FOURTH = _endings(*_SECOND), _endings(*_THIRD), _endings(*_FOURTH)


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """The stem of a folded word."""
    if not _WORD.fullmatch(word):
        return word
    # A "y" that begins a word is a consonant, which the patterns tell by its case.
    word = "Y" + word[1:] if word[0] == "y" else word
    for step in (_plural, _past, _final_y, _second, _third, _fourth, _fifth):
        word = step(word)
    return word.lower()


def _plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _ONE.match(word[:-3]) else word
    for ending in ("ed", "ing"):
        if word.endswith(ending) and _VOWEL.match(rest := word[: -len(ending)]):
            if rest.endswith(("at", "bl", "iz")):
                return rest + "e"
            if _DOUBLE.search(rest):
                return rest[:-1]
            return rest + "e" if _SHORT.match(rest) and _JUST_ONE.match(rest) else rest
    return word


def _final_y(word: str) -> str:
    return word[:-1] + "i" if word.endswith("y") and _VOWEL.match(word[:-1]) else word


def _second(word: str) -> str:
    found = _ENDS_SECOND.match(word)
    return found[1] + _SECOND[found[2]] if found and _ONE.match(found[1]) else word


def _third(word: str) -> str:
    found = _ENDS_THIRD.match(word)
    return found[1] + _THIRD[found[2]] if found and _ONE.match(found[1]) else word


def _fourth(word: str) -> str:
    found = _ENDS_FOURTH.match(word)
    if found:
        return found[1] if _TWO.match(found[1]) else word
    return word[:-3] if word.endswith(("sion", "tion")) and _TWO.match(word[:-3]) else word


def _fifth(word: str) -> str:
    if word.endswith("e"):
        rest = word[:-1]
        if _TWO.match(rest) or (_JUST_ONE.match(rest) and not _SHORT.match(rest)):
            word = rest
    return word[:-1] if word.endswith("ll") and _TWO.match(word[:-1]) else word
