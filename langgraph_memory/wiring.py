"""What `attach` needs of a graph before it adds to it: the nodes it was told of, and no edge that goes past the memory.

An edge of the graph's own that leads to the model beside the memory would call the model twice a turn, and LangGraph
says nothing of it. So whatever is in the way is refused by name while the graph is still as it was. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langgraph.graph import START, StateGraph

from .errors import LangGraphMemoryError, described
from .nodes import ModelNode

TOOLS = "tools"
"""The tools node, unless another is named."""


def check(builder: Any, model: str, tools: str | None, added: Sequence[str]) -> None:
    """Raise `LangGraphMemoryError` where the memory cannot be attached to `builder` as it is; it adds nodes `added`."""
    if not isinstance(builder, StateGraph):
        raise LangGraphMemoryError(
            f"attach was given {described(builder)}; allowed: a StateGraph that is not compiled yet. An agent of "
            "create_agent takes the memory as middleware=[memory]."
        )
    _check_nodes(builder.nodes, model, tools, added)
    if found := list(_in_the_way(builder, model, tools if tools in builder.nodes else None)):
        raise LangGraphMemoryError(
            f"attach adds the edges between START, {model!r} and the tools itself, and these of the graph go past the "
            f"memory: {', '.join(found)}. Remove them before attaching."
        )


def _check_nodes(nodes: Mapping[str, Any], model: str, tools: str | None, added: Sequence[str]) -> None:
    if model not in nodes:
        raise LangGraphMemoryError(
            f"The graph has no node {model!r} yet, only {sorted(nodes)}; add it before attaching."
        )
    if taken := [name for name in added if name in nodes]:
        raise LangGraphMemoryError(
            f"The graph has a node {taken[0]!r} already, and attach adds one of this name: attach once, and name other "
            "nodes otherwise."
        )
    if tools is None or tools in nodes:
        return
    if tools != TOOLS:
        raise LangGraphMemoryError(
            f"The graph has no node {tools!r} yet, only {sorted(nodes)}; add it before attaching, or attach with "
            "tools=None."
        )
    if _runs_tools(nodes[model].runnable):
        raise LangGraphMemoryError(
            f"The node {model!r} has tools, and the graph has no node {tools!r} that runs them, only {sorted(nodes)}: "
            "add a ToolNode before attaching, name it with attach(…, tools=…), or say tools=None where none is needed."
        )


def _runs_tools(node: Any) -> bool:
    """Whether the model may call tools that run here; those that are given as dicts may be the provider's own."""
    return isinstance(node, ModelNode) and any(not isinstance(tool, Mapping) for tool in node.spec.tools)


def _in_the_way(builder: StateGraph[Any, Any, Any, Any], model: str, tools: str | None) -> Iterator[str]:
    """The edges that call the model without the memory, or decide beside it where the model leads."""
    to_model = {START, *([tools] if tools else ())}
    for start, end in sorted(builder.edges):
        if (start in to_model and end == model) or (start == model and end == tools):
            yield f"{_shown(start)} → {_shown(end)}"
    for start, branches in builder.branches.items():
        for name, branch in branches.items():
            if (start == model and tools) or (start in to_model and _may_lead_to(model, branch.ends)):
                yield f"{_shown(start)} → {name}(…)"


def _may_lead_to(node: str, ends: Mapping[Any, str] | None) -> bool:
    """Whether a conditional edge may lead to `node`; one that does not say where it leads may lead anywhere."""
    return ends is None or node in ends.values()


def _shown(node: str) -> str:
    return "START" if node == START else repr(node)
