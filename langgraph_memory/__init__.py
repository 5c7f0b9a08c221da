"""Memory for LangGraph agents: what the model sees stays small, valid and stable; what happened stays whole."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from .config import RuntimeConfig
    from .context.explain import ExplainedView
    from .context.report import ContextReport
    from .context.viewdiff import ViewDiff
    from .errors import ConfigError, ContextBudgetError, LangGraphMemoryError
    from .events import MemoryEvent
    from .longterm.entry import Entry
    from .longterm.workspace import Workspace
    from .middleware import MemoryMiddleware
    from .state import MemoryState
    from .threads import ThreadSaver, ThreadStore
    from .threads.documents import ThreadDocuments
    from .threads.followups import FollowUps
    from .threads.queue import ThreadQueue

OLDEST_PYTHON = (3, 11)


def _refuse_old_python(version: "tuple[int, ...]" = tuple(sys.version_info[:2])) -> None:
    """Say so where Python is too old: pip refuses to install there, but a checkout can be imported.

    Nothing above this line may need a newer Python than 3.8. A program of ours ends with one line.
    """
    if version >= OLDEST_PYTHON:
        return
    needed, found = (".".join(map(str, each)) for each in (OLDEST_PYTHON, version))
    text = f"langgraph_memory needs Python {needed} or newer, and this is {found} ({sys.executable})."
    if sys.argv[0] == "-m" or sys.argv[0].endswith(("/lgm", "/langgraph-memory")):
        sys.stderr.write(f"Error: {text}\n")
        raise SystemExit(2)
    raise ImportError(text)


_refuse_old_python()

__all__ = [
    "ConfigError",
    "ContextBudgetError",
    "ContextReport",
    "Entry",
    "ExplainedView",
    "FollowUps",
    "LangGraphMemoryError",
    "MemoryEvent",
    "MemoryMiddleware",
    "MemoryState",
    "RuntimeConfig",
    "ThreadDocuments",
    "ThreadQueue",
    "ThreadSaver",
    "ThreadStore",
    "ViewDiff",
    "Workspace",
    "create_checkpointer",
]

_HOMES = {
    "ConfigError": "errors",
    "ContextBudgetError": "errors",
    "ContextReport": "context.report",
    "Entry": "longterm.entry",
    "ExplainedView": "context.explain",
    "FollowUps": "threads.followups",
    "LangGraphMemoryError": "errors",
    "MemoryEvent": "events",
    "MemoryMiddleware": "middleware",
    "MemoryState": "state",
    "RuntimeConfig": "config",
    "ThreadDocuments": "threads.documents",
    "ThreadQueue": "threads.queue",
    "ThreadSaver": "threads",
    "ThreadStore": "threads",
    "ViewDiff": "context.viewdiff",
    "Workspace": "longterm.workspace",
}


def create_checkpointer() -> "AbstractAsyncContextManager[ThreadSaver]":
    """A `ThreadSaver` on the configured file: the `checkpointer.path` of a `langgraph.json`.

    Defined here, because LangGraph's server finds only what stands in a module itself.
    """
    from .checkpointer import create_checkpointer as opened

    return opened()


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: the command line's help needs none of LangChain."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
