"""The graph nodes: one that decides for a known model node, and one that calls the model with the view."""

from __future__ import annotations

import asyncio
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
from .models import Model, bound_tools, model_window, with_tools
from .recovery import Retry
from .state import MESSAGES
from .steps import Outcome, stored

if TYPE_CHECKING:
    from .middleware import MemoryMiddleware

SPECS = 64


@dataclass(frozen=True)
class Spec:
    """What a model call carries beside the messages."""

    model: Model
    tools: tuple[Any, ...] = ()
    system: str | SystemMessage | None = None
    output: Any = None
    """What the reply has to look like, if it is structured: a schema or a strategy of `create_agent`."""

    @cached_property
    def system_message(self) -> SystemMessage | None:
        return SystemMessage(self.system) if isinstance(self.system, str) and self.system else self.system or None

    @cached_property
    def schemas(self) -> tuple[Any, ...]:
        """Everything that is sent as a schema: tools, those bound to the model before, and the output's."""
        specs = getattr(self.output, "schema_specs", None) or [getattr(self.output, "schema_spec", None)]
        found = [spec.json_schema for spec in specs if spec is not None]
        if not found and self.output is not None:
            found = [getattr(self.output, "schema", self.output)]
        return (*self.tools, *bound_tools(self.model), *found)

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
        key = (id(counter), tuple(map(_look, spec.schemas)), repr(system.content) if system else None)
        with self._lock:
            known = self._counted.get(key)
        if known:
            return known[1]
        overhead = Overhead(
            count_message(counter, system) if system else 0, count_tools(counter, spec.schemas) if spec.schemas else 0
        )
        with self._lock:
            # The spec is kept with its count, so that no other tool can come to have the same identity.
            self._counted[key] = spec, overhead
            if len(self._counted) > SPECS:
                self._counted.popitem(last=False)
        return overhead


def _look(tool: Any) -> Hashable:
    """What tells a tool from others and from itself before: descriptions and schemas may be replaced in place."""
    if isinstance(tool, dict):
        said = tool.get("function")
        get = (said if isinstance(said, dict) else tool).get
        return id(tool), str(get("name")), str(get("description")), id(get("parameters"))
    schema = getattr(tool, "args_schema", None)
    return id(tool), str(getattr(tool, "name", "")), str(getattr(tool, "description", "")), id(schema)


class MemoryNode(Runnable[Any, Any]):
    """The memory node of a graph whose model node is known."""

    def __init__(self, memory: MemoryMiddleware, spec: Spec | None) -> None:
        self.memory, self.spec = memory, spec

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, Any]:
        return self.memory.update(input, config, self.spec)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, Any]:
        return await self.memory.aupdate(input, config, self.spec)


class FlushNode(Runnable[Any, Any]):
    """Behind the last call of a turn: hands over what was said to be flushed, and waits for nothing."""

    def __init__(self, memory: MemoryMiddleware, spec: Spec | None) -> None:
        self.memory, self.spec = memory, spec

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, Any]:
        self.memory.flush(input, config, self.spec)
        return {}

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, Any]:
        await self.memory.aflush(input, config, self.spec)
        return {}


class ConsolidateNode(Runnable[Any, Any]):
    """Behind the flush of a turn: hands over the memory to be consolidated, and waits for nothing."""

    def __init__(self, memory: MemoryMiddleware, spec: Spec | None) -> None:
        self.memory, self.spec = memory, spec

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, Any]:
        self.memory.consolidate(input, config, self.spec)
        return {}

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, Any]:
        await self.memory.aconsolidate(input, config, self.spec)
        return {}


class ModelNode(Runnable[Any, Any]):
    """Sends system prompt and view to the model; returns its reply as a message update."""

    def __init__(self, memory: MemoryMiddleware, spec: Spec) -> None:
        self.memory, self.spec = memory, spec
        self._bound = with_tools(spec.model, spec.tools)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, Any]:
        try:
            return self._replied(self._bound.invoke(self._request(self.memory.sent(input, config)), config), config)
        except Exception as error:  # noqa: BLE001 - raised again unless it says that the context is too long
            failed = error
        outcome = self.memory.outcome(input, config, self.spec)
        retry = self.memory.retry_after(failed, outcome)
        again = self.memory.again(retry, outcome, failed)
        reply = self._limited(retry).invoke(self._request(again.decision.view.messages), config)
        return self._recovered(reply, retry, again, config)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, Any]:
        # The view is mostly at hand, but it may have to be rendered anew, and that takes its time.
        view = await asyncio.to_thread(self.memory.sent, input, config)
        try:
            return self._replied(await self._bound.ainvoke(self._request(view), config), config)
        except Exception as error:  # noqa: BLE001 - raised again unless it says that the context is too long
            failed = error
        outcome = await self.memory.aoutcome(input, config, self.spec)
        retry = self.memory.retry_after(failed, outcome)
        again = await self.memory.aagain(retry, outcome, failed)
        reply = await self._limited(retry).ainvoke(self._request(again.decision.view.messages), config)
        return self._recovered(reply, retry, again, config)

    def _request(self, view: list[BaseMessage]) -> list[BaseMessage]:
        return [self.spec.system_message, *view] if self.spec.system_message else view

    def _limited(self, retry: Retry) -> Model:
        return self._bound.bind(max_tokens=retry.max_tokens) if retry.max_tokens else self._bound

    def _replied(self, reply: Any, config: RunnableConfig | None) -> dict[str, Any]:
        self.memory.called(config)
        return {MESSAGES: [reply]}

    def _recovered(self, reply: Any, retry: Retry, outcome: Outcome, config: RunnableConfig | None) -> dict[str, Any]:
        self.memory.announce_recovery(retry, outcome)
        self.memory.learn(retry, outcome, reply)
        update = stored(outcome)
        return {**update, MESSAGES: [*update.get(MESSAGES, ()), *self._replied(reply, config)[MESSAGES]]}
