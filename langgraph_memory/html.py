"""How values show in a notebook: small pieces of HTML without scripts, for light and dark themes alike.

Every text is escaped where an element is made, unless it is `Html` already, so nothing that a model, a tool or a file
says becomes markup. Colours are of middle brightness and backgrounds see-through. Where a viewer leaves out styles, as
GitHub does, tables and texts still say everything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape

from .context.text import clean_text

HEAD_ROWS, TAIL_ROWS = 20, 40
"""Rows of a long list that are shown, from its beginning and from its end."""

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
