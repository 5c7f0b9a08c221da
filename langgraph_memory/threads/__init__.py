"""What happened: threads on SQLite, one row a message. `ThreadSaver` is a checkpointer anyone can use alone."""

from .saver import ThreadSaver
from .verify import ThreadStats, VerifyReport

__all__ = ["ThreadSaver", "ThreadStats", "VerifyReport"]
