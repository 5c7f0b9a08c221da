"""One step of a call, between the state of a graph and the pure decisions: gathers the inputs, reports the outcome."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage

from .caches import Caches
from .config import MemoryConfig
from .context.budget import DEFAULT_WINDOW, Overhead, TokenBudget
from .context.compact import ARTIFACT_SHARE, TAG_TOKENS
from .context.decide import Decision, Situation, decide, observed
from .context.history import History
from .context.record import Scope, fitted, read_scope
from .context.render import render
from .context.report import report
from .context.summarize import Ask, Recipe, Rejected
from .context.tokens import ESTIMATOR, TokenCounter, load_counter, ready_counter
from .events import EventName, Listener, MemoryEvent, announce
from .models import Model, model_window
from .place import Place
from .summariser import Answer

Measure = Callable[[TokenCounter], Overhead]


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
    started: float = field(default_factory=time.perf_counter)


@dataclass(frozen=True)
class Outcome:
    """What was decided for a call, and from what."""

    call: Call
    history: History
    budget: TokenBudget
    stored: Scope
    """The scope as it stands in the record."""
    decision: Decision
    ignored: str
    """Why the record, or a part of it, was not used; empty where it was."""

    @property
    def changed(self) -> bool:
        return self.decision.scope is not self.stored


class Stepper:
    """Runs `decide` on the state of a graph. Holds settings and caches, nothing of a thread."""

    def __init__(self, settings: MemoryConfig, caches: Caches, listener: Listener | None) -> None:
        self._settings, self._caches, self._listener = settings, caches, listener

    def step(
        self, call: Call, counter: TokenCounter, answers: Mapping[str, Answer], summariser_window: int | None = None
    ) -> Outcome | Ask:
        """Decide once; an `Ask` has to be answered into `answers` before the next try."""
        history = self._history(call.messages, counter, call.place)
        stored, ignored = _stored(call.record, call.place.namespace)
        scope = fitted(stored, history)
        if stored.summary is not None and scope.summary is None:
            ignored = "the messages it summarised have changed"
        budget = self._budget(call, history, scope)
        situation = Situation(
            self._settings,
            self._recipe(budget, summariser_window, call.focus),
            cold=self._caches.idle(call.place.thread) > self._settings.compaction.cache_ttl_seconds,
            force=call.force,
        )
        decision = decide(history, stored, budget, situation, answers)
        if isinstance(decision, Ask):
            return decision
        return Outcome(call, history, budget, stored, decision, ignored)

    def looked_at(
        self, messages: tuple[BaseMessage, ...], record: Mapping[str, Any], place: Place, named: tuple[str, str | None]
    ) -> tuple[History, Scope]:
        """History and scope for looking at a state. Never reads a file on an event loop."""
        known = self._caches.history((place.thread, place.namespace))
        counter = known.counter if known else _counter_at_hand(*named)
        history = self._history(messages, counter, place)
        return history, fitted(_stored(record, place.namespace)[0], history)

    def budget_then(self, history: History, scope: Scope) -> TokenBudget:
        """The budget the newest decision was taken with, as far as the record says."""
        sizes = scope.sizes
        overhead = Overhead(sizes.system, sizes.tools) if sizes.window else Overhead()
        return self._divided(sizes.window or self._window(None), overhead, history, scope)

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
        if not decision.actions:
            return
        name: EventName = "compacted" if "compacted" in decision.actions else "pruned"
        before = fitted(stored, outcome.history)
        self._tell(
            call,
            name,
            decision.rung or ", ".join(decision.actions),
            before=report(outcome.history, before, outcome.budget),
            after=report(outcome.history, decision.scope, outcome.budget, before),
            data={"actions": list(decision.actions)},
        )

    def _announce_sizes(self, outcome: Outcome) -> None:
        if self._window_of(outcome.call.model) is None:
            reason = f"neither memory.context_window nor the model's profile names a window; {DEFAULT_WINDOW} is used"
            self._tell(outcome.call, "window_guessed", reason, data={"window": DEFAULT_WINDOW})
        for cap in outcome.budget.caps:
            reason = f"{cap.key} is {cap.configured}, used is {cap.used} because of the window"
            self._tell(outcome.call, "capped", reason, data={"key": cap.key, "used": cap.used})

    def _tell(self, call: Call, name: EventName, reason: str, **more: Any) -> None:
        took = (time.perf_counter() - call.started) * 1000
        announce(MemoryEvent(name, call.place.thread, reason, took, **more), self._listener, in_run=call.place.in_run)

    def _history(self, messages: tuple[BaseMessage, ...], counter: TokenCounter, place: Place) -> History:
        key = (place.thread, place.namespace)
        history = History.of(messages, counter, self._caches.history(key))
        self._caches.keep(key, history)
        return history

    def _budget(self, call: Call, history: History, scope: Scope) -> TokenBudget:
        overhead = call.measure(history.counter)
        if overhead.system is None and history.systems:
            overhead = Overhead(0, overhead.tools)
        return self._divided(self._window(call.model), overhead, history, scope)

    def _divided(self, window: int, overhead: Overhead, history: History, scope: Scope) -> TokenBudget:
        return TokenBudget.of(
            window,
            counter=history.counter,
            budget=self._settings.budget,
            compaction=self._settings.compaction,
            pruning=self._settings.pruning,
            overhead=overhead,
            calibration=observed(history, scope, render(history, scope)),
        )

    def _window(self, model: Model | None) -> int:
        return self._window_of(model) or DEFAULT_WINDOW

    def _window_of(self, model: Model | None) -> int | None:
        configured = self._settings.context_window
        return configured if isinstance(configured, int) else model_window(model)

    def _recipe(self, budget: TokenBudget, window: int | None, focus: str | None) -> Recipe:
        settings = self._settings.compaction
        return Recipe(
            window=window or budget.window,
            room=budget.summary - budget.summary // ARTIFACT_SHARE - TAG_TOKENS,
            tool_chars=settings.summary_tool_chars,
            chunk_messages=settings.map_chunk_messages,
            prompt=settings.prompt,
            focus=focus,
        )


def unknown(_: TokenCounter) -> Overhead:
    """The measure of a call whose system prompt and tools are not known."""
    return Overhead()


def _stored(record: Mapping[str, Any] | None, namespace: str) -> tuple[Scope, str]:
    try:
        return read_scope(record, namespace), ""
    except ValueError as error:
        return Scope(), str(error)


def _counter_at_hand(tokenizer: str, model_name: str | None) -> TokenCounter:
    """The counter, without reading files where a running event loop would wait for them."""
    if counter := ready_counter(tokenizer, model_name):
        return counter
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return load_counter(tokenizer, model_name)
    return ESTIMATOR
