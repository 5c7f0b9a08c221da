"""`lgm memory status`: what a memory holds, and what it waits for."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from .console import print_json, print_values, say
from .files import readable_size
from .options import ConfigOption, JsonOption, NamespaceOption, SetOption, UserOption

if TYPE_CHECKING:
    from langgraph_memory.longterm.keeper import Keeper

    from .whose import Memory


def status(
    user: UserOption = None,
    values: SetOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Show where a memory is, what it holds, whether its index is in step, and what it waits for."""
    from .whose import Whose, chosen

    with chosen(config, Whose.of(user, values, namespace)) as memory:
        found = status_of(memory)
    if as_json:
        print_json(asdict(found))
        return
    print_values(_rows(found))
    for problem in found.index.problems:
        say(f"The index has a problem that `lgm memory reindex` mends: {problem}")


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """Whether the index says what the files say."""

    exists: bool
    behind: list[str]
    """Files that changed since they were indexed; the next search indexes them."""
    problems: list[str]


@dataclass(frozen=True, slots=True)
class Failure:
    """The last consolidation that failed, if nothing was merged since."""

    at: str
    reason: str
    times: int
    """In a row, with the same entries."""


@dataclass(frozen=True, slots=True)
class Due:
    """A thread that is to be flushed."""

    thread: str
    reason: str
    since: str


@dataclass(frozen=True, slots=True)
class Status:
    """A memory, looked at. Times are ISO 8601, UTC."""

    memory: str
    folder: str
    bytes: int
    entries: int
    """In MEMORY.md, the ledgers and the archive."""
    abandoned: int
    """Of those, on branches that were given up."""
    ledgers: int
    archived: int
    versions: int
    sessions: int
    """Threads of which messages are logged."""
    memory_tokens: int
    max_memory_tokens: int
    waiting: int
    """Entries that consolidation has not come to."""
    last_consolidated: str | None
    failed: Failure | None
    due: list[Due]
    index: IndexStatus
    kept_aside: list[str]
    """Copies of files that could not be read."""


def status_of(memory: Memory) -> Status:
    from langgraph_memory.context.tokens import load_counter
    from langgraph_memory.longterm import history

    from .memory_files import files, stats_of

    keeper, settings = memory.keeper, memory.config.memory
    listed, sizes, state = files(keeper), stats_of(keeper), keeper.state()
    last = state.get("last_run")
    return Status(
        memory=memory.name,
        folder=str(keeper.folder.path),
        bytes=sum(sizes.values()),
        entries=sum(one.entries for one in listed),
        abandoned=sum(one.abandoned for one in listed),
        ledgers=sum(one.kind == "ledger" for one in listed),
        archived=sum(one.kind == "archive" for one in listed),
        versions=len(history.versions(keeper)),
        sessions=sum(name.startswith("sessions/") for name in sizes),
        memory_tokens=load_counter(settings.tokenizer).text(keeper.memory_md()),
        max_memory_tokens=settings.consolidation.max_memory_tokens,
        waiting=waiting(keeper),
        last_consolidated=last if isinstance(last, str) else None,
        failed=_failure(state.get("failed")),
        due=_due(keeper),
        index=_index(keeper),
        kept_aside=keeper.folder.copies(),
    )


def waiting(keeper: Keeper) -> int:
    """How many entries of the ledgers consolidation has not come to yet."""
    from langgraph_memory.longterm.consolidate import Mark, past

    return sum(row.entry.type != "tool_result" for row in past(keeper, Mark.of(keeper.state())))


def _failure(found: Any) -> Failure | None:
    if not isinstance(found, dict):
        return None
    times = found.get("times")
    return Failure(str(found.get("at", "")), str(found.get("reason", "")), times if isinstance(times, int) else 1)


def _due(keeper: Keeper) -> list[Due]:
    from langgraph_memory.longterm import flushed
    from langgraph_memory.longterm.forgetting import INDEX
    from langgraph_memory.longterm.keeper import UNUSABLE

    if not keeper.folder.size(INDEX):
        return []
    try:
        with keeper.reading() as db:
            found = flushed.due(db)
    except (*UNUSABLE, sqlite3.Error):
        # Told as a problem of the index, or nothing was ever noted in it.
        return []
    return [Due(one.thread, one.reason, datetime.fromtimestamp(one.time, UTC).isoformat()) for one in found]


def _index(keeper: Keeper) -> IndexStatus:
    from langgraph_memory.longterm.forgetting import INDEX
    from langgraph_memory.longterm.keeper import UNUSABLE

    from .memory_files import behind, files

    if not keeper.folder.size(INDEX):
        return IndexStatus(False, [one.path for one in files(keeper)], [])
    try:
        stamps = keeper.index.stamps()
        problems = keeper.index.problems()
    except (*UNUSABLE, sqlite3.Error) as error:
        return IndexStatus(True, [], [str(error)])
    return IndexStatus(True, behind(keeper, (one.path for one in files(keeper)), stamps), problems)


def _rows(found: Status) -> Iterator[tuple[str, str]]:
    yield "memory", found.memory
    yield "folder", found.folder
    yield "size", readable_size(found.bytes)
    yield "entries", f"{found.entries:,}" + (f", {found.abandoned:,} from branches given up" if found.abandoned else "")
    yield "files", _files(found)
    yield "MEMORY.md", f"{found.memory_tokens:,} of {found.max_memory_tokens:,} tokens"
    yield "to be consolidated", f"{found.waiting:,} {'entry' if found.waiting == 1 else 'entries'}"
    yield "last consolidated", _time(found.last_consolidated) or "never"
    if failure := found.failed:
        often = f", {failure.times} times in a row" if failure.times > 1 else ""
        yield "last failure", f"{_time(failure.at)}{often}: {failure.reason}"
    threads = ", ".join(f"{one.thread} ({one.reason}, {_time(one.since)})" for one in found.due)
    yield "to be flushed", threads or "nothing"
    yield "index", _index_line(found.index)
    if found.kept_aside:
        yield "damaged, kept aside", ", ".join(found.kept_aside)


def _files(found: Status) -> str:
    counts = {
        "ledger": found.ledgers,
        "archived": found.archived,
        "earlier version": found.versions,
        "session log": found.sessions,
    }
    return ", ".join(f"{count:,} {_plural(name, count)}" for name, count in counts.items())


def _plural(name: str, count: int) -> str:
    return name if count == 1 or name == "archived" else f"{name}s"


def _index_line(index: IndexStatus) -> str:
    if index.problems:
        return f"damaged: {index.problems[0]}"
    if not index.exists:
        return "not made yet; the first search does it"
    return f"behind in {', '.join(index.behind)}; the next search indexes them" if index.behind else "in step"


def _time(text: str | None) -> str:
    return (text or "")[:19].replace("T", " ")
