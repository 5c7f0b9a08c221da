"""A message list with what the decisions need to know about it: keys, prefix digests and token counts.

A `History` is a value derived from the messages alone. Deriving it costs a hash and a token count a message, so the
next history of a thread is made from the previous one: rows whose message is unchanged are reused, the rest is paid.

* `keys[i]` names message i: its id, or a name made from the prefix digest where it has no id or an id seen before.
* `digests[i]` fixes messages 0…i — ids, content, calls — so an equal digest means an equal prefix at an equal position.
* `tokens[i]` is what message i takes as it stands, in the counter's tokens.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from operator import attrgetter, is_, itemgetter
from typing import Any

from langchain_core.messages import BaseMessage, SystemMessage

from .text import to_json
from .tokens import TokenCounter, count_message

MEMO_SIZE = 16_384
WATCHED = 100
"""Newest messages whose ids are compared too."""
TURNS = 32
"""Calls in which all messages that are out of sight are looked at once."""
Columns = tuple[list[str | None], list[Any], list[Any], list[Any]]
"""What makes messages the same messages: their ids, contents, calls and the calls they answer, each side by side, so
that they are compared at once."""

_fields, _id, _content = attrgetter("__dict__"), itemgetter("id"), itemgetter("content")


def _columns(fields: Sequence[dict[str, Any]]) -> Columns:
    return (
        list(map(_id, fields)),
        list(map(_content, fields)),
        [field.get("tool_calls") for field in fields],
        [field.get("tool_call_id") for field in fields],
    )


def _detached(value: Any) -> Any:
    """A copy that a later change in place does not reach. Texts are the same objects, which are soon compared."""
    try:
        return _copied(value)
    except Exception:  # noqa: BLE001 - foreign objects raise what they like; such a row is derived anew each time
        return None


def _copied(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if type(value) is list:
        return list(map(_copied, value))
    if type(value) is dict:
        return {key: _copied(item) for key, item in value.items()}
    return copy.deepcopy(value)


class Looks:
    """What messages looked like when they were taken in: their columns, detached from them, and their own fields.

    To look at the fields takes half the time of looking at the messages. The histories of a thread that grows share
    one of these, which then holds more than the older ones know of: it is only ever added to, at the end.
    """

    __slots__ = ("_lock", "_next", "columns", "fields")

    def __init__(self, fields: list[dict[str, Any]], columns: Columns) -> None:
        self.fields, self.columns = fields, columns
        self._next = 0
        self._lock = threading.Lock()

    def over(self, messages: Sequence[BaseMessage]) -> Looks:
        """These looks for other objects that are equal to the first ones here."""
        return Looks(list(map(_fields, messages)), self._front(len(messages)))

    def grown(self, size: int, fields: list[dict[str, Any]], columns: Columns) -> Looks:
        """The first `size` of these looks and the given ones; the same object, where nothing is behind those."""
        ids, contents, calls, answered = columns
        columns = ids, list(map(_detached, contents)), list(map(_detached, calls)), answered
        with self._lock:
            alone = len(self.fields) == size
            grown = self if alone else Looks(self.fields[:size], self._front(size))
            for column, more in zip(grown.columns, columns, strict=True):
                column += more
            grown.fields += fields
        return grown

    def turn(self, size: int) -> tuple[int, int]:
        """The range among the first `size` messages whose turn it is to be looked at."""
        start = self._next if self._next < size else 0
        self._next = end = min(size, start + max(WATCHED, -(-size // TURNS)))
        return start, end

    def unchanged(self, start: int, end: int) -> bool:
        """Whether messages start…end-1 still say and call what they did."""
        fields, (_, contents, calls, answered) = self.fields, self.columns
        if (start, end) != (0, len(fields)):
            fields, contents = fields[start:end], contents[start:end]
            calls, answered = calls[start:end], answered[start:end]
        return (
            list(map(_content, fields)) == contents
            and [field.get("tool_calls") for field in fields] == calls
            and [field.get("tool_call_id") for field in fields] == answered
        )

    def _front(self, size: int) -> Columns:
        ids, contents, calls, answered = self.columns
        return ids[:size], contents[:size], calls[:size], answered[:size]


def _front(old: list[Any], new: list[Any]) -> int:
    """How many values at the front of two columns are equal."""
    size = min(len(old), len(new))
    if old[:size] == new[:size]:
        return size
    return next(i for i, (mine, theirs) in enumerate(zip(old, new, strict=False)) if mine != theirs)


def _digest(previous: bytes, kind: str, id: str | None, content: Any, calls: Any, answered: Any) -> bytes:
    parts = (kind, id, answered, calls or None, content)
    texts = ["null" if part is None else part if isinstance(part, str) else to_json(part) for part in parts]
    said = "".join(f"{len(text)}:{text}" for text in texts)
    return blake2b(previous + said.encode("utf-8", "surrogatepass"), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class History:
    """Messages and their derived rows; build it with `History.of`."""

    counter: TokenCounter
    messages: Sequence[BaseMessage] = ()
    keys: list[str] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    sums: list[int] = field(default_factory=lambda: [0])
    """`sums[j] - sums[i]` are the tokens of messages i…j-1."""
    positions: dict[str, int] = field(default_factory=dict)
    systems: tuple[int, ...] = ()
    """Positions of the system messages."""
    nameless: tuple[int, ...] = ()
    """Positions of the messages without an id; whoever takes them in later gives them one in place."""
    looks: Looks = field(default_factory=lambda: Looks([], ([], [], [], [])), repr=False, compare=False)
    memo: dict[Hashable, int] = field(default_factory=dict, repr=False)
    """Token counts of messages that stand only in the view; a cache shared by the histories of a thread."""

    @classmethod
    def of(
        cls,
        messages: Sequence[BaseMessage],
        counter: TokenCounter,
        previous: History | None = None,
        *,
        hidden: int = 0,
        shown: Sequence[int] = (),
    ) -> History:
        """Derive the rows of `messages`, reusing those of `previous` for the part both share.

        The first `hidden` messages of `previous` are out of sight, but for those at the positions `shown`: a summary
        stands for them. A change of these in place is found within `TURNS` calls, any other one in the next.
        """
        if previous is None or previous.counter is not counter:
            previous = cls(counter)
        same = previous._has(messages)
        shared = previous.shared_with(messages, same, hidden, shown)
        if same and shared == len(messages) == len(previous):
            return previous
        looks = previous.looks if same else previous.looks.over(messages[:shared])
        if shared < len(messages) or shared < len(previous):
            return previous._extended(messages, looks, shared)
        return previous._over(messages, looks)

    def __len__(self) -> int:
        return len(self.messages)

    def shared_with(
        self, messages: Sequence[BaseMessage], same: bool | None = None, hidden: int = 0, shown: Sequence[int] = ()
    ) -> int:
        """How many messages at the front of `messages` are those of this history; `same`: whether `_has` says so."""
        size = min(len(messages), len(self.messages))
        if (self._has(messages) if same is None else same) and self._unchanged(size, hidden, shown):
            return size
        return min(map(_front, self.looks.columns, _columns(list(map(_fields, messages[:size])))))

    def _has(self, messages: Sequence[BaseMessage]) -> bool:
        """Whether one begins with the message objects of the other."""
        return all(map(is_, self.messages, messages))

    def _unchanged(self, size: int, hidden: int, shown: Sequence[int]) -> bool:
        """Whether the first `size` message objects are still as they were: cheaper than to compare all columns.

        Those are compared that are in sight or whose turn it is; ids where there were none, and for the newest, which
        is where others write in place.
        """
        looks, hidden = self.looks, min(hidden, size)
        ids, fields, newest = looks.columns[0], looks.fields, slice(max(0, size - WATCHED), size)
        near = fields[newest]
        return (
            all(map(is_, map(_fields, self.messages[newest]), near))
            and looks.unchanged(hidden, size)
            and looks.unchanged(*looks.turn(hidden))
            and all(looks.unchanged(position, position + 1) for position in shown if position < size)
            and all(fields[position]["id"] is None for position in self.nameless if position < size)
            and list(map(_id, near)) == ids[newest]
        )

    def _over(self, messages: Sequence[BaseMessage], looks: Looks) -> History:
        """The same rows over equal message objects; the newest objects carry the newest metadata."""
        return History(
            self.counter,
            messages,
            self.keys,
            self.digests,
            self.tokens,
            self.sums,
            self.positions,
            self.systems,
            self.nameless,
            looks,
            self.memo,
        )

    def _extended(self, messages: Sequence[BaseMessage], looks: Looks, shared: int) -> History:
        keys, digests, tokens, sums = (
            self.keys[:shared],
            self.digests[:shared],
            self.tokens[:shared],
            self.sums[: shared + 1],
        )
        positions = dict(self.positions) if shared == len(self.keys) else {key: i for i, key in enumerate(keys)}
        new = messages[shared:]
        fields = list(map(_fields, new))
        columns = _columns(fields)
        for position, (message, *row) in enumerate(zip(new, *columns, strict=True), shared):
            digests.append(_digest(digests[-1] if digests else b"", message.type, *row))
            tokens.append(count_message(self.counter, message))
            sums.append(sums[-1] + tokens[-1])
            key = message.id if message.id and message.id not in positions else f"#{digests[-1].hex()}"
            positions[key] = position
            keys.append(key)
        systems = tuple(i for i in self.systems if i < shared)
        systems += tuple(i for i, message in enumerate(new, shared) if isinstance(message, SystemMessage))
        nameless = tuple(i for i in self.nameless if i < shared)
        nameless += tuple(i for i, message in enumerate(new, shared) if message.id is None)
        return History(
            self.counter,
            messages,
            keys,
            digests,
            tokens,
            sums,
            positions,
            systems,
            nameless,
            looks.grown(shared, fields, columns) if fields else looks,
            self.memo,
        )

    def continues(self, before: History) -> bool:
        """Whether this is `before` and what was said since."""
        end = len(before)
        return self.counter is before.counter and 0 < end <= len(self) and self.digests[end - 1] == before.digests[-1]

    def span(self, start: int, end: int) -> int:
        """Tokens of messages start…end-1 as they stand."""
        return self.sums[end] - self.sums[start]

    def cost(self, slot: Hashable, message: BaseMessage) -> int:
        """Tokens of a message that stands only in the view; `slot` names its content, so that it is counted once."""
        return self.once(slot, lambda: count_message(self.counter, message))

    def count(self, slot: Hashable, text: str) -> int:
        """Tokens of a text made from messages; `slot` as in `cost`."""
        return self.once(slot, lambda: self.counter.text(text))

    def once(self, slot: Hashable, count: Callable[[], int]) -> int:
        """What `count` gives; `slot` as in `cost`."""
        known = self.memo.get(slot)
        if known is None:
            known = count()
            if len(self.memo) >= MEMO_SIZE:
                self.memo.clear()
            self.memo[slot] = known
        return known
