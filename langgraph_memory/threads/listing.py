"""Listing checkpoints page by page, so that nothing is locked between two of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.sqlite.utils import search_where

from . import frames
from .codec import Codec
from .getting import COLUMNS, Reader, Row, page
from .ids import same_thread
from .stock import Stock
from .tips import Tips

PAGE = 25
ORDER = "checkpoint_id, thread_id, checkpoint_ns"


class Listing:
    """Where a listing stands. Its messages and values are read once a page."""

    def __init__(
        self,
        config: RunnableConfig | None,
        wanted: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
        tips: Tips,
    ) -> None:
        self.where, params = search_where(same_thread(config), wanted, before)
        self.params = list(params)
        if limit is not None and (not isinstance(limit, int) or limit < 0):
            raise ValueError(f"limit is {limit!r}; allowed are whole numbers from 0, and None for all.")
        self.left = limit
        self.last: Sequence[Any] | None = None
        self.stock = Stock(tips)

    def next_page(self, db: sqlite3.Connection, codec: Codec, has_task_path: bool) -> list[Row]:
        size = PAGE if self.left is None else min(PAGE, self.left)
        if size <= 0:
            return []
        query = (
            f"SELECT {COLUMNS} FROM checkpoints {self._where()} ORDER BY {ORDER.replace(',', ' DESC,')} DESC LIMIT ?"
        )
        rows, self.stock = page(
            db, codec, self.stock.tips, query, [*self.params, *(self.last or ()), size], has_task_path
        )
        if rows:
            at = rows[-1].at
            self.last = at.checkpoint_id, at.thread_id, at.namespace
        if self.left is not None:
            self.left -= len(rows)
        return rows

    def _where(self) -> str:
        if self.last is None:
            return self.where
        return f"{self.where + ' AND' if self.where else 'WHERE'} ({ORDER}) < (?, ?, ?)"

    def build(self, db: sqlite3.Connection, codec: Codec, row: Row) -> CheckpointTuple:
        with frames.thread(row.at.thread_id):
            return Reader(codec, self.stock).tuple(row)
