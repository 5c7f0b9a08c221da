"""Tools for a model whose schemas are made once a process: making one takes longer than most of what a tool does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from langchain_core.tools import BaseTool, StructuredTool

_made: dict[str, StructuredTool] = {}


def make_tool(func: Callable[..., str], coroutine: Callable[..., Awaitable[str]], name: str) -> BaseTool:
    """The tool `name`. Everything called so has the arguments and the docstring of the first `func` that was."""
    if (known := _made.get(name)) is None:
        tool = StructuredTool.from_function(func, coroutine, name=name)
        # Without what the functions hold on to, which lives as long as their middleware.
        known = _made[name] = tool.model_copy(update={"func": None, "coroutine": None})
    return known.model_copy(update={"func": func, "coroutine": coroutine})
