"""A chat with one thread: its turns, and what is left of a turn that did not end.

A turn that was interrupted, or whose model failed, leaves a thread that can be used at once: its request is in the
thread, what its tools had done is too, and nothing waits to be run. Calls without a result stay as they are; the view
shows them as failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphRecursionError
from langgraph.graph import END
from langgraph.types import StateSnapshot

from langgraph_memory import ContextReport, MemoryMiddleware, RuntimeConfig
from langgraph_memory.context.text import clean_text, one_line
from langgraph_memory.errors import LangGraphMemoryError
from langgraph_memory.state import MESSAGES, RECORD
from langgraph_memory.threads import ThreadStore

from .chat_agent import MEMORY, MODEL
from .chat_interrupt import Stopped, interruptible
from .chat_models import Chosen
from .chat_names import new_id
from .chat_screen import Screen
from .replay_engine import Graph

STEPS = 150
"""Supersteps of a turn at most: about fifty calls of the model."""
CLEARINGS = 5
"""Times that what waits is cleared; clearing a call that had ended lets the next node wait."""
ERROR_CHARS = 400
INPUT = "__start__"
HALF_MADE = ("__", "branch:")
"""How the names of channels begin that LangGraph makes itself."""


@dataclass
class Chat:
    """What the commands of a chat work with."""

    memory: MemoryMiddleware
    graph: Graph
    chosen: Chosen
    screen: Screen
    user: str | None
    config_path: Path | None
    thread_id: str = ""
    failed: bool = False
    """Whether a turn of this chat has failed."""

    @property
    def store(self) -> ThreadStore:
        assert self.memory.saver is not None
        return ThreadStore(self.memory.saver)

    @property
    def settings(self) -> RuntimeConfig:
        return self.memory.config

    @property
    def config(self) -> RunnableConfig:
        user = {} if self.user is None else {"user_id": self.user}
        return {"configurable": {"thread_id": self.thread_id, **user}, "recursion_limit": STEPS}

    # Threads

    async def open(self, thread_id: str | None) -> int:
        """Go on with a thread, or with None begin one; how many messages it has.

        Raises `LangGraphMemoryError` for a thread of another graph, whose channels would be lost here.
        """
        if thread_id is None:
            self.thread_id = new_id({row.thread_id for row in await self.store.threads()})
            return 0
        name = clean_text(thread_id)
        saved = await self.store.saver.aget_tuple({"configurable": {"thread_id": name, "checkpoint_ns": ""}})
        channels = saved.checkpoint["channel_versions"] if saved else {}
        others = [each for each in channels if each not in (MESSAGES, RECORD) and not each.startswith(HALF_MADE)]
        if others:
            raise LangGraphMemoryError(
                f"The thread {name!r} belongs to another graph: going on with it here would lose its channels "
                f"{', '.join(sorted(others))}. Give another id."
            )
        self.thread_id = name
        return len((await self.state()).values.get(MESSAGES, ()))

    async def state(self) -> StateSnapshot:
        return await self.graph.aget_state(self.config)

    async def report(self) -> ContextReport | None:
        """Where the window goes; None for a thread in which nothing was said."""
        values = (await self.state()).values
        if not values.get(MESSAGES):
            return None
        known = {RECORD: {}, **values}
        return await asyncio.to_thread(self.memory.report, known, self.config)

    # Turns

    async def turn(self, text: str | None) -> None:
        """Ask, and print the answer; None asks again for an answer to what stands in the thread."""
        request = HumanMessage(clean_text(text), id=str(uuid4())) if text is not None else None
        try:
            await interruptible(self._run(request))
        except Stopped:
            self.screen.say("Stopped. Your message stays in the thread; /retry asks for an answer once more.")
        except Exception as error:  # noqa: BLE001 - whatever a provider raises, the chat goes on
            self.failed = True
            self.screen.say(f"Error: {self._explained(error)}")
            self.screen.note("Your message stays in the thread; /retry asks for an answer once more.")
        else:
            await self._status()
            return
        await self.settle(request)

    async def _run(self, request: HumanMessage | None) -> None:
        await self.settle(None)
        given = {MESSAGES: [request] if request else []}
        stream: Any = self.graph.astream(given, self.config, stream_mode=["messages", "updates"])
        async for mode, data in stream:
            if mode == "messages":
                message, about = data
                if isinstance(message, AIMessageChunk | AIMessage) and about.get("langgraph_node") == MODEL:
                    self.screen.token(message.text)
            elif isinstance(data, Mapping):
                self._called(data.get(MODEL))
        self.screen.end()

    def _called(self, update: Any) -> None:
        for message in (update or {}).get(MESSAGES, ()):
            if isinstance(message, AIMessage):
                for call in (*message.tool_calls, *message.invalid_tool_calls):
                    self.screen.called(str(call["name"]), call["args"])

    async def settle(self, request: HumanMessage | None) -> None:
        """Leave nothing in the thread that waits to be run, and `request` in it."""
        missing = await self._unread() if request is None else [request]
        await self._clear()
        there = {message.id for message in (await self.state()).values.get(MESSAGES, ())}
        if missing := [message for message in missing if message.id not in there]:
            await self.graph.aupdate_state(self.config, {MESSAGES: missing}, as_node=MEMORY)
            await self._clear()

    async def _unread(self) -> list[Any]:
        """What was put into a run that ended before its first step; a message without an id is none of ours."""
        snapshot = await self.state()
        if INPUT not in snapshot.next:
            return []
        saved = await self.store.saver.aget_tuple(snapshot.config)
        given = saved.checkpoint["channel_values"].get(INPUT) if saved else None
        messages = given.get(MESSAGES, ()) if isinstance(given, Mapping) else ()
        return [message for message in messages if getattr(message, "id", None)]

    async def _clear(self) -> None:
        for _ in range(CLEARINGS):
            # Not `next`: it leaves out tasks that have ended, but whose results are in no checkpoint yet.
            if not (await self.state()).tasks:
                return
            await self.graph.aupdate_state(self.config, None, as_node=END)

    async def _status(self) -> None:
        if report := await self.report():
            self.screen.note(f"context {report.usage_ratio:.0%} of {report.window:,}")

    def _explained(self, error: Exception) -> str:
        """An error on one line, with what can be done about it where that is known."""
        if isinstance(error, GraphRecursionError):
            return f"No answer after {STEPS} steps of model and tools; the turn was ended."
        cause = error.__cause__
        because = f" ({cause})" if cause and str(cause) and str(cause) not in str(error) else ""
        text = one_line(f"{error}{because}", ERROR_CHARS) or type(error).__name__
        if isinstance(error, LangGraphMemoryError):
            return text
        if getattr(error, "status_code", None) in (401, 403):
            text += f" Check {f'${key}' if (key := self.chosen.key) else 'the key of the provider'}."
        return f"{self.chosen.label}: {text}"
