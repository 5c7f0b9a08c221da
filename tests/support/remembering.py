"""A graph with long-term memory on real files, and the side model that extracts and merges what it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage

from langgraph_memory import MemoryEvent, MemoryMiddleware, Workspace
from tests.support.graphs import agent_graph, configured, node_graph
from tests.support.ledgers import pending
from tests.support.models import GOOD, Scripted, content_text

NOTED = 200
FLUSH, MERGE, SUMMARY = "flush", "merge", "summary"


def asked_for(messages: Sequence[BaseMessage]) -> str:
    """What a request to the side model is for."""
    text = content_text(messages[-1])
    return MERGE if "<new_entries>" in text else FLUSH if "NO_REPLY" in text else SUMMARY


def said_in(text: str) -> list[str]:
    """What the user says in the messages that a flush shows."""
    shown = text.rpartition("<messages>")[2].partition("</messages>")[0]
    return [line.partition("user: ")[2] for line in shown.splitlines() if "] user: " in line]


def noting(messages: Sequence[BaseMessage]) -> str:
    """A side model that notes all the user says, and merges by adding the entries to the file."""
    text = content_text(messages[-1])
    kind = asked_for(messages)
    if kind == FLUSH:
        return "\n".join(f"- {line[:NOTED]}" for line in said_in(text)) or "NO_REPLY"
    if kind == MERGE:
        old = text.partition("<curated_memory>\n")[2].partition("\n</curated_memory>")[0]
        new = text.partition("<new_entries>\n")[2].partition("\n</new_entries>")[0]
        items = [f"- {line.partition('] ')[2]}" for line in new.splitlines() if "] " in line]
        return "\n".join(["<memory_file>", *filter(None, [old]), *items, "</memory_file>"])
    return GOOD


def meddling(home: Home, other: Home, done: list[Any]) -> Callable[[Sequence[BaseMessage]], str]:
    """Replies as `noting` gives them; while the first merge waits for its reply, `other` is told something and a person
    edits the file. `done` holds what came of it."""

    def reply(messages: Sequence[BaseMessage]) -> str:
        if asked_for(messages) == MERGE and not done:
            done.append(asyncio.run(other.say("Meanwhile I moved to Riga", "t-9")))
            text = home.notes.read_text(encoding="utf-8") if home.notes.exists() else ""
            home.notes.write_text(f"- by hand\n{text}", encoding="utf-8")
        return noting(messages)

    return reply


@dataclass
class Home:
    """Graphs of one user that share a workspace; every turn is done with all that is beside it (`inline`)."""

    folder: Path
    settings: Mapping[str, Any] = field(default_factory=dict)
    kind: str = "node"
    side: Any = None
    model: Scripted = field(default_factory=Scripted)
    saver: Any = None
    tools: Callable[[MemoryMiddleware], Sequence[Any]] = lambda memory: ()
    user: str | None = "ada"
    inline: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    """More arguments of the middleware."""

    def __post_init__(self) -> None:
        self.events: list[MemoryEvent] = []
        self.side = Scripted(replies=noting) if self.side is None else self.side
        # By default MEMORY.md is merged after each turn that brought something new.
        settings = {"consolidation.min_interval_minutes": 0, **self.settings}
        self.memory = MemoryMiddleware(
            configured(settings),
            model=self.side or None,
            saver=self.saver,
            workspace=self.folder,
            on_event=self.events.append,
            inline=self.inline,
            **self.options,
        )
        build = node_graph if self.kind == "node" else agent_graph
        tools = self.tools(self.memory)
        self.graph = build(self.memory, self.model, tools=tools, saver=self.saver, system="You are a clerk.")

    def config(self, thread: str, user: str | None = None) -> dict[str, Any]:
        user = self.user if user is None else user
        return {"configurable": {"thread_id": thread, **({"user_id": user} if user else {})}, "recursion_limit": 500}

    async def say(self, said: Any, thread: str = "t-1", *, user: str | None = None) -> list[BaseMessage]:
        """One turn; the messages of its newest request."""
        messages = said if isinstance(said, list) else [("user", said)]
        await self.graph.ainvoke({"messages": messages}, self.config(thread, user))
        return self.model.last

    async def state(self, thread: str = "t-1") -> dict[str, Any]:
        values: dict[str, Any] = (await self.graph.aget_state(self.config(thread))).values
        return values

    def workspace(self, user: str = "ada") -> Workspace:
        return Workspace(self.folder, (user,))

    @property
    def notes(self) -> Path:
        return self.folder / "ada" / "MEMORY.md"

    async def entries(self, user: str = "ada") -> list[str]:
        """The texts in the ledgers, in order."""
        rows = await asyncio.to_thread(pending, self.workspace(user).keeper, {})
        return [row.entry.text for row in rows]

    def asked(self, kind: str) -> list[str]:
        """The requests to the side model for one purpose."""
        return [request.text for request in self.side.requests if asked_for(request.messages) == kind]

    def named(self, name: str) -> list[MemoryEvent]:
        return [event for event in self.events if event.name == name]
