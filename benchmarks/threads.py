"""What a turn costs a checkpointer: `python -m benchmarks.threads [TURNS]`.

Every saver stores the same talk, 500 characters from a person and 1,500 from the model a turn. The turns of all savers
are taken in turns, so that whatever else the machine does slows them alike; the last column compares the medians of the
last 30 with the plain saver's. With more than a few hundred turns the plain saver needs gigabytes.
"""

import asyncio
import random
import statistics
import string
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from typing_extensions import TypedDict

from langgraph_memory import ThreadSaver
from tests.support.savers import reduced

CONFIG: Any = {"configurable": {"thread_id": "t-1"}}
LAST = 30


class DeltaState(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(reduced, snapshot_frequency=50)]


def text(length: int) -> str:
    return "".join(random.choices(string.ascii_letters + " ", k=length))


async def reply(state: Any) -> Any:
    return {"messages": [AIMessage(text(1500))]}


def graph(schema: Any, saver: Any) -> Any:
    builder = StateGraph(schema)
    builder.add_node("model", reply)
    builder.add_edge(START, "model")
    return builder.compile(checkpointer=saver)


async def measure(folder: Path, turns: int) -> dict[str, tuple[float, float]]:
    """Bytes of the file, and seconds of each of the last turns, by saver."""
    async with AsyncExitStack() as stack:

        async def opened(kind: Any, name: str) -> Any:
            return await stack.enter_async_context(kind.from_conn_string(str(folder / name)))

        graphs = {
            "AsyncSqliteSaver": graph(MessagesState, await opened(AsyncSqliteSaver, "AsyncSqliteSaver")),
            "AsyncSqliteSaver, delta": graph(DeltaState, await opened(AsyncSqliteSaver, "AsyncSqliteSaver, delta")),
            "InMemorySaver": graph(MessagesState, InMemorySaver()),
            "ThreadSaver": graph(MessagesState, await opened(ThreadSaver, "ThreadSaver")),
            "ThreadSaver, delta": graph(DeltaState, await opened(ThreadSaver, "ThreadSaver, delta")),
        }
        seconds: dict[str, list[float]] = {name: [] for name in graphs}
        for _ in range(turns):
            given = {"messages": [HumanMessage(text(500))]}
            for name, each in graphs.items():
                start = time.perf_counter()
                await each.ainvoke(given, CONFIG)
                seconds[name].append(time.perf_counter() - start)
    return {name: (size(folder / name), statistics.median(seconds[name][-LAST:])) for name in graphs}


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with TemporaryDirectory() as folder:
        found = asyncio.run(measure(Path(folder), turns))
    plain = found["AsyncSqliteSaver"][1]
    lines = [f"{f'{turns} turns':26} {'MB':>10} {'ms a turn':>10} {'of plain':>10}"]
    for name, (total, seconds) in found.items():
        lines.append(f"{name:26} {total / 1e6:10.2f} {seconds * 1e3:10.1f} {seconds / plain:10.2f}")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
