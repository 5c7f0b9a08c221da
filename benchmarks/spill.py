"""What a very large tool result costs: `python -m benchmarks spill`.

An agent is shown a file and looks lines up in it, in a process of its own. Measured are the memory it takes for a file
of one line (the baseline), the peak for the whole file, how many sizes of the file that is more, and what the thread
stores.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.live.large import LINE, WAYS, measured


def lines(megabytes: int) -> Iterator[str]:
    number = megabytes * 1_000_000 // LINE
    lookups = {"pattern": f"entry {number * 9 // 10:07d}"}, {"offset": LINE * (number - 3)}
    row = "{:22} {:>12} {:>12} {:>8} {:>14} {:>14}".format
    yield row("", "baseline", "peak", "x text", "newest state", "whole thread")
    for way in WAYS:
        with tempfile.TemporaryDirectory() as folder:
            _, costs = measured(Path(folder), number, *lookups, way=way)
        memory = _megabytes(costs.before), _megabytes(costs.peak), f"{costs.factor:.1f}"
        yield row(way, *memory, _megabytes(costs.checkpoint), _megabytes(costs.database))


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.3f} MB" if size < 1e6 else f"{size / 1e6:.0f} MB"
