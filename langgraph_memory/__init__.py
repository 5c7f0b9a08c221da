"""Memory for LangGraph agents: what the model sees stays small, valid and stable; what happened stays whole."""

from .config import RuntimeConfig
from .context.report import ContextReport
from .errors import ConfigError, ContextBudgetError, LangGraphMemoryError
from .events import MemoryEvent
from .middleware import MemoryMiddleware
from .state import MemoryState

__all__ = [
    "ConfigError",
    "ContextBudgetError",
    "ContextReport",
    "LangGraphMemoryError",
    "MemoryEvent",
    "MemoryMiddleware",
    "MemoryState",
    "RuntimeConfig",
]
