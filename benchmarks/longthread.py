"""A long thread for measuring time: a recording again and again, as an agent at work would grow it."""

from collections.abc import Sequence
from itertools import chain, count, islice
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langgraph_memory import MemoryMiddleware, RuntimeConfig
from langgraph_memory.context.record import merge_records
from langgraph_memory.state import MESSAGES, RECORD

from .peers import THREAD, Catch, Messages, request
from .recordings import Conversation
from .summariser import ScriptedSummariser

SLACK = 200
"""Messages beyond the size asked for, for the calls that follow."""


class Named(ScriptedSummariser):
    """Has a name, as every model of a provider does: looking for one that is missing takes longer."""

    model_name: str = "scripted"


MODEL = Named()


def growing(recording: Sequence[Conversation], size: int, calls: int) -> list[Messages]:
    """The same thread before each of `calls` calls in a row, the first of them at about `size` messages."""
    messages = list(islice(repeated(recording), size + SLACK))
    ends = (end for end in range(size, len(messages)) if isinstance(messages[end], AIMessage))
    return [messages[:end] for end in islice(ends, calls)]


def repeated(recording: Sequence[Conversation]) -> chain[BaseMessage]:
    """The conversations over and over, each time with ids of their own."""
    return chain.from_iterable(
        (renamed(message, turn) for message in conversation) for turn in count() for conversation in recording
    )


def renamed(message: BaseMessage, turn: int) -> BaseMessage:
    update: dict[str, Any] = {"id": f"{message.id}~{turn}"}
    if isinstance(message, AIMessage):
        update["tool_calls"] = [{**call, "id": f"{call['id']}~{turn}"} for call in message.tool_calls]
    if isinstance(message, ToolMessage):
        update["tool_call_id"] = f"{message.tool_call_id}~{turn}"
    return message.model_copy(update=update)


def read_anew(messages: Messages) -> Messages:
    """Equal messages that share no object with the given ones, as a checkpointer reads them."""
    serializer = JsonPlusSerializer()
    copies: Messages = serializer.loads_typed(serializer.dumps_typed(messages))
    return copies


class Ourselves:
    """A middleware object and the record of one thread, called in each of the ways there are."""

    def __init__(self, config: RuntimeConfig, record: dict[str, Any] | None = None) -> None:
        self.memory = MemoryMiddleware(config, model=MODEL)
        self.record = record or {}

    def state(self, history: Messages) -> dict[str, Any]:
        return {MESSAGES: history, RECORD: self.record}

    def node(self, history: Messages) -> Messages:
        """As a node, and the view for the model node."""
        self._keep(self.memory.invoke(self.state(history), THREAD))
        return self.memory.view(self.state(history), THREAD)

    async def anode(self, history: Messages) -> None:
        self._keep(await self.memory(self.state(history), THREAD))

    def hook(self, history: Messages) -> None:
        """As middleware of `create_agent`."""
        self._note(self.memory.wrap_model_call(request(MODEL, history, self.state(history)), Catch().sync))

    async def ahook(self, history: Messages) -> None:
        self._note(await self.memory.awrap_model_call(request(MODEL, history, self.state(history)), Catch()))

    def _note(self, response: Any) -> None:
        command = getattr(response, "command", None)
        self._keep(command.update if command else {})

    def _keep(self, update: dict[str, Any]) -> None:
        self.record = merge_records(self.record, update.get(RECORD))
