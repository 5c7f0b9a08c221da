"""Ids of new threads: short, and easy to read aloud and to type again."""

from __future__ import annotations

import secrets
from collections.abc import Collection

FIRST = "amber brisk calm clear early fair fresh gentle green keen light mild quiet small still swift warm wide"
SECOND = "bay birch brook cloud dune fern field gull harbour heron lake meadow otter pine reed tide wave willow"


def new_id(taken: Collection[str]) -> str:
    """An id that is not taken."""
    while True:
        words = (secrets.choice(part.split()) for part in (FIRST, SECOND))
        name = "-".join((*words, str(secrets.randbelow(90) + 10)))
        if name not in taken:
            return name
