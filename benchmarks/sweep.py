"""What the settings of ours cost and keep: `python -m benchmarks sweep`.

The same ruler as in `benchmarks.economy` judges ours at points of `keep_recent_tokens` and `trigger_ratio`, with
`min_reclaim_tokens` varied at the cheapest of them, the one that keeps most, and the defaults. Sizes are shares of the
window, because the recordings are played in windows of several sizes. Very long tool results are a set of their own,
recorded output of test runs, with `protect_recent` and `hard_clear_threshold`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from .economy import measure
from .peers import Ours
from .recordings import Conversation, Recording, read_recordings, records
from .ruler import Tally

SECONDS = 240.0
KEEPS = (1 / 16, 1 / 8, 1 / 4)
RATIOS = (0.5, 0.6, 0.7, 0.85)
RECLAIMS = (0.0, 1 / 32, 1 / 8)
PROTECTED = (0, 1, 3, 6)
CLEARED = (4_000, 10_000, 40_000)
PARTS = {"pi_sessions": (1, 300), "openhands": (4, 200), "tau_airline": (8, 100)}
"""Of each recording that is played: conversations, and messages of each."""
RAW = "tool_outputs_raw"
STEPS_BETWEEN = 2
"""Short steps between two very long results."""


@dataclass(frozen=True)
class Point:
    """Settings; sizes are shares of the window."""

    keep: float = 1 / 4
    ratio: float = 0.7
    reclaim: float = 1 / 8
    protect: int = 3
    clear: int = 10_000

    def settings(self, window: int) -> dict[str, Any]:
        """As keys of `memory`; above the default trigger, less is reserved, which would lower it."""
        compaction: dict[str, Any] = {"trigger_ratio": self.ratio, "keep_recent_tokens": round(self.keep * window)}
        if self.ratio > 1 - 1 / 4:
            compaction["reserve_tokens"] = round((1 - self.ratio) * window)
        pruning = {
            "protect_recent": self.protect,
            "hard_clear_threshold": self.clear,
            "min_reclaim_tokens": round(self.reclaim * window),
        }
        return {"compaction": compaction, "pruning": pruning}


DEFAULT = Point()


@dataclass(frozen=True)
class Found:
    """What a point costs and keeps."""

    point: Point
    cost: int
    recent: float
    breaks: int
    lost: int
    over: int
    summaries: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Result:
    windows: dict[str, int]
    """Of each set that was played."""
    talks: list[Found]
    huge: list[Found]
    left: int
    """Points there was no time for."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def sweep(data: Path | None = None, seconds: float = SECONDS) -> Iterator[tuple[str, Found] | Result]:
    """Each point as it is found, with the name of its set, and at last all of them."""
    until = monotonic() + seconds
    sets = {name: part for name in PARTS if (part := _part(data, name))}
    huge = very_long(data)
    found: dict[str, list[Found]] = {"talks": [], "huge": []}
    left = 0

    def measured(kind: str, points: Sequence[Point], played: Sequence[Recording]) -> Iterator[tuple[str, Found]]:
        nonlocal left
        for point in points:
            if monotonic() > until:
                left += 1
                continue
            found[kind].append(judged(point, played))
            yield kind, found[kind][-1]

    yield from measured("huge", around_results() if huge else [], [huge] if huge else [])
    talks = list(sets.values())
    yield from measured("talks", grid() if talks else [], talks)
    if found["talks"]:
        yield from measured("talks", gated(found["talks"]), talks)
    windows = {each.name: each.window for each in (*talks, *([huge] if huge else []))}
    yield Result(windows, found["talks"], found["huge"], left)


def judged(point: Point, played: Sequence[Recording]) -> Found:
    """All recordings with these settings, in one tally."""
    tally = Tally()
    for each in played:
        make: Any = partial(Ours, settings=point.settings(each.window))
        measure(make, each.conversations, each.window, tally)
    return Found(point, tally.cost, round(tally.recent_mean, 3), tally.breaks, tally.lost, tally.over, tally.summaries)


def grid() -> list[Point]:
    """The defaults first, so that there is something to compare with if time is short."""
    rest = [Point(keep, ratio) for keep in KEEPS for ratio in RATIOS]
    return [DEFAULT, *(point for point in rest if point != DEFAULT)]


def gated(found: Sequence[Found]) -> list[Point]:
    """Other gates for pruning at the points that matter."""
    chosen = dict.fromkeys([cheapest(found).point, fullest(found).point, DEFAULT])
    points = [replace(point, reclaim=reclaim) for point in chosen for reclaim in RECLAIMS]
    return [point for point in points if point not in {each.point for each in found}]


def around_results() -> list[Point]:
    rest = [Point(protect=protect, clear=clear) for protect in PROTECTED for clear in CLEARED]
    return [DEFAULT, *(point for point in rest if point != DEFAULT)]


def sound(found: Sequence[Found]) -> list[Found]:
    """Points that lose no request and send nothing above the window; all where none is such."""
    return [each for each in found if not each.lost and not each.over] or list(found)


def cheapest(found: Sequence[Found]) -> Found:
    return min(sound(found), key=lambda each: (each.cost, -each.recent, strange(each.point)))


def fullest(found: Sequence[Found]) -> Found:
    """What keeps most of the newest messages word for word."""
    return max(sound(found), key=lambda each: (each.recent, -each.cost, -strange(each.point)))


def strange(point: Point) -> int:
    """How many settings are not the defaults: what makes no difference is left alone."""
    return sum(value != getattr(DEFAULT, name) for name, value in asdict(point).items())


def _part(data: Path | None, name: str) -> Recording | None:
    conversations, messages = PARTS[name]
    try:
        (whole,) = read_recordings(data, [name])
    except FileNotFoundError:
        return None
    return Recording(name, [each[:messages] for each in whole.conversations[:conversations]])


def very_long(data: Path | None) -> Recording | None:
    """One turn of an agent that looks at recorded output of test runs, with short steps between."""
    try:
        outputs = [record["text"] for record in records(data, RAW)]
    except FileNotFoundError:
        return None
    messages: Conversation = [HumanMessage("Find out which of these test runs fails, and why.", id="request")]
    for number, output in enumerate(outputs):
        for step in range(STEPS_BETWEEN + 1):
            name = f"{number}-{step}"
            call = {"name": "run_tests", "args": {"suite": name}, "id": f"call-{name}"}
            text = output if step == 0 else f"{name}: nothing new"
            messages += [
                AIMessage(f"Looking at {name}.", tool_calls=[call], id=f"ai-{name}"),
                ToolMessage(text, tool_call_id=f"call-{name}", name="run_tests", id=f"tool-{name}"),
            ]
    return Recording(RAW, [[*messages, AIMessage("It is the second.", id="end")]])


# Printing


_WIDTHS = {"keep": 7, "ratio": 7, "gate": 7, "protect": 9, "clear": 8, "cost": 12, "recent": 8, "breaks": 8}
HEADING = "".join(f"{name:>{width}}" for name, width in (_WIDTHS | {"lost": 6, "over": 6}).items())


def line(found: Found) -> str:
    point = found.point
    return (
        f"{point.keep:7.3f}{point.ratio:7.2f}{point.reclaim:7.3f}{point.protect:9}{point.clear:8,}"
        f"{found.cost:12,}{found.recent:8.3f}{found.breaks:8}{found.lost:6}{found.over:6}"
    )
