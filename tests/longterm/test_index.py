"""The index is what the files say, whatever was done to them, and can be lost at any time."""

import gc
import multiprocessing
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from langgraph_memory.errors import LangGraphMemoryError
from langgraph_memory.longterm import index as module
from langgraph_memory.longterm.entry import Entry
from langgraph_memory.longterm.index import DamagedIndexError, Index, Row, Stamp

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
STAMP = Stamp(1, 2, "digest")
WORDS = ("falcon", "heron", "部署方案", "чай", "قهوة", "TK-204", "v1.2", "dark mode")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    index = Index(tmp_path / "index.db")
    yield index
    index.close()


def rows_of(path: str, *texts: str, first: int = 1) -> list[Row]:
    """Rows whose ids come from their texts, as those of hand-written lines do."""
    return [Row(path, line, Entry(text, f"id-{text}-{texts[: line - first].count(text)}", NOW, tokens=1))
            for line, text in enumerate(texts, first)]  # fmt: skip


def replace(index: Index, path: str, *texts: str, stamp: Stamp = STAMP) -> None:
    with index.writing() as db:
        index.replace(db, path, rows_of(path, *texts), stamp)


def found(index: Index, query: str) -> list[str]:
    return [hit.text for hit in index.search(query, 50, now=NOW)]


def everything(index: Index) -> Any:
    """What the index holds and finds, whatever numbers it gives to files."""
    with index.reading() as db:
        files = [row[0] for row in db.execute("SELECT path FROM files ORDER BY path")]
        totals = db.execute("SELECT * FROM totals").fetchone()
        lookup = db.execute("SELECT count(*) FROM lookup").fetchone()
        rows = {path: index.rows(db, path) for path in files}
    # Of a text that is in two files of one time, either may be shown.
    hits = {word: {(hit.text, hit.score) for hit in index.search(word, 1_000, now=NOW)} for word in WORDS}
    return files, totals, lookup, rows, hits, index.stamps()


# Upkeep


def test_what_was_replaced_is_not_found(index: Index) -> None:
    replace(index, "MEMORY.md", "an old falcon", "a cat")
    replace(index, "MEMORY.md", "a new heron", "a cat")
    assert (found(index, "falcon"), found(index, "heron"), found(index, "cat")) == ([], ["a new heron"], ["a cat"])
    assert index.problems() == []


def test_files_do_not_touch_each_other(index: Index) -> None:
    for name in "abc":
        replace(index, f"memory/{name}.md", f"falcon of {name}")
    replace(index, "memory/a.md", "heron of a")
    with index.writing() as db:
        index.remove(db, "memory/b.md")
    assert found(index, "falcon") == ["falcon of c"]
    assert found(index, "heron") == ["heron of a"]
    replace(index, "memory/c.md", "falcon of c")
    assert set(index.stamps()) == {"memory/a.md", "memory/c.md"}


def test_what_is_not_changed_is_not_written_again(index: Index) -> None:
    texts = [f"falcon {number}" for number in range(300)]
    replace(index, "a", *texts)
    with index.writing() as db:
        before = db.total_changes
        index.replace(db, "a", rows_of("a", *texts), STAMP)
        assert db.total_changes - before <= 1
        index.replace(db, "a", rows_of("a", *texts, first=5), STAMP)
        assert db.total_changes - before <= 302
        assert [row.line for row in index.rows(db, "a")] == list(range(5, 305))


def test_a_changed_entry_of_the_same_text_is_taken_over(index: Index) -> None:
    row = Row("a", 1, Entry("falcon", "id", NOW))
    other = Row("a", 1, Entry("falcon", "id", NOW + timedelta(hours=1), "summary", 3, {"x": [1]}, "t", "c", ("m", "n")))
    for each in (row, other):
        with index.writing() as db:
            index.replace(db, "a", [each], STAMP)
            assert index.rows(db, "a") == [each]


def test_an_abandoned_entry_stays_so_while_its_file_changes(index: Index) -> None:
    replace(index, "a", "falcon one", "falcon two")
    with index.writing() as db:
        index.mark_abandoned(db, ["id-falcon two-0"], True)
    replace(index, "a", "before", "falcon one", "falcon two")
    assert {hit.text: hit.abandoned for hit in index.search("falcon", 5, now=NOW)} == {
        "falcon one": False,
        "falcon two": True,
    }
    with index.writing() as db:
        index.mark_abandoned(db, ["id-falcon two-0"], False)
    assert not any(hit.abandoned for hit in index.search("falcon", 5, now=NOW))


ACTIONS = st.one_of(
    st.tuples(st.just("replace"), st.sampled_from("abc"), st.lists(st.sampled_from(WORDS), max_size=6)),
    st.tuples(st.just("extend"), st.sampled_from("abc"), st.lists(st.sampled_from(WORDS), max_size=4)),
    st.tuples(st.just("remove"), st.sampled_from("abc"), st.just([])),
    st.tuples(st.just("rename"), st.sampled_from("abc"), st.lists(st.sampled_from("abcd"), min_size=1, max_size=1)),
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ACTIONS, max_size=12))
def test_after_any_program_the_index_equals_one_made_from_scratch(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, str, list[str]]]
) -> None:
    folder = tmp_path_factory.mktemp("program")
    with closing(Index(folder / "index.db")) as index, closing(Index(folder / "scratch.db")) as scratch:
        files: dict[str, list[str]] = {}
        for action, path, given_ in actions:
            with index.writing() as db:
                if action == "replace":
                    files[path] = given_
                    index.replace(db, path, rows_of(path, *given_), STAMP)
                elif action == "extend":
                    whole = rows_of(path, *files.setdefault(path, []), *given_)
                    index.extend(db, path, whole[len(files[path]) :], STAMP)
                    files[path] = files[path] + given_
                elif action == "remove":
                    index.remove(db, path)
                    files.pop(path, None)
                elif path in files:
                    index.rename(db, path, given_[0])
                    files[given_[0]] = files.pop(path)
        for path, texts in files.items():
            replace(scratch, path, *texts)
        assert everything(index) == everything(scratch)
        assert index.problems() == []


@pytest.mark.parametrize("sizes", [(1, 1), (0, 3), (5, 0), (300, 7), (1, 300)])
def test_extending_equals_replacing(tmp_path: Path, sizes: tuple[int, int]) -> None:
    texts = [f"{WORDS[number % len(WORDS)]} {number}" for number in range(sum(sizes))]
    rows = rows_of("a", *texts)
    with closing(Index(tmp_path / "one.db")) as one, closing(Index(tmp_path / "two.db")) as two:
        for part in (rows[: sizes[0]], rows[sizes[0] :]):
            with one.writing() as db:
                one.extend(db, "a", part, STAMP)
        replace(two, "a", *texts)
        assert everything(one) == everything(two)


@pytest.mark.parametrize("size", [10, 5_000])
def test_extending_writes_what_it_adds(index: Index, size: int) -> None:
    replace(index, "a", *(f"falcon {number}" for number in range(size)))
    with index.writing() as db:
        before = db.total_changes
        index.extend(db, "a", rows_of("a", *(f"heron {number}" for number in range(5))), STAMP)
        assert db.total_changes - before < 60


# What is there


@pytest.mark.parametrize(
    "text",
    [
        "Ada prefers tea",
        "ada  PREFERS\ttea",
        "- Ada prefers tea.",
        "“Ada prefers tea!”",
        "Ａda prefers\ntea",
    ],
)
def test_a_text_that_is_there_is_known(index: Index, text: str) -> None:
    replace(index, "a", "Ada prefers tea.")
    with index.reading() as db:
        assert index.known(db, ["other", text, "", text]) == {1, 3}


@pytest.mark.parametrize(
    "text",
    [
        "Ada prefers teas",
        "Ada prefers téa",
        "Ada prefers tea?",
        "Ada prefers",
        "Ada, prefers tea",
        "прочее",
        "茶",
        "!",
        "\ud800",
    ],
)
def test_another_text_is_not_known(index: Index, text: str) -> None:
    replace(index, "a", "Ada prefers tea.")
    with index.reading() as db:
        assert index.known(db, [text]) == set()


def test_the_rows_of_a_thread_in_their_order(index: Index) -> None:
    rows = [
        Row(path, 1, Entry(f"text {path}", path, NOW - timedelta(hours=hours), thread_id=thread))
        for path, hours, thread in (("a", 1, "t-1"), ("b", 2, "t-1"), ("c", 3, "t-10"), ("d", 4, None))
    ]
    with index.writing() as db:
        for row in rows:
            index.extend(db, row.path, [row], STAMP)
        assert index.rows_of_thread(db, "t-1") == [rows[1], rows[0]]
        assert index.rows_of_thread(db, "t") == []


def test_every_field_comes_back(index: Index) -> None:
    moment = datetime(2026, 11, 30, 14, 3, 22, 5, tzinfo=datetime.fromisoformat("2026-01-01T00:00+05:45").tzinfo)
    entry = Entry("Text\nof 两 lines", "id", moment, "tool_result", 12, {"ключ": ["\ud800", 1, None]}, "t", "c", ("m",))
    with index.writing() as db:
        index.extend(db, "a", [Row("a", 3, entry)], STAMP)
        (row,) = index.rows(db, "a")
    assert (row.line, row.entry.timestamp, row.entry.message_ids) == (3, moment, ("m",))
    assert row.entry.timestamp.utcoffset() == moment.utcoffset()
    assert row.entry.metadata == {"ключ": ["\ufffd", 1, None]}


def test_stamps_are_those_of_the_last_write(index: Index) -> None:
    replace(index, "a", "x", stamp=Stamp(1, 2, "d"))
    with index.writing() as db:
        index.extend(db, "a", rows_of("a", "y"), Stamp(5, 6, None))
    assert index.stamps() == {"a": Stamp(5, 6, None)}


# The file


def test_a_failure_changes_nothing(index: Index) -> None:
    replace(index, "a", "falcon")
    with pytest.raises(KeyError), index.writing() as db:
        index.replace(db, "a", rows_of("a", "heron"), STAMP)
        raise KeyError
    assert (found(index, "falcon"), found(index, "heron")) == (["falcon"], [])


def test_a_reader_sees_one_state(index: Index) -> None:
    replace(index, "a", "falcon")
    with index.reading() as db:
        assert len(index.rows(db, "a")) == 1
        replace(index, "a", "falcon", "heron")
        assert len(index.rows(db, "a")) == 1
    assert len(found(index, "falcon heron")) == 2


def test_only_the_owner_may_read_it(index: Index) -> None:
    replace(index, "a", "falcon")
    assert {path.stat().st_mode & 0o777 for path in index.path.parent.iterdir()} == {0o600}


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "index.db").symlink_to(tmp_path / "other.db")
    with pytest.raises(LangGraphMemoryError, match="symbolic link"):
        Index(tmp_path / "index.db").stamps()
    assert not (tmp_path / "other.db").exists()


@pytest.mark.parametrize("junk", [b"no database" * 1000, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_set_aside(tmp_path: Path, junk: bytes) -> None:
    (tmp_path / "index.db").write_bytes(junk)
    with closing(Index(tmp_path / "index.db")) as index:
        assert index.stamps() == {}
        replace(index, "a", "falcon")
        assert found(index, "falcon") == ["falcon"]
    (aside,) = tmp_path.glob("index.db.damaged-*")
    assert aside.read_bytes() == junk


@pytest.mark.parametrize("keeps", [4_096, 20_000])
def test_damage_that_shows_later_is_told_and_mended(tmp_path: Path, keeps: int) -> None:
    with closing(Index(tmp_path / "index.db")) as index:
        replace(index, "a", *(f"falcon {number} {'heron ' * 50}" for number in range(200)))
        index.forget()
    whole = (tmp_path / "index.db").read_bytes()
    (tmp_path / "index.db").write_bytes(whole[:keeps] + b"\xaa" * (len(whole) - keeps))
    with closing(Index(tmp_path / "index.db")) as index:
        for _ in range(2):
            try:
                replace(index, "a", "falcon")
                break
            except DamagedIndexError as error:
                assert "index.db" in str(error)
        assert found(index, "falcon") == ["falcon"]
        assert index.problems() == []
    assert list(tmp_path.glob("index.db.damaged-*"))


def test_rows_and_words_that_do_not_fit_are_told(index: Index) -> None:
    replace(index, "a", "falcon")
    with index.writing() as db:
        db.execute("DROP TRIGGER entry_gone")
        db.execute("DELETE FROM entries")
    assert index.problems()


def test_another_version_is_made_anew_without_the_tables_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = ["CREATE TABLE IF NOT EXISTS flushed (id TEXT)"]
    with closing(Index(tmp_path / "index.db", extra=extra)) as index:
        replace(index, "a", "falcon")
        with index.writing() as db:
            db.execute("INSERT INTO flushed VALUES ('m-1')")
    monkeypatch.setattr(module, "VERSION", module.VERSION + 1)
    with closing(Index(tmp_path / "index.db", extra=extra)) as index, index.reading() as db:
        assert db.execute("SELECT id FROM flushed").fetchall() == [("m-1",)]
        assert db.execute("SELECT count(*) FROM files").fetchone() == (0,)


def test_a_file_put_in_its_place_is_used(tmp_path: Path) -> None:
    with closing(Index(tmp_path / "index.db")) as index, closing(Index(tmp_path / "other.db")) as other:
        replace(index, "a", "falcon")
        replace(other, "a", "heron")
        other.forget()
        other.close()
        for ending in ("-wal", "-shm"):
            (tmp_path / f"index.db{ending}").unlink(missing_ok=True)
        os.replace(tmp_path / "other.db", tmp_path / "index.db")  # noqa: PTH105
        assert found(index, "heron falcon") == ["heron"]


@pytest.mark.parametrize("word", ["falcon", "部署方案", "чай"])
def test_what_is_forgotten_leaves_no_byte(index: Index, word: str) -> None:
    replace(index, "a", *(f"{word} number {number}" for number in range(50)), "heron")
    replace(index, "a", "heron")
    index.forget()
    data = b"".join(path.read_bytes() for path in index.path.parent.iterdir())
    assert word.encode() not in data
    assert b"heron" in data
    assert index.problems() == []


def test_it_is_closed_and_opened_again(index: Index) -> None:
    for _ in range(2):
        replace(index, "a", "falcon")
        index.close()
        assert not list(index.path.parent.glob("*-wal"))
    assert found(index, "falcon") == ["falcon"]


@pytest.mark.filterwarnings("error")
def test_an_index_that_is_dropped_leaves_nothing_open(tmp_path: Path) -> None:
    index = Index(tmp_path / "index.db")
    replace(index, "a", "falcon")
    del index
    gc.collect()
    assert not list(tmp_path.glob("*-wal"))


def test_threads_write_and_search_at_once(index: Index) -> None:
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for number in range(10):
                with index.writing() as db:
                    index.extend(db, name, rows_of(name, f"falcon {name} {number}"), STAMP)
                found(index, "falcon")
        except BaseException as error:  # noqa: BLE001 - told by the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcdef"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(index.search("falcon", 100, now=NOW)) == 60
    assert index.problems() == []


def _in_child(index: Index, results: Any) -> None:
    replace(index, "child", "falcon of the child")
    results.put(found(index, "falcon"))
    index.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_opens_its_own_connection(index: Index) -> None:
    replace(index, "parent", "falcon of the parent")
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=_in_child, args=(index, results))
    child.start()
    assert sorted(results.get(timeout=30)) == ["falcon of the child", "falcon of the parent"]
    child.join()
    assert sorted(found(index, "falcon")) == ["falcon of the child", "falcon of the parent"]
    assert index.problems() == []


def _writes(path: Path, name: str) -> None:
    with closing(Index(path)) as index:
        for number in range(15):
            with index.writing() as db:
                index.extend(db, name, rows_of(name, f"falcon {name} {number}"), STAMP)


def test_processes_write_at_once_from_the_first_moment(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_writes, args=(tmp_path / "index.db", name)) for name in "abc"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    with closing(Index(tmp_path / "index.db")) as index:
        assert len(index.search("falcon", 100, now=NOW)) == 45
        assert index.problems() == []


def test_an_error_of_the_disk_is_not_taken_for_damage(tmp_path: Path) -> None:
    with closing(Index(tmp_path / "index.db")) as index:
        replace(index, "a", "falcon")
        with pytest.raises(sqlite3.OperationalError), index.reading() as db:
            db.execute("SELECT * FROM nowhere")
        assert found(index, "falcon") == ["falcon"]
    assert not list(tmp_path.glob("*.damaged-*"))
