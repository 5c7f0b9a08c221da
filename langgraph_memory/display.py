"""How the context shows in a notebook: where the window goes, what is sent and why, and how two views differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .context.text import one_line
from .html import COLOURS, MONO, Html, box, element, ends, faint, heading, left_out, table

if TYPE_CHECKING:
    from .context.explain import ExplainedView, Shown
    from .context.report import ContextReport
    from .context.viewdiff import Change, ViewDiff

TEXT_CHARS, LINE_CHARS = 120, 2000
LINES = {"+": "#3fa35b", "-": "#d05c5c", "@": "#4c8bf5"}
"""Of the lines of a unified diff, by how they begin."""

SIGNS = {"same": "", "new": "+", "gone": "−", "changed": "~"}
CHANGES = {"same": "inherit", "new": "#3fa35b", "gone": "#d05c5c", "changed": "#d9a514"}


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


# A view


def view_lines(view: ExplainedView) -> list[str]:
    """A view in short, for where there is no HTML."""
    messages = enumerate(view.messages, 1)
    lines = (f"{number}. {one.role} · {one.origin} · {one.tokens:,} tokens" for number, one in messages)
    return [report_lines(view.report)[0], *lines]


def view_html(view: ExplainedView) -> str:
    """What is sent, message by message, and why each is there as it is."""
    shown, missing = ends(len(view.messages))
    rows = [_sent(place + 1, view.messages[place]) for place in shown]
    beside = [("", piece.kind, f"{piece.tokens:,}", piece.why) for piece in view.beside]
    return box(
        heading(report_lines(view.report)[0]),
        table(("", "what", "tokens", "why"), [*beside, *rows], numbers=(0, 2)),
        *left_out(missing),
    )


def _sent(number: int, message: Shown) -> tuple[object, ...]:
    origin = "" if message.origin == "as it is" else f" · {message.origin}"
    who = element("span", message.role, style=f"color:{COLOURS.get(message.role, COLOURS['other'])}")
    calls = "".join(f" → {call['name']}" for call in message.tool_calls)
    what = element("div", who, origin), element("div", faint(one_line(message.text, TEXT_CHARS), calls))
    whys = [piece.why for piece in message.pieces] or [message.why]
    return number, Html("".join(what)), f"{message.tokens:,}", "; ".join(whys)


# Differences


def view_diff_lines(diff: ViewDiff) -> list[str]:
    """What is not the same in two views, for where there is no HTML."""
    changes = (change for change in diff.changes if change.what != "same")
    return [*(f"{SIGNS[one.what]} {one.number}. {one.role} · {one.how}" for one in changes), diff.verdict]


def view_diff_html(diff: ViewDiff) -> str:
    """The messages of two views side by side; those that are the same in a row stand as one."""
    rows = list(_changes(diff))
    shown, missing = ends(len(rows))
    parts = [(name, *_sizes(old, new)) for name, (old, new) in {**diff.parts, "total": diff.total}.items()]
    return box(
        heading(diff.verdict),
        table(("", "", "message", "what happened", "tokens"), [rows[place] for place in shown], numbers=(1, 4)),
        *left_out(missing),
        table(("tokens", "before", "after", "difference"), parts, numbers=(1, 2, 3)),
    )


def _changes(diff: ViewDiff) -> Iterator[tuple[object, ...]]:
    for first, *more in diff.runs():
        if more:
            tokens = f"{sum(change.tokens_after for change in (first, *more)):,}"
            numbers = f"{first.number}–{more[-1].number}"
            yield "", faint(numbers), faint(f"{1 + len(more):,} messages"), faint("the same"), faint(tokens)
        else:
            yield _change(first)


def _change(change: Change) -> tuple[object, ...]:
    sign = element("b", SIGNS[change.what], style=f"color:{CHANGES[change.what]}")
    return sign, change.number, change.role, change.how or "the same", change.tokens


def _sizes(old: int, new: int) -> tuple[str, str, str]:
    return f"{old:,}", f"{new:,}", f"{new - old:+,}" if new != old else ""


def diff_html(text: str) -> str:
    """A unified diff with its lines in colour."""
    given = text.splitlines()
    shown, missing = ends(len(given))
    lines = [element("div", given[at][:LINE_CHARS] or " ", style=_coloured(given[at])) for at in shown]
    body = element("div", *lines, style=f"{MONO};white-space:pre-wrap") if lines else "no change"
    return box(body, *left_out(missing))


def _coloured(line: str) -> str:
    colour = LINES.get(line[:1])
    return f"color:{colour}" if colour else ""
