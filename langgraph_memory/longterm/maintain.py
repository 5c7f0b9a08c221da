"""The regular round through one namespace: what is old is put away, what is derived is checked. Blocking.

Each step can be made at any time, beside agents that write, twice at once, and after a crash in the middle of it: what
it changes it changes under the lock of the namespace, and what it finds half done it completes.

A ledger goes to the archive as a copy, then the index names the copy, then the ledger is removed, so that a search
finds each entry at every moment. It goes only once consolidation is through with all of its entries. Ages of ledgers
are differences of local dates, so neither daylight saving nor a clock that is set back puts anything away early.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from hashlib import blake2b

from ..config import MaintenanceConfig
from ..errors import LangGraphMemoryError
from ..sessions import FOLDER as SESSIONS
from ..sidecalls import named
from . import history
from .consolidate import Mark, unmerged
from .folder import ARCHIVE, LEDGER
from .index import Stamp
from .keeper import Keeper, day_of

logger = logging.getLogger(__name__)

DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class Done:
    """What a step did."""

    name: str
    count: int = 0
    """Of the things it put away, removed or made anew."""
    problem: str = ""
    """Why it was not done, or what it mended."""


Step = tuple[str, Callable[[], Done]]


def steps(
    keeper: Keeper, config: MaintenanceConfig, *, clock: Callable[[], datetime] = lambda: datetime.now().astimezone()
) -> list[Step]:
    """The steps of a round, each with its name; none of them raises for the state of the files."""
    todo: list[tuple[str, Callable[[], Done]]] = [
        ("ledgers", lambda: expire_ledgers(keeper, config.ledger_retention_days, clock().astimezone().date())),
        ("sessions", lambda: prune_sessions(keeper, config.session_retention_days, clock().timestamp())),
        ("versions", lambda: Done("versions", history.prune(keeper))),
        ("index", lambda: refresh_index(keeper)),
    ]
    return [(name, partial(_tried, name, step)) for name, step in todo]


def maintain(keeper: Keeper, config: MaintenanceConfig) -> list[Done]:
    """A whole round."""
    return [step() for _, step in steps(keeper, config)]


def _tried(name: str, step: Callable[[], Done]) -> Done:
    try:
        return step()
    except (OSError, sqlite3.Error, LangGraphMemoryError) as error:
        logger.warning("The memory's %s could not be looked after: %s", name, error)
        return Done(name, 0, named(error))


# Ledgers


def expire_ledgers(keeper: Keeper, days: int, today: date) -> Done:
    """Put ledgers that are older than `days` into the archive, 0 for none; those not consolidated yet stay."""
    moved, waiting = 0, 0
    for name in keeper.folder.names(LEDGER):
        day = day_of(name)
        if not days or day is None or (today - day).days <= days:
            continue
        with keeper.folder.locked():
            if not keeper.folder.size(name):
                continue
            keeper.sync()
            if unmerged(keeper, name):
                waiting += 1
                continue
            _archive(keeper, name)
            moved += 1
    _tidy_mark(keeper)
    return Done("ledgers", moved, f"{waiting} are not consolidated yet" if waiting else "")


def _archive(keeper: Keeper, name: str) -> None:
    """Move a ledger, so that at every moment the index names a file that holds its entries."""
    folder, archived = keeper.folder, name.replace(LEDGER, ARCHIVE, 1)
    data, there = folder.bytes_of(name) or b"", folder.bytes_of(archived)
    if there is None or there == data:
        if there is None:
            folder.replace(archived, data)
        with keeper.writing() as db:
            keeper.index.rename(db, name, archived)
            keeper.index.extend(db, archived, [], _stamp(keeper, archived, data))
            db.execute("DELETE FROM tails WHERE path = ?", (name,))
    else:
        # Entries of that day that came late, or that a crash has left here as well.
        _, _, late = data.partition(b"\n") if data.startswith(b"# ") else (b"", b"", data)
        if not there.endswith(late):
            folder.replace(archived, there.rstrip(b"\n") + b"\n" + late.lstrip(b"\n"))
        keeper.sync()
        if archived not in keeper.index.stamps():
            raise LangGraphMemoryError(f"{archived} could not be indexed, so {name} stays for now.")
    folder.remove(name)
    keeper.sync()


def _stamp(keeper: Keeper, name: str, data: bytes) -> Stamp:
    stat = keeper.folder.stat(name)
    return Stamp(stat.st_size, stat.st_mtime_ns, blake2b(data, digest_size=16).hexdigest())


def _tidy_mark(keeper: Keeper) -> None:
    """Have the watermark forget ledgers that are no more."""
    if _tidied(keeper) is None:
        return
    with keeper.folder.locked():
        if (state := _tidied(keeper)) is not None:
            keeper.write_state(state)


def _tidied(keeper: Keeper) -> dict[str, object] | None:
    state, there = keeper.state(), set(keeper.folder.names(LEDGER))
    mark = Mark.of(state)
    gone = {name for one in (mark.upto, mark.recent, mark.skipped) for name in one} - there
    for name in gone:
        mark = mark.without(name)
    return {**state, **mark.to_json()} if gone else None


# Session logs


def prune_sessions(keeper: Keeper, days: int, now: float) -> Done:
    """Remove session logs that nothing was added to for `days`, 0 for none."""

    def is_old(name: str) -> bool:
        return now - keeper.folder.stat(name).st_mtime > days * DAY_SECONDS

    removed = 0
    for name in keeper.folder.names(SESSIONS, ".jsonl") if days else ():
        try:
            if not is_old(name):
                continue
            with keeper.folder.locked():
                if is_old(name):
                    keeper.folder.remove(name)
                    removed += 1
        except FileNotFoundError:
            continue
    return Done("sessions", removed)


# The index


def refresh_index(keeper: Keeper) -> Done:
    """Bring the index up to date with the files, and make it anew where it is damaged; how many entries that were."""
    # In this order: to bring it up to date may mend it too, and then nobody would say so.
    if not keeper.folder.path.is_dir():
        return Done("index")
    try:
        problems = keeper.index.problems()
        keeper.sync()
    except (sqlite3.Error, LangGraphMemoryError) as error:
        problems = [named(error)]
    return Done("index", keeper.reindex(), problems[0]) if problems else Done("index")
