"""What is kept of a namespace: its files and its index, changed together. Blocking; call it in threads.

The files are the truth. An append cannot be one step in a file and a database, so it is a *journal* in the database:
the rows of the index, whatever else belongs to the step and the text to append are committed at once, then the text is
appended, then the journal is emptied. Whoever writes next completes what a crash left in between. Files that people or
other programs changed are noticed by size and time and are indexed again before the next search or append.
"""

from __future__ import annotations

import json
import logging
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, date, datetime
from hashlib import blake2b
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any

from ..namespace import Namespace
from .entry import Entry, lines_of, read_lines
from .folder import ARCHIVE, HISTORY, LEDGER, MEMORY, STATE, Folder, WorkspaceError
from .forgetting import forget
from .index import DamagedIndexError, Hit, Index, IndexUnusableError, Row, Stamp, print_of
from .scan import scan

logger = logging.getLogger(__name__)

INDEX = "index.db"
VERSION = 1
SYNC_SECONDS = 5.0
"""How long a search waits for a writer before it searches what is indexed already."""
MOST_LINES = 2000
TABLES = (
    "CREATE TABLE IF NOT EXISTS journal (path TEXT NOT NULL, size INTEGER NOT NULL, text TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS tails (path TEXT PRIMARY KEY, size INTEGER NOT NULL, lines INTEGER NOT NULL)",
)
Within = Callable[[sqlite3.Connection], None]
UNUSABLE = (sqlite3.Error, OSError, DamagedIndexError, IndexUnusableError)
"""What an index raises that cannot be read or written; no reason to fail what does not need it."""

_DAY = re.compile(r"memory/(?:archive/)?(\d{4}-\d\d-\d\d)\.md")
_READABLE = re.compile(r"MEMORY\.md|memory/(?:archive/|history/)?[^/\0]+\.md")
_COMMENT = re.compile(r" ?<!-- lgm \{[^\n]*\} -->$", re.MULTILINE)


def day_of(name: str) -> date | None:
    """The day of a ledger file, None for other names."""
    try:
        return date.fromisoformat(found[1]) if (found := _DAY.fullmatch(name)) else None
    except ValueError:
        return None


class Keeper:
    """Long-term memory of one namespace in the folder `workspace`."""

    def __init__(self, workspace: Path, namespace: Namespace | Path = ()) -> None:
        self.folder = Folder(workspace, namespace)
        self.index = Index(self.folder.path / INDEX, extra=TABLES)

    # Writing

    def append(self, values: Iterable[Entry | Mapping[str, Any] | str], *, within: Within | None = None) -> list[Entry]:
        """Add entries to the ledgers of their days and the index; those whose text is there already are left out.

        `within` takes part in the transaction: where it raises, nothing is written. Returns what was added. Raises
        `EntryError` before anything is written, and `OSError` where the files cannot be.
        """
        now = datetime.now().astimezone()
        entries = [Entry.of(value, now=now) for value in values]
        with self.folder.locked():
            try:
                self._brought_up_to_date()
                entries = self._entered(entries, within)
            except UNUSABLE as error:
                if within is not None:
                    raise
                # The ledger is what counts. The index is made anew from it by whoever can.
                logger.warning("The memory index cannot be written, the ledger is: %s", error)
                for name, those in _by_day(entries):
                    self.folder.append(name, self._text(name, those).encode())
            else:
                self._complete()
        return entries

    def _entered(self, entries: list[Entry], within: Within | None) -> list[Entry]:
        """The entries that are new, in the index and the journal."""
        with self.index.writing() as db:
            known = self.index.known(db, [entry.text for entry in entries])
            new: dict[bytes, Entry] = {}
            for place, entry in enumerate(entries):
                if place not in known:
                    new.setdefault(print_of(entry.text), entry)
            entries = list(new.values())
            for name, those in _by_day(entries):
                self._enter(db, name, those)
            if within is not None:
                within(db)
        return entries

    def _enter(self, db: sqlite3.Connection, name: str, entries: list[Entry]) -> None:
        """Put entries into the index and what is to be appended for them into the journal."""
        size, before = self.folder.size(name), self._height(db, name)
        text = self._text(name, entries)
        line, rows = before + text.count("\n") - lines_of(entries).count("\n") + 1, []
        for entry in entries:
            rows.append(Row(name, line, entry))
            line += lines_of([entry]).count("\n")
        self.index.extend(db, name, rows, Stamp(size, -1, None))
        db.execute("INSERT INTO journal VALUES (?, ?, ?)", (name, size, text))
        db.execute("INSERT OR REPLACE INTO tails VALUES (?, ?, ?)", (name, size + len(text.encode()), line - 1))

    def _text(self, name: str, entries: list[Entry]) -> str:
        """What has to be appended to a ledger for entries."""
        size = self.folder.size(name)
        if not size:
            return f"# {day_of(name)}\n\n{lines_of(entries)}"
        return ("" if self._ends_line(name) else "\n") + lines_of(entries)

    def _ends_line(self, name: str) -> bool:
        with (self.folder.path / name).open("rb") as file:
            file.seek(-1, 2)
            return file.read(1) == b"\n"

    def _height(self, db: sqlite3.Connection, name: str) -> int:
        """How many line ends a file has; counted only where it was not written by us."""
        size = self.folder.size(name)
        row = db.execute("SELECT lines FROM tails WHERE path = ? AND size = ?", (name, size)).fetchone()
        return row[0] if row else (self.folder.bytes_of(name) or b"").count(b"\n")

    def _complete(self) -> None:
        """Append what the journal holds, which may be there already in whole or in part."""
        with self.index.reading() as db:
            rows = db.execute("SELECT rowid, path, size, text FROM journal ORDER BY rowid").fetchall()
        for number, name, size, text in rows:
            stat = self._appended(name, size, text)
            with self.index.writing() as db:
                db.execute("DELETE FROM journal WHERE rowid = ?", (number,))
                self.index.extend(db, name, [], Stamp(stat.st_size, stat.st_mtime_ns, None))

    def _appended(self, name: str, size: int, text: str) -> Any:
        data, there = text.encode(), self.folder.size(name)
        if there == size:
            return self.folder.append(name, data)
        rest = (self.folder.bytes_of(name) or b"")[size:]
        if there > size and data.startswith(rest) and len(rest) < len(data):
            self.folder.truncate(name, size)
            return self.folder.append(name, data)
        # Somebody else has changed the file since: only what is missing is added.
        day = day_of(name) or datetime.now().date()
        present = {row.entry.id for row in self.rows(name)}
        missing = [placed.entry for placed in read_lines(text, day) if placed.entry.id not in present]
        if missing:
            return self.folder.append(name, self._text(name, missing).encode())
        return self.folder.stat(name)

    def writing(self) -> AbstractContextManager[sqlite3.Connection]:
        """The lock and one transaction of the index, for what other modules keep in it."""
        return self._writing()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self.folder.locked(), self.index.writing() as db:
            yield db

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """A connection to the index that sees one state of it."""
        return self.index.reading()

    # Keeping the index in step

    def sync(self, seconds: float = SYNC_SECONDS) -> None:
        """Index again the files that have changed; without the lock after `seconds` it is left to the next search."""
        if self._changed() or self._has_journal():
            try:
                with self.folder.locked(seconds):
                    self._brought_up_to_date()
            except WorkspaceError as error:
                logger.info("The memory index is not brought up to date now: %s", error)

    def reindex(self) -> int:
        """Make the index anew from the files; how many entries it holds."""
        with self.folder.locked():
            self._complete()
            names, indexed = self._names(), self.index.stamps()
            with self.index.writing() as db:
                for name in indexed:
                    self.index.remove(db, name)
            return sum(self._index(name) for name in names)

    def _brought_up_to_date(self) -> None:
        try:
            self._complete()
        except DamagedIndexError as error:
            logger.warning("%s", error)
            self._complete()
        gone, changed = self._changes()
        if gone:
            with self.index.writing() as db:
                for name in gone:
                    self.index.remove(db, name)
        for name in changed:
            self._index(name)

    def _index(self, name: str) -> int:
        stat = self.folder.stat(name)
        data = self.folder.bytes_of(name) or b""
        stamp = Stamp(stat.st_size, stat.st_mtime_ns, blake2b(data, digest_size=16).hexdigest())
        old = self.index.stamps().get(name)
        with self.index.writing() as db:
            if old is not None and old.digest == stamp.digest:
                self.index.extend(db, name, [], stamp)
                return 0
            rows = self._parsed(name, data)
            self.index.replace(db, name, rows, stamp)
        return len(rows)

    def _changed(self) -> bool:
        return any(self._changes())

    def _changes(self) -> tuple[list[str], list[str]]:
        """Names of indexed files that are gone, and of files that are not indexed as they are."""
        stamps, names = self.index.stamps(), self._names()
        changed = []
        for name in names:
            stat, stamp = self.folder.stat(name), stamps.get(name)
            if stamp is None or (stamp.size, stamp.mtime_ns) != (stat.st_size, stat.st_mtime_ns):
                changed.append(name)
        return sorted(stamps.keys() - set(names)), changed

    def _has_journal(self) -> bool:
        with self.index.reading() as db:
            return db.execute("SELECT 1 FROM journal").fetchone() is not None

    def _names(self) -> list[str]:
        memory = [MEMORY] if self.folder.size(MEMORY) else []
        return memory + self.folder.names(ARCHIVE) + self.folder.names(LEDGER)

    def rows(self, name: str) -> list[Row]:
        """The entries in a file."""
        return self._parsed(name, self.folder.bytes_of(name) or b"")

    def _parsed(self, name: str, data: bytes) -> list[Row]:
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            logger.warning("%s: byte %d is not UTF-8; the file stays as it is", self.folder.path / name, error.start)
            text = data.decode(errors="replace")
        day = day_of(name) or datetime.fromtimestamp(self.folder.stat(name).st_mtime).date()
        return [Row(name, placed.first, placed.entry) for placed in read_lines(text.removeprefix("\ufeff"), day)]

    # Reading

    def ledger(self, *, day: date | None = None) -> list[Row]:
        """The entries of a day, in the order they were written; None is today."""
        name = f"{LEDGER}/{day or datetime.now().date()}.md"
        return self.rows(name) if self.folder.size(name) else []

    def pending(self, after: Mapping[str, str]) -> list[Row]:
        """Ledger entries behind a watermark: file name -> id of its last entry that counts as done."""
        found: list[Row] = []
        for name in self.folder.names(LEDGER):
            if day_of(name):
                rows = self.rows(name)
                ids = [row.entry.id for row in rows]
                last = after.get(name)
                found += rows[ids.index(last) + 1 :] if last in ids else rows
        return found

    def search(self, query: str, limit: int = 10, *, decay_floor: float = 0.5, decay_hours: float = 24.0) -> list[Hit]:
        """The entries that fit a query best. Never raises for what the query says or what state the index is in."""
        if limit <= 0 or not query.strip() or not self.folder.path.is_dir():
            return []
        now = datetime.now().astimezone()
        try:
            self.sync()
            return self.index.search(query, limit, now=now, decay_floor=decay_floor, decay_hours=decay_hours)
        except UNUSABLE as error:
            logger.warning("The memory index cannot be used, the files are searched: %s", error)
            rows = [row for name in self._names() for row in self.rows(name)]
            return scan(rows, query, limit, now=now, decay_floor=decay_floor, decay_hours=decay_hours)

    def get(self, path: str, start: int = 1, end: int | None = None) -> str:
        """Lines `start` to `end` of a Markdown file, counted from 1, without our comments; at most 2,000.

        Raises `WorkspaceError` for a path that is none of MEMORY.md, a ledger (archived or not) or an earlier version.
        """
        name = path.replace("\\", "/").removeprefix("./")
        if not _READABLE.fullmatch(name) or ".." in PurePosixPath(name).parts:
            raise WorkspaceError(f"{path!r} cannot be read; give {MEMORY} or a path in {LEDGER}/ as a search names it.")
        if (data := self.folder.bytes_of(name)) is None:
            raise WorkspaceError(f"{path!r}: there is no such file in this memory.")
        lines = data.decode(errors="replace").split("\n")
        first = max(start, 1) - 1
        last = min(len(lines) if end is None else end, first + MOST_LINES)
        return _COMMENT.sub("", "\n".join(lines[first:last]))

    # The curated memory

    def memory_md(self) -> str:
        """What MEMORY.md says, "" where there is none. One that is not UTF-8 is kept aside before it is read."""
        data = self.folder.bytes_of(MEMORY) or b""
        try:
            return data.decode().removeprefix("\ufeff").replace("\r\n", "\n")
        except UnicodeDecodeError as error:
            with self.folder.locked():
                if not any(name.startswith(f"{MEMORY}.damaged-") for name in self.folder.names(suffix="")):
                    aside = self.folder.keep_aside(MEMORY)
                    logger.warning("%s is not UTF-8 at byte %d; a copy is kept as %s", MEMORY, error.start, aside)
            return data.decode(errors="replace")

    def replace_memory(self, text: str, *, was: str, keep: bool = True) -> bool:
        """Make `text` the curated memory if that still is `was`; whether it was. The old one goes to the history."""
        with self.folder.locked():
            if self.memory_md() != was:
                return False
            if keep and was.strip():
                self.keep_version()
            self.folder.replace(MEMORY, text.encode())
            try:
                self._brought_up_to_date()
            except UNUSABLE as error:
                logger.warning("The memory index is not brought up to date: %s", error)
        return True

    def keep_version(self) -> str:
        """Copy MEMORY.md as it is to the history; the copy's name."""
        data = self.folder.bytes_of(MEMORY) or b""
        digest = blake2b(data, digest_size=6).hexdigest()
        name = f"{HISTORY}/{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}-{digest}.md"
        self.folder.replace(name, data)
        return name

    def state(self) -> dict[str, Any]:
        """What consolidation keeps about its work; one that cannot be read is kept aside, and it begins anew."""
        if (data := self.folder.bytes_of(STATE)) is None:
            return {}
        try:
            state = json.loads(data)
        except ValueError:
            state = None
        if isinstance(state, dict):
            return state
        logger.warning("%s cannot be read; it is kept as %s", STATE, self.folder.keep_aside(STATE))
        return {}

    def write_state(self, state: Mapping[str, Any]) -> None:
        self.folder.replace(STATE, json.dumps({"v": VERSION, **state}, ensure_ascii=False, indent=1).encode())

    # Forgetting

    def forget(self, text: str) -> int:
        """Remove every entry, line, version and logged message that holds `text`; how many places held it.

        An id of an entry may be given in place of a text. Raises `WorkspaceError` for a blank text.
        """
        with self.folder.locked():
            return forget(self, text)

    def close(self) -> None:
        self.index.close()


def _by_day(entries: Iterable[Entry]) -> Iterator[tuple[str, list[Entry]]]:
    ordered = sorted(entries, key=lambda entry: entry.day)
    for day, group in groupby(ordered, key=lambda entry: entry.day):
        yield f"{LEDGER}/{day.isoformat()}.md", list(group)
