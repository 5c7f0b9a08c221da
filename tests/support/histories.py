"""Messages for tests: short builders, and random conversations that hold everything a history can hold.

A *story* is a window, a configuration and a list of events, each a small frozen value, so that a failing example reads
as a list of what happened. Every text starts with a marker of its own (`MARK7X`), so that a test can tell which message
a piece of text came from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_memory.config import MemoryConfig
from langgraph_memory.context.tokens import ESTIMATOR, TokenCounter, load_counter

# --- Builders --------------------------------------------------------------------------------------------------------


def system(text: str = "Never quote prices.", id: str | None = None) -> SystemMessage:
    return SystemMessage(text, id=id)


def human(content: Any = "Go.", id: str | None = None) -> HumanMessage:
    return HumanMessage(content, id=id)


def ai(content: Any = "", *calls: str | None, id: str | None = None, **fields: Any) -> AIMessage:
    """An assistant message with a call for each id in `calls`."""
    asked = [{"name": "dock_list", "args": {"pier": "B"}, "id": call} for call in calls]
    return AIMessage(content, tool_calls=asked, id=id, **fields)


def result(call_id: str, content: Any = "ok", id: str | None = None, **fields: Any) -> ToolMessage:
    return ToolMessage(content, tool_call_id=call_id, id=id, **fields)


def usage(tokens: int) -> dict[str, int]:
    return {"input_tokens": tokens, "output_tokens": 5, "total_tokens": tokens + 5}


def named(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The messages with the ids m0, m1, … where they have none."""
    for number, message in enumerate(messages):
        message.id = message.id or f"m{number}"
    return list(messages)


@dataclass(frozen=True)
class Thirds:
    """A token for every three characters and one more: exact, cheap and easy to calculate with."""

    name: str = "thirds"
    exact: bool = True

    def text(self, text: str) -> int:
        return len(text) // 3 + 1


@dataclass(frozen=True)
class Remembering:
    """Another counter that counts each text once."""

    inner: TokenCounter
    known: dict[str, int] = field(default_factory=dict, repr=False, compare=False)

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def exact(self) -> bool:
        return self.inner.exact

    def text(self, text: str) -> int:
        if text not in self.known:
            self.known[text] = self.inner.text(text)
        return self.known[text]


THIRDS = Thirds()

# --- Texts -----------------------------------------------------------------------------------------------------------

SCRIPTS = {
    "Latin": "the container for berth 9 is late, ",
    "Chinese": "集装箱还没有到泊位，请再等一下。",
    "Arabic": "الحاوية لم تصل بعد إلى الرصيف، ",
    "emoji": "🛳️🇳🇴👩‍💻👍🏽 ",
    "combining": "e\u0301a\u0308n\u0303 ",
    "surrogates": "half \ud83d pair \udc00 ",
    "JSON": '{"row": 12, "path": "/srv/port/a.txt"}, ',
    "lines": "crane 7 moved to pier B\n",
    "tags": "</conversation_summary> <messages> ",
    "errors": "Error: crane 7 is busy, see /var/log/crane.log\n",
}
SIZES = (0, 1, 20, 150, 700, 2999, 3000, 3001, 3100, 9_000, 10_001, 30_000)


@dataclass(frozen=True)
class Text:
    """A text of about `size` characters behind its marker; size 0 is empty and -1 blank."""

    size: int
    script: str = "Latin"

    def of(self, marker: str) -> str:
        if self.size <= 0:
            return " \n\t" if self.size else ""
        pattern = SCRIPTS[self.script]
        return f"{marker} " + (pattern * (self.size // len(pattern) + 1))[: self.size]


Form = Literal["str", "blocks", "image", "thinking", "nested"]


@dataclass(frozen=True)
class Body:
    """The content of a message."""

    text: Text
    form: Form = "str"

    def of(self, marker: str) -> Any:
        text = self.text.of(marker)
        block = {"type": "text", "text": text}
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 500}}
        thinking = {"type": "thinking", "thinking": "Which pier?", "signature": "Q" * 300}
        half = max(len(text) // 2, len(marker) + 1)
        return {
            "str": text,
            "blocks": [{"type": "text", "text": text[:half]}, text[half:]] if text else [],
            "image": [block, image],
            "thinking": [thinking, block] if text else [thinking],
            "nested": [{"type": "tool_result", "content": [block]}, image],
        }[self.form]


# --- Events ----------------------------------------------------------------------------------------------------------

Identity = Literal["own", "none", "repeated"]


@dataclass(frozen=True)
class Rule:
    """A system message."""

    body: Body


@dataclass(frozen=True)
class Say:
    """A human message; several in a row are one run."""

    body: Body
    identity: Identity = "own"


@dataclass(frozen=True)
class Asked:
    """A call in an assistant message, and what comes back."""

    body: Body = Body(Text(20))
    id: Literal["own", "constant", "none"] = "own"
    kind: Literal["call", "invalid", "block"] = "call"
    answer: Literal["now", "never", "late", "twice"] = "now"
    tool: str | None = "dock_list"
    status: Literal["success", "error"] = "success"
    identity: Identity = "own"


@dataclass(frozen=True)
class Reply:
    """A model call: a decision, an assistant message, and the results of its calls."""

    body: Body = Body(Text(0))
    calls: tuple[Asked, ...] = ()
    usage: float | None = None
    """What the provider reports, as a multiple of what was counted."""
    model: str | None = None
    identity: Identity = "own"
    cold: bool = False
    force: bool = False


@dataclass(frozen=True)
class Rounds:
    """The same reply several times over."""

    count: int
    reply: Reply


@dataclass(frozen=True)
class Orphan:
    """A result that nothing asked for."""

    body: Body


@dataclass(frozen=True)
class Late:
    """The results that were held back arrive."""


@dataclass(frozen=True)
class Remove:
    """The message at this share of the history goes."""

    at: float


@dataclass(frozen=True)
class Edit:
    """The message at this share of the history gets another text: a new object with its id, or the same object."""

    at: float
    body: Body
    in_place: bool = False


@dataclass(frozen=True)
class Insert:
    """A human message comes in at the front."""

    body: Body


@dataclass(frozen=True)
class Rewind:
    """Back to an earlier pair of messages and record."""

    to: float


@dataclass(frozen=True)
class Restart:
    """Every cache is lost."""


@dataclass(frozen=True)
class Window:
    """From now on another model, with another window."""

    tokens: int


Event = Rule | Say | Reply | Rounds | Orphan | Late | Remove | Edit | Insert | Rewind | Restart | Window

Answer = Literal["good", "long", "blank", "thinking", "refusal", "call", "cut short", "error", "echo", "tags"]
"""What a summariser may answer."""


@dataclass(frozen=True)
class Story:
    window: int
    counter: TokenCounter
    keys: Mapping[str, Mapping[str, Any]]
    """The `memory` section of the configuration."""
    summariser_window: int | None
    system: int | None
    tools: int | None
    answers: tuple[Answer, ...]
    """The summariser's answers, in turns."""
    events: tuple[Event, ...]

    @property
    def settings(self) -> MemoryConfig:
        return MemoryConfig.model_validate(self.keys)


# --- Strategies ------------------------------------------------------------------------------------------------------

_sizes = st.one_of(st.sampled_from(SIZES), st.sampled_from((20, 150, 700)), st.integers(-1, 3000))
_texts = st.builds(Text, _sizes, st.sampled_from(tuple(SCRIPTS)))
_short = st.builds(Text, st.sampled_from((-1, 0, 1, 20, 150)), st.sampled_from(tuple(SCRIPTS)))
_identities: st.SearchStrategy[Identity] = st.sampled_from(("own", "own", "own", "own", "none", "repeated"))


def _bodies(texts: st.SearchStrategy[Text], *forms: Form) -> st.SearchStrategy[Body]:
    return st.builds(Body, texts, st.sampled_from(forms))


_said = _bodies(_texts, "str", "str", "blocks", "image")
_replied = _bodies(_texts, "str", "str", "blocks", "thinking")
_returned = _bodies(_texts, "str", "str", "blocks", "image", "nested")

_asked = st.builds(
    Asked,
    body=_returned,
    id=st.sampled_from(("own", "own", "own", "own", "own", "own", "constant", "constant", "none")),
    kind=st.sampled_from(("call", "call", "call", "call", "invalid", "block")),
    answer=st.sampled_from(("now", "now", "now", "now", "now", "never", "late", "twice")),
    tool=st.sampled_from(("dock_list", "dock_list", "read_file", "recall", None)),
    status=st.sampled_from(("success", "success", "error")),
    identity=_identities,
)
_usage = st.sampled_from((None, None, None, 0.0, 0.00001, 0.6, 1.0, 1.1, 1.5, 10.0))
_calls = st.one_of(st.just(()), st.lists(_asked, max_size=2), st.lists(_asked, max_size=12)).map(tuple)


@st.composite
def _replies(draw: st.DrawFn) -> Reply:
    return Reply(
        body=draw(_replied),
        calls=draw(_calls),
        usage=draw(_usage),
        model=draw(st.sampled_from((None, "a", "a", "b"))),
        identity=draw(_identities),
        cold=draw(st.sampled_from((False, False, False, True))),
        force=draw(st.sampled_from((False,) * 11 + (True,))),
    )


@st.composite
def _many(draw: st.DrawFn) -> Rounds:
    """Rounds of an agent at work: one to four parallel calls each, all answered."""
    calls = draw(
        st.lists(st.builds(Asked, body=_returned, tool=st.sampled_from(("dock_list", "read_file"))), max_size=4)
    )
    reply = Reply(Body(draw(_short)), tuple(calls), draw(_usage), "a")
    return Rounds(draw(st.integers(2, 12)), reply)


_shares = st.floats(0, 1, exclude_max=True)
_edits = st.one_of(
    st.builds(Remove, _shares),
    st.builds(Edit, _shares, _said, st.booleans()),
    st.builds(Insert, _said),
    st.builds(Rewind, _shares),
    st.just(Restart()),
    st.builds(Window, st.integers(500, 30_000)),
)
_events: st.SearchStrategy[Event] = st.one_of(
    st.builds(Say, _said, _identities),
    st.builds(Say, _said),
    _replies(),
    _replies(),
    _many(),
    _many(),
    st.one_of(st.builds(Rule, _said), st.builds(Orphan, _returned), st.just(Late())),
    _edits,
)


_often = st.sampled_from((True, True, True, True, True, False))
_pruning = st.sampled_from((0, 50, 300, 3000, 3000, 9000)).flatmap(
    lambda soft: st.fixed_dictionaries(
        {"soft_trim_chars": st.just(soft), "hard_clear_threshold": st.sampled_from((soft, soft + 100, soft + 7000))},
        optional={
            "enabled": _often,
            "trim_tool_results": _often,
            "protect_recent": st.sampled_from((0, 1, 3, 8)),
            "min_reclaim_tokens": st.sampled_from((0, 50, 500)),
            "exclude_tools": st.sampled_from(([], ["dock_list", "read_file"])),
        },
    )
)
_compaction = st.fixed_dictionaries(
    {"min_messages": st.sampled_from((0, 0, 5, 20))},
    optional={
        "enabled": _often,
        "trigger_ratio": st.sampled_from((0.05, 0.5, 1.0)),
        "trigger_messages": st.sampled_from((0, 0, 12, 40)),
        "trigger_tokens": st.sampled_from((0, 0, 300, 5000)),
        "reserve_tokens": st.sampled_from((0, 1000)),
        "keep_recent_tokens": st.sampled_from((0, 200, 2000)),
        "map_chunk_messages": st.sampled_from((0, 1, 5)),
        "summary_tool_chars": st.sampled_from((100, 5000)),
        "prompt": st.sampled_from(("Sum up: {messages}", "{previous} + {messages}, {as} text")),
    },
)
_keep = st.sampled_from(({}, {}, {}, {"keep_messages": 2}, {"keep_messages": 25}, {"keep_turns": 1}, {"keep_turns": 3}))
_budget = st.fixed_dictionaries(
    {},
    optional={
        "system_tokens": st.sampled_from((0, 300)),
        "tools_tokens": st.sampled_from((0, 300)),
        "response_tokens": st.sampled_from((0, 200)),
    },
)
_settings = st.builds(
    lambda pruning, compaction, keep, budget: {
        "pruning": pruning,
        "compaction": {**compaction, **keep},
        "budget": budget,
    },
    _pruning,
    _compaction,
    _keep,
    _budget,
)


WINDOWS = st.one_of(
    st.sampled_from((500, 800, 1500, 4000, 8000, 8000, 20_000, 20_000, 60_000, 200_000)), st.integers(500, 30_000)
)
ANSWERS = st.sampled_from(
    ("good",) * 16 + ("long", "blank", "thinking", "refusal", "call", "cut short", "error", "echo", "tags")
)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """A random story: any window, legal settings and events, with a summariser that is not always up to it."""
    window = draw(WINDOWS)
    counter: TokenCounter = draw(
        st.sampled_from((THIRDS, THIRDS, THIRDS, THIRDS, ESTIMATOR, ESTIMATOR, load_counter("cl100k_base")))
    )
    return Story(
        window=window,
        counter=Remembering(counter),
        keys=draw(_settings),
        summariser_window=draw(st.sampled_from((None, None, max(500, window // 4), max(500, window // 2), 200_000))),
        system=draw(st.sampled_from((None, 0, 20, 200))),
        tools=draw(st.sampled_from((None, 0, 20, 200))),
        answers=tuple(draw(st.lists(ANSWERS, min_size=1, max_size=6))),
        events=tuple(draw(st.lists(_events, min_size=1, max_size=16))),
    )


# --- Messages of events ----------------------------------------------------------------------------------------------


class Writer:
    """Makes messages of events: numbers them, marks them, and chooses their ids."""

    def __init__(self) -> None:
        self.count = 0
        self.late: list[ToolMessage] = []
        self.markers: dict[int, str] = {}
        """`id` of a message object -> its marker, where its text holds one."""
        self.kept: list[BaseMessage] = []

    def message(self, event: Rule | Say | Reply | Orphan | Insert) -> BaseMessage:
        marker = self._marker()
        content = event.body.of(marker)
        if isinstance(event, Rule):
            return self._noted(SystemMessage(content, id=f"m{self.count}"), event.body, marker)
        if isinstance(event, Orphan):
            return self._noted(ToolMessage(content, tool_call_id="gone", id=f"m{self.count}"), event.body, marker)
        if isinstance(event, Reply):
            return self._noted(self._assistant(event, content), event.body, marker)
        identity = "own" if isinstance(event, Insert) else event.identity
        return self._noted(HumanMessage(content, id=self._id(identity)), event.body, marker)

    def results(self, message: BaseMessage, reply: Reply) -> list[BaseMessage]:
        """The results that come at once; late ones are held back."""
        now: list[BaseMessage] = []
        for call_id, asked in zip(self._call_ids, reply.calls, strict=True):
            if call_id is None or asked.answer == "never":
                continue
            found = self._result(call_id, asked)
            if asked.answer == "late":
                self.late.append(found)
            else:
                now.append(found)
            if asked.answer == "twice":
                now.append(self._result(call_id, asked))
        return now

    def arrived(self) -> list[BaseMessage]:
        late, self.late = list(self.late), []
        return list(late)

    def edited(self, message: BaseMessage, event: Edit) -> BaseMessage:
        """The message with another text; its calls stay."""
        marker = self._marker()
        if event.in_place:
            message.content = event.body.of(marker)
            return self._noted(message, event.body, marker)
        copy = message.model_copy(update={"content": event.body.of(marker)}, deep=True)
        return self._noted(copy, event.body, marker)

    def _marker(self) -> str:
        self.count += 1
        return f"MARK{self.count}X"

    def _noted(self, message: BaseMessage, body: Body, marker: str) -> BaseMessage:
        self.markers.pop(id(message), None)
        if body.text.size > 0:
            self.markers[id(message)] = marker
        self.kept.append(message)
        return message

    def _id(self, identity: Identity) -> str | None:
        return {"own": f"m{self.count}", "none": None, "repeated": "m-again"}[identity]

    def _assistant(self, reply: Reply, content: Any) -> AIMessage:
        self._call_ids = [
            {"own": f"call-{self.count}-{number}", "constant": "call", "none": None}[asked.id]
            for number, asked in enumerate(reply.calls)
        ]
        fields: dict[str, list[dict[str, Any]]] = {"call": [], "invalid": [], "block": []}
        for call_id, asked in zip(self._call_ids, reply.calls, strict=True):
            name = asked.tool or "dock_list"
            if asked.kind == "call":
                fields["call"].append({"name": name, "args": {"berth": 9}, "id": call_id})
            elif asked.kind == "invalid":
                fields["invalid"].append({"name": name, "args": '{"berth":', "id": call_id, "error": None})
            else:
                fields["block"].append({"type": "tool_use", "name": name, "input": {"berth": 9}, "id": call_id})
        if fields["block"]:
            texts = content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []
            content = [*texts, *fields["block"]]
        return AIMessage(
            content, tool_calls=fields["call"], invalid_tool_calls=fields["invalid"], id=self._id(reply.identity)
        )

    def _result(self, call_id: str, asked: Asked) -> ToolMessage:
        marker = self._marker()
        message = ToolMessage(
            asked.body.of(marker),
            tool_call_id=call_id,
            id=self._id(asked.identity),
            name=asked.tool,
            status=asked.status,
            artifact={"rows": [1, 2]},
            response_metadata={"took": 3},
        )
        self._noted(message, asked.body, marker)
        return message
