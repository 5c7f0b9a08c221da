"""The memories of a workspace: one `Keeper` a namespace, found by what a run knows of its user.

Without a workspace, or where a name in `memory.namespace` has no value in the run, there is none, and what belongs to
long-term memory is off for that run.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path

from langchain_core.embeddings import Embeddings

from .longterm.embedding import Vectors
from .longterm.folder import LEDGER, MEMORY
from .longterm.forgetting import INDEX
from .longterm.keeper import Keeper
from .models import embeddings_name
from .namespace import OWN_FOLDERS, Namespace, folder_of, namespace_of
from .place import Place
from .sessions import FOLDER as SESSIONS

logger = logging.getLogger(__name__)

OPEN = 64
"""Keepers that are held open; one that is not costs opening its index again."""


class Homes:
    """Keepers of the namespaces in `workspace` that `template` gives; with `embeddings` they search by meaning too."""

    def __init__(self, workspace: Path | None, template: Sequence[str], embeddings: Embeddings | None = None) -> None:
        self.workspace, self._template, self._embeddings = workspace, tuple(template), embeddings
        self._keepers: OrderedDict[Path, Keeper] = OrderedDict()
        self._lock = threading.Lock()

    def namespace(self, place: Place) -> Namespace | None:
        """Whose memory a run works with; None where a value is missing."""
        return namespace_of(self._template, place.configurable, place.context)

    def of(self, place: Place) -> Keeper | None:
        """The keeper for a run; None where long-term memory is off for it."""
        if self.workspace is None or (namespace := self.namespace(place)) is None:
            return None
        return self.at(folder_of(self.workspace, namespace))

    def at(self, folder: Path) -> Keeper:
        """The keeper of a folder of the workspace."""
        assert self.workspace is not None
        with self._lock:
            keeper = self._keepers.get(folder) or Keeper(self.workspace, folder, vectors=self._vectors())
            self._keepers[folder] = keeper
            self._keepers.move_to_end(folder)
            # An index that is in use when it is closed here is closed once it no longer is.
            old = self._keepers.popitem(last=False)[1] if len(self._keepers) > OPEN else None
        if old is not None:
            old.close()
        return keeper

    def _vectors(self) -> Vectors | None:
        return None if self._embeddings is None else Vectors(self._embeddings, embeddings_name(self._embeddings))

    def all(self) -> list[Keeper]:
        """The keepers of every namespace that the workspace holds anything of. Reads folders."""
        if self.workspace is None:
            return []
        return [self.at(folder) for folder in _homes(self.workspace, len(self._template))]

    def space(self, place: Place) -> str | None:
        """Names the memory of a run in its record: the folder within the workspace; None where it has none."""
        namespace = self.namespace(place)
        return None if namespace is None else folder_of(Path(), namespace).as_posix()

    def space_of(self, keeper: Keeper) -> str:
        """The same name, of a keeper of this workspace."""
        return keeper.folder.path.relative_to(keeper.folder.workspace).as_posix()

    def close(self) -> None:
        with self._lock:
            keepers, self._keepers = list(self._keepers.values()), OrderedDict()
        for keeper in keepers:
            keeper.close()


def _homes(folder: Path, depth: int) -> Iterator[Path]:
    """Those of the folder and the folders in it, `depth` deep, that hold anything of a memory."""
    there = _inside(folder)
    if not there.keys().isdisjoint((MEMORY, LEDGER, INDEX, SESSIONS)):
        yield folder
    for name in sorted(name for name, is_folder in there.items() if is_folder and depth):
        if name not in OWN_FOLDERS and not name.startswith("."):
            yield from _homes(folder / name, depth - 1)


def _inside(folder: Path) -> dict[str, bool]:
    """What is in a folder, and whether it is one itself; nothing where that cannot be read."""
    try:
        with os.scandir(folder) as found:
            return {one.name: one.is_dir(follow_symlinks=False) for one in found}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        logger.warning("The memories in a folder are left out: %s", error)
        return {}
