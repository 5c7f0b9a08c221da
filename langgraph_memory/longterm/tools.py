"""The tools a model has for long-term memory: memory_search, memory_get, memory_save and memory_forget.

They work on the namespace of the run that calls them. What they return was written by people, models and tools: it
comes as quoted data between tags, and is not extracted again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec, Protocol

from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool

from ..context.text import escape_tags, one_line, preview, trimmed_marker
from ..context.tokens import estimator_for
from ..errors import LangGraphMemoryError
from ..tooling import make_tool
from .entry import Entry
from .forgetting import BY, TOOL
from .keeper import Keeper, lines_at
from .redact import redact
from .retrieve import CLOSING, OPENING, Found, Retriever, block

P = ParamSpec("P")
SEARCH_TOKENS = 2000
MOST_HITS = 50
MOST_LINES = 200
MOST_CHARS = 20_000
PROBLEM_CHARS = 600
OFF = "Long-term memory is off for this run: it is not known whose memory to use."


class Homes(Protocol):
    """Finds the memory that a run belongs to."""

    def keeper(self, runtime: Any) -> Keeper | None:
        """None where long-term memory is off for the run."""

    async def said(self, runtime: Any, query: str, limit: int) -> Sequence[Found]:
        """What fits a query in the messages of the run's thread."""

    def said_sync(self, runtime: Any, query: str, limit: int) -> Sequence[Found]: ...

    def retriever(self, keeper: Keeper) -> Retriever: ...

    def changed(self, runtime: Any, reason: str, count: int) -> None:
        """Hears that a tool has changed the memory."""


def make_memory_tools(homes: Homes) -> list[BaseTool]:
    """The four tools, for the memories that `homes` finds."""
    calls = MemoryCalls(homes)
    return [
        make_tool(_telling(calls.search), _telling_async(calls.asearch), "memory_search"),
        *(_tool(call, f"memory_{call.__name__}") for call in (calls.get, calls.save, calls.forget)),
    ]


class MemoryCalls:
    """What the tools do; what the model reads of them are the docstrings."""

    def __init__(self, homes: Homes) -> None:
        self._homes = homes

    def search(self, query: str, runtime: ToolRuntime, limit: int = 10) -> str:
        """Search what is remembered of this user from earlier conversations, and this conversation's own messages.

        Args:
            query: What to look for, in the words it may have been noted in.
            limit: Number of results, at most 50.
        """
        if (keeper := self._homes.keeper(runtime)) is None:
            return OFF
        limit = min(max(limit, 1), MOST_HITS)
        return self._searched(keeper, query, self._homes.said_sync(runtime, query, 2 * limit), limit)

    async def asearch(self, query: str, runtime: ToolRuntime, limit: int = 10) -> str:
        if (keeper := self._homes.keeper(runtime)) is None:
            return OFF
        limit = min(max(limit, 1), MOST_HITS)
        said = await self._homes.said(runtime, query, 2 * limit)
        return await asyncio.to_thread(self._searched, keeper, query, said, limit)

    def _searched(self, keeper: Keeper, query: str, said: Sequence[Found], limit: int) -> str:
        found = self._homes.retriever(keeper).ranked(query, said, limit)
        return block(found, SEARCH_TOKENS, estimator_for("auto").text) or "Nothing was found."

    def get(self, path: str, runtime: ToolRuntime, start: int = 1, end: int | None = None) -> str:
        """Read lines of a memory file, such as the surroundings of a search result.

        Args:
            path: "MEMORY.md" or a path from a search result, such as "memory/2026-11-30.md" or, from its line 12 on,
                "memory/2026-11-30.md:12".
            start: First line, counted from 1.
            end: Last line; at most 200 lines and 20,000 characters are returned.
        """
        if (keeper := self._homes.keeper(runtime)) is None:
            return OFF
        path, start, end = lines_at(path, start, end)
        most = max(start, 1) + MOST_LINES - 1
        text = keeper.get(path, start, most if end is None else min(end, most))
        text = preview(text, MOST_CHARS, trimmed_marker(MOST_CHARS, len(text), None))
        return f"{OPENING}\n{escape_tags(text)}\n{CLOSING}" if text.strip() else "No such lines."

    def save(self, text: str, runtime: ToolRuntime) -> str:
        """Remember something about this user or their work beyond this conversation.

        Args:
            text: One fact that will make sense on its own, in the user's language.
        """
        if (keeper := self._homes.keeper(runtime)) is None:
            return OFF
        thread = (runtime.config.get("configurable") or {}).get("thread_id")
        about = {"text": redact(text), "thread": None if thread is None else str(thread)}
        added = keeper.append([Entry.of({**about, "metadata": {BY: TOOL}})])
        if not added:
            return "This is remembered already."
        self._homes.changed(runtime, "saved", len(added))
        return "Saved."

    def forget(self, text: str, runtime: ToolRuntime) -> str:
        """Remove something from memory for good: every note that holds this text.

        Args:
            text: Words that the notes contain exactly, or the id of a note.
        """
        if (keeper := self._homes.keeper(runtime)) is None:
            return OFF
        count = keeper.forget_everywhere(text)
        if count:
            self._homes.changed(runtime, "forgotten", count)
        return f"Removed {count} {'note' if count == 1 else 'notes'}." if count else "No note holds this text."


def _tool(call: Callable[..., str], name: str) -> BaseTool:
    told = _telling(call)
    return make_tool(told, _in_thread(told), name)


def _telling(call: Callable[P, str]) -> Callable[P, str]:
    """Tell the model what was wrong with what it gave, or that the memory cannot be used; the run goes on."""

    @wraps(call)
    def told(*args: P.args, **options: P.kwargs) -> str:
        try:
            return call(*args, **options)
        except (LangGraphMemoryError, OSError) as error:
            return _problem(error)

    return told


def _telling_async(call: Callable[P, Awaitable[str]]) -> Callable[P, Awaitable[str]]:
    @wraps(call)
    async def told(*args: P.args, **options: P.kwargs) -> str:
        try:
            return await call(*args, **options)
        except (LangGraphMemoryError, OSError) as error:
            return _problem(error)

    return told


def _problem(error: Exception) -> str:
    return escape_tags(one_line(f"That did not work: {error}", PROBLEM_CHARS))


def _in_thread(call: Callable[P, str]) -> Callable[P, Awaitable[str]]:
    @wraps(call)
    async def threaded(*args: P.args, **options: P.kwargs) -> str:
        return await asyncio.to_thread(call, *args, **options)

    return threaded
