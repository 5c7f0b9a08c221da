"""The memory policies that are compared, each set up as its documentation says and on a state as it really holds it.

All get the same model, the same window and the same budget: a summary at 70 % of the window, of which 40 %, and at most
20,000 tokens, are kept as they are where a policy has such a setting. System messages are a system prompt, which none
of them touches.
"""

import hashlib
import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware, SummarizationMiddleware
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime

from langgraph_memory import MemoryMiddleware, RuntimeConfig
from langgraph_memory.context.record import merge_records
from langgraph_memory.state import MESSAGES, RECORD

from .texts import ENCODING

Messages = list[BaseMessage]
THREAD: RunnableConfig = {"configurable": {"thread_id": "benchmark"}}
REPLY = AIMessage("ok")
MOST_KEPT = 20_000


@dataclass(frozen=True)
class Setting:
    """What a policy is given for one conversation."""

    model: BaseChatModel
    window: int
    folder: Path
    """For files; it outlives the conversation."""

    @property
    def trigger(self) -> int:
        return int(0.7 * self.window)

    @property
    def kept(self) -> int:
        return min(MOST_KEPT, int(0.4 * self.window))


class Policy(ABC):
    """Shows the model a view of a growing conversation."""

    @abstractmethod
    async def view(self, history: Sequence[BaseMessage]) -> Messages:
        """What is sent after `history`, which begins with that of the call before."""

    async def rest(self) -> None:  # noqa: B027 - most do nothing
        """What is done in the background while the model answers."""


class Raw(Policy):
    """Everything, always."""

    def __init__(self, _: Setting) -> None: ...

    async def view(self, history: Sequence[BaseMessage]) -> Messages:
        return list(history)


class LangChain(Policy):
    """`SummarizationMiddleware`, which removes what it has summarised from the state, and `ContextEditingMiddleware`.

    As in an agent, tool results are cleared for the one call only, above half the window.
    """

    def __init__(self, setting: Setting) -> None:
        self._model, self._system, self.state, self._seen = setting.model, Messages(), Messages(), 0
        self._summarization = SummarizationMiddleware(
            setting.model,
            trigger=("tokens", setting.trigger),
            keep=("tokens", setting.kept),
            trim_tokens_to_summarize=None,
        )
        self._editing: Any = ContextEditingMiddleware(edits=[clearing(setting.window)])

    async def view(self, history: Sequence[BaseMessage]) -> Messages:
        system, new = divided(history[self._seen :])
        self._seen = len(history)
        self._system += system
        self._reduce(new)
        update = await self._summarization.abefore_model({"messages": self.state}, Runtime())  # type: ignore[typeddict-item]
        self._reduce(update["messages"] if update else [])
        return self._system + await self._edited()

    def _reduce(self, messages: Messages) -> None:
        self.state = add_messages(self.state, messages)  # type: ignore[arg-type, assignment]

    async def _edited(self) -> Messages:
        catch = Catch()
        await self._editing.awrap_model_call(request(self._model, self.state), catch)
        return catch.messages


def clearing(window: int) -> ClearToolUsesEdit:
    return ClearToolUsesEdit(trigger=window // 2, keep=3)


class DeepAgents(Policy):
    """The `SummarizationMiddleware` of deepagents, which keeps the messages and an event that says what it cut off."""

    def __init__(self, setting: Setting) -> None:
        with _imports():
            from deepagents.backends import FilesystemBackend
            from deepagents.middleware.summarization import SummarizationMiddleware
        folder = tempfile.mkdtemp(dir=setting.folder)
        self._model = setting.model
        self._middleware: Any = SummarizationMiddleware(
            model=setting.model,
            backend=FilesystemBackend(root_dir=folder, virtual_mode=True),
            trigger=("tokens", setting.trigger),
            keep=("tokens", setting.kept),
            trim_tokens_to_summarize=None,
        )
        self.state: dict[str, Any] = {"_summarization_session_id": SESSION}

    async def view(self, history: Sequence[BaseMessage]) -> Messages:
        system, messages = divided(history)
        catch = Catch()
        call = request(self._model, messages, {"messages": messages, **self.state})
        response = await self._middleware.awrap_model_call(call, catch)
        command = getattr(response, "command", None)
        if command is not None:
            self.state |= {name: value for name, value in command.update.items() if name != "messages"}
        return system + catch.messages


SESSION = f"session_{hashlib.md5(b'benchmarks', usedforsecurity=False).hexdigest()}"
"""The middleware's random name of a session stands in its summaries; a fixed one makes the figures repeatable."""


class LangMem(Policy):
    """The `SummarizationNode` of langmem, which keeps a running summary beside the messages."""

    def __init__(self, setting: Setting) -> None:
        with _imports():
            from langmem.short_term import SummarizationNode  # type: ignore[import-untyped, unused-ignore]
        self._node = SummarizationNode(model=setting.model, max_tokens=setting.trigger)
        self.context: dict[str, Any] = {}

    async def view(self, history: Sequence[BaseMessage]) -> Messages:
        system, messages = divided(history)
        with warnings.catch_warnings():
            # It warns of a summary that is given more than it asked for, which the figures show.
            warnings.simplefilter("ignore", RuntimeWarning)
            update = await self._node.ainvoke({"messages": messages, "context": self.context})
        self.context = update.get("context", self.context)
        return [*system, *update["summarized_messages"]]


class Ours(Policy):
    """`MemoryMiddleware` as a node in front of the model, which keeps the messages and a record of decisions."""

    def __init__(self, setting: Setting, settings: Mapping[str, Any] | None = None) -> None:
        self._memory = MemoryMiddleware(our_config(setting.window, settings), model=setting.model)
        self.record: dict[str, Any] = {}

    async def view(self, history: Sequence[BaseMessage]) -> Messages:
        update = await self._memory(self._state(history), THREAD)
        self.record = merge_records(self.record, update.get(RECORD))
        return self._memory.view(self._state(history), THREAD)

    async def rest(self) -> None:
        await self._memory.adrain()

    def _state(self, history: Sequence[BaseMessage]) -> dict[str, Any]:
        return {MESSAGES: list(history), RECORD: self.record}


def our_config(window: int, settings: Mapping[str, Any] | None = None) -> RuntimeConfig:
    """The defaults or these settings, with nothing reserved for a system prompt and tools, which are not sent."""
    budget = {"system_tokens": 0, "tools_tokens": 0, "response_tokens": window // 8}
    memory = {"context_window": window, "tokenizer": ENCODING, "budget": budget, **(settings or {})}
    return RuntimeConfig.model_validate({"memory": memory})


POLICIES: dict[str, Callable[[Setting], Policy]] = {
    "raw": Raw,
    "langchain": LangChain,
    "deepagents": DeepAgents,
    "langmem": LangMem,
    "ours": Ours,
}


class Catch:
    """A model call that keeps what it was sent."""

    def __init__(self) -> None:
        self.messages = Messages()

    async def __call__(self, call: ModelRequest[Any]) -> ModelResponse[Any]:
        return self.sync(call)

    def sync(self, call: ModelRequest[Any]) -> ModelResponse[Any]:
        self.messages = list(call.messages)
        return ModelResponse(result=[REPLY])


def request(model: BaseChatModel, messages: Messages, state: dict[str, Any] | None = None) -> ModelRequest[Any]:
    """The request `create_agent` would make."""
    held: Any = {"messages": messages} if state is None else state
    return ModelRequest(model=model, messages=list(messages), state=held, runtime=Runtime())  # type: ignore[arg-type]


def divided(messages: Sequence[BaseMessage]) -> tuple[Messages, Messages]:
    """System messages, and the others."""
    return (
        [message for message in messages if isinstance(message, SystemMessage)],
        [message for message in messages if not isinstance(message, SystemMessage)],
    )


def _imports() -> AbstractContextManager[Any]:
    """Peers import names that newer LangGraph has moved."""
    return warnings.catch_warnings(action="ignore")
