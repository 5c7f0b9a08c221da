"""Completion of thread and checkpoint ids in a shell: quick, quiet, and empty where there is nothing to be read."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import typer

MOST = 200
THREADS = (
    "SELECT thread_id FROM checkpoints WHERE substr(thread_id, 1, ?) = ? GROUP BY thread_id "
    "ORDER BY max(checkpoint_id) DESC LIMIT ?"
)
CHECKPOINTS = (
    "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = '' "
    "AND substr(checkpoint_id, 1, ?) = ? ORDER BY checkpoint_id DESC LIMIT ?"
)


def complete_thread(ctx: typer.Context, incomplete: str) -> list[str]:
    """Threads whose id begins so, the one changed last first."""
    return _read(ctx, THREADS, len(incomplete), incomplete, MOST)


def complete_checkpoint(ctx: typer.Context, incomplete: str) -> list[str]:
    """Checkpoints of the thread that was named before, the newest first."""
    # An option whose value is being typed ends the parsing: what stands before it is left as it was written.
    thread = ctx.params.get("thread") or next(iter(ctx.args), None)
    return _read(ctx, CHECKPOINTS, thread, len(incomplete), incomplete, MOST) if thread else []


def complete_view(ctx: typer.Context, incomplete: str) -> list[str]:
    """Threads, and behind an @ the checkpoints of the thread before it."""
    thread, at, checkpoint = incomplete.rpartition("@")
    found = _read(ctx, CHECKPOINTS, thread, len(checkpoint), checkpoint, MOST) if at else []
    return [*complete_thread(ctx, incomplete), *(f"{thread}@{one}" for one in found)]


def _read(ctx: typer.Context, query: str, *values: object) -> list[str]:
    from langgraph_memory.config import load_config
    from langgraph_memory.errors import LangGraphMemoryError

    from .quietly import looking

    try:
        config = load_config(ctx.params.get("config")).config
        file = Path(config.persistence.thread_db).expanduser()
        if not file.is_file():
            return []
        with looking(file) as db:
            return [row[0] for row in db.execute(query, values)]
    except (LangGraphMemoryError, sqlite3.Error, OSError):
        # Nobody wants to read of errors between two keys.
        return []
