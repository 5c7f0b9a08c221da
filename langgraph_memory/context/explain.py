"""What the model is sent, message by message, and why each part of it stands there as it does.

Pure, like the view. A record says what was decided and by which sizes; what was *not* done to a message is told by the
configuration at hand. Positions are those in the thread, so messages that have left the list count as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from ..config import MemoryConfig
from .budget import TokenBudget
from .groups import calls_of as asked_by
from .history import History
from .memories import CURATED_ID
from .prune import CLEAR
from .reasons import Reasons
from .record import Scope
from .render import Part, View, render, summary_text
from .report import ContextReport, report
from .text import message_text, to_json

AS_IS = "as it is"


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of what is sent: one of several in a message, or something that is sent beside the messages."""

    kind: str
    """curated, recalled, summary, request or message; beside the messages: system prompt or tools"""
    tokens: int
    why: str
    text: str = ""
    """Empty where it is not known."""

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value != ""}


@dataclass(frozen=True, slots=True)
class Shown:
    """A message of a view."""

    position: int | None
    """Where it stands in the thread; None for messages that stand only in the view."""
    id: str | None
    role: str
    origin: str
    """as it is, trimmed, cleared, truncated, summary, synthetic or curated"""
    tokens: int
    why: str
    text: str
    digest: str
    """Of what a provider gets to see of it: messages with the same digest are the same to a prompt cache."""
    pieces: tuple[Piece, ...] = ()
    """What it is made of, where that is more than one thing; their tokens sum to those of the message."""
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    tool_call_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        row = {name: getattr(self, name) for name in self.__slots__ if name not in ("origin", "pieces", "digest")}
        row["from"] = self.origin
        row["pieces"] = [piece.to_json() for piece in self.pieces]
        return {name: value for name, value in row.items() if value is not None and value != []}


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A message behind the summary that is not sent."""

    position: int
    id: str | None
    role: str
    why: str


@dataclass(frozen=True, slots=True)
class ExplainedView:
    """A view with its reasons."""

    report: ContextReport
    messages: list[Shown]
    left_out: list[LeftOut]
    beside: list[Piece]
    """What is sent beside the messages, as far as the last decision knew it."""
    covered: int
    """Messages of the thread that the summary stands for."""

    def _repr_html_(self) -> str:
        from ..display import view_html

        return view_html(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        from ..display import view_lines

        printer.text("\n".join(view_lines(self)))

    def to_json(self) -> dict[str, Any]:
        return {
            "total": self.report.total,
            "parts": self.report.parts,
            "covered": self.covered,
            "beside": [piece.to_json() for piece in self.beside],
            "messages": [message.to_json() for message in self.messages],
            "left_out": [asdict(message) for message in self.left_out],
        }


def explained(
    history: History, scope: Scope, budget: TokenBudget, settings: MemoryConfig, *, bought: str = ""
) -> ExplainedView:
    """Explain the view of `history` under `scope`, which must fit it (`record.fitted`).

    `bought` says where the text of the summary is from, if that is known.
    """
    view = render(history, scope)
    reasons = Reasons(history, scope, view, budget, settings, bought)
    parts = {id(part.message): part for part in view.parts}
    return ExplainedView(
        report=report(history, scope, budget),
        messages=list(_messages(history, scope, view, reasons, parts)),
        left_out=list(_left_out(history, scope, view, reasons)),
        beside=list(_beside(scope)),
        covered=scope.covered + reasons.left,
    )


def _messages(history: History, scope: Scope, view: View, reasons: Reasons, parts: dict[int, Part]) -> Iterator[Shown]:
    behind, waiting = view.tokens - view.curated_tokens, iter(view.parts)
    for message in view.messages:
        if message.id == CURATED_ID and id(message) not in parts:
            yield _shown(message, None, "curated", view.curated_tokens, reasons.curated, ())
            continue
        part = next(waiting)
        why = reasons.of(part, behind)
        behind -= part.tokens
        pieces = _pieces(history, scope, view, reasons, part, why, curated=message is not part.message)
        tokens = part.tokens + (view.curated_tokens if message is not part.message else 0)
        position = part.position + reasons.left if part.position >= 0 else None
        yield _shown(
            message, position, origin_of(part), tokens, "; ".join(piece.why for piece in pieces) or why, pieces
        )


def _shown(
    message: BaseMessage, position: int | None, origin: str, tokens: int, why: str, pieces: tuple[Piece, ...]
) -> Shown:
    return Shown(
        position=position,
        id=message.id,
        role=message.type,
        origin=origin,
        tokens=tokens,
        why=why,
        text=message_text(message),
        digest=_digest(message),
        pieces=pieces,
        tool_calls=calls_of(message),
        tool_call_id=message.tool_call_id if isinstance(message, ToolMessage) else None,
    )


def _pieces(
    history: History, scope: Scope, view: View, reasons: Reasons, part: Part, why: str, *, curated: bool
) -> tuple[Piece, ...]:
    """What a message is made of; empty for one thing."""
    found = [Piece("curated", view.curated_tokens, reasons.curated, view.curated)] if curated else []
    if part.recalled:
        block = scope.recalled[history.keys[part.position]]
        found.append(Piece("recalled", part.recalled, reasons.recalled, block))
    if part.source == "summary" and scope.summary:
        pins = [Piece("request", *row) for row in reasons.pinned()]
        summary = part.tokens - sum(piece.tokens for piece in pins)
        found += [Piece("summary", max(0, summary), why, summary_text(scope.summary)), *pins]
    elif found:
        said = history.messages[part.position]
        kind = "request" if reasons.is_request(part.position) else "message"
        found.append(Piece(kind, part.tokens - part.recalled, why, message_text(said)))
    return tuple(found) if len(found) > 1 else ()


def _left_out(history: History, scope: Scope, view: View, reasons: Reasons) -> Iterator[LeftOut]:
    shown = {part.position for part in view.parts}
    for position in range(scope.covered, len(history)):
        if position not in shown:
            message = history.messages[position]
            yield LeftOut(position + reasons.left, message.id, message.type, reasons.missing(position))


def _beside(scope: Scope) -> Iterator[Piece]:
    why = "sent with every call; only its size is kept in the thread, from the last decision"
    for kind, tokens in (("system prompt", scope.sizes.system), ("tools", scope.sizes.tools)):
        if tokens:
            yield Piece(kind, tokens, why)


def origin_of(part: Part) -> str:
    """What was done to a message."""
    if part.source == "summary":
        return "summary"
    if part.position < 0:
        return "synthetic"
    if part.limit is None:
        return AS_IS
    if isinstance(part.message, AIMessage):
        return "truncated"
    return "cleared" if part.limit == CLEAR and not isinstance(part.message, HumanMessage) else "trimmed"


def calls_of(message: BaseMessage) -> list[dict[str, Any]]:
    """The tool calls of a message, broken ones included."""
    if not isinstance(message, AIMessage):
        return []
    calls = (*message.tool_calls, *message.invalid_tool_calls)
    return [{"id": call["id"], "name": call["name"], "args": call["args"]} for call in calls]


def _digest(message: BaseMessage) -> str:
    calls = [(call.id, call.name) for call in asked_by(message)]
    answered = getattr(message, "tool_call_id", None)
    seen = to_json([message.type, message.name, message.content, calls, calls_of(message), answered])
    return blake2b(seen.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
