"""How values show in a notebook: small pieces of HTML without scripts, for light and dark themes alike.

Every text is escaped where an element is made, unless it is `Html` already, so nothing that a model, a tool or a file
says becomes markup. Colours are of middle brightness and backgrounds see-through. Where a viewer leaves out styles, as
GitHub does, tables and texts still say everything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from .context.text import clean_text, message_text, one_line, to_json

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from .context.report import ContextReport
    from .threads.shapes import Hit, Node, ThreadRow

HEAD_ROWS, TAIL_ROWS = 20, 40
"""Rows of a long list that are shown, from its beginning and from its end."""
TEXT_CHARS, CALL_CHARS = 160, 80

COLOURS = {
    "system": "#9c6ade",
    "tools": "#4c8bf5",
    "curated": "#c264c2",
    "recalled": "#7a9df0",
    "summary": "#d9a514",
    "human": "#3fa35b",
    "ai": "#2aa5a5",
    "tool": "#e07b39",
    "other": "#8a8a8a",
    "provider": "#a08b7b",
    "reserve": "#d05c5c",
    "free": "rgba(128,128,128,.2)",
}
"""Of each part of a report, in the order of the bar."""
LINES = {"+": "#3fa35b", "-": "#d05c5c", "@": "#4c8bf5"}
"""Of the lines of a unified diff, by how they begin."""

CELL = "padding:.1em .6em;vertical-align:top;text-align:"
FAINT = "opacity:.65"
MONO = "font-family:monospace"
CONTROLS = dict.fromkeys([*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0)], "\N{REPLACEMENT CHARACTER}")
"""Characters that HTML does not have."""


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def element(name: str, *content: object, style: str = "", **attributes: str) -> Html:
    """An element; whatever of its content is not `Html` is escaped."""
    given = {"style": style, **attributes}
    written = "".join(f' {key}="{_escaped(value)}"' for key, value in given.items() if value)
    inside = "".join(one if isinstance(one, Html) else _escaped(str(one)) for one in content)
    return Html(f"<{name}{written}>{inside}</{name}>")


def _escaped(text: str) -> str:
    return escape(clean_text(text).translate(CONTROLS))


def box(*content: object) -> Html:
    """What stands around everything that is shown. The class keeps dollar signs from being set as formulas."""
    written = {"class": "tex2jax_ignore mathjax_ignore"}
    return element("div", *content, style="max-width:52em;line-height:1.35", **written)


def table(names: Sequence[str], rows: Iterable[Sequence[object]], numbers: Collection[int] = ()) -> Html:
    """A table; the columns at the places `numbers` hold numbers."""
    sides = ["right" if place in numbers else "left" for place in range(len(names))]

    def line(kind: str, cells: Sequence[object]) -> Html:
        made = (element(kind, cell, style=CELL + side) for cell, side in zip(cells, sides, strict=True))
        return element("tr", *made)

    head = [element("thead", line("th", names))] if any(names) else []
    body = element("tbody", *(line("td", cells) for cells in rows))
    return element("table", *head, body, style="border-collapse:collapse;margin:.3em 0")


def faint(*content: object) -> Html:
    return element("span", *content, style=FAINT)


def heading(text: str) -> Html:
    return element("div", element("b", text))


def ends(count: int) -> tuple[list[int], int]:
    """Places of the rows of a list of `count` that are shown, and how many are left out."""
    if count <= HEAD_ROWS + TAIL_ROWS + 1:
        return list(range(count)), 0
    return [*range(HEAD_ROWS), *range(count - TAIL_ROWS, count)], count - HEAD_ROWS - TAIL_ROWS


def left_out(count: int) -> list[Html]:
    return [element("div", faint(f"{count:,} in the middle are not shown"))] if count else []


# A report


def report_lines(report: ContextReport) -> list[str]:
    """What the report says, for where there is no HTML."""
    sizes = {**report.parts, "reserve": report.reserve, "free": report.free}
    return [
        f"{report.total:,} of {report.window:,} tokens ({report.usage_ratio:.0%})",
        ", ".join(f"{name} {size:,}" for name, size in sizes.items() if size),
        f"{report.messages:,} messages, {report.view_messages:,} in the view: {_done(report)}",
    ]


def report_html(report: ContextReport) -> str:
    """Where the window goes: a bar, its legend, and what was done to the messages."""
    sizes = {**report.parts, "reserve": report.reserve, "free": report.free}
    sizes = {name: sizes[name] for name in COLOURS if sizes.get(name)}
    whole = sum(sizes.values())
    pieces = (
        element("span", style=f"width:{100 * size / whole:.2f}%;background:{COLOURS[name]}", title=f"{name}: {size:,}")
        for name, size in sizes.items()
    )
    rows = [
        (element("span", "■", style=f"color:{COLOURS[name]}"), name, f"{size:,}", f"{size / report.window:.1%}")
        for name, size in sizes.items()
    ]
    estimate = "" if report.exact else " (estimate)"
    title, _, done = report_lines(report)
    return box(
        heading(title),
        element("div", *pieces, style="display:flex;height:.9em;margin:.3em 0"),
        table(("", "part", "tokens", "of the window"), rows, numbers=(2, 3)),
        element("div", done),
        faint(f"compaction above {report.trigger:,} tokens; counted with {report.counter}{estimate}"),
    )


def _done(report: ContextReport) -> str:
    return f"{report.compacted:,} summarised, {report.trimmed:,} trimmed, {report.cleared:,} cleared"


# Threads


def threads_html(rows: Sequence[ThreadRow]) -> str:
    names = ("thread", "turns", "messages", "checkpoints", "branches", "size", "to run")
    shown, missing = ends(len(rows))
    cells = [
        (
            element("code", row.thread_id),
            f"{row.turns:,}",
            f"{row.messages:,}",
            f"{row.checkpoints:,}",
            f"{row.branches:,}",
            "" if row.bytes is None else f"{row.bytes / 1000:,.0f} kB",
            ", ".join(row.next),
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
        calls = (
            f"{call['name']}({one_line(to_json(call['args']), 80)})" for call in getattr(message, "tool_calls", ())
        )
        return cls(who, one_line(message_text(message), TEXT_CHARS), tuple(calls))

    @property
    def line(self) -> str:
        return f"{self.who}: " + " ".join([self.text, *(f"→ {call}" for call in self.calls)]).strip()


def _message(message: BaseMessage) -> tuple[Html, Html]:
    said, colour = Said.of(message), COLOURS.get(message.type, COLOURS["other"])
    parts = [element("div", said.text)] if said.text else []
    parts += [element("div", element("code", f"→ {call}")) for call in said.calls]
    return element("span", said.who, style=f"color:{colour}"), Html("".join(parts))


def hits_html(hits: Sequence[Hit]) -> str:
    cells = [(element("code", hit.thread_id), hit.role, hit.excerpt) for hit in hits]
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
    from .threads.drawing import draw, labels, mark

    places = {node.checkpoint_id: place for place, node in enumerate(nodes)}
    return [
        CheckpointLine(
            node,
            f"{lead}{mark(node)} [{places[node.checkpoint_id]}]  {node.messages} messages",
            "".join(f" · {label}" for label in labels(node)),
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


# Differences


def diff_html(text: str) -> str:
    """A unified diff with its lines in colour."""
    lines = [element("div", line or " ", style=_coloured(line)) for line in text.splitlines()]
    return box(element("div", *lines, style=f"{MONO};white-space:pre-wrap") if lines else "no change")


def _coloured(line: str) -> str:
    colour = LINES.get(line[:1])
    return f"color:{colour}" if colour else ""
