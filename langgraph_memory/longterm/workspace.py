"""`Workspace`: the long-term memory of one namespace, for async programs.

    workspace = Workspace("memory", ("ada",))
    await workspace.append([{"text": "Ada prefers dark mode."}])
    for hit in await workspace.search("which theme does she like?"):
        print(hit.score, hit.text)

Everything here works in threads, so nothing waits for a file on the event loop. `Workspace.keeper` is the same,
blocking.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from . import history
from .entry import Entry
from .index import Hit
from .keeper import Keeper


class Workspace:
    """Ledger, MEMORY.md and index in the folder of `namespace` under `path`; nothing is made before the first write.

    `namespace` are the parts of the folder, one for `memory.namespace: ["{user_id}"]`; () is the one all share.
    """

    def __init__(self, path: str | PathLike[str], namespace: Sequence[str] | str = ()) -> None:
        self.path = Path(path).expanduser()
        self.namespace = (namespace,) if isinstance(namespace, str) else tuple(namespace)
        if not all(isinstance(part, str) for part in self.namespace):
            raise TypeError(f"namespace: {namespace!r} has parts that are no text; give a text or a sequence of texts.")
        self.keeper = Keeper(self.path, self.namespace)

    async def append(self, entries: Iterable[Entry | Mapping[str, Any] | str]) -> list[Entry]:
        """Add entries; those whose text is there already are left out. Returns what was added.

        Of a mapping only `text` is required: `id` is kept, `timestamp` is ISO 8601 (without a zone it is local,
        missing it is now), `type` is `fact` unless it says otherwise. Raises `EntryError` before anything is written,
        and `OSError` where the files cannot be.
        """
        # An iterable is gone through here, as it may belong to the loop.
        given = [entries] if isinstance(entries, (str, Mapping, Entry)) else list(entries)
        return await asyncio.to_thread(self.keeper.append, given)

    async def search(self, query: str, *, limit: int = 10) -> list[Hit]:
        """The best entries for any text, best first; [] for one without words."""
        return await asyncio.to_thread(self.keeper.search, query, limit)

    async def get(self, path: str, start: int = 1, end: int | None = None) -> str:
        """Lines `start` to `end` of a file that a hit names, counted from 1. Raises `WorkspaceError`."""
        return await asyncio.to_thread(self.keeper.get, path, start, end)

    async def memory_md(self) -> str:
        """The curated memory, "" where there is none."""
        return await asyncio.to_thread(self.keeper.memory_md)

    async def diff(self, old: str | None = None, new: str = history.PRESENT) -> history.Diff:
        """What changed in the curated memory from version `old`, else from the newest, to `new`: a unified diff.

        A version is named as `lgm memory log` shows it. Raises `WorkspaceError` for a name that is none.
        """
        return await asyncio.to_thread(history.diff, self.keeper, old, new)

    async def forget(self, text: str) -> int:
        """Remove whatever holds `text` from every file and the index; in how many places it was."""
        return await asyncio.to_thread(self.keeper.forget_everywhere, text)

    async def reindex(self) -> int:
        """Make the index anew from the files; how many entries it holds."""
        return await asyncio.to_thread(self.keeper.reindex)

    async def aclose(self) -> None:
        """Close the index; it is opened again by whatever is called next."""
        await asyncio.to_thread(self.keeper.close)

    async def __aenter__(self) -> Workspace:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.aclose()
