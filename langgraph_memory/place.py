"""Where a call happens: thread, namespace of the graph, and whether a LangGraph run is under way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langgraph.config import get_config


@dataclass(frozen=True, slots=True)
class Place:
    """`namespace` is the graph's checkpoint namespace without task ids; the outermost graph has ''."""

    thread: str | None = None
    namespace: str = ""
    in_run: bool = False


def place_of(config: Mapping[str, Any]) -> Place:
    """The place a config names. Inside a run its namespace ends with the running node, which is left off."""
    configurable = config.get("configurable") or {}
    thread = configurable.get("thread_id")
    in_run = "langgraph_node" in (config.get("metadata") or {})
    names = [part.split(":")[0] for part in str(configurable.get("checkpoint_ns") or "").split("|") if part]
    if in_run:
        names = names[:-1]
    return Place(None if thread is None else str(thread), "|".join(names), in_run)


def current_place() -> Place:
    """The place of the run under way; none outside a run."""
    try:
        return place_of(get_config())
    except RuntimeError:
        return Place()
