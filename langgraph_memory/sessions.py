"""The session log: messages that a summary is about to stand for, each once, in plain JSON lines.

The thread keeps all its messages anyway. The log is for people and programs that read what was said without a
checkpointer, and it outlives the thread. One file a thread, `<namespace>/sessions/<thread>.jsonl`, one message a line:

    {"id": KEY, "thread": ID, "logged": ISO 8601, "type": "human", "data": {…}}

It is only ever appended to, under the lock of its namespace. A line that a crash cut short is ended and its message
written again, so a reader skips what is no JSON.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from filelock import FileLock
from langchain_core.messages import BaseMessage

from .context.text import clean_text, to_json
from .names import safe_name

FOLDER = "sessions"
LOCK = ".lock"
LOCK_SECONDS = 30.0
_START = b'{"id": '


class SessionLog:
    """The log of one thread in the folder of its namespace."""

    def __init__(self, folder: Path, thread: str) -> None:
        self.path = folder / FOLDER / f"{safe_name(thread)}.jsonl"
        self._thread = thread
        self._lock = folder / LOCK

    def append(self, messages: Iterable[tuple[str, BaseMessage]]) -> int:
        """Log those of `messages`, each with its key, that are not in the file yet; how many that were.

        Raises `OSError` (a `TimeoutError` for a lock that is held too long) and leaves whole lines at most.
        """
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(self._lock, timeout=LOCK_SECONDS, mode=0o600), _opened(self.path) as descriptor:
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                known = set(_keys(file))
            lines = [self._line(key, message) for key, message in messages if key not in known]
            if lines:
                _add(descriptor, b"".join(lines))
            return len(lines)

    def _line(self, key: str, message: BaseMessage) -> bytes:
        logged = datetime.now().astimezone().isoformat(timespec="seconds")
        rest = {"thread": self._thread, "logged": logged, "type": message.type, "data": _data(message)}
        # The key is escaped and not cleaned, so that it is found again as it is.
        return f'{{"id": {json.dumps(key)}, {clean_text(to_json(rest)[1:])}\n'.encode()


def _data(message: BaseMessage) -> dict[str, Any]:
    """The message without its artifact, which may be any object and is not part of what was said."""
    return message.model_dump(exclude={"artifact"})


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _keys(lines: Iterable[bytes]) -> Iterator[str]:
    decoder = json.JSONDecoder()
    for line in lines:
        if not line.startswith(_START):
            continue
        with suppress(ValueError):
            # Parsing only the key is enough where the end of a line is what it should be.
            if line.endswith(b"}}\n") or json.loads(line):
                yield decoder.raw_decode(line.decode(), len(_START))[0]


def _last(descriptor: int, size: int) -> bytes:
    os.lseek(descriptor, size - 1, os.SEEK_SET)
    return os.read(descriptor, 1)


def _add(descriptor: int, lines: bytes) -> None:
    size = os.fstat(descriptor).st_size
    torn = size and _last(descriptor, size) != b"\n"
    left = memoryview(b"\n" + lines if torn else lines)
    try:
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    except OSError:
        # A full disk must not leave half a message that the next writer would have to make sense of.
        os.ftruncate(descriptor, size)
        raise
