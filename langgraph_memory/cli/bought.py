"""The summaries that were bought, as `cache.db` in the workspace tells; nothing is made or changed for it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from .quietly import looking

CACHE = "cache.db"
T = TypeVar("T")


class Bought:
    """What was bought, looked up in a workspace. A file that is missing or damaged knows of nothing."""

    def __init__(self, workspace: Path) -> None:
        self._file = workspace / CACHE

    def origin(self, boundary: str, text: str) -> str:
        """Where the summary of the messages up to `boundary` is from; empty where that is not known."""
        query = "SELECT model, created, text FROM summaries WHERE boundary = ? ORDER BY rowid"
        rows: list[tuple[str, float, str]] = self._read(lambda db: db.execute(query, (boundary,)).fetchall(), [])
        # A long text may have been shortened in the middle.
        same = [row for row in rows if row[2] == text] or [row for row in rows if row[2][:200] == text[:200]]
        if not same:
            return ""
        model, created, _ = same[-1]
        when = datetime.fromtimestamp(created).astimezone().strftime("%Y-%m-%d %H:%M")
        return f"bought from {model or 'a model'} on {when}"

    def covering(self, boundaries: Sequence[str]) -> dict[str, str]:
        """The newest summary of each of `boundaries` that has one."""
        query = "SELECT boundary, text FROM summaries WHERE boundary IN (SELECT value FROM json_each(?)) ORDER BY rowid"
        return self._read(lambda db: dict(db.execute(query, (json.dumps(list(boundaries)),)).fetchall()), {})

    def answer(self, digest: str) -> str | None:
        """The summary that was bought for a prompt."""
        query = "SELECT text FROM summaries WHERE digest = ?"
        row = self._read(lambda db: db.execute(query, (digest,)).fetchone(), None)
        return str(row[0]) if row else None

    def _read(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        if not self._file.is_file():
            return otherwise
        try:
            with looking(self._file) as db:
                return work(db)
        except sqlite3.Error:
            return otherwise
