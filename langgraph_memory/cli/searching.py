"""Searching threads and long-term memories together, as one list."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, cast

from langgraph_memory.config import RuntimeConfig
from langgraph_memory.longterm.index import Hit as Entry
from langgraph_memory.longterm.keeper import Keeper
from langgraph_memory.longterm.ranking import Decay
from langgraph_memory.longterm.retrieve import Found, Retriever
from langgraph_memory.search_text import Query
from langgraph_memory.threads import Hit
from langgraph_memory.threads.clock import moment_of

from .database import open_store
from .whose import Memory

EXCERPT = 160


@dataclass(frozen=True, slots=True)
class Row:
    """Something that was found, in a thread or in a memory."""

    source: Literal["thread", "memory"]
    where: str
    """The thread, or the memory."""
    kind: str
    """Role of a message, type of an entry."""
    place: str
    """Id of a message; path and line of an entry."""
    text: str
    """One line, around the first word that was found."""
    score: float
    """Larger is better; comparable within one search."""
    data: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {"source": self.source, **self.data, "score": self.score}


def in_threads(hits: Iterable[Hit]) -> list[Row]:
    """What was found in threads only, as it was ranked there."""
    return [_message(hit, hit.score) for hit in hits]


def thread_hits(file: Path, query: str, thread: str | None, limit: int) -> list[Hit]:
    """The messages in a database that fit a query best; brings its index up to date."""

    async def run() -> list[Hit]:
        async with open_store(file, changing=True) as store:
            return await store.search(query, thread_id=thread, limit=limit)

    return asyncio.run(run())


def ranked(query: str, hits: Sequence[Hit], memories: Sequence[Memory], config: RuntimeConfig, limit: int) -> list[Row]:
    """The best of messages and entries, ranked as an agent's own search does."""
    several = _Several(query, memories)
    said = [_said(hit, number) for number, hit in enumerate(hits)]
    found = Retriever(cast(Keeper, several), config.memory.retrieval).ranked(query, said, limit)
    return [_row(one, query, hits, several) for one in found]


class _Several:
    """Several memories that are searched as if they were one. Places begin with the number of the memory."""

    def __init__(self, query: str, memories: Sequence[Memory]) -> None:
        self.memories = memories
        self._query = Query.of(query)
        self.hits: dict[str, tuple[Memory, Entry]] = {}

    def search(self, query: str, limit: int, **decay: float) -> list[Entry]:
        found: list[Entry] = []
        for number, memory in enumerate(self.memories):
            hits = memory.keeper.search(query, limit, **decay)
            scale = self._scale(hits[0], **decay) if hits else 1.0
            for hit in hits:
                path = f"{number}:{hit.path}"
                self.hits[f"{path}:{hit.line}"] = memory, hit
                found.append(replace(hit, path=path, score=hit.score * scale))
        return sorted(found, key=lambda hit: -hit.score)[:limit]

    def _scale(self, best: Entry, *, decay_floor: float, decay_hours: float) -> float:
        """What puts the scores of a memory on one scale with the others, as their indexes know nothing of each other:
        its best counts as much as it holds of the query, and less for its age."""
        if len(self.memories) == 1 or best.score <= 0:
            return 1.0
        age = Decay(datetime.now().timestamp(), decay_floor, decay_hours)
        held = self._query.holds(best.text) + 0.5
        return held * age.of(datetime.fromisoformat(best.timestamp).timestamp()) / best.score


def _said(hit: Hit, number: int) -> Found:
    when = moment_of(hit.checkpoint_id)
    return Found("thread", str(number), hit.excerpt, hit.score, when.isoformat() if when else "")


def _row(found: Found, query: str, hits: Sequence[Hit], several: _Several) -> Row:
    if found.source == "thread":
        return _message(hits[int(found.place)], found.score)
    memory, hit = several.hits[found.place]
    data = {
        "memory": memory.name,
        "path": hit.path,
        "line": hit.line,
        "id": hit.id,
        "type": hit.type,
        "text": hit.text,
        "timestamp": hit.timestamp,
        "thread_id": hit.thread_id,
        "abandoned": hit.abandoned,
    }
    kind = f"{hit.type}, given up" if hit.abandoned else hit.type
    text = Query.of(query).excerpt(hit.text, EXCERPT)
    return Row("memory", memory.name, kind, f"{hit.path}:{hit.line}", text, found.score, data)


def _message(hit: Hit, score: float) -> Row:
    data = {**hit.to_json(), "score": score}
    return Row("thread", hit.thread_id, hit.role, hit.message_id or "–", hit.excerpt, score, data)
