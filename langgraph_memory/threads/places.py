"""Where a message of the index stands: in which thread, under which id, and since which checkpoint."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from . import frames, tree
from .chains import pieces
from .codec import Codec, is_ours
from .getting import EXACT
from .items import chunks
from .reads import last_that
from .tables import parents_of
from .values import CHAIN, DICT, LOOSE, ONE, SNAPSHOT, Form

WHOLE = 2**62


class Place(NamedTuple):
    """The first checkpoint of a thread that holds a message."""

    thread_id: str
    message_id: str | None
    checkpoint_id: str
    namespace: str


def threads_with(db: sqlite3.Connection, item: int, thread: int | None) -> list[tuple[int, str]]:
    """Number and id of the threads that hold an item, or of the named one if it does; the newest first."""
    query = "SELECT t.id, t.thread_id FROM lgm_item_holds JOIN lgm_threads t ON t.id = thread WHERE held = ?"
    rows = db.execute(query + " ORDER BY t.id DESC", (item,))
    return [(number, name) for number, name in rows if thread in (None, number)]


class Places:
    """Finds the places of some items in one thread."""

    def __init__(self, db: sqlite3.Connection, codec: Codec, thread_id: str, items: Iterable[int]) -> None:
        self.db, self.codec, self.thread_id = db, codec, thread_id
        self.missing = set(items)
        self.found: dict[int, Place] = {}
        self._links: dict[int, list[tuple[int, int, str | None]]] = {}
        self._rows: dict[str, list[Form]] = {}
        self._on: dict[int, list[tuple[int, int, str | None]]] = {}

    def look(self) -> dict[int, Place]:
        """The places of the items, as far as checkpoints or writes hold them."""
        self._read_links()
        parents = parents_of(self.db, self.thread_id)
        way = tree.path(parents, max(parents)) if parents else []
        for item in sorted(self.missing if way else ()):
            self._on_way(way, item)
        if self.missing:
            self._in_writes()
        if self.missing:
            self._anywhere()
        return self.found

    def _on_way(self, way: Sequence[str], item: int) -> None:
        """Look on the way to the newest checkpoint, where a message is in every checkpoint from its first one on.

        Not so in a delta channel, which only some checkpoints store.
        """
        if not any(item == held for form in self._forms(way[-1]) if form[0] == CHAIN for held, _ in self._held(form)):
            return
        backwards = range(len(way) - 1, -1, -1)
        first = last_that(lambda place: self._holds(way[backwards[place]], item), 0, len(way) - 1)
        for form in self._forms(way[backwards[first]]):
            self._in_form(form, way[backwards[first]], "", {item})

    def _holds(self, checkpoint_id: str, item: int) -> bool:
        return any(item == held for form in self._forms(checkpoint_id) for held, _ in self._held(form))

    def _forms(self, checkpoint_id: str) -> list[Form]:
        if checkpoint_id not in self._rows:
            query = f"SELECT type, CAST(checkpoint AS BLOB) FROM checkpoints {EXACT}"
            row = self.db.execute(query, (self.thread_id, "", checkpoint_id)).fetchone()
            self._rows[checkpoint_id] = self._unpacked(*row)
        return self._rows[checkpoint_id]

    def _unpacked(self, type_: str, data: bytes) -> list[Form]:
        if not is_ours(type_):
            return []
        # Input is held a second time where it goes, and there it has an id.
        return [form for channel, form in frames.frame(self.codec, type_, data).forms.items() if channel != "__start__"]

    def _anywhere(self) -> None:
        """Look at every checkpoint: of other branches, and of graphs inside."""
        rows = self.db.execute(
            "SELECT checkpoint_ns, checkpoint_id, type, CAST(checkpoint AS BLOB) FROM checkpoints WHERE thread_id = ? "
            "ORDER BY checkpoint_id",
            (self.thread_id,),
        )
        for namespace, checkpoint_id, type_, data in rows:
            if not self.missing:
                break
            for form in self._unpacked(type_, data):
                self._in_form(form, checkpoint_id, namespace, self.missing)

    def _read_links(self) -> None:
        for part, marks in chunks(sorted(self.missing)):
            rows = self.db.execute(
                f"SELECT chain, position, item, message_id FROM lgm_links WHERE item IN ({marks})", part
            )
            for chain, position, item, message_id in rows:
                self._links.setdefault(chain, []).append((position, item, message_id))

    def _in_form(self, form: Form, checkpoint_id: str, namespace: str, items: set[int]) -> None:
        for item, message_id in self._held(form):
            if item in items:
                self.missing.discard(item)
                self.found[item] = Place(self.thread_id, message_id, checkpoint_id, namespace)

    def _held(self, form: Form) -> Iterable[tuple[int, str | None]]:
        match form:
            case [shape, chain, length] if shape == CHAIN:
                return self._on_chain(chain, length)
            case [shape, inner] if shape == SNAPSHOT:
                return self._held(inner)
            case [shape, links] if shape == LOOSE:
                return ((item, message_id) for item, message_id in links)
            case [shape, item, message_id] if shape == ONE:
                return [(item, message_id)]
            case [shape, parts] if shape == DICT:
                return [held for part in parts.values() for held in self._held(part)]
        return []

    def _on_chain(self, chain: int, length: int) -> list[tuple[int, str | None]]:
        """Which of the items the first messages of a chain are."""
        if chain not in self._on:
            self._on[chain] = [
                (position, item, message_id)
                for piece in pieces(self.db, chain, WHOLE)
                for position, item, message_id in self._links.get(piece.chain, ())
                if piece.start <= position < piece.end
            ]
        return [(item, message_id) for position, item, message_id in self._on[chain] if position < length]

    def _in_writes(self) -> None:
        """Look at what was written to channels: it is in the checkpoint that followed."""
        rows = self.db.execute(
            "SELECT checkpoint_ns, checkpoint_id, type, CAST(value AS BLOB) FROM writes WHERE thread_id = ? "
            "AND channel NOT LIKE '\\_\\_%' ESCAPE '\\' ORDER BY checkpoint_id",
            (self.thread_id,),
        )
        followers = self._followers()
        for namespace, checkpoint_id, type_, data in rows:
            if is_ours(type_):
                child = followers.get((namespace, checkpoint_id), checkpoint_id)
                self._in_form(frames.form(self.codec, type_, data), child, namespace, self.missing)

    def _followers(self) -> dict[tuple[str, str], str]:
        """The first checkpoint behind each that has one."""
        rows = self.db.execute(
            "SELECT checkpoint_ns, parent_checkpoint_id, min(checkpoint_id) FROM checkpoints WHERE thread_id = ? "
            "GROUP BY checkpoint_ns, parent_checkpoint_id",
            (self.thread_id,),
        )
        return {(namespace, parent): child for namespace, parent, child in rows}
