"""What is kept of a namespace: its files and its index, changed together. Blocking; call it in threads.

The files are the truth. An append cannot be one step in a file and a database, so it is a *journal* in the database:
the rows of the index, whatever else belongs to the step and the text to append are committed at once, then the text is
appended, then the journal is emptied. Whoever writes next completes what a crash left in between. Files that people or
other programs changed are noticed by size and time and are indexed again before the next search or append.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from stat import S_ISREG
from typing import Any, TypeVar

from ..cache import FileCache
from ..context.text import clean_text
from ..namespace import Namespace
from . import flushed
from .embedding import Vectors
from .entry import Entry, EntryError, Placed, lines_of, read_lines, without_comment
from .folder import ARCHIVE, HISTORY, LEDGER, MEMORY, STATE, Folder, WorkspaceError
from .forgetting import CACHE, INDEX, forget, holding
from .index import DamagedIndexError, Hit, Index, IndexUnusableError, Row, Stamp, print_of
from .scan import scan

logger = logging.getLogger(__name__)

VERSION = 1
SYNC_SECONDS = 5.0
"""How long a search waits for a writer before it searches what is indexed already."""
MOST_LINES = 2000
AT_ONCE = timedelta(seconds=10)
"""What is said twice within it, before a merge, was said once: by two programs, or again after a crash."""
TABLES = (
    # `mtime_ns` is that of the file when the index was in step with it, -1 where it was not.
    "CREATE TABLE IF NOT EXISTS journal (path TEXT NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, "
    "text TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS tails (path TEXT PRIMARY KEY, size INTEGER NOT NULL, lines INTEGER NOT NULL)",
)
Within = Callable[[sqlite3.Connection], None]
UNUSABLE = (sqlite3.Error, OSError, DamagedIndexError, IndexUnusableError)
"""What an index raises that cannot be read or written; no reason to fail what does not need it."""

T = TypeVar("T")

_LEDGERS = f"{LEDGER}/[0-9]*.md"
_PLACE = re.compile(r"(.+\.md):([0-9]{1,9})(?:-([0-9]{1,9}))?")
_DAY = re.compile(r"memory/(?:archive/)?([0-9]{4}-[0-9]{2}-[0-9]{2})\.md")
_READABLE = re.compile(r"MEMORY\.md|memory/(?:archive/|history/)?[^/\0.][^/\0]*\.md")
_NEVER = -1
"""A time no file has: what is stamped with it is looked at again."""
_COARSE_NS = 50_000_000
"""A file that was changed so recently may be changed again without another size or time."""


def day_of(name: str) -> date | None:
    """The day of a ledger file, None for other names."""
    try:
        return date.fromisoformat(found[1]) if (found := _DAY.fullmatch(name)) else None
    except ValueError:
        return None


def lines_at(path: str, start: int, end: int | None) -> tuple[str, int, int | None]:
    """A path without the lines that stand behind it, and the lines: its own where no others are asked for."""
    if (found := _PLACE.fullmatch(path)) is None:
        return path, start, end
    if start == 1 and end is None:
        start, end = int(found[2]), int(found[3]) if found[3] else None
    return found[1], start, end


class Keeper:
    """Long-term memory of one namespace in the folder `workspace`; with `vectors` it is searched by meaning too."""

    def __init__(self, workspace: Path, namespace: Namespace | Path = (), *, vectors: Vectors | None = None) -> None:
        self.folder, self._vectors = Folder(workspace, namespace), vectors

    @cached_property
    def index(self) -> Index:
        return Index(self.folder.path / INDEX, extra=(*TABLES, *flushed.TABLES))

    # Writing

    def append(self, values: Iterable[Entry | Mapping[str, Any] | str], *, within: Within | None = None) -> list[Entry]:
        """Add entries to the ledgers of their days and the index; those that repeat what is known are left out.

        What was said before something else, and is said again, is true again and added. What tools returned is not.
        `within` takes part in the transaction: where it raises, nothing is written. Returns what was added. Raises
        `EntryError` before anything is written, also for an id that another text has, and `OSError` where the files
        cannot be written; if that was only found at the last step, the next writer makes it.
        """
        now = datetime.now().astimezone()
        given = [values] if isinstance(values, (str, Mapping, Entry)) else values
        entries = [Entry.of(value, now=now) for value in given]
        if not entries and within is None:
            return []
        with self.folder.locked():
            try:
                new = _mended(lambda: self._entered(entries, within))
            except UNUSABLE as error:
                if within is not None:
                    raise
                # The ledger is what counts. The index is made anew from it by whoever can.
                logger.warning("The memory index cannot be written, the ledger is: %s", error)
                return self._appended_only(entries)
            try:
                self._complete()
            except UNUSABLE as error:
                logger.warning("The memory index cannot be written any more: %s", error)
                for name, those in _by_day(new):
                    self._append_missing(name, those)
        return new

    def _entered(self, entries: list[Entry], within: Within | None) -> list[Entry]:
        """The entries that are new, in the index and the journal."""
        self._bring_up_to_date()
        with self.index.writing() as db:
            known = self.index.known(db, [entry.text for entry in entries])
            last = self.index.last(db, _LEDGERS) if known else None
            new = _once_each(
                entry
                for place, entry in enumerate(entries)
                if place not in known or self._is_news(entry, self.index.same(db, entry.text), last)
            )
            _refuse_taken(new, lambda id_: _has_id(db, id_))
            for name, those in _by_day(new):
                self._enter(db, name, those)
            if within is not None:
                within(db)
        return new

    def _is_news(self, entry: Entry, same: Sequence[Row], last: Row | None) -> bool:
        """Whether an entry that says the `same` as others is more than a repetition; `last` is the newest of all."""
        if entry.type == "tool_result" or any(_again(entry, row.entry) for row in same):
            return False
        if last is None or not self._is_pending(last):
            return all(row.path != MEMORY for row in same)
        newest = min(last.entry.timestamp, entry.timestamp - AT_ONCE)
        return all(row.entry.timestamp < newest for row in same if row.path != MEMORY)

    def _is_pending(self, row: Row) -> bool:
        done = self.state().get("upto")
        return not isinstance(done, dict) or done.get(row.path) != row.entry.id

    def _enter(self, db: sqlite3.Connection, name: str, entries: list[Entry]) -> None:
        """Put entries into the index and what is to be appended for them into the journal."""
        stat = self._stat(name)
        text, before = self._text(name, entries), self._height(db, name, stat.size)
        line, rows = before + text.count("\n") - lines_of(entries).count("\n") + 1, []
        for entry in entries:
            rows.append(Row(name, line, entry))
            line += lines_of([entry]).count("\n")
        known = db.execute("SELECT size, mtime_ns FROM files WHERE path = ?", (name,)).fetchone()
        in_step = known == (stat.size, stat.mtime_ns) if known else not stat.size
        self.index.extend(db, name, rows, Stamp(stat.size, _NEVER, None))
        journal = name, stat.size, stat.mtime_ns if in_step else _NEVER, text
        db.execute("INSERT INTO journal VALUES (?, ?, ?, ?)", journal)
        _set_tail(db, name, stat.size + len(text.encode()), line - 1)

    def _text(self, name: str, entries: list[Entry]) -> str:
        """What has to be appended to a ledger for entries."""
        if not self.folder.size(name):
            return f"# {day_of(name)}\n\n{lines_of(entries)}"
        return ("" if self.folder.ends_line(name) else "\n") + lines_of(entries)

    def _height(self, db: sqlite3.Connection, name: str, size: int) -> int:
        """How many line ends a file has; counted only where it is not known."""
        row = db.execute("SELECT lines FROM tails WHERE path = ? AND size = ?", (name, size)).fetchone()
        return row[0] if row else (self.folder.bytes_of(name) or b"").count(b"\n")

    def _stat(self, name: str) -> Stamp:
        try:
            stat = self.folder.stat(name)
        except (FileNotFoundError, NotADirectoryError):
            return Stamp(0, 0, None)
        return Stamp(stat.st_size, stat.st_mtime_ns, None)

    def _complete(self) -> None:
        """Append what the journal holds, which may be there already in whole or in part."""
        with self.index.reading() as db:
            rows = db.execute("SELECT rowid, path, size, mtime_ns, text FROM journal ORDER BY rowid").fetchall()
        for number, name, size, mtime_ns, text in rows:
            stamp = self._appended(name, Stamp(size, mtime_ns, None), text)
            with self.index.writing() as db:
                db.execute("DELETE FROM journal WHERE rowid = ?", (number,))
                self.index.extend(db, name, [], stamp)

    def _appended(self, name: str, before: Stamp, text: str) -> Stamp:
        """Append text to the file that was stamped `before`; its stamp then, as far as the index is in step with it."""
        data = text.encode()
        if self._stat(name) == before:
            after = self.folder.append(name, data)
            alone = after.st_size == before.size + len(data)
            return Stamp(after.st_size, after.st_mtime_ns if alone else _NEVER, None)
        # A crash has left some of it, or somebody else has changed the file since: only what is missing is added.
        rest = (self.folder.bytes_of(name) or b"")[before.size :]
        if rest and rest != data and data.startswith(rest):
            self.folder.truncate(name, before.size)
        day = day_of(name) or datetime.now().date()
        self._append_missing(name, [placed.entry for placed in read_lines(text, day)])
        return Stamp(self.folder.size(name), _NEVER, None)

    def _append_missing(self, name: str, entries: list[Entry]) -> None:
        present = {row.entry.id for row in self.rows(name)}
        if missing := [entry for entry in entries if entry.id not in present]:
            self.folder.append(name, self._text(name, missing).encode())

    def _appended_only(self, entries: list[Entry]) -> list[Entry]:
        """What `append` does without an index."""
        rows = self._all_rows()
        known: dict[bytes, list[Row]] = {}
        for row in rows:
            known.setdefault(print_of(row.entry.text), []).append(row)
        ids, last = {row.entry.id for row in rows}, _last(rows)
        new = _once_each(
            entry
            for entry in entries
            if not (same := known.get(print_of(entry.text))) or self._is_news(entry, same, last)
        )
        _refuse_taken(new, ids.__contains__)
        for name, those in _by_day(new):
            self.folder.append(name, self._text(name, those).encode())
        return new

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The lock and one transaction of the index, for what other modules keep in it."""
        with self.folder.locked(), self.index.writing() as db:
            yield db

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """A connection to the index that sees one state of it."""
        return self.index.reading()

    # Keeping the index in step

    def sync(self, seconds: float = SYNC_SECONDS) -> None:
        """Index again the files that have changed; without the lock after `seconds` it is left to the next search."""
        if any(self._changes()) or self._has_journal():
            try:
                with self.folder.locked(seconds):
                    self._bring_up_to_date()
            except WorkspaceError as error:
                logger.info("The memory index is not brought up to date now: %s", error)

    def reindex(self) -> int:
        """Make the index anew from the files; how many entries it holds."""
        if not self.folder.exists():
            return 0
        with self.folder.locked():
            return _mended(self._indexed_anew)

    def _indexed_anew(self) -> int:
        self._complete()
        with self.index.writing() as db:
            abandoned = self.index.empty(db)
            for name in self._stats():
                self._index(db, name, None)
            self.index.mark_abandoned(db, abandoned, True)
            return self.index.size(db)

    def _bring_up_to_date(self) -> None:
        self._complete()
        gone, changed = self._changes()
        if not gone and not changed:
            return
        # All in one, so that nobody finds a file that was renamed twice, or not at all.
        with self.index.writing() as db:
            for name in gone:
                self.index.remove(db, name)
                db.execute("DELETE FROM tails WHERE path = ?", (name,))
            for name, stamp in changed.items():
                self._index(db, name, stamp)

    def _index(self, db: sqlite3.Connection, name: str, old: Stamp | None) -> None:
        try:
            stat, data = self._stat(name), self.folder.bytes_of(name)
        except OSError as error:
            logger.warning("%s is left out of the memory index: %s", name, error)
            return
        if data is None:
            return
        digest = blake2b(data, digest_size=16).hexdigest()
        recent = 0 <= time.time_ns() - stat.mtime_ns < _COARSE_NS
        stamp = Stamp(stat.size, _NEVER if recent else stat.mtime_ns, digest)
        if old is not None and old.digest == digest:
            self.index.extend(db, name, [], stamp)
        else:
            self.index.replace(db, name, self._parsed(name, data), stamp)
            _set_tail(db, name, len(data), data.count(b"\n"))

    def _changes(self) -> tuple[list[str], dict[str, Stamp | None]]:
        """Names of indexed files that are gone, and the files that are not indexed as they are, with what is known."""
        stamps, files = self.index.stamps(), self._stats()
        changed = {
            name: stamp
            for name, stat in files.items()
            if (stamp := stamps.get(name)) is None or (stamp.size, stamp.mtime_ns) != (stat.st_size, stat.st_mtime_ns)
        }
        return sorted(stamps.keys() - files.keys()), changed

    def _has_journal(self) -> bool:
        with self.index.reading() as db:
            return db.execute("SELECT 1 FROM journal").fetchone() is not None

    def _stats(self) -> dict[str, os.stat_result]:
        """The files that are indexed."""
        found: dict[str, os.stat_result] = {}
        try:
            with suppress(FileNotFoundError, NotADirectoryError):
                if S_ISREG((stat := self.folder.stat(MEMORY)).st_mode):
                    found[MEMORY] = stat
            return found | self.folder.stats(ARCHIVE) | self.folder.stats(LEDGER)
        except WorkspaceError as error:
            logger.warning("Files of the memory are left out: %s", error)
            return found

    def _all_rows(self) -> list[Row]:
        found: list[Row] = []
        for name in self._stats():
            try:
                found += self.rows(name)
            except WorkspaceError as error:
                logger.warning("A file of the memory is left out: %s", error)
        return found

    def rows(self, name: str) -> list[Row]:
        """The entries in a file."""
        return self._parsed(name, self.folder.bytes_of(name) or b"")

    def _parsed(self, name: str, data: bytes) -> list[Row]:
        return [Row(name, placed.first, placed.entry) for placed in self.placed(name, data)]

    def placed(self, name: str, data: bytes) -> list[Placed]:
        """The entries in a file that holds `data`."""
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            logger.warning("%s: byte %d is not UTF-8; the file stays as it is", self.folder.path / name, error.start)
            text = data.decode(errors="replace")
        text = text.removeprefix("\ufeff")
        if day := day_of(name):
            return read_lines(text, day)
        return read_lines(text, datetime.fromtimestamp(self._stat(name).mtime_ns / 1e9).date(), file=name)

    # Reading

    def ledger(self, *, day: date | None = None) -> list[Row]:
        """The entries of a day, in the order they were written; None is today."""
        name = f"{LEDGER}/{day or datetime.now().date()}.md"
        return self.rows(name) if self.folder.size(name) else []

    def search(self, query: str, limit: int = 10, *, decay_floor: float = 0.5, decay_hours: float = 24.0) -> list[Hit]:
        """The entries that fit a query best. Never raises for what the query says or what state the files are in."""
        now = datetime.now().astimezone()

        def searched() -> list[Hit]:
            self.sync()
            return self.index.search(
                query, limit, now=now, decay_floor=decay_floor, decay_hours=decay_hours, vectors=self._vectors
            )

        try:
            if limit <= 0 or not query.strip() or not self.folder.exists():
                return []
        except WorkspaceError as error:
            logger.warning("This memory is not searched: %s", error)
            return []
        try:
            return _mended(searched)
        except UNUSABLE as error:
            logger.warning("The memory index cannot be used, the files are searched: %s", error)
            rows = self._all_rows()
            return scan(rows, query, limit, now=now, decay_floor=decay_floor, decay_hours=decay_hours)

    def get(self, path: str, start: int = 1, end: int | None = None) -> str:
        """Lines `start` to `end` of a Markdown file, counted from 1, without our comments; at most 2,000.

        The path may say them itself, as `memory/2026-11-30.md:12` or `…:12-20`.
        Raises `WorkspaceError` for a path that is none of MEMORY.md, a ledger (archived or not) or an earlier version.
        """
        name = path.replace("\\", "/").removeprefix("./")
        name, start, end = lines_at(name, start, end)
        if not _READABLE.fullmatch(name):
            raise WorkspaceError(f"{path!r} cannot be read; give {MEMORY} or a path in {LEDGER}/ as a search names it.")
        if (data := self.folder.bytes_of(name)) is None:
            raise WorkspaceError(f"{path!r}: there is no such file in this memory.")
        lines = data.decode(errors="replace").removeprefix("\ufeff").split("\n")
        first = max(start, 1) - 1
        last = first + MOST_LINES if end is None else min(max(end, 0), first + MOST_LINES)
        return "\n".join(map(without_comment, lines[first:last]))

    # The curated memory

    def memory_md(self) -> str:
        """What MEMORY.md says, "" where there is none. A damaged one is kept aside before it is read."""
        data = self.folder.bytes_of(MEMORY) or b""
        text = data.decode(errors="replace")
        if b"\0" in data or text.encode() != data:
            self._keep_aside(MEMORY)
        return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\0", "")

    def _keep_aside(self, name: str) -> None:
        """Keep a copy of a file that cannot be read as what it should be, and say so; once for each."""
        try:
            with self.folder.locked():
                before = self.folder.copies()
                if (copy := self.folder.keep_aside(name)) not in before:
                    logger.warning("%s is damaged; as it is it is kept as %s", self.folder.path / name, copy)
        except OSError as error:
            logger.warning("%s is damaged, and cannot be kept aside: %s", name, error)

    def replace_memory(self, text: str, *, was: str, keep: bool = True) -> bool:
        """Make `text` the curated memory if that still is `was`; whether it was. The old one goes to the history."""
        with self.folder.locked():
            if self.memory_md() != was:
                return False
            if keep and was.strip():
                self.keep_version()
            self.folder.replace(MEMORY, clean_text(text).encode())
            try:
                _mended(self._bring_up_to_date)
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
        except (ValueError, RecursionError):
            state = None
        if isinstance(state, dict):
            return state
        self._keep_aside(STATE)
        return {}

    def write_state(self, state: Mapping[str, Any]) -> None:
        text = json.dumps({"v": VERSION, **state}, ensure_ascii=False, indent=1)
        self.folder.replace(STATE, clean_text(text).encode())

    # Forgetting

    def flushed_keys(self) -> dict[str, str]:
        """Thread -> key of the newest message that was flushed, as far as the index can tell."""
        try:
            with self.reading() as db:
                return dict(db.execute("SELECT thread, key FROM flush_marks").fetchall())
        except UNUSABLE as error:
            logger.warning("The memory index cannot tell what was flushed: %s", error)
            return {}

    def forget(self, text: str) -> int:
        """Remove every entry, line, version and logged message that holds `text`; how many places held it.

        The id of an entry takes out that entry, and whatever says exactly the same. Raises `WorkspaceError` for a text
        that is too short, and where something could not be cleaned.
        """
        if not self.folder.exists():
            holding(text)
            return 0
        with self.folder.locked():
            return forget(self, text)

    def forget_everywhere(self, text: str) -> int:
        """As `forget`, and in the summaries and replies that were bought for all the memories of the workspace."""
        cache, holds = self.folder.workspace / CACHE, holding(text)
        bought = FileCache(cache).forget(holds) if cache.is_file() else 0
        return self.forget(text) + bought

    def close(self) -> None:
        self.index.close()


def _mended(call: Callable[[], T]) -> T:
    """What `call` returns, with a new index where it finds the old one damaged."""
    try:
        return call()
    except DamagedIndexError as error:
        logger.warning("%s", error)
        return call()


def _last(rows: Sequence[Row]) -> Row | None:
    """The last entry of the newest ledger."""
    ledgers = [row for row in rows if day_of(row.path) and not row.path.startswith(ARCHIVE)]
    return max(reversed(ledgers), key=lambda row: row.path, default=None)


def _again(entry: Entry, before: Entry) -> bool:
    """Whether an entry is of the same messages as the one before it, or not later."""
    return entry.timestamp <= before.timestamp or not set(entry.message_ids).isdisjoint(before.message_ids)


def _once_each(entries: Iterable[Entry]) -> list[Entry]:
    found: dict[bytes, Entry] = {}
    for entry in entries:
        found.setdefault(print_of(entry.text), entry)
    return list(found.values())


def _refuse_taken(entries: Iterable[Entry], is_taken: Callable[[str], bool]) -> None:
    seen: set[str] = set()
    for entry in entries:
        if entry.id in seen or is_taken(entry.id):
            raise EntryError(f"id: {entry.id!r} is that of another entry; give another one, or none")
        seen.add(entry.id)


def _has_id(db: sqlite3.Connection, id_: str) -> bool:
    return db.execute("SELECT 1 FROM entries WHERE id = ?", (id_,)).fetchone() is not None


def _set_tail(db: sqlite3.Connection, name: str, size: int, lines: int) -> None:
    db.execute("INSERT OR REPLACE INTO tails VALUES (?, ?, ?)", (name, size, lines))


def _by_day(entries: Iterable[Entry]) -> Iterator[tuple[str, list[Entry]]]:
    ordered = sorted(entries, key=lambda entry: entry.day)
    for day, group in groupby(ordered, key=lambda entry: entry.day):
        yield f"{LEDGER}/{day.isoformat()}.md", list(group)
