"""Summaries that fail, are paid twice or show where they should not."""

import asyncio
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult

from tests.support.graphs import text_of
from tests.support.models import BAD_MARK, GOOD, UNUSABLE, Scripted, Streaming

from .agents import AGENTS, Thread, Wanted, prose
from .outcome import Outcome, counted, judged, scenario

GROUP = "context"
PATIENCE = 15
"""Seconds a turn may take while the summariser hangs or is tried again."""


class Stuck(Scripted):
    """Never answers."""

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        await asyncio.sleep(3_600)
        raise AssertionError("nobody waits so long")


FAULTS: dict[str, Any] = {
    "raises": lambda: Scripted(replies=UNUSABLE["raises"]),
    "hangs": Stuck,
    "nothing": lambda: Scripted(replies=UNUSABLE["blank"]),
    "a refusal": lambda: Scripted(replies=UNUSABLE["English refusal"]),
    "a tool call": lambda: Scripted(replies=UNUSABLE["tool call with text"]),
    "too long": lambda: Scripted(replies=UNUSABLE["longer than its input"]),
}


@scenario(
    "7",
    GROUP,
    "The summariser raises, hangs, answers with nothing, a refusal, a tool call or more than its input: the run goes "
    "on, and no such answer replaces the history",
    AGENTS,
    ("AgentScope", "Mycel"),
)
async def failing(contender: str, folder: Path) -> Outcome:
    found = await asyncio.gather(*(_fault(contender, folder / name, make()) for name, make in FAULTS.items()))
    bad = [f"{name}: {seen}" for name, seen in zip(FAULTS, found, strict=True) if seen]
    return judged(not bad, f"{len(FAULTS) - len(bad)} of {len(FAULTS)}{''.join(f'; {each}' for each in bad)}")


async def _fault(contender: str, folder: Path, side: Any) -> str:
    """What went wrong, if anything did."""
    await asyncio.to_thread(folder.mkdir)
    model = Scripted()
    thread = Thread(AGENTS[contender](Wanted(model, side, folder, 6_000, patience=1)))
    try:
        for turn in range(24):
            await asyncio.wait_for(thread.say(prose(f"said{turn}x", 900)), PATIENCE)
    except TimeoutError:
        return "the run waits"
    except Exception:  # noqa: BLE001 - whatever it is, the run is over
        return "the run aborts"
    shown = text_of(model.last)
    if BAD_MARK in shown:
        return "its text is shown"
    return "" if "said0x" in shown or "said1x" in shown else "nothing is left of the beginning"


@scenario("11", GROUP, "The model call fails three times after a summary: it is paid once", AGENTS)
async def paid_once(contender: str, folder: Path) -> Outcome:
    side, failures = Scripted(replies=GOOD), [0]

    def reply(_: list[BaseMessage]) -> str:
        if side.requests and failures[0] < 3:
            failures[0] += 1
            raise ConnectionError("the provider is down")
        return "ok"

    thread = Thread(AGENTS[contender](Wanted(Scripted(replies=reply), side, folder, 6_000)))
    for turn in range(24):
        given: Any = {"messages": [("user", prose(f"said{turn}x", 900))]}
        while failures[0] < 4:
            try:
                await thread.graph.ainvoke(given, thread.config)
                break
            except ConnectionError:
                # A run that failed is resumed, without new input.
                given = None
        if failures[0] == 3:
            break
    return judged(failures[0] == 3 and len(side.requests) == 1, counted(len(side.requests), "summary", "summaries"))


@scenario("15", GROUP, 'Summaries do not show in `stream_mode="messages"`', AGENTS)
async def quiet(contender: str, folder: Path) -> Outcome:
    side, model = Streaming(replies=GOOD), Streaming(replies="fine")
    thread = Thread(AGENTS[contender](Wanted(model, side, folder, 6_000)))
    texts: list[str] = []
    for turn in range(24):
        given = {"messages": [("user", prose(f"said{turn}x", 900))]}
        async for message, _ in thread.graph.astream(given, thread.config, stream_mode="messages"):
            texts.append(text_of([message]))
    leaked = sum("SUMMARY-TEXT" in text or "SESSION INTENT" in text for text in ["".join(texts), *texts])
    return judged(side.requests and not leaked, "in the stream" if leaked else "not in the stream")
