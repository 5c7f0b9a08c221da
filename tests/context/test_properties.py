"""The promises about views and decisions, over random conversations.

A story is played as an agent would play it: before each assistant message the view is decided and checked, with checks
that are written from the rules and share no code with what they check. The record takes the way through JSON that a
checkpointer gives it. `LANGGRAPH_MEMORY_EXAMPLES` sets how many stories are played.
"""

from __future__ import annotations

import copy
import json
import os
import re
from collections import Counter as Multiset
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_memory.config import CompactionConfig, PruningConfig
from langgraph_memory.context.budget import Overhead, TokenBudget
from langgraph_memory.context.case import Situation
from langgraph_memory.context.decide import Decision, decide
from langgraph_memory.context.history import History
from langgraph_memory.context.learn import observed
from langgraph_memory.context.prune import Pruner
from langgraph_memory.context.record import Record, Scope, fitted, merge_records, read_scope, write_scope
from langgraph_memory.context.render import View, continued, render
from langgraph_memory.context.report import report
from langgraph_memory.context.summarize import Ask, Recipe, Rejected, accept
from langgraph_memory.context.tokens import TokenCounter, count_message
from langgraph_memory.errors import ContextBudgetError
from tests.support.histories import (
    Answer,
    Edit,
    Event,
    Insert,
    Late,
    Orphan,
    Remove,
    Reply,
    Restart,
    Rewind,
    Rounds,
    Rule,
    Say,
    Story,
    Window,
    Writer,
    stories,
    usage,
)

pytestmark = pytest.mark.slow

EXAMPLES = int(os.environ.get("LANGGRAPH_MEMORY_EXAMPLES", "150"))
MARKER = re.compile(r"MARK\d+X")
TRIMMED = re.compile(r'\[trimmed: (\d+) of (\d+) characters(?: · recall\("msg:([^"]*)"\))?\]')
CLEARED = re.compile(r'\[cleared: (\d+) characters(?: · recall\("msg:([^"]*)"\))?\]')
UNANSWERED = re.compile(r":unanswered-\d+$")
LEAST_REQUEST = 100
"""Characters the request is cut to at the harshest."""
MARKER_TEXT = '[trimmed: 00000 of 00000 characters · recall("msg:m0000")]'
HINT = '[recall("history", pattern="…") finds the messages themselves]'
SLACK = 60
"""Tokens by which a bound that is written anew may differ."""


# --- What the rules say, written anew --------------------------------------------------------------------------------


def asked_ids(message: BaseMessage) -> list[str | None]:
    """The ids of the calls a provider sees in a message."""
    if not isinstance(message, AIMessage):
        return []
    ids = [call["id"] for call in message.tool_calls] + [call["id"] for call in message.invalid_tool_calls]
    blocks = message.content if isinstance(message.content, list) else []
    shown = [block.get("id") for block in blocks if isinstance(block, dict) and block.get("type") == "tool_use"]
    return ids + [call for call in shown if call not in ids]


def owners(messages: Sequence[BaseMessage], start: int = 0) -> dict[int, int]:
    """Position of each answering result -> position of its assistant message, among messages start…"""
    asked = [asked_ids(message) for message in messages]
    found: dict[int, int] = {}
    for position in range(start, len(messages)):
        message = messages[position]
        if not isinstance(message, ToolMessage):
            continue
        call = message.tool_call_id
        nearest = next((q for q in range(position - 1, start - 1, -1) if call and call in asked[q]), None)
        if nearest is not None:
            taken = [r for r, q in found.items() if q == nearest and messages[r].tool_call_id == call]  # type: ignore[attr-defined]
            if len(taken) < asked[nearest].count(call):
                found[position] = nearest
    return found


def is_blank(message: BaseMessage) -> bool:
    """No text and nothing else in the content."""
    return all(map(is_blank_block, blocks_of(message.content)))


def is_blank_block(block: Any) -> bool:
    if isinstance(block, str):
        return not block.strip()
    return block.get("type") == "text" and not block["text"].strip()


def expected_tail(messages: Sequence[BaseMessage], covered: int) -> list[int | str]:
    """What follows the summary: positions, and the call ids of synthetic results."""
    pairs, tail = owners(messages, covered), list[int | str]()
    for position in range(covered, len(messages)):
        message = messages[position]
        calls = asked_ids(message)
        if isinstance(message, ToolMessage) or not all(calls):
            continue
        if isinstance(message, AIMessage) and not calls and is_blank(message):
            continue
        tail.append(position)
        answered = [answer for answer in sorted(pairs) if pairs[answer] == position]
        tail += answered
        open_calls = list(calls)
        for answer in answered:
            open_calls.remove(messages[answer].tool_call_id)  # type: ignore[attr-defined]
        tail += [call for call in open_calls if call]
    return tail


def request_run(messages: Sequence[BaseMessage]) -> list[int]:
    """Positions of the human messages that opened the current turn."""
    humans = [position for position, message in enumerate(messages) if isinstance(message, HumanMessage)]
    run = humans[-1:]
    while run and run[0] - 1 in humans:
        run.insert(0, run[0] - 1)
    return run


def block_text(block: Any) -> str:
    if isinstance(block, str):
        return block
    inner = block.get("text") if block.get("type") == "text" else block.get("content")
    return "".join(map(block_text, inner)) if isinstance(inner, list) else inner or ""


def text_of(content: Any) -> str:
    return content if isinstance(content, str) else "".join(map(block_text, content))


def is_summary(message: BaseMessage) -> bool:
    return isinstance(message, HumanMessage) and (message.id or "").startswith("summary-")


def blocks_of(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def shortening_fault(before: Any, after: Any, key: str | None) -> str:
    """What is wrong with content `after` as a shortened form of `before`; empty where nothing is."""
    old, new = text_of(before), text_of(after)
    if len(new) >= len(old):
        return "not shorter"
    if not new.strip():
        return "blank"
    if [b for b in blocks_of(before) if not block_text(b)] != [b for b in blocks_of(after) if not block_text(b)]:
        return "blocks without text changed"
    if whole := CLEARED.fullmatch(new):
        return "" if (int(whole[1]), whole[2]) == (len(old), key) else "wrong cleared marker"
    trimmed = TRIMMED.search(new)
    if not trimmed:
        return "no marker"
    head, tail = new[: trimmed.start()].removesuffix("\n"), new[trimmed.end() :].removeprefix("\n")
    if (int(trimmed[1]), int(trimmed[2]), trimmed[3]) != (len(head) + len(tail), len(old), key):
        return "wrong trimmed marker"
    return "" if old.startswith(head) and old.endswith(tail) else "head or tail not from the source"


# --- The play --------------------------------------------------------------------------------------------------------


@dataclass
class Call:
    """One call of `decide` and all that went in."""

    messages: list[BaseMessage]
    history: History
    before: Scope
    budget: TokenBudget
    situation: Situation
    window: int
    asks: list[Ask] = field(default_factory=list)
    replies: dict[str, str | Rejected] = field(default_factory=dict)

    @property
    def counter(self) -> TokenCounter:
        return self.history.counter

    @property
    def pruning(self) -> PruningConfig:
        return self.situation.settings.pruning

    @property
    def compaction(self) -> CompactionConfig:
        return self.situation.settings.compaction

    @property
    def usable(self) -> int:
        """The window in the provider's tokens, without what estimates hold back."""
        return self.window if self.counter.exact else int(self.window * 0.9)

    @property
    def min_reclaim(self) -> int:
        return int(min(self.pruning.min_reclaim_tokens, self.window // 8) / self.budget.calibration.factor)

    @property
    def trigger(self) -> float:
        config, calibration = self.compaction, self.budget.calibration
        wanted = min(config.trigger_ratio * self.window, self.window - min(config.reserve_tokens, self.window // 4))
        most = min(max(self.window // 2, int(wanted)), self.usable - self.budget.response)
        return int((most - calibration.offset) / calibration.factor)

    def asked(self, total: int) -> bool:
        """Whether a trigger that was set by hand is crossed."""
        config, calibration = self.compaction, self.budget.calibration
        sent = calibration.factor * total + calibration.offset
        return 0 < config.trigger_messages <= len(self.messages) or 0 < config.trigger_tokens < sent + 1

    def due(self, total: int) -> bool:
        enough = len(self.messages) >= self.compaction.min_messages
        return self.situation.force or self.asked(total) or (enough and total > self.trigger)

    def excluded(self, position: int) -> bool:
        """Whether the result is of a tool that is never pruned by threshold."""
        message = self.messages[position]
        owner = owners(self.messages).get(position)
        calls = self.messages[owner].tool_calls if owner is not None else []  # type: ignore[attr-defined]
        names = [call["name"] for call in calls if call["id"] == message.tool_call_id]  # type: ignore[attr-defined]
        name = message.name or "".join(names[:1])
        return name in {*self.pruning.exclude_tools, "recall", "memory_search", "memory_get"}


class Play:
    """Plays a story and checks every step."""

    def __init__(self, story: Story) -> None:
        self.story, self.writer = story, Writer()
        self.settings = story.settings
        self.window = story.window
        self.messages: list[BaseMessage] = []
        self.copies: dict[int, BaseMessage] = {}
        self.record: Record = {}
        self.history: History | None = None
        self.shown: tuple[History, Scope, View] | None = None
        self.past: list[tuple[list[BaseMessage], Record]] = []
        self.last_view: list[BaseMessage] | None = None
        self.replied = 0
        self.unusable: list[str] = []

    def run(self) -> None:
        for happening in self.story.events:
            self.happen(happening)
        self.call(Reply())

    def happen(self, happening: Event) -> None:
        match happening:
            case Say() | Rule() | Orphan():
                self.messages.append(self.writer.message(happening))
            case Reply():
                self.reply(happening)
            case Rounds(count, reply):
                for _ in range(count):
                    self.reply(reply)
            case Late():
                self.messages += self.writer.arrived()
            case Restart():
                self.history = self.shown = None
            case Window(tokens):
                self.window = tokens
            case _:
                self.change(happening)

    def change(self, happening: Event) -> None:
        """What changes messages that were there; no view has to go on from the one before."""
        self.last_view = None
        if isinstance(happening, Insert):
            self.messages = [self.writer.message(happening), *self.messages]
        elif isinstance(happening, Rewind) and self.past:
            messages, self.record = self.past[int(happening.to * len(self.past))]
            self.messages = list(messages)
        elif isinstance(happening, Remove | Edit) and self.messages:
            position = int(happening.at * len(self.messages))
            if isinstance(happening, Remove):
                self.messages = [*self.messages[:position], *self.messages[position + 1 :]]
            else:
                edited = self.writer.edited(self.messages[position], happening)
                self.copies.pop(id(edited), None)
                self.messages = [*self.messages[:position], edited, *self.messages[position + 1 :]]

    def reply(self, reply: Reply) -> None:
        view = self.call(reply)
        if view is None:
            return
        message = self.writer.message(reply)
        assert isinstance(message, AIMessage)
        if reply.usage is not None:
            message.usage_metadata = usage(int(view.tokens * reply.usage))  # type: ignore[assignment]
            message.response_metadata = {"model_name": reply.model} if reply.model else {}
        self.messages += [message, *self.writer.results(message, reply)]

    def call(self, reply: Reply) -> View | None:
        """Decide as often as it takes, check, store; None where nothing fits."""
        for message in self.messages:
            self.copies.setdefault(id(message), copy.deepcopy(message))
        messages = list(self.messages)
        counter = self.story.counter
        self.history = history = History.of(messages, counter, self.history)
        stored = read_scope(self.record, "")
        before = fitted(stored, history)
        view = self.continued(history, before)
        call = self.prepared(history, before, reply)
        try:
            outcome = self.decided(call, stored, view)
        except ContextBudgetError as error:
            check_that_nothing_fits(call)
            assert error.available == call.budget.available
            event("nothing fits")
            self.last_view = None
            return None
        finally:
            self.check_inputs(messages)
        for action in outcome.actions or ("no decision",):
            again = ", after a summary" if action == "compacted" and before.summary else ""
            event(f"{action} {outcome.rung}{again}")
        self.store(outcome, stored)
        self.check(call, stored, outcome)
        self.last_view = outcome.view.messages
        self.shown = history, outcome.scope, outcome.view
        self.past.append((messages, self.record))
        return outcome.view

    def continued(self, history: History, scope: Scope) -> View:
        """The view before the decision, from the one of the last call: it is the one that is rendered anew."""
        anew = render(history, scope)
        if self.shown is None:
            return anew
        view = continued(*self.shown, history, scope)
        assert view == anew
        for part, fresh in zip(view.parts, anew.parts, strict=True):
            assert part.message is fresh.message or fresh.position < 0 or fresh.limit is not None
        if any(part is old for part, old in zip(view.parts, self.shown[2].parts, strict=False)):
            event("the view went on from the last one")
        return view

    def prepared(self, history: History, before: Scope, reply: Reply) -> Call:
        story, messages = self.story, list(history.messages)
        has_system = any(isinstance(message, SystemMessage) for message in messages)
        system = 0 if story.system is None and has_system else story.system
        budget = TokenBudget.of(
            self.window,
            counter=story.counter,
            budget=self.settings.budget,
            compaction=self.settings.compaction,
            pruning=self.settings.pruning,
            overhead=Overhead(system, story.tools),
            calibration=observed(history, before, render(history, before), ""),
        )
        recipe = Recipe(
            window=story.summariser_window or int(self.window / budget.calibration.factor),
            room=budget.summary,
            most=budget.summary,
            tool_chars=self.settings.compaction.summary_tool_chars,
            chunk_messages=self.settings.compaction.map_chunk_messages,
            prompt=self.settings.compaction.prompt,
        )
        situation = Situation(self.settings, recipe, reply.cold, reply.force)
        return Call(messages, history, before, budget, situation, self.window)

    def decided(self, call: Call, stored: Scope, view: View) -> Decision:
        for _ in range(400):
            outcome = decide(call.history, stored, call.budget, call.situation, call.replies, view)
            if isinstance(outcome, Decision):
                return outcome
            assert outcome.digest not in call.replies, "asked again for what was answered"
            call.asks.append(outcome)
            call.replies[outcome.digest] = self.summary(outcome)
        raise AssertionError("decide asks without end")

    def summary(self, ask: Ask) -> str | Rejected:
        """The scripted summariser's next answer, judged as the rim judges it."""
        kind = self.story.answers[self.replied % len(self.story.answers)]
        self.replied += 1
        token = f"REPLY{self.replied}X"
        if kind == "error":
            return Rejected("the summariser raised RuntimeError: 429 slow down")
        count = self.story.counter.text
        answer = accept(reply_of(kind, token, ask), replaces=ask.replaces, room=ask.room, count=count)
        if isinstance(answer, Rejected):
            self.unusable.append(token)
            return answer
        assert kind in ("good", "echo", "tags", "long"), f"a reply of kind {kind!r} was accepted"
        assert answer.strip() and count(answer) < ask.replaces and count(answer) <= ask.room
        return answer

    def store(self, outcome: Decision, stored: Scope) -> None:
        if outcome.scope is stored:
            return
        update = json.loads(json.dumps(write_scope(outcome.scope, "")))
        other = {"v": 1, "ns": {"child": {"since": ["a", "b"]}}}
        self.record = merge_records(merge_records(other, self.record), update)
        assert read_scope(self.record, "") == outcome.scope
        assert self.record["ns"]["child"] == {"since": ["a", "b"]}
        check_record_is_small(update["ns"][""])

    # The checks that need what was before

    def check_inputs(self, messages: list[BaseMessage]) -> None:
        """P1: neither the list nor a message was changed."""
        assert len(messages) == len(self.messages)
        assert all(mine is theirs for mine, theirs in zip(messages, self.messages, strict=True))
        assert all(message == self.copies[id(message)] for message in messages)

    def check(self, call: Call, stored: Scope, outcome: Decision) -> None:
        messages, view, counter = call.messages, outcome.view, self.story.counter
        fresh = History.of(messages, counter)
        for rows in ("keys", "digests", "tokens", "sums", "positions", "systems"):
            assert getattr(fresh, rows) == getattr(call.history, rows), f"{rows} differ from those made anew"
        assert render(fresh, fitted(read_scope(self.record, ""), fresh)).messages == view.messages
        assert view.tokens == sum(count_message(counter, message) for message in view.messages)
        pruner = Pruner(outcome.scope, call.history, view.pairing)
        results = [part for part in view.parts if part.source == "tool" and part.position >= 0]
        assert [pruner.tokens(part.position) for part in results] == [part.tokens for part in results]
        check_valid(messages, view)
        check_parts(messages, view, outcome.scope.covered)
        check_what_survives(call, outcome)
        check_fits(call, outcome)
        check_switches(call, outcome)
        check_reasons(call, outcome)
        check_pruning(call, outcome)
        check_compaction(call, outcome)
        check_prompts(call, self.writer, outcome)
        self.check_report(call, outcome)
        self.check_stable(call, outcome)
        self.check_repeated(call, outcome)
        shown = "".join(text_of(message.content) for message in view.messages)
        assert not [token for token in self.unusable if token in shown], "an unusable answer is shown"

    def check_report(self, call: Call, outcome: Decision) -> None:
        shown = report(call.history, outcome.scope, call.budget, call.before)
        assert sum(shown.parts.values()) == shown.total
        assert min(shown.parts.values()) >= 0
        assert shown.total + shown.reserve <= shown.window + 1

    def check_stable(self, call: Call, outcome: Decision) -> None:
        """P5: without a decision the view goes on from the one before."""
        if self.last_view is None or outcome.actions:
            return
        old, new = self.last_view, outcome.view.messages
        ids = {message.id for message in new}
        if any(UNANSWERED.search(message.id or "") and message.id not in ids for message in old):
            return  # a late result has taken the place of a synthetic one
        assert new[: len(old)] == old

    def check_repeated(self, call: Call, outcome: Decision) -> None:
        """P5, P8: the same messages with what was stored take no decision, also in a new process."""
        stored = read_scope(self.record, "")
        history = History.of(call.messages, self.story.counter)
        again = self.prepared(history, fitted(stored, history), Reply(cold=call.situation.cold))
        assert again.budget == call.budget
        repeated = decide(history, stored, again.budget, again.situation, {})
        assert isinstance(repeated, Decision), "a second decision asks for a summary"
        assert repeated.actions == ()
        assert repeated.scope is stored
        assert repeated.view.messages == outcome.view.messages


def reply_of(kind: Answer, token: str, ask: Ask) -> BaseMessage | str:
    if kind == "call":
        return AIMessage("", tool_calls=[{"name": "dock_list", "args": {}, "id": token}])
    if kind == "cut short":
        return AIMessage(f"{token} Pier B was", response_metadata={"finish_reason": "length"})
    texts: dict[Answer, Any] = {
        "good": f"<think>Hm.</think>{token} Pier B was chosen.",
        "long": f"{token} Pier B was chosen. " * (ask.replaces + 10),
        "blank": " \n",
        "thinking": [{"type": "thinking", "thinking": f"{token} Pier B?", "signature": "Q" * 99}],
        "refusal": f"I'm sorry, but I can't help with that. {token}",
        "echo": token + MARKER.sub("ECHO", ask.prompt),
        "tags": f"{token} <conversation_summary> said <messages </conversation_summary> and more <messages",
    }
    return AIMessage(texts[kind], id="reply")


# --- The checks ------------------------------------------------------------------------------------------------------


def check_record_is_small(scope: Record) -> None:
    plain = json.loads(json.dumps(scope))
    summary = plain.get("summary", {})
    pins = len(summary.get("pin", ()))
    summary.update(text="", artifacts=[])
    assert len(json.dumps(plain)) < 3000 + 60 * (len(plain.get("trims", ())) + pins)


def check_valid(messages: Sequence[BaseMessage], view: View) -> None:
    """P2, from the messages of the view alone."""
    shown, position = view.messages, 0
    while position < len(shown):
        message = shown[position]
        calls = asked_ids(message)
        results = shown[position + 1 : position + 1 + len(calls)]
        assert not isinstance(message, ToolMessage), "a result without its call in front"
        assert all(isinstance(answer, ToolMessage) for answer in results), "a call without its result"
        assert Multiset(answer.tool_call_id for answer in results) == Multiset(calls)  # type: ignore[attr-defined]
        if isinstance(message, AIMessage):
            assert calls or not is_blank(message), "an assistant message without content and calls"
        position += 1 + len(calls)
    known = Multiset(message.id for message in messages if message.id)
    used = Multiset(message.id for message in shown if message.id)
    assert all(used[key] <= max(1, known[key]) for key in used), "a message id was doubled"
    summaries = [position for position, message in enumerate(shown) if is_summary(message)]
    assert len(summaries) <= 1
    assert all(isinstance(message, SystemMessage) for message in shown[: sum(summaries)])


def check_parts(messages: Sequence[BaseMessage], view: View, covered: int) -> None:
    """P2, P3: covered system messages, the summary, and behind it exactly what pairing says."""
    head = [position for position in range(covered) if isinstance(messages[position], SystemMessage)]
    parts = list(view.parts)
    if covered:
        assert [part.position for part in parts[: len(head)]] == head
        assert is_summary(parts[len(head)].message)
        parts = parts[len(head) + 1 :]
    tail = [part.position if part.position >= 0 else part.message.tool_call_id for part in parts]  # type: ignore[attr-defined]
    assert tail == expected_tail(messages, covered)
    for part in view.parts:
        if part.position >= 0:
            check_same_but_text(messages[part.position], part.message)
        elif not is_summary(part.message):
            assert isinstance(part.message, ToolMessage) and part.message.status == "error" and part.message.content


def check_same_but_text(original: BaseMessage, shown: BaseMessage) -> None:
    """E: pruning changes only the text of results, and never to something longer, blank or unmarked."""
    if shown is original:
        return
    assert isinstance(original, ToolMessage | HumanMessage), "only results and the request are shortened"
    assert shown.model_copy(update={"content": original.content}) == original
    assert not (fault := shortening_fault(original.content, shown.content, original.id)), fault


def check_what_survives(call: Call, outcome: Decision) -> None:
    """P3: the system messages word for word; the request verbatim, or as a preview where it does not fit."""
    messages, view = call.messages, outcome.view
    shown = [part.message for part in view.parts if isinstance(part.message, SystemMessage)]
    assert sorted(map(id, shown)) == sorted(id(m) for m in messages if isinstance(m, SystemMessage))
    at = {part.position: part.message for part in view.parts}
    pinned = next((blocks_of(m.content)[1:] for m in view.messages if is_summary(m)), [])
    run = request_run(messages)
    cut = [position for position in run if not shown_whole(messages, position, at, pinned)]
    earlier = {call.history.keys[position] for position in run} & call.before.trims.keys()
    covers_all = call.before.covered == len(messages)
    if cut and not earlier and call.compaction.enabled and not covers_all:
        least = least_view(call, request_chars=10**9) + call.budget.summary // 4
        assert least + SLACK > call.budget.limit, "the request is cut but would fit"


def shown_whole(messages: Sequence[BaseMessage], position: int, at: dict[int, BaseMessage], pinned: list[Any]) -> bool:
    message = messages[position]
    if position in at:
        return at[position].content == message.content
    blocks = [block for block in blocks_of(message.content) if not is_blank_block(block)]
    if not blocks or any(
        pinned[start : start + len(blocks)] == blocks for start in range(len(pinned) - len(blocks) + 1)
    ):
        return True
    previews = [block for block in pinned if isinstance(block, dict) and TRIMMED.search(block.get("text") or "")]
    faults = [shortening_fault(text_of(message.content), block["text"], message.id) for block in previews]
    assert "" in faults, f"message {position} of the request is not in the view"
    return False


def least_view(call: Call, request_chars: int) -> int:
    """Raw tokens of the smallest view there can be: everything covered, the request cut to `request_chars`."""
    count, key = call.counter, "#" + "0" * 32
    tag = f'<conversation_summary messages="{len(call.messages)}" from="{key}" to="{key}">\n'
    tag += f"{HINT}\n</conversation_summary>"
    requests = [call.messages[position] for position in request_run(call.messages)]
    blocks = [block for message in requests for block in cut_blocks(message, request_chars)]
    systems = sum(count_message(count, m) for m in call.messages if isinstance(m, SystemMessage))
    summary = count_message(count, HumanMessage([{"type": "text", "text": tag}, *blocks]))
    return systems + summary + call.budget.system + call.budget.tools


def least_uncompacted_view(call: Call) -> int:
    """The smallest view without a new summary: results cleared if they may be, the request cut."""
    total, run = call.budget.system + call.budget.tools, request_run(call.messages)
    for part in render(call.history, call.before).parts:
        message, tokens = part.message, part.tokens
        if isinstance(message, ToolMessage) and call.pruning.enabled:
            tokens = min(tokens, count_message(call.counter, message.model_copy(update={"content": MARKER_TEXT})))
            tokens += 1000 * sum(isinstance(b, dict) and "image" in str(b.get("type")) for b in message.content)
        elif part.position in run:
            cut = HumanMessage(cut_blocks(message, LEAST_REQUEST))
            tokens = min(tokens, count_message(call.counter, cut))
        total += tokens
    return total


def cut_blocks(message: BaseMessage, chars: int) -> list[Any]:
    """The content with its text cut to about `chars`, and a marker in it."""
    text = text_of(message.content)
    if len(text) <= max(chars, len(MARKER_TEXT)):
        return blocks_of(message.content)
    rest = [block for block in message.content if not block_text(block)] if isinstance(message.content, list) else []
    half = max(0, chars - len(MARKER_TEXT)) // 2
    return [{"type": "text", "text": text[:half] + MARKER_TEXT + text[len(text) - half :]}, *rest]


def check_that_nothing_fits(call: Call) -> None:
    """P4: the error is right only where the smallest view does not fit either."""
    least = [least_uncompacted_view(call)]
    if call.compaction.enabled and call.before.covered < len(call.messages):
        least.append(least_view(call, LEAST_REQUEST))
    assert min(least) + SLACK > call.budget.limit, f"a view of {min(least)} fits into {call.budget.limit}"


def check_fits(call: Call, outcome: Decision) -> None:
    """P4, in the provider's tokens."""
    calibration = call.budget.calibration
    sent = calibration.factor * (outcome.view.tokens + call.budget.system + call.budget.tools) + calibration.offset
    assert sent + call.budget.response <= call.usable + 1e-6


def check_switches(call: Call, outcome: Decision) -> None:
    """P13: what is off does nothing."""
    shortened = [p for p in outcome.view.parts if p.position >= 0 and p.message is not call.messages[p.position]]
    if not call.pruning.enabled:
        assert not any(isinstance(part.message, ToolMessage) for part in shortened)
    if not (call.pruning.enabled and call.pruning.trim_tool_results):
        assert outcome.scope.watermark is None and "pruned" not in outcome.actions
    if not call.compaction.enabled:
        assert outcome.scope.summary is None and "compacted" not in outcome.actions


def check_reasons(call: Call, outcome: Decision) -> None:
    """P5: the view is changed only for a reason that is worth it, and a decision is one that changes it."""
    before, budget = render(call.history, call.before), call.budget
    changed = [message.content for message in before.messages] != [m.content for m in outcome.view.messages]
    assert changed == bool(outcome.actions)
    if not changed:
        return
    total = before.tokens + budget.system + budget.tools
    reasons = {
        "cold": call.situation.cold,
        "worth it": before.tokens - outcome.view.tokens >= call.min_reclaim,
        "over the limit": total > budget.limit,
        "over the trigger": total > call.trigger,
        "due": call.due(total),
    }
    assert any(reasons.values()), reasons
    assert outcome.view.tokens < before.tokens, "a decision has to make the view smaller"
    if "compacted" in outcome.actions:
        assert total > budget.limit or call.due(total), "compacted without a trigger"


def check_pruning(call: Call, outcome: Decision) -> None:
    """E: what pruning by threshold takes, what it leaves alone, and that nothing comes back."""
    before = {part.position: part.message for part in render(call.history, call.before).parts}
    after = {part.position: part.message for part in outcome.view.parts if isinstance(part.message, ToolMessage)}
    for position, message in after.items():
        if position >= 0 and position in before:
            assert len(text_of(message.content)) <= len(text_of(before[position].content))
    mark = outcome.scope.watermark
    if mark is None:
        return
    upto = next(p for p, key in enumerate(call.history.keys) if key == mark.upto)
    for position, message in after.items():
        if 0 <= position <= upto and not call.excluded(position):
            check_rule(call, text_of(call.messages[position].content), text_of(message.content))
    if outcome.actions == ("pruned",):
        results = [position for position in sorted(after) if position >= 0]
        protected = results[-call.pruning.protect_recent :] if call.pruning.protect_recent else []
        for position in results:
            if position in protected or position > upto or call.excluded(position):
                assert after[position].content == before[position].content


def check_rule(call: Call, old: str, new: str) -> None:
    soft, hard = call.pruning.soft_trim_chars, call.pruning.hard_clear_threshold
    if len(old) <= soft or not old.strip():
        return
    if len(old) > max(hard, 120):
        assert CLEARED.fullmatch(new)
    elif len(old) > max(soft, 120):
        assert len(new) <= max(soft, 120)


def check_compaction(call: Call, outcome: Decision) -> None:
    """A, D, P8: where the cut falls, what is kept, and what stands for the rest."""
    start, end, view, budget = call.before.covered, outcome.scope.covered, outcome.view, call.budget
    if "compacted" not in outcome.actions:
        assert outcome.scope.summary is call.before.summary
        return
    assert end > start
    pairs = owners(call.messages, start)
    shown = {answer: owner for answer, owner in pairs.items() if all(asked_ids(call.messages[owner]))}
    assert not any(owner < end <= answer for answer, owner in shown.items()), "a call was parted from its result"
    place = next(position for position, message in enumerate(view.messages) if is_summary(message))
    behind = view.messages[place + 1 :]
    assert not behind or not isinstance(behind[0], HumanMessage), "two human messages in a row"
    summary, previous = outcome.scope.summary, call.before.summary
    assert summary is not None
    count = call.counter.text
    keys = set(previous.pin).difference(summary.pin) if previous else set()
    released = sum(call.history.tokens[call.history.keys.index(key)] for key in keys)
    replaced = call.history.span(start if previous and previous.text.strip() else 0, end) + released
    assert count(summary.text) < replaced + (count(previous.text) if previous else 0) or not summary.text
    assert summary.text.strip() or outcome.rung == "marker"
    raw = render(call.history, call.before)
    total = raw.tokens + budget.system + budget.tools
    first = call.asked(total) and call.before.summary is None
    if total <= budget.limit and not call.situation.force and not first:
        assert call.history.span(start, end) + released >= call.min_reclaim, "compacted for too little"
    check_tail(call, outcome, sum(count_message(call.counter, message) for message in behind))


def check_tail(call: Call, outcome: Decision, tokens: int) -> None:
    """P8: what is kept is at most what was asked for, or the newest unit, or waits for a result."""
    start, end, messages = call.before.covered, outcome.scope.covered, call.messages
    pairs = owners(messages, start)
    answered = Multiset(pairs.values())
    if any(len(asked_ids(messages[position])) > answered[position] for position in range(end, len(messages))):
        return
    newest = newest_unit(messages, pairs, start)
    config, kept = call.compaction, len(messages) - end
    if config.keep_messages:
        assert kept <= max(config.keep_messages, len(messages) - newest)
    elif config.keep_turns:
        turns = sum(
            isinstance(messages[p], HumanMessage) and not isinstance(messages[p - 1], HumanMessage)
            for p in range(max(end, 1), newest)
        )
        assert turns <= config.keep_turns
    else:
        keep = int(min(config.keep_recent_tokens, call.window // 4) / call.budget.calibration.factor)
        assert tokens <= max(keep, call.history.span(newest, len(messages)))


def newest_unit(messages: Sequence[BaseMessage], pairs: dict[int, int], start: int) -> int:
    """Where the newest messages begin that cannot be parted."""
    for first in range(len(messages) - 1, start, -1):
        lost = isinstance(messages[first], ToolMessage) and first not in pairs
        if not lost and not any(owner < first <= answer for answer, owner in pairs.items()):
            return first
    return start


def check_prompts(call: Call, writer: Writer, outcome: Decision) -> None:
    """P7: prompts fit, hold what is newly covered, and nothing that only an earlier summary covers."""
    prompts, recipe = [ask.prompt for ask in call.asks], call.situation.recipe
    for prompt in prompts:
        assert call.counter.text(prompt) <= recipe.window, "a prompt is larger than the summariser's window"
    found = {marker for prompt in prompts for marker in MARKER.findall(prompt)}
    previous = call.before.summary
    start = call.before.covered if previous and previous.text.strip() else 0
    said = set(MARKER.findall(previous.text)) if previous else set()
    old = {writer.markers[id(m)] for m in call.messages[:start] if id(m) in writer.markers}
    assert not (found & old) - said, "a message was summarised twice"
    if outcome.rung in ("summariser", "smaller input"):
        for message in call.messages[start : outcome.scope.covered]:
            small = len(text_of(message.content)) <= 100 or recipe.window >= 4000
            if small and not isinstance(message, SystemMessage) and id(message) in writer.markers:
                assert writer.markers[id(message)] in found, f"not summarised: {message!r}"[:300]


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
@given(stories())
def test_every_promise_holds_in_every_story(story: Story) -> None:
    Play(story).run()
