"""What has to be entered before it gives anything, and says so to whoever uses it as what it gives."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NoReturn

from ..errors import NotEnteredError


class Unentered:
    """Base of context managers that are easily taken for what they give: a `kind` with `names` beside its methods.

    `made` is the call that made it, `entry` how it is entered, in words.
    """

    def __init__(self, kind: type, names: Collection[str], made: str, entry: str) -> None:
        self._opened, self._names, self._made, self._entry = kind, names, made, entry

    def not_entered(self, name: str = "") -> NotEnteredError:
        """The error of a use before it was entered."""
        used = f", so it has no {name!r}" if name else ""
        return NotEnteredError(f"{self._made} was not entered yet{used}: write {self._entry}, and use what `as` names.")

    def __getattr__(self, name: str) -> NoReturn:
        if not name.startswith("_") and (name in self._names or hasattr(self._opened, name)):
            raise self.not_entered(name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def __call__(self) -> Any:
        """LangGraph takes a node for callable and looks at how it is called when the node is added."""
        raise self.not_entered()
