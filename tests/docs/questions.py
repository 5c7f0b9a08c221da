"""How SQL is asked."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .blocks import Block

if TYPE_CHECKING:
    from .running import Document


def run_sql(document: Document, block: Block) -> None:
    """Every statement of the block, on a database that cannot be written; all of them find something."""
    own = Path("memory/threads.db")
    named = block.remarks.get("changes") or block.remarks.get("database") or (own if own.exists() else None)
    path = Path(named) if named else document.sample().folder / own
    assert path.exists(), f"{block.place}: there is no {path}"
    mode = "rw" if "changes" in block.remarks else "ro"
    lines: list[str] = []
    with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True)) as db:
        for statement in _statements(block.text):
            cursor = db.execute(statement)
            lines += _table(cursor, block)
        db.commit()
    document.printed = "\n".join(lines)


def _table(cursor: sqlite3.Cursor, block: Block) -> list[str]:
    if cursor.description is None:
        assert "changes" in block.remarks, f"{block.place}: this is no question"
        return []
    rows = cursor.fetchall()
    assert bool(rows) != ("no rows" in block.remarks), f"{block.place}: {len(rows)} rows"
    names = [column[0] for column in cursor.description]
    return [" | ".join(line) for line in (names, *(map(_cell, row) for row in rows))]


def _statements(text: str) -> list[str]:
    statements, pending = [], ""
    for line in text.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            statements.append(pending)
            pending = ""
    return [*statements, pending] if pending.strip() else statements


def _cell(value: Any) -> str:
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    return "" if value is None else str(value)
