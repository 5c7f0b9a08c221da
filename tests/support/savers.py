"""Savers side by side, and graphs that do everything a saver has to stand."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import operator
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, RemoveMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, empty_checkpoint
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from langgraph_memory.threads.saver import ThreadSaver

SERDE = JsonPlusSerializer()


def config(thread_id: Any = "t-1", checkpoint_id: str | None = None, namespace: str = "") -> dict[str, Any]:
    names = {"thread_id": thread_id, "checkpoint_ns": namespace}
    return {"configurable": names | ({"checkpoint_id": checkpoint_id} if checkpoint_id else {})}


def exact(found: CheckpointTuple | None) -> Any:
    """A checkpoint in a form that is equal only if every byte of every value is."""
    if found is None:
        return None
    values = {channel: _dumped(value) for channel, value in found.checkpoint["channel_values"].items()}
    rest = {name: value for name, value in found.checkpoint.items() if name != "channel_values"}
    writes = [(task, channel, _dumped(value)) for task, channel, value in found.pending_writes or ()]
    fields = [_fields(value) for value in found.checkpoint["channel_values"].values()]
    return found.config, sorted(rest.items()), list(values.items()), fields, found.metadata, found.parent_config, writes


def _dumped(value: Any) -> Any:
    """The bytes of a value; a set has no order, so neither have the bytes of its parts."""
    if isinstance(value, set | frozenset):
        return type(value), sorted(map(SERDE.dumps_typed, value))
    return SERDE.dumps_typed(value)


def _fields(value: Any) -> Any:
    if isinstance(value, list):
        return [_fields(part) for part in value]
    return (type(value), sorted(value.model_fields_set)) if isinstance(value, BaseMessage) else type(value)


class Tee(BaseCheckpointSaver[str]):
    """Writes to the plain saver and to ours, and lets every read from both be the same."""

    def __init__(self, plain: AsyncSqliteSaver, ours: ThreadSaver) -> None:
        super().__init__(serde=plain.serde)
        self.plain, self.ours = plain, ours

    def get_next_version(self, current: str | None, channel: None) -> str:
        return self.plain.get_next_version(current, channel)

    async def aget_tuple(self, config: Any) -> CheckpointTuple | None:
        plain, ours = await self.plain.aget_tuple(config), await self.ours.aget_tuple(config)
        assert exact(plain) == exact(ours)
        return ours

    async def alist(self, config: Any, **options: Any) -> AsyncIterator[CheckpointTuple]:
        plain = [found async for found in self.plain.alist(config, **options)]
        ours = [found async for found in self.ours.alist(config, **options)]
        assert list(map(exact, plain)) == list(map(exact, ours))
        for found in ours:
            yield found

    # The plain saver waits for its lock before it looks at a value, which a node or a channel may change meanwhile.

    async def aput(self, config: Any, *values: Any) -> Any:
        args = config, *copy.deepcopy(values)
        plain, ours = await asyncio.gather(self.plain.aput(*args), self.ours.aput(*args))
        assert plain == ours
        return ours

    async def aput_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        args = config, copy.deepcopy(writes), task_id, task_path
        await asyncio.gather(self.plain.aput_writes(*args), self.ours.aput_writes(*args))

    async def aget_delta_channel_history(self, *, config: Any, channels: Sequence[str]) -> Any:
        plain = await self.plain.aget_delta_channel_history(config=config, channels=channels)
        ours = await self.ours.aget_delta_channel_history(config=config, channels=channels)
        assert _history(plain) == _history(ours)
        return ours


def _history(found: Any) -> Any:
    return {
        channel: sorted((name, SERDE.dumps_typed(value)) for name, value in h.items()) for channel, h in found.items()
    }


@asynccontextmanager
async def both(folder: Path) -> AsyncIterator[Tee]:
    async with (
        AsyncSqliteSaver.from_conn_string(str(folder / "plain.db")) as plain,
        ThreadSaver.from_conn_string(folder / "ours.db") as ours,
    ):
        await plain.setup()
        yield Tee(plain, ours)


# A graph that does what its input says


def reduced(state: list[AnyMessage], writes: Sequence[Any]) -> list[AnyMessage]:
    for write in writes:
        state = add_messages(state, write)  # type: ignore[assignment, arg-type]
    return state


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    delta: Annotated[list[AnyMessage], DeltaChannel(reduced, snapshot_frequency=3)]
    notes: Annotated[list[Any], operator.add]
    big: Any
    plan: list[Any]


async def act(state: State) -> Any:
    update: dict[str, Any] = {}
    for name, number in state.get("plan") or ():
        await ACTIONS[name](state.get("messages") or [], number, update)
    return update


async def _reply(messages: list[Any], number: int, update: dict[str, Any]) -> None:
    update.setdefault("messages", []).append(AIMessage(f"reply {number} " * number))


async def _replace(messages: list[Any], number: int, update: dict[str, Any]) -> None:
    if messages:
        old = messages[number % len(messages)]
        update.setdefault("messages", []).append(AIMessage(f"instead {number}", id=old.id))


async def _remove(messages: list[Any], number: int, update: dict[str, Any]) -> None:
    if messages:
        update.setdefault("messages", []).append(RemoveMessage(id=messages[number % len(messages)].id))


async def _remove_all(messages: list[Any], number: int, update: dict[str, Any]) -> None:
    kept = messages[-number:] if number % 2 else []
    update["messages"] = [RemoveMessage(id=REMOVE_ALL_MESSAGES), *kept]


async def _mutate(messages: list[Any], number: int, update: dict[str, Any]) -> None:
    if messages:
        message = messages[number % len(messages)]
        message.content = f"{message.content}, changed {number}"


async def _mutate_deep(messages: list[Any], number: int, update: dict[str, Any]) -> None:
    if messages:
        kept = messages[number % len(messages)].additional_kwargs.setdefault("deep", {"list": [1]})
        kept["list"][0] = True if kept["list"][0] == 1 and kept["list"][0] is not True else 1
        kept["list"].append({"number": number, "same": 1.0})


async def _whole(messages: list[Any], number: int, update: dict[str, Any]) -> None:
    update["messages"] = [*messages, AIMessage("the whole list again")]


async def _delta(messages: list[Any], number: int, update: dict[str, Any]) -> None:
    update.setdefault("delta", []).append(HumanMessage(f"delta {number}", id=f"d-{number % 4}"))


async def _notes(messages: list[Any], number: int, update: dict[str, Any]) -> None:
    update.setdefault("notes", []).extend([{"note": "n" * 100 * number}, number, (number, None)])


async def _big(messages: list[Any], number: int, update: dict[str, Any]) -> None:
    values = ["b" * 300, b"bytes" * 80, {"messages": messages, "one": AIMessage("x")}, None, {1: {2: "x" * 300}}, []]
    update["big"] = values[number % len(values)]


async def _ask(messages: list[Any], number: int, update: dict[str, Any]) -> None:
    answer = interrupt({"question": number, "text": "q" * 300 if number % 2 else "short"})
    update.setdefault("messages", []).append(HumanMessage(f"answered {answer}"))


ACTIONS = {
    "reply": _reply,
    "replace": _replace,
    "remove": _remove,
    "remove_all": _remove_all,
    "mutate": _mutate,
    "mutate_deep": _mutate_deep,
    "whole": _whole,
    "delta": _delta,
    "notes": _notes,
    "big": _big,
    "ask": _ask,
}


async def left(state: State) -> Any:
    return {"messages": [AIMessage("left")], "delta": [AIMessage("from the left")]}


async def right(state: State) -> Any:
    return {"messages": [AIMessage("right " * 60)], "notes": ["right"]}


async def inner(state: State) -> Any:
    if any(name == "ask" for name, _ in state.get("plan") or ()):
        interrupt("inside")
    return {"messages": [AIMessage("from inside")]}


def everything(checkpointer: Any) -> Any:
    """act → left and right at once → a subgraph that remembers."""
    sub = StateGraph(State)
    sub.add_node("inner", inner)
    sub.add_node("again", inner)
    sub.add_edge(START, "inner")
    sub.add_edge("inner", "again")
    builder = StateGraph(State)
    for name, node in {"act": act, "left": left, "right": right, "sub": sub.compile(checkpointer=True)}.items():
        builder.add_node(name, node)
    builder.add_edge(START, "act")
    for side in ("left", "right"):
        builder.add_edge("act", side)
    builder.add_edge(["left", "right"], "sub")
    builder.add_edge("sub", END)
    return builder.compile(checkpointer=checkpointer)


def given(plan: list[Any]) -> State:
    return {"messages": [HumanMessage("hello " * 20)], "plan": plan}


def answer(text: str) -> Command[Any]:
    return Command(resume=text)


class Swap:
    """A cipher that encrypts the same text differently every time, as real ones do."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        nonce = os.urandom(8)
        return "swap", nonce + self._turned(plaintext, nonce)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        assert ciphername == "swap"
        return self._turned(ciphertext[8:], ciphertext[:8])

    def _turned(self, data: bytes, nonce: bytes) -> bytes:
        stream = hashlib.shake_256(b"secret" + nonce).digest(len(data))
        return bytes(a ^ b for a, b in zip(data, stream, strict=True))


def checkpoint(number: int, **values: Any) -> Any:
    """A checkpoint whose id sorts by `number`."""
    made = empty_checkpoint()
    made["id"] = f"1f000000-0000-6000-8000-{number:012d}"
    made["channel_values"] = values
    made["channel_versions"] = dict.fromkeys(values, f"{number:032}.0")
    return made


def talk(count: int, start: int = 0) -> list[BaseMessage]:
    """`count` messages of 400 characters."""
    return [HumanMessage(f"{n} " * (400 // len(f"{n} ")), id=f"m-{n}") for n in range(start, start + count)]
