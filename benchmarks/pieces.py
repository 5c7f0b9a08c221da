"""The pieces of `python -m benchmarks all`, in the order in which they are run, and what runs them.

A piece is given the recordings and the moment by which all should be done; only the last one, the other recordings of
the economy, takes as much as is left. What fails is told and the others go on.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

from .results import Results, about, rounded, without_paths

MAIN = "pi_sessions"
CONTEXT_SIZES = (300, 1_000, 3_000, 10_000)
THREAD_SIZES = (100, 400, 800)
ENTRIES = 100_000

Tell = Callable[[str], None]
Piece = Callable[[Path | None, float, Tell], Any]


def scenarios(_: Path | None, __: float, tell: Tell) -> Any:
    from . import scenarios as bench

    results = []
    for result in bench.run():
        tell(f"  {result.row}: " + ", ".join(f"{name} {found.mark}" for name, found in result.outcomes.items()))
        results.append(result.to_json())
    return results


def economy(data: Path | None, _: float, tell: Tell) -> Any:
    from . import economy as bench
    from .peers import POLICIES
    from .recordings import read_recordings

    (played,) = read_recordings(data, [MAIN])
    tell(bench.heading(played, None))
    return [_told(result, tell) for result in bench.compare(played, list(POLICIES))]


def others(data: Path | None, until: float, tell: Tell) -> Any:
    """The other recordings, the shortest first, with whoever there is time for; a recording is whole or left out."""
    from . import economy as bench
    from .peers import POLICIES
    from .recordings import read_recordings

    results: list[Any] = []
    left = []
    recordings = [each for each in read_recordings(data) if each.name != MAIN]
    pace = 0.0
    for played in sorted(recordings, key=_messages):
        started = monotonic()
        if started + pace * _messages(played) > until:
            left.append(played.name)
            continue
        tell(bench.heading(played, None))
        results += [_told(result, tell) for result in bench.compare(played, list(POLICIES))]
        pace = max(pace, (monotonic() - started) / _messages(played))
    if left:
        tell(f"no time for {', '.join(left)}")
    return {"results": results, "left": left}


def _messages(recording: Any) -> int:
    return sum(map(len, recording.conversations))


def _told(result: Any, tell: Tell) -> Any:
    from . import economy as bench

    tell(bench.line(result))
    told: dict[str, Any] = result.to_json()
    return {**told, "error": without_paths(told["error"])} if "error" in told else told


def context(data: Path | None, _: float, tell: Tell) -> Any:
    from . import context as bench
    from .recordings import read_recordings

    (played,) = read_recordings(data, [MAIN])
    results = []
    for size in CONTEXT_SIZES:
        results.append(bench.measure(played, size))
        tell("\n".join(bench.lines(results[-1])))
    return [result.to_json() for result in results]


def threads(_: Path | None, __: float, tell: Tell) -> Any:
    from . import threads as bench

    result = bench.measure(THREAD_SIZES)
    tell("\n".join(bench.lines(result)))
    return result.to_json()


def retrieval(data: Path | None, _: float, tell: Tell) -> Any:
    from . import retrieval as bench

    found = []
    for name in bench.SETS:
        found.append(bench.recall(name, data))
        tell("\n".join(bench.recall_lines(found[-1])))
    pace = bench.speed(data, ENTRIES)
    tell("\n".join(bench.speed_lines(pace)))
    return bench.to_json(found, pace)


PIECES: dict[str, Piece] = {
    "economy": economy,
    "context": context,
    "retrieval": retrieval,
    "scenarios": scenarios,
    "threads": threads,
    "others": others,
}


def run(names: Sequence[str], data: Path | None, minutes: float, tell: Tell) -> Iterator[Results]:
    """The results after each piece, which may be written at once: what follows may be interrupted."""
    until = monotonic() + minutes * 60
    for name in names:
        tell(f"== {name}")
        yield {name: measured(PIECES[name], data, until, tell)}


def measured(piece: Piece, data: Path | None, until: float, tell: Tell) -> Mapping[str, Any]:
    """A piece with what it was measured on, or with why it failed."""
    started = monotonic()
    try:
        outcome: dict[str, Any] = {"figures": rounded(piece(data, until, tell))}
    except Exception as problem:  # noqa: BLE001 - one piece that fails is told, and the others go on
        outcome = {"error": without_paths(f"{type(problem).__name__}: {problem}")}
        tell(f"failed: {outcome['error']}")
    return {"about": about(), "seconds": round(monotonic() - started), **outcome}
