"""The errors of the command line: what was asked for is not there, or is not what it should be."""

from langgraph_memory.errors import LangGraphMemoryError


class RecordingError(LangGraphMemoryError):
    """A recording cannot be read; names file and line."""


class ThreadMismatchError(LangGraphMemoryError):
    """A thread holds other messages than the recording that is to be replayed into it."""


class DatabaseMissingError(LangGraphMemoryError):
    """There is no database of threads where the configuration says."""


class DatabaseUnusableError(LangGraphMemoryError):
    """The file of the threads cannot be read or written, or is not a database."""


class FileUnwritableError(LangGraphMemoryError):
    """A file that was to be written exists already, or cannot be written."""


class TooFewTurnsError(LangGraphMemoryError):
    """A thread has not as many turns as it was to be taken back."""


class MemoryMissingError(LangGraphMemoryError):
    """There is no long-term memory where the configuration says."""


class UnknownMemoryError(LangGraphMemoryError, LookupError):
    """There is no long-term memory of whom was named, or nobody was named and there are several; lists them."""


class MemoryUnusableError(LangGraphMemoryError):
    """The files of a long-term memory cannot be read or written."""


class MemoryFileError(LangGraphMemoryError, LookupError):
    """A memory has no file of the name that was given."""
