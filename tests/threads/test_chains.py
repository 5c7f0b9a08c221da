"""Lists of messages in chains: whatever is done to a list, it is read back, and shared where it can be."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langgraph_memory.errors import DamagedDatabaseError
from langgraph_memory.threads import schema
from langgraph_memory.threads.chains import pieces, read_keys, read_messages, settle
from langgraph_memory.threads.codec import Codec
from langgraph_memory.threads.items import thread_number
from langgraph_memory.threads.messages import joined, split
from langgraph_memory.threads.tips import Place, Tip
from langgraph_memory.threads.values import draft_messages

CODEC = Codec(JsonPlusSerializer())
PLACE = Place("t-1", "", "messages")


class Lists:
    """A database of chains, and the tip of the last list that was put."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db, self.tip = db, None
        schema.prepare(db)

    def put(self, messages: list[Any], *, cold: bool = False) -> tuple[int, int]:
        with schema.writing(self.db):
            drafted = draft_messages(CODEC, messages, None if cold else self.tip)
            found = settle(self.db, CODEC, thread_number(self.db, "t-1"), PLACE, drafted)
        self.tip: Tip | None = Tip(found[0], drafted.keys, drafted.moulds)
        return found

    def read(self, chain: int, length: int) -> list[Any]:
        stored = read_messages(self.db, chain, 0, length)
        return [joined(CODEC.load(one.type, one.data), one.id) for one in stored]

    def count(self, table: str) -> int:
        return int(self.db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


@pytest.fixture
def lists() -> Iterator[Lists]:
    with closing(sqlite3.connect(":memory:")) as db:
        yield Lists(db)


def said(*names: str) -> list[BaseMessage]:
    return [HumanMessage(f"text of {name}", id=name) for name in names]


def test_a_list_that_grows_is_one_chain(lists: Lists) -> None:
    refs = [lists.put(said(*"abcdef"[:length])) for length in range(1, 7)]
    assert {chain for chain, _ in refs} == {refs[0][0]}
    assert [lists.read(*ref) for ref in refs] == [said(*"abcdef"[:length]) for length in range(1, 7)]
    assert lists.count("lgm_links") == lists.count("lgm_items") == 6


def test_a_fork_shares_what_came_before(lists: Lists) -> None:
    trunk = [str(n) for n in range(100)]
    first = lists.put(said(*trunk, "a", "b"))
    second = lists.put(said(*trunk, "x"))
    assert first[0] != second[0]
    assert lists.read(*first) == said(*trunk, "a", "b")
    assert lists.read(*second) == said(*trunk, "x")
    assert lists.count("lgm_links") == 103


def test_a_beginning_of_a_chain_writes_nothing(lists: Lists) -> None:
    chain, _ = lists.put(said(*"abcdef"))
    assert lists.put(said(*"abc")) == (chain, 3)
    assert lists.count("lgm_links") == 6


def test_the_same_message_with_another_id_is_stored_once(lists: Lists) -> None:
    found = lists.put([HumanMessage("same", id=None), HumanMessage("same", id="a"), HumanMessage("same", id="b")])
    assert [message.id for message in lists.read(*found)] == [None, "a", "b"]
    assert lists.count("lgm_items") == 1


def test_nothing_remembered_finds_the_newest_chain(lists: Lists) -> None:
    chain, _ = lists.put(said(*"abc"))
    assert lists.put(said(*"abcd"), cold=True) == (chain, 4)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["append", "replace", "remove", "cut", "cold"]), st.integers(0, 60)), max_size=40
    )
)
def test_whatever_is_edited_every_version_is_read_back(edits: list[tuple[str, int]]) -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        lists, current, versions = Lists(db), said("first"), []
        for number, (edit, at) in enumerate(edits):
            position = at % max(len(current), 1)
            match edit:
                case "append" | "cold":
                    current = current + said(*(f"{number}-{n}" for n in range(at % 5 + 1)))
                case "replace" if current:
                    current = [*current[:position], AIMessage(f"new {number}"), *current[position + 1 :]]
                case "remove":
                    current = current[:position] + current[position + 1 :]
                case "cut":
                    current = current[:position]
            if current:
                versions.append((lists.put(current, cold=edit == "cold"), current))
        for reference, version in versions:
            assert lists.read(*reference) == version
            assert len(read_keys(db, *reference)) == len(version)


def test_edits_without_end_leave_few_pieces_and_little_written(lists: Lists) -> None:
    current = said(*map(str, range(500)))
    for number in range(300):
        current = [*current[:-1], AIMessage(f"edited {number}"), *said(f"new {number}")]
        found = lists.put(current)
    assert lists.read(*found) == current
    assert len(pieces(lists.db, *found)) <= 2 * math.log2(len(current))
    # Every edit writes two links; the rest is what forks took over.
    assert lists.count("lgm_links") < 500 + 300 * 2 * math.log2(len(current))


def test_a_missing_message_is_told_not_skipped(lists: Lists) -> None:
    found = lists.put(said(*"abc"))
    lists.db.execute("DELETE FROM lgm_items WHERE id = 2")
    with pytest.raises(DamagedDatabaseError, match="of chain 1"):
        lists.read(*found)


# Messages


def test_a_message_without_its_id_gets_it_back() -> None:
    bare, message_id = split(HumanMessage("x", id="m-1"))
    assert (bare.id, message_id) == (None, "m-1")
    assert joined(bare, message_id) == HumanMessage("x", id="m-1")
    assert joined({"content": "x", "id": None}, "m-1") == {"content": "x", "id": "m-1"}
