"""The graph nodes: one that decides for a known model node, and one that calls the model with the view."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig

from .context.budget import Overhead
from .context.tokens import TokenCounter, count_message, count_tools
from .models import Model, model_window

if TYPE_CHECKING:
    from .middleware import MemoryMiddleware

SPECS = 64


@dataclass(frozen=True)
class Spec:
    """What a model call carries beside the messages."""

    model: Model
    tools: tuple[Any, ...] = ()
    system: str | SystemMessage | None = None

    @cached_property
    def system_message(self) -> SystemMessage | None:
        return SystemMessage(self.system) if isinstance(self.system, str) else self.system

    @staticmethod
    def widest(specs: Iterable[Spec]) -> Spec | None:
        """For a node that does not know which of several model nodes follows: the one with the smallest window."""
        return min(specs, key=lambda spec: model_window(spec.model) or 10**9, default=None)


class Overheads:
    """Token counts of system prompts and tools, counted once for the calls that carry the same objects."""

    def __init__(self) -> None:
        self._counted: OrderedDict[Hashable, tuple[Spec, Overhead]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, spec: Spec, counter: TokenCounter) -> Overhead:
        """Raw tokens of what `spec` adds to every request."""
        system = spec.system_message
        key = (id(counter), tuple(map(id, spec.tools)), repr(system.content) if system else None)
        with self._lock:
            known = self._counted.get(key)
        if known:
            return known[1]
        overhead = Overhead(
            count_message(counter, system) if system else 0, count_tools(counter, spec.tools) if spec.tools else 0
        )
        with self._lock:
            # The spec is kept with its count, so that no other tool can come to have the same identity.
            self._counted[key] = spec, overhead
            if len(self._counted) > SPECS:
                self._counted.popitem(last=False)
        return overhead


class MemoryNode(Runnable[Any, Any]):
    """The memory node of a graph whose model node is known."""

    def __init__(self, memory: MemoryMiddleware, spec: Spec | None) -> None:
        self.memory, self.spec = memory, spec

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, Any]:
        return self.memory.update(input, config, self.spec)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, Any]:
        return await self.memory.aupdate(input, config, self.spec)


class ModelNode(Runnable[Any, Any]):
    """Sends system prompt and view to the model; returns its reply as a message update."""

    def __init__(self, memory: MemoryMiddleware, spec: Spec) -> None:
        self.memory, self.spec = memory, spec
        self._bound = spec.model.bind_tools(list(spec.tools)) if spec.tools else spec.model  # type: ignore[attr-defined]

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, Any]:
        reply = self._bound.invoke(self._request(input, config), config)
        self.memory.called(config)
        return {"messages": [reply]}

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, Any]:
        reply = await self._bound.ainvoke(self._request(input, config), config)
        self.memory.called(config)
        return {"messages": [reply]}

    def _request(self, state: Any, config: RunnableConfig | None) -> list[BaseMessage]:
        view = self.memory.view(state, config)
        return [self.spec.system_message, *view] if self.spec.system_message else view
