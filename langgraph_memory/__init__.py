"""Memory for LangGraph agents: what the model sees stays small, valid and stable; what happened stays whole."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import RuntimeConfig
    from .context.report import ContextReport
    from .errors import ConfigError, ContextBudgetError, LangGraphMemoryError
    from .events import MemoryEvent
    from .middleware import MemoryMiddleware
    from .state import MemoryState
    from .threads import ThreadSaver

__all__ = [
    "ConfigError",
    "ContextBudgetError",
    "ContextReport",
    "LangGraphMemoryError",
    "MemoryEvent",
    "MemoryMiddleware",
    "MemoryState",
    "RuntimeConfig",
    "ThreadSaver",
]

_HOMES = {
    "ConfigError": "errors",
    "ContextBudgetError": "errors",
    "ContextReport": "context.report",
    "LangGraphMemoryError": "errors",
    "MemoryEvent": "events",
    "MemoryMiddleware": "middleware",
    "MemoryState": "state",
    "RuntimeConfig": "config",
    "ThreadSaver": "threads",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: the command line's help needs none of LangChain."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
