"""MEMORY.md without a model: new entries are added as list items under their day, what is there already is left out.

Deterministic, and the same entries may be merged again and again. Days stand in their order, the entries of a day in
that of the ledger; duplicates of what we wrote go. Where the size demands it, the oldest blocks that nobody pinned go.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import date
from typing import NamedTuple

from ..context.text import clean_text
from ..context.verdict import Count
from .curated import Block, blocks_of, cut, distinct, folded, text_of

_DAY = re.compile(r"## +(\d{4}-\d\d-\d\d)\s*")
_MOST_ROUNDS = 8


class Fact(NamedTuple):
    """What an entry says, and its day."""

    day: date
    text: str


def merged(text: str, facts: Sequence[Fact], max_tokens: int, count: Count, *, keep: Collection[str] = ()) -> str:
    """`text` with `facts` in it. Blocks with a print in `keep`, a person's, are neither changed nor dropped early."""
    # What says again what is about to be cut is only missed once that is cut.
    for _ in range(_MOST_ROUNDS):
        before, text = text, cut(_added(text, facts, keep), max_tokens, count, keep=keep)
        if text == before:
            break
    return text


def item_of(fact: Fact) -> Block:
    """The list item for a fact. Only a person pins, and no comment of a fact hides what comes behind it."""
    lines = [line.strip() for line in clean_text(fact.text).replace("<!--", "&lt;!--").splitlines() if line.strip()]
    first, *rest = lines or ["-"]
    block = Block((f"- {first}", *(f"  {line}" for line in rest)), (heading_of(fact.day),))
    return block.without_pin()


def heading_of(day: date) -> str:
    return f"## {day.isoformat()}"


def _added(text: str, facts: Sequence[Fact], keep: Collection[str]) -> str:
    blocks = distinct(blocks_of(text), keep=keep)
    known = {block.key for block in blocks}
    items = [item_of(fact) for fact in sorted(facts, key=lambda fact: fact.day)]
    below: str | None = None
    # From the last to the first, so that one that is missing comes before the next of its day.
    for item in reversed(items):
        if item.key in known:
            below = item.key if any(one.key == item.key and one.above[-1:] == item.above for one in blocks) else below
            continue
        known.add(item.key)
        _insert(blocks, item, below)
        below = item.key
    return text_of(blocks)


def _insert(blocks: list[Block], item: Block, below: str | None) -> None:
    """Put an item under its day, before the block `below` if that is there, else at the end."""
    heading = item.above[-1]
    day = _DAY.fullmatch(heading)
    assert day is not None
    start = next((place for place, block in enumerate(blocks) if block.text.strip() == heading), None)
    if start is None:
        start = next((place for place, block in enumerate(blocks) if _later(block, day[1])), len(blocks))
        blocks.insert(start, Block((heading,), (), True))
        blocks.insert(start + 1, replace(item, parted=True))
        return
    end = next((place for place in range(start + 1, len(blocks)) if blocks[place].level), len(blocks))
    place = next((place for place in range(start + 1, end) if below and blocks[place].key == below), end)
    parted = blocks[place].parted if place < end else place == start + 1
    blocks.insert(place, replace(item, parted=parted))
    if place < end:
        blocks[place + 1] = replace(blocks[place + 1], parted=False)


def _later(block: Block, day: str) -> bool:
    found = _DAY.fullmatch(block.text)
    return found is not None and found[1] > day


def holds(text: str, said: str) -> bool:
    """Whether a block of `text` says just this."""
    return folded(said) in {block.key for block in blocks_of(text)}
