"""Which nodes run next, told without the graph, is what the graph says: also of joins, deferred nodes and old files."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import Checkpoint, uuid6
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from langgraph_memory.errors import ThreadBusyError
from langgraph_memory.threads import ThreadSaver, ThreadStore
from tests.support.stores import SAVERS, opened, thread


class Notes(MessagesState):
    notes: Annotated[list[str], operator.add]


def joining(saver: Any, *, deferred: bool, together: bool, name: str = "search") -> Any:
    """START → two branches, one of them longer → j, which asks."""
    builder = StateGraph(Notes)
    for each in (name, "b", "b2"):
        builder.add_node(each, lambda _, each=each: {"notes": [each]})  # type: ignore[misc]
    builder.add_node("j", lambda _: {"notes": [interrupt("ok?")]}, defer=deferred)
    builder.add_edge(START, name)
    builder.add_edge(START, "b")
    builder.add_edge("b", "b2")
    if together:
        builder.add_edge([name, "b2"], "j")
    else:
        builder.add_edge(name, "j")
        builder.add_edge("b2", "j")
    builder.add_edge("j", END)
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize("kind", SAVERS)
@pytest.mark.parametrize("name", ["search", "search+facts", "+"])
@pytest.mark.parametrize(("deferred", "together"), [(True, True), (True, False), (False, True)])
async def test_it_is_what_the_graph_says_at_every_checkpoint(
    kind: str, name: str, deferred: bool, together: bool, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = joining(saver, deferred=deferred, together=together, name=name), ThreadStore(saver)
        await graph.ainvoke({"messages": [("user", "hi")]}, thread("t"))

        async def both() -> None:
            said = [sorted(state.next) async for state in graph.aget_state_history(thread("t"))]
            assert [sorted(node.next) for node in await store.checkpoints("t")] == said[::-1]
            assert [sorted(row.next) for row in await store.threads()] == said[:1]

        await both()
        assert (await graph.aget_state(thread("t"))).next == ("j",)
        with pytest.raises(ThreadBusyError):
            await store.append("t", {"messages": [("user", "more")]})
        await graph.ainvoke(Command(resume="yes"), thread("t"))
        await both()


# As LangGraph 0.2 wrote it, which the graph migrates when it reads it


def old(channels: dict[str, Any], seen: dict[str, Any]) -> Checkpoint:
    first, third = f"{1:032}.0.5", f"{3:032}.0.5"
    made: Any = {
        "v": 1,
        "id": str(uuid6()),
        "ts": "2024-10-01T00:00:00+00:00",
        "channel_values": {"messages": [HumanMessage("hi", id="h"), AIMessage("agent", id="a")], **channels},
        "channel_versions": {"__start__": first, "messages": third, **dict.fromkeys(channels, third)},
        "versions_seen": {"__input__": {}, "__start__": {"__start__": first}, **seen},
        "pending_sends": [],
    }
    return made  # type: ignore[no-any-return]


OLD = {
    "tools": old({"branch:agent:condition:tools": "agent"}, {"agent": {"start:agent": f"{2:032}.0.5"}}),
    "agent": old({"start:agent": "__start__"}, {}),
    "": old({"start:agent": "__start__"}, {"agent": {"start:agent": f"{3:032}.0.5"}}),
}


@pytest.mark.parametrize("waits", OLD)
async def test_a_thread_that_an_older_release_left_waiting_waits(waits: str, tmp_path: Path) -> None:
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    builder = StateGraph(MessagesState)
    for each in ("agent", "tools"):
        builder.add_node(each, lambda _: {})
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", lambda _: "tools", ["tools", END])
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "old.db")) as plain:
        await plain.aput(config, OLD[waits], {"source": "loop", "step": 1, "parents": {}}, {})
    async with ThreadSaver.from_conn_string(tmp_path / "old.db") as saver:
        [row] = await ThreadStore(saver).threads()
        assert row.next == (await builder.compile(checkpointer=saver).aget_state(config)).next
        assert row.next == ((waits,) if waits else ())
