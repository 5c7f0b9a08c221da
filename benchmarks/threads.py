"""What a turn costs a checkpointer: `python -m benchmarks threads`.

Every contender keeps the same thread, by the same graph on a saver of its own, and their turns are interleaved, so that
whatever else the machine does slows them all alike. What is compared is the median of the last turns of a size.

A plain saver writes the whole list with every checkpoint, which is 2.3 GB after 800 made turns and would be 14 GB
after 2,000. Beyond `CAP` most contenders therefore begin with one run that is given all but the last turns, and go on
from there: a turn then takes what it takes after all the others, and bytes are not told. The saver in memory, whose
bytes nobody asks for, always begins so.
"""

import asyncio
import multiprocessing
import random
import sqlite3
import string
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from dataclasses import asdict, dataclass
from itertools import count, takewhile
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Annotated, Any, Literal, NamedTuple
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import tools_condition
from typing_extensions import TypedDict

from langgraph_memory import MemoryMiddleware, MemoryState, ThreadSaver

SIZES = (100, 400, 800, 2_000)
CAP = 800
"""Turns that all contenders on disk take one by one."""
LAST = 30
"""Turns whose median counts."""
ELSEWHERE = 3
"""Turns at the end of a size that another process takes, whose peak of memory is told; from `CAP` turns on."""
SHORT = 200
"""Turns of the thread that a long one is compared with, where covered messages leave the state."""
NEWEST = 10
LISTINGS = 5

PLAIN = "plain"
THREAD = "t-1"
WINDOW = 32_000
SUMMARY = "## SESSION INTENT\nTalk.\n## SUMMARY\nPart {} of the talk was about letters.\n## NEXT STEPS\nGo on."


# Turns


@dataclass(frozen=True)
class Turn:
    """What a run is given, and everything that the model and its tools then say."""

    given: list[BaseMessage]
    replies: list[BaseMessage]


def made(turns: int) -> list[Turn]:
    """500 characters from a person and 1,500 from the model a turn, of letters that cannot be packed well."""
    return [
        Turn([HumanMessage(_text(500), id=str(uuid4()))], [AIMessage(_text(1500), id=str(uuid4()))])
        for _ in range(turns)
    ]


def _text(length: int) -> str:
    return "".join(random.choices(string.ascii_letters + " ", k=length))


def recorded(messages: Sequence[BaseMessage]) -> list[Turn]:
    """A recorded conversation as turns: each ends where the model calls no tool, or a person speaks up."""
    turns: list[Turn] = []
    ended = True
    for message in messages:
        if ended or (message.type == "human" and turns[-1].replies):
            turns.append(Turn([], []))
        spoken = message.type == "ai" or turns[-1].replies
        (turns[-1].replies if spoken else turns[-1].given).append(message)
        ended = isinstance(message, AIMessage) and not message.tool_calls
    return turns


class Script:
    """Says the replies of one turn, step by step."""

    def __init__(self) -> None:
        self._rest: list[BaseMessage] = []

    def begin(self, turn: Turn) -> None:
        self._rest = list(turn.replies)

    def speak(self) -> BaseMessage:
        return self._rest.pop(0) if self._rest else AIMessage("Stopped.")

    async def model(self, _: Any) -> dict[str, Any]:
        return {"messages": [self.speak()]}

    async def tools(self, _: Any) -> dict[str, Any]:
        results = list(takewhile(lambda message: message.type == "tool", self._rest))
        del self._rest[: len(results)]
        return {"messages": results}


class Speaking(BaseChatModel):
    """A chat model that says what a function returns; it keeps nothing."""

    profile: Any = None
    say: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.say())])

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return self._generate(messages)


# Contenders


def reduced(state: list[AnyMessage], writes: Sequence[Any]) -> list[AnyMessage]:
    for write in writes:
        state = add_messages(state, write)  # type: ignore[assignment, arg-type]
    return state


class DeltaState(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(reduced, snapshot_frequency=50)]


@dataclass(frozen=True)
class Kind:
    name: str
    saver: Literal["plain", "in memory", "ours"]
    delta: bool = False
    memory: Literal["", "all", "since_summary"] = ""
    whole: bool = False
    """Whether it takes every turn, whatever the size."""

    def begins_late(self, size: int) -> bool:
        return self.saver == "in memory" or (size > CAP and not self.whole)


KINDS = (
    Kind(PLAIN, "plain"),
    Kind("plain, delta", "plain", delta=True),
    Kind("in memory", "in memory"),
    Kind("ours", "ours", whole=True),
    Kind("ours, delta", "ours", delta=True),
    Kind("ours, memory", "ours", memory="all"),
    Kind("ours, memory, since_summary", "ours", memory="since_summary", whole=True),
)


class Taken(NamedTuple):
    """Milliseconds of a turn, and those of them in which any thread of the process computed."""

    milliseconds: float
    computing: float

    @classmethod
    def middle(cls, several: Sequence["Taken"]) -> "Taken":
        return cls(*map(median, zip(*several, strict=True)))


class Contender:
    """A graph of a kind on its saver."""

    def __init__(self, kind: Kind, saver: Any) -> None:
        self.kind, self.saver = kind, saver
        self._script = Script()
        self.graph = (self._with_memory() if kind.memory else self._without()).compile(checkpointer=saver)

    def _with_memory(self) -> Any:
        config = {"memory": {"context_window": WINDOW}, "persistence": {"state": self.kind.memory}}
        numbers = count(1)
        summaries = Speaking(say=lambda: AIMessage(SUMMARY.format(next(numbers))))
        memory = MemoryMiddleware(config, model=summaries, saver=self.saver)
        builder: Any = StateGraph(MemoryState, input_schema=MessagesState)
        builder.add_node("model", memory.model_node(Speaking(say=self._script.speak)))
        builder.add_node("tools", self._script.tools)
        memory.attach(builder)
        return builder

    def _without(self) -> Any:
        builder: Any = StateGraph(DeltaState if self.kind.delta else MessagesState)
        builder.add_node("model", self._script.model)
        builder.add_node("tools", self._script.tools)
        builder.add_edge(START, "model")
        builder.add_conditional_edges("model", tools_condition, {"tools": "tools", END: END})
        builder.add_edge("tools", "model")
        return builder

    async def take(self, turn: Turn, thread: str = THREAD) -> Taken:
        self._script.begin(turn)
        started, computed = perf_counter(), process_time()
        await self.graph.ainvoke({"messages": turn.given}, _config(thread))
        return Taken((perf_counter() - started) * 1000, (process_time() - computed) * 1000)

    async def begin(self, turns: Sequence[Turn]) -> None:
        """Have a thread that looks as if `turns` had been taken, of one run."""
        messages = [message for turn in turns for message in (*turn.given, *turn.replies)]
        if messages:
            await self.take(Turn(messages[:-1], messages[-1:]))

    async def list_newest(self) -> float:
        """Milliseconds of listing the newest checkpoints."""
        await self.saver.setup()
        started = perf_counter()
        found = [one async for one in self.saver.alist(_config(THREAD), limit=NEWEST)]
        assert found
        return (perf_counter() - started) * 1000


def _config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}, "recursion_limit": 10_000}


@asynccontextmanager
async def opened(kind: Kind, path: Path | str) -> AsyncIterator[Contender]:
    if kind.saver == "in memory":
        yield Contender(kind, InMemorySaver())
        return
    saver_type: Any = ThreadSaver if kind.saver == "ours" else AsyncSqliteSaver
    async with saver_type.from_conn_string(str(path)) as saver:
        yield Contender(kind, saver)


# Measuring


@dataclass(frozen=True)
class Row:
    """One contender at one size."""

    name: str
    milliseconds: float
    """The median of the last turns."""
    of_plain: float
    of_delta: float
    computing: float
    """Milliseconds of processor time, which other programs hardly change."""
    computing_of_plain: float
    bytes: int | None
    """Of the database; None where the thread was begun near its end, and in memory."""
    memory: float | None
    """Megabytes that taking up the thread for some turns adds to the peak of a new process."""
    newest: float | None
    """Milliseconds of listing the newest checkpoints."""


@dataclass(frozen=True)
class Size:
    turns: int
    messages: int
    rows: list[Row]


@dataclass(frozen=True)
class Short:
    """A turn of a short thread beside one of a long thread, where covered messages leave the state."""

    turns: int
    milliseconds: float
    long_turns: int
    long_milliseconds: float
    computing: float
    """How many times the processor time of the short thread's turn the long thread's takes."""


@dataclass(frozen=True)
class Result:
    name: str
    sizes: list[Size]
    short: Short | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def measure(sizes: Sequence[int] = SIZES, *, memory: bool = True) -> Result:
    """Measure made turns up to the largest of `sizes`; `memory` starts processes to measure their peaks."""
    return _run("made turns", made(max(sizes)), sorted(sizes), memory)


def measure_recording(name: str, messages: Sequence[BaseMessage], *, memory: bool = True) -> Result:
    """Measure a recorded conversation, turn by turn."""
    turns = recorded(messages)
    return _run(name, turns, [len(turns)], memory)


def _run(name: str, turns: list[Turn], sizes: list[int], memory: bool) -> Result:
    with TemporaryDirectory() as folder:
        race = Race(Path(folder), turns, memory)
        return asyncio.run(race.run(name, sizes))


class Race:
    """Takes the turns, contender by contender, and stops to look at each size."""

    def __init__(self, folder: Path, turns: list[Turn], memory: bool) -> None:
        self._folder, self._turns, self._memory = folder, turns, memory
        self._field: dict[Kind, Contender] = {}
        self._stacks: dict[Kind, AsyncExitStack] = {}

    async def run(self, name: str, sizes: list[int]) -> Result:
        try:
            found = [
                await self._size(before, size, last=size == sizes[-1])
                for before, size in zip([0, *sizes], sizes, strict=False)
            ]
            return Result(name, found, await self._short(sizes[-1]))
        finally:
            for kind in list(self._stacks):
                await self._leave(kind)

    async def _enter(self, kind: Kind) -> None:
        self._stacks[kind] = AsyncExitStack()
        self._field[kind] = await self._stacks[kind].enter_async_context(opened(kind, self._path(kind)))

    async def _leave(self, kind: Kind) -> None:
        del self._field[kind]
        await self._stacks.pop(kind).aclose()

    def _path(self, kind: Kind) -> Path:
        return self._folder / f"{kind.name}.db"

    async def _size(self, before: int, size: int, last: bool) -> Size:
        """Take the turns from `before` to `size`."""
        memory = self._memory and (last or size >= CAP)
        end = max(before, size - ELSEWHERE) if memory else size
        start = max(before, end - LAST)
        for kind in KINDS:
            await self._ready(kind, size)
        await self._take(before, start)
        for kind in KINDS:
            if kind not in self._field:
                await self._enter(kind)
                await self._field[kind].begin(self._turns[:start])
        taken = await self._take(start, end)
        peaks = {kind: await self._peak(kind, self._turns[end:size]) for kind in KINDS} if memory else {}
        newest = await self._newest() if last else {}
        middle = {kind: Taken.middle(taken[kind]) for kind in KINDS}
        plain, delta = (middle[kind] for kind in KINDS[:2])
        rows = [
            Row(
                name=kind.name,
                milliseconds=middle[kind].milliseconds,
                of_plain=middle[kind].milliseconds / plain.milliseconds,
                of_delta=middle[kind].milliseconds / delta.milliseconds,
                computing=middle[kind].computing,
                computing_of_plain=middle[kind].computing / plain.computing,
                bytes=None if kind.begins_late(size) else _bytes(self._path(kind)),
                memory=peaks.get(kind),
                newest=newest.get(kind),
            )
            for kind in KINDS
        ]
        return Size(size, sum(len(turn.given) + len(turn.replies) for turn in self._turns[:size]), rows)

    async def _ready(self, kind: Kind, size: int) -> None:
        """Let `kind` take part from the beginning, or leave until it begins late."""
        if not kind.begins_late(size):
            if kind not in self._field:
                await self._enter(kind)
        elif kind in self._field:
            await self._leave(kind)
            self._path(kind).unlink(missing_ok=True)

    async def _take(self, start: int, end: int) -> dict[Kind, list[Taken]]:
        taken: dict[Kind, list[Taken]] = {kind: [] for kind in self._field}
        for turn in self._turns[start:end]:
            for kind, contender in self._field.items():
                taken[kind].append(await contender.take(turn))
        return taken

    async def _peak(self, kind: Kind, turns: list[Turn]) -> float | None:
        if kind.saver == "in memory":
            for turn in turns:
                await self._field[kind].take(turn)
            return None
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            return await asyncio.get_running_loop().run_in_executor(pool, elsewhere, kind, self._path(kind), turns)

    async def _newest(self) -> dict[Kind, float]:
        """By savers that are opened for it, as by another process that looks at the thread."""
        taken: dict[Kind, list[float]] = {}
        for _ in range(LISTINGS):
            for kind in KINDS:
                if kind.saver != "in memory":
                    async with opened(kind, self._path(kind)) as contender:
                        taken.setdefault(kind, []).append(await contender.list_newest())
        return {kind: median(values) for kind, values in taken.items()}

    async def _short(self, size: int) -> Short | None:
        if size <= SHORT:
            return None
        (contender,) = [one for kind, one in self._field.items() if kind.memory == "since_summary"]
        for turn in self._turns[: SHORT - LAST]:
            await contender.take(turn, "short")
        turns, more = self._turns[SHORT - LAST : SHORT], made(LAST)
        taken = [
            (await contender.take(turn, "short"), await contender.take(new))
            for turn, new in zip(turns, more, strict=True)
        ]
        short, long = zip(*taken, strict=True)
        medians = Taken.middle(short), Taken.middle(long)
        return Short(
            SHORT, medians[0].milliseconds, size, medians[1].milliseconds, medians[1].computing / medians[0].computing
        )


def _bytes(path: Path) -> int | None:
    if not path.exists():
        return None
    with closing(sqlite3.connect(path)) as db:
        # What is in the log only is counted too.
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.stat().st_size


def elsewhere(kind: Kind, path: Path, turns: list[Turn]) -> float | None:
    """Megabytes that `turns` of the thread add to the peak of this process; None where the system does not tell."""
    return asyncio.run(_elsewhere(kind, path, turns))


async def _elsewhere(kind: Kind, path: Path, turns: list[Turn]) -> float | None:
    async with opened(kind, ":memory:") as contender:
        await contender.take(made(1)[0])
    _forget_peak()
    before = _peak()
    async with opened(kind, path) as contender:
        for turn in turns:
            await contender.take(turn)
    return max(0.0, _peak() - before) if before else None


def _forget_peak() -> None:
    """Let the peak begin at what the process holds now, where the system can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak() -> float:
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1000 for line in lines if line.startswith("VmHWM")), 0.0)


# Printing


COLUMNS = {
    "MB": 10,
    "ms a turn": 11,
    "of plain": 10,
    "of delta": 10,
    "computing": 11,
    "of plain's": 12,
    "peak MB": 10,
    "newest ms": 11,
}


def lines(result: Result) -> Iterator[str]:
    for size in result.sizes:
        yield f"{result.name}: {size.turns:,} turns, {size.messages:,} messages"
        yield f"  {'':28}" + "".join(f"{title:>{width}}" for title, width in COLUMNS.items())
        for row in size.rows:
            yield (
                f"  {row.name:28}{_shown(row.bytes and row.bytes / 1e6, 2):>10}{row.milliseconds:11.1f}"
                f"{row.of_plain:10.2f}{row.of_delta:10.2f}{row.computing:11.1f}{row.computing_of_plain:12.2f}{_shown(row.memory):>10}{_shown(row.newest):>11}"
            )
    yield from _ratios(result)


def _shown(figure: float | None, digits: int = 1) -> str:
    return "-" if figure is None else f"{figure:,.{digits}f}"


def _ratios(result: Result) -> Iterator[str]:
    """What one row does not show."""
    rows = {row.name: row for row in result.sizes[-1].rows}
    if newest := rows[PLAIN].newest:
        parts = [f"{name} {row.newest / newest:.3f}" for name, row in rows.items() if row.newest and name != PLAIN]
        yield f"newest {NEWEST} of {result.sizes[-1].turns:,} turns, of plain: {', '.join(parts)}"
    if len(result.sizes) > 1:
        before = {row.name: row.bytes for row in result.sizes[-2].rows}
        parts = [
            f"{name} {row.bytes / small:.2f}" for name, row in rows.items() if row.bytes and (small := before[name])
        ]
        yield f"bytes from {result.sizes[-2].turns:,} to {result.sizes[-1].turns:,} turns: {', '.join(parts)}"
    if short := result.short:
        yield (
            f"since_summary, ms a turn: {short.milliseconds:.1f} after {short.turns:,} turns, "
            f"{short.long_milliseconds:.1f} after {short.long_turns:,}: "
            f"{short.long_milliseconds / short.milliseconds:.2f} times as long, computing {short.computing:.2f} times"
        )
