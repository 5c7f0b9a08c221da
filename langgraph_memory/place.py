"""Where a call happens: thread, namespace of the graph, and whether a LangGraph run is under way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from langgraph.config import get_config
from langgraph.runtime import get_runtime


@dataclass(frozen=True, slots=True)
class Place:
    """`namespace` is the graph's checkpoint namespace without task ids; the outermost graph has ''."""

    thread: str | None = None
    namespace: str = ""
    in_run: bool = False
    configurable: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    context: Any = field(default=None, compare=False, repr=False)
    """The run's own context object, if it has one."""


def place_of(config: Mapping[str, Any]) -> Place:
    """The place a config names. Inside a run its namespace ends with the running node, which is left off."""
    configurable = config.get("configurable") or {}
    thread = configurable.get("thread_id")
    in_run = "langgraph_node" in (config.get("metadata") or {})
    names = [part.split(":")[0] for part in str(configurable.get("checkpoint_ns") or "").split("|") if part]
    if in_run:
        names = names[:-1]
    context = _context() if in_run else None
    return Place(None if thread is None else str(thread), "|".join(names), in_run, configurable, context)


def _context() -> Any:
    try:
        return getattr(get_runtime(), "context", None)
    except (RuntimeError, KeyError):
        return None


def current_place() -> Place:
    """The place of the run under way; none outside a run."""
    try:
        return place_of(get_config())
    except RuntimeError:
        return Place()
