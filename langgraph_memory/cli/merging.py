"""Consolidating a memory by hand: with the model that the configuration names, or without one."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from langgraph_memory.cache import FileCache, Guarded
from langgraph_memory.config import RuntimeConfig
from langgraph_memory.context.budget import DEFAULT_WINDOW
from langgraph_memory.context.tokens import load_counter
from langgraph_memory.earlier import StoredMessages
from langgraph_memory.longterm import history
from langgraph_memory.longterm.consolidate import Consolidated, Consolidation, Mark, unmerged_rows
from langgraph_memory.longterm.forgetting import CACHE
from langgraph_memory.longterm.keeper import Keeper
from langgraph_memory.models import Model, for_side_calls, model_window, resolve_model
from langgraph_memory.sidework import run

from .database import database_of, open_store
from .memory_versions import counts
from .whose import Memory

DONE = ("written", "preview", "nothing")


@dataclass(frozen=True, slots=True)
class Merged:
    """What a consolidation did, or would do."""

    result: Consolidated
    model: str | None

    @property
    def done(self) -> bool:
        return self.result.outcome in DONE

    @property
    def diff(self) -> str:
        return history.unified(self.result.before, self.result.after, "MEMORY.md", "MEMORY.md")

    def to_json(self) -> dict[str, Any]:
        added, removed = counts(self.result.before, self.result.after)
        return {
            "outcome": self.result.outcome,
            "reason": self.result.reason,
            "entries": self.result.entries,
            "added": added,
            "removed": removed,
            "diff": self.diff,
            "model": self.model,
        }


def merge(memory: Memory, *, dry_run: bool = False, without_model: bool = False) -> Merged:
    """Merge what is new into MEMORY.md now, however long ago that was done last. Raises `ConfigError` for a model."""
    config, settings = memory.config, memory.config.memory
    name = None if without_model else settings.consolidation.model or settings.compaction.model
    key = "consolidation" if settings.consolidation.model else "compaction"
    model: Model | None = resolve_model(name, f"memory.{key}.model")
    threads, file = _threads(memory.keeper), database_of(config)
    alive = asyncio.run(_alive(file, threads)) if threads and file else {}
    task = Consolidation(
        memory.keeper,
        settings.consolidation,
        counter=load_counter(settings.tokenizer),
        has_model=model is not None,
        window=model_window(model) or _window(config),
        alive=alive.get,
        force=True,
        dry_run=dry_run,
    )
    cache = Guarded(FileCache(memory.workspace / CACHE)) if model is not None else None
    side = for_side_calls(model) if model is not None else None
    run(task, side, seconds=settings.compaction.timeout_seconds, cache=cache)
    return Merged(task.result, name)


def _window(config: RuntimeConfig) -> int:
    window = config.memory.context_window
    return window if isinstance(window, int) else DEFAULT_WINDOW


def _threads(keeper: Keeper) -> set[str]:
    """The threads whose entries are to be merged, or were left out because of the branch they were made on."""
    rows = chain(*unmerged_rows(keeper, Mark.of(keeper.state())))
    return {row.entry.thread_id for row in rows if row.entry.thread_id is not None}


async def _alive(file: Path, threads: Collection[str]) -> dict[str, Collection[str] | None]:
    """Ids of the messages on the branch that each thread is on; those of threads that are not known are left out."""
    async with open_store(file) as store:
        stored = StoredMessages(store.saver)
        found = {thread: await stored.messages(thread) for thread in threads}
    return {thread: {str(one.id) for one in messages} for thread, messages in found.items() if messages}
