"""The key of the digests in an encrypted file.

It is random and stored sealed, so that nobody without the cipher can find out whether a text he guesses is in there.
"""

from __future__ import annotations

import secrets
import sqlite3

from .codec import Codec
from .schema import writing

NAME = "digest"
BYTES = 32


def digest_key(db: sqlite3.Connection, codec: Codec) -> bytes:
    """The key for `codec`; empty where it does not encrypt."""
    if not codec.encrypts:
        return b""
    if (found := _read(db, codec)) is not None:
        return found
    with writing(db):
        # Read again: another process may have written one in the meantime.
        found = _read(db, codec)
        if found is None:
            found = secrets.token_bytes(BYTES)
            db.execute("INSERT INTO lgm_keys VALUES (?, ?, ?)", (NAME, *codec.seal("bytes", found)))
    return found


def _read(db: sqlite3.Connection, codec: Codec) -> bytes | None:
    row = db.execute("SELECT type, data FROM lgm_keys WHERE name = ?", (NAME,)).fetchone()
    return bytes(codec.unseal(*row)[1]) if row else None
