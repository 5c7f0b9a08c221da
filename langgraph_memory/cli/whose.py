"""Whose long-term memory a command is about: options that name a namespace, and the memories that a workspace holds.

An id becomes a folder name that need not be the id, so a memory may be named in three ways: by what a run would know
(`--user`, `--set`), by the parts of its namespace, or by the parts as they are shown. Where nothing is named and there
is one memory only, it is that one.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import typer

from langgraph_memory.config import RuntimeConfig, load_config
from langgraph_memory.errors import LangGraphMemoryError
from langgraph_memory.homes import Homes
from langgraph_memory.longterm.folder import LEDGER, MEMORY
from langgraph_memory.longterm.forgetting import INDEX
from langgraph_memory.longterm.keeper import Keeper
from langgraph_memory.namespace import Namespace, folder_of, namespace_of
from langgraph_memory.opening import workspace_of
from langgraph_memory.sessions import FOLDER as SESSIONS

from .called import program
from .errors import MemoryMissingError, MemoryUnusableError, UnknownMemoryError

SHARED = "(shared)"
"""How the memory of the workspace's own folder is shown."""
DIGEST = 8
"""Characters that are shown of the digest in a folder name."""
MOST_NAMED = 20
"""Memories that an error lists."""


@dataclass(frozen=True, slots=True)
class Whose:
    """What the options of a command say."""

    user: str | None = None
    values: tuple[str, ...] = ()
    """`name=value` each."""
    parts: Namespace = ()

    @classmethod
    def of(cls, user: str | None, values: Sequence[str] | None, parts: Sequence[str] | None) -> Whose:
        return cls(user, tuple(values or ()), tuple(parts or ()))

    def namespace(self, template: Sequence[str]) -> Namespace | None:
        """The namespace that is named; None where none is, though `template` needs values."""
        values = self._values()
        if self.parts:
            if values:
                raise typer.BadParameter("--namespace gives the parts themselves: leave --user and --set out")
            return self.parts
        slots = [name for part in template for name in re.findall(r"\{([^{}]+)\}", part)]
        for name in values:
            if name not in slots:
                raise typer.BadParameter(f"memory.namespace is {list(template)}, there is no {{{name}}} to be filled")
        if values and (missing := next((name for name in slots if not values.get(name, "").strip()), None)):
            option = "--user ID" if missing == "user_id" else f"--set {missing}=VALUE"
            raise typer.BadParameter(f"memory.namespace is {list(template)}: give {{{missing}}} too, with {option}")
        return namespace_of(template, values)

    def _values(self) -> Mapping[str, str]:
        values = {} if self.user is None else {"user_id": self.user}
        for one in self.values:
            name, equals, value = one.partition("=")
            if not equals:
                raise typer.BadParameter(f"--set {one!r}; allowed: NAME=VALUE, as in team=harbour")
            values[name.strip()] = value
        return values


@dataclass(frozen=True, slots=True)
class Memory:
    """A long-term memory that was chosen."""

    keeper: Keeper
    name: str
    """As it is shown."""
    config: RuntimeConfig

    @property
    def workspace(self) -> Path:
        return workspace_of(self.config)


@contextmanager
def chosen(config: Path | None, whose: Whose, *, new: bool = False) -> Iterator[Memory]:
    """The memory that is named, or the only one; with `new` also one that holds nothing yet.

    Raises `UnknownMemoryError` and `MemoryMissingError`, and `MemoryUnusableError` for what goes wrong with its files.
    """
    settings = load_config(config).config
    homes = homes_of(settings)
    try:
        with naming(workspace_of(settings)):
            keeper = _found(homes, whose, settings, new=new)
        with naming(keeper.folder.path):
            yield Memory(keeper, shown_name(homes, keeper), settings)
    finally:
        homes.close()


@contextmanager
def all_chosen(config: RuntimeConfig, whose: Whose) -> Iterator[list[Memory]]:
    """The memory that is named, or all there are. Raises `UnknownMemoryError`."""
    homes = homes_of(config)
    try:
        named = whose.user is not None or whose.values or whose.parts
        keepers = [_found(homes, whose, config)] if named else homes.all()
        yield [Memory(keeper, shown_name(homes, keeper), config) for keeper in keepers]
    finally:
        homes.close()


def homes_of(config: RuntimeConfig) -> Homes:
    return Homes(workspace_of(config).absolute(), config.memory.namespace)


@contextmanager
def naming(folder: Path) -> Iterator[None]:
    """Tell what goes wrong with the files of a memory as an error that names its folder."""
    try:
        yield
    except LangGraphMemoryError:
        raise
    except (OSError, sqlite3.Error) as error:
        reason = getattr(error, "strerror", None) or error
        file = getattr(error, "filename", None) or folder
        raise MemoryUnusableError(f"{file}: this memory cannot be used ({reason}).") from error


def shown_name(homes: Homes, keeper: Keeper) -> str:
    """The folder of a memory within the workspace, its digests cut; `--namespace` takes it, a part each."""
    parts = Path(homes.space_of(keeper)).parts
    return "/".join(re.sub(rf"(~[0-9a-f]{{{DIGEST}}})[0-9a-f]+$", r"\1", part) for part in parts) or SHARED


def _found(homes: Homes, whose: Whose, config: RuntimeConfig, *, new: bool = False) -> Keeper:
    workspace = homes.workspace
    assert workspace is not None
    namespace = whose.namespace(config.memory.namespace)
    if namespace is None:
        return _only(homes, config)
    folder = folder_of(workspace, namespace)
    if _is_there(folder):
        return homes.at(folder)
    if listed := _listed(homes, whose.parts):
        return listed
    if new:
        return homes.at(folder)
    there = homes.all()
    if not there:
        raise MemoryMissingError(none_here(config))
    named = "/".join(namespace) or SHARED
    raise UnknownMemoryError(f"{workspace}: there is no memory of {named!r}; there is {_list(homes, there)}.")


def _only(homes: Homes, config: RuntimeConfig) -> Keeper:
    there = homes.all()
    if not there:
        raise MemoryMissingError(none_here(config))
    if len(there) > 1:
        raise UnknownMemoryError(
            f"{homes.workspace}: there are {len(there)} memories, {_list(homes, there)}: name one with --user ID, "
            "--set NAME=VALUE or --namespace PART."
        )
    return there[0]


def _is_there(folder: Path) -> bool:
    return any((folder / name).exists() for name in (MEMORY, LEDGER, INDEX, SESSIONS))


def _listed(homes: Homes, parts: Namespace) -> Keeper | None:
    """The one memory that is shown by these parts; each may be the beginning of a name with a digest."""
    wanted = [name for part in parts for name in part.split("/")]
    found = [keeper for keeper in homes.all() if _fits(Path(homes.space_of(keeper)).parts, wanted)] if wanted else []
    return found[0] if len(found) == 1 else None


def _fits(names: Sequence[str], wanted: Sequence[str]) -> bool:
    if wanted == [SHARED]:
        return not names
    pairs = zip(names, wanted, strict=False)
    return len(names) == len(wanted) and all(a == b or ("~" in b and a.startswith(b)) for a, b in pairs)


def _list(homes: Homes, there: Sequence[Keeper]) -> str:
    names = [shown_name(homes, keeper) for keeper in there[:MOST_NAMED]]
    more = [f"{len(there) - MOST_NAMED} more"] if len(there) > MOST_NAMED else []
    return ", ".join([*names, *more])


def none_here(config: RuntimeConfig) -> str:
    """Where a memory was looked for, and how one is made."""
    return (
        f"{workspace_of(config)}: there is no long-term memory here yet. An agent makes one, or "
        f"`{program()} memory add TEXT --user ID`; another folder is named by persistence.workspace in runtime.json "
        "(--config) or by $LANGGRAPH_MEMORY_WORKSPACE."
    )
