"""Earlier versions of MEMORY.md: `memory/history/<UTC timestamp>-<digest>.md`, each the file as a change found it.

Nothing goes back in time here: to revert is to write an old text as a new version, by the same compare-and-swap as any
other change, so what was reverted is a version too.
"""

from __future__ import annotations

import difflib
import re
from datetime import UTC, datetime
from typing import NamedTuple

from .folder import HISTORY, MEMORY, WorkspaceError
from .keeper import Keeper

MOST_VERSIONS = 100
PRESENT = MEMORY
"""Names what MEMORY.md says now, where a version is asked for."""

_NAME = re.compile(rf"{HISTORY}/(\d{{8}}T\d{{12}}Z)-([0-9a-f]+)\.md")


class Version(NamedTuple):
    """An earlier MEMORY.md."""

    path: str
    """From the folder of the namespace."""
    when: datetime
    """Until when it was the memory, UTC."""
    digest: str
    """A part of it that fits no other version names this one."""


class Diff(str):
    """A unified diff, which a notebook shows in colour."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        from ..display import diff_html

        return diff_html(self)


def versions(keeper: Keeper) -> list[Version]:
    """The earlier versions, the newest first; files with other names are none."""
    found = (_NAME.fullmatch(name) for name in reversed(keeper.folder.names(HISTORY)))
    return [Version(one[0], _moment(one[1]), one[2]) for one in found if one]


def version(keeper: Keeper, name: str) -> Version:
    """The version of a path, a file name, or the beginning of a timestamp or digest. Raises `WorkspaceError`."""
    wanted = name.removeprefix(f"{HISTORY}/").removesuffix(".md")
    there = versions(keeper)
    stems = {one: one.path.removeprefix(f"{HISTORY}/").removesuffix(".md") for one in there}
    found = [one for one, stem in stems.items() if stem == wanted] or [
        one for one, stem in stems.items() if wanted and (stem.startswith(wanted) or one.digest.startswith(wanted))
    ]
    if len(found) == 1 or (found and len({one.digest for one in found}) == 1):
        return found[0]
    if found:
        raise WorkspaceError(f"{name!r} names {len(found)} versions of the memory; give more of it.")
    raise WorkspaceError(f"{name!r} names none of the {len(there)} earlier versions of the memory.")


def text(keeper: Keeper, name: str = PRESENT) -> str:
    """What a version says, or the memory of now. Raises `WorkspaceError`."""
    if name == PRESENT:
        return keeper.memory_md()
    path = version(keeper, name).path
    if (data := keeper.folder.bytes_of(path)) is None:
        raise WorkspaceError(f"{path}: the version was removed just now.")
    return data.decode(errors="replace").removeprefix("\ufeff").replace("\r\n", "\n")


def diff(keeper: Keeper, old: str | None = None, new: str = PRESENT) -> Diff:
    """What changed from `old`, else from the newest version, to `new`: a unified diff, "" where nothing did."""
    if old is None:
        there = versions(keeper)
        before, old = (text(keeper, there[0].path), there[0].path) if there else ("", "nothing")
    else:
        before = text(keeper, old)
    return unified(before, text(keeper, new), old, new)


def unified(before: str, after: str, old: str = "before", new: str = "after") -> Diff:
    """A unified diff of two texts."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), old, new, lineterm="")
    return Diff("".join(f"{line}\n" for line in lines))


def revert(keeper: Keeper, name: str) -> bool:
    """Make an earlier version the memory again; False where the memory changed in that very moment.

    Raises `WorkspaceError` for a name that is none.
    """
    was, old = keeper.memory_md(), text(keeper, name)
    return was == old or keeper.replace_memory(old, was=was)


def prune(keeper: Keeper, keep: int = MOST_VERSIONS) -> int:
    """Remove all but the newest `keep` versions; how many that were."""
    if len(versions(keeper)) <= keep:
        return 0
    with keeper.folder.locked():
        old = versions(keeper)[keep:]
        for one in old:
            keeper.folder.remove(one.path)
    return len(old)


def _moment(stamp: str) -> datetime:
    try:
        return datetime.strptime(stamp, "%Y%m%dT%H%M%S%fZ").replace(tzinfo=UTC)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
