import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from langgraph_memory.context.history import History
from langgraph_memory.longterm import flushed
from langgraph_memory.longterm.flushed import CLAIM_SECONDS, AlreadyFlushedError, Due
from tests.support.histories import THIRDS, ai, human


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for table in flushed.TABLES:
        connection.execute(table)
    yield connection
    connection.close()


def rows(*names: str) -> History:
    return History.of([human(f"message {name}", name) for name in names], THIRDS)


def mark(db: sqlite3.Connection, thread: str, history: History, now: float = 1.0) -> None:
    flushed.mark_flushed(db, thread, history, flushed.unflushed(db, thread, history), now)


def test_the_tables_may_be_made_again_and_keep_what_they_hold(db):
    mark(db, "t", rows("a", "b"))
    for table in flushed.TABLES:
        db.execute(table)
    assert flushed.unflushed(db, "t", rows("a", "b")) == []


def test_all_is_new_until_it_is_marked(db):
    assert flushed.unflushed(db, "t", rows("a", "b")) == [0, 1]
    mark(db, "t", rows("a", "b"))
    assert flushed.unflushed(db, "t", rows("a", "b")) == []
    assert flushed.unflushed(db, "t", rows("a", "b", "c")) == [2]
    assert flushed.mark_of(db, "t").key == "b"


def test_only_what_is_before_the_end_is_asked_for(db):
    assert flushed.unflushed(db, "t", rows("a", "b", "c"), 2) == [0, 1]
    assert flushed.unflushed(db, "t", rows("a"), 9) == [0]


def test_a_message_is_marked_once_and_nothing_else_is_if_it_was_before(db):
    history = rows("a", "b", "c")
    flushed.mark_flushed(db, "t", history, [0, 1], 1.0)
    with pytest.raises(AlreadyFlushedError):
        flushed.mark_flushed(db, "t", history, [1, 2], 2.0)
    assert flushed.unflushed(db, "t", history) == [2]


def test_a_message_that_a_fork_has_flushed_cannot_be_marked_again(db):
    mark(db, "fork", rows("a", "b"))
    with pytest.raises(AlreadyFlushedError):
        flushed.mark_flushed(db, "t", rows("a", "b"), [0], 1.0)


def test_threads_with_the_same_keys_and_other_texts_have_nothing_in_common(db):
    mark(db, "t", rows("a", "b"))
    assert flushed.unflushed(db, "u", History.of([human("other", "a"), human("text", "b")], THIRDS)) == [0, 1]


def test_after_an_edit_in_the_middle_only_what_was_never_flushed_is_new(db):
    mark(db, "t", rows("a", "b", "c"))
    edited = History.of(
        [human("message a", "a"), human("edited", "b"), human("message c", "c"), ai("x", id="d")], THIRDS
    )
    assert flushed.unflushed(db, "t", edited) == [3]


def test_a_fork_of_a_thread_that_was_edited_knows_what_came_after_the_edit(db):
    mark(db, "t", rows("a", "b", "c"))
    edited = [human("message a", "a"), human("edited", "b"), human("message c", "c"), human("new", "d")]
    mark(db, "t", History.of(edited, THIRDS))
    assert flushed.unflushed(db, "fork", History.of(edited, THIRDS)) == []


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["say", "say", "flush", "rewind", "fork", "edit", "remove", "leave"]), st.integers(0, 11)
    ),
    max_size=40,
)


@given(STEPS)
@settings(max_examples=300)
def test_whatever_becomes_of_a_thread_each_message_is_flushed_once(steps):
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        for table in flushed.TABLES:
            db.execute(table)
        threads: list[list[HumanMessage]] = [[]]
        count: Counter[str] = Counter()
        for number, (step, at) in enumerate(steps):
            place = at % len(threads)
            said = threads[place]
            history = History.of(list(said), THIRDS)
            if step == "say":
                said += [human(f"text {number}.{n}", f"{number}.{n}") for n in range(1 + at % 3)]
            elif step == "rewind":
                del said[at:]
            elif step == "fork" and said and (mark := flushed.mark_of(db, str(place))):
                # What was changed and not looked at since is not known to be the same.
                if mark.digest == history.digests[-1].hex():
                    threads.append(list(said))
            elif step == "flush":
                new = flushed.unflushed(db, str(place), history, len(said) - at % 2)
                count.update(str(said[position].id) for position in new)
                flushed.mark_flushed(db, str(place), history, new, float(number))
                assert flushed.unflushed(db, str(place), history, len(said) - at % 2) == []
                assert all(count[str(one.id)] for one in said[: len(said) - at % 2])
            elif not said or flushed.mark_of(db, str(place)) is None:
                continue
            elif step == "leave":
                del said[: at % 3]
            elif step == "edit":
                said[at % len(said)] = human(f"edited {number}", said[at % len(said)].id)
            elif step == "remove":
                del said[at % len(said)]
        assert {id: n for id, n in count.items() if n > 1} == {}


def test_behind_the_mark_nothing_is_looked_up(db):
    names = [f"m{n}" for n in range(3000)]
    mark(db, "t", rows(*names))
    said: list[str] = []
    db.set_trace_callback(said.append)
    assert flushed.unflushed(db, "t", rows(*names, "new")) == [3000]
    assert sum(map(len, said)) < 2000


def test_the_mark_of_a_thread_without_one_is_taken_from_the_ledger_and_then_made_good(db):
    flushed.recover(db, "t", "b")
    assert flushed.unflushed(db, "t", rows("a", "b", "c")) == [2]
    mark(db, "t", rows("a", "b", "c"))
    assert flushed.unflushed(db, "t", rows("a", "c", "b", "d")) == [3]


def test_a_mark_is_not_replaced_by_a_guess(db):
    mark(db, "t", rows("a", "b"))
    flushed.recover(db, "t", "a")
    assert flushed.mark_of(db, "t").key == "b"


def test_what_is_due_is_one_note_a_thread_and_goes_with_its_message(db):
    flushed.set_due(db, "t", "a", now=1.0)
    flushed.set_due(db, "t", "b", checkpoint="c1", reason="turn", now=2.0)
    flushed.set_due(db, "u", "z", now=1.5)
    assert flushed.due(db) == [Due("u", None, "z", "", 1.5), Due("t", "c1", "b", "turn", 2.0)]
    flushed.mark_flushed(db, "t", rows("a", "b"), [0], 3.0)
    assert flushed.due_of(db, "t") is not None
    flushed.mark_flushed(db, "t", rows("a", "b"), [1], 3.0)
    assert flushed.due_of(db, "t") is None
    assert [note.thread for note in flushed.due(db)] == ["u"]


def test_only_the_note_that_was_done_is_settled(db):
    flushed.set_due(db, "t", "a", now=1.0)
    old = flushed.due_of(db, "t")
    flushed.set_due(db, "t", "a", now=2.0)
    flushed.settle(db, old)
    assert flushed.due_of(db, "t").time == 2.0
    flushed.settle(db, flushed.due_of(db, "t"))
    assert flushed.due(db) == []


def test_a_claim_is_one_owners_until_it_runs_out_or_is_given_back(db):
    assert flushed.claim(db, "t", "one", 0.0)
    assert not flushed.claim(db, "t", "two", CLAIM_SECONDS - 1)
    assert flushed.claim(db, "u", "two", 1.0)
    assert flushed.claim(db, "t", "one", CLAIM_SECONDS - 1)
    assert not flushed.claim(db, "t", "two", CLAIM_SECONDS + 1)
    assert flushed.claim(db, "t", "two", 2 * CLAIM_SECONDS)
    flushed.release(db, "t", "one")
    assert not flushed.claim(db, "t", "one", 2 * CLAIM_SECONDS)
    flushed.release(db, "t", "two")
    assert flushed.claim(db, "t", "one", 2 * CLAIM_SECONDS)


def test_a_clock_that_was_put_back_does_not_hold_a_claim_for_ever(db):
    assert flushed.claim(db, "t", "one", 1_000_000.0)
    assert flushed.claim(db, "t", "two", 5.0)


def test_failures_are_counted_in_a_row(db):
    assert [flushed.failed(db, "t", "x") for _ in range(3)] == [1, 2, 3]
    assert flushed.failed(db, "t", "y") == 1
    flushed.succeeded(db, "t")
    assert flushed.failed(db, "t", "x") == 1


def test_of_a_thread_that_was_removed_nothing_is_left(db):
    for thread in ("t", "u"):
        flushed.mark_flushed(db, thread, rows(f"{thread}1"), [0], 1.0)
        flushed.set_due(db, thread, "z", now=1.0)
        flushed.claim(db, thread, "me", 1.0)
        flushed.failed(db, thread, "x")
    flushed.forget_thread(db, "t")
    for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        assert [row[0] for row in db.execute(f"SELECT thread FROM {table}")] == ["u"]
