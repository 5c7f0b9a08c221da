"""A thread of a `ThreadSaver`, read from its rows: nothing is built that the answer does not need.

A checkpoint names a chain of messages and how many of them it has, so most questions are answered from numbers. All of
this runs on the connection's thread, inside a transaction of the caller.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, cast

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import Checkpoint, writes_sort_key
from langgraph.graph import START

from . import frames, tree
from .chains import pieces, read_keys
from .codec import Codec, is_ours
from .fold import Step, as_messages, gone, keyed, said
from .getting import COLUMNS, EXACT, Reader, Row, unpacked
from .items import find_thread
from .pending import pending, tells
from .shapes import Look, ThreadRow
from .source import NULL_TASK, RECORD, runs, turns
from .stock import Stock
from .tables import parents_of, row_bytes
from .tips import Place, Tips
from .values import CHAIN, LOOSE, SNAPSHOT, Form

CLASS = re.compile(rb".{2,9}langchain_core\.messages\.(\w+)", re.DOTALL)
"""How the serializer begins a message, with the module of its class."""
CLASS_BYTES = 64


class Reads:
    """One thread, one channel of messages."""

    def __init__(
        self, db: sqlite3.Connection, codec: Codec, tips: Tips, thread_id: str, channel: str, has_task_path: bool
    ) -> None:
        self.db, self.codec, self.tips = db, codec, tips
        self.thread_id, self.channel = thread_id, channel
        self.task_path = "task_path" if has_task_path else "''"
        self.reader = Reader(codec, Stock(tips))
        self._gone: dict[str, int] = {}
        self._rows: dict[str, Row] = {}

    def rows(self, *, newest: bool = False) -> list[Row]:
        """The checkpoints of the thread's own graph, oldest first, or only the newest."""
        query = f"SELECT {COLUMNS} FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = '' ORDER BY checkpoint_id"
        rows = self.db.execute(query + (" DESC LIMIT 1" if newest else ""), (self.thread_id,))
        return [unpacked(self.codec, row, []) for row in rows]

    # What was said

    def said(self, way: Sequence[str], *, newest: bool) -> list[BaseMessage]:
        """Everything that was said on the way to a checkpoint, `newest` if nothing follows it."""
        return said(self._steps(way, newest))

    def _steps(self, way: Sequence[str], newest: bool) -> Iterator[Step]:
        told = list(self._telling(way))
        rebuilt = {row.parent_id for row, _ in told if not self._has_value(row)}
        writes = self.writes(rebuilt) if rebuilt - {None} else {}
        for row, left in told[:-1]:
            yield Step(self.value(row), writes.get(row.at.checkpoint_id, ()), left)
        last, left = told[-1]
        value = self.value(last)
        if (chain := _chain(last.forms.get(self.channel))) is not None:
            # As after any read: what was built is not built from bytes again.
            tip = self.reader.stock.chains[chain[0]].tip
            self.tips.keep(Place(self.thread_id, "", self.channel), last.at.checkpoint_id, tip)
        own = self.writes({last.at.checkpoint_id}, task_id=NULL_TASK) if newest else {}
        yield Step(value, own.get(last.at.checkpoint_id, ()), left)
        yield Step(None, (), left)

    def _telling(self, way: Sequence[str]) -> Iterator[tuple[Row, int]]:
        """The rows with what has left by then; of those that only add to the same chain, the last.

        Where both ends of a stretch stand on one chain, all between them do, so few rows are looked at.
        """
        form = self.at(way[-1]).forms.get(self.channel)
        if form is None or form[0] != CHAIN:
            yield from self._telling_of_all(way)
            return
        place = 0
        while place < len(way):
            place = last_that(partial(self._adds, way[place], way), place, len(way) - 1)
            row = self.at(way[place])
            yield row, self.gone(row)
            place += 1

    def _telling_of_all(self, way: Sequence[str]) -> Iterator[tuple[Row, int]]:
        """The same where only some checkpoints store the messages: what is between two on one chain is left out."""
        self._rows = {row.at.checkpoint_id or "": row for row in self.rows()}
        told: list[str] = []
        stored = -1
        for place, checkpoint_id in enumerate(way):
            if _chain(self.at(checkpoint_id).forms.get(self.channel)):
                if stored >= 0 and self._adds(told[stored], way, place):
                    del told[stored:]
                stored = len(told)
            told.append(checkpoint_id)
        for checkpoint_id in told:
            yield self.at(checkpoint_id), self.gone(self.at(checkpoint_id))

    def at(self, checkpoint_id: str) -> Row:
        """A checkpoint of the thread's own graph, which exists."""
        if checkpoint_id not in self._rows:
            row = self.db.execute(f"SELECT {COLUMNS} FROM checkpoints {EXACT}", (self.thread_id, "", checkpoint_id))
            self._rows[checkpoint_id] = unpacked(self.codec, row.fetchone(), [])
        return self._rows[checkpoint_id]

    def _adds(self, before: str, way: Sequence[str], place: int) -> bool:
        """Whether the messages at a place of a way are those of `before`, and maybe more."""
        row, after = self.at(before), self.at(way[place])
        old, new = _chain(row.forms.get(self.channel)), _chain(after.forms.get(self.channel))
        if not (old and new and old[0] == new[0] and old[1] <= new[1]):
            return False
        return self.gone(row) == self.gone(after)

    def _has_value(self, row: Row) -> bool:
        return self.channel in row.forms if row.plain is None else self.value(row) is not None

    def value(self, row: Row) -> Any:
        """What a checkpoint stores of the channel."""
        if row.plain is not None:
            return (frames.fields(self.codec, *row.plain).get("channel_values") or {}).get(self.channel)
        form = row.forms.get(self.channel)
        return None if form is None else self._built(form)

    def _built(self, form: Form) -> Any:
        self.reader.stock.fetch(self.db, [form])
        return self.reader.value(form)

    def gone(self, row: Row) -> int:
        """How many messages have left because of us by then."""
        if row.plain is not None:
            return gone((frames.fields(self.codec, *row.plain).get("channel_values") or {}).get(RECORD))
        form = row.forms.get(RECORD)
        if form is None:
            return 0
        name = repr(form)
        if name not in self._gone:
            self._gone[name] = gone(self._built(form))
        return self._gone[name]

    def writes(self, checkpoints: set[str | None], *, task_id: str | None = None) -> dict[str | None, list[Any]]:
        """What the tasks after checkpoints wrote to the channel."""
        only = " AND checkpoint_id = ?" if len(checkpoints) == 1 else ""
        rows = self.db.execute(
            f"SELECT checkpoint_id, type, CAST(value AS BLOB), {self.task_path}, task_id, idx FROM writes "
            f"WHERE thread_id = ? AND checkpoint_ns = '' AND channel = ?{only}",
            (self.thread_id, self.channel, *(checkpoints if only else ())),
        )
        kept = [row for row in rows if row[0] in checkpoints and task_id in (None, row[4])]
        kept.sort(key=lambda row: writes_sort_key(*row[3:]))
        self.reader.stock.fetch(self.db, (frames.form(self.codec, row[1], row[2]) for row in kept if is_ours(row[1])))
        found: dict[str | None, list[Any]] = {}
        for checkpoint_id, type_, data, *_ in kept:
            found.setdefault(checkpoint_id, []).append(self.reader.write(type_, data))
        return found

    # The tree

    def looks(self) -> list[Look]:
        """The checkpoints as the tree needs them."""
        rows = self.rows()
        checkpoints = {row.at.checkpoint_id: self._outline(row) for row in rows}
        rebuilt = {
            row.parent_id
            for row in rows
            if not self._has_value(row) and self.channel in checkpoints[row.at.checkpoint_id]["channel_versions"]
        }
        writes = self.writes(rebuilt) if rebuilt else {}
        return [
            self._look(row, checkpoints[row.at.checkpoint_id], row.at.checkpoint_id in rebuilt, writes) for row in rows
        ]

    def _look(self, row: Row, outline: Checkpoint, needed: bool, writes: dict[str | None, list[Any]]) -> Look:
        held: Any = self._held(row, needed)
        if held is None and self.channel not in outline["channel_versions"]:
            held = {}
        return Look(
            row.at.checkpoint_id or "",
            row.parent_id,
            frames.metadata(row.metadata),
            outline["ts"],
            tuple(pending(outline)),
            held,
            writes.get(row.at.checkpoint_id, []),
            self.gone(row),
        )

    def _held(self, row: Row, needed: bool) -> Any:
        form = row.forms.get(self.channel)
        if form is not None and not needed and (length := _length(form)) is not None:
            return length
        if needed and (chain := _chain(form)) is not None:
            ids = [key.id for key in read_keys(self.db, *chain)]
            if None not in ids:
                return dict.fromkeys(ids)
        value = self.value(row)
        return None if value is None else keyed(value) if needed else len(as_messages(value))

    def _outline(self, row: Row) -> Checkpoint:
        """A checkpoint with what tells which nodes run next."""
        if row.plain is not None:
            return cast(Checkpoint, frames.fields(self.codec, *row.plain))
        # That a run has begun is told by its input being there, which may be long.
        wanted = {name: form for name, form in row.forms.items() if tells(name)}
        values = {name: None if name == START else self._built(form) for name, form in wanted.items()}
        return cast(Checkpoint, {**frames.fields(self.codec, *row.rest), "channel_values": values})

    # The list of threads

    def row(self) -> ThreadRow:
        """The thread in the list of threads."""
        parents = parents_of(self.db, self.thread_id)
        size = row_bytes(self.db, self.thread_id) + self._item_bytes()
        rows = self.rows(newest=True)
        if not rows:
            return ThreadRow(self.thread_id, 0, 0, 0, 0, "", (), size)
        human = self._human(rows[0])
        if human is None:
            messages = self.said(tree.path(parents, max(parents)), newest=True)
            counted = turns(messages), len(messages)
        else:
            counted = runs(human), len(human)
        outline = self._outline(rows[0])
        following = tuple(pending(outline))
        branches = len(tree.leaves(parents))
        return ThreadRow(self.thread_id, len(parents), branches, *counted, outline["ts"], following, size)

    def _human(self, row: Row) -> list[bool] | None:
        """Which messages of a checkpoint people wrote, told from their first bytes; None where that does not tell."""
        form = row.forms.get(self.channel)
        if form is None or form[0] != CHAIN or self.codec.encrypts or self.gone(row):
            return None
        if self.writes({row.at.checkpoint_id}, task_id=NULL_TASK):
            return None
        found: list[bool] = []
        for piece in pieces(self.db, form[1], form[2]):
            rows = self.db.execute(
                f"SELECT substr(CAST(data AS BLOB), 1, {CLASS_BYTES}) FROM lgm_links JOIN lgm_items ON id = item "
                "WHERE chain = ? AND position >= ? AND position < ? ORDER BY position",
                piece,
            )
            kinds = [CLASS.match(start) for (start,) in rows]
            if None in kinds or len(kinds) != piece.end - piece.start:
                return None
            found += [kind is not None and kind[1] == b"human" for kind in kinds]
        return found

    def _item_bytes(self) -> int:
        thread = find_thread(self.db, self.thread_id)
        query = "SELECT sum(length(data)) FROM lgm_item_holds JOIN lgm_items ON id = held WHERE thread = ?"
        return int(self.db.execute(query, (thread,)).fetchone()[0] or 0)


def last_that(holds: Callable[[int], bool], place: int, end: int) -> int:
    """The last place up to `end` at which something holds, if it does from `place` up to there and then no more."""
    step = 1
    while place + step <= end and holds(place + step):
        place, step = place + step, 2 * step
    while step := step // 2:
        if place + step <= end and holds(place + step):
            place += step
    return place


def _chain(form: Form | None) -> tuple[int, int] | None:
    """Chain and length of a form that stands for messages on one."""
    if form is None:
        return None
    if form[0] == SNAPSHOT:
        return _chain(form[1])
    return (form[1], form[2]) if form[0] == CHAIN else None


def _length(form: Form) -> int | None:
    """How many messages a form stands for; None where that has to be built."""
    if form[0] == CHAIN:
        return int(form[2])
    if form[0] == SNAPSHOT:
        return _length(form[1])
    return len(form[1]) if form[0] == LOOSE else None
