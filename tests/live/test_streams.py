"""What a user interface gets to see while an agent with real tools works, and its memory with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from tests.live.programs import BOTH, SMALL, TALK, Program, answering, calls, said, showing, summaries
from tests.support.server import ModelServer

STREAMS = ["messages", "custom", "updates"]
ANSWER = "berth nine is booked for you"
MARK = "SUMMARY-TEXT"


class Seen:
    """What came through each stream of a turn."""

    def __init__(self, chunks: list[tuple[str, Any]]) -> None:
        by_mode: dict[str, list[Any]] = {mode: [] for mode in STREAMS}
        for mode, chunk in chunks:
            by_mode[mode].append(chunk)
        self.messages = [message for message, _ in by_mode["messages"]]
        self.origins = [metadata["langgraph_node"] for _, metadata in by_mode["messages"]]
        self.custom, self.updates = by_mode["custom"], by_mode["updates"]

    @property
    def tokens(self) -> list[str]:
        return [message.text for message in self.messages if message.type == "AIMessageChunk" and message.text]

    def updated(self, channel: str) -> list[Any]:
        """What was written into a channel, write by write."""
        writes = [value for update in self.updates for value in update.values() if value]
        return [write[channel] for write in writes if channel in write]


@pytest.fixture(params=[("agent", "sync"), ("agent", "async"), ("node", "async")], ids="-".join)
def turn(request: Any, tmp_path: Path) -> Any:
    """A turn of two tool calls in which a summary is made, by a model that streams too."""
    logs = [tmp_path / f"{name}.log" for name in ("north", "south")]
    for log in logs:
        log.write_text(f"{log.stem} pier: all quiet\n" * 20, encoding="utf-8")
    with ModelServer(answering(showing(logs[0], "c1"), showing(logs[1], "c2"), ANSWER)) as server:
        kind, mode = request.param
        program = Program(server.url, str(tmp_path), kind, mode, streaming=True, memory=SMALL, side_model="side")
        seen = Seen(program.stream(TALK, STREAMS))
        assert len(summaries(server)) == 1
        assert summaries(server)[0].stream
        assert summaries(server)[0].body["model"] == "side"
        assert len(calls(server)) == 3
        yield program, seen, [log.read_text(encoding="utf-8") for log in logs]


def test_messages_are_the_agents_own_token_by_token(turn):
    _, seen, results = turn
    assert seen.tokens == [*pieces("Let me look.") * 2, *pieces(ANSWER)]
    assert [message.content for message in seen.messages if message.type == "tool"] == results
    assert MARK not in str(seen.messages)
    assert set(seen.origins) <= {"model", "tools"}


def pieces(text: str) -> list[str]:
    """As the server cuts a text."""
    return [f"{word} " for word in text.split()[:-1]] + text.split()[-1:]


def test_what_memory_does_comes_typed_and_in_order_through_custom(turn):
    program, seen, _ = turn
    assert seen.custom == [event.to_json() for event in program.events]
    assert {event["type"] for event in seen.custom} == {"langgraph_memory"}
    assert all(event["thread_id"] == "t" for event in seen.custom)
    names = [event["event"] for event in seen.custom]
    assert names.index("compacting") < names.index("compacted")
    assert names.count("compacted") == 1
    [compacted] = [event for event in seen.custom if event["event"] == "compacted"]
    assert compacted["after"]["total"] < compacted["before"]["total"]
    assert json.loads(json.dumps(seen.custom)) == seen.custom


def test_updates_carry_new_messages_only_and_a_small_plain_record(turn):
    _, seen, results = turn
    new = [message for messages in seen.updated("messages") for message in messages]
    assert [message.type for message in new] == ["ai", "tool", "ai", "tool", "ai"]
    assert [message.content for message in new if message.type == "tool"] == results
    assert not {message.id for message in new} & {message.id for message in TALK}
    assert MARK not in str([message.content for message in new])
    records = seen.updated("memory_record")
    assert json.loads(json.dumps(records)) == records
    assert len(json.dumps(records)) < 20_000
    assert not any(isinstance(value, BaseMessage) for value in values_of(records))
    assert {key for update in seen.updates for value in update.values() for key in value or {}} <= {
        "messages",
        "memory_record",
    }


def values_of(value: Any) -> list[Any]:
    """Everything in a nested value."""
    if isinstance(value, dict):
        return [inner for item in value.values() for inner in values_of(item)]
    return [inner for item in value for inner in values_of(item)] if isinstance(value, list) else [value]


@pytest.mark.parametrize(("kind", "mode"), BOTH)
def test_values_hold_the_whole_history_and_the_output_no_record(tmp_path, kind, mode):
    with ModelServer(answering(ANSWER)) as server:
        program = Program(server.url, str(tmp_path), kind, mode, streaming=True, memory=SMALL)
        values = program.stream(TALK, "values")
        assert len(summaries(server)) == 1
        assert all(said(value["messages"])[: len(TALK)] == said(TALK) for value in values if value["messages"])
        assert said(values[-1]["messages"]) == [*said(TALK), ("ai", ANSWER)]
        assert set(program.run("thanks")[0]) == {"messages"}
        assert program.look().record != {}
