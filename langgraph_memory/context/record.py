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

from .history import History
from .tokens import Calibration

VERSION = 1
NO_CALIBRATION = Calibration()
Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Summary:
    """What stands for the first `count` messages."""

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


@dataclass(frozen=True, slots=True)
class Watermark:
    """Tool results up to the message `upto` are pruned by the rule that stands here."""

    upto: str
    soft: int
    hard: int
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the budget was when the last decision was taken: tokens, and the name of the counter."""

    window: int = 0
    system: int = 0
    tools: int = 0
    response: int = 0
    counter: str = ""


@dataclass(frozen=True, slots=True)
class Scope:
    """The decisions of one namespace."""

    summary: Summary | None = None
    watermark: Watermark | None = None
    trims: Mapping[str, int] = field(default_factory=dict)
    """Message key -> characters it is shortened to, beside the watermark."""
    since: tuple[str, str] = ("", "")
    """Key and prefix digest of the newest message at the last decision; usage up to it counts another view."""
    calibration: Calibration = NO_CALIBRATION
    sizes: Sizes = Sizes()

    @property
    def covered(self) -> int:
        """How many messages at the front the summary stands for."""
        return self.summary.count if self.summary else 0


def read_scope(record: Mapping[str, Any] | None, namespace: str) -> Scope:
    """The scope of `namespace` in `record`.

    Raises `ValueError` where the record is of another version or not of the documented shape.
    """
    if not record:
        return Scope()
    if record.get("v") != VERSION:
        raise ValueError(f"record version {record.get('v')!r} is not {VERSION}")
    stored = record.get("ns", {}).get(namespace)
    try:
        return _scope_from(stored) if stored else Scope()
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise ValueError(f"scope {namespace!r} of the record cannot be read: {error}") from error


def _scope_from(stored: Mapping[str, Any]) -> Scope:
    summary, watermark = stored.get("summary"), stored.get("prune")
    return Scope(
        summary=Summary(**{**summary, "artifacts": tuple(summary["artifacts"]), "pin": tuple(summary["pin"])})
        if summary
        else None,
        watermark=Watermark(**{**watermark, "exclude": tuple(watermark["exclude"])}) if watermark else None,
        trims=dict(stored.get("trims", {})),
        since=(stored["since"][0], stored["since"][1]) if "since" in stored else ("", ""),
        calibration=Calibration.from_json(stored["usage"]) if "usage" in stored else Calibration(),
        sizes=Sizes(**stored.get("sizes", {})),
    )


def write_scope(scope: Scope, namespace: str) -> Record:
    """The record update that stores `scope`."""
    stored: Record = {"since": list(scope.since), "sizes": _plain(scope.sizes)}
    if scope.summary:
        stored["summary"] = _plain(scope.summary)
    if scope.watermark:
        stored["prune"] = _plain(scope.watermark)
    if scope.trims:
        stored["trims"] = dict(scope.trims)
    if scope.calibration != Calibration():
        stored["usage"] = scope.calibration.to_json()
    return {"v": VERSION, "ns": {namespace: stored}}


def _plain(value: Any) -> dict[str, Any]:
    rows = ((name, getattr(value, name)) for name in value.__slots__)
    return {name: list(row) if isinstance(row, tuple) else row for name, row in rows}


def merge_records(old: Record | None, new: Record | None) -> Record:
    """Reducer of the record channel: scopes of other namespaces stay, the written one is replaced."""
    if not old or not new or old.get("v") != new.get("v"):
        return new or old or {}
    return {**old, **new, "ns": {**old.get("ns", {}), **new.get("ns", {})}}


def fitted(scope: Scope, history: History) -> Scope:
    """`scope` without the decisions whose anchor is not in `history`."""
    if scope.summary and not _covers(scope.summary, history):
        scope = replace(scope, summary=None)
    if scope.watermark and scope.watermark.upto not in history.positions:
        scope = replace(scope, watermark=None)
    if any(key not in history.positions for key in scope.trims):
        scope = replace(scope, trims={key: limit for key, limit in scope.trims.items() if key in history.positions})
    return scope


def _covers(summary: Summary, history: History) -> bool:
    if not 0 < summary.count <= len(history):
        return False
    end = summary.count - 1
    return history.digests[end].hex() == summary.digest and all(
        history.positions.get(key, len(history)) <= end for key in summary.pin
    )
