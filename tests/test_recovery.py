"""A request that the provider refuses as too long is made once more, and the thread is as if nothing had happened."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph

from langgraph_memory import MemoryEvent, MemoryMiddleware, MemoryState
from tests.support.graphs import chat
from tests.support.server import FORMS, RATE_LIMITED, SUMS, ModelServer
from tests.support.validity import faults

pytestmark = pytest.mark.slow

THREAD: Any = {"configurable": {"thread_id": "t"}}
HISTORY = [*chat(20, chars=300), HumanMessage("book berth 9 for 04:30", id="go")]
CERTAIN = [form for form in FORMS if form not in ("empty stream", "silent")]


class Agent:
    """An agent over real HTTP, and what its memory announced."""

    def __init__(self, server: ModelServer, kind: str, *, streaming: bool = False, **memory: Any) -> None:
        self.events: list[MemoryEvent] = []
        model = ChatOpenAI(
            base_url=server.url, api_key="x", model="m", max_retries=0, max_tokens=200, streaming=streaming
        )
        self.memory = MemoryMiddleware({"memory": {"context_window": 100_000, **memory}}, on_event=self.events.append)
        if kind == "agent":
            self.graph: Any = create_agent(model, [], middleware=[self.memory], checkpointer=InMemorySaver())
        else:
            builder = StateGraph(MemoryState)
            builder.add_node("model", self.memory.model_node(model))
            self.memory.attach(builder)
            self.graph = builder.compile(checkpointer=InMemorySaver())

    async def send(self, messages: list[BaseMessage], mode: str) -> list[BaseMessage]:
        values = {"messages": messages}
        if mode == "sync":
            return (await asyncio.to_thread(self.graph.invoke, values, THREAD))["messages"]
        return (await self.graph.ainvoke(values, THREAD))["messages"]

    def named(self, name: str) -> list[MemoryEvent]:
        return [event for event in self.events if event.name == name]


def calls(server: ModelServer) -> list[list[dict[str, Any]]]:
    """The messages of the requests that are not for a summary."""
    sent = [request.body["messages"] for request in server.requests]
    return [messages for messages in sent if "previous_summary" not in str(messages)]


@pytest.mark.parametrize("kind", ["agent", "node"])
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("form", CERTAIN)
async def test_a_refused_request_is_made_once_more_and_nothing_is_lost_or_doubled(form, streaming, mode, kind):
    with ModelServer("booked", limit=2000, form=form) as server:
        agent = Agent(server, kind, streaming=streaming)
        messages = await agent.send(HISTORY, mode)
        assert [m.id for m in messages[:-1]] == [m.id for m in HISTORY]
        assert [m.content for m in messages[:-1]] == [m.content for m in HISTORY]
        assert messages[-1].content == "booked"
        assert len(calls(server)) == 2
        assert "book berth 9 for 04:30" in str(calls(server)[1][-1])
        assert len(agent.named("overflow_recovered")) == 1
        state = agent.graph.get_state(THREAD).values
        assert faults(agent.memory.view(state)) == []
        assert agent.memory.report(state).total < 2000


@pytest.mark.parametrize("kind", ["agent", "node"])
@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_a_second_refusal_is_raised(mode, kind):
    with ModelServer("never", limit=1, form="openai") as server:
        agent = Agent(server, kind)
        with pytest.raises(Exception, match="maximum context length"):
            await agent.send(HISTORY, mode)
        assert len(calls(server)) <= 2
        assert agent.named("overflow_recovered") == []


@pytest.mark.parametrize("kind", ["agent", "node"])
@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_with_compaction_switched_off_the_error_is_raised_as_it_is(mode, kind):
    with ModelServer("never", limit=2000, form="openai") as server:
        agent = Agent(server, kind, compaction={"enabled": False})
        with pytest.raises(Exception, match="maximum context length") as caught:
            await agent.send(HISTORY, mode)
        assert type(caught.value).__module__.startswith(("openai", "langchain_openai"))
        assert len(server.requests) == 1


@pytest.mark.parametrize("kind", ["agent", "node"])
async def test_another_failure_is_not_taken_for_an_overflow(kind):
    with ModelServer(RATE_LIMITED) as server:
        agent = Agent(server, kind)
        with pytest.raises(Exception, match="429"):
            await agent.send(HISTORY, "async")
        assert len(server.requests) == 1


@pytest.mark.parametrize("kind", ["agent", "node"])
@pytest.mark.parametrize("form", sorted(SUMS))
async def test_where_only_the_answer_is_too_long_less_of_it_is_asked_for(form, kind):
    short = [HumanMessage("one word please", id="h")]
    with ModelServer("yes", limit=300 if kind == "agent" else 150, form=form) as server:
        agent = Agent(server, kind)
        messages = await agent.send(short, "async")
        assert messages[-1].content == "yes"
        first, second = (request.body for request in server.requests)
        assert first["messages"] == second["messages"]
        limits = [body.get("max_tokens") or body.get("max_completion_tokens") for body in (first, second)]
        assert limits[0] == 200
        assert limits[1] < 140


async def test_a_window_that_the_provider_named_is_remembered():
    with ModelServer("fine", limit=2000, form="openai") as server:
        agent = Agent(server, "agent")
        await agent.send(HISTORY, "async")
        for turn in range(12):
            await agent.send([HumanMessage(f"and {turn}? " + "word " * 60, id=f"more-{turn}")], "async")
        assert len(agent.named("overflow_recovered")) == 1
        assert isinstance((await agent.graph.aget_state(THREAD)).values["messages"][-1], AIMessage)
