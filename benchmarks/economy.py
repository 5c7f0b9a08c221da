"""What each memory policy sends, pays and loses on recorded conversations: `python -m benchmarks economy`.

All are judged by the same ruler (`benchmarks.ruler`) and in the same run. Only the milliseconds vary from run to run:
what a policy does in the background is given the time it takes while the model answers. A summary that is bought so for
a call that never comes is told apart from the cost.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage

from .peers import POLICIES, Policy, Setting
from .recordings import Conversation, Recording
from .ruler import Meter, Tally
from .summariser import ScriptedSummariser
from .texts import encoding

Make = Callable[[Setting], Policy]

WIDTH = 10
COLUMNS: dict[str, Callable[[Tally], str]] = {
    "cost": lambda tally: f"{tally.cost:,}",
    "recent": lambda tally: f"{tally.recent_mean:.3f}",
    "p10": lambda tally: f"{tally.recent_p10:.3f}",
    "breaks": lambda tally: str(tally.breaks),
    "lost": lambda tally: str(tally.lost),
    "silent": lambda tally: str(tally.silent_most),
    "in calls": lambda tally: f"{tally.silent_share:.1%}",
    "over": lambda tally: str(tally.over),
    "invalid": lambda tally: str(tally.invalid),
    "summaries": lambda tally: str(tally.summaries),
    "unused": lambda tally: f"{tally.unused:,}",
    "ms/call": lambda tally: f"{tally.milliseconds:.2f}",
}
"""Headings, and how each figure is shown."""


@dataclass(frozen=True)
class Result:
    """One policy on one recording."""

    recording: str
    window: int
    policy: str
    tally: Tally
    error: str = ""
    """Why the policy stopped before the end; its figures are then not comparable."""

    def to_json(self) -> dict[str, Any]:
        names = {"recording": self.recording, "window": self.window, "policy": self.policy}
        return {**names, "error": self.error} if self.error else {**names, **self.tally.to_json()}


def compare(recording: Recording, policies: Sequence[str], window: int | None = None) -> Iterator[Result]:
    """Each of `policies` on `recording`, at its window unless another is given."""
    window = window or recording.window
    for policy in policies:
        tally, error = Tally(), ""
        try:
            measure(POLICIES[policy], recording.conversations, window, tally)
        except Exception as problem:  # noqa: BLE001 - what a policy fails with is its result
            error = f"{type(problem).__name__}: {problem}"
        yield Result(recording.name, window, policy, tally, error)


def measure(make: Make, conversations: Sequence[Conversation], window: int, tally: Tally) -> None:
    """Play all conversations to a policy, a new one for each, and add its figures to `tally`."""
    encoding()  # read before an event loop runs
    with tempfile.TemporaryDirectory() as folder:
        for conversation in conversations:
            summariser = ScriptedSummariser(profile={"max_input_tokens": window})
            policy = make(Setting(summariser, window, Path(folder)))
            asyncio.run(play(conversation, policy, Meter(tally, window, summariser)))


async def play(conversation: Conversation, policy: Policy, meter: Meter) -> None:
    """Ask `policy` for its view before each reply but one that opens the conversation."""
    for position, message in enumerate(conversation):
        if position and isinstance(message, AIMessage):
            history = conversation[:position]
            await policy.rest()
            meter.rested()
            started = time.perf_counter()
            view = await policy.view(history)
            meter.add(history, view, time.perf_counter() - started)
    await policy.rest()
    meter.end()


def heading(recording: Recording, window: int | None) -> str:
    count = len(recording.conversations)
    told = f"{count} conversation{'s' if count > 1 else ''}, window {window or recording.window:,}"
    return f"{recording.name}: {told}\n{_row('', COLUMNS)}"


def line(result: Result) -> str:
    if result.error:
        return f"{result.policy:{WIDTH}} failed with {result.error}"
    return _row(result.policy, (show(result.tally) for show in COLUMNS.values()))


def _row(name: str, cells: Iterable[str]) -> str:
    return f"{name:{WIDTH}}" + "".join(f" {cell:>{WIDTH}}" for cell in cells)
