"""Runs recorded conversations through a real graph, with memory, checkpointer and a model that plays the recording.

    START → memory → model → (tools → memory | memory | END)

One run of the graph is one turn: the recorded human messages go in, the recorded replies and tool results come out of
the nodes. How far a thread has got is told by its messages alone, so a run that was killed goes on where it stopped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from langgraph_memory import LangGraphMemoryError, MemoryMiddleware, MemoryState, RuntimeConfig
from langgraph_memory.context.tokens import load_counter
from langgraph_memory.state import MESSAGES

from .errors import ThreadMismatchError
from .meter import Meter, Totals, figures_of
from .player import Player, Script
from .recordings import Recording
from .watch import Watch

DEFAULT_WINDOW = 32_000
LOOK_BACK = 12
"""Checkpoints between two calls of the model at most, with room to spare."""

Graph = CompiledStateGraph[Any, Any, Any, Any]
Step = Callable[[], None]


@dataclass(frozen=True)
class Outcome:
    """What became of one conversation."""

    thread_id: str
    file: str
    conversation: str
    totals: Totals
    resumed_at: int
    """Messages that were in the thread before."""
    complete: bool
    """Every recorded message is in the thread."""
    error: str | None = None
    """Why the conversation stopped before its end."""

    @property
    def sound(self) -> bool:
        return self.error is None and self.totals.sound

    def to_json(self) -> dict[str, Any]:
        names = {"thread_id": self.thread_id, "file": self.file, "conversation": self.conversation}
        state = {"resumed_at": self.resumed_at, "complete": self.complete, "error": self.error}
        return {**names, **self.totals.to_json(), **state}


def replay_config(config: RuntimeConfig, window: int | None, default: int) -> RuntimeConfig:
    """`config` for a replay: with a window, and nothing reserved for a system prompt and tools that are not sent.

    Nothing is spilled and nothing leaves the state either: the recording is the history, word for word, or a replay
    could not be gone on with.
    """
    values = config.model_dump()
    memory = values["memory"]
    configured = memory["context_window"]
    memory["context_window"] = window or (default if configured == "auto" else configured)
    memory["budget"] |= {"system_tokens": 0, "tools_tokens": 0}
    values["tools"]["spill_buffer"]["enabled"] = False
    values["persistence"]["state"] = "all"
    return RuntimeConfig.model_validate(values)


def window_of(memory: MemoryMiddleware) -> int:
    window = memory.config.memory.context_window
    return window if isinstance(window, int) else DEFAULT_WINDOW


class Replayer:
    """Plays one recording into one thread."""

    def __init__(self, memory: MemoryMiddleware, recording: Recording, thread_id: str, step: Step) -> None:
        self.recording, self.thread_id = recording, thread_id
        self.config: RunnableConfig = {
            "configurable": {"thread_id": thread_id},
            "recursion_limit": 3 * len(recording.messages) + 10,
        }
        self._model = ModelNode(memory, self._reply, step)
        self._graph = self._built(memory)

    def _built(self, memory: MemoryMiddleware) -> Graph:
        builder = StateGraph(MemoryState)
        builder.add_node("memory", memory)
        builder.add_node("model", self._model)
        builder.add_node("tools", self._tools)
        builder.add_edge("memory", "model")
        for node in (START, "model", "tools"):
            builder.add_conditional_edges(node, self._next, ["memory", "tools", END])
        return builder.compile(checkpointer=memory.saver)

    async def stored(self) -> list[BaseMessage]:
        """The messages the thread has. Raises `ThreadMismatchError` where the recording does not begin with them."""
        await refuse_delta(self._graph, self.config)
        messages: list[BaseMessage] = (await self._graph.aget_state(self.config)).values.get(MESSAGES, [])
        check_prefix(messages, self.recording, self.thread_id)
        return messages

    async def run(self) -> list[BaseMessage]:
        """Play what the thread does not have yet; returns all its messages."""
        snapshot = await self._graph.aget_state(self.config)
        messages: list[BaseMessage] = snapshot.values.get(MESSAGES, [])
        # Not `next`: it leaves out tasks that have finished, but whose results are not in a checkpoint yet.
        pending = bool(snapshot.tasks)
        if pending or len(messages) < len(self.recording.messages):
            await self._model.recollect(self._graph, self.config, messages)
        if pending:
            messages = (await self._graph.ainvoke(None, self.config))[MESSAGES]
        while len(messages) < len(self.recording.messages):
            inputs = self.recording.inputs(len(messages))
            messages = (await self._graph.ainvoke({MESSAGES: inputs}, self.config))[MESSAGES]
        return messages

    def _reply(self, history: Sequence[BaseMessage]) -> AIMessage:
        reply = self.recording.messages[len(history)]
        assert isinstance(reply, AIMessage)
        return reply

    async def _tools(self, state: MemoryState) -> dict[str, Any]:
        return {MESSAGES: self.recording.results(len(state["messages"]))}

    def _next(self, state: MemoryState) -> str:
        """The node that gives the next recorded message; END where it has to be put in, or there is none."""
        following = self.recording.messages[len(state["messages"]) :][:1]
        if following and isinstance(following[0], AIMessage):
            return "memory"
        return "tools" if following and isinstance(following[0], ToolMessage) else END


class ModelNode:
    """The hand-written model node of a replay: renders the view and sends it to the player."""

    def __init__(self, memory: MemoryMiddleware, script: Script, step: Step) -> None:
        self._memory, self._script, self._step = memory, script, step
        self._player: Player | None = None

    async def __call__(self, state: MemoryState) -> dict[str, Any]:
        # The thread's idle time is not told to the memory (`called`): a replay depends on nothing but its recording.
        view = self._memory.view(state)
        reply = await self._ready(state).ainvoke(view, history=state["messages"])
        self._step()
        return {MESSAGES: [reply]}

    async def recollect(self, graph: Graph, config: RunnableConfig, messages: Sequence[BaseMessage]) -> None:
        """Find out what an earlier run sent last, so that the figures go on as if nothing had happened."""
        calls = [position for position, message in enumerate(messages) if figures_of(message)]
        if not calls:
            return
        at: RunnableConfig | None = config
        for _ in range(LOOK_BACK):
            # From parent to parent: after a rewind, the checkpoints before in time are those of another branch.
            if at is None:
                return
            snapshot = await graph.aget_state(at)
            if snapshot.next == ("model",) and len(snapshot.values[MESSAGES]) == calls[-1]:
                view = self._memory.view(snapshot.values, snapshot.config)
                self._ready(snapshot.values).meter.remember(view)
                return
            at = snapshot.parent_config

    def _ready(self, state: Any) -> Player:
        if self._player is None:
            counter = load_counter(self._memory.report(state).counter)
            self._player = Player(script=self._script, meter=Meter(counter, window_of(self._memory)))
        return self._player


async def refuse_delta(graph: Graph, config: RunnableConfig) -> None:
    """Raise `ThreadMismatchError` for a thread whose messages are stored as a replay does not store them any more."""
    assert isinstance(graph.checkpointer, BaseCheckpointSaver)
    saved = await graph.checkpointer.aget_tuple(config)
    if saved is None or MESSAGES not in saved.checkpoint["channel_versions"]:
        return
    if not isinstance(saved.checkpoint["channel_values"].get(MESSAGES), list):
        raise ThreadMismatchError(
            f"The thread {config['configurable']['thread_id']!r} keeps its messages in another kind of channel: it can "
            "be looked at, but not gone on with. Give another name with --thread."
        )


def check_prefix(stored: Sequence[BaseMessage], recording: Recording, thread_id: str) -> None:
    """Raise `ThreadMismatchError` where `recording` does not begin with the messages of the thread."""
    if len(stored) <= len(recording.messages):
        pairs = zip(stored, recording.messages, strict=False)
        differing = next((i for i, (mine, other) in enumerate(pairs) if _said(mine) != _said(other)), None)
    else:
        differing = len(recording.messages)
    if differing is not None:
        raise ThreadMismatchError(
            f"The thread {thread_id!r} holds another conversation: it differs from {recording.id!r} in "
            f"{recording.file} at message {differing}. Give another name with --thread."
        )


def _said(message: BaseMessage) -> str:
    names = ("id", "content", "tool_calls", "invalid_tool_calls", "tool_call_id")
    return json.dumps([message.type, *(getattr(message, name, None) for name in names)], default=repr, sort_keys=True)


async def replay(memory: MemoryMiddleware, recording: Recording, thread_id: str, watch: Watch) -> Outcome:
    """Replay `recording` into its thread, from where the thread stands."""
    replayer = Replayer(memory, recording, thread_id, watch.step)
    before = await replayer.stored()
    length = len(recording.messages)
    watch.begin(thread_id, len(before), length, Totals.of(before).calls)
    error = None
    try:
        messages = await replayer.run()
    except LangGraphMemoryError as problem:
        messages, error = await replayer.stored(), str(problem)
    totals, complete = Totals.of(messages), len(messages) == length
    return Outcome(thread_id, str(recording.file), recording.id, totals, len(before), complete, error)
