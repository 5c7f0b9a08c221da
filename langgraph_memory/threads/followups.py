"""`FollowUps`: takes in what waits in a thread's queue before every model call.

As middleware of `create_agent` it is a node before the model; in a graph it is a node like any other, sync and async:

    agent = create_agent(model, tools, middleware=[FollowUps(saver)], checkpointer=saver)

    builder.add_node("follow_ups", FollowUps(saver))

It is a step of its own, because a message that is added together with the reply would land behind it.
"""

from __future__ import annotations

from typing import Any

from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.runnables import Runnable, RunnableConfig

from ..errors import LangGraphMemoryError
from .queue import ThreadQueue
from .saver import ThreadSaver
from .unentered import Unentered

NAME = "langgraph_memory_follow_ups"


class FollowUps(AgentMiddleware[Any, Any, Any], Runnable[Any, Any]):
    """Takes in what waits in `source`: a `ThreadQueue`, a `ThreadSaver`, or something whose `saver` is one."""

    def __init__(self, source: Any) -> None:
        self.queue = as_queue(source)

    @property
    def name(self) -> str:  # type: ignore[override]
        return NAME

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, Any]:
        return self.queue.saver._wait(self.queue.follow_ups(input, config))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, Any]:
        return await self.queue.follow_ups(input, config)

    # LangChain hands over the config to hooks that ask for it.

    def before_model(  # type: ignore[override]
        self, state: Any, runtime: Any, config: RunnableConfig
    ) -> dict[str, Any] | None:
        return self.invoke(state, config) or None

    async def abefore_model(  # type: ignore[override]
        self, state: Any, runtime: Any, config: RunnableConfig
    ) -> dict[str, Any] | None:
        return await self.ainvoke(state, config) or None


def as_queue(source: Any) -> ThreadQueue:
    """The queue of `source`. Raises `LangGraphMemoryError` where there is none."""
    if isinstance(source, ThreadQueue):
        return source
    if isinstance(source, Unentered):
        raise source.not_entered()
    saver = source if isinstance(source, ThreadSaver) else getattr(source, "saver", None)
    if not isinstance(saver, ThreadSaver):
        raise LangGraphMemoryError(
            f"Follow-ups wait in the file of a ThreadSaver, and {source!r} has none; its saver is {saver!r}."
        )
    return ThreadQueue(saver)
