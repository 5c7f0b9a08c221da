"""`index.db`: the entries of a namespace as rows of a SQLite file, searched by their words.

It is derived from the Markdown files, which are the truth: it may be deleted, and is made anew when its version
differs or it is damaged. A damaged file is kept aside as `index.db.damaged-…`, for whoever wants to know why. The
tables that other modules keep in it (`extra`) stay when only the version of the words changes.

Writers come with a transaction of `writing`; a search needs no lock of the namespace. An index keeps one connection
between calls, which ends with `close`, is not used by another process after a fork, and is opened anew when somebody
puts another file in the place of this one.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sqlite3
import threading
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import uuid4

from .. import search_text
from ..context.text import clean_text, to_json
from ..errors import LangGraphMemoryError
from ..logs import failed
from . import embedding, ranking
from .entry import Entry

logger = logging.getLogger(__name__)

VERSION = 3
BUSY_SECONDS = 30.0
_AROUND = " .,;:!…。、'\"`´‘’“”«»„()[]【】「」『』<>《》*_-–—•·"
"""Says nothing around a text; a question mark does."""
_BEGINNING = re.compile(rf"[-–]?[.,]?\d|[^{re.escape(_AROUND)}]")
"""Of what stands between such marks; one in front of a number may belong to it."""
_WIDE = re.compile("[\u3000\uff00-\uffef]+")
"""Forms of letters that are only wider or narrower."""
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

_TABLES = (
    *embedding.TABLES,
    "CREATE TABLE files (number INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, "
    "size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, digest TEXT)",
    # The number of an entry says which file it is in and at which place, without gaps: it is next to its neighbours'.
    # What ranking reads comes first in a row.
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, length INTEGER NOT NULL, moment REAL NOT NULL, "
    "print BLOB NOT NULL, line INTEGER NOT NULL, id TEXT NOT NULL, "
    "type TEXT NOT NULL, thread TEXT, timestamp TEXT NOT NULL, "
    "about TEXT NOT NULL, "
    "abandoned INTEGER NOT NULL, text TEXT NOT NULL, words TEXT NOT NULL)",
    "CREATE INDEX entries_by_print ON entries (print)",
    "CREATE INDEX entries_by_moment ON entries (moment)",
    "CREATE INDEX entries_by_thread ON entries (thread) WHERE thread IS NOT NULL",
    "CREATE INDEX entries_by_id ON entries (id)",
    "CREATE TABLE totals (entries INTEGER NOT NULL, words INTEGER NOT NULL)",
    "INSERT INTO totals VALUES (0, 0)",
    "CREATE VIRTUAL TABLE lookup USING fts5 (words, content='entries', content_rowid='number', "
    f'tokenize="{search_text.TOKENIZE}")',
    "CREATE TRIGGER entry_added AFTER INSERT ON entries BEGIN "
    "INSERT INTO lookup (rowid, words) VALUES (new.number, new.words); "
    "UPDATE totals SET entries = entries + 1, words = words + new.length; END",
    "CREATE TRIGGER entry_gone AFTER DELETE ON entries BEGIN "
    "INSERT INTO lookup (lookup, rowid, words) VALUES ('delete', old.number, old.words); "
    "UPDATE totals SET entries = entries - 1, words = words - old.length; END",
)
_NAMES = ("files", "entries", "totals", "lookup", *embedding.NAMES)


class DamagedIndexError(LangGraphMemoryError):
    """The index could not be read and was set aside; the next use makes an empty one, to be filled from the files."""


class IndexUnusableError(LangGraphMemoryError):
    """The index cannot be opened where it is, for instance in a folder that must not be written."""


class Row(NamedTuple):
    """An entry and where it stands."""

    path: str
    """Of its file, from the folder of the namespace: `memory/2026-11-30.md` or `MEMORY.md`."""
    line: int
    """Its first one, from 1."""
    entry: Entry


class Stamp(NamedTuple):
    """By what a file is known to be the one that was indexed."""

    size: int
    mtime_ns: int
    digest: str | None
    """None: not known since an append by us."""

    def fits(self, stat: os.stat_result) -> bool:
        """Whether a file looks as it did. A time below 0 is not known, so the size has to do."""
        return self.size == stat.st_size and (self.mtime_ns < 0 or self.mtime_ns == stat.st_mtime_ns)


@dataclass(frozen=True, slots=True)
class Hit:
    """An entry that was found."""

    id: str
    path: str
    line: int
    text: str
    score: float
    """Relevance of the text times recency; only larger or smaller than that of another hit of the same search."""
    timestamp: str
    """ISO 8601, with its zone."""
    thread_id: str | None
    type: str = "fact"
    abandoned: bool = False
    """Whether it was written on a branch that its thread has left since."""


def print_of(text: str) -> bytes:
    """What two texts share that differ only in case, width, white space and the marks around them.

    A minus, a question mark, an accent or a raised digit makes another fact; so do C, C++ and C#.
    """
    same = " ".join(_same_letters(clean_text(text)).split())
    beginning = _BEGINNING.search(same)
    said = same.rstrip(_AROUND)[beginning.start() :] if beginning else same
    return blake2b(said.encode(), digest_size=16).digest()


def _same_letters(text: str) -> str:
    """`text` in one case and width; all else stays, such as accents."""
    if text.isascii():
        return text.lower()
    narrow = _WIDE.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", narrow).casefold()).replace("’", "'")


class Index:
    """The index in the SQLite file `path`, whose folder has to exist. Blocking; safe from every thread."""

    def __init__(self, path: Path, *, extra: Sequence[str] = ()) -> None:
        self.path = Path(path)
        self._extra = tuple(extra)
        self._idle: list[_Connection] = []
        self._lock = threading.Lock()

    # Connections

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, which an exception rolls back. Raises `DamagedIndexError`, `IndexUnusableError`."""
        with self._transaction("BEGIN IMMEDIATE") as db:
            yield db

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One state of the index, whatever others write meanwhile."""
        with self._transaction("BEGIN") as db:
            yield db

    def close(self) -> None:
        """Close what is open; a later call opens it again."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def __del__(self) -> None:
        with suppress(Exception):
            self.close()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._connected() as db:
            db.execute(begin)
            try:
                yield db
            except BaseException:
                with suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        connection = self._taken() or self._opened()
        try:
            yield connection.db
        except sqlite3.DatabaseError as error:
            connection.close()
            if not _is_damage(error):
                raise
            self._set_aside(connection.file)
            raise DamagedIndexError(
                f"The index {str(self.path)!r} is damaged ({error}). It was set aside; what it held comes from the "
                "files of its folder and is indexed again."
            ) from error
        except BaseException:
            connection.close()
            raise
        self._give_back(connection)

    def _taken(self) -> _Connection | None:
        """An idle connection that is of use here: to the file that is there now, made by this process."""
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is None or (connection.file == _identity(self.path) and connection.process == os.getpid()):
            return connection
        connection.close()
        return None

    def _give_back(self, connection: _Connection) -> None:
        with self._lock:
            if not self._idle:
                self._idle.append(connection)
                return
        connection.close()

    def _opened(self) -> _Connection:
        try:
            return self._prepared()
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise IndexUnusableError(f"The index {str(self.path)!r} cannot be used: {error}.") from error
            self._set_aside(_identity(self.path))
            return self._prepared()

    def _prepared(self) -> _Connection:
        if self.path.is_symlink():
            raise IndexUnusableError(f"The index {str(self.path)!r} is a symbolic link; it has to be a file.")
        # The file is made here, so that it is never open to others, and what SQLite puts beside it takes its mode.
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600))
        db = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        connection = _Connection(db, _identity(self.path), os.getpid())
        try:
            self._prepare(db)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, db: sqlite3.Connection) -> None:
        # SQLite does not wait for others here; whoever is refused is as safe without, and the next one sets it.
        with suppress(sqlite3.OperationalError):
            db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        if _version(db) != _our_version() or self._extra:
            db.execute("BEGIN IMMEDIATE")
            if _version(db) != _our_version():
                _make(db)
            for statement in self._extra:
                db.execute(statement)
            db.execute("COMMIT")

    def _set_aside(self, file: tuple[int, int] | None) -> None:
        """Put the damaged file away, unless somebody else has done so and made a new one."""
        if file is None or _identity(self.path) != file:
            return
        aside = f"{self.path}.damaged-{datetime.now():%Y%m%d-%H%M%S}-{uuid4().hex[:6]}"
        for ending in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                Path(f"{self.path}{ending}").replace(f"{aside}{ending}")

    # Files and their rows

    def stamps(self) -> dict[str, Stamp]:
        """What is known of each file, by its path."""
        with self.reading() as db:
            rows = db.execute("SELECT path, size, mtime_ns, digest FROM files").fetchall()
        return {path: Stamp(*rest) for path, *rest in rows}

    def replace(self, db: sqlite3.Connection, path: str, rows: Iterable[Row], stamp: Stamp) -> None:
        """The rows of a file are now exactly these; only what changed or moved is indexed again."""
        file = _file(db, path, stamp)
        before = {row[0]: row for row in db.execute(f"SELECT {_COLUMNS} FROM entries WHERE {_IN_FILE}", _range(file))}
        words = {row[_TEXT]: row[_TEXT + 1] for row in before.values()}
        abandoned = {row[_ID] for row in before.values() if row[_ABANDONED]}
        after = {
            file + place: _values(file + place, row, words, clean_text(row.entry.id) in abandoned)
            for place, row in enumerate(rows)
        }
        changed = {number for number in before.keys() | after.keys() if before.get(number) != after.get(number)}
        moved = {number for number in changed if _same_but_line(before.get(number), after.get(number))}
        db.executemany("UPDATE entries SET line = ? WHERE number = ?", [(after[n][_LINE], n) for n in moved])
        db.executemany("DELETE FROM entries WHERE number = ?", [(n,) for n in changed - moved if n in before])
        _insert(db, [after[n] for n in sorted(changed - moved) if n in after])

    def extend(self, db: sqlite3.Connection, path: str, rows: Iterable[Row], stamp: Stamp) -> None:
        """These rows were appended to a file, behind those it had."""
        file = _file(db, path, stamp)
        last = db.execute(f"SELECT max(number) FROM entries WHERE {_IN_FILE}", _range(file)).fetchone()[0]
        _insert(db, [_values(number, row) for number, row in enumerate(rows, file if last is None else last + 1)])

    def remove(self, db: sqlite3.Connection, path: str) -> None:
        """A file is no more."""
        for (file,) in db.execute("DELETE FROM files WHERE path = ? RETURNING number", (clean_text(path),)).fetchall():
            db.execute(f"DELETE FROM entries WHERE {_IN_FILE}", _range(file << PLACES))

    def empty(self, db: sqlite3.Connection) -> list[str]:
        """No file is known any more, nor any word, also of those that fit no entry; ids that were marked abandoned."""
        abandoned = [row[0] for row in db.execute("SELECT id FROM entries WHERE abandoned")]
        for (path,) in db.execute("SELECT path FROM files").fetchall():
            self.remove(db, path)
        db.execute("INSERT INTO lookup (lookup) VALUES ('delete-all')")
        db.execute("UPDATE totals SET entries = 0, words = 0")
        return abandoned

    def size(self, db: sqlite3.Connection) -> int:
        """How many entries there are."""
        return int(db.execute("SELECT count(*) FROM entries").fetchone()[0])

    def rename(self, db: sqlite3.Connection, old: str, new: str) -> None:
        """A file has another name now, and replaced what had that name before."""
        if old != new:
            self.remove(db, new)
            db.execute("UPDATE files SET path = ? WHERE path = ?", (clean_text(new), clean_text(old)))

    # What is there

    def rows(self, db: sqlite3.Connection, path: str) -> list[Row]:
        """The rows of a file, in their order."""
        return _rows(db, "path = ? ORDER BY entries.number", clean_text(path))

    def rows_of_thread(self, db: sqlite3.Connection, thread_id: str) -> list[Row]:
        """What was made from a thread, the oldest first."""
        return _rows(db, "thread = ? ORDER BY moment, entries.number", clean_text(thread_id))

    def known(self, db: sqlite3.Connection, texts: Sequence[str]) -> set[int]:
        """Which of these texts are there already, by their places in `texts`."""
        prints = [print_of(text) for text in texts]
        query = "SELECT 1 FROM entries WHERE print = ? LIMIT 1"
        return {place for place, print_ in enumerate(prints) if db.execute(query, (print_,)).fetchone()}

    def same(self, db: sqlite3.Connection, text: str) -> list[Row]:
        """The rows that say the same as a text."""
        return _rows(db, "print = ?", print_of(text))

    def last(self, db: sqlite3.Connection, pattern: str) -> Row | None:
        """The last row of the file whose path comes last of those like a GLOB pattern."""
        newest = "(SELECT max(path) FROM files WHERE path GLOB ?)"
        return next(iter(_rows(db, f"path = {newest} ORDER BY entries.number DESC LIMIT 1", pattern)), None)

    def mark_abandoned(self, db: sqlite3.Connection, ids: Iterable[str], flag: bool) -> None:
        """Whether entries were written on a branch that their thread has left."""
        db.executemany("UPDATE entries SET abandoned = ? WHERE id = ?", [(flag, clean_text(id_)) for id_ in ids])

    def search(
        self,
        query: str,
        limit: int,
        *,
        now: datetime,
        decay_floor: float = 0.5,
        decay_hours: float = 24,
        vectors: embedding.Vectors | None = None,
    ) -> list[Hit]:
        """The best entries for a query, which may be any text; the same text is found once.

        A text counts less the older it is: 1.0 for one of `now`, falling linearly to `decay_floor` after `decay_hours`.
        With `vectors` entries are found by their meaning too; without their model the search goes on by words.
        """
        question = ranking.Question.of(clean_text(query))
        if limit <= 0 or not query.strip() or not (question or vectors):
            return []
        moment = (now if now.tzinfo else now.astimezone()).timestamp()
        decay = ranking.Decay(moment, decay_floor, decay_hours)
        near = self._nearest(vectors, clean_text(query), limit + ranking.FUSED) if vectors else None
        with self.reading() as db:
            if near is None:
                found = ranking.best(db, question, limit, decay)
            else:
                found = ranking.fused(db, question, near, limit, decay)
            return [_hit(db, number, score) for number, score in found]

    def _nearest(self, vectors: embedding.Vectors, query: str, size: int) -> list[bytes] | None:
        try:
            return vectors.nearest(self, query, size)
        except Exception as error:  # noqa: BLE001 - whatever embeddings raise, the words are there
            failed(logger, "Memory is searched by words only: the embeddings failed", error, level=logging.WARNING)
            return None

    # Upkeep

    def forget(self) -> None:
        """Leave no byte in the file of what was removed."""
        with self.writing() as db:
            embedding.forget(db)
            db.execute("INSERT INTO lookup (lookup) VALUES ('optimize')")
        with self._connected() as db:
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def problems(self) -> list[str]:
        """What is wrong with the index, which making it anew mends."""
        try:
            with self.writing() as db:
                found = [str(row[0]) for row in db.execute("PRAGMA integrity_check") if row[0] != "ok"]
                try:
                    db.execute("INSERT INTO lookup (lookup, rank) VALUES ('integrity-check', 1)")
                except sqlite3.DatabaseError as error:
                    found.append(f"the words do not fit the entries: {error}")
                return found
        except DamagedIndexError as error:
            return [str(error)]


@dataclass(frozen=True)
class _Connection:
    db: sqlite3.Connection
    file: tuple[int, int] | None
    process: int

    def close(self) -> None:
        if self.process == os.getpid():
            self.db.close()
        else:
            # Closing what a fork inherited could end the locks that the parent holds.
            _INHERITED.append(self.db)


_INHERITED: list[sqlite3.Connection] = []


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _our_version() -> int:
    return VERSION * 1000 + ranking.VERSION * 100 + search_text.VERSION


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _make(db: sqlite3.Connection) -> None:
    for name in _NAMES:
        db.execute(f"DROP TABLE IF EXISTS {name}")
    for statement in _TABLES:
        db.execute(statement)
    db.execute(f"PRAGMA user_version = {_our_version()}")


PLACES = 32
"""Bits of an entry's number that say its place in the file."""
_IN_FILE = "number BETWEEN ? AND ?"
_OF_FILE = f"JOIN files ON files.number = entries.number >> {PLACES}"
_NAMES_OF_COLUMNS = (
    "number", "length", "moment", "print", "line", "id", "type", "thread", "timestamp", "about", "abandoned", "text",
    "words",
)  # fmt: skip
_COLUMNS = ", ".join(_NAMES_OF_COLUMNS)
_LINE, _ID, _ABANDONED, _TEXT = map(_NAMES_OF_COLUMNS.index, ("line", "id", "abandoned", "text"))


def _file(db: sqlite3.Connection, path: str, stamp: Stamp) -> int:
    """The number of a file's first entry."""
    row = db.execute(
        "INSERT INTO files (path, size, mtime_ns, digest) VALUES (?, ?, ?, ?) ON CONFLICT (path) DO UPDATE SET "
        "size = excluded.size, mtime_ns = excluded.mtime_ns, digest = excluded.digest RETURNING number",
        (clean_text(path), *stamp),
    ).fetchall()[0]
    return int(row[0]) << PLACES


def _range(first: int) -> tuple[int, int]:
    return first, first + (1 << PLACES) - 1


def _values(number: int, row: Row, known: Mapping[str, str] = MappingProxyType({}), abandoned: bool = False) -> Any:
    """The columns of an entry; `known` are the words of texts."""
    entry = row.entry
    text = clean_text(entry.text)
    words = known.get(text)
    if words is None:
        words = " ".join(ranking.indexed(text))
    moment = entry.timestamp if entry.timestamp.tzinfo else entry.timestamp.astimezone()
    rest = {
        "tokens": entry.tokens,
        "metadata": dict(entry.metadata),
        "checkpoint": entry.checkpoint_id,
        "messages": entry.message_ids,
    }
    return (
        number,
        words.count(" ") + bool(words),
        moment.timestamp(),
        print_of(text),
        row.line,
        clean_text(entry.id),
        entry.type,
        None if entry.thread_id is None else clean_text(entry.thread_id),
        moment.isoformat(),
        clean_text(to_json({key: value for key, value in rest.items() if value})),
        int(abandoned),
        text,
        words,
    )


def _same_but_line(one: Sequence[Any] | None, other: Sequence[Any] | None) -> bool:
    return one is not None and other is not None and [*one[:_LINE], *one[_ID:]] == [*other[:_LINE], *other[_ID:]]


def _insert(db: sqlite3.Connection, rows: Iterable[Sequence[Any]]) -> None:
    db.executemany(f"INSERT INTO entries ({_COLUMNS}) VALUES ({', '.join('?' * len(_NAMES_OF_COLUMNS))})", rows)


def _rows(db: sqlite3.Connection, where: str, *values: Any) -> list[Row]:
    found = db.execute(
        f"SELECT path, line, text, id, timestamp, type, thread, about FROM entries {_OF_FILE} WHERE {where}",
        values,
    )
    return [_row(*row) for row in found]


def _row(path: str, line: int, text: str, id_: str, timestamp: str, type_: Any, thread: str | None, about: str) -> Row:
    rest = json.loads(about)
    entry = Entry(
        text,
        id_,
        datetime.fromisoformat(timestamp),
        type_,
        rest.get("tokens", 0),
        rest.get("metadata", {}),
        thread,
        rest.get("checkpoint"),
        tuple(rest.get("messages", ())),
    )
    return Row(path, line, entry)


def _hit(db: sqlite3.Connection, number: int, score: float) -> Hit:
    id_, path, line, text, timestamp, thread, type_, abandoned = db.execute(
        "SELECT id, path, line, text, timestamp, thread, type, abandoned FROM entries "
        f"{_OF_FILE} WHERE entries.number = ?",
        (number,),
    ).fetchone()
    return Hit(id_, path, line, text, score, timestamp, thread, type_, bool(abandoned))
