"""What happened: threads on SQLite, one row a message. `ThreadSaver` is a checkpointer anyone can use alone."""

from .saver import ThreadSaver
from .shapes import Hit, Node, ThreadRow
from .store import ThreadStore
from .verify import ThreadStats, VerifyReport

__all__ = ["Hit", "Node", "ThreadRow", "ThreadSaver", "ThreadStats", "ThreadStore", "VerifyReport"]
