"""The errors of this library, each named after the state it reports.

Every message says what was wrong (the value itself), where it came from and what is allowed or what to do next.
"""

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
