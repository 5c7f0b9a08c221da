"""The state of the graphs the command line builds: messages in a delta channel, and the record of decisions.

A plain messages channel stores the whole list at every step; a delta channel stores what was added, and now and then
everything. It also reads threads that a plain channel wrote.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Annotated, Any, NotRequired, Required

from langchain_core.messages import AnyMessage, BaseMessage, RemoveMessage, convert_to_messages
from langgraph.channels.delta import DeltaChannel
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from typing_extensions import TypedDict

from langgraph_memory.context.record import merge_records

SNAPSHOT_FREQUENCY = 50


def fold(state: Sequence[Any], writes: Sequence[Any]) -> list[BaseMessage]:
    """`state` with all `writes` applied in order: added, replaced by id, or removed.

    As a delta channel needs it, the result does not depend on how the writes are batched.
    """
    held: dict[Hashable, BaseMessage] = {}
    for write in (state, *writes):
        for message in convert_to_messages(write if isinstance(write, list) else [write]):
            if not isinstance(message, RemoveMessage):
                held[object() if message.id is None else message.id] = message
            elif message.id == REMOVE_ALL_MESSAGES:
                held.clear()
            else:
                held.pop(message.id, None)
    return list(held.values())


class DeltaState(TypedDict):
    """Like `langgraph_memory.MemoryState`."""

    messages: Required[Annotated[list[AnyMessage], DeltaChannel(fold, snapshot_frequency=SNAPSHOT_FREQUENCY)]]
    memory_record: NotRequired[Annotated[dict[str, Any], merge_records]]
