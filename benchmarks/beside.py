"""What a flush beside a turn costs the turn: `python -m benchmarks beside`.

A turn of some steps, each a model call over HTTP and a tool, is timed while the extracting model of the turn before is
still being waited for, and while there is nothing beside it. The two take turns, so that what else the machine does
matters little; the model of the agent answers after a fixed time, as real ones do.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from langchain.agents import create_agent
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool

from langgraph_memory import MemoryMiddleware

STEPS = 5
ROUNDS = 5
FLUSH_SECONDS = 30.0
STEP_SECONDS = 0.2


@tool
def look(step: int) -> str:
    """Look at something."""
    time.sleep(STEP_SECONDS / 4)
    return f"step {step}: all quiet"


class Stepping(BaseChatModel):
    """Calls the tool so many times, then ends the turn; each call takes a while."""

    steps: int = 0
    seconds: float = STEP_SECONDS

    @property
    def _llm_type(self) -> str:
        return "stepping"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **_: Any,
    ) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **_: Any,
    ) -> ChatResult:
        await asyncio.sleep(self.seconds)
        since = next(n for n, message in enumerate(reversed(messages)) if message.type == "human")
        done = since // 2
        call = {"name": "look", "args": {"step": done}, "id": f"call-{len(messages)}"}
        reply = AIMessage("Done.") if done >= self.steps else AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=reply)])


class Extracting(Stepping):
    """The side model; answers after a long time that there is nothing to remember."""

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        await asyncio.sleep(self.seconds)
        return ChatResult(generations=[ChatGeneration(message=AIMessage("NO_REPLY"))])


@dataclass(frozen=True)
class Result:
    """Seconds, the median of the rounds."""

    steps: int
    flush_seconds: float
    alone: float
    """A turn with nothing beside it, to the end of its stream."""
    beside: float
    """A turn while a flush waits for its model."""
    step_alone: float
    step_beside: float
    under_way: int
    """Turns that ended before the flush they were beside of, of all."""
    rounds: int

    @property
    def ratio(self) -> float:
        return self.beside / self.alone

    @property
    def step_ratio(self) -> float:
        return self.step_beside / self.step_alone

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio, "step_ratio": self.step_ratio}


def measure(steps: int = STEPS, rounds: int = ROUNDS, flush_seconds: float = FLUSH_SECONDS) -> Result:
    """Time turns with and without a flush beside them, by turns."""
    return asyncio.run(_measure(steps, rounds, flush_seconds))


async def _measure(steps: int, rounds: int, flush_seconds: float) -> Result:
    taken: dict[bool, list[tuple[float, list[float]]]] = {False: [], True: []}
    under_way = 0
    # The first round only warms up.
    for number in range(rounds + 1):
        for flushing in (False, True):
            took, waited = await _turn(steps, flush_seconds if flushing else 0.0, flushing=flushing)
            if number:
                taken[flushing].append(took)
                under_way += waited
    whole = {flushing: median(total for total, _ in those) for flushing, those in taken.items()}
    each = {flushing: median(one for _, gaps in those for one in gaps) for flushing, those in taken.items()}
    return Result(steps, flush_seconds, whole[False], whole[True], each[False], each[True], under_way, rounds)


async def _turn(steps: int, seconds: float, *, flushing: bool) -> tuple[tuple[float, list[float]], bool]:
    """Seconds of the second turn of a thread, whole and step by step; whether the first one's flush outlasted it."""
    config: RunnableConfig = {"configurable": {"thread_id": "t", "user_id": "ada"}}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        files = {"thread_db": f"{folder}/threads.db", "workspace": f"{folder}/work"}
        side = Extracting(seconds=seconds)
        async with MemoryMiddleware.open({"persistence": files}, model=side) as memory:
            agent = create_agent(Stepping(), [], middleware=[memory], checkpointer=memory.saver)
            await agent.ainvoke({"messages": [HumanMessage("I like jazz.")]}, config)
            if not flushing:
                await memory.background.drain(30)
            stepper = create_agent(Stepping(steps=steps), [look], middleware=[memory], checkpointer=memory.saver)
            (keeper,) = await asyncio.to_thread(memory.longterm.homes.all)
            flushes = "flush", keeper.folder.given, "t"
            started = last = time.perf_counter()
            gaps: list[float] = []
            async for _ in stepper.astream({"messages": [HumanMessage("Look.")]}, config, stream_mode="updates"):
                now = time.perf_counter()
                gaps.append(now - last)
                last = now
            total = time.perf_counter() - started
            waited = flushing and flushes in memory.background._running
            await memory.adrain(0)
    return (total, gaps), waited


def lines(result: Result) -> Iterator[str]:
    yield f"a turn of {result.steps} tool steps beside a flush of {result.flush_seconds:g} s, median of {result.rounds}"
    yield f"  {'':28}{'alone s':>10}{'beside s':>10}{'ratio':>8}"
    yield f"  {'to the end of the stream':28}{result.alone:10.3f}{result.beside:10.3f}{result.ratio:8.3f}"
    yield f"  {'a step':28}{result.step_alone:10.3f}{result.step_beside:10.3f}{result.step_ratio:8.3f}"
    yield f"  {result.under_way} of {result.rounds} turns ended while the flush was still under way"
