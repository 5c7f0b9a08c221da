"""Agents with memory as parts of other graphs: as a node, called in a node or by a tool, and many at once."""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated, Any, NotRequired

import pytest
from langchain.agents import AgentState, create_agent
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt
from typing_extensions import TypedDict

from langgraph_memory import MemoryEvent, MemoryMiddleware, MemoryState
from langgraph_memory.context.record import merge_records
from tests.neighbours.agents import (
    LONG,
    NOT_AHEAD,
    REQUEST,
    WINDOW,
    Provider,
    assert_single,
    assert_sound,
    say,
    streamed,
)
from tests.support.graphs import MODES, Talk, agent_graph, chat, configured, grab, looping, text_of, thread
from tests.support.models import numbered_summaries
from tests.support.validity import faults

pytestmark = pytest.mark.slow


class SharedState(AgentState[Any]):
    """The state of an agent that hands its record to the graph around it."""

    memory_record: NotRequired[Annotated[dict[str, Any], merge_records]]


KEEPS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a thread of its own": {"checkpointer": True},
    "its record in the parent": {"state_schema": SharedState},
}


class Family:
    """A parent graph with memory around an agent with memory, which work on the same messages."""

    def __init__(self, *, mode: str, one: bool = True, window: int = WINDOW, saver: Any = None, **child: Any) -> None:
        self.side, self.events = numbered_summaries(), list[MemoryEvent]()
        self.parent_model = Provider(model_name="parent", window=window, replies="the parent says so")
        self.child_model = Provider(model_name="child", window=8000, replies=looping(3))
        memory, other = self._memory(), self._memory()
        inner = memory if one else other
        agent = create_agent(self.child_model, [grab(1500)], middleware=[inner], **child)
        builder = StateGraph(MemoryState, input_schema=MessagesState, output_schema=MessagesState)
        builder.add_node("worker", agent)
        builder.add_node("memory", memory)
        builder.add_node("model", memory.model_node(self.parent_model))
        for edge in ((START, "worker"), ("worker", "memory"), ("memory", "model"), ("model", END)):
            builder.add_edge(*edge)
        graph = builder.compile(checkpointer=saver or InMemorySaver())
        self.talk = Talk(memory, graph, self.parent_model, self.side, self.events, thread(), mode)

    def _memory(self) -> MemoryMiddleware:
        return MemoryMiddleware(configured(NOT_AHEAD), model=self.side, on_event=self.events.append)

    async def turns(self, number: int) -> list[BaseMessage]:
        for turn in range(number):
            await say(self.talk, *(LONG if turn == 0 else ()), f"{turn}: {REQUEST}")
        return await self.talk.history()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("keeps", KEEPS)
@pytest.mark.parametrize("one", [True, False])
async def test_an_agent_in_a_node_and_the_graph_around_it_each_get_a_sound_view(one, keeps, mode):
    family = Family(one=one, mode=mode, **KEEPS[keeps])
    history = await family.turns(5)
    assert_sound(family.child_model, REQUEST)
    assert_sound(family.parent_model, REQUEST)
    assert_single(history)
    assert len(history) == len(LONG) + 5 * 9
    assert family.talk.named("record_ignored") == []
    scopes = set((await family.talk.state())["memory_record"]["ns"])
    assert scopes == ({"", "worker"} if "parent" in keeps else {""})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("keeps", KEEPS)
async def test_a_summary_of_an_agent_in_a_node_is_bought_once_as_long_as_the_memory_object_lives(keeps, mode):
    """An agent's record is private to one run of its node; what it bought is found again by its prefix."""
    family = Family(mode=mode, **KEEPS[keeps])
    await family.turns(6)
    assert len(family.side.requests) <= 6
    assert len({request.text for request in family.side.requests}) == len(family.side.requests)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("keeps", KEEPS)
async def test_in_a_new_process_an_agent_that_keeps_its_record_buys_nothing_and_the_others_begin_anew(keeps, mode):
    saver = InMemorySaver()
    await Family(mode=mode, window=60_000, saver=saver, **KEEPS[keeps]).turns(4)
    later = Family(mode=mode, window=60_000, saver=saver, **KEEPS[keeps])
    await say(later.talk, f"later: {REQUEST}")
    assert_sound(later.child_model, f"later: {REQUEST}")
    assert_single(await later.talk.history())
    assert bool(later.side.requests) == (keeps == "nothing")


@pytest.mark.parametrize("mode", MODES)
async def test_a_stream_of_parent_and_child_shows_answers_once_and_the_events_of_both(mode):
    family = Family(mode=mode)
    given = [*LONG, *chat(4, chars=1200, start=50), HumanMessage(REQUEST)]
    parts = await streamed(family.talk, given, stream_mode=["messages", "custom"], subgraphs=True)
    shown = [chunk for _, name, (chunk, *_) in ((n, k, p) for n, k, p in parts if k == "messages")]
    assert "SUMMARY-" not in text_of(shown)
    assert [m.text for m in shown if m.type.startswith("AI") or m.type == "ai"].count("the parent says so") == 1
    namespaces = {len(namespace) for namespace, name, part in parts if name == "custom"}
    assert namespaces == {0, 1}


@pytest.mark.parametrize("mode", MODES)
async def test_an_interrupt_in_a_child_is_answered_through_the_parent_and_the_view_goes_on(mode):
    @tool("grab")
    def asking(n: int) -> str:
        """Fetch rows."""
        return f"{interrupt('which pier?')} " + "row " * 400

    side, model = numbered_summaries(), Provider(replies=looping(3))
    memory = MemoryMiddleware(configured(NOT_AHEAD), model=side)
    builder = StateGraph(MessagesState)
    builder.add_node("worker", create_agent(model, [asking], middleware=[memory]))
    builder.add_edge(START, "worker")
    builder.add_edge("worker", END)
    talk = Talk(memory, builder.compile(checkpointer=InMemorySaver()), model, side, [], thread(), mode)
    await say(talk, *LONG, REQUEST)
    for pier in ("pier 1", "pier 2", "pier 3"):
        await say(talk, Command(resume=pier))
    history = await talk.history()
    assert [m.text[:6] for m in history if m.type == "tool"] == ["pier 1", "pier 2", "pier 3"]
    assert history[-1].text == "done"
    assert_sound(model, REQUEST)
    assert_single(history)
    prompts = [request.text for request in side.requests]
    assert len(set(prompts)) == len(prompts)


@pytest.mark.parametrize("mode", MODES)
async def test_agents_called_by_tools_of_one_message_keep_to_themselves(mode):
    """Several workers run at once in the tools node of their boss, all with the boss's own memory object."""
    side, worker_model = numbered_summaries(), Provider(replies=lambda m: f"report on {mark_of(m)}")
    memory = MemoryMiddleware(configured(NOT_AHEAD), model=side)
    worker = create_agent(worker_model, [], middleware=[memory])

    @tool
    def delegate(n: int) -> str:
        """Ask a worker."""
        return str(worker.invoke({"messages": task(n)})["messages"][-1].text)

    boss = Provider(
        replies=lambda m: AIMessage("done") if "report on" in text_of(m) else AIMessage("", tool_calls=asked(4))
    )
    graph = agent_graph(memory, boss, tools=[delegate])
    talk = Talk(memory, graph, boss, side, [], thread(), mode)
    await say(talk, *LONG, REQUEST)
    reports = [m.text for m in await talk.history() if m.type == "tool"]
    assert reports == [f"report on job-{n}" for n in range(4)]
    assert_sound(boss, REQUEST)
    assert_sound(worker_model)
    assert_apart(worker_model, side)


# Many at once


class Fan(TypedDict):
    jobs: list[int]
    reports: Annotated[list[str], operator.add]


class Job(TypedDict):
    messages: list[AnyMessage]


JOB_WORDS = ("alpha ", "bravo ", "carol ", "delta ", "echo ", "foxtrot ")


def task(number: int) -> list[AnyMessage]:
    """A long conversation about one job, with words that stand in no other; every job uses the same ids."""
    return [*chat(12, chars=1600, text=JOB_WORDS[number]), HumanMessage(f"job-{number}: report", id="go")]


def asked(number: int) -> Any:
    return [{"name": "delegate", "args": {"n": n}, "id": f"d{n}"} for n in range(number)]


def mark_of(messages: list[BaseMessage]) -> str:
    return text_of(messages[-1:]).split("job-")[1].join(["job-", ""])[:5]


def assert_apart(model: Provider, side: Any) -> None:
    """No request, and no request for a summary, has the words of more than one job."""
    for request in [*model.requests, *(r for r in side.requests if "job-" in r.text)]:
        assert sum(word in request.text for word in JOB_WORDS) <= 1


def fan_out(memory: MemoryMiddleware, worker: Any) -> Any:
    """A graph that sends each job to a worker of its own."""

    def report(output: dict[str, Any]) -> dict[str, Any]:
        return {"reports": [output["messages"][-1].text]}

    def work(job: Job) -> dict[str, Any]:
        return report(worker.invoke(job))

    async def awork(job: Job) -> dict[str, Any]:
        return report(await worker.ainvoke(job))

    builder = StateGraph(Fan)
    builder.add_node("work", RunnableLambda(work, afunc=awork))
    builder.add_conditional_edges(
        START, lambda state: [Send("work", {"messages": task(n)}) for n in state["jobs"]], ["work"]
    )
    builder.add_edge("work", END)
    return builder.compile(checkpointer=InMemorySaver())


def plain_worker(memory: MemoryMiddleware, model: Provider) -> Any:
    builder = StateGraph(MemoryState)
    builder.add_node("model", memory.model_node(model))
    memory.attach(builder)
    return builder.compile()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["agent", "node"])
async def test_workers_that_run_at_once_with_one_memory_never_see_each_others_messages(kind, mode):
    side, model = numbered_summaries(), Provider(replies=lambda m: f"report on {mark_of(m)}")
    memory = MemoryMiddleware(configured(NOT_AHEAD), model=side)
    worker = create_agent(model, [], middleware=[memory]) if kind == "agent" else plain_worker(memory, model)
    graph = fan_out(memory, worker)
    for _ in range(2):
        given, config = {"jobs": list(range(6)), "reports": []}, thread()
        output = await (
            asyncio.to_thread(graph.invoke, given, config) if mode == "sync" else graph.ainvoke(given, config)
        )
    assert sorted(output["reports"][-6:]) == [f"report on job-{n}" for n in range(6)]
    assert len(model.requests) == 12
    assert_sound(model)
    assert all(f"{mark_of(request.messages)}: report" in request.text for request in model.requests)
    assert_apart(model, side)
    assert len({request.text for request in side.requests}) == len(side.requests)


@pytest.mark.parametrize("mode", MODES)
async def test_workers_whose_state_is_that_of_the_graph_around_them_leave_it_a_record_it_can_read(mode):
    """Six workers as nodes write the scope of one namespace at once; one of them stays, and misleads nobody."""
    side, model = numbered_summaries(), Provider(replies=lambda m: f"report on {mark_of(m)}")
    memory = MemoryMiddleware(configured(NOT_AHEAD), model=side)
    boss = Provider(replies="all reported")
    builder = StateGraph(MemoryState, input_schema=MessagesState, output_schema=MessagesState)
    builder.add_node("worker", plain_worker(memory, model))
    builder.add_node("memory", memory)
    builder.add_node("model", memory.model_node(boss))
    builder.add_conditional_edges(
        START, lambda _: [Send("worker", {"messages": task(n)}) for n in range(6)], ["worker"]
    )
    for edge in (("worker", "memory"), ("memory", "model"), ("model", END)):
        builder.add_edge(*edge)
    talk = Talk(memory, builder.compile(checkpointer=InMemorySaver()), boss, side, [], thread(), mode)
    await say(talk, REQUEST)
    await say(talk, "and again")
    assert_sound(model)
    assert_sound(boss)
    assert_apart(model, side)
    assert faults(await talk.view()) == []
    assert set((await talk.state())["memory_record"]["ns"]) <= {"", "worker"}


@pytest.mark.parametrize("mode", MODES)
async def test_nodes_beside_the_agent_that_add_messages_meanwhile_are_in_the_next_view(mode):
    side, model = numbered_summaries(), Provider()
    memory = MemoryMiddleware(configured(NOT_AHEAD), model=side)
    builder = StateGraph(MessagesState)
    builder.add_node("worker", create_agent(model, [], middleware=[memory]))
    for n in range(3):
        note = HumanMessage(f"news-{n} from the pier", id=f"news-{n}")
        builder.add_node(f"side{n}", lambda _, note=note: {"messages": [note.model_copy()]})
        builder.add_edge(START, f"side{n}")
    builder.add_edge(START, "worker")
    talk = Talk(memory, builder.compile(checkpointer=InMemorySaver()), model, side, [], thread(), mode)
    await say(talk, *LONG, REQUEST)
    await say(talk, "what is new?")
    for n in range(3):
        assert f"news-{n}" in text_of(model.last)
    assert_sound(model)
    assert_single(await talk.history())
