"""Long-term memory as a run meets it: what a call is reminded of, what is flushed, and the tools of the model.

The rooms behind it work in threads: `recalling` reads, `sidebranches` writes. Without a workspace none of it is there,
and nothing is looked at; without a namespace it is off for the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver

from .config import MemoryConfig
from .context.history import History
from .context.memories import Reminder
from .context.tokens import TokenCounter
from .homes import Homes
from .longterm.keeper import Keeper
from .longterm.retrieve import Found, Retriever
from .longterm.tools import make_memory_tools
from .models import Model
from .place import Place, place_of
from .recalling import Recaller
from .sidebranches import Job, SideBranches
from .steps import Call, Outcome, Stepper
from .thread_words import ThreadWords


class LongTerm:
    """Joins the memories of a workspace to the calls of a run."""

    def __init__(
        self,
        settings: MemoryConfig,
        homes: Homes,
        steps: Stepper,
        branches: SideBranches,
        saver: BaseCheckpointSaver[Any] | None,
    ) -> None:
        self._settings, self.homes, self._steps, self.branches = settings, homes, steps, branches
        self._recaller = Recaller(settings, homes)
        self._words = ThreadWords(saver)

    # Before a call

    def reminded(self, call: Call, counter: TokenCounter) -> Call:
        """The call with what it is reminded of; reads files where a turn begins."""
        if self.homes.workspace is None:
            return call
        if not self._recaller.begins(call.messages):
            return replace(call, reminder=self._recaller.continued(call.place))
        return self._begun(call, counter, self._words.said_sync(call.place, *self._search(call)))

    async def areminded(self, call: Call, counter: TokenCounter) -> Call:
        if self.homes.workspace is None:
            return call
        if not self._recaller.begins(call.messages):
            return replace(call, reminder=self._recaller.continued(call.place))
        said = await self._words.said(call.place, *self._search(call))
        return await asyncio.to_thread(self._begun, call, counter, said)

    def _search(self, call: Call) -> tuple[str, int]:
        """What to search the thread for, and how many hits; none where nothing is searched for."""
        if not self._recaller.searches:
            return "", 0
        return self._recaller.query(call.messages), 2 * self._settings.retrieval.limit

    def _begun(self, call: Call, counter: TokenCounter, said: Sequence[Found]) -> Call:
        window, scope = self._steps.window(call.model), self._steps.scope(call)
        reminder = self._recaller.begun(call.place, call.messages, scope, window, counter.text, said)
        if reminder is not None and reminder.space is None:
            self._steps.homeless(call)
        return replace(call, reminder=reminder)

    def whose(self, place: Place) -> Reminder | None:
        """Names the memory of a run; None where nothing is remembered."""
        return self._recaller.continued(place)

    # Behind a decision and at the end of a turn

    def covered(self, outcome: Outcome) -> None:
        """Have the messages that a summary stands for from now on flushed."""
        if job := self._covering(outcome):
            self.branches.flush(job)
            self.branches.consolidate(outcome.call.place, outcome.history.counter, outcome.call.model)

    async def acovered(self, outcome: Outcome) -> None:
        if job := self._covering(outcome):
            await self.branches.aflush(job)
            await self.branches.aconsolidate(outcome.call.place, outcome.history.counter, outcome.call.model)

    def _covering(self, outcome: Outcome) -> Job | None:
        if not self.branches.flushes_before:
            return None
        call, end = outcome.call, outcome.decision.scope.covered
        return self.branches.job(call.place, outcome.history, call.model, "compaction", end)

    @property
    def looks_back(self) -> bool:
        """Whether anything is done at the end of a turn."""
        return self.branches.flushes_turns or self.branches.consolidates

    def ended(self, place: Place, history: History, model: Model | None) -> None:
        """A turn has ended: have it flushed."""
        if self.branches.flushes_turns and (job := self.branches.job(place, history, model, "turn")):
            self.branches.flush(job)

    async def aended(self, place: Place, history: History, model: Model | None) -> None:
        if self.branches.flushes_turns and (job := self.branches.job(place, history, model, "turn")):
            await self.branches.aflush(job)

    # For the tools, and for programs

    @property
    def tools(self) -> list[BaseTool]:
        """The model's tools; none without a workspace."""
        return [] if self.homes.workspace is None else make_memory_tools(self)

    def keeper(self, runtime: Any) -> Keeper | None:
        return self.homes.of(_place(runtime))

    async def said(self, runtime: Any, query: str, limit: int) -> Sequence[Found]:
        return await self._words.said(_place(runtime), query, limit)

    def said_sync(self, runtime: Any, query: str, limit: int) -> Sequence[Found]:
        return self._words.said_sync(_place(runtime), query, limit)

    def retriever(self, keeper: Keeper, place: Place | None = None) -> Retriever:
        """A retriever for a memory and, with a place, the messages of its thread."""
        said = None if place is None else lambda query, limit: self._words.said(place, query, limit)
        return Retriever(keeper, self._settings.retrieval, said)

    def changed(self, runtime: Any, reason: str, count: int) -> None:
        self.branches.changed(_place(runtime).thread, reason, count)


def extended(history: History, reply: Sequence[BaseMessage]) -> History:
    """The history with the reply that ended its turn."""
    return History.of((*history.messages, *reply), history.counter, history)


def _place(runtime: Any) -> Place:
    place = place_of(runtime.config)
    return replace(place, context=runtime.context)
