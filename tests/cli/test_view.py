"""`lgm view` and `lgm diff` against what a model really was sent."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, SystemMessage

from langgraph_memory import MemoryMiddleware, Workspace
from langgraph_memory.context.text import message_text
from tests.support.graphs import GRAPHS, agent_graph, configured, grab, looping, node_graph
from tests.support.models import Scripted, summariser

from .recorded import lgm, lgm_json, talk, user, write

SETTINGS = {
    "context_window": 6000,
    "retrieval.auto_recall": True,
    "pruning.protect_recent": 1,
    "pruning.min_reclaim_tokens": 0,
    "flush.trigger": "never",
    "consolidation.enabled": False,
}
SYSTEM = "You look after a pier. " * 5


def run(kind: str, turns: int = 5) -> Scripted:
    """Some turns of a graph on the files of the command line; its model."""
    model = Scripted(replies=looping(3, done="done"))

    async def main() -> None:
        await Workspace("memory", ("ada",)).append(["The pier of the harbour is closed on Mondays."])
        async with MemoryMiddleware.open(configured(SETTINGS), model=summariser()) as memory:
            build = node_graph if kind == "node" else agent_graph
            graph = build(memory, model, tools=[grab(4000)], system=SYSTEM, saver=memory.saver)
            for turn in range(turns):
                given = {"messages": [("user", f"turn {turn}: what about the pier of the harbour?")]}
                await graph.ainvoke(given, {"configurable": {"thread_id": "t", "user_id": "ada"}})

    Path("memory/ada").mkdir(parents=True)
    Path("memory/ada/MEMORY.md").write_text("- likes tea\n", encoding="utf-8")
    asyncio.run(main())
    return model


def shape(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    return [
        {
            "role": message.type,
            "text": message_text(message),
            "calls": [(call["id"], call["args"]) for call in getattr(message, "tool_calls", ())],
            "answers": getattr(message, "tool_call_id", None),
        }
        for message in messages
        if not isinstance(message, SystemMessage)
    ]


def shown(view: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "role": row["role"],
            "text": row["text"],
            "calls": [(call["id"], call["args"]) for call in row.get("tool_calls", ())],
            "answers": row.get("tool_call_id"),
        }
        for row in view["messages"]
    ]


def calls_of_the_model(kind: str) -> list[str]:
    """The checkpoints behind which the model was called, or of a create_agent those that hold its answer."""
    nodes = lgm_json("tree", "t")
    if kind == "node":
        return [node["checkpoint_id"] for node in nodes if node["next"] == ["model"]]
    return [after["checkpoint_id"] for before, after in pairwise(nodes) if before["next"] == ["model"]]


@pytest.mark.parametrize("kind", GRAPHS)
def test_a_view_is_what_the_model_was_sent_at_that_checkpoint(kind):
    model = run(kind)
    places = calls_of_the_model(kind)
    assert len(places) == len(model.requests) == 20
    kinds = set()
    for number in (0, 4, 9, 14, 19):
        view = lgm_json("view", "t", "--at", places[number])
        rows = shown(view)
        if kind == "agent":
            # The record comes with the answer, so that stands in this view already.
            rows = rows[: max(i for i, row in enumerate(rows) if row["role"] == "ai")]
        assert rows == shape(model.requests[number].messages)
        assert all(row["why"] for row in view["messages"])
        kinds |= {piece["kind"] for row in view["messages"] for piece in row.get("pieces", ())}
        kinds |= {row["from"] for row in view["messages"]}
    assert kinds >= {"curated", "recalled", "summary", "request", "trimmed", "as it is"}
    prompt, tools = view["beside"]
    assert (prompt["kind"], tools["kind"]) == ("system prompt", "tools") and prompt["tokens"] > 20
    assert view["messages"][0]["pieces"][1]["why"].startswith("summary of messages 1–")
    assert ", bought from scripted on 2" in view["messages"][0]["why"]


def test_a_diff_of_two_checkpoints_says_where_the_prompt_cache_breaks():
    model = run("node")
    places = calls_of_the_model("node")
    found = lgm_json("diff", f"t@{places[0]}", f"t@{places[-1]}")
    first, last = (shape(request.messages) for request in (model.requests[0], model.requests[-1]))
    assert found["first_changed"] == 1 and first[0] != last[0]
    assert {change["what"] for change in found["changes"]} == {"new", "gone"}
    for before, after in pairwise(places):
        one, other = (model.requests[places.index(place)].messages for place in (before, after))
        stable = next((i for i, (a, b) in enumerate(zip(shape(one), shape(other), strict=False)) if a != b), None)
        assert lgm_json("diff", f"t@{before}", f"t@{after}")["first_changed"] == (
            None if stable is None else stable + 1
        )
        if stable is not None:
            break
    else:
        pytest.fail("no two requests in a row differ")


def test_a_diff_is_drawn_for_people():
    lgm("replay", write("a.jsonl", [("one", [user("first"), {"role": "assistant", "content": "ok"}])]))
    lgm("fork", "a/one", "b@home")
    result = lgm("diff", "a/one", "b@home")
    assert result.exit_code == 0 and "The same view." in result.stdout
    assert lgm_json("diff", "a/one", "b@home")["same"]
    talk("other", thread="u")
    drawn = lgm("diff", "a/one", "u", COLUMNS="40").stdout
    assert "+ 1. human · message 1 · as it is" in drawn and "- 1. human · message 1 · as it is → not sent" in drawn
    assert "breaks at message 1" in drawn and "total" in drawn


def test_a_diff_of_a_thread_that_is_not_there_names_it():
    talk("one")
    for name in ("nope", "nope@x", "@x"):
        assert "There is no thread" in str(lgm("diff", "t", name).exception)
    assert "checkpoint" in str(lgm("diff", "t", "t@nope").exception)
