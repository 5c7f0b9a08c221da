"""Files and index of a namespace change together: nothing is lost, doubled, torn or found where it is not."""

import errno
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langgraph_memory.longterm.entry import Entry, EntryError, read_lines
from langgraph_memory.longterm.folder import LEDGER, MEMORY, STATE, Folder, WorkspaceError
from langgraph_memory.longterm.index import Index
from langgraph_memory.longterm.keeper import INDEX, Keeper
from tests.support.ledgers import pending
from tests.support.processes import as_nobody, done, ended, killed_at, start

NOON = "2031-04-12T12:00:00"
LOG = "memory/2031-04-12.md"


def note(text, **rest):
    return {"text": text, "timestamp": NOON, **rest}


@pytest.fixture
def keeper(tmp_path):
    return Keeper(tmp_path / "ws", ("ada",))


def again(keeper):
    """What another process would have."""
    return Keeper(keeper.folder.workspace, ("ada",))


def texts(keeper, name=LOG):
    return [row.entry.text for row in keeper.rows(name)]


def everything(path):
    return {str(one.relative_to(path)): one.read_bytes() for one in Path(path).rglob("*") if one.is_file()}


def check(keeper, expected):
    """The ledger holds these once each in whole lines, and so does the index, at the lines where they stand."""
    assert Counter(texts(keeper)) == Counter(expected)
    for text in expected:
        found = [hit for hit in keeper.search(text, 50) if hit.text == text]
        assert len(found) == 1, (text, found)
        lines = (keeper.folder.path / found[0].path).read_text("utf-8").split("\n")
        assert text.split("\n")[0] in lines[found[0].line - 1]
    assert keeper.index.problems() == []
    with keeper.reading() as db:
        assert db.execute("SELECT count(*) FROM journal").fetchone() == (0,)
        assert db.execute("SELECT count(*) FROM entries").fetchone() == (len(expected),)


# Append


def test_entries_go_to_the_ledger_of_their_day_in_their_order(keeper):
    days = [date(2031, 4, 12) + timedelta(days=number) for number in (1, 0, 1, 2, 0)]
    given_ = [{"text": f"fact {n}", "timestamp": datetime(d.year, d.month, d.day, 9)} for n, d in enumerate(days)]
    added = keeper.append(given_)
    assert sorted(one.text for one in added) == [f"fact {n}" for n in range(5)]
    assert [(row.path, row.entry.text) for row in pending(keeper, {})] == [
        ("memory/2031-04-12.md", "fact 1"),
        ("memory/2031-04-12.md", "fact 4"),
        ("memory/2031-04-13.md", "fact 0"),
        ("memory/2031-04-13.md", "fact 2"),
        ("memory/2031-04-14.md", "fact 3"),
    ]
    assert [row.entry for row in keeper.ledger(day=date(2031, 4, 14))] == [one for one in added if one.text == "fact 3"]
    assert (keeper.folder.path / LOG).read_text().startswith("# 2031-04-12\n\n- 09:00:00")


def test_flushes_of_a_day_stand_in_order_and_repeat_nothing(keeper):
    keeper.append([note("A")])
    assert [one.text for one in keeper.append([note("A"), note("B"), note(" b. ")])] == ["B"]
    assert keeper.append([note("Ａ"), note("\na\n")]) == []
    keeper.append([note("C")])
    check(keeper, ["A", "B", "C"])


def test_one_entry_may_be_given_without_a_list(keeper):
    assert [one.text for one in keeper.append("hello there")] == ["hello there"]
    assert [one.text for one in keeper.append(note("good morning"))] == ["good morning"]
    assert [one.text for one in keeper.append(Entry.of("good night"))] == ["good night"]


def test_nothing_to_add_makes_nothing(keeper):
    assert keeper.append([]) == []
    assert keeper.search("x") == [] and keeper.forget("some text") == 0 and keeper.reindex() == 0
    assert keeper.memory_md() == "" and keeper.state() == {} and keeper.ledger() == [] and pending(keeper, {}) == []
    assert not keeper.folder.workspace.exists()


def test_a_bad_one_among_many_keeps_all_out(keeper):
    for bad in ({"text": ""}, {"text": "x", "type": "y"}, 7):
        with pytest.raises(EntryError):
            keeper.append([note("good"), bad])
    assert not keeper.folder.path.exists()


def test_an_id_is_that_of_one_entry(keeper):
    keeper.append([note("one", id="x")])
    before = everything(keeper.folder.path / LEDGER)
    for bad in ([note("two", id="x")], [note("two", id="y"), note("three", id="y")]):
        with pytest.raises(EntryError, match="another"):
            keeper.append(bad)
    assert everything(keeper.folder.path / LEDGER) == before
    assert keeper.append([note("one", id="x")]) == []


def test_an_exception_within_leaves_nothing(keeper):
    keeper.append([note("before")])
    before = everything(keeper.folder.path / LEDGER)

    def fails(db):
        db.execute("CREATE TABLE mine (x)")
        raise error

    for error in (KeyError("mine"), sqlite3.OperationalError("mine"), OSError("mine"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            keeper.append([note("lost")], within=fails)
    assert everything(keeper.folder.path / LEDGER) == before
    check(keeper, ["before"])
    with keeper.reading() as db:
        assert db.execute("SELECT 1 FROM sqlite_master WHERE name = 'mine'").fetchone() is None


def test_what_is_done_within_lasts_with_the_entries_and_without_any(keeper):
    with keeper.writing() as db:
        db.execute("CREATE TABLE mine (x)")
    keeper.append([note("a")], within=lambda db: db.execute("INSERT INTO mine VALUES (1)"))
    keeper.append([], within=lambda db: db.execute("INSERT INTO mine VALUES (2)"))
    keeper.append([note("a")], within=lambda db: db.execute("INSERT INTO mine VALUES (3)"))
    with again(keeper).reading() as db:
        assert [x for (x,) in db.execute("SELECT x FROM mine")] == [1, 2, 3]


# Crashes


@pytest.mark.parametrize("first", [False, True])
def test_a_kill_at_any_line_neither_loses_nor_doubles_anything(tmp_path, first):
    def work():
        Keeper(path, ("ada",)).append([note("second\nof two lines"), note("third")])

    counts, line = Counter(), 1
    while True:
        path = tmp_path / f"ws{line}"
        if not first:
            Keeper(path, ("ada",)).append([note("first")])
        killed = killed_at(line, work, files="longterm/keeper" if line % 2 else "longterm/")
        keeper = Keeper(path, ("ada",))
        # Whoever comes next completes what was begun: a search, or another append.
        if line % 3:
            keeper.search("anything")
            left = set(texts(keeper)) - {"first"}
            assert left in (set(), {"second\nof two lines", "third"})
            counts[len(left)] += 1
        keeper.append([note("fourth")])
        keeper.append([note("second\nof two lines"), note("third")])
        check(keeper, [*([] if first else ["first"]), "second\nof two lines", "third", "fourth"])
        keeper.close()
        if not killed:
            break
        line = line + 1 + line // 6
    assert line > 100 and counts[0] and counts[2]


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.95, 1.0])
@pytest.mark.parametrize("text", ["one line", "潮汐表\n\n- and more\n  lines"])
def test_a_line_that_a_kill_tore_is_made_whole(keeper, share, text):
    keeper.append([note("before")])

    def tear():
        real = os.write

        def write(descriptor, data):
            real(descriptor, bytes(data[: int(len(data) * share)]))
            os.kill(os.getpid(), signal.SIGKILL)

        os.write = write
        again(keeper).append([note(text)])

    assert done(tear) == -signal.SIGKILL
    again(keeper).append([note("behind")])
    check(again(keeper), ["before", text, "behind"])


def crashed(keeper, text, monkeypatch, *, written=0):
    """An append that came as far as the journal, and `written` bytes of the file."""
    real = Folder.append

    def append(self, name, data):
        if written:
            real(self, name, data[:written])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Folder, "append", append)
        keeper.append([note(text)])


EDITS = {
    "nothing": lambda said: said,
    "a line added": lambda said: said + "- by hand\n",
    "a line added in front": lambda said: "- by hand\n" + said,
    "no line end at the end": lambda said: said.rstrip("\n"),
    "a line without end added": lambda said: said + "- by hand",
    "as long as it was": lambda said: said.replace("before", "BEFORE"),
    "as long as it was and open": lambda said: said[:-1] + "x",
    "shorter": lambda said: said.replace("before", "b"),
    "emptied": lambda said: "",
    "removed": lambda said: None,
    "windows": lambda said: said.replace("\n", "\r\n"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_person_who_edits_between_a_crash_and_the_next_writer_loses_nothing(keeper, monkeypatch, edit):
    keeper.append([note("before")])
    crashed(keeper, "the unlucky one", monkeypatch)
    path = keeper.folder.path / LOG
    said = EDITS[edit](path.read_text())
    path.unlink() if said is None else path.write_bytes(said.encode())
    by_hand = [] if not said else [placed.entry.text for placed in read_lines(said, date(2031, 4, 12))]
    other = again(keeper)
    other.append([note("behind")])
    check(other, [*by_hand, "the unlucky one", "behind"])
    check(keeper, [*by_hand, "the unlucky one", "behind"])


def test_a_person_who_edits_behind_a_torn_line_finds_all_entries(keeper, monkeypatch):
    keeper.append([note("before")])
    crashed(keeper, "the unlucky one", monkeypatch, written=30)
    with (keeper.folder.path / LOG).open("a") as file:
        file.write("\n- by hand\n")
    keeper.append([note("behind")])
    found = texts(keeper)
    assert [found.count(text) for text in ("before", "the unlucky one", "by hand", "behind")] == [1, 1, 1, 1]


@pytest.mark.parametrize("written", [0, 5, 10_000])
def test_a_disk_that_is_full_tears_nothing_and_the_next_writer_completes(keeper, monkeypatch, written):
    keeper.append([note("before")])
    before = (keeper.folder.path / LOG).read_bytes()
    real, left = os.write, [written]

    def write(descriptor, data):
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        some = real(descriptor, bytes(data[: left[0]]))
        left[0] -= some
        return some

    monkeypatch.setattr(os, "write", write)
    if written < 1000:
        with pytest.raises(OSError, match="No space"):
            keeper.append([note("x" * 100)])
        assert (keeper.folder.path / LOG).read_bytes() == before
    else:
        keeper.append([note("x" * 100)])
    monkeypatch.undo()
    keeper.append([note("x" * 100)])
    keeper.append([note("behind")])
    check(keeper, ["before", "x" * 100, "behind"])


# Many at once


def test_fifty_processes_append_at_once(keeper):
    def work(number):
        return lambda: again(keeper).append(
            [note(f"process {number}\n" + f"{number} " * number), note(f"other {number}")]
        )

    pids = [start(work(number)) for number in range(50)]
    assert [ended(pid) for pid in pids] == [0] * 50
    found = texts(keeper)
    assert Counter(found) == Counter(
        text for n in range(50) for text in (f"process {n}\n{f'{n} ' * n}".strip(), f"other {n}")
    )
    assert keeper.index.problems() == [] and len(keeper.search("process", 60)) == 50
    assert (keeper.folder.path / LOG).read_text().count("\n") == 2 + sum(2 if n else 1 for n in range(50)) + 50


def test_fifty_threads_append_at_once(keeper):
    errors = []

    def work(number):
        try:
            keeper.append([note(f"thread {number}")])
            keeper.append([note("the same in all")])
            keeper.search("thread")
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert Counter(texts(keeper)) == Counter([*(f"thread {n}" for n in range(50)), "the same in all"])


def test_a_keeper_works_on_in_a_fork_and_in_its_parent(keeper):
    keeper.append([note("parent")])
    assert done(lambda: keeper.append([note("child")])) == 0
    keeper.append([note("parent again")])
    check(keeper, ["parent", "child", "parent again"])


# The index


def hits(keeper, query):
    return [hit.text for hit in keeper.search(query, 50)]


def test_what_others_change_in_the_files_is_what_is_found(keeper):
    folder = keeper.folder.path / LEDGER
    for day, text in ((12, "old falcon"), (13, "a heron"), (14, "an owl")):
        keeper.append([{"text": text, "timestamp": f"2031-04-{day}T12:00:00"}])
    edited = folder / "2031-04-12.md"
    edited.write_text(edited.read_text().replace("old falcon", "new sparrow"))
    (folder / "2031-04-13.md").unlink()
    (folder / "2031-04-14.md").rename(folder / "2031-04-15.md")
    (folder / "notes.md").write_text("- a wren, by hand")
    (keeper.folder.path / MEMORY).write_text("# Birds\n\nA robin in the garden.\n")
    assert hits(keeper, "falcon") == hits(keeper, "heron") == []
    found = {hit.text: hit.path for query in ("sparrow", "owl", "wren", "robin") for hit in keeper.search(query)}
    assert found == {
        "new sparrow": "memory/2031-04-12.md",
        "an owl": "memory/2031-04-15.md",
        "a wren, by hand": "memory/notes.md",
        "A robin in the garden.": MEMORY,
    }
    assert keeper.index.problems() == []


def test_a_change_that_leaves_size_and_time_to_the_second_is_seen(keeper):
    path = keeper.folder.path / MEMORY
    keeper.append([note("x")])
    for word in ("falcon", "ostrich", "heron", "raven", "eagle", "stork"):
        path.write_text(word)
        assert hits(keeper, word) == [word]
    os.utime(path, (0, 0))
    assert hits(keeper, "stork") == ["stork"]


def test_files_change_while_another_process_appends(keeper):
    keeper.append([note("entry 0")])

    def work():
        mine = again(keeper)
        for number in range(1, 31):
            mine.append([note(f"entry {number}")])

    pid, seen, ghost = start(work), 0, keeper.folder.path / LEDGER / "ghost.md"
    for round_ in range(10):
        ghost.write_text(f"- ghost number {round_}")
        assert hits(keeper, "ghost") == [f"ghost number {round_}"]
        now = len(hits(keeper, "entry"))
        assert now >= seen
        seen = now
        ghost.unlink()
        assert hits(keeper, "ghost") == []
    assert ended(pid) == 0
    check(keeper, [f"entry {number}" for number in range(31)])


@settings(max_examples=20)
@given(
    edits=st.lists(
        st.tuples(st.integers(0, 8), st.sampled_from(["- by hand", "", "# head", "two\nlines", "same size", "no end"])),
        max_size=5,
    )
)
def test_the_lines_of_hits_are_right_whatever_was_edited(edits):
    with tempfile.TemporaryDirectory() as folder:
        keeper = Keeper(Path(folder))
        path = Path(folder) / LOG
        for number, (place, edit) in enumerate([(0, ""), *edits]):
            keeper.append([note(f"kept{number}\nin two lines"), note(f"more{number}")])
            said = path.read_text()
            if edit == "same size":
                path.write_text(said.replace("in two", "in\n two", 1).replace("lines", "line", 1))
            elif edit == "no end":
                path.write_text(said.rstrip("\n"))
            else:
                lines = said.split("\n")
                path.write_text("\n".join([*lines[:place], edit, *lines[place:]]))
            if number % 2:
                keeper.search("kept")
        keeper.append([note("last one")])
        lines = path.read_text().split("\n")
        for row in keeper.rows(LOG):
            assert row.entry.text.split("\n")[0] in lines[row.line - 1]
        with keeper.reading() as db:
            assert keeper.index.rows(db, LOG) == keeper.rows(LOG)
        keeper.close()


DAMAGES = {
    "deleted": lambda path: path.unlink(),
    "emptied": lambda path: path.write_bytes(b""),
    "torn": lambda path: path.write_bytes(path.read_bytes()[:5000]),
    "garbage": lambda path: path.write_bytes(b"garbage" * 1000),
    "zeroes": lambda path: path.write_bytes(bytes(100_000)),
    "all pages but one": lambda path: path.write_bytes(path.read_bytes()[:4096] + os.urandom(path.stat().st_size)),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("then", ["search", "append", "reindex", "fresh"])
def test_an_index_that_is_damaged_or_gone_is_made_anew(keeper, damage, then):
    keeper.append([note(f"falcon {number}") for number in range(20)])
    keeper.close()
    for ending in ("-wal", "-shm"):
        Path(f"{keeper.index.path}{ending}").unlink(missing_ok=True)
    DAMAGES[damage](keeper.index.path)
    expected = [f"falcon {number}" for number in range(20)]
    one = again(keeper) if then == "fresh" else keeper
    if then == "append":
        one.append([note("heron")])
        expected.append("heron")
    elif then == "reindex":
        assert one.reindex() == 20
    assert len(hits(one, "falcon")) == 20
    check(one, expected)


def test_an_index_that_cannot_be_written_never_loses_an_entry(keeper, monkeypatch, caplog):
    keeper.append([note("before")])

    @contextmanager
    def fails(_):
        raise sqlite3.OperationalError("database is locked")
        yield

    monkeypatch.setattr(Index, "writing", fails)
    assert [one.text for one in keeper.append([note("b\ud83d")])] == ["b\ufffd"]
    assert keeper.append([note("B\ufffd"), note("before")]) == []
    with pytest.raises(EntryError):
        keeper.append([note("other", id=keeper.rows(LOG)[0].entry.id)])
    assert "cannot be written" in caplog.text
    assert hits(keeper, "before") == ["before"]
    with pytest.raises(sqlite3.OperationalError):
        keeper.append([note("with bookkeeping")], within=lambda db: None)
    monkeypatch.undo()
    check(keeper, ["before", "b\ufffd"])


@pytest.mark.parametrize("step", range(4))
def test_an_index_that_breaks_in_the_middle_of_an_append_never_loses_the_entry(keeper, monkeypatch, step):
    keeper.append([note("before")])
    real, left = Index._transaction, [step + 1]

    @contextmanager
    def breaks(self, begin):
        left[0] -= 1
        if left[0] <= 0:
            raise sqlite3.DatabaseError("disk I/O error")
        with real(self, begin) as db:
            yield db

    monkeypatch.setattr(Index, "_transaction", breaks)
    assert [one.text for one in keeper.append([note("the unlucky one")])] == ["the unlucky one"]
    assert texts(keeper) == ["before", "the unlucky one"]
    monkeypatch.undo()
    keeper.append([note("behind")])
    check(keeper, ["before", "the unlucky one", "behind"])


def test_an_entry_is_not_lost_with_the_journal(keeper, monkeypatch):
    keeper.append([note("before")])
    real = Keeper._complete

    def complete(self):
        if monkeypatch_on and self._has_journal():
            self.index.path.write_bytes(b"garbage" * 10_000)
            self.index.close()
        real(self)

    monkeypatch_on = True
    monkeypatch.setattr(Keeper, "_complete", complete)
    keeper.append([note("the unlucky one")])
    monkeypatch.undo()
    monkeypatch_on = False
    check(again(keeper), ["before", "the unlucky one"])


def test_to_reindex_mends_words_that_fit_no_entry_and_keeps_what_was_left_behind(keeper):
    (one, _) = keeper.append([note("falcon"), note("heron")])
    with keeper.writing() as db:
        keeper.index.mark_abandoned(db, [one.id], True)
        db.execute("INSERT INTO lookup (rowid, words) VALUES (99, 'ghost')")
    assert keeper.index.problems()
    assert keeper.reindex() == 2
    assert keeper.index.problems() == [] and hits(keeper, "ghost") == []
    assert [hit.abandoned for hit in keeper.search("falcon")] == [True]


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_an_index_in_whose_place_something_else_stands_costs_nothing_but_speed(keeper, tmp_path, kind):
    keeper.folder.path.mkdir(parents=True)
    if kind == "folder":
        keeper.index.path.mkdir()
    else:
        (tmp_path / "theirs.db").write_bytes(b"")
        keeper.index.path.symlink_to(tmp_path / "theirs.db")
    assert len(keeper.append([note("a falcon"), note("a heron")])) == 2
    assert keeper.append([note("a falcon")]) == []
    assert hits(keeper, "falcon") == ["a falcon"] and hits(keeper, "falcons") == ["a falcon"]
    assert kind == "folder" or (tmp_path / "theirs.db").read_bytes() == b""


@pytest.fixture
def open_folder():
    with tempfile.TemporaryDirectory() as path:
        Path(path).chmod(0o755)
        yield Path(path)
        for one in [Path(path), *Path(path).rglob("*")]:
            if one.is_dir():
                one.chmod(0o755)


def test_what_may_only_be_read_is_searched_and_says_so_when_it_is_written(open_folder):
    keeper = Keeper(open_folder / "ws", ("ada",))
    keeper.append([note("a falcon")])
    keeper.folder.replace(MEMORY, b"- a heron")
    keeper.close()
    for one in (open_folder / "ws").rglob("*"):
        one.chmod(0o555 if one.is_dir() else 0o444)
    (open_folder / "ws").chmod(0o555)

    def work():
        mine = again(keeper)
        assert hits(mine, "falcon") == ["a falcon"] and hits(mine, "heron") == ["a heron"]
        assert mine.memory_md() == "- a heron" and mine.get(LOG).count("falcon") == 1
        for act in (
            lambda: mine.append([note("an owl")]),
            lambda: mine.forget("a falcon"),
            lambda: mine.replace_memory("x", was="- a heron"),
            lambda: Keeper(open_folder / "ws", ("bob",)).append(["x"]),
        ):
            with pytest.raises(WorkspaceError, match="ws"):
                act()

    before = everything(open_folder / "ws" / "ada" / LEDGER)
    assert done(as_nobody(work)) == 0
    assert everything(open_folder / "ws" / "ada" / LEDGER) == before


def test_one_file_that_cannot_be_read_does_not_hide_the_others(open_folder):
    (open_folder / "ws").mkdir(mode=0o777)
    (open_folder / "ws").chmod(0o777)

    def work():
        mine = Keeper(open_folder / "ws")
        mine.append([note("a falcon")])
        secret = mine.folder.path / LEDGER / "secret.md"
        secret.write_text("- a heron")
        secret.chmod(0)
        assert hits(mine, "falcon") == ["a falcon"] and hits(mine, "heron") == []
        mine.append([note("an owl")], within=lambda db: None)
        assert hits(mine, "owl") == ["an owl"]
        secret.chmod(0o600)
        assert hits(mine, "heron") == ["a heron"]

    assert done(as_nobody(work)) == 0


@pytest.mark.parametrize("name", [LEDGER, LOG, MEMORY, ".", "memory/archive"])
def test_a_link_leads_nowhere(keeper, tmp_path, name):
    keeper.append([note("mine")])
    keeper.close()
    outside = tmp_path / "outside"
    outside.mkdir()
    for each in ("2031-04-12.md", "MEMORY.md"):
        (outside / each).write_text("- somebody's falcon")
    link = keeper.folder.path / name if name != "." else keeper.folder.path
    if link.exists():
        link.rename(tmp_path / "away")
    target = outside if not name.endswith(".md") else outside / "2031-04-12.md"
    link.symlink_to(target)
    before = everything(outside)
    one = again(keeper)
    assert hits(one, "falcon") == []
    with pytest.raises(WorkspaceError):
        one.get(MEMORY if name == MEMORY else "memory/archive/2031-04-12.md" if "archive" in name else LOG)
    if name in (LEDGER, LOG, "."):
        with pytest.raises(WorkspaceError):
            one.append([note("another")])
    elif name == MEMORY:
        with pytest.raises(WorkspaceError):
            one.memory_md()
        with pytest.raises(WorkspaceError):
            one.replace_memory("x", was="")
    assert everything(outside) == before


# The curated memory and the state


@pytest.mark.parametrize("damage", [b"- tea\n\xff\xfe", "ж".encode()[:1], b"- tea\0\0\0", "- é".encode("utf-16")])
def test_a_torn_memory_is_kept_aside_before_anything_else_is_saved(keeper, caplog, damage):
    keeper.folder.replace(MEMORY, damage)
    said = keeper.memory_md()
    assert keeper.memory_md() == said and "\0" not in said
    assert "is damaged" in caplog.text and caplog.text.count("is damaged") == 1
    assert keeper.replace_memory("- new", was=said)
    assert keeper.memory_md() == "- new"
    assert [keeper.folder.bytes_of(name) for name in keeper.folder.copies()] == [damage]
    assert damage in [keeper.folder.bytes_of(name) for name in keeper.folder.names("memory/history")]


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"\xff", b'"x"', b"null", b"[" * 100_000, b'{"v": 1'])
def test_a_torn_state_is_kept_aside_and_begins_anew(keeper, caplog, damage):
    keeper.folder.replace(STATE, damage)
    assert keeper.state() == {} == keeper.state()
    assert caplog.text.count("is damaged") == 1
    keeper.write_state({"upto": {LOG: "\ud83d"}})
    assert keeper.state() == {"v": 1, "upto": {LOG: "\ufffd"}}
    assert [keeper.folder.bytes_of(name) for name in keeper.folder.copies()] == [damage]


def test_memory_is_replaced_only_where_it_still_is_what_was_read(keeper):
    assert keeper.replace_memory("- one", was="")
    assert not keeper.replace_memory("- two", was="")
    (keeper.folder.path / MEMORY).write_bytes("\ufeff- by hand\r\n".encode())
    assert keeper.memory_md() == "- by hand\n"
    assert not keeper.replace_memory("- two", was="- one")
    assert keeper.replace_memory("- two \udcff", was="- by hand\n")
    assert keeper.memory_md() == "- two \ufffd" and hits(keeper, "two") == ["two \ufffd"]
    history = [keeper.folder.bytes_of(name) for name in keeper.folder.names("memory/history")]
    assert history == ["\ufeff- by hand\r\n".encode()]


@pytest.mark.parametrize("line", range(1, 160, 7))
def test_a_kill_leaves_the_old_memory_or_the_new_one(keeper, line):
    keeper.replace_memory("- old", was="")
    killed_at(line, lambda: again(keeper).replace_memory("- new", was="- old"), files="longterm/")
    said = again(keeper).memory_md()
    assert said in ("- old", "- new")
    assert hits(keeper, "old new") == [said.removeprefix("- ")]
    assert keeper.replace_memory("- newest", was=said)


# Get


def test_lines_of_files_are_given_without_what_programs_need(keeper):
    keeper.append([note(f"fact {number}") for number in range(1, 6)])
    assert keeper.get(LOG).split("\n")[2].endswith("[fact] fact 1")
    assert [line[-6:] for line in keeper.get(LOG, 4, 5).split("\n")] == ["fact 2", "fact 3"]
    assert keeper.get("./" + LOG) == keeper.get(LOG.replace("/", "\\")) == keeper.get(LOG, -7) == keeper.get(LOG, 0)
    assert keeper.get(LOG, 5, 4) == keeper.get(LOG, 5, -1) == keeper.get(LOG, 100) == ""
    assert "lgm" not in keeper.get(LOG)
    keeper.replace_memory("\n".join(map(str, range(10_000))), was="")
    assert len(keeper.get(MEMORY).split("\n")) == len(keeper.get(MEMORY, 5, 10**9).split("\n")) == 2000


SECRETS = [".lock", "index.db", "memory/.state.json", "sessions/t.jsonl", "../bob/MEMORY.md", "memory/.hidden.md"]
PATHS = st.one_of(
    st.sampled_from(["", ".", "..", "/", "memory", "memory/", "\0", "a\0.md", "memory/\ud83d.md", "x" * 5000]),
    st.just("//etc/passwd"),
    st.text(max_size=30),
    st.lists(
        st.sampled_from(["..", ".", "memory", "archive", "history", "/", "\\", "MEMORY.md", "bob", "*", "x.md", "%2e"]),
        max_size=8,
    ).map("/".join),
)  # fmt: skip


@given(PATHS, st.integers(-5, 5), st.none() | st.integers(-5, 5))
def test_any_text_is_a_safe_path(tmp_path, path, start, end):
    keeper = Keeper(tmp_path / "safe", ("ada",))
    if not keeper.folder.path.exists():
        Keeper(tmp_path / "safe", ("bob",)).replace_memory("bob's", was="")
        keeper.replace_memory("ada's", was="")
        for name in SECRETS[2:4]:
            keeper.folder.replace(name, b"secret")
        keeper.folder.replace(SECRETS[5], b"secret")
    try:
        assert keeper.get(path, start, end) in ("ada's", "")
    except WorkspaceError as error:
        assert "memory" in str(error).lower() or repr(path)[:20] in str(error)


@pytest.mark.parametrize("path", SECRETS)
def test_nothing_but_memory_is_read(keeper, path):
    Keeper(keeper.folder.workspace, ("bob",)).replace_memory("bob's", was="")
    keeper.append([note("x")])
    for name in ("memory/.state.json", "sessions/t.jsonl", "memory/.hidden.md"):
        keeper.folder.replace(name, b"secret")
    with pytest.raises(WorkspaceError, match=re.escape(repr(path))):
        keeper.get(path)


# Reading beside


def test_what_is_pending_is_what_stands_behind_the_watermark(keeper):
    first = keeper.append([note(f"a{number}") for number in range(3)])
    second = keeper.append([{"text": f"b{number}", "timestamp": "2031-04-13T09:00"} for number in range(2)])
    (keeper.folder.path / LEDGER / "notes.md").write_text("- by hand")
    ids = [row.entry.id for row in pending(keeper, {})]
    assert ids == [one.id for one in [*first, *second]]
    assert [row.entry.text for row in pending(keeper, {LOG: first[1].id})] == ["a2", "b0", "b1"]
    assert [row.entry.text for row in pending(keeper, {LOG: "unknown", "memory/2031-04-13.md": second[1].id})] == [
        "a0",
        "a1",
        "a2",
    ]


@pytest.mark.parametrize(
    "query", ["", " ", "\t\n", "　", "。，（）", "\ud83d", "x" * 100_000, "NEAR(*", '"half', "'; drop", "\0"]
)
def test_any_query_is_safe_with_an_index_and_without(keeper, monkeypatch, query):
    keeper.append([note("a falcon 😀 \udcff")])
    assert keeper.search(query) == []
    assert keeper.search("falcon", 0) == keeper.search("falcon", -3) == []

    def fails(*_, **__):
        raise sqlite3.OperationalError("no")

    monkeypatch.setattr(Index, "search", fails)
    assert keeper.search(query) == []
    assert keeper.search("falcon", 0) == keeper.search("falcon", -3) == []


@pytest.mark.parametrize("query", ["falcon", "FALCONS", "部署", "周三", "TK-204", "c++", "Ada's", "неделю"])
def test_the_files_alone_find_what_the_index_finds(keeper, monkeypatch, query):
    said = [
        "two falcons",
        "a falcon, a falcon",
        "部署方案在周三确定",
        "订单 TK-204 shipped",
        "C++ and C#",
        "Ada's tea",
        "через неделю",
    ]
    keeper.append([note(text) for text in said])
    with_index = hits(keeper, query)

    def fails(*_, **__):
        raise sqlite3.OperationalError("no")

    monkeypatch.setattr(Index, "search", fails)
    assert sorted(hits(keeper, query)) == sorted(with_index) != []


def test_files_are_utf_8_whatever_the_locale_is(tmp_path):
    (tmp_path / "work.py").write_text(
        "from pathlib import Path; from langgraph_memory.longterm.keeper import Keeper\n"
        "k = Keeper(Path('ws')); k.append([{'text': '潮汐表 ✓', 'timestamp': '2031-04-12T12:00'}])\n"
        "k.replace_memory('- 潮汐表', was=''); k.write_state({'x': '潮'})\n"
        "assert k.search('潮汐表')[0].text and k.memory_md() == '- 潮汐表' and k.state()['x'] == '潮'",
        encoding="utf-8",
    )
    locale = {
        "PYTHONUTF8": "0",
        "LC_ALL": "C",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    ran = subprocess.run([sys.executable, "work.py"], cwd=tmp_path, env=os.environ | locale, capture_output=True)
    assert ran.returncode == 0, ran.stderr
    assert "潮汐表 ✓".encode() in (tmp_path / "ws" / LOG).read_bytes()


# What it costs


@pytest.fixture
def counted(monkeypatch):
    """Counts whole files read, and looks at files."""
    counts = Counter()
    for name in ("bytes_of", "stat", "stats"):
        real = getattr(Folder, name)

        def call(self, *args, name=name, real=real, **options):
            found = real(self, *args, **options)
            counts[name] += len(found) if name == "stats" else 1
            return found

        monkeypatch.setattr(Folder, name, call)
    return counts


def test_an_append_to_a_large_day_reads_nothing_of_it(keeper, counted, monkeypatch):
    keeper.append([note("first")])
    with (keeper.folder.path / LOG).open("ab") as file:
        file.write(b"".join(b"- 12:00:00+00:00 [fact] entry %d\n" % number for number in range(5_000)))
    keeper.sync()
    os.utime(keeper.folder.path / LOG, (0, 0))
    keeper.sync()
    counted.clear()
    parsed = []
    monkeypatch.setattr(Keeper, "placed", lambda self, name, data: parsed.append(name) or [])
    for round_ in range(3):
        keeper.append([note(f"new {round_} {number}") for number in range(5)])
        keeper.append([note(f"extra {round_}")], within=lambda db: None)
    assert counted["bytes_of"] == 0 and parsed == []
    assert counted["stat"] < 100
    monkeypatch.undo()
    (hit,) = keeper.search("extra 2", 1)
    assert (keeper.folder.path / LOG).read_text().split("\n")[hit.line - 1].count("extra 2") == 1
    assert len(keeper.rows(LOG)) == 5_001 + 18


def test_a_sync_of_many_files_looks_at_each_once(keeper, counted):
    for number in range(400):
        keeper.folder.replace(f"memory/{date(2031, 1, 1) + timedelta(days=number)}.md", b"- a falcon")
        os.utime(keeper.folder.path / f"memory/{date(2031, 1, 1) + timedelta(days=number)}.md", (number, number))
    keeper.sync()
    counted.clear()
    keeper.sync()
    assert counted["bytes_of"] == 0
    assert counted["stats"] + counted["stat"] < 410
    assert len(hits(keeper, "falcon")) == 1


def test_an_unclosed_keeper_is_closed_with_itself(keeper):
    keeper.append([note("x")])
    assert (keeper.folder.path / INDEX).exists()
    del keeper
