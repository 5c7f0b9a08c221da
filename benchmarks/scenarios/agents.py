"""The contenders as whole agents, with a checkpointer, tools and a model of their own for summaries.

LangChain's `SummarizationMiddleware` stands beside its `ContextEditingMiddleware`, that of deepagents behind its
`PatchToolCallsMiddleware`; langmem's node is a node of a graph, as it is in its documentation.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import ContextEditingMiddleware, SummarizationMiddleware
from langchain_core.messages import AnyMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from langgraph_memory import MemoryMiddleware
from tests.support.graphs import configured

from ..peers import clearing
from ..texts import ENCODING
from .outcome import OURS

LANGCHAIN, DEEPAGENTS, LANGMEM = "LangChain", "deepagents", "langmem"
NOSTREAM = "nostream"


@dataclass(frozen=True)
class Wanted:
    """What a scenario asks for; every contender is given the same budget."""

    model: Any
    side: Any
    """Writes the summaries."""
    folder: Path
    window: int = 8_000
    tools: Sequence[Any] = ()
    trigger: tuple[Any, int] | None = None
    """("messages", N) or ("tokens", N); by default 70 % of the window."""
    keep: int | None = None
    """Tokens; by default a quarter of the window, the most that ours can be told to keep."""

    patience: float = 120
    """Seconds after which a summary is given up, where that can be set."""

    @property
    def at(self) -> tuple[Any, int]:
        return self.trigger or ("tokens", int(0.7 * self.window))

    @property
    def kept(self) -> tuple[Any, int]:
        return ("tokens", self.keep or self.window // 4)


VOCABULARY = re.findall(
    r"\w+",
    "the berth of a ship is painted before it sails and every crate that stands on quay needs its own paper with stamp "
    "so clerks count them while rain falls over roofs near market where people sell fish bread rope lamps or maps",
)


def prose(mark: str, chars: int) -> str:
    """`mark`, then words until so many characters are said; another mark says other words."""
    chance = Random(mark)
    words = [mark]
    while sum(map(len, words)) + len(words) < chars:
        words.append(chance.choice(VOCABULARY))
    return " ".join(words)[: max(chars, len(mark))]


def langchain(wanted: Wanted) -> Any:
    memory = SummarizationMiddleware(wanted.side, trigger=wanted.at, keep=wanted.kept, trim_tokens_to_summarize=None)
    editing: Any = ContextEditingMiddleware(edits=[clearing(wanted.window)])
    return _agent(wanted, [memory, editing])


def deepagents(wanted: Wanted) -> Any:
    from deepagents.backends import FilesystemBackend
    from deepagents.middleware.patch_tool_calls import PatchToolCallsMiddleware
    from deepagents.middleware.summarization import SummarizationMiddleware as Summarization

    memory: Any = Summarization(
        model=wanted.side,
        backend=FilesystemBackend(root_dir=wanted.folder, virtual_mode=True),
        trigger=wanted.at,
        keep=wanted.kept,
        trim_tokens_to_summarize=None,
    )
    return _agent(wanted, [PatchToolCallsMiddleware(), memory])


def langmem(wanted: Wanted) -> Any:
    from langmem.short_term import SummarizationNode  # type: ignore[import-untyped, unused-ignore]

    class State(MessagesState):
        summarized_messages: list[AnyMessage]
        context: dict[str, Any]

    if wanted.at[0] != "tokens":
        raise NotImplementedError("it counts tokens only")
    summarising = SummarizationNode(model=wanted.side.with_config(tags=[NOSTREAM]), max_tokens=wanted.at[1])
    model = wanted.model.bind_tools(list(wanted.tools)) if wanted.tools else wanted.model

    async def speak(state: State) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["summarized_messages"])]}

    builder: Any = StateGraph(State)
    builder.add_node("summarize", summarising)
    builder.add_node("model", speak)
    builder.add_edge(START, "summarize")
    builder.add_edge("summarize", "model")
    if wanted.tools:
        builder.add_node("tools", ToolNode(list(wanted.tools)))
        builder.add_conditional_edges("model", tools_condition, {"tools": "tools", END: END})
        builder.add_edge("tools", "summarize")
    return builder.compile(checkpointer=InMemorySaver())


def ours(wanted: Wanted) -> Any:
    kind, number = wanted.at
    settings: dict[str, Any] = {"context_window": wanted.window, "tokenizer": ENCODING}
    settings["compaction.timeout_seconds"] = wanted.patience
    if wanted.trigger:
        settings[f"compaction.trigger_{kind}"] = number
    if wanted.keep:
        settings["compaction.keep_recent_tokens"] = wanted.keep
    return _agent(wanted, [MemoryMiddleware(configured(settings), model=wanted.side)])


def _agent(wanted: Wanted, middleware: list[Any]) -> Any:
    return create_agent(wanted.model, list(wanted.tools), middleware=middleware, checkpointer=InMemorySaver())


AGENTS: dict[str, Callable[[Wanted], Any]] = {
    LANGCHAIN: langchain,
    DEEPAGENTS: deepagents,
    LANGMEM: langmem,
    OURS: ours,
}


@dataclass
class Thread:
    """One thread of an agent."""

    graph: Any
    name: str = "t-1"

    @property
    def config(self) -> dict[str, Any]:
        return {"configurable": {"thread_id": self.name, "user_id": "ada"}, "recursion_limit": 1_000}

    async def say(self, *messages: Any) -> None:
        given = [("user", message) if isinstance(message, str) else message for message in messages]
        await self.graph.ainvoke({"messages": given}, self.config)

    async def messages(self) -> list[BaseMessage]:
        found: list[BaseMessage] = (await self.graph.aget_state(self.config)).values["messages"]
        return found
