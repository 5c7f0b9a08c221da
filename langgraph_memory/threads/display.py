"""How what `ThreadStore` lists shows in a notebook, and in lines where there is no HTML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from langchain_core.messages import BaseMessage

from ..context.text import message_text, one_line, to_json
from ..html import COLOURS, FAINT, MONO, Html, box, element, ends, faint, left_out, table
from .drawing import draw, labels, mark
from .shapes import Hit, Node, ThreadRow

TEXT_CHARS, CALL_CHARS, NAME_CHARS = 160, 80, 120


def threads_html(rows: Sequence[ThreadRow]) -> str:
    names = ("thread", "turns", "messages", "checkpoints", "branches", "size", "to run")
    shown, missing = ends(len(rows))
    cells = [
        (
            element("code", one_line(row.thread_id, NAME_CHARS)),
            f"{row.turns:,}",
            f"{row.messages:,}",
            f"{row.checkpoints:,}",
            f"{row.branches:,}",
            "" if row.bytes is None else f"{row.bytes / 1000:,.0f} kB",
            one_line(", ".join(row.next), TEXT_CHARS),
        )
        for row in (rows[place] for place in shown)
    ]
    return box(table(names, cells, numbers=range(1, 6)), *left_out(missing))


def messages_html(messages: Sequence[BaseMessage]) -> str:
    """Messages under their places in the list, each in one line."""
    shown, missing = ends(len(messages))
    cells = [(place, *_message(messages[place])) for place in shown]
    return box(table(("", "", f"{len(messages):,} messages"), cells, numbers=(0,)), *left_out(missing))


class Said(NamedTuple):
    """A message in short."""

    who: str
    text: str
    calls: tuple[str, ...]

    @classmethod
    def of(cls, message: BaseMessage) -> Said:
        who = message.name or message.type if message.type == "tool" else message.type
        calls = getattr(message, "tool_calls", ())
        called = (
            f"{one_line(str(call['name']), NAME_CHARS)}({one_line(to_json(call['args']), CALL_CHARS)})"
            for call in calls
        )
        return cls(one_line(who, NAME_CHARS), one_line(message_text(message), TEXT_CHARS), tuple(called))

    @property
    def line(self) -> str:
        return f"{self.who}: " + " ".join([self.text, *(f"→ {call}" for call in self.calls)]).strip()


def _message(message: BaseMessage) -> tuple[Html, Html]:
    said, colour = Said.of(message), COLOURS.get(message.type, COLOURS["other"])
    parts = [element("div", said.text)] if said.text else []
    parts += [element("div", element("code", f"→ {call}")) for call in said.calls]
    return element("span", said.who, style=f"color:{colour}"), Html("".join(parts))


def hits_html(hits: Sequence[Hit]) -> str:
    cells = [(element("code", one_line(hit.thread_id, NAME_CHARS)), hit.role, hit.excerpt) for hit in hits]
    return box(table(("thread", "role", "found"), cells)) if cells else box(faint("nothing was found"))


# Checkpoints


class CheckpointLine(NamedTuple):
    """A line of a tree."""

    node: Node
    drawn: str
    labels: str

    @property
    def text(self) -> str:
        return self.drawn + self.labels


def checkpoint_lines(nodes: Sequence[Node]) -> list[CheckpointLine]:
    """The tree, as `lgm tree` draws it; the numbers are the places of its checkpoints in the list."""
    places = {node.checkpoint_id: place for place, node in enumerate(nodes)}
    return [
        CheckpointLine(
            node,
            f"{lead}{mark(node)} [{places[node.checkpoint_id]}]  {node.messages} messages",
            "".join(f" · {one_line(label, NAME_CHARS)}" for label in labels(node)),
        )
        for lead, node in ((one.lead, one.node) for one in draw(nodes))
    ]


def tree_html(nodes: Sequence[Node]) -> str:
    lines = checkpoint_lines(nodes)
    shown, missing = ends(len(lines))
    return box(
        element(
            "div", *(_checkpoint(lines[place]) for place in shown), style=f"{MONO};white-space:pre;overflow-x:auto"
        ),
        *left_out(missing),
        faint("● the way to the newest checkpoint; [n] is the place in the list"),
    )


def _checkpoint(line: CheckpointLine) -> Html:
    style = "" if line.node.active else FAINT
    return element("div", line.drawn, element("b", line.labels), style=style, title=line.node.checkpoint_id)
