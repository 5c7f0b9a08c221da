"""The result of a replay as a table, and what can be done next."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from rich.table import Table
from rich.text import Text

from .meter import Totals
from .replay_engine import Outcome
from .replay_run import Request, Result

Number = Callable[[int], str]

MOST_ROWS = 20
"""More conversations than this are shown a row a file."""

AGAIN = "replay"
COLUMNS = ("calls", "tokens raw", "sent", "largest view", "over", "invalid", "lost", "cached", "summaries")
NARROW = ("calls", "raw", "sent", "largest view", "over", "inv.", "lost", "cached", "sum.")
WIDE = 120
"""Columns of a terminal that has room for numbers written out and names that explain themselves."""


def table(result: Result, width: int) -> Table:
    """One row a conversation, or a file where there are many, and the total."""
    several = len(result.outcomes) > MOST_ROWS
    number = _written_out if width >= WIDE else _short
    shown = Table(box=None, pad_edge=False, collapse_padding=True, padding=(0, 2 if width >= WIDE else 1))
    shown.add_column("file" if several else "thread", overflow="fold")
    for name in COLUMNS if width >= WIDE else NARROW:
        shown.add_column(name, justify="right", no_wrap=True)
    for label, totals in _by_file(result.outcomes) if several else _by_thread(result.outcomes):
        shown.add_row(Text(label), *_cells(totals, number))
    if len(result.outcomes) > 1:
        shown.add_section()
        shown.add_row(f"total of {len(result.outcomes)}", *_cells(result.total, number), style="bold")
    return shown


def _by_thread(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, Totals]]:
    for outcome in outcomes:
        yield outcome.thread_id + (" (stopped)" if outcome.error else ""), outcome.totals


def _by_file(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, Totals]]:
    for file, group in groupby(outcomes, key=lambda outcome: outcome.file):
        members = list(group)
        stopped = sum(outcome.error is not None for outcome in members)
        label = f"{Path(file).name} ({len(members)}" + (f", {stopped} stopped)" if stopped else ")")
        yield label, sum((outcome.totals for outcome in members), Totals())


def _written_out(number: int) -> str:
    return f"{number:,}"


def _short(number: int) -> str:
    if number >= 1_000_000:
        return f"{number / 1_000_000:.1f}M"
    return f"{number / 1000:.1f}k" if number >= 10_000 else f"{number:,}"


def _cells(totals: Totals, number: Number) -> list[Text]:
    faults = [Text(f"{n:,}", style="bold red" if n else "") for n in (totals.over, totals.invalid, totals.lost)]
    return [
        Text(f"{totals.calls:,}"),
        Text(number(totals.raw)),
        Text(number(totals.sent)),
        Text(f"{totals.largest:,} of {totals.window:,}" if totals.calls else "–"),
        *faults,
        Text(f"{totals.cached_share:.0%}"),
        Text(f"{totals.summaries:,}"),
    ]


def hints(result: Result, request: Request) -> Iterator[str]:
    """What went wrong, and the commands that look at the threads, go on and start anew."""
    for outcome in result.outcomes:
        if outcome.error:
            yield f"{outcome.thread_id}: stopped: {outcome.error}"
    busiest = max(result.outcomes, key=lambda outcome: (outcome.totals.summaries, outcome.totals.calls)).thread_id
    only = busiest if len(result.outcomes) == 1 else request.thread
    options = _options(request)
    config = f" --config {shlex.quote(str(request.config))}" if request.config else ""
    yield "Inspect:  " + f"lgm context {shlex.quote(busiest)}{config}"
    yield "          " + f"lgm view {shlex.quote(busiest)}{config}"
    yield "Go on:    " + f"lgm replay {options}{_thread(only)}".rstrip()
    yield "Anew:     " + f"lgm replay {options}{_thread(f'{only or AGAIN}-2')}"


def _options(request: Request) -> str:
    words = [str(file) for file in request.files]
    for name in ("window", "model", "limit", "config"):
        if (value := getattr(request, name)) is not None:
            words += [f"--{name}", str(value)]
    return "".join(f"{shlex.quote(word)} " for word in words)


def _thread(name: str | None) -> str:
    return f"--thread {shlex.quote(name)}" if name else ""
