"""The errors of this library, each named after the state it reports.

Every message says what was wrong (the value itself), where it came from and what is allowed or what to do next.
"""

from __future__ import annotations

from os import PathLike
from typing import Any

from langchain_core.exceptions import ContextOverflowError


class LangGraphMemoryError(Exception):
    """Base class of everything this library raises on purpose."""


class ConfigError(LangGraphMemoryError, ValueError):
    """A configuration cannot be used; names file, key, value and what is allowed."""


class ContextBudgetError(LangGraphMemoryError, ContextOverflowError):
    """No choice makes the view fit into the context window.

    It is a `ContextOverflowError` too, so that whoever retries failed model calls lets it through at once.

    `parts` maps the name of each part to its size in tokens; `available` is what the messages may take.
    """

    def __init__(self, message: str, *, parts: dict[str, int], available: int) -> None:
        super().__init__(message)
        self.parts = parts
        self.available = available


class RecordMissingError(LangGraphMemoryError, ValueError):
    """A state holds no `memory_record`, so what the model sees cannot be worked out from it."""


class ThreadBusyError(LangGraphMemoryError):
    """A thread has pending tasks, so it cannot be changed from outside a run."""


class DatabaseVersionError(LangGraphMemoryError):
    """A database was written by a newer version of this library."""


class DamagedDatabaseError(LangGraphMemoryError):
    """A row of a thread cannot be read, or refers to something the database does not hold."""


class ThreadIdError(LangGraphMemoryError, ValueError):
    """A thread id that cannot name a thread: missing, empty, or of a type that has no one text form."""


class UnstorableError(LangGraphMemoryError, TypeError):
    """A value cannot be stored as it is; says where it stands. Nothing was written."""


class NotEnteredError(LangGraphMemoryError):
    """Something that has to be entered was used as what it gives once it is; says how to enter it.

    No `AttributeError`: LangChain asks for attributes with a default, and would go on without them.
    """


class ClosedError(LangGraphMemoryError, ValueError):
    """A database was used after the block that had it open."""


class WrongThreadError(LangGraphMemoryError, RuntimeError):
    """A blocking method was called where it would block the event loop it needs."""


class UnknownThreadError(LangGraphMemoryError, LookupError):
    """There is no thread of this name; names the nearest ones."""


class UnknownCheckpointError(LangGraphMemoryError, LookupError):
    """A thread has no checkpoint of this id; names the thread and the nearest ids."""


class ThreadExistsError(LangGraphMemoryError, ValueError):
    """A thread would have been overwritten."""


class NothingToUndoError(LangGraphMemoryError):
    """The history of a thread holds no rewind that could be taken back."""


class EncryptedSearchError(LangGraphMemoryError):
    """Full-text search is off where messages are encrypted: its index would hold their words in the open."""


class DocumentChangedError(LangGraphMemoryError):
    """A document is not what the writer expected to replace; nothing was written."""


def described(value: Any) -> str:
    """A value that was given in place of another, short enough for a message: texts as they are, else the type."""
    if value is None or isinstance(value, str | int | float | PathLike):
        text = repr(value)
        return text if len(text) <= 80 else f"{text[:79]}…"
    name = value.__name__ if isinstance(value, type) else type(value).__name__
    article = "an" if name[:1].lower() in "aeiou" else "a"
    return f"the class {name}" if isinstance(value, type) else f"{article} {name}"
