"""What `ThreadStore` lists: lists like any other, which a notebook shows as a table or a tree, and IPython in lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self, SupportsIndex, TypeVar, overload

from langchain_core.messages import BaseMessage

from .shapes import Hit, Node, ThreadRow

T = TypeVar("T")


class Listed(list[T]):
    """A list whose slices are of its kind, so that they show as it does."""

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> T: ...

    @overload
    def __getitem__(self, index: slice[Any, Any, Any], /) -> Self: ...

    def __getitem__(self, index: SupportsIndex | slice[Any, Any, Any], /) -> T | Self:
        found: Any = super().__getitem__(index)
        return type(self)(found) if isinstance(index, slice) else found

    def lines(self) -> list[str]:
        """What IPython shows where there is no HTML."""
        return [repr(one) for one in self]

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text("\n".join(self.lines()) or "[]")


class Threads(Listed[ThreadRow]):
    """`damaged` are the threads that cannot be read, and so are not in the list."""

    def __init__(self, rows: Iterable[ThreadRow] = (), *, damaged: Iterable[str] = ()) -> None:
        super().__init__(rows)
        self.damaged = tuple(damaged)

    def lines(self) -> list[str]:
        read = [f"{row.thread_id}: {row.turns} turns, {row.messages} messages, {row.branches} branches" for row in self]
        return read + [f"{name}: damaged, cannot be read" for name in self.damaged]

    def _repr_html_(self) -> str:
        from .display import threads_html

        return threads_html(self)


class Messages(Listed[BaseMessage]):
    def lines(self) -> list[str]:
        from .display import Said

        return [f"[{place}] {Said.of(message).line}" for place, message in enumerate(self)]

    def _repr_html_(self) -> str:
        from .display import messages_html

        return messages_html(self)


class Tree(Listed[Node]):
    def lines(self) -> list[str]:
        from .display import checkpoint_lines

        return [line.text for line in checkpoint_lines(self)]

    def _repr_html_(self) -> str:
        from .display import tree_html

        return tree_html(self)


class Hits(Listed[Hit]):
    def lines(self) -> list[str]:
        return [f"{hit.thread_id}, {hit.role}: {hit.excerpt}" for hit in self]

    def _repr_html_(self) -> str:
        from .display import hits_html

        return hits_html(self)
