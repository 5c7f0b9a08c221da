from langgraph_memory.threads import Node
from langgraph_memory.threads.drawing import draw


def node(id: str, parent: str | None, *, active: bool = False, next: tuple[str, ...] = ()) -> Node:
    return Node(id, parent, "2026-01-01", "loop", 0, None, None, 0, next, active, False)


def drawn(*nodes: Node, all: bool = False) -> list[str]:
    return [f"{line.lead}{line.node.checkpoint_id}" for line in draw(nodes, all=all)]


def test_branches_stand_to_the_right_of_the_way_to_the_newest():
    nodes = [node("a", None, active=True), node("b", "a"), node("c", "b"), node("d", "b"), node("e", "a", active=True)]
    assert drawn(*nodes) == ["a", "├─b", "│ ├─c", "│ d", "e"]


def test_checkpoints_within_a_turn_are_left_out_unless_nothing_follows_them():
    nodes = [
        node("a", None, next=("model",)),
        node("b", "a"),
        node("c", "b", next=("model",)),
        node("d", "c", next=("tools",)),
        node("e", "c", active=True),
    ]
    assert drawn(*nodes) == ["b", "├─d", "e"]
    assert drawn(*nodes, all=True) == ["a", "b", "c", "├─d", "e"]


def test_a_tree_whose_beginning_is_gone_is_drawn_from_what_there_is():
    assert drawn(node("b", "a"), node("c", "b"), node("x", "w", active=True)) == ["b", "c", "x"]


def test_a_long_way_is_drawn_without_getting_deep():
    nodes = [node(f"{number:05}", f"{number - 1:05}" if number else None) for number in range(5000)]
    assert drawn(*nodes) == [one.checkpoint_id for one in nodes]
