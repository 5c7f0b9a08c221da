"""How many milliseconds deciding and rendering take: `python -m benchmarks context`.

Each call finds the thread a step longer than the call before. Contenders take turns on the same lists, and what counts
is the processor time of the calling thread, so that whatever else the machine does matters little. LangChain's hooks
get a window that the thread fits into whole, because their state holds only what they have not removed yet: they count
and copy, and find nothing to do. A thread of 10,000 messages that is met for the first time takes a minute or two.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from time import thread_time
from typing import Any

from langchain.agents.middleware import ContextEditingMiddleware, SummarizationMiddleware
from langgraph.runtime import Runtime

from .longthread import MODEL, Ourselves, growing, read_anew
from .loop import Gap, gaps
from .peers import Catch, Messages, clearing, our_config, request
from .recordings import Recording
from .texts import message_tokens

SIZES = (10_000, 1_000)
CALLS = 5
WATCHED = 20
"""Calls on an event loop; more of them, because the worst is looked for."""
ROOM = 4
"""A window of so many times the thread's tokens holds it whole, with no trigger in sight."""

PEER = "LangChain's two hooks"
Call = Callable[[Messages], Any]


@dataclass(frozen=True)
class Timing:
    """The median of some calls."""

    name: str
    milliseconds: float
    faster: float
    """How many of these calls LangChain's hooks take as long as."""


@dataclass(frozen=True)
class Result:
    """Everything about one size of thread."""

    messages: int
    tokens: int
    timings: list[Timing]
    gaps: list[Gap]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def measure(recording: Recording, size: int, window: int | None = None) -> Result:
    """Time a thread of `size` messages, and one of the same messages on an event loop."""
    window = window or recording.window
    histories = growing(recording.conversations, size, WATCHED + 1)
    tokens = sum(map(message_tokens, histories[0]))
    kept, record = gaps(histories, our_config(window))
    return Result(len(histories[0]), tokens, list(timings(histories[: CALLS + 1], window, ROOM * tokens, record)), kept)


def timings(histories: Sequence[Messages], window: int, whole: int, record: dict[str, Any]) -> Iterator[Timing]:
    """Time everybody on `histories`, the first of which only warms them up."""
    taken: dict[str, list[float]] = {}
    calls = contenders(window, whole, record)
    for history in histories:
        anew = read_anew(history)
        for name, call in calls.items():
            taken.setdefault(name, []).append(milliseconds(call, anew if name.endswith("anew") else history))
    medians = {name: median(values[1:]) for name, values in taken.items()}
    for name, middle in medians.items():
        yield Timing(name, middle, medians[PEER] / middle)


def contenders(window: int, whole: int, record: dict[str, Any]) -> dict[str, Call]:
    config = our_config(window)
    return {
        "pass-through": pass_through,
        PEER: langchain(whole),
        "ours, hook of create_agent": Ourselves(config, record).hook,
        "ours, node and view": Ourselves(config, record).node,
        "ours, hook, messages read anew": Ourselves(config, record).hook,
        "ours, hook, whole thread in view": Ourselves(our_config(whole)).hook,
    }


def pass_through(history: Messages) -> Any:
    return Catch().sync(request(MODEL, history))


def langchain(window: int) -> Call:
    """`before_model` of the summarization and `wrap_model_call` of the context editing."""
    summarization = SummarizationMiddleware(MODEL, trigger=("tokens", int(0.7 * window)))
    editing: Any = ContextEditingMiddleware(edits=[clearing(window)])

    def call(history: Messages) -> None:
        state: Any = {"messages": history}
        summarization.before_model(state, Runtime())
        editing.wrap_model_call(request(MODEL, history), Catch().sync)

    return call


def milliseconds(call: Call, history: Messages) -> float:
    started = thread_time()
    call(history)
    return (thread_time() - started) * 1000


def lines(result: Result) -> Iterator[str]:
    yield f"{result.messages:,} messages, {result.tokens:,} tokens"
    yield f"  {'':36}{'ms':>10}   LangChain's two hooks take"
    for timing in result.timings:
        yield f"  {timing.name:36}{timing.milliseconds:10.2f}   {timing.faster:.1f} times as long"
    yield f"  {'event loop':36}{'took ms':>10}{'longest gap ms':>16}{'computing ms':>14}{'collecting ms':>15}"
    for gap in result.gaps:
        yield f"  {gap.name:36}{gap.took:10.1f}{gap.longest:16.1f}{gap.computing:14.1f}{gap.collecting:15.1f}"
