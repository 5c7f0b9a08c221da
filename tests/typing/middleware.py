"""Types of the middleware as users see them; mypy checks this file, nothing runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, assert_type

from langchain.agents import create_agent
from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from langgraph_memory import (
    ConfigError,
    ContextBudgetError,
    ContextReport,
    LangGraphMemoryError,
    MemoryEvent,
    MemoryMiddleware,
    MemoryState,
    RuntimeConfig,
)
from langgraph_memory.events import EventName
from langgraph_memory.nodes import ModelNode
from langgraph_memory.tracing import OpenTelemetryEvents


async def opened(model: BaseChatModel) -> None:
    async with MemoryMiddleware.open("runtime.json", model=model) as memory:
        assert_type(memory, MemoryMiddleware)
        assert_type(memory.tools, Sequence[BaseTool])
        assert_type(memory.saver, BaseCheckpointSaver[Any] | None)
        await memory.adrain()
    with MemoryMiddleware.open() as memory:
        assert_type(memory, MemoryMiddleware)
        memory.drain(1.0)


async def built(model: BaseChatModel, config: RunnableConfig, tools: list[BaseTool]) -> None:
    memory = MemoryMiddleware(model="openai:gpt-4.1", on_event=told, workspace="memory")
    assert_type(memory.config, RuntimeConfig)
    node = memory.model_node(model, tools=tools, system_prompt="You are a clerk.")
    assert_type(node, ModelNode)
    builder = StateGraph(MemoryState, input_schema=MessagesState, output_schema=MessagesState)
    builder.add_node("model", node)
    builder.add_node("tools", ToolNode(tools, awrap_tool_call=memory.awrap_tool_call))
    memory.attach(builder, model="model", tools="tools")
    graph = builder.compile(checkpointer=memory.saver)
    create_agent(model, tools, middleware=[memory], checkpointer=memory.saver)

    state: MemoryState = {"messages": []}
    assert_type(state["messages"], list[AnyMessage])
    assert_type(await memory(state, config), dict[str, Any])
    assert_type(memory.invoke(state), dict[str, Any])
    assert_type(await memory.ainvoke(state, config), dict[str, Any])
    assert_type(memory.view(state), list[BaseMessage])
    assert_type(memory.report(state, config), ContextReport)
    assert_type(await memory.compact(graph, config, focus="the invoices"), ContextReport)


def used_as(memory: MemoryMiddleware) -> tuple[AgentMiddleware[Any, Any, Any], Runnable[Any, Any]]:
    return memory, memory


def told(event: MemoryEvent) -> None:
    assert_type(event.name, EventName)
    assert_type(event.thread_id, str | None)
    assert_type(event.before, ContextReport | None)
    assert_type(event.data, Mapping[str, Any])
    assert_type(event.to_json(), dict[str, Any])
    if event.after is not None:
        assert_type(event.after.total, int)
        assert_type(event.after.exact, bool)
        assert_type(event.after.parts, dict[str, int])
        assert_type(event.after.usage_ratio, float)


def traced() -> MemoryMiddleware:
    return MemoryMiddleware(on_event=OpenTelemetryEvents(content=False, then=told))


def configured() -> RuntimeConfig:
    config = RuntimeConfig.load("runtime.json")
    assert_type(config, RuntimeConfig)
    assert_type(RuntimeConfig.model_validate({}), RuntimeConfig)
    assert_type(config.memory.pruning.protect_recent, int)
    assert_type(config.memory.compaction.trigger_ratio, float)
    return config


def failing(error: ContextBudgetError | ConfigError) -> LangGraphMemoryError:
    if isinstance(error, ContextBudgetError):
        assert_type(error.parts, dict[str, int])
        assert_type(error.available, int)
    return error
