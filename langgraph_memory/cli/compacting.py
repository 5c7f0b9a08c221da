"""Compacting a stored thread by hand: what that would do, and doing it.

What it would do is found by taking the decision with answers that are as long as a summary may be, so nothing is
bought and the size of the view afterwards is a bound. Doing it is `MemoryMiddleware.compact`, with the thread's
checkpoints in the place of a graph: the record is appended to the thread, every other channel stays.

The window, the size of system prompt and tools and the encoding are those that the thread's last decision was taken
with, because the agent that has them is not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from types import SimpleNamespace
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig

from langgraph_memory import ContextReport, MemoryMiddleware, RuntimeConfig
from langgraph_memory.caches import Caches
from langgraph_memory.context.record import Sizes
from langgraph_memory.context.report import report
from langgraph_memory.context.summarize import Ask, Rejected
from langgraph_memory.context.tokens import TokenCounter, load_counter
from langgraph_memory.errors import ConfigError, UnknownThreadError
from langgraph_memory.models import Model, model_window, resolve_model
from langgraph_memory.opening import workspace_of
from langgraph_memory.place import Place
from langgraph_memory.state import MESSAGES, RECORD
from langgraph_memory.steps import Call, Outcome, Stepper, unknown
from langgraph_memory.threads import ThreadStore
from langgraph_memory.threads.changing import refuse_busy
from langgraph_memory.threads.ids import thread_text
from langgraph_memory.threads.source import config_of

from .bought import Bought
from .reading import as_recorded, read_thread, scope_of

WITHOUT_MODEL = "there is no model for summaries"
PARTIAL = 4
"""A part of a summary is taken to have one in this many tokens of what it stands for."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """What the summariser would be asked. Tokens are raw."""

    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    """At most."""
    exact: bool
    """False where parts of the thread are summarised first: what is then made of them is not known yet."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """What compacting a thread does, or would do."""

    thread_id: str
    covered_before: int
    covered: int
    """Messages that the summary stands for; as before where there is nothing to compact."""
    boundary: str | None
    """Id of the last covered message."""
    digest: str | None
    """Of everything up to it: a summary for it is looked up by this."""
    pinned: list[str]
    """Ids of the requests that are shown word for word beside the summary."""
    rung: str
    """How the summary is made: summariser, bought before, extract or marker; empty where there is nothing to compact"""
    prompts: Prompts | None
    """None where no model is asked."""
    before: ContextReport
    after: ContextReport
    """For what would be done: with a summary as long as it may be."""
    applied: bool = False

    @property
    def done(self) -> bool:
        return self.covered != self.covered_before

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "before": self.before.to_json(), "after": self.after.to_json()}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A thread that nothing waits to be run of."""

    values: Mapping[str, Any]
    """Messages and record."""
    known: Mapping[str, Any]
    """What its last run was told beside its id: whose memory it is, for one."""


async def load(store: ThreadStore, thread: str) -> Loaded:
    """Raises `UnknownThreadError`, and `ThreadBusyError` where writing would drop what is to be run."""
    metadata = (await _saved(store, thread)).metadata
    known = {name: value for name, value in metadata.items() if isinstance(value, str | int)}
    return Loaded(await read_thread(store, thread), known)


# What would be done


def planned(
    config: RuntimeConfig, thread: str, values: Mapping[str, Any], *, focus: str | None = None, model: str | None = None
) -> Compaction:
    """What compacting a thread with these values would do; `model` would write the summary. Asks and keeps nothing."""
    settings, bought = sized(config, values).memory, Bought(workspace_of(config))
    counter = load_counter(settings.tokenizer)
    steps = Stepper(settings, Caches(), None, leaves=False)
    call = Call(tuple(values[MESSAGES]), values[RECORD], Place(thread), None, unknown, force=True, focus=focus)
    call = replace(call, bought={} if focus else bought.covering(steps.boundaries(call, counter)))
    asked: list[Ask] = []
    answers: dict[str, str | Rejected] = {}
    window = _window_of(model)
    while isinstance(outcome := steps.step(call, counter, answers, window), Ask):
        known = bought.answer(outcome.digest) if model else None
        if model and known is None:
            asked.append(outcome)
        answers[outcome.digest] = _answer(outcome, counter, known, model)
    return _told(thread, outcome, counter, asked, model)


def _answer(ask: Ask, counter: TokenCounter, known: str | None, model: str | None) -> str | Rejected:
    if not model:
        return Rejected(WITHOUT_MODEL)
    return known or _filler(ask.room if ask.boundary else min(ask.room, ask.replaces // PARTIAL), counter)


def _filler(tokens: int, counter: TokenCounter) -> str:
    """A text of about so many tokens."""
    text = "word " * max(1, tokens)
    return text[: max(20, len(text) * tokens // max(1, counter.text(text)))]


def _told(thread: str, outcome: Outcome, counter: TokenCounter, asked: list[Ask], model: str | None) -> Compaction:
    before, after = outcome.reports or (None, None)
    if before is None or after is None:
        before = after = report(outcome.history, outcome.decision.scope, outcome.budget)
    summary, compacted = outcome.decision.scope.summary, "compacted" in outcome.decision.actions
    left = summary.gone if summary else 0
    old = outcome.stored.covered + (outcome.stored.summary.gone if outcome.stored.summary else 0)
    prompts = None
    if asked and model:
        sizes = sum(counter.text(ask.prompt) for ask in asked), sum(ask.room for ask in asked)
        prompts = Prompts(model, len(asked), *sizes, exact=len(asked) == 1)
    return Compaction(
        thread_id=thread,
        covered_before=old,
        covered=summary.count + left if summary else 0,
        boundary=summary.last if summary and compacted else None,
        digest=summary.digest if summary and compacted else None,
        pinned=list(summary.pin) if summary and compacted else [],
        rung=_rung(outcome, asked) if compacted else "",
        prompts=prompts,
        before=before,
        after=after,
    )


def _rung(outcome: Outcome, asked: list[Ask]) -> str:
    rung = outcome.decision.rung
    return "bought before" if rung == "summariser" and not asked else rung


def _window_of(model: str | None) -> int | None:
    """The summariser's window, where its package is at hand and does not ask for a key."""
    try:
        return model_window(resolve_model(model, "--model"))
    except ConfigError:
        return None


# Doing it


async def applied(
    store: ThreadStore,
    config: RuntimeConfig,
    loaded: Loaded,
    plan: Compaction,
    *,
    focus: str | None = None,
    model: Model | None = None,
    user: str | None = None,
) -> Compaction:
    """Do what was planned; `model` writes the summary. Raises `ThreadBusyError`."""
    thread = plan.thread_id
    configurable = {**loaded.known, **({"user_id": user} if user else {}), "thread_id": thread}
    memory = MemoryMiddleware(
        _flushing(config, sized(config, loaded.values), has_model=model is not None),
        model=model,
        saver=store.saver,
        workspace=workspace_of(config),
        inline=True,
    )
    # A node that calls the thread's own model, so that the record goes on naming it and not the summariser.
    own = memory.model_node(_Named(scope_of(loaded.values).sizes.model)) if model is not None else None
    try:
        after = await memory.compact(StoredGraph(store, thread), {"configurable": configurable}, focus)
    finally:
        await memory.adrain()
    del own
    now = scope_of(await read_thread(store, thread)).summary
    return replace(
        plan,
        covered=now.count + now.gone if now else 0,
        boundary=now.last if now and plan.rung else None,
        digest=now.digest if now and plan.rung else None,
        after=after,
        applied=True,
    )


def _flushing(config: RuntimeConfig, sized: RuntimeConfig, *, has_model: bool) -> RuntimeConfig:
    """`sized` with the models for memories; without any, what is covered waits for the thread's next run with one."""
    given, memory = config.memory, sized.memory
    later = not has_model and config.persistence.state == "all"
    compaction = memory.compaction.model_copy(update={"flush_before": False}) if later else memory.compaction
    sections = {"flush": given.flush, "consolidation": given.consolidation, "compaction": compaction}
    return sized.model_copy(update={"memory": memory.model_copy(update=sections)})


class StoredGraph:
    """As much of a graph as `MemoryMiddleware.compact` needs, made from what is stored of a thread."""

    def __init__(self, store: ThreadStore, thread: str) -> None:
        self._store, self._thread = store, thread

    async def aget_state(self, config: RunnableConfig) -> Any:
        await _saved(self._store, self._thread)
        return SimpleNamespace(values=await read_thread(self._store, self._thread), tasks=(), next=())

    async def aupdate_state(
        self, config: RunnableConfig, values: Mapping[str, Any] | None, as_node: str | None = None
    ) -> RunnableConfig:
        return await self._store.append(self._thread, values or {}, reason="compact")


async def _saved(store: ThreadStore, thread: str) -> Any:
    """The newest checkpoint. Raises where there is none, and where something is to be run: writing would drop it."""
    saved = await store.saver.aget_tuple(config_of(thread_text(thread), "", None))
    if saved is None:
        await store.branches(thread)
        raise UnknownThreadError(f"There is no thread {thread!r}.")
    refuse_busy(thread, saved)
    return saved


class _Named(Runnable[Any, Any]):
    """Stands for a model that is not here, and is not called."""

    def __init__(self, name: str) -> None:
        self.model_name = name

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        raise NotImplementedError(f"the model {self.model_name!r} is not here")


def sized(config: RuntimeConfig, values: Mapping[str, Any]) -> RuntimeConfig:
    """`config` as recorded, with the sizes that the thread's last decision was taken with."""
    recorded, sizes = as_recorded(config, values), scope_of(values).sizes
    if sizes == Sizes() or not sizes.window:
        return recorded
    budget = recorded.memory.budget.model_copy(
        update={"system_tokens": sizes.system, "tools_tokens": sizes.tools, "response_tokens": sizes.response}
    )
    memory = recorded.memory.model_copy(update={"budget": budget, "context_window": sizes.window})
    return recorded.model_copy(update={"memory": memory})
