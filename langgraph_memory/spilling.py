"""Spilling where the middleware meets tools: results on their way into the state, and results that are in it."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from .config import MaintenanceConfig, RuntimeConfig, SpillBufferConfig
from .context.prune import content_text
from .logs import outline
from .spill import SpillStore, exceeds, markers_in, references_in, spilled_result

logger = logging.getLogger(__name__)

DAY = 86_400.0
MEGABYTE = 1_000_000
OWNER = ".database"
QUIET_SECONDS = 300.0
"""How long a failure to write is not warned of again, unless a file could be written in between."""


class Spilled(NamedTuple):
    """What was spilled from the result of a tool."""

    tool: str
    bytes: int
    ref: str
    """What `recall` reads it by."""


class Spiller:
    """Spills what tools return; a result that cannot be written stays as it is, which is warned of now and then."""

    def __init__(
        self, store: SpillStore | None, settings: SpillBufferConfig, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store, self._settings, self._clock = store, settings, clock
        self._warned: float | None = None

    def wants(self, result: Any, tool: str) -> bool:
        """Whether `result` is too large; reads no file."""
        return self._store is not None and exceeds(result, tool, self._settings)

    def spill(self, result: Any, tool: str) -> tuple[Any, list[Spilled]]:
        """`result` with every text that is too large in a file, and what was spilled. Writes files."""
        found: list[Spilled] = []
        if self._store is None:
            return result, found

        def done(short: ToolMessage) -> None:
            self._warned = None
            marker = markers_in(content_text(short.content))[0]
            found.append(Spilled(tool, int(marker["bytes"]), f"spill:{marker['digest']}"))

        changed = spilled_result(result, tool, self._settings, self._store, failed=self._note, done=done)
        return changed, found

    def replaced(self, messages: Sequence[BaseMessage]) -> tuple[list[BaseMessage], list[Spilled]]:
        """Copies of those tool results in `messages` that are too large, spilled, to replace them by id."""
        found: list[BaseMessage] = []
        noted: list[Spilled] = []
        for message, tool in _results(messages):
            if message.id and self.wants(message, tool):
                short, spilled = self.spill(message, tool)
                found += [short] if short is not message else []
                noted += spilled
        return found, noted

    def _note(self, error: OSError) -> None:
        now, warned = self._clock(), self._warned
        if warned is None or now - warned >= QUIET_SECONDS:
            self._warned = now
            logger.warning(
                "A large tool result stays in the conversation, it cannot be written to a file: %s", outline(error)
            )


def _results(messages: Sequence[BaseMessage]) -> Sequence[tuple[ToolMessage, str]]:
    """The tool results behind the newest assistant message: the others were seen before."""
    found: list[tuple[ToolMessage, str]] = []
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            names = {call["id"]: call["name"] for call in message.tool_calls}
            return [(result, result.name or names.get(result.tool_call_id) or "") for result, _ in reversed(found)]
        if isinstance(message, ToolMessage):
            found.append((message, ""))
    return []


def spill_folder(config: RuntimeConfig, workspace: Path) -> Path:
    """Where the spill files are: `spill_buffer.path` in the workspace, or that path itself where it is absolute."""
    return workspace / Path(config.tools.spill_buffer.path).expanduser()


def sweep(
    folder: Path,
    database: str,
    stored: Callable[[str], Iterable[bytes]],
    settings: MaintenanceConfig,
    now: Callable[[], float] = time.time,
) -> int:
    """Remove spill files that no thread in `database` refers to any more, by age and by size; how many.

    `stored` gives everything the file holds: every checkpoint and every pending write counts, so also the branches a
    thread has left. A folder that other databases use too is left alone, as nobody knows what they refer to. It reads
    the whole database, so it is done once a day at most.
    """
    if not folder.is_dir() or not Path(database).is_file() or not _is_due(folder, database, now()):
        return 0
    keep, most = settings.spill_retention_days * DAY, settings.spill_max_mb * MEGABYTE
    swept = SpillStore(folder).sweep(_referred_to(stored(database)), now=now(), keep_seconds=keep, max_bytes=most)
    return swept.files


def _is_due(folder: Path, database: str, moment: float) -> bool:
    """Whether `database` may sweep the folder: the first one to ask signs it, and nobody else does, once a day."""
    sign, name = folder / OWNER, str(Path(database).absolute())
    try:
        sign.touch(0o600, exist_ok=False)
        sign.write_text(name, encoding="utf-8")
    except FileExistsError:
        if sign.read_text(encoding="utf-8") != name or moment - sign.stat().st_mtime < DAY:
            return False
        os.utime(sign, (moment, moment))
    return True


def _referred_to(values: Iterable[bytes]) -> set[str]:
    return set().union(*map(references_in, values))
