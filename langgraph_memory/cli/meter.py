"""The figures of a model call, measured on what the model was really sent.

They are kept in the `response_metadata` of the reply, so that a thread carries the figures of all its calls and a
resumed run reports on the whole conversation.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata

from langgraph_memory.context.text import message_text
from langgraph_memory.context.tokens import TokenCounter, count_message

KEY = "langgraph_memory"
REMEMBERED = 20_000


@dataclass(frozen=True, slots=True)
class CallFigures:
    """One call; sizes are tokens."""

    window: int
    raw: int
    """The whole history."""
    sent: int
    """The view."""
    cached: int
    """The part of the view that is the beginning of the view before."""
    summary: str
    """Id of the summary in the view; empty without one."""
    over: bool
    """The view is larger than the window."""
    invalid: bool
    """A tool call and its result do not stand together."""
    lost: bool
    """The latest human message is neither in the view nor can it be recalled from there."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over calls; the largest of `largest` and `window`."""

    conversations: int = 0
    messages: int = 0
    calls: int = 0
    raw: int = 0
    sent: int = 0
    cached: int = 0
    largest: int = 0
    window: int = 0
    over: int = 0
    invalid: int = 0
    lost: int = 0
    summaries: int = 0

    @classmethod
    def of(cls, messages: Sequence[BaseMessage]) -> Totals:
        """The totals of one conversation, from the figures in its messages."""
        calls = [figures for message in messages if (figures := figures_of(message))]
        before = ["", *(call.summary for call in calls)]
        return cls(
            conversations=1,
            messages=len(messages),
            calls=len(calls),
            raw=sum(call.raw for call in calls),
            sent=sum(call.sent for call in calls),
            cached=sum(call.cached for call in calls),
            largest=max((call.sent for call in calls), default=0),
            window=max((call.window for call in calls), default=0),
            over=sum(call.over for call in calls),
            invalid=sum(call.invalid for call in calls),
            lost=sum(call.lost for call in calls),
            summaries=sum(call.summary not in ("", last) for call, last in zip(calls, before, strict=False)),
        )

    def __add__(self, other: Totals) -> Totals:
        mine, theirs = asdict(self), asdict(other)
        return Totals(
            **{k: max(n, theirs[k]) if k in ("largest", "window") else n + theirs[k] for k, n in mine.items()}
        )

    @property
    def cached_share(self) -> float:
        return self.cached / self.sent if self.sent else 0.0

    @property
    def sound(self) -> bool:
        """No call was over the window, invalid or without its request."""
        return not (self.over or self.invalid or self.lost)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "cached_share": round(self.cached_share, 4)}


def figures_of(message: BaseMessage) -> CallFigures | None:
    """The figures of the call that `message` is the reply to; None for other messages."""
    stored = message.response_metadata.get(KEY)
    return CallFigures(**stored) if isinstance(stored, dict) else None


class Meter:
    """Measures the calls of one thread, in order."""

    def __init__(self, counter: TokenCounter, window: int) -> None:
        self._counter, self._window = counter, window
        self._known: dict[Hashable, int] = {}
        self._sums = [0]
        self._before: list[Hashable] = []

    def remember(self, view: Sequence[BaseMessage]) -> None:
        """Take `view` as what was sent last."""
        self._before = [_print(message) for message in view]

    def measure(self, view: Sequence[BaseMessage], history: Sequence[BaseMessage]) -> CallFigures:
        """The figures of a call that sends `view` for `history`, which has only grown since the last call."""
        before = self._before
        self.remember(view)
        sizes = [self._size(message, print_) for message, print_ in zip(view, self._before, strict=True)]
        pairs = zip(before, self._before, strict=False)
        same = next((i for i, (old, new) in enumerate(pairs) if old != new), min(len(before), len(view)))
        return CallFigures(
            window=self._window,
            raw=self._raw(history),
            sent=sum(sizes),
            cached=sum(sizes[:same]),
            summary=next((m.id for m in view if m.id and m.id.startswith("summary-")), ""),
            over=sum(sizes) > self._window,
            invalid=not is_paired(view),
            lost=is_lost(view, history),
        )

    def answered(self, reply: AIMessage, figures: CallFigures) -> AIMessage:
        """`reply` with usage and figures, as a provider would have sent it."""
        said = count_message(self._counter, reply)
        usage = UsageMetadata(
            input_tokens=figures.sent,
            output_tokens=said,
            total_tokens=figures.sent + said,
            input_token_details=InputTokenDetails(cache_read=figures.cached),
        )
        return reply.model_copy(update={"usage_metadata": usage, "response_metadata": {KEY: asdict(figures)}})

    def _raw(self, history: Sequence[BaseMessage]) -> int:
        for message in history[len(self._sums) - 1 :]:
            self._sums.append(self._sums[-1] + count_message(self._counter, message))
        return self._sums[len(history)]

    def _size(self, message: BaseMessage, print_: Hashable) -> int:
        if print_ not in self._known:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[print_] = count_message(self._counter, message)
        return self._known[print_]


def _print(message: BaseMessage) -> Hashable:
    """What a provider gets to see of a message."""
    content = message.content if isinstance(message.content, str) else repr(message.content)
    if isinstance(message, AIMessage):
        return message.type, content, repr((message.tool_calls, message.invalid_tool_calls))
    return message.type, content, getattr(message, "tool_call_id", None), message.name


def is_paired(view: Iterable[BaseMessage]) -> bool:
    """Whether each call has its one result right behind its message, and each result its call."""
    waiting: set[str | None] = set()
    for message in view:
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in waiting:
                return False
            waiting.discard(message.tool_call_id)
        elif waiting:
            return False
        elif isinstance(message, AIMessage):
            waiting = {call["id"] for call in (*message.tool_calls, *message.invalid_tool_calls)}
    return not waiting


def is_lost(view: Sequence[BaseMessage], history: Sequence[BaseMessage]) -> bool:
    """Whether the latest human message of `history` stands in no human message of `view`, nor a reference to it."""
    latest = next((message for message in reversed(history) if isinstance(message, HumanMessage)), None)
    if latest is None:
        return False
    text, reference = message_text(latest), f'recall("msg:{latest.id}")'
    shown = (message_text(message) for message in reversed(view) if isinstance(message, HumanMessage))
    return not any(text in each or reference in each for each in shown)
