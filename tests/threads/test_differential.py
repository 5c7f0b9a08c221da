"""Random programs on the plain saver and on ours: whatever is read, it is the same to the byte."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from langgraph_memory.threads.saver import ThreadSaver
from tests.support import savers
from tests.support.savers import ACTIONS, Tee, both, config, everything

pytestmark = pytest.mark.slow

PROGRAMS = int(os.environ.get("LANGGRAPH_MEMORY_EXAMPLES", "40"))

plans = st.lists(st.tuples(st.sampled_from([*sorted(ACTIONS), "ask", "ask"]), st.integers(0, 7)), max_size=3)
steps = st.one_of(
    st.tuples(st.just("send"), plans),
    st.tuples(st.just("send"), plans),
    st.tuples(st.just("resume"), st.integers(0, 9)),
    st.tuples(st.just("update"), st.integers(0, 9)),
    st.tuples(st.just("from"), st.integers(0, 30), plans),
    st.tuples(st.just("update_old"), st.integers(0, 30)),
    st.tuples(st.just("replay"), st.integers(0, 30)),
    st.tuples(st.just("reopen")),
)


@settings(max_examples=PROGRAMS, deadline=None)
@given(st.lists(steps, min_size=2, max_size=5))
@example([("send", [("ask", 0)]), ("send", [("remove_all", 0), ("remove", 0)])])
async def test_everything_read_is_the_same_to_the_byte(program: list[Any]) -> None:
    with TemporaryDirectory() as name:
        async with both(Path(name)) as tee:
            for step in program:
                await run(tee, step)
                await compare(tee)
            report = await tee.ours.verify()
            assert report.ok, report.problems


async def run(tee: Tee, step: Any) -> None:
    graph = everything(tee)
    match step:
        case ("send", plan):
            await attempt(graph.ainvoke(savers.given(plan), config()))
        case ("resume", number):
            await attempt(graph.ainvoke(savers.answer(f"yes {number}"), config()))
        case ("update", number):
            values = {"messages": [AIMessage(f"update {number}")], "delta": [HumanMessage("updated")]}
            await attempt(graph.aupdate_state(config(), values, as_node="act"))
        case ("from", position, plan):
            await attempt(graph.ainvoke(savers.given(plan), await old(tee, position)))
        case ("update_old", position):
            await attempt(graph.aupdate_state(await old(tee, position), {"messages": [AIMessage("edit")]}, "left"))
        case ("replay", position):
            await attempt(graph.ainvoke(None, await old(tee, position)))
        case ("reopen",):
            # What the saver remembers is gone, as in another process.
            tee.ours = ThreadSaver(tee.ours.conn)


async def attempt(work: Any) -> None:
    """A program may ask for what LangGraph refuses; what it did until then is compared all the same."""
    try:
        await work
    except AssertionError:
        raise
    except Exception as error:  # noqa: BLE001 - any refusal
        assert "BlockingError" not in repr(error)


async def old(tee: Tee, position: int) -> dict[str, Any]:
    found = [one.config async for one in tee.plain.alist(config())]
    return dict(found[position % len(found)]) if found else config()


async def compare(tee: Tee) -> None:
    """Every checkpoint of every namespace with its writes, and what graphs make of them."""
    everyone = [found async for found in tee.alist(None)]
    for found in everyone:
        await tee.aget_tuple(found.config)
        await tee.aget_delta_channel_history(config=found.config, channels=["delta"])
    plain, ours = [await shown(saver) for saver in (tee.plain, tee.ours)]
    assert plain == ours


async def shown(saver: AsyncSqliteSaver) -> Any:
    graph = everything(saver)
    return [await told(look) for look in (graph.aget_state(config(), subgraphs=True), history(graph))]


async def history(graph: Any) -> list[Any]:
    return [one async for one in graph.aget_state_history(config(), limit=10)]


async def told(look: Any) -> str:
    """What is seen, or why LangGraph refuses to look, as where pending writes cannot be applied."""
    try:
        return repr(await look)
    except Exception as error:  # noqa: BLE001 - any refusal
        assert "BlockingError" not in repr(error)
        return repr(error)
