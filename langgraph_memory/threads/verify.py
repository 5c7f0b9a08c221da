"""Is the file what it should be? Everything is hashed and followed again; nothing is changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..errors import LangGraphMemoryError
from .chains import read_items_of
from .codec import Codec
from .schema import BLOB, MESSAGE, reading
from .sweep import forms_of
from .values import lengths_and_items


@dataclass(frozen=True, slots=True)
class ThreadStats:
    """What a database of threads holds. The bytes of the parts are those of the stored values only."""

    threads: int
    checkpoints: int
    plain_checkpoints: int
    """Written by the plain saver."""
    writes: int
    messages: int
    message_bytes: int
    blobs: int
    blob_bytes: int
    chains: int
    links: int
    file_bytes: int
    free_bytes: int
    """Part of the file that `vacuum` gives back."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What was looked at, and what is wrong."""

    checkpoints: int
    writes: int
    items: int
    chains: int
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems


def count(db: sqlite3.Connection) -> ThreadStats:
    def one(query: str) -> int:
        return int(db.execute(query).fetchone()[0] or 0)

    with reading(db):
        sizes = {
            kind: (number, total or 0)
            for kind, number, total in db.execute(
                "SELECT kind, count(*), sum(length(data)) FROM lgm_items GROUP BY kind"
            )
        }
        page = one("PRAGMA page_size")
        return ThreadStats(
            threads=one("SELECT count(DISTINCT thread_id) FROM checkpoints"),
            checkpoints=one("SELECT count(*) FROM checkpoints"),
            plain_checkpoints=one("SELECT count(*) FROM checkpoints WHERE type NOT LIKE 'lgm1%'"),
            writes=one("SELECT count(*) FROM writes"),
            messages=sizes.get(MESSAGE, (0, 0))[0],
            message_bytes=sizes.get(MESSAGE, (0, 0))[1],
            blobs=sizes.get(BLOB, (0, 0))[0],
            blob_bytes=sizes.get(BLOB, (0, 0))[1],
            chains=one("SELECT count(*) FROM lgm_chains"),
            links=one("SELECT count(*) FROM lgm_links"),
            file_bytes=one("PRAGMA page_count") * page,
            free_bytes=one("PRAGMA freelist_count") * page,
        )


def check(db: sqlite3.Connection, codec: Codec) -> VerifyReport:
    with reading(db):
        problems = [row[0] for row in db.execute("PRAGMA integrity_check") if row[0] != "ok"]
        for look in (_items, _chains, _threads, _unheld):
            problems += look(db, codec)
        totals = [db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES]
    return VerifyReport(totals[0], totals[1], totals[2], totals[3], problems)


TABLES = ("checkpoints", "writes", "lgm_items", "lgm_chains")


def _items(db: sqlite3.Connection, codec: Codec) -> Iterator[str]:
    for number, digest, type_, data in db.execute("SELECT id, digest, type, data FROM lgm_items"):
        try:
            right = codec.identified(*codec.unseal(type_, data)).digest == digest
        except Exception as error:  # noqa: BLE001 - a cipher may raise anything at bytes that were changed
            yield f"item {number} cannot be read: {error!r}"
            continue
        if not right:
            yield f"item {number} is not what its digest says"


def _chains(db: sqlite3.Connection, codec: Codec) -> Iterator[str]:
    rows = db.execute(
        "SELECT c.id, c.fork, c.length, c.parent, p.length, count(l.position), min(l.position), max(l.position) "
        "FROM lgm_chains c LEFT JOIN lgm_chains p ON p.id = c.parent LEFT JOIN lgm_links l ON l.chain = c.id "
        "GROUP BY c.id"
    )
    for chain, fork, length, parent, before, links, first, last in rows:
        if links != length - fork or (links and (first, last) != (fork, length - 1)):
            yield f"chain {chain} has {links} links for the messages {fork} to {length}"
        if fork and (parent is None or before is None or before < fork):
            yield f"chain {chain} begins with {fork} messages of chain {parent}, which has {before}"


def _threads(db: sqlite3.Connection, codec: Codec) -> Iterator[str]:
    threads = db.execute("SELECT thread_id FROM checkpoints UNION SELECT thread_id FROM writes").fetchall()
    for (thread_id,) in threads:
        try:
            lengths, items = lengths_and_items(forms_of(db, codec, thread_id))
            for chain, length in lengths.items():
                items.update(read_items_of(db, chain, length))
        except LangGraphMemoryError as error:
            yield f"thread {thread_id!r}: {error}"
            continue
        for table, wanted in (("lgm_item_holds", items), ("lgm_chain_holds", set(lengths))):
            held = db.execute(
                f"SELECT held FROM {table} JOIN lgm_threads ON id = thread WHERE thread_id = ?", (thread_id,)
            )
            if lost := wanted - {row[0] for row in held}:
                yield f"thread {thread_id!r} uses {sorted(lost)[:5]} without an entry in {table}"


def _unheld(db: sqlite3.Connection, codec: Codec) -> Iterator[str]:
    for table, holds in (("lgm_items", "lgm_item_holds"), ("lgm_chains", "lgm_chain_holds")):
        rows = db.execute(f"SELECT id FROM {table} WHERE id NOT IN (SELECT held FROM {holds})").fetchall()
        if rows:
            yield f"{table}: {len(rows)} rows are held by no thread"
        rows = db.execute(f"SELECT DISTINCT held FROM {holds} WHERE held NOT IN (SELECT id FROM {table})").fetchall()
        if rows:
            yield f"{holds}: {len(rows)} rows hold what does not exist"
