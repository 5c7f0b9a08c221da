"""Takes a decision to its end: finds what it needs, in the caches, in the files or from the summariser.

    step → Ask → summaries that are paid for → step → Ask → summariser → step → … → outcome → session log

A summary that will be needed soon is bought ahead, in the background: `prefetch` decides as if the trigger were a
little lower. It ends at an earlier message than one bought at the trigger would; when that is crossed, the decision
finds a summary of a prefix of its history and covers what that stands for. So whoever needs a summary while one is
being bought ahead waits for it first.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import replace
from pathlib import Path

from .background import Background
from .config import RuntimeConfig
from .context.summarize import Ask
from .context.tokens import TokenCounter, load_counter, ready_counter
from .models import Model, for_side_calls, model_window
from .namespace import folder_of, namespace_of
from .sessions import SessionLog
from .steps import Call, Outcome, Stepper
from .summariser import Answer, Summariser

logger = logging.getLogger(__name__)

AHEAD = 10_000
"""Threads whose newest summary bought ahead is remembered."""


class Decider:
    """Takes decisions to their end for callers with and without an event loop.

    `model` makes the summaries, None leaves that to the model of the call; `workspace` is where session logs are kept.
    """

    def __init__(
        self, config: RuntimeConfig, steps: Stepper, summariser: Summariser, model: Model | None, workspace: Path | None
    ) -> None:
        self._config, self._steps, self._summariser = config, steps, summariser
        self._model, self._workspace = model, workspace
        self._bought_ahead: OrderedDict[Hashable, str] = OrderedDict()
        self._lock = threading.Lock()
        self.background = Background()

    def decided(self, call: Call) -> Outcome:
        """The outcome of `call`. Raises `ContextBudgetError` where no choice makes the view fit."""
        counter = load_counter(*self._counter(call))
        answers: dict[str, Answer] = {}
        while isinstance(outcome := self._step(call, counter, answers), Ask):
            if call.bought is None:
                if not call.ahead:
                    self.background.settled_sync(_key(call), self._summariser.patience)
                call = replace(call, bought=self._bought(call, counter))
                continue
            self._asking(call, answers)
            answer = self._summariser.answer_sync(outcome, self._summary_model(call), call.place.thread, counter.text)
            answers[outcome.digest] = self._steps.noted(call, answer)
        self._offload(outcome)
        return outcome

    async def adecided(self, call: Call) -> Outcome:
        """As `decided`, with everything that computes or reads files in threads."""
        counter = ready_counter(*self._counter(call))
        if counter is None:
            counter = await asyncio.to_thread(load_counter, *self._counter(call))
        answers: dict[str, Answer] = {}
        while isinstance(outcome := await asyncio.to_thread(self._step, call, counter, answers), Ask):
            if call.bought is None:
                if not call.ahead:
                    await self.background.settled(_key(call), self._summariser.patience)
                call = replace(call, bought=await asyncio.to_thread(self._bought, call, counter))
                continue
            self._asking(call, answers)
            answer = await self._summariser.answer(outcome, self._summary_model(call), call.place.thread, counter.text)
            answers[outcome.digest] = self._steps.noted(call, answer)
        if self._log_of(outcome):
            await asyncio.to_thread(self._offload, outcome)
        return outcome

    def prefetch(self, outcome: Outcome) -> None:
        """Buy the summary that the calls after `outcome` will need, in the background, if they will need one soon."""
        if self._is_first(outcome):
            call = _ahead(outcome)
            self.background.start_in_thread(_key(call), lambda: self.decided(call))

    def aprefetch(self, outcome: Outcome) -> None:
        """As `prefetch`, as a task of the running loop."""
        if self._is_first(outcome):
            call = _ahead(outcome)
            self.background.start(_key(call), lambda: self.adecided(call))

    def _step(self, call: Call, counter: TokenCounter, answers: Mapping[str, Answer]) -> Outcome | Ask:
        return self._steps.step(call, counter, answers, model_window(self._model))

    def _counter(self, call: Call) -> tuple[str, str | None]:
        return self._config.memory.tokenizer, call.model_name

    def _asking(self, call: Call, answers: Mapping[str, Answer]) -> None:
        if not answers and not call.ahead:
            self._steps.asking(call)

    def _bought(self, call: Call, counter: TokenCounter) -> Mapping[str, str]:
        """Summaries of prefixes of this history that are paid for; whoever names a focus wants a new one."""
        return {} if call.focus else self._summariser.covering(self._steps.boundaries(call, counter))

    def _summary_model(self, call: Call) -> Model | None:
        if self._model is not None:
            return for_side_calls(self._model)
        return for_side_calls(call.model) if call.model is not None else None

    def _is_first(self, outcome: Outcome) -> bool:
        """Whether to buy ahead: once behind each summary, and only for a thread, whose next call is to be expected."""
        call = outcome.call
        if call.place.thread is None or self._summary_model(call) is None or not self._steps.due_soon(outcome):
            return False
        summary = outcome.decision.scope.summary
        behind = summary.digest if summary else "start"
        with self._lock:
            if self._bought_ahead.get(_key(call)) == behind:
                return False
            self._bought_ahead[_key(call)] = behind
            if len(self._bought_ahead) > AHEAD:
                self._bought_ahead.popitem(last=False)
        return True

    def _log_of(self, outcome: Outcome) -> SessionLog | None:
        """Where the messages that `outcome` covers are logged, if they are."""
        call, settings = outcome.call, self._config.memory
        compacted = "compacted" in outcome.decision.actions and not call.ahead
        if not (compacted and settings.compaction.offload_before and self._workspace and call.place.thread):
            return None
        namespace = namespace_of(settings.namespace, call.place.configurable, call.place.context)
        if namespace is None:
            self._steps.homeless(call)
            return None
        return SessionLog(folder_of(self._workspace, namespace), call.place.thread)

    def _offload(self, outcome: Outcome) -> None:
        log, history = self._log_of(outcome), outcome.history
        if log is None:
            return
        covered = outcome.decision.scope.covered
        try:
            log.append(zip(history.keys[:covered], history.messages[:covered], strict=True))
        except OSError as error:
            logger.warning("Messages could not be written to the session log, the thread keeps them: %s", error)


def _key(call: Call) -> Hashable:
    """Names a conversation. Several that begin differently may run at once in one namespace, sent to one node."""
    begin = [(message.id, str(message.content)) for message in call.messages[:1]]
    return call.place.thread, call.place.namespace, *begin


def _ahead(outcome: Outcome) -> Call:
    return outcome.again(ahead=True, force=False, refused=None)
