"""`lgm tree`: the checkpoints of a thread with their branches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from .called import program
from .console import data_console, print_json, say
from .options import ConfigOption, JsonOption, ThreadArgument

if TYPE_CHECKING:
    from langgraph_memory.threads import Node, ThreadStore
    from langgraph_memory.threads.drawing import Drawn

    from .said import Turn

NARROWEST = 20


def tree(
    thread: ThreadArgument,
    all: Annotated[bool, typer.Option("--all", help="Every checkpoint, not only those between turns.")] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Draw the checkpoints of a thread, its branches and where it was rewound. JSON has every checkpoint."""
    from langgraph_memory.threads.drawing import draw

    from .database import with_store

    nodes, turns = with_store(config, lambda store: read(store, thread))
    if as_json:
        print_json([node.to_json() for node in nodes])
        return
    console = data_console()
    for drawn in draw(nodes, all=all):
        console.print(line(drawn, turns.get(drawn.node.checkpoint_id), console.width), soft_wrap=True)
    say(f"● is the way to the newest checkpoint. `{program()} rewind {thread} CHECKPOINT` goes back to any of them.")


async def read(store: ThreadStore, thread: str) -> tuple[list[Node], Mapping[str, Turn]]:
    """The checkpoints of a thread, and the turn that each of them stands in."""
    from langgraph_memory.threads.tree import leaves

    from .said import turns_of

    nodes = await store.checkpoints(thread)
    parents = {node.checkpoint_id: node.parent_id for node in nodes}
    counts = {node.checkpoint_id: node.messages for node in nodes}
    found: dict[str, Turn] = {}
    for leaf in leaves(parents):
        turns = turns_of(await store.messages(thread, leaf))
        place: str | None = leaf
        while place in parents and place not in found:
            while turns and turns[-1].start >= counts[place]:
                turns.pop()
            if not turns:
                break
            found[place] = turns[-1]
            before = parents[place]
            if before is not None and counts.get(before, 0) > counts[place]:
                # Somebody removed messages here, so what had been said by then is another list.
                turns = turns_of(await store.messages(thread, before))
            place = before
    return nodes, found


def line(drawn: Drawn, turn: Turn | None, width: int) -> Text:
    """A line of the tree, with as much of the request as `width` has room for."""
    from langgraph_memory.context.text import one_line
    from langgraph_memory.threads.drawing import labels, mark

    node = drawn.node
    place = f"turn {turn.number}" if turn else "start"
    head = f"{drawn.lead}{mark(node)} {node.checkpoint_id}  {place} · {node.messages} messages"
    marked = "".join(f" · {label}" for label in labels(node))
    room = width - len(head) - len(marked) - 3
    request = f" · {one_line(turn.request, room)}" if turn and room >= NARROWEST else ""
    shown = Text(head, style="bold" if node.active else "dim")
    shown.append(marked, style="bold yellow")
    return shown.append(request)
