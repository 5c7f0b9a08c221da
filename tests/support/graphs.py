"""Graphs with memory, and ways to talk to them: by hand, as a node of a plain graph, in `create_agent`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from langgraph_memory import MemoryEvent, MemoryMiddleware, MemoryState, RuntimeConfig
from langgraph_memory.context.tokens import count_message, count_tools, load_counter
from tests.support.models import Scripted, content_text, summariser

ENTRIES = ("bare", "node", "agent")
GRAPHS = ("node", "agent")
GOOD_SIDE = "a good summariser"
MODES = ("async", "sync")


def configured(values: Mapping[str, Any] | None = None) -> RuntimeConfig:
    """A configuration from dotted keys, `memory.` left off: `{"pruning.protect_recent": 1}`."""
    nested: dict[str, Any] = {}
    for key, value in (values or {}).items():
        place: Any = nested
        *parents, name = f"memory.{key}".split(".")
        for parent in parents:
            place = place.setdefault(parent, {})
        place[name] = value
    return RuntimeConfig.model_validate(nested)


def thread(name: str = "t-1") -> dict[str, Any]:
    return {"configurable": {"thread_id": name}, "recursion_limit": 1000}


def node_graph(
    memory: MemoryMiddleware,
    model: Any,
    *,
    tools: Sequence[Any] = (),
    system: str | None = None,
    saver: Any = None,
    schema: Any = MemoryState,
) -> Any:
    """START → memory → model → tools → memory … with the edges of `attach`."""
    public = MessagesState if schema is MemoryState else None
    builder = StateGraph(schema, input_schema=public, output_schema=public)
    builder.add_node("model", memory.model_node(model, tools=tools, system_prompt=system))
    if tools:
        builder.add_node("tools", ToolNode(list(tools)))
    memory.attach(builder)
    return builder.compile(checkpointer=InMemorySaver() if saver is None else saver)


def agent_graph(
    memory: MemoryMiddleware,
    model: Any,
    *,
    tools: Sequence[Any] = (),
    system: str | None = None,
    saver: Any = None,
) -> Any:
    return create_agent(
        model,
        list(tools),
        middleware=[memory],
        system_prompt=system,
        checkpointer=InMemorySaver() if saver is None else saver,
    )


@dataclass
class Talk:
    """A thread of a graph with memory, the model it talks to and the events it makes."""

    memory: MemoryMiddleware
    graph: Any
    model: Scripted
    side: Any
    events: list[MemoryEvent]
    config: dict[str, Any] = field(default_factory=thread)
    mode: str = "async"

    async def send(self, *messages: Any) -> list[BaseMessage]:
        """Run a turn; the messages of the newest request."""
        given = {"messages": [("user", m) if isinstance(m, str) else m for m in messages]}
        if self.mode == "sync":
            await asyncio.to_thread(self.graph.invoke, given, self.config)
        else:
            await self.graph.ainvoke(given, self.config)
        return self.model.last

    async def state(self) -> dict[str, Any]:
        values: dict[str, Any] = (await self.graph.aget_state(self.config)).values
        return values

    async def history(self) -> list[BaseMessage]:
        messages: list[BaseMessage] = (await self.state())["messages"]
        return messages

    async def view(self) -> list[BaseMessage]:
        return self.memory.view(await self.state(), self.config)

    async def report(self) -> Any:
        return self.memory.report(await self.state(), self.config)

    def named(self, name: str) -> list[MemoryEvent]:
        return [event for event in self.events if event.name == name]


def talk(
    settings: Mapping[str, Any] | None = None,
    *,
    kind: str = "node",
    mode: str = "async",
    model: Scripted | None = None,
    side: Any = GOOD_SIDE,
    tools: Sequence[Any] = (),
    system: str | None = None,
    saver: Any = None,
    name: str = "t-1",
    workspace: Any = None,
) -> Talk:
    """A fresh thread of a graph of `kind` with memory made from dotted `settings`; `side` makes the summaries."""
    events: list[MemoryEvent] = []
    side = summariser() if side is GOOD_SIDE else side
    memory = MemoryMiddleware(configured(settings), model=side, workspace=workspace, on_event=events.append)
    model = Scripted() if model is None else model
    graph = (node_graph if kind == "node" else agent_graph)(memory, model, tools=tools, system=system, saver=saver)
    return Talk(memory, graph, model, side, events, thread(name), mode)


class Bare:
    """The middleware called by hand, with a record that is carried from call to call."""

    def __init__(self, settings: Mapping[str, Any] | None = None, *, side: Any = GOOD_SIDE) -> None:
        self.events: list[MemoryEvent] = []
        self.side = summariser() if side is GOOD_SIDE else side
        self.memory = MemoryMiddleware(configured(settings), model=self.side, on_event=self.events.append)
        self.record: dict[str, Any] = {}

    def sync(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Decide for `messages`; the view."""
        update = self.memory.invoke(self._state(messages), thread())
        return self._kept(messages, update)

    async def call(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        update = await self.memory(self._state(messages), thread())
        return self._kept(messages, update)

    async def by(self, mode: str, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """`call`, or `sync` as a program without an event loop makes it."""
        return await (asyncio.to_thread(self.sync, messages) if mode == "sync" else self.call(messages))

    def report(self, messages: Sequence[BaseMessage]) -> Any:
        return self.memory.report(self._state(messages), thread())

    def named(self, name: str) -> list[MemoryEvent]:
        return [event for event in self.events if event.name == name]

    def _state(self, messages: Sequence[BaseMessage]) -> dict[str, Any]:
        return {"messages": list(messages), "memory_record": self.record}

    def _kept(self, messages: Sequence[BaseMessage], update: Mapping[str, Any] | None) -> list[BaseMessage]:
        assert set(update or {}) <= {"memory_record"}
        self.record = (update or {}).get("memory_record", self.record)
        return self.memory.view(self._state(messages), thread())


async def sent(
    entry: str, messages: Sequence[BaseMessage], settings: Mapping[str, Any] | None = None, *, side: Any = GOOD_SIDE
) -> list[BaseMessage]:
    """What the model is sent for a history, by way of `entry`."""
    if entry == "bare":
        return await Bare(settings, side=side).call(messages)
    return await talk(settings, kind=entry, side=side).send(*messages)


# Histories


def chat(turns: int, *, chars: int = 40, start: int = 0, text: str = "word ") -> list[AnyMessage]:
    """Questions and answers of `chars` characters, each with a mark of its own: `q-0003`, `a-0003`."""
    return [
        kind(filled(f"{letter}-{number:04d} ", text, chars), id=f"{letter}{number}")
        for number in range(start, start + turns)
        for kind, letter in ((HumanMessage, "q"), (AIMessage, "a"))
    ]


def filled(mark: str, text: str, chars: int) -> str:
    return (mark + text * (chars // len(text) + 1))[: max(chars, len(mark))]


def calls(*ids: str, text: str = "", name: str = "grab", id: str | None = None) -> AIMessage:
    """An assistant message that asks for one tool call per id."""
    return AIMessage(text, tool_calls=[{"name": name, "args": {"n": 1}, "id": call} for call in ids], id=id)


def result(call: str, text: Any = "ok", *, name: str = "grab", id: str | None = None, **fields: Any) -> ToolMessage:
    return ToolMessage(text, tool_call_id=call, name=name, id=id, **fields)


def rounds(number: int, *, chars: int = 40, start: int = 0, text: str = "row ", name: str = "grab") -> list[AnyMessage]:
    """Rounds of one call and its result, whose text is marked `r-0003`."""
    return [
        message
        for n in range(start, start + number)
        for message in (
            calls(f"c{n}", text=f"step {n}", name=name, id=f"ai{n}"),
            result(f"c{n}", filled(f"r-{n:04d} ", text, chars), name=name, id=f"r{n}"),
        )
    ]


def looping(steps: int, *, done: str = "done", name: str = "grab") -> Any:
    """Replies of a model that calls a tool `steps` times in a turn and then says `done`."""
    numbers = count(1)

    def reply(_: list[BaseMessage]) -> AIMessage:
        number = next(numbers)
        if number % (steps + 1) == 0:
            return AIMessage(done)
        return AIMessage(f"step {number}", tool_calls=[{"name": name, "args": {"n": number}, "id": f"call-{number}"}])

    return reply


def grab(chars: int, *, name: str = "grab", text: str = "row ") -> BaseTool:
    """A tool that returns `chars` characters, marked `r-0003`."""

    @tool(name)
    def fetch(n: int) -> str:
        """Fetch rows."""
        return filled(f"r-{n:04d} ", text, chars)

    return fetch


# What was sent


COUNTER = "cl100k_base"


def size(messages: Sequence[BaseMessage], tools: Sequence[Any] = ()) -> int:
    """Tokens of a request, in the encoding that `auto` takes for a scripted model."""
    counter = load_counter("auto")
    return sum(count_message(counter, message) for message in messages) + count_tools(counter, tools)


def text_of(messages: Sequence[BaseMessage]) -> str:
    return "\n".join(map(content_text, messages))


def summaries_in(messages: Sequence[BaseMessage]) -> int:
    return text_of(messages).count("<conversation_summary")


def without_system(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    return [message for message in messages if not isinstance(message, SystemMessage)]


def as_bytes(messages: Sequence[BaseMessage]) -> list[str]:
    """Each message as it would be compared by a prompt cache."""
    return [
        f"{m.type} {m.content!r} {getattr(m, 'tool_calls', '')!r} {getattr(m, 'tool_call_id', '')}" for m in messages
    ]


def common_prefix(old: Sequence[BaseMessage], new: Sequence[BaseMessage]) -> int:
    """How many messages at the front of both are the same bytes."""
    return next(_differing(as_bytes(old), as_bytes(new)), min(len(old), len(new)))


def _differing(old: Sequence[str], new: Sequence[str]) -> Iterator[int]:
    return (i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b)
