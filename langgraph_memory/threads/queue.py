"""`ThreadQueue`: what has to be said to a thread while a run of it is busy, or before the next one begins.

Any process that opens the file may `put` messages at any time. A run takes them in before its next model call (see
`followups`); what comes after its last one waits for the next run.

- Nothing is lost: a message stays in the queue until a checkpoint that holds it is written, and goes in the same
  transaction. A process that is killed in between leaves it for the next run.
- Nothing is said twice: a message keeps the id it got in `put`, by which `add_messages` knows it. Putting an id again
  replaces the message as long as it waits; where the thread has it already, it does nothing.
- Two runs of one thread at once take in the same messages, each in its own branch, as neither can know which branch
  will be the thread. The first checkpoint acknowledges them.
- A thread's queue goes with the thread, and is not copied with it.

Which messages a checkpoint holds is seen in lists of messages. A delta channel stores them bit by bit; there the queue
looks into the thread when it is asked next. Graphs inside acknowledge nothing as long as their messages have not
reached the thread's own state, so messages should be taken in by a graph whose messages get there.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    MessageLikeRepresentation,
    SystemMessage,
    convert_to_messages,
)

from ..context.groups import KIND
from ..errors import UnknownThreadError, UnstorableError
from . import frames, waiting
from .chains import pieces
from .codec import Codec, is_ours
from .ids import thread_text
from .saver import ThreadSaver, thread_saver
from .schema import reading
from .store import ThreadStore
from .values import CHAIN

Kind = Literal["message", "notification"]

KINDS = ("message", "notification")
MESSAGES = "messages"
NEWEST = (
    "SELECT type, checkpoint FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = '' "
    "ORDER BY checkpoint_id DESC LIMIT 1"
)
LINKS = "SELECT message_id FROM lgm_links WHERE chain = ? AND position >= ? AND position < ?"


class ThreadQueue:
    """The messages that wait for the threads of `saver`. `channel` is where their graphs keep messages."""

    def __init__(self, saver: ThreadSaver, *, channel: str = MESSAGES) -> None:
        self.saver, self.channel = thread_saver(saver, "ThreadQueue"), channel

    async def put(
        self,
        thread_id: Any,
        messages: MessageLikeRepresentation | Sequence[MessageLikeRepresentation],
        *,
        kind: Kind = "message",
    ) -> list[str]:
        """Add a message, or a list of them, to the end of a thread's queue; their ids.

        Takes what LangChain takes for a message; a text is a human message. A `notification` is something the program
        has to say, not the person: it reaches the model like any other message, with `lgm_kind` in its
        `additional_kwargs`. The thread need not exist yet. Raises `UnstorableError` for what cannot follow any message:
        tool results, tool calls and removals.
        """
        name = thread_text(thread_id)
        if kind not in KINDS:
            raise ValueError(f"There is no kind {kind!r} of queued message: use 'message' or 'notification'.")
        queued = [_queued(message, kind) for message in _converted(messages)]
        await self.saver.call(waiting.add, self.saver.codec, name, kind, queued)
        return [str(message.id) for message in queued]

    async def waiting(self, thread_id: Any) -> list[BaseMessage]:
        """What no stored checkpoint of the thread holds yet, in the order it was put."""
        name = thread_text(thread_id)
        found = await self.saver.call(waiting.messages, self.saver.codec, name)
        stored = await self._stored(name) if found else set()
        await self.saver.call(waiting.remove, name, [message.id for message in found if message.id in stored])
        return [message for message in found if message.id not in stored]

    async def take(self, thread_id: Any, held_ids: Collection[str | None]) -> list[BaseMessage]:
        """What waits and is not among the messages a run has, in order. It waits on until it is stored."""
        return [message for message in await self.waiting(thread_id) if message.id not in held_ids]

    async def clear(self, thread_id: Any) -> None:
        """Take back everything that waits."""
        await self.saver.call(waiting.clear, thread_text(thread_id))

    async def follow_ups(self, state: Any, config: Mapping[str, Any] | None) -> dict[str, Any]:
        """The state update that takes in what waits, {} where nothing does or the run has no thread."""
        thread_id = ((config or {}).get("configurable") or {}).get("thread_id")
        if thread_id is None:
            return {}
        held = state.get(self.channel) if isinstance(state, Mapping) else getattr(state, self.channel, None)
        taken = await self.take(thread_id, {getattr(message, "id", None) for message in held or ()})
        return {self.channel: taken} if taken else {}

    async def _stored(self, thread_id: str) -> Collection[str | None]:
        """The ids of the messages in the newest checkpoint of a thread."""
        found = await self.saver.call(_chain_ids, self.saver.codec, thread_id, self.channel)
        if found is not None:
            return found
        try:
            messages = await ThreadStore(self.saver).messages(thread_id, channel=self.channel)
        except UnknownThreadError:
            return set()
        return {message.id for message in messages}


def _chain_ids(db: sqlite3.Connection, codec: Codec, thread_id: str, channel: str) -> set[str | None] | None:
    """The ids of a channel in the newest checkpoint; None where its messages have to be built to know them."""
    with reading(db):
        row = db.execute(NEWEST, (thread_id,)).fetchone()
        if row is None:
            return set()
        form = frames.frame(codec, *row).forms.get(channel) if is_ours(row[0]) else None
        if form is None or form[0] != CHAIN or codec.encrypts:
            return None
        return {id for piece in pieces(db, form[1], form[2]) for (id,) in db.execute(LINKS, piece)}


def _converted(given: Any) -> list[BaseMessage]:
    """One message, or several, as messages."""
    is_pair = isinstance(given, tuple) and len(given) == 2 and all(isinstance(part, str) for part in given)
    is_one = is_pair or isinstance(given, str | Mapping | BaseMessage)
    try:
        return convert_to_messages([given] if is_one else list(given))
    except (TypeError, ValueError, NotImplementedError) as error:
        raise UnstorableError(f"{given!r} is no message, so it cannot wait for a run: {error}") from error


def _queued(message: BaseMessage, kind: Kind) -> BaseMessage:
    """A copy with an id."""
    calls = isinstance(message, AIMessage) and (message.tool_calls or message.invalid_tool_calls)
    if calls or not isinstance(message, HumanMessage | AIMessage | SystemMessage):
        raise UnstorableError(
            f"A {type(message).__name__}{' with tool calls' if calls else ''} cannot wait for a run, as it cannot "
            f"follow any message: {message!r}. Queue human, system or assistant messages without tool calls."
        )
    marked = {**message.additional_kwargs, KIND: kind} if kind != "message" else message.additional_kwargs
    return message.model_copy(update={"id": message.id or str(uuid.uuid4()), "additional_kwargs": marked})
