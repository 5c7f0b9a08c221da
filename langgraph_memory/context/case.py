"""One run of a decision: its inputs, and the scope as far as it has been decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ..config import MemoryConfig
from .budget import TokenBudget
from .compact import Cuts, cuts
from .history import History
from .learn import since
from .record import Scope
from .render import View, render
from .summarize import Answers, Recipe

Action = Literal["truncated", "pruned", "compacted", "squeezed"]


@dataclass(frozen=True, slots=True)
class Situation:
    """What a decision depends on beside messages, scope and budget."""

    settings: MemoryConfig
    recipe: Recipe
    cold: bool = False
    """The prompt cache has surely expired, so a changed prefix costs nothing."""
    force: bool = False
    """Compact now, whatever the triggers say."""
    model: str = ""
    """Name of the model that is called, as far as it is known."""
    ahead: bool = False
    """Only see what will be needed soon, for messages that were decided on just now."""
    bought: Mapping[str, str] = field(default_factory=dict)
    """Summaries bought before: prefix digest of the covered messages, hexadecimal -> text."""


class Case:
    """One run of `decide`: the inputs, and the scope as far as it has been decided."""

    def __init__(
        self, history: History, scope: Scope, view: View, budget: TokenBudget, situation: Situation, answers: Answers
    ) -> None:
        self.history, self.budget, self.situation, self.answers = history, budget, situation, answers
        self.pruning, self.compaction = situation.settings.pruning, situation.settings.compaction
        self.truncation = situation.settings.truncate_args
        self.scope, self.view = scope, view
        self.cuts: Cuts | None = None
        self.force = situation.force
        self.actions: list[Action] = []
        self.rung = ""

    def take(self, scope: Scope, action: Action) -> None:
        self.scope, self.view = scope, render(self.history, scope)
        self.cuts = None
        self.actions.append(action)

    @property
    def repeated(self) -> bool:
        """Whether the last decision was taken on these very messages and fits: then nothing is decided anew."""
        situation = self.situation
        anew = situation.force or situation.cold or situation.ahead or self.over_limit
        return not anew and since(self.scope, self.history) == len(self.history) - 1

    @property
    def total(self) -> int:
        return self.view.tokens + self.budget.system + self.budget.tools

    @property
    def over_limit(self) -> bool:
        return self.total > self.budget.limit

    @property
    def over_trigger(self) -> bool:
        return self.budget.needs_compaction(self.view.tokens)

    def found(self) -> Cuts:
        """Where the history can be cut, as the view is now."""
        if self.cuts is None:
            bought = self.situation.bought
            self.cuts = cuts(self.history, self.scope, self.view, self.budget, self.compaction, bought)
        return self.cuts

    @property
    def asked(self) -> bool:
        """Whether a trigger that the configuration sets beside the ratio is crossed."""
        settings = self.compaction
        sent = self.budget.calibration.apply(self.total)
        return 0 < settings.trigger_messages <= len(self.history) or 0 < settings.trigger_tokens < sent

    @property
    def due(self) -> bool:
        """Whether a compaction trigger is crossed."""
        enough = len(self.history) >= self.compaction.min_messages
        return self.force or self.asked or (enough and self.over_trigger)

    def results(self) -> list[int]:
        """Positions of the tool results behind the summary that are in the view, oldest first."""
        return sorted(part.position for part in self.view.parts if part.source == "tool" and part.position >= 0)
