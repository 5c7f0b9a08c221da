"""A tool that shows a very large file, in a program of its own, and what that costs."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langgraph_memory.threads import ThreadSaver, ThreadStore
from tests.live.child import ended, started
from tests.live.programs import Program, answering, calls, showing
from tests.support.server import Call, ModelServer, Reply, Request

LINE = 50
"""Bytes of a line, its end included."""
WAYS: dict[str, dict[str, Any]] = {
    "create_agent": {"kind": "agent"},
    "graph, wrapped tools": {"kind": "node"},
    "graph, bare tools": {"kind": "node", "wrapped": False},
}
"""How a result reaches the state; a bare tool node puts it there whole, and the memory node replaces it."""


@dataclass(frozen=True)
class Costs:
    """What a result cost. Sizes are bytes."""

    text: int
    before: int
    """The most memory the program held for a result of one line."""
    peak: int
    """The most memory it held in all."""
    checkpoint: int
    """The newest state of the thread, as it is stored."""
    database: int
    """All its checkpoints and writes."""

    @property
    def factor(self) -> float:
        """Memory beyond that for one line, in sizes of the text."""
        return (self.peak - self.before) / self.text


def shown(folder: Path, lines: int, *lookups: dict[str, Any], way: str, run: Callable[..., Any]) -> list[str]:
    """What an agent is shown that opens a file of one line and one of `lines`, and recalls `lookups` from that.

    `run` makes a program of these fields say two things to the agent.
    """
    files = [written(folder / f"{number}.log", number) for number in (1, lines)]
    script = answering(showing(files[0]), "one line", showing(files[1], "call_2"), *map(recalling, lookups), "done")
    with ModelServer(script) as server:
        run(url=server.url, given=["show me the small one", "and now the large one"], **WAYS[way])
        return [message["content"] for message in calls(server)[-1].messages if message["role"] == "tool"]


def measured(folder: Path, lines: int, *lookups: dict[str, Any], way: str) -> tuple[list[str], Costs]:
    """What is `shown`, and what it costs a process of its own."""
    peaks: list[int] = []

    def run(**program: Any) -> None:
        with started(folder, **program) as process:
            outcome = ended(process)
        assert outcome.code == 0, outcome.errors
        peaks.extend(outcome.printed["peaks"])

    results = shown(folder, lines, *lookups, way=way, run=run)
    before, peak = peaks
    return results, Costs(lines * LINE, before, peak, *stored(folder))


def written(path: Path, lines: int) -> Path:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(line(number) + "\n" for number in range(1, lines + 1))
    return path


def line(number: int) -> str:
    return f"entry {number:07d}: berth {number % 97:02d}, the pier is quiet".ljust(LINE - 1, ".")


def recalling(wanted: dict[str, Any]) -> Any:
    """The model looks something up in the spilled result it was shown."""

    def reply(request: Request) -> Reply:
        [digest] = set(re.findall(r"spill:([0-9a-f]{32})", str(request.messages)))
        return Reply(calls=[Call("recall", {"ref": f"spill:{digest}", **wanted}, f"call_{len(request.messages)}")])

    return reply


def stored(folder: Path) -> tuple[int, int]:
    """Bytes of the newest checkpoint written out whole, and of everything that is stored."""
    file = Program("", str(folder)).files["thread_db"]
    columns = {"checkpoints": "checkpoint", "writes": "value", "lgm_items": "data"}
    with closing(sqlite3.connect(file)) as db:
        sizes = [db.execute(f"SELECT sum(length({column})) FROM {table}") for table, column in columns.items()]
        return asyncio.run(_newest(file)), sum(size.fetchone()[0] or 0 for size in sizes)


async def _newest(file: str) -> int:
    async with ThreadSaver.from_conn_string(file) as saver:
        [thread] = await ThreadStore(saver).threads()
        found = await saver.aget_tuple({"configurable": {"thread_id": thread.thread_id}})
        assert found is not None
        return len(saver.serde.dumps_typed(found.checkpoint)[1])
