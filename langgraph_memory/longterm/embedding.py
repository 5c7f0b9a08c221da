"""Entries by meaning, beside their words: vectors of a LangChain `Embeddings` object, in the file of the index.

A vector belongs to a text, whatever file it stands in, and is bought once. Vectors of another model, known by its name
or by the length of its vectors, are thrown away and bought again. What a search finds by words and by meaning is fused
by rank (reciprocal rank fusion, Cormack et al. 2009), as the two kinds of scores cannot be compared.

Needs numpy, which the extra `embeddings` brings.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from langchain_core.embeddings import Embeddings

from ..errors import LangGraphMemoryError

BATCH = 100
"""Texts that the model is given at once."""

TABLES = (
    "CREATE TABLE vectors (print BLOB PRIMARY KEY, vector BLOB NOT NULL)",
    # One row; `changes` tells whether the vectors that a process has read are still those of the file.
    "CREATE TABLE vectors_are (model TEXT NOT NULL, dimension INTEGER NOT NULL, changes INTEGER NOT NULL)",
    "INSERT INTO vectors_are VALUES ('', 0, 0)",
)
NAMES = ("vectors", "vectors_are")


class Base(Protocol):
    """What is asked of an index."""

    def reading(self) -> AbstractContextManager[sqlite3.Connection]: ...

    def writing(self) -> AbstractContextManager[sqlite3.Connection]: ...


class _Read(NamedTuple):
    """Vectors as they are in the file, one row each."""

    changes: int
    prints: list[bytes]
    matrix: Any


class Vectors:
    """The vectors of an index. `name` says which model it is: another name means other vectors."""

    def __init__(self, embeddings: Embeddings, name: str) -> None:
        self._embeddings, self._name = embeddings, name
        self._read: _Read | None = None
        self._lock = threading.Lock()

    def nearest(self, index: Base, query: str, size: int) -> list[bytes]:
        """The prints of the texts that are nearest to a query, the nearest first; new texts are embedded before.

        Raises whatever the model raises, and `LangGraphMemoryError` without numpy.
        """
        numpy = _numpy()
        wanted = _unit(numpy, self._embeddings.embed_query(query))
        self.update(index, len(wanted))
        read = self._matrix(index, numpy, len(wanted))
        if not read.prints:
            return []
        near = read.matrix @ wanted
        best = numpy.argsort(-near, kind="stable")[:size]
        return [read.prints[place] for place in best if near[place] > 0]

    def update(self, index: Base, dimension: int | None = None) -> int:
        """Embed the texts that have no vector of this model yet; how many that were."""
        numpy, count = _numpy(), 0
        with index.reading() as db:
            model, stored, _ = db.execute("SELECT * FROM vectors_are").fetchone()
        if model != self._name or stored not in (0, dimension or stored):
            self._forget_all(index)
        while texts := _without(index):
            # The model is asked outside of any transaction, so nobody waits for it.
            found = self._embeddings.embed_documents([text for _, text in texts])
            rows = [(print_, _unit(numpy, vector).tobytes()) for (print_, _), vector in zip(texts, found, strict=True)]
            with index.writing() as db:
                model, stored, _ = db.execute("SELECT * FROM vectors_are").fetchone()
                if model != self._name or stored not in (0, len(found[0])):
                    raise LangGraphMemoryError(
                        f"Vectors of {self._name!r} ({len(found[0])} numbers) cannot stand beside those of {model!r} "
                        f"({stored}) that somebody else just wrote: use one embedding model a namespace."
                    )
                db.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
                db.execute("UPDATE vectors_are SET dimension = ?, changes = changes + 1", (len(found[0]),))
            count += len(rows)
        return count

    def _forget_all(self, index: Base) -> None:
        with index.writing() as db:
            db.execute("DELETE FROM vectors")
            db.execute("UPDATE vectors_are SET model = ?, dimension = 0, changes = changes + 1", (self._name,))

    def _matrix(self, index: Base, numpy: Any, dimension: int) -> _Read:
        with index.reading() as db:
            changes = db.execute("SELECT changes FROM vectors_are").fetchone()[0]
            with self._lock:
                if self._read is not None and self._read.changes == changes:
                    return self._read
            rows = db.execute("SELECT print, vector FROM vectors").fetchall()
        matrix = numpy.frombuffer(b"".join(vector for _, vector in rows), dtype=numpy.float32)
        read = _Read(changes, [print_ for print_, _ in rows], matrix.reshape(-1, dimension))
        with self._lock:
            self._read = read
        return read


def forget(db: sqlite3.Connection) -> None:
    """Leave no vector of a text that is no more."""
    gone = db.execute("DELETE FROM vectors WHERE print NOT IN (SELECT print FROM entries)").rowcount
    if gone:
        db.execute("UPDATE vectors_are SET changes = changes + 1")


def _without(index: Base) -> list[tuple[bytes, str]]:
    with index.reading() as db:
        return db.execute(
            "SELECT print, min(text) FROM entries WHERE print NOT IN (SELECT print FROM vectors) "
            "GROUP BY print LIMIT ?",
            (BATCH,),
        ).fetchall()


def _unit(numpy: Any, vector: Sequence[float]) -> Any:
    """The vector with length 1, as four-byte numbers of this machine."""
    array = numpy.asarray(vector, dtype=numpy.float32)
    length = float(numpy.linalg.norm(array))
    return array / length if length else array


def _numpy() -> Any:
    try:
        import numpy
    except ImportError as error:
        raise LangGraphMemoryError(
            "Searching by embeddings needs numpy: pip install 'langgraph-memory-middleware[embeddings]'."
        ) from error
    return numpy
