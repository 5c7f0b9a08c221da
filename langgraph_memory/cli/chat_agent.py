"""The agent of `lgm chat`: the plain graph with memory, a model and the tools for one folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from langgraph_memory import MemoryMiddleware, MemoryState
from langgraph_memory.state import MESSAGES

from .chat_demo import DemoModel
from .chat_folder import Folder
from .chat_tools import folder_tools
from .replay_engine import Graph

MODEL, TOOLS, MEMORY = "model", "tools", "memory"
PROMPT = """\
You talk with somebody in a terminal. With list_files, grep and read you look at the files of the folder {folder}; \
look before you say what is in them, and name file and line. You cannot change files or run commands. When you are \
asked to remember or to forget something, use memory_save or memory_forget; when something may have been said in an \
earlier conversation, use memory_search. What this conversation shows shortened or summarised, recall gives back. \
Answer briefly and in the language you are spoken to, in plain text."""


def built(memory: MemoryMiddleware, model: BaseChatModel | None, folder: Folder) -> Graph:
    """START → memory → model → (tools → memory | flush → consolidate → END); without a model the demo's rules."""
    tools: Sequence[BaseTool] = [*folder_tools(folder), *memory.tools]
    builder = StateGraph(MemoryState, input_schema=MessagesState, output_schema=MessagesState)
    builder.add_node(MODEL, _demo_node() if model is None else _model_node(memory, model, tools, folder))
    # A tool that fails is an answer to the model, not the end of the turn.
    builder.add_node(TOOLS, ToolNode(tools, awrap_tool_call=memory.awrap_tool_call, handle_tool_errors=True))
    memory.attach(builder, model=MODEL, tools=TOOLS)
    return builder.compile(checkpointer=memory.saver)


def _model_node(
    memory: MemoryMiddleware, model: BaseChatModel, tools: Sequence[BaseTool], folder: Folder
) -> Runnable[Any, Any]:
    return memory.model_node(model, tools=tools, system_prompt=PROMPT.format(folder=folder.root))


def _demo_node() -> Any:
    """Follows its rules with the whole turn, so that they do not depend on what the window has room for."""
    model = DemoModel()

    async def demo(state: MemoryState, config: RunnableConfig) -> dict[str, Any]:
        return {MESSAGES: [await model.ainvoke(state["messages"], config)]}

    return demo
