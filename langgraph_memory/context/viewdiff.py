"""The difference of two views: what a prompt cache sees of it, and what was decided in between.

A message is known by its id. The message at which two views part is where a prompt cache breaks: whatever stands before
it is read from the cache, whatever stands behind it is paid for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, Literal

from .explain import ExplainedView, Shown

What = Literal["same", "new", "gone", "changed"]
SUMMARY = "summary"
FEW = 2
"""So many messages in a row that are the same are still listed one by one."""


@dataclass(frozen=True, slots=True)
class Change:
    """A message of one of two views, or of both."""

    what: What
    role: str
    id: str | None
    position: int | None
    """Where it stands in its thread; None for messages that stand only in a view."""
    before: int | None
    """Its number in the view before, from 1; None where it is not in it."""
    after: int | None
    tokens_before: int
    tokens_after: int
    how: str
    """What happened to it, such as `as it is → cleared`; empty for the same."""

    @property
    def number(self) -> int | None:
        """Its number in the view after, or in the one before for what is gone."""
        return self.before if self.after is None else self.after

    @property
    def tokens(self) -> str:
        """What it takes, and took where it was changed."""
        if self.what == "gone":
            return f"{self.tokens_before:,}"
        return f"{self.tokens_before:,} → {self.tokens_after:,}" if self.what == "changed" else f"{self.tokens_after:,}"


@dataclass(frozen=True, slots=True)
class ViewDiff:
    """What makes one view another. Tokens of messages are raw, those of parts as in the reports."""

    changes: list[Change]
    """In the order of the view after; what is gone stands where it stood."""
    parts: dict[str, tuple[int, int]]
    """Name -> tokens before and after, of the parts that either view has."""
    total: tuple[int, int]
    stable: int
    """Messages at the front that are the same in both."""
    stable_tokens: int
    first_changed: int | None
    """Number in the views of the first message that is another one: there a prompt cache breaks. None: one view goes
    on where the other ends, or they are the same."""

    @classmethod
    def of(cls, before: ExplainedView, after: ExplainedView) -> ViewDiff:
        """Compare two views, of one thread or of two."""
        stable = _common(before.messages, after.messages)
        parts_before, parts_after = before.report.parts, after.report.parts
        return cls(
            changes=list(_changes(before, after)),
            parts={
                name: (tokens, parts_after[name])
                for name, tokens in parts_before.items()
                if tokens or parts_after[name]
            },
            total=(before.report.total, after.report.total),
            stable=stable,
            stable_tokens=sum(message.tokens for message in after.messages[:stable]),
            first_changed=stable + 1 if stable < min(len(before.messages), len(after.messages)) else None,
        )

    @property
    def same(self) -> bool:
        """Whether both views are the same to the model."""
        return all(change.what == "same" for change in self.changes)

    @property
    def verdict(self) -> str:
        """Where a prompt cache breaks."""
        if self.same:
            return "The same view."
        kept = f"{self.stable:,} messages, {self.stable_tokens:,} tokens"
        if self.first_changed is None:
            return f"A prompt cache holds: one goes on where the other ends ({kept} in common)."
        return f"A prompt cache breaks at message {self.first_changed} of the view: before it are {kept}."

    def runs(self) -> Iterator[list[Change]]:
        """The changes one by one, but more than a few in a row that are the same together."""
        for what, group in groupby(self.changes, lambda change: change.what):
            changes = list(group)
            if what == "same" and len(changes) > FEW:
                yield changes
            else:
                yield from ([change] for change in changes)

    def _repr_html_(self) -> str:
        from ..display import view_diff_html

        return view_diff_html(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        from ..display import view_diff_lines

        printer.text("\n".join(view_diff_lines(self)))

    def to_json(self) -> dict[str, Any]:
        return {
            "same": self.same,
            "total": _pair(self.total),
            "parts": {name: _pair(tokens) for name, tokens in self.parts.items()},
            "stable": self.stable,
            "stable_tokens": self.stable_tokens,
            "first_changed": self.first_changed,
            "changes": [asdict(change) for change in self.changes],
        }


def _pair(tokens: tuple[int, int]) -> dict[str, int]:
    return {"before": tokens[0], "after": tokens[1]}


def _common(old: Sequence[Shown], new: Sequence[Shown]) -> int:
    pairs = enumerate(zip(old, new, strict=False))
    return next((i for i, (a, b) in pairs if a.digest != b.digest), min(len(old), len(new)))


def _changes(before: ExplainedView, after: ExplainedView) -> Iterator[Change]:
    old, new = _by_name(before.messages), _by_name(after.messages)
    waiting: dict[str | None, list[Change]] = {}
    gone: list[Change] = []
    for name, (number, message) in old.items():
        if name in new:
            waiting[name], gone = gone, []
        else:
            gone.append(_gone(message, number, after))
    for name, (number, message) in new.items():
        yield from waiting.get(name, ())
        yield _met(old.get(name), (number, message), before, after)
    yield from gone


def _by_name(messages: Sequence[Shown]) -> dict[str, tuple[int, Shown]]:
    """Messages with their numbers in the view; an id that is there more than once is counted."""
    seen = Counter[str]()
    named: dict[str, tuple[int, Shown]] = {}
    for number, message in enumerate(messages, 1):
        name = SUMMARY if message.origin == SUMMARY else f"id {message.id}" if message.id else message.digest
        seen[name] += 1
        named[f"{name} {seen[name]}"] = number, message
    return named


def _gone(message: Shown, number: int, after: ExplainedView) -> Change:
    covered = message.position is not None and message.position < after.covered
    how = f"{message.origin} → {'covered by the summary' if covered else 'not sent'}"
    return _change("gone", message, number, None, message.tokens, 0, how)


def _met(old: tuple[int, Shown] | None, new: tuple[int, Shown], before: ExplainedView, after: ExplainedView) -> Change:
    number, message = new
    if old is None:
        return _change("new", message, None, number, 0, message.tokens, message.origin)
    was_number, was = old
    if was.digest == message.digest:
        return _change("same", message, was_number, number, was.tokens, message.tokens, "")
    how = "; ".join(_hows(was, message, before, after)) or "another text"
    return _change("changed", message, was_number, number, was.tokens, message.tokens, how)


def _hows(was: Shown, message: Shown, before: ExplainedView, after: ExplainedView) -> Iterator[str]:
    if was.origin != message.origin:
        yield f"{was.origin} → {message.origin}"
    elif message.origin == SUMMARY and before.covered != after.covered:
        yield f"summary of {before.covered:,} → {after.covered:,} messages"
    old, new = ({piece.kind: piece.text for piece in one.pieces} for one in (was, message))
    for kind in dict.fromkeys((*old, *new)):
        if kind in ("message", SUMMARY) or old.get(kind) == new.get(kind):
            continue
        done = "added" if kind not in old else "removed" if kind not in new else "changed"
        if kind != "request" or SUMMARY in (was.origin, message.origin):
            yield f"{kind} {done}"


def _change(what: What, message: Shown, before: int | None, after: int | None, old: int, new: int, how: str) -> Change:
    return Change(what, message.role, message.id, message.position, before, after, old, new, how)
