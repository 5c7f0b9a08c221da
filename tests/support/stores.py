"""Threads in every kind of saver, made by real graphs that keep their messages in either kind of channel."""

from __future__ import annotations

import operator
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import _messages_delta_reducer, add_messages
from langgraph.types import interrupt
from typing_extensions import TypedDict

from langgraph_memory.context.record import merge_records
from langgraph_memory.threads import ThreadSaver

SAVERS = ("ours", "plain", "memory")
IN_MEMORY = Path(":memory:")
CHANNELS = ("add", "delta")


@asynccontextmanager
async def opened(kind: str, folder: Path = Path()) -> AsyncIterator[Any]:
    if kind == "memory":
        yield InMemorySaver()
    elif kind == "plain":
        async with AsyncSqliteSaver.from_conn_string(str(folder / "plain.db")) as plain:
            yield plain
    else:
        async with ThreadSaver.from_conn_string(":memory:" if folder == IN_MEMORY else folder / "ours.db") as ours:
            yield ours


class Added(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    memory_record: Annotated[dict[str, Any], merge_records]
    notes: Annotated[list[str], operator.add]
    update: Any


class Delta(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer, snapshot_frequency=3)]
    memory_record: Annotated[dict[str, Any], merge_records]
    notes: Annotated[list[str], operator.add]
    update: Any


class InnerAdded(Added, total=False):
    calls: Annotated[int, operator.add]


class InnerDelta(Delta, total=False):
    calls: Annotated[int, operator.add]


STATES: dict[str, Any] = {"add": Added, "delta": Delta}
INNER: dict[str, Any] = {"add": InnerAdded, "delta": InnerDelta}


def thread(name: Any = "t") -> Any:
    return {"configurable": {"thread_id": name}}


def chat(channel: str, saver: Any) -> Any:
    """Answers what it is told; does what `update` says; asks before it answers something that ends in "?"."""
    builder = StateGraph(STATES[channel])
    builder.add_node("model", answer)
    builder.add_edge(START, "model")
    builder.add_edge("model", END)
    return builder.compile(checkpointer=saver)


async def answer(state: Any) -> Any:
    if update := state.get("update"):
        return {**update, "update": None}
    said = state["messages"][-1].text
    if said.endswith("?"):
        said = interrupt(f"really {said}")
    return {"messages": [AIMessage(f"answer {said}", id=f"a {said} {len(state['messages'])}")], "notes": [said]}


async def tell(graph: Any, *texts: str, name: Any = "t") -> None:
    for text in texts:
        await graph.ainvoke({"messages": [HumanMessage(text, id=f"q {text}")]}, thread(name))


async def texts(graph: Any, name: Any = "t") -> list[str]:
    """What the graph itself finds in the thread."""
    return [message.text for message in (await graph.aget_state(thread(name))).values.get("messages", [])]


def remembering(channel: str, saver: Any) -> Any:
    """A graph with one inside that remembers how often it was called, and asks when it is told to."""
    inner = StateGraph(INNER[channel])
    inner.add_node("count", count)
    inner.add_edge(START, "count")
    builder = StateGraph(STATES[channel])
    builder.add_node("sub", inner.compile(checkpointer=True))
    builder.add_node("end", lambda state: {})
    builder.add_edge(START, "sub")
    builder.add_edge("sub", "end")
    return builder.compile(checkpointer=saver)


async def count(state: Any) -> Any:
    said = state["messages"][-1].text
    if said.endswith("?"):
        said = interrupt(f"really {said}")
    past = state.get("calls") or 0
    return {"messages": [AIMessage(f"{said} after {past}", id=f"c {said} {past}")], "calls": 1}
