"""What a memory policy costs and what it loses, call by call.

Every recorded reply is one call of the model. Before it the policy is shown the messages so far and gives its view of
them, the list that is sent. What is measured:

* *cost*: tokens the provider reads anew, a tenth of those it has in its prompt cache, and every token of the
  summariser, in and out. In the cache is what a view shares with the front of the view before.
* *unused*: tokens of summaries that were bought ahead, while the model answered, for a call that never came because the
  conversation ended. They are not in the cost, which is that of the calls there were; a program that lets such work end
  before it exits pays them once a conversation.
* *recent*: of the newest quarter-window of history, the share that stands in the view word for word; asked only where
  the whole history takes more than 70 % of the window, as below that nothing needs to go.
* *breaks*: calls whose view does not begin with the whole view before.
* *lost*: calls whose view lacks the newest human message. A preview of it that can be recalled counts as shown.
* *silent*: messages that are neither in the view nor were ever given to the summariser. The model has no way to know.
* *over*, *invalid*: calls above the window, and calls with a tool result or a tool call that lacks its other half.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from .summariser import ScriptedSummariser
from .texts import Fingerprint, count_text, fingerprint, message_tokens, probe, squeezed, text_of

CACHED_PRICE = 0.1
FULL = 0.7
RECENT_PARTS = 4
PREVIEW_CHARS = 80


@dataclass
class Tally:
    """The figures of one policy on one recording."""

    calls: int = 0
    sent: int = 0
    uncached: int = 0
    largest: int = 0
    breaks: int = 0
    over: int = 0
    invalid: int = 0
    lost: int = 0
    silent_most: int = 0
    silent_calls: int = 0
    summaries: int = 0
    summaries_over: int = 0
    """Summariser calls whose input is above the window."""
    summary_input: int = 0
    summary_output: int = 0
    unused: int = 0
    seconds: float = 0.0
    recent: list[float] = field(default_factory=list)

    @property
    def cost(self) -> int:
        read = self.uncached + CACHED_PRICE * (self.sent - self.uncached)
        return round(read + self.summary_input + self.summary_output)

    @property
    def recent_mean(self) -> float:
        return sum(self.recent) / len(self.recent) if self.recent else 1.0

    @property
    def recent_p10(self) -> float:
        return sorted(self.recent)[len(self.recent) // 10] if self.recent else 1.0

    @property
    def silent_share(self) -> float:
        return self.silent_calls / max(1, self.calls)

    @property
    def milliseconds(self) -> float:
        """Of the policy itself, a call."""
        return self.seconds * 1000 / max(1, self.calls)

    def to_json(self) -> dict[str, Any]:
        counted = {name: value for name, value in vars(self).items() if name not in ("recent", "seconds")}
        shares = {"recent": self.recent_mean, "recent_p10": self.recent_p10, "silent_share": self.silent_share}
        return {
            "cost": self.cost,
            **counted,
            **{name: round(share, 3) for name, share in shares.items()},
            "ms_per_call": round(self.milliseconds, 2),
        }


class Meter:
    """Adds the calls of one conversation to a tally."""

    def __init__(self, tally: Tally, window: int, summariser: ScriptedSummariser) -> None:
        self._tally, self._window, self._summariser = tally, window, summariser
        self._before: list[Fingerprint] = []
        self._silence = Silence()
        self._counted = self._ahead = 0

    def rested(self) -> None:
        """What was bought by now, between two calls, is counted with the call that uses it."""
        self._ahead = len(self._summariser.exchanges)

    def add(self, history: Sequence[BaseMessage], view: Sequence[BaseMessage], seconds: float) -> None:
        """One call: after `history` the model is sent `view`, which took `seconds` to make."""
        self._tally.calls += 1
        self._tally.seconds += seconds
        broke = self._add_tokens(view)
        if broke or len(self._summariser.exchanges) > self._ahead:
            self._add_summaries(history)
        self._add_losses(history, view)

    def end(self) -> None:
        """The conversation is over."""
        for exchange in self._summariser.exchanges[self._counted :]:
            self._tally.unused += sum(map(count_text, exchange))

    def _add_summaries(self, history: Sequence[BaseMessage]) -> None:
        tally, new = self._tally, self._summariser.exchanges[self._counted :]
        self._counted += len(new)
        prompts = [prompt for prompt, _ in new]
        sizes = list(map(count_text, prompts))
        tally.summaries += len(new)
        tally.summaries_over += sum(size > self._window for size in sizes)
        tally.summary_input += sum(sizes)
        tally.summary_output += sum(count_text(reply) for _, reply in new)
        self._silence.read(history, prompts)

    def _add_tokens(self, view: Sequence[BaseMessage]) -> bool:
        """Whether the view does not begin with the whole view before."""
        tally, sizes, now = self._tally, list(map(message_tokens, view)), list(map(fingerprint, view))
        shared = shared_front(self._before, now)
        broke = shared < len(self._before)
        tally.breaks += broke
        tally.sent += sum(sizes)
        tally.uncached += sum(sizes[shared:])
        tally.largest = max(tally.largest, sum(sizes))
        tally.over += sum(sizes) > self._window
        self._before = now
        return broke

    def _add_losses(self, history: Sequence[BaseMessage], view: Sequence[BaseMessage]) -> None:
        tally, silent = self._tally, len(self._silence.gone(history, view))
        tally.invalid += halves(view) > 0
        tally.lost += not shows_request(history, view)
        tally.silent_calls += silent > 0
        tally.silent_most = max(tally.silent_most, silent)
        if sum(map(message_tokens, history)) > FULL * self._window:
            tally.recent.append(verbatim_share(history, view, self._window // RECENT_PARTS))


class Silence:
    """Knows what the summariser was given, and so what went without a trace."""

    def __init__(self) -> None:
        self._summarised: set[str | None] = set()

    def read(self, history: Sequence[BaseMessage], prompts: Sequence[str]) -> None:
        """Note which messages of `history` the summariser finds in `prompts`."""
        if prompts:
            given = squeezed("\n".join(prompts))
            self._summarised |= {message.id for message in history if probe(message) in given}

    def gone(self, history: Sequence[BaseMessage], view: Sequence[BaseMessage]) -> list[BaseMessage]:
        """The messages that are neither in `view`, as themselves or in the text of another, nor summarised."""
        known = self._summarised | {message.id for message in view}
        absent = [message for message in history if message.id not in known and probe(message)]
        shown = squeezed("\n".join(map(text_of, view))) if absent else ""
        return [message for message in absent if probe(message) not in shown]


def shared_front(before: Sequence[Fingerprint], now: Sequence[Fingerprint]) -> int:
    """How many messages both begin with."""
    differing = (i for i, (old, new) in enumerate(zip(before, now, strict=False)) if old != new)
    return next(differing, min(len(before), len(now)))


def halves(view: Sequence[BaseMessage]) -> int:
    """Results that do not follow the message with their call, and calls that are not answered right behind it."""
    found, waiting = 0, set[str | None]()
    for message in view:
        if isinstance(message, ToolMessage):
            found += message.tool_call_id not in waiting
            waiting.discard(message.tool_call_id)
        else:
            found += len(waiting)
            waiting = {call["id"] for call in message.tool_calls} if isinstance(message, AIMessage) else set()
    return found + len(waiting)


def shows_request(history: Sequence[BaseMessage], view: Sequence[BaseMessage]) -> bool:
    """Whether the newest human message of `history`, if there is one, stands in a human message of `view`."""
    newest = next((message for message in reversed(history) if isinstance(message, HumanMessage)), None)
    if newest is None:
        return True
    request = text_of(newest)
    return any(_shows(request, text_of(message)) for message in view if isinstance(message, HumanMessage))


def _shows(request: str, text: str) -> bool:
    return request in text or ("recall(" in text and request[:PREVIEW_CHARS] in text)


def verbatim_share(history: Sequence[BaseMessage], view: Sequence[BaseMessage], room: int) -> float:
    """Of the newest `room` tokens of `history`, the share whose messages stand in `view` as they are."""
    shown = set(map(fingerprint, view))
    looked = kept = 0
    for message in reversed(history):
        size = min(message_tokens(message), room - looked)
        looked += size
        kept += size * (fingerprint(message) in shown)
        if looked >= room:
            break
    return kept / looked
