"""A message list with what the decisions need to know about it: keys, prefix digests and token counts.

A `History` is a value derived from the messages alone. Deriving it costs a hash and a token count a message, so the
next history of a thread is made from the previous one: rows whose message is unchanged are reused, the rest is paid.

* `keys[i]` names message i: its id, or a name made from the prefix digest where it has no id or an id seen before.
* `digests[i]` fixes messages 0…i — ids, content, calls — so an equal digest means an equal prefix at an equal position.
* `tokens[i]` is what message i takes as it stands, in the counter's tokens.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import accumulate
from operator import is_
from typing import Any

from langchain_core.messages import BaseMessage, SystemMessage

from .text import to_json
from .tokens import TokenCounter, count_message

MEMO_SIZE = 16_384
WATCHED = 100
Mark = tuple[str | None, Any, Any, Any]
"""What makes a message the same message: id, content, calls and the call it answers."""


def _mark(message: BaseMessage) -> Mark:
    fields = message.__dict__
    return fields["id"], fields["content"], fields.get("tool_calls"), fields.get("tool_call_id")


def _frozen(mark: Mark) -> Mark:
    """Detach a mark from its message, so that a later change in place is seen as a change."""
    if isinstance(mark[1], str) and not mark[2]:
        return mark
    try:
        return mark[0], copy.deepcopy(mark[1]), copy.deepcopy(mark[2]), mark[3]
    except Exception:  # noqa: BLE001 - foreign objects raise what they like; such a row is derived anew each time
        return mark[0], None, None, mark[3]


def _digest(previous: bytes, message: BaseMessage, mark: Mark) -> bytes:
    digest = blake2b(previous, digest_size=16)
    for part in (message.type, mark[0], mark[3], mark[2] or None, mark[1]):
        text = part if isinstance(part, str) else to_json(part)
        digest.update(f"{len(text)}:".encode())
        digest.update(text.encode("utf-8", "surrogatepass"))
    return digest.digest()


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
    marks: list[Mark] = field(default_factory=list, repr=False)
    columns: tuple[list[Any], list[Any]] = field(default=([], []), repr=False)
    """Ids and contents of the marks, side by side to be compared at once."""
    memo: dict[Hashable, int] = field(default_factory=dict, repr=False)
    """Token counts of messages that stand only in the view; a cache shared by the histories of a thread."""

    @classmethod
    def of(cls, messages: Sequence[BaseMessage], counter: TokenCounter, previous: History | None = None) -> History:
        """Derive the rows of `messages`, reusing those of `previous` for the part both share."""
        if previous is None or previous.counter is not counter:
            previous = cls(counter)
        shared = previous.shared_with(messages)
        if shared < len(messages) or shared < len(previous):
            return previous._extended(messages, shared)
        return previous if all(map(is_, previous.messages, messages)) else previous._over(messages)

    def __len__(self) -> int:
        return len(self.messages)

    def shared_with(self, messages: Sequence[BaseMessage]) -> int:
        """How many messages at the front of `messages` are those of this history."""
        size = min(len(messages), len(self.messages))
        if all(map(is_, self.messages[:size], messages)) and self._unchanged(size):
            return size
        marks = [_mark(message) for message in messages[:size]]
        if marks == self.marks[:size]:
            return size
        return next(i for i, (mine, theirs) in enumerate(zip(self.marks, marks, strict=False)) if mine != theirs)

    def _unchanged(self, size: int) -> bool:
        """Whether the first `size` message objects are still as they were: a cheaper check than new marks.

        Ids and contents are compared for all of them, everything for the newest, which is where others write in place.
        """
        ids, contents = self.columns
        fields = list(map(vars, self.messages[:size]))
        return (
            [field["content"] for field in fields] == contents[:size]
            and [field["id"] for field in fields] == ids[:size]
            and list(map(_mark, self.messages[:size][-WATCHED:])) == self.marks[:size][-WATCHED:]
        )

    def _over(self, messages: Sequence[BaseMessage]) -> History:
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
            self.marks,
            self.columns,
            self.memo,
        )

    def _extended(self, messages: Sequence[BaseMessage], shared: int) -> History:
        keys, digests, tokens, marks = (
            self.keys[:shared],
            self.digests[:shared],
            self.tokens[:shared],
            self.marks[:shared],
        )
        positions = dict(self.positions) if shared == len(self.keys) else {key: i for i, key in enumerate(keys)}
        for position, message in enumerate(messages[shared:], shared):
            mark = _mark(message)
            digests.append(_digest(digests[-1] if digests else b"", message, mark))
            marks.append(_frozen(mark))
            tokens.append(count_message(self.counter, message))
            key = message.id if message.id and message.id not in positions else f"#{digests[-1].hex()}"
            positions[key] = position
            keys.append(key)
        systems = tuple(i for i in self.systems if i < shared)
        systems += tuple(i for i in range(shared, len(messages)) if isinstance(messages[i], SystemMessage))
        columns = [mark[0] for mark in marks], [mark[1] for mark in marks]
        sums = self.sums[: shared + 1]
        sums += list(accumulate(tokens[shared:], initial=sums[-1]))[1:]
        return History(
            self.counter, messages, keys, digests, tokens, sums, positions, systems, marks, columns, self.memo
        )

    def span(self, start: int, end: int) -> int:
        """Tokens of messages start…end-1 as they stand."""
        return self.sums[end] - self.sums[start]

    def cost(self, slot: Hashable, message: BaseMessage) -> int:
        """Tokens of a message that stands only in the view; `slot` names its content, so that it is counted once."""
        return self._once(slot, lambda: count_message(self.counter, message))

    def count(self, slot: Hashable, text: str) -> int:
        """Tokens of a text made from messages; `slot` as in `cost`."""
        return self._once(slot, lambda: self.counter.text(text))

    def _once(self, slot: Hashable, count: Callable[[], int]) -> int:
        known = self.memo.get(slot)
        if known is None:
            known = count()
            if len(self.memo) >= MEMO_SIZE:
                self.memo.clear()
            self.memo[slot] = known
        return known
