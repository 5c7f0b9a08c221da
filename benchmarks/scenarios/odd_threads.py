"""Thread ids and values that savers do not expect, and a program that forgets to close one."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

from langchain_core.messages import AIMessage, HumanMessage

from langgraph_memory import LangGraphMemoryError

from .outcome import OURS, Outcome, judged, scenario
from .threads import GROUP, SAVERS, config, opened, put

IDS: tuple[Any, ...] = (None, "None", 7, UUID(int=7))
REFUSED = (LangGraphMemoryError, TypeError, ValueError)
EXIT_SECONDS = 20
"""Importing everything takes a few of them."""

FORGETFUL = """
import asyncio
from {module} import {name}

async def main():
    opening = {name}.from_conn_string({path!r})
    saver = await opening.__aenter__()
    globals()["kept"] = opening, saver
    await saver.aget_tuple({{"configurable": {{"thread_id": "t-1"}}}})

asyncio.run(main())
print("done", flush=True)
"""


@scenario("21", GROUP, "Thread ids None, 'None', 7 and a UUID: each a thread of its own, or refused by name", SAVERS)
async def odd_ids(contender: str, folder: Path) -> Outcome:
    async with opened(contender, folder / "threads.db") as saver:
        kept = []
        for name in IDS:
            try:
                await put(saver, name, [HumanMessage(f"of {name!r}", id="h")])
                kept.append(name)
            except REFUSED:
                continue
        wrong = [f"{name!r} {seen}" for name in kept if (seen := await _seen(saver, name))]
    refused = [repr(name) for name in IDS if name not in kept]
    told = [*wrong, *([f"refused: {', '.join(refused)}"] if refused else [])]
    return judged(not wrong, "; ".join(told).replace(repr(IDS[-1]), "a UUID") or "each its own")


async def _seen(saver: Any, name: Any) -> str:
    """What is wrong with a thread that was written, if anything is."""
    try:
        found = [one async for one in saver.alist(config(name))]
        newest = await saver.aget_tuple(config(name))
    except Exception as problem:  # noqa: BLE001 - any error of reading what was written
        return f"raises {type(problem).__name__} in listing"
    said = newest.checkpoint["channel_values"]["messages"][0].content
    return "" if said == f"of {name!r}" and len(found) == 1 else f"shows what was said {said}"


@scenario("22", GROUP, f"A program that never closes its saver exits by itself within {EXIT_SECONDS} s", SAVERS)
async def forgotten(contender: str, folder: Path) -> Outcome:
    module = "langgraph_memory" if contender == OURS else "langgraph.checkpoint.sqlite.aio"
    name = "ThreadSaver" if contender == OURS else "AsyncSqliteSaver"
    code = FORGETFUL.format(module=module, name=name, path=str(folder / "threads.db"))
    try:
        done = await asyncio.to_thread(_run, code)
    except subprocess.TimeoutExpired:
        return judged(False, "never exits")
    return judged(done.returncode == 0 and "done" in done.stdout, "exits" if done.returncode == 0 else "crashes")


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=EXIT_SECONDS, check=False, text=True
    )


VALUES: dict[str, Any] = {
    "a lone surrogate": [HumanMessage("\ud800 hello", id="h")],
    "a NUL": [HumanMessage("a\x00b", id="h")],
    "an argument of 2**64": [AIMessage("", tool_calls=[{"name": "n", "args": {"n": 2**64}, "id": "c"}], id="a")],
}


@scenario(
    "23",
    GROUP,
    f"A{', '.join(VALUES)[1:]} in a message: stored as it is, or an error before anything is written",
    SAVERS,
)
async def odd_values(contender: str, folder: Path) -> Outcome:
    told, good = [], True
    async with opened(contender, folder / "threads.db") as saver:
        for number, (name, value) in enumerate(VALUES.items()):
            thread = f"t-{number}"
            try:
                await put(saver, thread, value)
            except Exception as problem:  # noqa: BLE001 - whether it is clear is for who reads it to say
                left = await saver.aget_tuple(config(thread))
                good &= left is None
                told.append(f"{name}: {type(problem).__name__}{' after writing' if left else ''}")
                continue
            found = await saver.aget_tuple(config(thread))
            same = found.checkpoint["channel_values"]["messages"] == value
            good &= same
            told.append(f"{name}: {'as it is' if same else 'changed'}")
    return judged(good, "; ".join(told))
