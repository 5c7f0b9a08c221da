"""One step of a call, between the state of a graph and the pure decisions: gathers the inputs, reports the outcome."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import Any

from langchain_core.messages import BaseMessage, RemoveMessage

from .caches import Caches, Known
from .config import MemoryConfig
from .conflict import conflicts
from .context.budget import DEFAULT_WINDOW, Overhead, TokenBudget
from .context.case import Situation
from .context.decide import Decision, decide
from .context.history import History
from .context.learn import answering_model, observed
from .context.leave import leaving, without
from .context.memories import Reminder, remembering
from .context.record import VERSION, Record, Scope, fitted, merge_records, read_scope, write_scope
from .context.render import continued, render, shown_covered
from .context.report import ContextReport, report
from .context.summarize import Ask, Recipe, Rejected
from .context.tokens import Calibration, TokenCounter, estimator_for, load_counter, ready_counter
from .errors import ContextBudgetError
from .events import EventName, Listener, MemoryEvent, announce
from .models import Model, model_name, model_window
from .place import Place
from .spilling import Spilled
from .state import MESSAGES, RECORD
from .summariser import Answer

NAMED_WINDOWS = 64
BUDGETS = 64
TOLD = 10_000
Measure = Callable[[TokenCounter], Overhead]


@dataclass(frozen=True, slots=True)
class Refused:
    """A window in the provider's tokens, and the raw tokens that view, system and tools may take at most."""

    window: int
    ceiling: int


@dataclass(frozen=True)
class Call:
    """A model call that is about to be made."""

    messages: tuple[BaseMessage, ...]
    record: Mapping[str, Any] | None
    place: Place
    model: Model | None
    measure: Measure
    """Tokens of system prompt and tools, where they are known."""
    force: bool = False
    focus: str | None = None
    refused: Refused | None = None
    """What the provider said when it refused the call before."""
    ahead: bool = False
    """Only see which summary will be needed soon."""
    bought: Mapping[str, str] | None = None
    """Summaries bought before, by the prefix digest of what they cover; None as long as nobody has looked."""
    left: tuple[str, ...] = ()
    """Ids of messages that a decision for the same call before took out of the list."""
    reminder: Reminder | None = None
    """What was found in long-term memory for the call; None as long as nobody has looked."""
    owned: bool = True
    """Whether the messages are the state's own, so that they may leave it; others may have changed a request's."""
    started: float = field(default_factory=time.perf_counter)

    @cached_property
    def model_name(self) -> str | None:
        return model_name(self.model)


@dataclass(frozen=True)
class Outcome:
    """What was decided for a call, and from what."""

    call: Call
    history: History
    budget: TokenBudget
    stored: Scope
    """The scope as it stands in the record."""
    decision: Decision
    scope: Scope
    """The scope to store: that of the decision, anchored to the messages that stay in the list."""
    left: tuple[str, ...] = ()
    """Ids of the messages that leave the list."""
    ignored: str = ""
    """Why the record, or a part of it, was not used; empty where it was."""
    reports: tuple[ContextReport, ContextReport] | None = None
    """The report under the scope before and under the new one, where the decision changed the view."""
    ended: float | None = None
    """When such a decision was made: it is announced once the model has answered."""

    @property
    def changed(self) -> bool:
        return self.scope is not self.stored

    @property
    def total(self) -> int:
        """Raw tokens of view, system and tools."""
        return self.decision.view.tokens + self.budget.system + self.budget.tools

    @property
    def update(self) -> Record:
        """The record update that stores the decision."""
        return write_scope(self.scope, self.call.place.namespace)

    @property
    def messages(self) -> tuple[BaseMessage, ...]:
        """The list as it is without the messages that leave it."""
        left = set(self.left)
        return tuple(message for message in self.call.messages if message.id not in left)

    def again(self, **changes: Any) -> Call:
        """The same call on the state as it is with this outcome stored."""
        record = merge_records(dict(self.call.record or {}), self.update)
        return replace(self.call, messages=self.messages, record=record, left=self.left, bought=None, **changes)


class Stepper:
    """Runs `decide` on the state of a graph. Holds settings and caches, nothing of a thread.

    With `leaves`, messages that a summary covers leave the list.
    """

    def __init__(self, settings: MemoryConfig, caches: Caches, listener: Listener | None, *, leaves: bool) -> None:
        self._settings, self._caches, self._listener = settings, caches, listener
        self._leaves = leaves
        divided = partial(
            TokenBudget.of, budget=settings.budget, compaction=settings.compaction, pruning=settings.pruning
        )
        self._budgets = lru_cache(BUDGETS)(divided)
        self._named_windows: dict[str, int] = {}
        self._told: OrderedDict[Hashable, None] = OrderedDict()
        self._lock = threading.Lock()

    def step(
        self, call: Call, counter: TokenCounter, answers: Mapping[str, Answer], summariser_window: int | None = None
    ) -> Outcome | Ask:
        """Decide once; an `Ask` has to be answered into `answers` before the next try."""
        stored, ignored = self._stored(call.record, call.place)
        key, known = self._known(call.messages, stored, call.place, counter)
        history, scope, _ = known
        if stored.summary is not None and scope.summary is None:
            ignored = "the messages it summarised have changed"
        wanted = remembering(stored, history, call.reminder)
        if wanted is not stored:
            # Usage so far counts a view that showed something else.
            wanted = replace(wanted, since=("", ""))
            fit = fitted(wanted, history)
            known = Known(history, fit, render(history, fit))
        budget, decision = self._decided(call, wanted, known, answers, summariser_window)
        if isinstance(decision, Ask):
            return decision
        remaining, kept = history, decision.scope
        # A graph inside another one is given the list of that one anew, and would get it back in another order.
        leaves = self._leaves and call.owned and not call.ahead and not call.place.namespace
        left = leaving(history, kept) if leaves else ()
        if left:
            remaining, kept = without(history, kept, left)
        if not call.ahead:
            shown = render(remaining, kept) if left else decision.view
            self._caches.keep(key, Known(remaining, kept, shown))
        reports, ended = None, None
        if decision.actions or wanted.remembered != stored.remembered:
            reports = report(history, scope, budget), report(history, decision.scope, budget, scope)
            ended = time.perf_counter()
        return Outcome(call, history, budget, stored, decision, kept, (*call.left, *left), ignored, reports, ended)

    def _decided(
        self, call: Call, wanted: Scope, known: Known, answers: Mapping[str, Answer], summariser_window: int | None
    ) -> tuple[TokenBudget, Decision | Ask]:
        """The decision, and the budget it was taken with."""
        budget = self._budget(call, known)
        situation = Situation(
            self._settings,
            self._recipe(budget, summariser_window, call.focus),
            model=_called(call, known.history),
            cold=self._caches.idle(call.place) > self._settings.compaction.cache_ttl_seconds,
            force=call.force,
            ahead=call.ahead,
            bought=call.bought or {},
        )
        try:
            return budget, decide(known.history, wanted, budget, situation, answers, known.view)
        except ContextBudgetError:
            if budget.calibration == Calibration():
                raise
            # A figure that nothing can meet is not believed: the provider may judge the request itself.
            budget = self._budget(call, known, Calibration())
            return budget, decide(known.history, wanted, budget, situation, answers, known.view)

    def boundaries(self, call: Call, counter: TokenCounter) -> list[str]:
        """Prefix digests, hexadecimal, at which a summary of the messages behind the present one could end."""
        stored = self._stored(call.record, call.place)[0]
        history, scope, _ = self._known(call.messages, stored, call.place, counter)[1]
        return [digest.hex() for digest in history.digests[scope.covered :]]

    def due_soon(self, outcome: Outcome) -> bool:
        """Whether the next calls will need a summary, and this one bought none."""
        settings, budget = self._settings.compaction, outcome.budget
        near = budget.trigger * settings.prefetch_ratio < outcome.total <= budget.trigger
        enough = len(outcome.history) >= settings.min_messages
        return settings.enabled and near and enough and "compacted" not in outcome.decision.actions

    def looked_at(
        self, messages: tuple[BaseMessage, ...], record: Mapping[str, Any], place: Place, named: tuple[str, str | None]
    ) -> Known:
        """History, scope and view for looking at a state. Never reads a file on an event loop."""
        before = self._caches.known((place.thread, place.namespace))
        counter = before.history.counter if before else _counter_at_hand(*named)
        return self._known(messages, self._stored(record, place)[0], place, counter)[1]

    def _known(
        self, messages: tuple[BaseMessage, ...], stored: Scope, place: Place, counter: TokenCounter
    ) -> tuple[Hashable, Known]:
        """The view of `messages` under the part of `stored` that fits them, from the cache as far as it is there."""
        key = (place.thread, place.namespace)
        before = self._caches.known(key)
        if before is None:
            history = History.of(messages, counter)
        else:
            shown = shown_covered(before.history, before.scope)
            history = History.of(messages, counter, before.history, hidden=before.scope.covered, shown=shown)
        scope = fitted(stored, history)
        known = Known(history, scope, continued(*before, history, scope) if before else render(history, scope))
        self._caches.keep(key, known)
        return key, known

    def budget_then(self, known: Known) -> TokenBudget:
        """The budget the newest decision was taken with, as far as the record says."""
        sizes = known.scope.sizes
        overhead = Overhead(sizes.system, sizes.tools) if sizes.window else Overhead()
        return self._divided(sizes.window or self.window(None), overhead, known, sizes.model)

    def scope(self, call: Call) -> Scope:
        """The scope as it stands in the record of a call."""
        return self._stored(call.record, call.place)[0]

    def _stored(self, record: Mapping[str, Any] | None, place: Place) -> tuple[Scope, str]:
        """The scope as it stands in a record, and why it is not used, if so."""
        scopes = record.get("ns") if isinstance(record, Mapping) else None
        plain = scopes.get(place.namespace) if isinstance(scopes, Mapping) else None
        known = self._caches.scope((place.thread, place.namespace), plain)
        if known is not None and record and record.get("v") == VERSION:
            return known, ""
        try:
            scope = read_scope(record, place.namespace)
        except ValueError as error:
            return Scope(), str(error)
        self._caches.keep_scope((place.thread, place.namespace), plain, scope)
        return scope, ""

    def asking(self, call: Call) -> None:
        """Announce that a summary is being bought."""
        self._tell(call, "compacting", "a summary is needed")

    def look_out(self, outcome: Outcome, state: Any, model_settings: Any = None) -> None:
        """Announce whoever else shortens this conversation: looked for at a thread's first call, and once the record
        no longer fits."""
        call = outcome.call
        if not (self._first("conflict", call) or outcome.ignored):
            return
        seen = state if isinstance(state, Mapping) else vars(state)
        if found := conflicts(seen, call.messages, call.model, model_settings or {}):
            self._tell(call, "conflict", found)

    def homeless(self, call: Call) -> None:
        """Announce, once a thread, that nothing can be kept by namespace."""
        if self._first("namespace_missing", call):
            reason = "memory.namespace cannot be filled, so no session log and no long-term memory is kept for this run"
            self._tell(call, "namespace_missing", reason)

    def _first(self, name: EventName, call: Call) -> bool:
        """Whether an event is the first of its name on the thread, as far as is remembered."""
        key = name, call.place.thread
        with self._lock:
            first = key not in self._told
            self._told[key] = None
            if len(self._told) > TOLD:
                self._told.popitem(last=False)
        return first

    def recovered(self, outcome: Outcome, reason: str) -> None:
        """Announce that a call which the provider refused was made again and answered."""
        before, after = outcome.reports or (None, None)
        self._tell(outcome.call, "overflow_recovered", reason, before=before, after=after)

    def noted(self, call: Call, answer: Answer) -> Answer:
        """Announce a failed summary; hands the answer on."""
        if isinstance(answer, Rejected):
            self._tell(call, "compaction_failed", answer.reason)
        return answer

    def announce(self, outcome: Outcome) -> None:
        """Send the events of a call: what was ignored, what the window does not allow, what changed the view."""
        call, decision, stored = outcome.call, outcome.decision, outcome.stored
        if outcome.ignored:
            self._tell(call, "record_ignored", outcome.ignored)
        if decision.scope.sizes != stored.sizes:
            self._announce_sizes(outcome)
        if outcome.reports is None:
            return
        name: EventName = "compacted" if "compacted" in decision.actions else "pruned"
        if not decision.actions:
            name = "memory_changed"
        before, after = outcome.reports
        reason = decision.rung or ", ".join(decision.actions) or "what the model is shown of it"
        done = {"actions": list(decision.actions)}
        self._tell(call, name, reason, ended=outcome.ended, before=before, after=after, data=done)

    def _announce_sizes(self, outcome: Outcome) -> None:
        if self._window_of(outcome.call.model) is None:
            reason = f"neither memory.context_window nor the model's profile names a window; {DEFAULT_WINDOW} is used"
            self._tell(outcome.call, "window_guessed", reason, data={"window": DEFAULT_WINDOW})
        for cap in outcome.budget.caps:
            reason = f"{cap.key} is {cap.configured}, used is {cap.used} because of the window"
            self._tell(outcome.call, "capped", reason, data={"key": cap.key, "used": cap.used})

    def branched(self, thread: str, reason: str, data: Mapping[str, Any]) -> None:
        """Announce that two runs at once have made a thread branch."""
        announce(MemoryEvent("branched", thread, reason, data=data), self._listener, in_run=True)

    def spilled(self, place: Place, spilled: Sequence[Spilled], started: float) -> None:
        """Announce what was written to files. No view has shown it yet, so there are no reports."""
        for one in spilled:
            data = {"tool": one.tool, "bytes": one.bytes, "ref": one.ref}
            self._announce(place, "spilled", f"the result of {one.tool} has {one.bytes} bytes", started, data=data)

    def _tell(self, call: Call, name: EventName, reason: str, **more: Any) -> None:
        self._announce(call.place, name, reason, call.started, **more)

    def _announce(
        self, place: Place, name: EventName, reason: str, started: float, *, ended: float | None = None, **more: Any
    ) -> None:
        # In this order, so that a pause between the two never puts the end behind what came after it.
        clock, now = time.time(), time.perf_counter()
        ended = now if ended is None else ended
        event = MemoryEvent(name, place.thread, reason, (ended - started) * 1000, at=clock + ended - now, **more)
        announce(event, self._listener, in_run=place.in_run)

    def _budget(self, call: Call, known: Known, calibration: Calibration | None = None) -> TokenBudget:
        overhead = call.measure(known.history.counter)
        if overhead.system is None and known.history.systems:
            overhead = Overhead(0, overhead.tools)
        budget = self._divided(self.window(call.model), overhead, known, _called(call, known.history), calibration)
        if call.ahead:
            return budget.ahead(self._settings.compaction.prefetch_ratio)
        return budget.within(call.refused.window, call.refused.ceiling) if call.refused else budget

    def _divided(
        self, window: int, overhead: Overhead, known: Known, model: str, calibration: Calibration | None = None
    ) -> TokenBudget:
        calibration = calibration or observed(*known, model)
        return self._budgets(window, counter=known.history.counter, overhead=overhead, calibration=calibration)

    def window(self, model: Model | None) -> int:
        """The context window of calls of `model`, in the provider's tokens."""
        return self._window_of(model) or DEFAULT_WINDOW

    def _window_of(self, model: Model | None) -> int | None:
        configured = self._settings.context_window
        window = configured if isinstance(configured, int) else model_window(model)
        named = self._named_windows.get(model_name(model) or "") if self._named_windows else None
        return min(window or named, named) if named else window

    def window_named(self, model: Model | None, window: int) -> None:
        """Remember the window a provider named when it refused a request, if the model has a name to keep it by."""
        name = model_name(model)
        if name and len(self._named_windows) < NAMED_WINDOWS:
            self._named_windows[name] = window

    def _recipe(self, budget: TokenBudget, window: int | None, focus: str | None) -> Recipe:
        settings = self._settings.compaction
        return Recipe(
            window=window or budget.window,
            room=budget.summary,
            most=budget.summary,
            tool_chars=settings.summary_tool_chars,
            chunk_messages=settings.map_chunk_messages,
            prompt=settings.prompt,
            focus=focus,
        )


def stored(outcome: Outcome) -> dict[str, Any]:
    """The state update that stores an outcome; {} where nothing changed."""
    if not outcome.changed:
        return {}
    removed = [RemoveMessage(id=key) for key in outcome.left]
    return {RECORD: outcome.update, **({MESSAGES: removed} if removed else {})}


def unknown(_: TokenCounter) -> Overhead:
    """The measure of a call whose system prompt and tools are not known."""
    return Overhead()


def _called(call: Call, history: History) -> str:
    """The model that is called; in a node that does not know it, most likely the one that answered last."""
    return call.model_name or answering_model(history.messages)


def _counter_at_hand(tokenizer: str, model_name: str | None) -> TokenCounter:
    """The counter, without reading files where a running event loop would wait for them."""
    if counter := ready_counter(tokenizer, model_name):
        return counter
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return load_counter(tokenizer, model_name)
    return estimator_for(tokenizer, model_name)
