"""`docs/api.md` shows every public name, every method of threads and memories, every argument of the middleware."""

import ast
import inspect
from typing import Any

import pytest

import langgraph_memory
from langgraph_memory import MemoryMiddleware, ThreadDocuments, ThreadQueue, ThreadStore, Workspace

from .blocks import ROOT, blocks_of

API = ROOT / "docs" / "api.md"
TREES = [
    ast.parse(block.text) if "await" not in block.text else ast.parse(f"async def main():\n{_indented}")
    for block in blocks_of(API)
    if block.language == "python"
    for _indented in ["".join(f"    {line}\n" for line in block.text.splitlines())]
]
NODES = [node for tree in TREES for node in ast.walk(tree)]

FOR_NODES = {"take", "follow_ups", "aclose"}
"""What nodes and `async with` call, not people."""
SHOWN = {
    "open", "attach", "model_node", "view", "report", "compact", "invoke", "wrap_tool_call", "awrap_tool_call",
    "retriever", "tools", "saver", "name", "config", "workspace",
}  # fmt: skip
"""Of the middleware. The rest is what LangGraph and `create_agent` call, or upkeep."""


def attributes() -> set[str]:
    return {node.attr for node in NODES if isinstance(node, ast.Attribute)}


def test_every_public_name_is_imported_somewhere() -> None:
    imported = {
        name.name
        for node in NODES
        if isinstance(node, ast.ImportFrom) and node.module == "langgraph_memory"
        for name in node.names
    }
    assert imported == set(langgraph_memory.__all__)


@pytest.mark.parametrize("kind", [ThreadStore, Workspace, ThreadQueue, ThreadDocuments])
def test_every_method_is_called_somewhere(kind: type[Any]) -> None:
    public = {name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")}
    assert public - FOR_NODES <= attributes()


def test_what_a_program_uses_of_the_middleware_is_shown() -> None:
    assert attributes() >= SHOWN
    assert all(hasattr(MemoryMiddleware(), name) for name in SHOWN)


def test_every_argument_of_the_constructor_is_named_with_its_default() -> None:
    signature = inspect.signature(MemoryMiddleware)
    shown = " ".join(API.read_text(encoding="utf-8").split())
    for name, each in signature.parameters.items():
        default = f'"{each.default}"' if isinstance(each.default, str) else each.default
        assert f"{name}={default}" in shown


def test_every_way_to_run_is_shown_sync_and_async() -> None:
    assert attributes() >= {"invoke", "ainvoke", "stream", "astream", "get_state", "aget_state"}
    with_open = {type(node) for node in NODES if isinstance(node, ast.With | ast.AsyncWith) and "open" in _head(node)}
    assert with_open == {ast.With, ast.AsyncWith}


def _head(node: ast.With | ast.AsyncWith) -> str:
    return ast.unparse(node.items[0].context_expr)
