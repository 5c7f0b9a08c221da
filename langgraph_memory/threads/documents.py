"""`ThreadDocuments`: small JSON documents that belong to a thread and not to its state.

Which sandbox or terminal a thread is bound to has to be known outside a run, and must not go back when the thread is
rewound. Any process that opens the file may read and change a document; one that must not overwrite what it has not
seen says what it expects to find.

The documents of a thread go with it. They are not copied with it: a binding that two threads share would let each work
in the other's place.
"""

from __future__ import annotations

import json
import sqlite3
from enum import Enum
from typing import Any, Final

from ..errors import DocumentChangedError, UnstorableError
from .codec import Codec
from .ids import thread_text
from .saver import ThreadSaver, thread_saver
from .schema import writing

MOST_BYTES = 65_536
MOST_NAME = 200
READ = "SELECT type, data FROM lgm_documents WHERE thread_id = ? AND name = ?"


class Expected(Enum):
    """What a document may be, beside a value."""

    ANYTHING = "anything"
    ABSENT = "absent"


ANYTHING: Final = Expected.ANYTHING
ABSENT: Final = Expected.ABSENT


class ThreadDocuments:
    """The documents of the threads of `saver`."""

    def __init__(self, saver: ThreadSaver) -> None:
        self.saver = thread_saver(saver, "ThreadDocuments")

    async def get(self, thread_id: Any, name: str, default: Any = None) -> Any:
        """A document, or `default` where there is none."""
        found = await self.saver.call(_read, self.saver.codec, thread_text(thread_id), _checked(name))
        return default if found is None else json.loads(found)

    async def set(self, thread_id: Any, name: str, value: Any, *, expected: Any = ANYTHING) -> None:
        """Write a document, if it is `expected` now: a value, `ABSENT`, or by default anything.

        Raises `DocumentChangedError` where it is something else, and `UnstorableError` for what is not JSON (tuples
        and keys that are no text included) or more than 65,536 bytes of it. The thread need not exist yet.
        """
        text = _text(name, value).encode()
        if len(text) > MOST_BYTES:
            raise UnstorableError(
                f"Document {name!r} has {len(text):,} bytes of JSON, more than the {MOST_BYTES:,} a document may have. "
                "Keep what is large in a file, and its path in the document."
            )
        wanted = expected if isinstance(expected, Expected) else _canonical(_text(name, expected))
        await self.saver.call(_write, self.saver.codec, thread_text(thread_id), _checked(name), text, wanted)

    async def delete(self, thread_id: Any, name: str) -> bool:
        """Remove a document; whether there was one."""
        return await self.saver.call(_delete, thread_text(thread_id), _checked(name))

    async def names(self, thread_id: Any) -> list[str]:
        """The names of a thread's documents, sorted."""
        return await self.saver.call(_names, thread_text(thread_id))


def _checked(name: Any) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= MOST_NAME or not _is_writable(name):
        raise UnstorableError(f"{name!r} cannot name a document: use a text of 1 to {MOST_NAME} characters.")
    return name


def _is_writable(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _text(name: str, value: Any) -> str:
    """`value` as JSON that reads back as the same value."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        same = json.loads(text) == value
    except (TypeError, ValueError, RecursionError) as error:
        raise UnstorableError(f"Document {name!r} is not JSON: {error}.") from error
    if not same or not _is_writable(text):
        raise UnstorableError(
            f"Document {name!r} would read back as something else: {value!r}. Use dicts with text keys, lists, whole "
            "texts, numbers, true, false and null."
        )
    return text


def _canonical(text: str | bytes) -> str:
    """JSON in which equal values are equal texts, and `1`, `1.0` and `true` are not equal."""
    return json.dumps(json.loads(text), sort_keys=True)


def _read(db: sqlite3.Connection, codec: Codec, thread_id: str, name: str) -> bytes | None:
    row = db.execute(READ, (thread_id, name)).fetchone()
    return codec.unseal(*row)[1] if row else None


def _write(
    db: sqlite3.Connection, codec: Codec, thread_id: str, name: str, text: bytes, wanted: str | Expected
) -> None:
    with writing(db):
        found = _read(db, codec, thread_id, name)
        if wanted is not ANYTHING and wanted != (ABSENT if found is None else _canonical(found)):
            current = "not there" if found is None else found.decode()
            raise DocumentChangedError(
                f"Document {name!r} of thread {thread_id!r} is {current}, which is not what was expected. Read it "
                "again and decide anew."
            )
        row = (thread_id, name, *codec.seal("json", text))
        db.execute("INSERT OR REPLACE INTO lgm_documents (thread_id, name, type, data) VALUES (?, ?, ?, ?)", row)


def _delete(db: sqlite3.Connection, thread_id: str, name: str) -> bool:
    with writing(db):
        return db.execute("DELETE FROM lgm_documents WHERE thread_id = ? AND name = ?", (thread_id, name)).rowcount > 0


def _names(db: sqlite3.Connection, thread_id: str) -> list[str]:
    rows = db.execute("SELECT name FROM lgm_documents WHERE thread_id = ? ORDER BY name", (thread_id,))
    return [name for (name,) in rows.fetchall()]
