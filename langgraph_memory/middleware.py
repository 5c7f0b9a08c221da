"""`MemoryMiddleware`: decides before every model call what the model sees, and keeps the decision in the state.

The same object works in three places. As a graph node it returns the record update; as `create_agent` middleware it
decides and renders around the model call; called by hand it does what the node does. In all of them a call goes

    messages, record → history → scope → budget → decide ⇄ summariser → record update, view, events

and everything but the summariser and the events is pure (`langgraph_memory.context`). The object keeps nothing but
bounded caches and the summariser's breaker; losing them changes cost, never a view.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, cast
from weakref import WeakSet

from langchain.agents.middleware.types import (
    AgentMiddleware,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    ToolCallRequest,
)
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, BaseMessage, convert_to_messages
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.errors import InvalidUpdateError
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import tools_condition
from langgraph.types import Command

from .arguments import check_compacted, check_given
from .background import Background
from .cache import FileCache
from .caches import Caches, Known
from .config import RuntimeConfig
from .context.explain import ExplainedView, explained
from .context.history import History
from .context.learn import answering_model
from .context.memories import remembering
from .context.render import render
from .context.report import ContextReport, report
from .deciding import Decider
from .earlier import StoredMessages
from .errors import ContextBudgetError, LangGraphMemoryError, RecordMissingError, ThreadBusyError, described
from .events import Listener, fresh_for, heard_by
from .homes import Homes
from .long_memory import LongTerm, extended
from .longterm.retrieve import Retriever
from .longterm.workspace import Workspace
from .models import Model, model_name, resolve_embeddings, resolve_model
from .nodes import ConsolidateNode, FlushNode, MemoryNode, ModelNode, Overheads, Spec
from .opening import Opening, as_config, check_config
from .place import current_place, place_of
from .recall import make_recall_tool
from .recovery import Retry, retry_after
from .sidebranches import SideBranches
from .spill import SpillStore
from .spilling import Spiller, spill_folder
from .state import MESSAGES, RECORD, MemoryState
from .steps import Call, Measure, Outcome, Stepper, stored, unknown
from .summariser import Summariser
from .ties import ThreadTies
from .upkeep import Upkeep
from .wiring import check

logger = logging.getLogger(__name__)

NAME = "langgraph_memory"
DRAIN_SECONDS = 5.0
"""How long leaving `open()` waits for what is under way in the background."""


class MemoryMiddleware(AgentMiddleware[Any, Any, Any], Runnable[Any, Any]):
    """Context memory for LangGraph agents: node, `create_agent` middleware and callable in one.

    Args:
        config: a `RuntimeConfig`, a mapping or a path; None means the defaults.
        model: the model for side calls (summaries), an object or `provider:name`; without it the model of the call
            is used, and in a bare node summaries are extracted without a model.
        saver: what `memory.saver` gives; `open()` makes an `AsyncSqliteSaver`.
        workspace: folder for what outlives a run, or a `Workspace` in it: bought summaries in its `cache.db`, spilled
            tool results, long-term memory. `open()` takes it from `persistence.workspace`; without it nothing is
            spilled or remembered, and nothing touches the disk.
        embeddings: an embedding model for searching memories by their meaning too; needs numpy.
        on_event: a plain function, called with every `MemoryEvent`.
        name: as what `create_agent` knows it. A deep agent takes one that is named `"SummarizationMiddleware"` in place
            of its own summariser.
        inline: whether a run waits for what is done beside it, the extraction and merging of memories; for scripts
            that end with the run.

    Raises `ConfigError` for a configuration or a model name that cannot be used, and `LangGraphMemoryError` for a
    saver, embeddings or a listener that are none.
    """

    state_schema = MemoryState
    opening: Any = None
    """What keeps files and database open, where `open()` made this."""

    def __init__(
        self,
        config: RuntimeConfig | Mapping[str, Any] | str | None = None,
        *,
        model: Model | str | None = None,
        saver: BaseCheckpointSaver[Any] | None = None,
        workspace: str | PathLike[str] | Workspace | None = None,
        embeddings: Embeddings | None = None,
        on_event: Listener | None = None,
        name: str = NAME,
        inline: bool = False,
    ) -> None:
        check_given(saver, embeddings, on_event)
        self._name = name
        self.config = RuntimeConfig() if config is None else as_config(config)
        self.saver = saver
        self.workspace = _folder(workspace)
        spill = self.config.tools.spill_buffer
        store = SpillStore(spill_folder(self.config, self.workspace)) if self.workspace and spill.enabled else None
        self._spiller = Spiller(store, spill)
        # Only where a saver keeps the history may messages leave the list.
        self._leaves = saver is not None and self.config.persistence.state == "since_summary"
        earlier = StoredMessages(saver) if saver and self._leaves else None
        settings = self.config.memory
        named = resolve_model(settings.compaction.model, "memory.compaction.model")
        self._side_model = named or resolve_model(model, "model")
        self._caches = Caches()
        self._nodes: WeakSet[ModelNode] = WeakSet()
        self._overheads = Overheads()
        self._steps = Stepper(settings, self._caches, on_event, leaves=self._leaves)
        cache = FileCache(self.workspace / "cache.db") if self.workspace else None
        if cache is None:
            logger.info("Without a workspace bought summaries are kept in this process only, and nothing is spilled.")
        self._heard = heard_by(on_event)
        summariser = Summariser(timeout=settings.compaction.timeout_seconds, cache=cache, heard=self._heard)
        self._threads = ThreadTies(saver, self._steps.branched)
        self.background = Background(fresh_for(on_event))
        vectors = resolve_embeddings(settings.retrieval.embeddings, embeddings)
        homes = Homes(self.workspace, settings.namespace, vectors)
        branches = SideBranches(
            settings,
            homes,
            self.background,
            model=self._side_model,
            cache=cache,
            saver=saver,
            listener=on_event,
            inline=inline,
        )
        self.longterm = LongTerm(settings, homes, self._steps, branches, saver)
        self.tools: Sequence[BaseTool] = [make_recall_tool(store, earlier), *self.longterm.tools]
        self._decider = Decider(
            self.config, self._steps, summariser, self._side_model, self.workspace, self.background, self.longterm
        )

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name in `create_agent` and traces; not `MemoryMiddleware`, which deepagents would replace."""
        return self._name

    @classmethod
    def open(
        cls, config: RuntimeConfig | Mapping[str, Any] | str | None = None, **arguments: Any
    ) -> Opening[MemoryMiddleware]:
        """Open with files and database: `async with MemoryMiddleware.open("runtime.json", model=…) as memory`.

        Takes the arguments of the constructor; `config` None is found as `RuntimeConfig.load` says. Also works as a
        sync context manager.
        """

        def build(loaded: RuntimeConfig, saver: BaseCheckpointSaver[Any]) -> MemoryMiddleware:
            return cls(loaded, **{"saver": saver, "workspace": loaded.persistence.workspace, **arguments})

        check_config(config)
        # With another saver or workspace nobody here knows which spill files are still referred to.
        return Opening(cls, config, build, sweeps=not {"saver", "workspace"} & arguments.keys())

    # In a graph

    def attach(
        self, builder: StateGraph[Any, Any, Any, Any], *, model: str = "model", tools: str | None = "tools"
    ) -> None:
        """Add the memory node and the edges START → memory → model → (tools → memory | flush → consolidate → END).

        `model` and `tools` are names of nodes that `builder` has; without a tools node the model leads to the end.
        Without a workspace, or where turns are not flushed, the model or the tools condition leads to END at once.

        Raises `LangGraphMemoryError`, and adds nothing, for a node that is not there, for a model node with tools that
        no node runs (unless `tools` is None), and for edges of the graph's own from START or the tools to the model,
        or from the model to the tools.
        """
        ends = self._ends()
        check(builder, model, tools, ["memory", *ends])
        node = builder.nodes[model].runnable
        spec = node.spec if isinstance(node, ModelNode) else None
        builder.add_node("memory", MemoryNode(self, spec))
        builder.add_edge(START, "memory")
        builder.add_edge("memory", model)
        end = END
        for name, kind in ends.items():
            builder.add_node(name, kind(self, spec))
            builder.add_edge(name, end)
            end = name
        if tools is None or tools not in builder.nodes:
            builder.add_edge(model, end)
            return
        builder.add_conditional_edges(model, tools_condition, {"tools": tools, END: end})
        builder.add_edge(tools, "memory")

    def _ends(self) -> dict[str, type[FlushNode] | type[ConsolidateNode]]:
        """The nodes in front of END: the side branches as far as they are on, the last one first."""
        if not self.longterm.branches.flushes_turns:
            return {}
        last = {"consolidate": ConsolidateNode} if self.longterm.branches.consolidates else {}
        return {**last, "flush": FlushNode}

    def model_node(
        self, model: Model | str, *, tools: Sequence[Any] = (), system_prompt: str | None = None
    ) -> ModelNode:
        """A node that sends system prompt and view to `model` with `tools` bound, and returns its reply."""
        resolved = resolve_model(model, "model")
        if not isinstance(resolved, Runnable):
            raise LangGraphMemoryError(
                f"model_node was given {described(resolved)}; allowed: a chat model, or provider:name."
            )
        spec = Spec(resolved, tuple(tools), system_prompt)
        node = ModelNode(self, spec)
        self._nodes.add(node)
        return node

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, Any]:
        """The node, sync: the record update, {} when nothing changed."""
        return self.update(input, config)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, Any]:
        """The node, async: the record update, {} when nothing changed."""
        return await self.aupdate(input, config)

    def update(self, state: Any, config: RunnableConfig | None, spec: Spec | None = None) -> dict[str, Any]:
        """The state update for the call that `spec` describes: the record, and results that had to be spilled."""
        call = self._call(state, config, spec)
        taken = self._threads.waiting_sync(call, config)
        call = replace(call, messages=(*call.messages, *taken))
        spilled, notes = self._spiller.replaced(call.messages)
        self._steps.spilled(call.place, notes, call.started)
        outcome = self._decided(self._decider.decided(_after(call, spilled)))
        self._steps.look_out(outcome, state)
        self._decider.prefetch(outcome)
        return _with_messages(self._finished(outcome), spilled, taken)

    async def aupdate(self, state: Any, config: RunnableConfig | None, spec: Spec | None = None) -> dict[str, Any]:
        call = self._call(state, config, spec)
        taken = await self._threads.waiting(call, config)
        call = replace(call, messages=(*call.messages, *taken))
        spilled, notes = await asyncio.to_thread(self._spiller.replaced, call.messages)
        self._steps.spilled(call.place, notes, call.started)
        outcome = self._decided(await self._decider.adecided(_after(call, spilled)))
        self._steps.look_out(outcome, state)
        self._decider.aprefetch(outcome)
        return _with_messages(self._finished(outcome), spilled, taken)

    # At the end of a turn

    def flush(self, state: Any, config: RunnableConfig | None, spec: Spec | None = None) -> None:
        """Have a turn that has ended flushed into the ledger."""
        call = self._call(state, config, spec)
        self.longterm.ended(call.place, self._history(call), call.model)

    async def aflush(self, state: Any, config: RunnableConfig | None, spec: Spec | None = None) -> None:
        call = self._call(state, config, spec)
        await self.longterm.aended(call.place, await asyncio.to_thread(self._history, call), call.model)

    def consolidate(self, state: Any, config: RunnableConfig | None, spec: Spec | None = None) -> None:
        """Have what is new in the ledger merged into MEMORY.md, unless that was done just now."""
        call = self._call(state, config, spec)
        self.longterm.branches.consolidate(call.place, self._history(call).counter, call.model)

    async def aconsolidate(self, state: Any, config: RunnableConfig | None, spec: Spec | None = None) -> None:
        call = self._call(state, config, spec)
        history = await asyncio.to_thread(self._history, call)
        await self.longterm.branches.aconsolidate(call.place, history.counter, call.model)

    def _history(self, call: Call) -> History:
        """The messages of a call with their keys and digests."""
        counter = self.config.memory.tokenizer, model_name(call.model)
        return self._steps.looked_at(call.messages, call.record or {}, call.place, counter).history

    def outcome(self, state: Any, config: RunnableConfig | None, spec: Spec | None) -> Outcome:
        """The decision for the call that `spec` describes."""
        return self._decided(self._decider.decided(self._call(state, config, spec)))

    async def aoutcome(self, state: Any, config: RunnableConfig | None, spec: Spec | None) -> Outcome:
        return self._decided(await self._decider.adecided(self._call(state, config, spec)))

    def _decided(self, outcome: Outcome) -> Outcome:
        self._caches.touch(outcome.call.place)
        return outcome

    def called(self, config: RunnableConfig | None) -> None:
        """Note that the thread's model has just answered, so the provider's prompt cache is warm."""
        self._caches.touch(place_of(config) if config else current_place())

    async def __call__(self, state: Any, config: RunnableConfig | None = None) -> dict[str, Any]:
        """What the node does, also outside a run; a plain dict is enough as config."""
        return await self.ainvoke(state, config)

    # In create_agent

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> Any:
        outcome = self._decider.decided(self._request_call(request))
        self._steps.look_out(outcome, request.state, request.model_settings)
        self._decider.prefetch(outcome)
        try:
            response = handler(_with_view(request, outcome))
        except Exception as error:  # noqa: BLE001 - raised again unless it says that the context is too long
            failed = error
        else:
            return self._ended(outcome, response)
        retry = self.retry_after(failed, outcome)
        outcome = self.again(retry, outcome, failed)
        response = handler(_with_view(request, outcome, retry))
        self._note_recovery(retry, outcome, response)
        return self._ended(outcome, response)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> Any:
        outcome = await self._decider.adecided(self._request_call(request))
        self._steps.look_out(outcome, request.state, request.model_settings)
        self._decider.aprefetch(outcome)
        try:
            response = await handler(_with_view(request, outcome))
        except Exception as error:  # noqa: BLE001 - raised again unless it says that the context is too long
            failed = error
        else:
            return await self._aended(outcome, response)
        retry = self.retry_after(failed, outcome)
        outcome = await self.aagain(retry, outcome, failed)
        response = await handler(_with_view(request, outcome, retry))
        self._note_recovery(retry, outcome, response)
        return await self._aended(outcome, response)

    # Around a tool call

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        """Run the tool and spill a result that is too large; also for `ToolNode(wrap_tool_call=…)`."""
        result, tool = handler(request), request.tool_call["name"]
        if not self._spiller.wants(result, tool):
            return result
        started = time.perf_counter()
        short, notes = self._spiller.spill(result, tool)
        self._steps.spilled(current_place(), notes, started)
        return short

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """As `wrap_tool_call`, for `ToolNode(awrap_tool_call=…)`."""
        result, tool = await handler(request), request.tool_call["name"]
        if not self._spiller.wants(result, tool):
            return result
        started = time.perf_counter()
        short, notes = await asyncio.to_thread(self._spiller.spill, result, tool)
        self._steps.spilled(current_place(), notes, started)
        return short

    # After a refusal

    def retry_after(self, error: Exception, outcome: Outcome) -> Retry:
        """How to make a refused call once more; raises `error` where that cannot help."""
        retry = retry_after(error, outcome, enabled=self.config.memory.compaction.enabled)
        if retry is None:
            raise error
        return retry

    def learn(self, retry: Retry, outcome: Outcome, reply: Any) -> None:
        """Remember the window that the provider named, if the model that was called is the one that answered."""
        called, answered = model_name(outcome.call.model) or "", answering_model([reply])
        if retry.overflow.limit and (not answered or answered.startswith(called) or called.startswith(answered)):
            self._steps.window_named(outcome.call.model, retry.overflow.limit)

    def again(self, retry: Retry, outcome: Outcome, error: Exception) -> Outcome:
        """The decision for the second try; raises `error` where the view cannot be made smaller."""
        if retry.call is None:
            return outcome
        try:
            return _smaller(self._decider.decided(retry.call), outcome, error)
        except ContextBudgetError:
            raise error from None

    async def aagain(self, retry: Retry, outcome: Outcome, error: Exception) -> Outcome:
        if retry.call is None:
            return outcome
        try:
            return _smaller(await self._decider.adecided(retry.call), outcome, error)
        except ContextBudgetError:
            raise error from None

    # Looking

    def view(self, state: Any, config: RunnableConfig | None = None) -> list[BaseMessage]:
        """What the model is sent for `state`, without the system prompt of the model node. Pure.

        Raises `RecordMissingError` for a state without the record channel, such as the output of a graph.
        """
        return self._looked_at(state, config).view.messages

    def sent(self, state: Any, config: RunnableConfig | None) -> list[BaseMessage]:
        """The view for a call that is made now: somebody else than who began the turn may go on with it."""
        known = self._looked_at(state, config)
        place = place_of(config) if config else current_place()
        scope = remembering(known.scope, known.history, self.longterm.whose(place))
        return (known.view if scope is known.scope else render(known.history, scope)).messages

    def report(self, state: Any, config: RunnableConfig | None = None) -> ContextReport:
        """Where the window goes for `state`. Pure; raises as `view` does."""
        known = self._looked_at(state, config)
        return report(known.history, known.scope, self._steps.budget_then(known))

    def explain(self, state: Any, config: RunnableConfig | None = None, *, bought: str = "") -> ExplainedView:
        """What `view` gives, message by message, and why each part of it is there. Pure; raises as `view` does.

        `bought` says where the text of the summary is from, if that is known.
        """
        known = self._looked_at(state, config)
        budget = self._steps.budget_then(known)
        return explained(known.history, known.scope, budget, self.config.memory, bought=bought)

    async def compact(
        self, graph: Any, config: RunnableConfig, focus: str | None = None, *, as_node: str | None = None
    ) -> ContextReport:
        """Compact a thread of `graph` now, whatever the triggers say, and report on it.

        `focus` is what the summary should pay attention to; `as_node` is the node to write as, for a graph that ends
        in several nodes at once. Raises `ThreadBusyError` while the thread has pending tasks, because writing would
        drop them, and `LangGraphMemoryError` for a thread that does not exist or cannot be written.
        """
        check_compacted(graph, config)
        snapshot = await graph.aget_state(config)
        thread = (config.get("configurable") or {}).get("thread_id")
        if not snapshot.values:
            raise LangGraphMemoryError(f"There is no thread {thread!r} to compact.")
        # `next` leaves out tasks that have run but are not yet in a checkpoint; writing would drop their results too.
        if snapshot.tasks:
            names = ", ".join(task.name for task in snapshot.tasks)
            raise ThreadBusyError(f"The thread {thread!r} has pending tasks ({names}); finish or resume the run first.")
        call = replace(self._call(snapshot.values, config), force=True, focus=focus)
        outcome = await self._decider.adecided(call)
        update = self._finished(outcome)
        if not update:
            return self.report(snapshot.values, config)
        try:
            await graph.aupdate_state(config, update, as_node=as_node)
            if as_node is None and (await graph.aget_state(config)).next:
                # Written as a node that had ended the run by a jump: the jump is forgotten, so the run would go on.
                await graph.aupdate_state(config, None, as_node=END)
        except InvalidUpdateError as error:
            # The summary is kept, so the next try does not pay for it again.
            raise LangGraphMemoryError(
                f"The thread {thread!r} cannot be written: {error}. Say which node to write as: "
                "memory.compact(graph, config, as_node=…)."
            ) from error
        return self.report({**snapshot.values, MESSAGES: outcome.messages, RECORD: outcome.again().record}, config)

    def upkeep(self, *, spills: bool = False) -> Upkeep:
        """The regular round over what is on disk; `spills` says that every thread is in this saver's database."""
        return Upkeep(self, spills=spills, heard=self._heard)

    def retriever(self, config: RunnableConfig) -> Retriever | None:
        """Searches the long-term memory of a run and its thread together; None where that is off for it."""
        place = place_of(config)
        keeper = self.longterm.homes.of(place)
        return None if keeper is None else self.longterm.retriever(keeper, place)

    async def adrain(self, seconds: float = DRAIN_SECONDS) -> None:
        """Wait for what is under way in the background, at most `seconds`; leaving `open()` does it."""
        await self.background.drain(seconds)
        await asyncio.to_thread(self.longterm.homes.close)

    def drain(self, seconds: float = DRAIN_SECONDS) -> None:
        """As `adrain`, for programs without an event loop."""
        self.background.drain_sync(seconds)
        self.longterm.homes.close()

    # Outcomes

    def _finished(self, outcome: Outcome) -> dict[str, Any]:
        self._steps.announce(outcome)
        return stored(outcome)

    def _note_recovery(self, retry: Retry, outcome: Outcome, response: Any) -> None:
        self.announce_recovery(retry, outcome)
        for reply in response.result:
            self.learn(retry, outcome, reply)

    def _ended(self, outcome: Outcome, response: Any) -> Any:
        """The response; where it ends the turn, that is flushed."""
        if self.longterm.looks_back and _ends_turn(response):
            call, history = outcome.call, extended(outcome.history, response.result)
            self.longterm.ended(call.place, history, call.model)
            self.longterm.branches.consolidate(call.place, history.counter, call.model)
        return self._answered(outcome, response)

    async def _aended(self, outcome: Outcome, response: Any) -> Any:
        if self.longterm.looks_back and _ends_turn(response):
            call = outcome.call
            history = await asyncio.to_thread(extended, outcome.history, response.result)
            await self.longterm.aended(call.place, history, call.model)
            await self.longterm.branches.aconsolidate(call.place, history.counter, call.model)
        return self._answered(outcome, response)

    def announce_recovery(self, retry: Retry, outcome: Outcome) -> None:
        """Announce that the second try was answered."""
        how = f"max_tokens lowered to {retry.max_tokens}" if retry.max_tokens else "compacted harder"
        self._steps.recovered(outcome, how)

    def _answered(self, outcome: Outcome, response: Any) -> Any:
        self._caches.touch(outcome.call.place)
        self._steps.announce(outcome)
        update = stored(outcome)
        return ExtendedModelResponse(response, Command(update=update)) if update else response

    # Inputs

    def _call(self, state: Any, config: RunnableConfig | None, spec: Spec | None = None) -> Call:
        place = place_of(config) if config else current_place()
        record = _record_of(state, _NO_CHANNEL) if place.in_run else _channel(state, RECORD)
        spec = spec or Spec.widest(node.spec for node in list(self._nodes))
        model = spec.model if spec else self._side_model
        return Call(_messages_of(state), record, place, model, self._measure(spec))

    def _request_call(self, request: ModelRequest[Any]) -> Call:
        spec = Spec(request.model, tuple(request.tools), request.system_message, request.response_format)
        state = cast("Mapping[str, Any]", request.state)
        messages = _as_messages(request.messages)
        owned = not self._leaves or _same(messages, _messages_of(state))
        return Call(messages, state.get(RECORD), current_place(), request.model, self._measure(spec), owned=owned)

    def _measure(self, spec: Spec | None) -> Measure:
        return partial(self._overheads.of, spec) if spec else unknown

    def _looked_at(self, state: Any, config: RunnableConfig | None) -> Known:
        record = _record_of(state, _NO_RECORD)
        place = place_of(config) if config else current_place()
        spec = Spec.widest(node.spec for node in list(self._nodes))
        counter = (self.config.memory.tokenizer, model_name(spec.model if spec else self._side_model))
        return self._steps.looked_at(_messages_of(state), record, place, counter)


def _folder(workspace: str | PathLike[str] | Workspace | None) -> Path | None:
    if workspace is None:
        return None
    return workspace.path if isinstance(workspace, Workspace) else Path(workspace).expanduser()


def _ends_turn(response: Any) -> bool:
    """Whether nothing is to be expected behind a response: it calls no tool, or it is the structured answer."""
    if response.structured_response is not None:
        return True
    return not any(isinstance(reply, AIMessage) and reply.tool_calls for reply in response.result)


def _same(messages: Sequence[BaseMessage], others: Sequence[BaseMessage]) -> bool:
    return len(messages) == len(others) and all(a is b or a.id == b.id for a, b in zip(messages, others, strict=True))


def _with_view(request: ModelRequest[Any], outcome: Outcome, retry: Retry | None = None) -> ModelRequest[Any]:
    changes: dict[str, Any] = {"messages": outcome.decision.view.messages}
    if retry is not None and retry.max_tokens:
        changes["model_settings"] = {**request.model_settings, "max_tokens": retry.max_tokens}
    return request.override(**changes)


def _after(call: Call, spilled: Sequence[BaseMessage]) -> Call:
    """The call as it is once `spilled` have replaced the messages of their ids."""
    if not spilled:
        return call
    by_id = {message.id: message for message in spilled}
    return replace(call, messages=tuple(by_id.get(message.id, message) for message in call.messages))


def _with_messages(
    update: dict[str, Any], spilled: Sequence[BaseMessage], taken: Sequence[BaseMessage]
) -> dict[str, Any]:
    """The update, with messages that replace others by id, removals, and what the thread's queue held."""
    messages = [*spilled, *update.get(MESSAGES, ()), *taken]
    return {**update, MESSAGES: messages} if messages else update


def _smaller(outcome: Outcome, before: Outcome, error: Exception) -> Outcome:
    if outcome.total >= before.total:
        raise error
    return outcome


def _messages_of(state: Any) -> tuple[BaseMessage, ...]:
    """The messages in `state`; a state without LangGraph's message reducer may hold them as dicts or pairs."""
    messages = _channel(state, MESSAGES) or ()
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        raise LangGraphMemoryError(f"The state's 'messages' are a {type(messages).__name__}, not a list of messages.")
    return _as_messages(messages)


def _as_messages(messages: Sequence[Any]) -> tuple[BaseMessage, ...]:
    """Messages, of which some may be dicts or pairs: other middleware adds them so to a request."""
    if all(issubclass(kind, BaseMessage) for kind in set(map(type, messages))):
        return tuple(messages)
    return tuple(convert_to_messages(messages))


def _record_of(state: Any, remedy: str) -> Any:
    """The record in `state`; raises with `remedy` where the state has no such channel."""
    missing = RECORD not in state if isinstance(state, Mapping) else not hasattr(state, RECORD)
    if missing:
        raise RecordMissingError(remedy)
    return _channel(state, RECORD)


def _channel(state: Any, name: str) -> Any:
    return state.get(name) if isinstance(state, Mapping) else getattr(state, name, None)


_NO_CHANNEL = (
    "The graph's state has no channel 'memory_record', so no decision could be kept. Build the graph with "
    "StateGraph(MemoryState, …), derive your state from MemoryState, or add the field memory_record of "
    "langgraph_memory.MemoryState, with its annotations, to your own schema."
)
_NO_RECORD = (
    "This state has no 'memory_record', so what the model sees cannot be worked out from it. The output of a graph "
    "leaves it out; use graph.get_state(config).values instead."
)
