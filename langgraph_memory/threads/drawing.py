"""The tree of a thread's checkpoints as lines of text.

A column goes on from parent to child. Where several children follow, all but one open a column of their own to the
right, and the one on the way to the newest checkpoint, or else the newest, goes on below.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .shapes import Node

ACTIVE, OTHER = "●", "○"


@dataclass(frozen=True, slots=True)
class Drawn:
    """A line of the tree."""

    lead: str
    """The columns to the left of the node."""
    node: Node


def draw(nodes: Sequence[Node], *, all: bool = False) -> Iterator[Drawn]:
    """The lines of a tree, oldest first. Without `all`: where no node was to run, ends of branches, and copies."""
    followed = {node.parent_id for node in nodes}
    shown = [
        node
        for node in nodes
        if all or not node.next or node.checkpoint_id not in followed or node.origin or node.reason
    ]
    children = _children(nodes, {node.checkpoint_id for node in shown})
    for root in _main_last(children.get(None, [])):
        yield from _column(root, children, "", "")


def _children(nodes: Sequence[Node], shown: set[str]) -> dict[str | None, list[Node]]:
    """Shown nodes by the nearest shown one on their way from the root."""
    above: dict[str, str | None] = {}
    found: dict[str | None, list[Node]] = {}
    for node in nodes:
        parent = node.parent_id
        near = parent if parent in shown else above.get(parent or "")
        above[node.checkpoint_id] = near
        if node.checkpoint_id in shown:
            found.setdefault(near, []).append(node)
    return found


def _main_last(nodes: Sequence[Node]) -> list[Node]:
    return sorted(nodes, key=lambda node: (node.active, node.checkpoint_id))


def _column(node: Node, children: Mapping[str | None, list[Node]], first: str, lead: str) -> Iterator[Drawn]:
    """A node and what goes on below it; `first` and `lead` are left of its first line and of the others."""
    current: Node | None = node
    while current is not None:
        yield Drawn(first, current)
        first = lead
        following = _main_last(children.get(current.checkpoint_id, []))
        current = following.pop() if following else None
        for branch in following:
            yield from _column(branch, children, f"{lead}├─", f"{lead}│ ")


def mark(node: Node) -> str:
    return ACTIVE if node.active else OTHER


def labels(node: Node) -> list[str]:
    """What sets a checkpoint apart: put there from outside a run, waiting, the newest."""
    of_a_run = node.source in ("input", "loop")
    found = [node.reason or node.source] if node.reason or not of_a_run else []
    if node.next:
        found.append(f"to run: {', '.join(node.next)}")
    return [*found, "newest"] if node.newest else found
