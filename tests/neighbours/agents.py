"""Agents with memory and other middleware, and a provider that is strict about what it is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import Field

from langgraph_memory import MemoryEvent, MemoryMiddleware, RuntimeConfig
from langgraph_memory.context.tokens import count_message, count_tools, load_counter
from tests.support.graphs import Talk, chat, configured, text_of, thread
from tests.support.models import Request, Scripted, Streaming, content_text, numbered_summaries
from tests.support.validity import faults

WINDOW = 6000
NOT_AHEAD = {"compaction.prefetch_ratio": 1.0}
"""So that what is paid for does not depend on how fast the background is."""
LONG = chat(14, chars=1200)
"""Enough to compact in `WINDOW`."""
REQUEST = "book berth 9 for 04:30, and tell nobody"


class Provider(Scripted):
    """A scripted model that refuses what is larger than its window, counting messages and tools as we do.

    `usage` is reported by itself. Whatever arrives is kept in `requests`, with its size in `sizes`; `refused` counts
    the refusals.
    """

    window: int = WINDOW
    sizes: list[int] = Field(default_factory=list)
    refused: int = 0

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        self.profile = {"max_input_tokens": self.window}

    def _next(self, messages: list[BaseMessage], options: dict[str, Any]) -> AIMessage:
        counter = load_counter("auto")
        tools = options.get("tools", ())
        self.sizes.append(sum(count_message(counter, m) for m in messages) + count_tools(counter, tools))
        reply = super()._next(messages, options)
        if self.sizes[-1] > self.window:
            self.refused += 1
            raise ContextOverflowError(f"prompt is too long: {self.sizes[-1]} tokens > {self.window} maximum")
        reply.response_metadata["model_name"] = self.model_name
        return reply

    @property
    def room(self) -> int:
        """What of the window a request may take when room is kept for the answer."""
        return self.window - self.window // 8


class StreamingProvider(Provider, Streaming):
    """A provider that streams its text word by word."""


def beside(
    *,
    outer: Sequence[Any] = (),
    inner: Sequence[Any] = (),
    model: Scripted | None = None,
    side: Any = None,
    settings: Mapping[str, Any] | None = None,
    tools: Sequence[Any] = (),
    mode: str = "async",
    workspace: Any = None,
    leaves: bool = False,
    **options: Any,
) -> Talk:
    """A thread of an agent whose memory stands between the middleware `outer` and `inner` to it.

    With `leaves`, messages that a summary covers leave the list.
    """
    events: list[MemoryEvent] = []
    side = numbered_summaries() if side is None else side
    config, saver = configured({**NOT_AHEAD, **(settings or {})}), InMemorySaver()
    if leaves:
        config = leaving(config)
    memory = MemoryMiddleware(config, model=side, saver=saver, on_event=events.append, workspace=workspace)
    model = Provider() if model is None else model
    options = {"checkpointer": saver, **options}
    graph = create_agent(model, list(tools), middleware=[*outer, memory, *inner], **options)
    return Talk(memory, graph, model, side, events, thread(), mode)


def leaving(config: RuntimeConfig) -> RuntimeConfig:
    """`config`, but messages that a summary covers leave the list."""
    persistence = config.persistence.model_copy(update={"state": "since_summary"})
    return config.model_copy(update={"persistence": persistence})


async def say(talk: Talk, *messages: Any, **channels: Any) -> None:
    """Run a turn, also where the talk's own model is not called, or resume with a `Command`."""
    command = messages and isinstance(messages[0], Command)
    given = (
        messages[0]
        if command
        else {"messages": [HumanMessage(m) if isinstance(m, str) else m for m in messages], **channels}
    )
    if talk.mode == "sync":
        await asyncio.to_thread(talk.graph.invoke, given, talk.config)
    else:
        await talk.graph.ainvoke(given, talk.config)


async def streamed(talk: Talk, messages: Sequence[BaseMessage], **options: Any) -> list[Any]:
    """All parts of a turn's stream, in the talk's mode."""
    given = {"messages": list(messages)}
    if talk.mode == "sync":
        return await asyncio.to_thread(lambda: list(talk.graph.stream(given, talk.config, **options)))
    return [part async for part in talk.graph.astream(given, talk.config, **options)]


def assert_sound(model: Provider, *said: str, among: Sequence[Request] | None = None) -> None:
    """Every request to `model` was valid, fitted and had `said` in it, word for word."""
    requests = model.requests if among is None else among
    assert requests
    for request in requests:
        assert faults(request.messages) == []
        for text in said:
            assert any(text in content_text(message) for message in request.messages if message.type == "human")
    assert model.refused == 0
    assert max(model.sizes) <= model.room


def assert_single(messages: Sequence[BaseMessage]) -> None:
    """No message of a state stands twice, and no text either that was said once."""
    ids = [message.id for message in messages]
    assert None not in ids
    assert len(set(ids)) == len(ids)
    marks = [text_of([message])[:7] for message in messages if text_of([message])[:2] in ("q-", "a-")]
    assert len(set(marks)) == len(marks)
