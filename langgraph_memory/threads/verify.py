"""Is the file what it should be? Everything is read, hashed and followed again; nothing is changed.

A row that cannot be read is a problem like any other: it is named, and what stands beside it is still looked at.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..errors import DamagedDatabaseError
from . import frames
from .chains import read_items_of
from .codec import Codec, is_ours
from .places import threads_with
from .schema import BLOB, MESSAGE, reading
from .values import DICT, INLINE, Form, lengths_and_items


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
        _refuse_sealed(db, codec)
        problems = [row[0] for row in db.execute("PRAGMA integrity_check") if row[0] != "ok"]
        for look in (_items, _chains, _threads, _unheld):
            problems += look(db, codec)
        totals = [db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES]
    return VerifyReport(totals[0], totals[1], totals[2], totals[3], problems)


MOST_NAMES = 5
TABLES = ("checkpoints", "writes", "lgm_items", "lgm_chains")


def _refuse_sealed(db: sqlite3.Connection, codec: Codec) -> None:
    """Raise `NotImplementedError` where nothing can be said of a file for want of its cipher."""
    row = db.execute("SELECT type, data FROM lgm_keys").fetchone()
    if row and not codec.encrypts:
        codec.unseal(*row)


def _items(db: sqlite3.Connection, codec: Codec) -> Iterator[str]:
    for number, digest, type_, data in db.execute("SELECT id, digest, type, CAST(data AS BLOB) FROM lgm_items"):
        try:
            right = codec.identified(*codec.unseal(type_, data)).digest == digest
        except Exception as error:  # noqa: BLE001 - a cipher may raise anything at bytes that were changed
            yield f"item {number} cannot be read: {error!r}{_used(db, number)}"
            continue
        if not right:
            yield f"item {number} is not what its digest says{_used(db, number)}"


def _used(db: sqlite3.Connection, item: int) -> str:
    names = [name for _, name in threads_with(db, item, None)]
    return f"; used by thread {', '.join(map(repr, names[:MOST_NAMES]))}" if names else ""


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
        problems = _Problems(f"thread {thread_id!r}: ")
        forms = [*_checkpoints(db, codec, thread_id, problems), *_writes(db, codec, thread_id, problems)]
        _held(db, thread_id, forms, problems)
        yield from problems.found


class _Problems:
    """What is wrong with a thread."""

    def __init__(self, thread: str) -> None:
        self.thread, self.found = thread, list[str]()

    def add(self, problem: str) -> None:
        self.found.append(f"{self.thread}{problem}")

    @contextmanager
    def at(self, place: str = "") -> Iterator[None]:
        """Note what cannot be read, and go on."""
        try:
            yield
        except (DamagedDatabaseError, NotImplementedError) as error:
            self.add(f"{place}{error}")


def _checkpoints(db: sqlite3.Connection, codec: Codec, thread_id: str, problems: _Problems) -> Iterator[Form]:
    """Look at the checkpoints of a thread; their forms, as far as they can be read."""
    rows = db.execute(
        "SELECT checkpoint_ns, checkpoint_id, type, CAST(checkpoint AS BLOB), "
        "CAST(metadata AS BLOB) FROM checkpoints WHERE thread_id = ?",
        (thread_id,),
    )
    for namespace, checkpoint_id, type_, data, metadata in rows:
        place = f"checkpoint {checkpoint_id!r}{_of(namespace)}: "
        with problems.at(place):
            frames.metadata(metadata)
        with problems.at(place):
            if is_ours(type_):
                rest, forms = frames.frame(codec, type_, data)
                yield from forms.values()
                frames.look(codec, *rest)
                _look_inside(codec, forms.values())
            else:
                frames.look(codec, type_, data)


def _writes(db: sqlite3.Connection, codec: Codec, thread_id: str, problems: _Problems) -> Iterator[Form]:
    """Look at the pending writes of a thread; their forms, as far as they can be read."""
    rows = db.execute(
        "SELECT checkpoint_ns, checkpoint_id, task_id, idx, channel, type, CAST(value AS BLOB) FROM writes "
        "WHERE thread_id = ?",
        (thread_id,),
    )
    for namespace, checkpoint_id, task_id, number, channel, type_, data in rows:
        place = f"checkpoint {checkpoint_id!r}{_of(namespace)}: write {number} of task {task_id!r} to {channel!r}: "
        with problems.at(place):
            if is_ours(type_):
                form = frames.form(codec, type_, data)
                yield form
                _look_inside(codec, [form])
            else:
                codec.look(type_, data)


def _of(namespace: str) -> str:
    return f" of {namespace!r}" if namespace else ""


def _look_inside(codec: Codec, forms: Iterable[Form]) -> None:
    """Look at the values that stand in a row itself."""
    for form in forms:
        if form[0] == INLINE:
            codec.look(form[1], form[2])
        elif form[0] == DICT:
            _look_inside(codec, form[1].values())


def _held(db: sqlite3.Connection, thread_id: str, forms: Iterable[Form], problems: _Problems) -> None:
    """Look whether what the forms of a thread refer to is there, and held by the thread."""
    lengths, items = lengths_and_items(forms)
    for chain, length in lengths.items():
        with problems.at():
            items.update(read_items_of(db, chain, length))
    for table, wanted in (("lgm_item_holds", items), ("lgm_chain_holds", set(lengths))):
        held = db.execute(f"SELECT held FROM {table} JOIN lgm_threads ON id = thread WHERE thread_id = ?", (thread_id,))
        if lost := wanted - {row[0] for row in held}:
            problems.add(f"uses {sorted(lost)[:5]} without an entry in {table}")


def _unheld(db: sqlite3.Connection, codec: Codec) -> Iterator[str]:
    for table, holds in (("lgm_items", "lgm_item_holds"), ("lgm_chains", "lgm_chain_holds")):
        rows = db.execute(f"SELECT id FROM {table} WHERE id NOT IN (SELECT held FROM {holds})").fetchall()
        if rows:
            yield f"{table}: {len(rows)} rows are held by no thread"
        rows = db.execute(f"SELECT DISTINCT held FROM {holds} WHERE held NOT IN (SELECT id FROM {table})").fetchall()
        if rows:
            yield f"{holds}: {len(rows)} rows hold what does not exist"
