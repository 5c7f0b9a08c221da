"""Programs with memory as people write them: they open their files, talk to a model over HTTP, and end.

Every `run` is the whole life of a program, so what the next one knows has gone through the files.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from langchain.agents import create_agent
from langchain_core.messages import BaseMessage, HumanMessage, convert_to_messages
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from openai import OpenAIError

from langgraph_memory import ContextReport, MemoryEvent, MemoryMiddleware, MemoryState
from tests.support.graphs import chat
from tests.support.models import GOOD
from tests.support.server import Answer, Call, ModelServer, Reply, Request
from tests.support.validity import faults

KINDS = ("node", "agent")
MODES = ("sync", "async")
BOTH = (("node", "sync"), ("agent", "async"))
"""Every kind and every mode once, where crossing them would tell nothing new."""
SUMMARY = GOOD
SMALL = {"context_window": 7000}
"""Settings under which `TALK` has to be compacted, in one question to the summariser."""
ALONE = {"flush": {"enabled": False}, "consolidation": {"enabled": False}}
"""Settings under which the server is asked for answers and summaries only."""
ASKED = "book berth 9 for 04:30"
TALK: list[BaseMessage] = [*chat(40, chars=300), HumanMessage(ASKED, id="go")]


@tool
def show(path: str) -> str:
    """Show a text file."""
    return Path(path).read_text(encoding="utf-8")


class Look(NamedTuple):
    """A thread as its files have it, and what the model would be sent for it."""

    messages: list[BaseMessage]
    record: dict[str, Any]
    view: list[BaseMessage]
    report: ContextReport


@dataclass
class Program:
    url: str
    folder: str
    kind: str = "agent"
    mode: str = "async"
    streaming: bool = False
    memory: dict[str, Any] = field(default_factory=dict)
    wrapped: bool = True
    """Whether the tool node of a plain graph spills results before they enter the state."""
    side_model: str | None = None
    """Name of a model of its own for summaries."""
    patient: bool = False
    """Whether it goes on after a turn in which the model failed, whose output is None."""
    on_event: Callable[[MemoryEvent], None] | None = None
    events: list[MemoryEvent] = field(default_factory=list)

    @property
    def thread(self) -> dict[str, Any]:
        return {"configurable": {"thread_id": "t", "user_id": "ada"}}

    @property
    def files(self) -> dict[str, str]:
        folder = Path(self.folder)
        return {"thread_db": str(folder / "threads.db"), "workspace": str(folder / "work")}

    def run(self, *given: Any, each: Callable[[], Any] = lambda: None) -> list[Any]:
        """Say each of `given` to the agent; its outputs. None goes on where a run was aborted.

        `each` is called after every turn.
        """
        if self.mode == "sync":
            return self._live(lambda graph: [self._turn(graph, said, each) for said in given])

        async def act(graph: Any) -> list[Any]:
            return [await self._aturn(graph, said, each) for said in given]

        return asyncio.run(self._alive(act))

    def _turn(self, graph: Any, said: Any, each: Callable[[], Any]) -> Any:
        try:
            return graph.invoke(_input(said), self.thread)
        except OpenAIError:
            if not self.patient:
                raise
        finally:
            each()

    async def _aturn(self, graph: Any, said: Any, each: Callable[[], Any]) -> Any:
        try:
            return await graph.ainvoke(_input(said), self.thread)
        except OpenAIError:
            if not self.patient:
                raise
        finally:
            each()

    def stream(self, given: Any, modes: str | list[str]) -> list[Any]:
        """Everything that is streamed while the agent works on `given`."""
        value = _input(given)
        if self.mode == "sync":
            return self._live(lambda graph: list(graph.stream(value, self.thread, stream_mode=modes)))

        async def act(graph: Any) -> list[Any]:
            return [chunk async for chunk in graph.astream(value, self.thread, stream_mode=modes)]

        return asyncio.run(self._alive(act))

    def look(self) -> Look:
        with self._opening() as memory:
            snapshot = self.graph(memory).get_state(self.thread)
            values = {"memory_record": {}, **snapshot.values}
            view, report = memory.view(values, self.thread), memory.report(values, self.thread)
        return Look(values["messages"], values["memory_record"], view, report)

    def named(self, name: str) -> list[MemoryEvent]:
        return [event for event in self.events if event.name == name]

    def graph(self, memory: MemoryMiddleware) -> Any:
        model = self.client("m")
        if self.kind == "agent":
            return create_agent(model, [show], middleware=[memory], checkpointer=memory.saver)
        tools = [show, *memory.tools]
        around: dict[str, Any] = {"wrap_tool_call": memory.wrap_tool_call, "awrap_tool_call": memory.awrap_tool_call}
        builder = StateGraph(MemoryState, input_schema=MessagesState, output_schema=MessagesState)
        builder.add_node("model", memory.model_node(model, tools=tools))
        builder.add_node("tools", ToolNode(tools, **around if self.wrapped else {}))
        memory.attach(builder)
        return builder.compile(checkpointer=memory.saver)

    def client(self, model: str) -> ChatOpenAI:
        return ChatOpenAI(
            base_url=self.url,
            api_key="x",
            model=model,
            max_retries=0,
            max_tokens=200,
            timeout=60,
            streaming=self.streaming,
        )

    def _opening(self) -> Any:
        values = {"memory": {**ALONE, **self.memory}, "persistence": self.files}
        side = self.client(self.side_model) if self.side_model else None
        return MemoryMiddleware.open(values, model=side, on_event=self._noted)

    def _noted(self, event: MemoryEvent) -> None:
        self.events.append(event)
        if self.on_event:
            self.on_event(event)

    def _live(self, act: Callable[[Any], list[Any]]) -> list[Any]:
        with self._opening() as memory:
            return act(self.graph(memory))

    async def _alive(self, act: Callable[[Any], Any]) -> list[Any]:
        async with self._opening() as memory:
            found: list[Any] = await act(self.graph(memory))
            return found


def _input(given: Any) -> Any:
    if given is None:
        return None
    return {"messages": [("user", given)] if isinstance(given, str) else given}


# The other side


def answering(*replies: Any, summary: Any = SUMMARY) -> Callable[[Request], str | Answer]:
    """A script: summaries get `summary`, other requests `replies` in turn, the last one again and again."""
    turns = count()

    def answer(request: Request) -> str | Answer:
        reply = summary if is_for_summary(request) else replies[min(next(turns), len(replies) - 1)]
        found: str | Answer = reply(request) if callable(reply) else reply
        return found

    return answer


def showing(path: Any, id: str = "call_1") -> Reply:
    """The model asks to see a file."""
    return Reply("Let me look.", [Call("show", {"path": str(path)}, id)])


def is_for_summary(request: Request) -> bool:
    return "<previous_summary>" in str(request.messages[0]["content"])


def summaries(server: ModelServer) -> list[Request]:
    """Every request for a summary that arrived."""
    return [request for request in server.requests if is_for_summary(request)]


def calls(server: ModelServer) -> list[Request]:
    """Every request of the agent itself that arrived."""
    return [request for request in server.requests if not is_for_summary(request)]


def refusals(request: Request) -> list[str]:
    """What a strict provider would say against a request."""
    return faults(convert_to_messages(request.messages))


def said(messages: Sequence[BaseMessage]) -> list[tuple[str, Any]]:
    return [(message.type, message.content) for message in messages]


def text_of(request: Request) -> str:
    return json.dumps(request.messages, ensure_ascii=False)
