"""What a graph has to carry: its messages, and the record of decisions about what the model sees of them."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, Required

from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import AnyMessage
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict

from .context.record import merge_records

MESSAGES = "messages"
RECORD = "memory_record"


class MemoryState(TypedDict):
    """State schema of a graph with memory; extend it with your own channels.

    Give the graph `input_schema=MessagesState` so that clients cannot send a record of their own.
    """

    messages: Required[Annotated[list[AnyMessage], add_messages]]
    memory_record: NotRequired[Annotated[dict[str, Any], PrivateStateAttr, merge_records]]
