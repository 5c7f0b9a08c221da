"""The result of a replay as a table, and what can be done next."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import count, groupby
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .called import program
from .console import fits, print_table, say
from .meter import Totals
from .replay_engine import Outcome
from .replay_run import Request, Result
from .streams import is_stream

Number = Callable[[int], str]

MOST_ROWS = 20
"""More conversations than this are shown a row a file."""

AGAIN = "replay"
COLUMNS = ("calls", "tokens raw", "sent", "largest view", "over", "invalid", "lost", "cached", "summaries")
NARROW = ("calls", "raw", "sent", "largest view", "over", "inv.", "lost", "cached", "sum.")
LEGEND = "inv. is invalid, sum. is summaries"
WIDE = 120
"""Columns of a terminal that has room for numbers written out and names that explain themselves."""


def print_result(result: Result, console: Console) -> None:
    """The table that fits: with names and numbers written out, shortened, or a line a figure."""
    wide, narrow = table(result, wide=True), table(result, wide=False)
    is_narrow = console.width < WIDE and fits(narrow, console)
    print_table(narrow if is_narrow else wide, console)
    if is_narrow:
        say(LEGEND)


def table(result: Result, *, wide: bool) -> Table:
    """One row a conversation, or a file where there are many, and the total."""
    several = len(result.outcomes) > MOST_ROWS
    number = _written_out if wide else _short
    shown = Table(box=None, pad_edge=False, collapse_padding=True, padding=(0, 2 if wide else 1))
    shown.add_column("file" if several else "thread", overflow="fold")
    for name in COLUMNS if wide else NARROW:
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
    yield from _of_other_windows(result)
    busiest = max(result.outcomes, key=lambda outcome: (outcome.totals.summaries, outcome.totals.calls)).thread_id
    config = f" --config {shlex.quote(str(request.config))}" if request.config else ""
    yield f"Inspect:  {program()} context {shlex.quote(busiest)}{config}"
    yield f"          {program()} view {shlex.quote(busiest)}{config}"
    yield f"          {program()} tree {shlex.quote(busiest)}{config}"
    if any(map(is_stream, request.files)):
        return
    only = busiest if len(result.outcomes) == 1 else request.thread
    again = f"{program()} replay {_options(request)}"
    if not all(outcome.complete for outcome in result.outcomes):
        yield f"Go on:    {again}{_thread(only)}".rstrip()
    yield f"Anew:     {again}{_thread(unused(only or AGAIN, result.threads))}"


def _of_other_windows(result: Result) -> Iterator[str]:
    """Whose figures are not those of the window of this replay, because there was nothing left to run."""
    for outcome in result.outcomes:
        totals = outcome.totals
        ran_before = outcome.complete and outcome.resumed_at == totals.messages and totals.calls
        if ran_before and totals.window != result.window:
            yield (
                f"{outcome.thread_id}: complete, so nothing was run: its figures are those of the window of "
                f"{totals.window:,} it ran with, not of {result.window:,}"
            )


def unused(name: str, threads: Collection[str]) -> str:
    """`name` with the next number with which it names no thread, and no group of threads."""
    stem, _, number = name.rpartition("-")
    stem, first = (stem, int(number) + 1) if stem and number.isdecimal() else (name, 2)
    names = (f"{stem}-{number}" for number in count(first))
    return next(name for name in names if not any(f"{thread}/".startswith(f"{name}/") for thread in threads))


def _options(request: Request) -> str:
    words = [str(file) for file in request.files]
    for name in ("window", "model", "limit", "config"):
        if (value := getattr(request, name)) is not None:
            words += [f"--{name}", str(value)]
    return "".join(f"{shlex.quote(word)} " for word in words)


def _thread(name: str | None) -> str:
    return f"--thread {shlex.quote(name)}" if name else ""
