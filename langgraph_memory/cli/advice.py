"""What to do about an error, told by what caused it: a full disk, a folder that cannot be written."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from pathlib import Path

FULL = "The disk is full: make room on it, then try again."
MAY_BE_FULL = "The disk may be full: make room on it, then try again."
READ_ONLY = "It cannot be written: change the rights of the file and its folder, or name another place."
DENIED = "To allow it, change the rights of the file and its folder; or name another place."
NOT_OPENED = "Is its folder there, and may you write in it?"
GONE = "The working folder is not there any more: go to one that is."

_OF_ERRNO = {
    errno.ENOSPC: FULL,
    errno.EDQUOT: FULL,
    errno.EROFS: READ_ONLY,
    errno.EACCES: DENIED,
    errno.EPERM: READ_ONLY,
}
_OF_SQLITE = {
    "SQLITE_FULL": FULL,
    "SQLITE_IOERR": MAY_BE_FULL,
    "SQLITE_READONLY": READ_ONLY,
    "SQLITE_CANTOPEN": NOT_OPENED,
}


def advice(error: BaseException) -> str:
    """A sentence about the innermost cause there is one for; empty where there is none."""
    found = [text for cause in _causes(error) if (text := _of(cause))]
    return found[-1] if found else ""


def advised(text: str, error: BaseException) -> str:
    """`text` about `error`, as a sentence, and what to do about it."""
    what = advice(error)
    return f"{text if text.endswith(('.', '?', '!')) else f'{text}.'} {what}" if what else text


def told(error: OSError) -> str:
    """What the system says that went wrong, and with which file."""
    try:
        Path.cwd()
    except OSError:
        return GONE
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen = set[int]()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _of(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno is not None:
        return _OF_ERRNO.get(error.errno, "")
    if isinstance(error, sqlite3.Error):
        name = getattr(error, "sqlite_errorname", "") or ""
        return next((text for begin, text in _OF_SQLITE.items() if name.startswith(begin)), "")
    return ""
