"""`attach` takes a graph that is ready for it, and leaves any other as it was, with what to change."""

from typing import Any, Literal

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from langgraph_memory import LangGraphMemoryError, MemoryMiddleware, MemoryState
from tests.support.models import Scripted

GO = {"messages": [("user", "go")]}


@tool
def depth(pier: str) -> str:
    """How deep the water is at a pier."""
    return f"{pier}: 9 m"


def ready(model: Scripted | None = None, *, tools: Any = (depth,), node: str = "tools") -> tuple[MemoryMiddleware, Any]:
    memory, builder = MemoryMiddleware(), StateGraph(MemoryState)
    builder.add_node("model", memory.model_node(model or Scripted(), tools=list(tools)))
    if node:
        builder.add_node(node, ToolNode([depth]))
    return memory, builder


def parts(builder: Any) -> tuple[Any, ...]:
    branches = {(start, name) for start, named in builder.branches.items() for name in named}
    return set(builder.nodes), set(builder.edges), branches


def refused(memory: MemoryMiddleware, builder: Any, **names: Any) -> str:
    """What is said where nothing can be attached; nothing has been added."""
    before = parts(builder)
    with pytest.raises(LangGraphMemoryError) as refusal:
        memory.attach(builder, **names)
    assert parts(builder) == before
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


def test_edges_that_go_past_the_memory_are_named_and_nothing_is_added():
    memory, builder = ready()
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    said = refused(memory, builder)
    assert "START → 'model', 'tools' → 'model', 'model' → tools_condition(…). Remove them" in said


def to_model(state: Any) -> Literal["model"]:
    return "model"


def anywhere(state: Any) -> Any:
    return "model"


@pytest.mark.parametrize(
    ("start", "end", "named"),
    [
        (START, "model", "START → 'model'"),
        ("tools", "model", "'tools' → 'model'"),
        ("model", "tools", "'model' → 'tools'"),
        (START, to_model, "START → to_model(…)"),
        (START, anywhere, "START → anywhere(…)"),
        ("tools", to_model, "'tools' → to_model(…)"),
        ("model", tools_condition, "'model' → tools_condition(…)"),
    ],
)
def test_each_edge_that_would_call_the_model_twice_is_refused_by_itself(start, end, named):
    memory, builder = ready()
    if callable(end):
        builder.add_conditional_edges(start, end)
    else:
        builder.add_edge(start, end)
    assert f"the memory: {named}. Remove" in refused(memory, builder)


def test_edges_of_other_nodes_stay_and_the_model_is_called_once_a_turn():
    def to_side(state: Any) -> Literal["side"]:
        return "side"

    model = Scripted(replies="fine")
    memory, builder = ready(model, tools=(), node="")
    for name in ("front", "side", "behind"):
        builder.add_node(name, lambda state: {})
    builder.add_edge(START, "front")
    builder.add_edge("front", "model")
    builder.add_conditional_edges(START, to_side)
    builder.add_edge("model", "behind")
    builder.add_edge("model", END)
    memory.attach(builder)
    reply = builder.compile().invoke(GO)["messages"][-1]
    assert (reply.text, len(model.requests)) == ("fine", 1)


def test_a_graph_in_which_the_model_has_no_tools_needs_no_tools_node():
    memory, builder = ready(tools=(), node="")
    memory.attach(builder, model="model", tools="tools")
    assert "memory" in builder.nodes


def test_a_tools_node_that_was_named_has_to_be_there():
    said = refused(*ready(tools=(), node=""), tools="hands")
    assert "no node 'hands' yet, only ['model']" in said and "tools=None" in said


def test_tools_that_no_node_runs_are_refused_with_how_to_name_the_node():
    said = refused(*ready(node="hands"))
    assert "'model' has tools" in said and "no node 'tools'" in said and "'hands'" in said and "tools=…" in said
    model = Scripted(replies=[AIMessage("", tool_calls=[{"name": "depth", "args": {"pier": "B"}, "id": "c"}]), "9 m"])
    memory, builder = ready(model, node="hands")
    memory.attach(builder, tools="hands")
    assert [message.type for message in builder.compile().invoke(GO)["messages"]] == ["human", "ai", "tool", "ai"]


def test_tools_that_nobody_has_to_run_are_attached_without_a_node():
    memory, builder = ready(node="")
    memory.attach(builder, tools=None)
    memory, builder = ready(tools=[{"type": "web_search"}], node="")
    memory.attach(builder)
    assert "memory" in builder.nodes


def test_attaching_twice_is_refused():
    memory, builder = ready()
    memory.attach(builder)
    assert "a node 'memory' already" in refused(memory, builder)


def test_a_node_that_is_only_called_as_one_that_is_not_added_is_no_matter():
    memory, builder = ready(tools=(), node="")
    builder.add_node("flush", lambda state: {})
    memory.attach(builder)
    assert "memory" in builder.nodes


def test_a_compiled_graph_takes_the_memory_as_middleware():
    with pytest.raises(LangGraphMemoryError, match=r"a CompiledStateGraph; allowed: a StateGraph"):
        MemoryMiddleware().attach(create_agent(Scripted(), []))  # type: ignore[arg-type]
