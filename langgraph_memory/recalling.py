"""What a call is reminded of: reads MEMORY.md when a turn begins, and searches for its request if that is switched on.

A turn begins with a call that nothing but human messages stands behind. In the calls that follow the record says what
is shown, so nothing is read and the view stays as it is; only whose memory it is, is looked at every time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from langchain_core.messages import BaseMessage, HumanMessage

from .config import MemoryConfig
from .context.groups import request_run
from .context.memories import Reminder
from .context.record import Scope
from .context.text import message_text
from .errors import LangGraphMemoryError
from .homes import Homes
from .longterm.curated import as_block, within
from .longterm.folder import MEMORY
from .longterm.keeper import Keeper
from .longterm.retrieve import Found, Retriever, block
from .place import Place

logger = logging.getLogger(__name__)

CURATED_SHARE = 8
"""The curated memory takes at most one part in so many of the window."""
RECALLED_SHARE = 16
RECALLED_TOKENS = 1000
QUERY_CHARS = 2000
Count = Callable[[str], int]


class Recaller:
    """Finds the `Reminder` of a call in the memories of `homes`."""

    def __init__(self, settings: MemoryConfig, homes: Homes) -> None:
        self._settings, self._homes = settings, homes

    @property
    def searches(self) -> bool:
        """Whether requests are searched for."""
        return self._settings.retrieval.auto_recall and self._homes.workspace is not None

    def begins(self, messages: Sequence[BaseMessage]) -> bool:
        """Whether the call is the first of a turn, and something may have to be read."""
        return self._homes.workspace is not None and bool(messages) and isinstance(messages[-1], HumanMessage)

    def query(self, messages: Sequence[BaseMessage]) -> str:
        """What to search for: the request."""
        return "\n".join(message_text(messages[i]) for i in range(*request_run(messages)))[-QUERY_CHARS:]

    def continued(self, place: Place) -> Reminder | None:
        """For a call within a turn: what is shown stays, if it is from the memory of this run. Reads nothing."""
        return None if self._homes.workspace is None else Reminder(self._homes.space(place))

    def begun(
        self,
        place: Place,
        messages: Sequence[BaseMessage],
        scope: Scope,
        window: int,
        count: Count,
        said: Sequence[Found],
    ) -> Reminder | None:
        """For the first call of a turn. Reads files; one that cannot be read leaves what is shown as it is."""
        keeper = self._homes.of(place)
        if keeper is None:
            return self.continued(place)
        space = self._homes.space(place)
        try:
            return Reminder(
                space,
                self._curated(keeper, window, count),
                self._recalled(keeper, place, messages, scope, window, count, said),
            )
        except (OSError, LangGraphMemoryError) as error:
            logger.warning("Long-term memory could not be read, the run goes on without: %s", error)
            return Reminder(space)

    def _curated(self, keeper: Keeper, window: int, count: Count) -> str:
        if not self._settings.retrieval.inject_curated or not (text := keeper.memory_md()).strip():
            return ""
        most = min(self._settings.consolidation.max_memory_tokens, window // CURATED_SHARE)
        room = most - count(as_block("-"))
        # The block may be longer than its text by what had to be escaped.
        while block := as_block(within(text, room, count)):
            if (over := count(block) - most) <= 0:
                break
            room -= over
        return block

    def _recalled(
        self,
        keeper: Keeper,
        place: Place,
        messages: Sequence[BaseMessage],
        scope: Scope,
        window: int,
        count: Count,
        said: Sequence[Found],
    ) -> str:
        settings = self._settings.retrieval
        before = scope.remembered
        # The same request may come again from somebody else.
        mine = before is not None and before.space == self._homes.space(place)
        known = before.recalled.get(str(messages[-1].id)) if before and mine else None
        if not settings.auto_recall or known is not None:
            return known or ""
        visible = {f"msg:{message.id}" for message in messages[scope.covered :]}
        found = Retriever(keeper, settings).ranked(
            self.query(messages), [one for one in said if one.place not in visible], 2 * settings.limit
        )
        # What the view shows anyway is left out: the curated memory, and this thread's own words.
        own = None if scope.covered else place.thread
        shown = [
            one
            for one in found
            if not (settings.inject_curated and one.place.startswith(f"{MEMORY}:"))
            and (one.thread_id is None or one.thread_id != own)
        ]
        return block(shown[: settings.limit], min(RECALLED_TOKENS, window // RECALLED_SHARE), count)
