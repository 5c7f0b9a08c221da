"""The record: every decision about a thread's view, as a small plain-JSON dict.

`{"v": 1, "ns": {namespace: scope}}`. A *scope* holds the decisions of one graph namespace, so that a subgraph which
shares the state of its parent never overwrites the parent's. Here a scope is a frozen value; JSON stays at the edges.

Decisions name messages by key and, where they replace a whole prefix, by the digest of that prefix. A scope that does
not fit the messages it is read with loses exactly the decisions that do not fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import TypeAdapter

from .groups import request_run
from .history import History
from .tokens import Calibration

VERSION = 1
NO_CALIBRATION = Calibration()
Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Summary:
    """What stands for the first `count` messages, and for those that have left the list from among them."""

    text: str
    artifacts: tuple[str, ...]
    count: int
    digest: str
    """Prefix digest of the covered messages, hexadecimal."""
    first: str
    """Key of the first covered message."""
    last: str
    """Key of the last covered message."""
    pin: tuple[str, ...] = ()
    """Keys of the covered human messages that are shown verbatim beside the summary."""
    gone: int = 0
    """How many messages it stands for have left the list."""


@dataclass(frozen=True, slots=True)
class Watermark:
    """Tool results up to the message `upto` are pruned by the rule that stands here."""

    upto: str
    soft: int
    hard: int
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments of calls up to the message `upto` are cut to `limit` characters."""

    upto: str
    limit: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the budget was when the last decision was taken: tokens, and what they are counted for."""

    window: int = 0
    system: int = 0
    tools: int = 0
    response: int = 0
    counter: str = ""
    model: str = ""
    """Name of the model that is called, as far as it is known."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The decisions of one namespace."""

    summary: Summary | None = None
    watermark: Watermark | None = None
    arguments: Arguments | None = None
    trims: Mapping[str, int] = field(default_factory=dict)
    """Message key -> characters it is shortened to, beside the watermark."""
    since: tuple[str, str] = ("", "")
    """Key and prefix digest of the newest message at the last decision; usage up to it counts another view."""
    calibration: Calibration = NO_CALIBRATION
    sizes: Sizes = Sizes()

    @property
    def shows(self) -> tuple[Any, ...]:
        """What the view depends on; the rest is what the decisions were taken from."""
        return self.summary, self.watermark, self.arguments, self.trims

    @property
    def covered(self) -> int:
        """How many messages at the front the summary stands for."""
        return self.summary.count if self.summary else 0


_scopes = TypeAdapter(Scope)


def read_scope(record: Mapping[str, Any] | None, namespace: str) -> Scope:
    """The scope of `namespace` in `record`.

    Raises `ValueError` where the record is of another version or not of the documented shape.
    """
    if not record:
        return Scope()
    if not isinstance(record, Mapping) or record.get("v") != VERSION:
        raise ValueError(f"the record is not of version {VERSION}: {str(record)[:80]!r}")
    scopes = record.get("ns")
    if not isinstance(scopes, Mapping):
        raise ValueError(f"the record has no scopes under 'ns': {str(scopes)[:80]!r}")
    return _scopes.validate_python(scopes[namespace]) if namespace in scopes else Scope()


def write_scope(scope: Scope, namespace: str) -> Record:
    """The record update that stores `scope`; what is as in an empty scope is left out."""
    return {"v": VERSION, "ns": {namespace: _scopes.dump_python(scope, mode="json", exclude_defaults=True)}}


def merge_records(old: Record | None, new: Record | None) -> Record:
    """Reducer of the record channel: scopes of other namespaces stay, the written one is replaced."""
    if not old or not new:
        return new or old or {}
    if not isinstance(old, Mapping) or old.get("v") != new.get("v") or not isinstance(old.get("ns"), Mapping):
        return new
    return {**old, **new, "ns": {**old["ns"], **new.get("ns", {})}}


def fitted(scope: Scope, history: History) -> Scope:
    """`scope` without the decisions whose anchor is not in `history`; a covered current request is pinned."""
    if scope.summary and not _covers(scope.summary, history):
        scope = replace(scope, summary=None)
    if scope.watermark and scope.watermark.upto not in history.positions:
        scope = replace(scope, watermark=None)
    if scope.arguments and scope.arguments.upto not in history.positions:
        scope = replace(scope, arguments=None)
    if any(key not in history.positions for key in scope.trims):
        scope = replace(scope, trims={key: limit for key, limit in scope.trims.items() if key in history.positions})
    return _with_request(scope, scope.summary, history) if scope.summary else scope


def _with_request(scope: Scope, summary: Summary, history: History) -> Scope:
    """A covered request that became the current one again, because what followed it was removed, is shown again."""
    first, end = request_run(history.messages)
    covered = history.keys[first : min(end, summary.count)]
    if set(covered) <= set(summary.pin):
        return scope
    return replace(scope, summary=replace(summary, pin=tuple(covered)))


def _covers(summary: Summary, history: History) -> bool:
    if not 0 < summary.count <= len(history):
        return False
    end = summary.count - 1
    return history.digests[end].hex() == summary.digest and all(
        history.positions.get(key, len(history)) <= end for key in summary.pin
    )
