"""Where bought summaries are kept, and the counts of what side calls took: in the process, or in a file `cache.db`.

A cache maps the digest of a prompt to the accepted answer. It can be lost at any time: summaries are then bought again.
Whoever is about to buy *claims* the digest for a while, so that others wait for the answer instead of paying too; the
claim of a process that died runs out.

`FileCache` is shared by threads and processes. It opens the file for every call and closes it again, so there is
nothing to close, nothing is inherited over a fork, and no `-wal` or `-shm` file stays behind. `Guarded` keeps a run
alive when the file cannot be used.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar

from .errors import LangGraphMemoryError

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

IN_PROCESS = 512
IN_FILE = 10_000
BUSY_SECONDS = 10.0
REST_SECONDS = 300.0
"""How long a cache that failed is left alone."""


class Usage(NamedTuple):
    """What the side calls of one kind took on a day with a model. Tokens are the provider's."""

    day: str
    """Local date, `YYYY-MM-DD`."""
    model: str
    kind: str
    calls: int
    """Calls that were answered, whether the answer was of use or not."""
    input: int
    cached: int
    """Part of the input that the provider read from its prompt cache."""
    output: int


class SummaryCache(Protocol):
    """Summaries by the digest of their prompt. Plain blocking calls, safe from every thread."""

    def get(self, digest: str) -> str | None:
        """The summary, if it was bought."""

    def put(self, digest: str, text: str, *, boundary: str = "", tokens: int = 0, model: str = "") -> None:
        """Keep a summary. `boundary` is the prefix digest of the messages it covers; `tokens` is its size, raw."""

    def covering(self, boundaries: Sequence[str]) -> dict[str, str]:
        """The newest summary of each of `boundaries` that has one."""

    def claim(self, digest: str, owner: str, seconds: float) -> bool:
        """Whether `owner` may buy; if so, nobody else may for `seconds` or until the release."""

    def release(self, digest: str, owner: str) -> None:
        """Give up a claim, if it is held."""

    def add_usage(self, model: str, kind: str, usage: Mapping[str, Any] | None) -> None:
        """Count one answered call; `usage` is the `usage_metadata` of the reply."""

    def usage(self) -> list[Usage]:
        """What was counted, one row a day, model and kind."""


def totals(rows: Iterable[Usage]) -> list[Usage]:
    """`rows` with those of the same day, model and kind added up."""
    sums: dict[tuple[str, str, str], list[int]] = {}
    for row in rows:
        sums[row[:3]] = [a + b for a, b in zip(sums.get(row[:3], [0] * 4), row[3:], strict=True)]
    return [Usage(*key, *numbers) for key, numbers in sorted(sums.items())]


def _row(model: str, kind: str, usage: Mapping[str, Any] | None) -> Usage:
    usage = usage or {}
    cached = (usage.get("input_token_details") or {}).get("cache_read")
    numbers = usage.get("input_tokens"), cached, usage.get("output_tokens")
    return Usage(time.strftime("%Y-%m-%d"), model, kind, 1, *(number or 0 for number in numbers))


class ProcessCache:
    """Keeps the newest `most` summaries as long as the process lives."""

    def __init__(self, *, most: int = IN_PROCESS, clock: Callable[[], float] = time.time) -> None:
        self._most, self._clock = most, clock
        self._texts: OrderedDict[str, tuple[str, str]] = OrderedDict()
        self._claims: dict[str, tuple[str, float]] = {}
        self._usage: list[Usage] = []
        self._lock = threading.Lock()

    def get(self, digest: str) -> str | None:
        with self._lock:
            return self._texts[digest][0] if digest in self._texts else None

    def covering(self, boundaries: Sequence[str]) -> dict[str, str]:
        wanted = set(boundaries)
        with self._lock:
            return {boundary: text for text, boundary in self._texts.values() if boundary in wanted}

    def put(self, digest: str, text: str, *, boundary: str = "", tokens: int = 0, model: str = "") -> None:
        with self._lock:
            self._texts[digest] = text, boundary
            self._texts.move_to_end(digest)
            while len(self._texts) > self._most:
                self._texts.popitem(last=False)

    def claim(self, digest: str, owner: str, seconds: float) -> bool:
        with self._lock:
            now = self._clock()
            holder, until = self._claims.get(digest, (owner, now))
            if holder != owner and until > now:
                return False
            self._claims[digest] = owner, now + seconds
            return True

    def release(self, digest: str, owner: str) -> None:
        with self._lock:
            if self._claims.get(digest, ("", 0.0))[0] == owner:
                del self._claims[digest]

    def forget(self, holds: Callable[[str], bool]) -> int:
        """Drop the summaries of which `holds` is true; how many that were."""
        with self._lock:
            gone = [digest for digest, (text, _) in self._texts.items() if holds(text)]
            for digest in gone:
                del self._texts[digest]
        return len(gone)

    def add_usage(self, model: str, kind: str, usage: Mapping[str, Any] | None) -> None:
        with self._lock:
            self._usage = totals([*self._usage, _row(model, kind, usage)])

    def usage(self) -> list[Usage]:
        with self._lock:
            return list(self._usage)


class FileCache:
    """Keeps the newest `most` summaries in the SQLite file `path`, whose folder has to exist.

    Every method raises `LangGraphMemoryError` where the file cannot be used, or was written by a newer version.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, most: int = IN_FILE, clock: Callable[[], float] = time.time
    ) -> None:
        self.path = Path(path)
        self._most, self._clock = most, clock

    def get(self, digest: str) -> str | None:
        with self._connected() as db:
            row = db.execute("SELECT text FROM summaries WHERE digest = ?", (digest,)).fetchone()
        return row[0] if row else None

    def covering(self, boundaries: Sequence[str]) -> dict[str, str]:
        with self._connected() as db:
            rows = db.execute(
                "SELECT boundary, text FROM summaries "
                "WHERE boundary IN (SELECT value FROM json_each(?)) ORDER BY rowid",
                (json.dumps(list(boundaries)),),
            )
            return dict(rows.fetchall())

    def put(self, digest: str, text: str, *, boundary: str = "", tokens: int = 0, model: str = "") -> None:
        with self._writing() as db:
            row = digest, boundary, text, tokens, model, self._clock()
            db.execute("INSERT OR REPLACE INTO summaries VALUES (?, ?, ?, ?, ?, ?)", row)
            db.execute("DELETE FROM summaries WHERE rowid <= (SELECT max(rowid) FROM summaries) - ?", (self._most,))

    def claim(self, digest: str, owner: str, seconds: float) -> bool:
        with self._writing() as db:
            now = self._clock()
            db.execute("DELETE FROM claims WHERE until <= ?", (now,))
            taken = db.execute(
                "INSERT INTO claims VALUES (?, ?, ?) "
                "ON CONFLICT (digest) DO UPDATE SET until = excluded.until WHERE owner = excluded.owner",
                (digest, owner, now + seconds),
            )
            return taken.rowcount == 1

    def release(self, digest: str, owner: str) -> None:
        with self._writing() as db:
            db.execute("DELETE FROM claims WHERE digest = ? AND owner = ?", (digest, owner))

    def forget(self, holds: Callable[[str], bool]) -> int:
        """Drop the summaries of which `holds` is true, and leave no byte of them in the file; how many that were."""
        with self._connected() as db:
            rows = db.execute("SELECT digest, text FROM summaries").fetchall()
            gone = [(digest,) for digest, text in rows if holds(text)]
            db.executemany("DELETE FROM summaries WHERE digest = ?", gone)
            # Also for what was dropped before, whose bytes may still be there.
            db.execute("VACUUM")
            if db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                raise sqlite3.OperationalError("others are reading it, so what was dropped is still in its log")
        return len(gone)

    def add_usage(self, model: str, kind: str, usage: Mapping[str, Any] | None) -> None:
        with self._writing() as db:
            db.execute(
                "INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (day, model, kind) DO UPDATE SET "
                "calls = calls + excluded.calls, input = input + excluded.input, "
                "cached = cached + excluded.cached, output = output + excluded.output",
                _row(model, kind, usage),
            )

    def usage(self) -> list[Usage]:
        with self._connected() as db:
            return [Usage(*row) for row in db.execute("SELECT * FROM usage ORDER BY day, model, kind")]

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction. Where its end is not reached, closing the connection rolls it back."""
        with self._connected() as db:
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None)) as db:
                self._prepare(db)
                yield db
        except (sqlite3.Error, OSError) as error:
            raise LangGraphMemoryError(
                f"The summary cache {str(self.path)!r} cannot be used: {error}. It has to be a SQLite file that can be "
                "written, in a folder that can be written. It may be deleted: summaries are then bought again."
            ) from error

    def _prepare(self, db: sqlite3.Connection) -> None:
        """Bring the file to this version."""
        version = _version(db)
        if version > len(MIGRATIONS):
            raise LangGraphMemoryError(
                f"The summary cache {str(self.path)!r} has version {version}, this library knows versions up to "
                f"{len(MIGRATIONS)}. Upgrade langgraph-memory-middleware, or use another file."
            )
        if version == 0:
            # Summaries are as private as the messages; a file system without modes has nobody to hide them from.
            with suppress(OSError):
                self.path.chmod(0o600)
        # SQLite does not wait for others here; whoever is refused is as safe without, and the next one sets it.
        with suppress(sqlite3.OperationalError):
            db.execute("PRAGMA journal_mode = WAL")
        # Survives the end of this process; only a power cut can lose the newest summaries, which cost but a call.
        db.execute("PRAGMA synchronous = NORMAL")
        if version < len(MIGRATIONS):
            _migrate(db)


def _migrate(db: sqlite3.Connection) -> None:
    db.execute("BEGIN IMMEDIATE")
    # Read again: somebody else may have done it in the meantime.
    for migrate in MIGRATIONS[_version(db) :]:
        migrate(db)
    db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    db.execute("COMMIT")


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _first_tables(db: sqlite3.Connection) -> None:
    db.execute(
        "CREATE TABLE summaries (digest TEXT PRIMARY KEY, boundary TEXT NOT NULL, text TEXT NOT NULL, "
        "tokens INTEGER NOT NULL, model TEXT NOT NULL, created REAL NOT NULL)"
    )
    db.execute(
        "CREATE TABLE usage (day TEXT, model TEXT, kind TEXT, calls INTEGER NOT NULL, input INTEGER NOT NULL, "
        "cached INTEGER NOT NULL, output INTEGER NOT NULL, PRIMARY KEY (day, model, kind))"
    )
    db.execute("CREATE TABLE claims (digest TEXT PRIMARY KEY, owner TEXT NOT NULL, until REAL NOT NULL)")


def _index_of_boundaries(db: sqlite3.Connection) -> None:
    db.execute("CREATE INDEX summaries_by_boundary ON summaries (boundary)")


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (_first_tables, _index_of_boundaries)
"""What brings a file to the next version; appended to, never edited."""


class Guarded:
    """A cache that never raises: what `cache` cannot do, one in the process does.

    A cache that failed is left alone for five minutes. It is reported when it begins to fail, not every time.
    """

    def __init__(self, cache: SummaryCache, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._cache, self._clock = cache, clock
        self._near = ProcessCache()
        self._failed: float | None = None
        self._lock = threading.Lock()

    def get(self, digest: str) -> str | None:
        return self._near.get(digest) or self._tried(self._cache.get, self._near.get, digest)

    def covering(self, boundaries: Sequence[str]) -> dict[str, str]:
        near = self._near.covering(boundaries)
        return {**self._tried(self._cache.covering, self._near.covering, boundaries), **near}

    def put(self, digest: str, text: str, *, boundary: str = "", tokens: int = 0, model: str = "") -> None:
        self._near.put(digest, text, boundary=boundary)
        self._tried(self._cache.put, self._near.put, digest, text, boundary=boundary, tokens=tokens, model=model)

    def claim(self, digest: str, owner: str, seconds: float) -> bool:
        mine = self._near.claim(digest, owner, seconds)
        return mine and self._tried(self._cache.claim, self._near.claim, digest, owner, seconds)

    def release(self, digest: str, owner: str) -> None:
        self._near.release(digest, owner)
        self._tried(self._cache.release, self._near.release, digest, owner)

    def forget(self, holds: Callable[[str], bool]) -> int:
        """Drop the summaries of which `holds` is true. Raises what a cache raises: a text that stays has to be told."""
        there = self._cache.forget(holds) if isinstance(self._cache, FileCache | ProcessCache) else 0
        return max(there, self._near.forget(holds))

    def add_usage(self, model: str, kind: str, usage: Mapping[str, Any] | None) -> None:
        self._tried(self._cache.add_usage, self._near.add_usage, model, kind, usage)

    def usage(self) -> list[Usage]:
        return totals([*self._tried(self._cache.usage, list), *self._near.usage()])

    def _tried(self, call: Callable[P, T], instead: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        failed = self._failed
        if failed is not None and self._clock() - failed < REST_SECONDS:
            return instead(*args, **options)
        try:
            found = call(*args, **options)
        except Exception as error:  # noqa: BLE001 - whatever a cache raises, the run goes on without it
            self._report(error)
            return instead(*args, **options)
        self._failed = None
        return found

    def _report(self, error: Exception) -> None:
        with self._lock:
            first, self._failed = self._failed is None, self._clock()
        if first:
            logger.warning("Summaries are kept in this process only for now. %s", error)
