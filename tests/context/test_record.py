"""Decisions survive JSON, namespaces stay apart, and what no longer fits the messages is dropped, never guessed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage

from langgraph_memory.context.history import History
from langgraph_memory.context.record import (
    VERSION,
    Record,
    Scope,
    Sizes,
    Summary,
    Watermark,
    fitted,
    merge_records,
    read_scope,
    write_scope,
)
from langgraph_memory.context.tokens import Calibration
from tests.support.histories import THIRDS, ai, human, named, result, system


def messages_of_a_thread() -> list[BaseMessage]:
    return named(
        [
            system(),
            human("Plan the port."),
            ai("", "c1"),
            result("c1", "4 berths"),
            ai("Done."),
            human("Now berth 9."),
            ai("", "c2"),
            result("c2", "free"),
        ]
    )


def history_of(messages: list[BaseMessage]) -> History:
    return History.of(messages, THIRDS)


def full_scope(history: History, count: int = 4) -> Scope:
    summary = Summary(
        text="Pier B.\n泊位 \u2028",
        artifacts=("path: /srv/a.txt", "id: TK-204"),
        count=count,
        digest=history.digests[count - 1].hex(),
        first=history.keys[0],
        last=history.keys[count - 1],
        pin=(history.keys[1],),
    )
    return Scope(
        summary=summary,
        watermark=Watermark("m7", 3000, 10_000, ("read_file",)),
        trims={"m7": 300, "m1": 1000},
        since=("m7", history.digests[-1].hex()),
        calibration=Calibration(1.25, 812.5),
        sizes=Sizes(8000, 500, 800, 1000, "cl100k_base"),
    )


def through_json(record: Record) -> Record:
    return json.loads(json.dumps(record))


# Reading and writing


def test_no_record_is_an_empty_scope() -> None:
    assert read_scope(None, "") == read_scope({}, "") == Scope()
    assert read_scope({"v": VERSION, "ns": {}}, "a") == Scope()
    assert Scope().covered == 0


def test_a_scope_survives_json() -> None:
    scope = full_scope(history_of(messages_of_a_thread()))
    assert read_scope(through_json(write_scope(scope, "sub")), "sub") == scope
    assert scope.covered == 4


def test_a_scope_of_another_namespace_is_not_read() -> None:
    record = write_scope(full_scope(history_of(messages_of_a_thread())), "sub")
    assert read_scope(record, "") == Scope()


def test_a_record_is_plain_data_and_says_its_version() -> None:
    record = write_scope(full_scope(history_of(messages_of_a_thread())), "")
    assert record["v"] == 1
    assert set(record) == {"v", "ns"}
    assert through_json(record) == record


_keys = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
_keys_of_any_kind = st.one_of(_keys, st.sampled_from(("", "#00ff", 'quote"', "\u2028")))


@given(
    st.builds(
        Scope,
        summary=st.none()
        | st.builds(
            Summary,
            text=_keys,
            artifacts=st.lists(_keys, max_size=3).map(tuple),
            count=st.integers(1, 10**6),
            digest=st.just("ab" * 16),
            first=_keys_of_any_kind,
            last=_keys_of_any_kind,
            pin=st.lists(_keys_of_any_kind, max_size=3).map(tuple),
        ),
        watermark=st.none()
        | st.builds(
            Watermark, _keys, st.integers(0, 9999), st.integers(0, 99_999), st.lists(_keys, max_size=2).map(tuple)
        ),
        trims=st.dictionaries(_keys_of_any_kind, st.integers(0, 60_000), max_size=4),
        since=st.tuples(_keys_of_any_kind, st.just("cd" * 16)),
        calibration=st.builds(Calibration, st.floats(0.5, 9), st.floats(0, 9000)),
        sizes=st.builds(Sizes, *[st.integers(0, 10**6)] * 4, _keys),
    ),
    st.text(st.characters(exclude_categories=("Cs",)), max_size=10),
)
def test_any_scope_survives_json(scope: Scope, namespace: str) -> None:
    assert read_scope(through_json(write_scope(scope, namespace)), namespace) == scope


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_a_record_of_another_version_is_refused(version: Any) -> None:
    with pytest.raises(ValueError, match="version"):
        read_scope({"v": version, "ns": {"": {}}}, "")


@pytest.mark.parametrize(
    "record",
    [
        {"v": 1},
        {"v": 1, "ns": None},
        {"v": 1, "ns": []},
        {"v": 1, "ns": {"": 7}},
        {"v": 1, "ns": {"": {"summary": {"text": "x"}}}},
        {"v": 1, "ns": {"": {"summary": "x"}}},
        {"v": 1, "ns": {"": {"trims": {"m1": "many"}}}},
        {"v": 1, "ns": {"": {"since": ["a"]}}},
        {"v": 1, "ns": {"": {"calibration": {"factor": 0.0, "offset": 0.0}}}},
        {"v": 1, "ns": {"": {"calibration": {"factor": -1.0, "offset": 0.0}}}},
        {"v": 1, "ns": {"": {"calibration": {"factor": float("nan"), "offset": 0.0}}}},
        {"v": 1, "ns": {"": {"calibration": {"factor": 1.0, "offset": float("inf")}}}},
        [1, 2],
        "text",
    ],
)
def test_a_record_of_another_shape_is_refused_with_a_value_error(record: Any) -> None:
    with pytest.raises(ValueError):
        read_scope(record, "")


# Merging


def test_merging_keeps_the_scopes_of_other_namespaces() -> None:
    history = history_of(messages_of_a_thread())
    parent, child = write_scope(full_scope(history), ""), write_scope(Scope(trims={"m7": 300}), "child")
    both = merge_records(parent, child)
    assert read_scope(both, "") == full_scope(history)
    assert read_scope(both, "child").trims == {"m7": 300}
    again = merge_records(both, write_scope(Scope(trims={"m7": 100}), "child"))
    assert read_scope(again, "child").trims == {"m7": 100}
    assert read_scope(again, "") == full_scope(history)


def test_merging_changes_neither_record() -> None:
    old, new = write_scope(Scope(trims={"a": 1}), "x"), write_scope(Scope(trims={"b": 1}), "y")
    copies = through_json(old), through_json(new)
    merge_records(old, new)
    assert (old, new) == copies


@pytest.mark.parametrize("nothing", [None, {}])
def test_merging_with_nothing_keeps_what_there_is(nothing: Any) -> None:
    record = write_scope(Scope(trims={"a": 1}), "")
    assert merge_records(nothing, record) == record
    assert merge_records(record, nothing) == record
    assert merge_records(nothing, nothing) == {}


@pytest.mark.parametrize("old", [{"v": 2, "ns": {"": {}}}, {"v": 1}, [1], "text"])
def test_a_record_that_cannot_be_read_is_replaced(old: Any) -> None:
    new = write_scope(Scope(trims={"a": 1}), "")
    assert merge_records(old, new) == new


# What fits


def test_a_scope_fits_the_messages_it_was_made_for_and_longer_ones() -> None:
    messages = messages_of_a_thread()
    scope = full_scope(history_of(messages))
    assert fitted(scope, history_of(messages)) is scope
    assert fitted(scope, history_of([*messages, ai("more", id="m8")])) is scope


@pytest.mark.parametrize("position", range(4))
@pytest.mark.parametrize("change", ["edit", "remove", "insert"])
def test_a_summary_is_dropped_when_a_covered_message_changes(position: int, change: str) -> None:
    messages = messages_of_a_thread()
    scope = full_scope(history_of(messages))
    if change == "edit":
        messages[position] = messages[position].model_copy(update={"content": "edited"})
    elif change == "remove":
        del messages[position]
    else:
        messages.insert(position, human("inserted", "new"))
    found = fitted(scope, history_of(messages))
    assert found.summary is None
    assert found.watermark == scope.watermark


@pytest.mark.parametrize("position", range(4, 7))
def test_a_summary_stays_when_a_later_message_goes(position: int) -> None:
    messages = messages_of_a_thread()
    scope = full_scope(history_of(messages))
    del messages[position]
    assert fitted(scope, history_of(messages)).summary is scope.summary


def test_going_back_before_the_end_of_a_summary_drops_it() -> None:
    messages = messages_of_a_thread()
    scope = full_scope(history_of(messages))
    assert fitted(scope, history_of(messages[:3])).summary is None
    assert fitted(scope, history_of(messages[:4])).summary is scope.summary
    assert fitted(scope, history_of([])).summary is None


def test_another_branch_of_the_same_length_drops_the_summary() -> None:
    messages = messages_of_a_thread()
    scope = full_scope(history_of(messages))
    branch = [*messages[:2], human("Plan the airport.", "m2"), *messages[3:]]
    assert fitted(scope, history_of(branch)).summary is None


@pytest.mark.parametrize("count", [0, -1, 9, 10**9])
def test_a_summary_of_an_impossible_count_is_dropped(count: int) -> None:
    history = history_of(messages_of_a_thread())
    scope = full_scope(history)
    assert scope.summary is not None
    assert fitted(replace(scope, summary=replace(scope.summary, count=count)), history).summary is None


@pytest.mark.parametrize("pin", ["m5", "gone"])
def test_a_summary_whose_pin_is_not_covered_is_dropped(pin: str) -> None:
    history = history_of(messages_of_a_thread())
    scope = full_scope(history)
    assert scope.summary is not None
    assert fitted(replace(scope, summary=replace(scope.summary, pin=(pin,))), history).summary is None


def test_watermark_and_trims_go_with_their_messages() -> None:
    messages = messages_of_a_thread()
    scope = full_scope(history_of(messages))
    found = fitted(scope, history_of(messages[:7]))
    assert found.watermark is None
    assert found.trims == {"m1": 1000}
    assert found.summary is scope.summary


@pytest.mark.parametrize("rounds", [1, 50, 2000])
def test_a_record_does_not_grow_with_the_history(rounds: int) -> None:
    messages = named([message for _ in range(rounds) for message in (human(), ai("", "c"), result("c"))])
    history = history_of(messages)
    summary = Summary("", (), len(messages), history.digests[-1].hex(), history.keys[0], history.keys[-1], ("m0",))
    scope = Scope(summary, Watermark(history.keys[-1], 3000, 10_000, ("read_file",)), since=("m1", "ab" * 16))
    assert len(json.dumps(write_scope(scope, ""))) < 700
