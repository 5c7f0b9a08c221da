"""What a `lgm memory forget` would take away, found by doing it to a draft of the memory, of which nothing is written.

So what is shown is what goes, by the same rules. Summaries that were bought for threads of this workspace and hold the
text go too: they are only a cache.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from langgraph_memory.cache import FileCache
from langgraph_memory.context.text import one_line
from langgraph_memory.errors import LangGraphMemoryError
from langgraph_memory.longterm.entry import without_comment
from langgraph_memory.longterm.folder import STATE, Folder
from langgraph_memory.longterm.forgetting import CACHE, INDEX, MARKS, Holds, holding
from langgraph_memory.longterm.index import Index
from langgraph_memory.longterm.keeper import Keeper
from langgraph_memory.search_text import Query
from langgraph_memory.sessions import FOLDER as SESSIONS

from .errors import MemoryUnusableError

EXCERPT = 300


@dataclass(frozen=True, slots=True)
class Place:
    """A line that goes."""

    path: str
    line: int
    """From 1; 0 for a whole file."""
    text: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def places(keeper: Keeper, text: str) -> list[Place]:
    """What holds `text`. Raises `WorkspaceError` for one that is too short."""
    draft = _Draft(keeper)
    draft.forget(text)
    changes = sorted(one for one in draft.changes.items() if one[0] != MARKS)
    return [place for name, data in changes for place in _gone(keeper, name, data, text)]


def summaries(workspace: Path, holds: Holds) -> int:
    """How many bought summaries of the workspace hold a text."""
    file = workspace / CACHE
    if not file.is_file():
        return 0
    try:
        with closing(sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True)) as db:
            return sum(holds(row[0]) for row in db.execute("SELECT text FROM summaries"))
    except sqlite3.Error as error:
        raise MemoryUnusableError(
            f"{file}: the bought summaries cannot be read ({error}), so nothing was forgotten. The file may be "
            "deleted: summaries are then bought again."
        ) from error


def forget_summaries(workspace: Path, holds: Holds) -> int:
    """Drop the bought summaries that hold a text; how many."""
    file = workspace / CACHE
    return FileCache(file).forget(holds) if file.is_file() else 0


def holding_any(keeper: Keeper, text: str, places: Sequence[Place]) -> Holds:
    """What tells whether a summary holds `text`, or where that is the id of an entry, what the entry says."""
    names = {place.path for place in places if not place.path.startswith(SESSIONS)}
    said = {row.entry.text for name in names for row in keeper.rows(name) if row.entry.id == text}
    tests = [test for one in said or {text} if (test := _holding(one))]
    return lambda summary: any(test(summary) for test in tests)


def _holding(text: str) -> Holds | None:
    try:
        return holding(text)
    except LangGraphMemoryError:
        return None


class _DraftFolder:
    """A folder of which only reading is real."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.changes: dict[str, bytes | None] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._folder, name)

    def bytes_of(self, name: str) -> bytes | None:
        return self.changes[name] if name in self.changes else self._folder.bytes_of(name)

    def size(self, name: str) -> int:
        # Nothing of the draft is in the index.
        return 0 if name.startswith(INDEX) else len(self.bytes_of(name) or b"")

    def replace(self, name: str, data: bytes) -> None:
        self.changes[name] = data

    def remove(self, name: str) -> None:
        self.changes[name] = None

    def sweep(self) -> None:
        """What a crash left goes without being told."""

    def locked(self, seconds: float = 0) -> AbstractContextManager[None]:
        return nullcontext()


class _NoIndex:
    def forget(self) -> None:
        """There is nothing in it."""

    def close(self) -> None:
        """Nor is it open."""


class _Draft(Keeper):
    """A memory that notes what would be written."""

    def __init__(self, keeper: Keeper) -> None:
        folder = _DraftFolder(keeper.folder)
        self.changes = folder.changes
        self.folder, self.index = cast(Folder, folder), cast(Index, _NoIndex())

    def sync(self, seconds: float = 0) -> None:
        """The files are read as they are."""

    def flushed_keys(self) -> dict[str, str]:
        """What is kept beside the text is no part of a draft."""
        return {}


def _gone(keeper: Keeper, name: str, data: bytes | None, text: str) -> Iterator[Place]:
    """The lines of a file that are not in `data`, which has no others."""
    before = keeper.folder.bytes_of(name) or b""
    if data is None:
        yield Place(name, 0, "the whole file")
        return
    if name == STATE:
        # How far consolidation is may be written anew too, but says nothing.
        gone = json.loads(before).keys() - json.loads(data).keys()
        yield from (Place(name, 0, f"what consolidation has noted under {key!r}") for key in sorted(gone))
        return
    lines = _lines(before)
    there = set(lines)
    # A logged message leaves a line without its text.
    kept = iter([line for line in _lines(data) if line in there])
    following = next(kept, None)
    for number, line in enumerate(lines, 1):
        if line == following:
            following = next(kept, None)
        else:
            yield Place(name, number, _shown(line, text) if name.endswith(".jsonl") else without_comment(line))


def _lines(data: bytes) -> list[str]:
    return data.decode(errors="replace").split("\n")


def _shown(line: str, text: str) -> str:
    """A logged message in one line, around what is forgotten."""
    try:
        message = json.loads(line)
        content = message["data"]["content"]
        said = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        return f"{message.get('type')}: {Query.of(text).excerpt(said, EXCERPT)}"
    except (ValueError, TypeError, KeyError, RecursionError):
        return one_line(line, EXCERPT)
