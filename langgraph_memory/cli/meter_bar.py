"""A report drawn as a bar, one stretch a part of the window, with a legend; letters tell the parts apart."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise

from rich.console import Console
from rich.text import Text

from langgraph_memory import ContextReport

WIDEST = 100

PARTS = {
    "system": ("S", "magenta"),
    "tools": ("L", "blue"),
    "curated": ("C", "bright_magenta"),
    "recalled": ("R", "bright_blue"),
    "summary": ("Σ", "yellow"),
    "human": ("H", "green"),
    "ai": ("A", "cyan"),
    "tool": ("T", "bright_yellow"),
    "other": ("O", "white"),
    "provider": ("P", "bright_black"),
    "reserve": ("r", "red"),
    "free": ("·", "bright_black"),
}
"""Letter and colour of each part, in the order of the bar."""


def drawn(thread: str, report: ContextReport, console: Console) -> Iterator[Text]:
    """The lines of the drawing."""
    sizes = {**report.parts, "reserve": report.reserve, "free": report.free}
    sizes = {name: tokens for name, tokens in sizes.items() if tokens}
    yield Text(f"{thread}: {report.total:,} of {report.window:,} tokens ({report.usage_ratio:.0%})", style="bold")
    yield _bar(sizes, min(WIDEST, console.width))
    for name, tokens in sizes.items():
        letter, colour = PARTS[name]
        yield Text(f"{letter} {name:<9}", colour) + Text(f"{tokens:>10,}  {tokens / report.window:>5.1%}")
    yield Text(
        f"compaction above {report.trigger:,}; counted with {report.counter}{'' if report.exact else ' (estimate)'}"
    )
    yield Text(
        f"{report.messages:,} messages, {report.view_messages:,} in the view: {report.compacted:,} summarised, "
        f"{report.trimmed:,} trimmed, {report.cleared:,} cleared"
    )


def _bar(sizes: dict[str, int], width: int) -> Text:
    """The parts as stretches of `width` cells; none is left out for being small."""
    cells = _cells(list(sizes.values()), width)
    bar = Text()
    for (letter, colour), count in zip((PARTS[name] for name in sizes), cells, strict=True):
        bar.append(letter * count, colour if letter == "·" else f"{colour} reverse")
    return bar


def _cells(sizes: list[int], width: int) -> list[int]:
    total, spare = sum(sizes), max(0, width - len(sizes))
    edges = [round(edge * spare / total) for edge in accumulate(sizes, initial=0)]
    return [1 + after - before for before, after in pairwise(edges)]
