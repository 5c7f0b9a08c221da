"""The regular round: ledgers expire, session logs and versions go, the index is checked."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from langgraph_memory.config import ConsolidationConfig, MaintenanceConfig
from langgraph_memory.context.tokens import estimator_for
from langgraph_memory.longterm import history
from langgraph_memory.longterm.consolidate import Consolidation
from langgraph_memory.longterm.folder import Folder
from langgraph_memory.longterm.keeper import Keeper
from langgraph_memory.longterm.maintain import expire_ledgers, maintain, prune_sessions, refresh_index, steps

TODAY = date(2026, 11, 30)
COUNTER = estimator_for("auto")


@pytest.fixture
def keeper(tmp_path: Path) -> Keeper:
    return Keeper(tmp_path / "memory", ("ada",))


def said(keeper: Keeper, text: str, days_ago: int, **rest: Any) -> str:
    """Add an entry of an earlier day; the name of its ledger."""
    day = TODAY - timedelta(days=days_ago)
    keeper.append([{"text": text, "timestamp": f"{day}T12:00:00", **rest}])
    return f"memory/{day}.md"


def consolidate(keeper: Keeper, **options: Any) -> None:
    config = ConsolidationConfig(min_interval_minutes=0)
    Consolidation(keeper, config, counter=COUNTER, has_model=False, **options).begin()


def found(keeper: Keeper, query: str) -> list[str]:
    """Where a search finds it, had it not been merged: of the same text in two files it names one."""
    keeper.folder.remove("MEMORY.md")
    return [hit.path for hit in keeper.search(query)]


@contextmanager
def beside(work: Callable[[], None], stop: threading.Event) -> Iterator[None]:
    """Do `work`, which goes on until `stop`, in a thread beside the block."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)


def archived(name: str) -> str:
    return name.replace("memory/", "memory/archive/")


# Ledgers


def test_old_ledgers_go_to_the_archive_and_are_still_found(keeper: Keeper) -> None:
    old, edge = said(keeper, "Ada likes harbours", 91), said(keeper, "Bob likes pier B", 90)
    consolidate(keeper)
    done = expire_ledgers(keeper, 90, TODAY)
    assert (done.count, done.problem) == (1, "")
    assert keeper.folder.names("memory") == [edge]
    assert keeper.folder.names("memory/archive") == [archived(old)]
    assert found(keeper, "likes harbours")[0] == archived(old)
    assert "Ada likes harbours" in keeper.get(archived(old))
    assert old not in keeper.state()["upto"]
    assert keeper.index.problems() == []
    assert expire_ledgers(keeper, 90, TODAY).count == 0


def test_a_ledger_that_is_not_consolidated_stays(keeper: Keeper) -> None:
    old = said(keeper, "Ada likes tea", 100)
    done = expire_ledgers(keeper, 90, TODAY)
    assert (done.count, bool(done.problem)) == (0, True)
    consolidate(keeper)
    said(keeper, "and Bob likes rum", 100)
    assert expire_ledgers(keeper, 90, TODAY).count == 0
    consolidate(keeper)
    assert expire_ledgers(keeper, 90, TODAY).count == 1
    assert not keeper.folder.size(old)


def test_what_is_knowingly_left_out_does_not_keep_a_ledger(keeper: Keeper) -> None:
    said(keeper, "web: buy", 100, type="tool_result")
    said(keeper, "of another branch", 101, thread="t", messages=["m"])
    consolidate(keeper, alive=lambda thread: [])
    assert keeper.memory_md() == ""
    assert expire_ledgers(keeper, 90, TODAY).count == 2
    assert keeper.state()["skipped"] == {}
    assert [hit.abandoned for hit in keeper.search("another branch")] == [True]


def test_zero_days_means_never(keeper: Keeper) -> None:
    said(keeper, "Ada likes tea", 5000)
    consolidate(keeper)
    assert expire_ledgers(keeper, 0, TODAY).count == 0


def test_a_clock_that_jumps_back_and_files_that_are_no_ledgers_do_no_harm(keeper: Keeper) -> None:
    name = said(keeper, "Ada likes tea", 0)
    keeper.folder.replace("memory/notes.md", b"- mine\n")
    keeper.folder.replace("memory/2026-13-45.md", b"- odd\n")
    consolidate(keeper)
    before = keeper.folder.names("memory")
    assert name in before
    for today in (TODAY - timedelta(days=4000), TODAY):
        assert expire_ledgers(keeper, 90, today).count == 0
    assert keeper.folder.names("memory") == before


@pytest.mark.parametrize("zone", ["Pacific/Auckland", "America/Los_Angeles", "Europe/Berlin"])
def test_days_are_local_ones_also_where_the_clock_is_changed(
    keeper: Keeper, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        said(keeper, "Ada likes tea", 90)
        consolidate(keeper)
        config = MaintenanceConfig(ledger_retention_days=90)
        # The evening of the 90th day and the morning of the next, over the end of summer time.
        for hour, count in ((23, 0), (24, 1)):
            moment = (datetime(2026, 11, 30) + timedelta(hours=hour, minutes=30)).astimezone()
            (_, step), *_ = steps(keeper, config, clock=lambda moment=moment: moment.astimezone(UTC))
            assert step().count == count
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


def test_late_entries_of_an_archived_day_join_it(keeper: Keeper) -> None:
    name = said(keeper, "the first fact", 100)
    consolidate(keeper)
    expire_ledgers(keeper, 90, TODAY)
    said(keeper, "a late fact", 100)
    consolidate(keeper)
    assert expire_ledgers(keeper, 90, TODAY).count == 1
    text = keeper.get(archived(name))
    assert text.count("the first fact") == text.count("a late fact") == 1
    assert text.count("# ") == 1
    assert found(keeper, "late fact")[0] == archived(name)


class Crash(BaseException):
    pass


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("method", ["replace", "rename", "remove", "write_state"])
def test_k12_a_crash_at_any_step_loses_and_hides_nothing(
    keeper: Keeper, method: str, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = said(keeper, "the first fact", 100)
    consolidate(keeper)
    if late:
        expire_ledgers(keeper, 90, TODAY)
        said(keeper, "a late fact", 100)
        consolidate(keeper)
    texts = ["the first fact", *(["a late fact"] if late else [])]

    def crash(*_: Any) -> None:
        raise Crash

    owner: Any = {"rename": keeper.index, "write_state": keeper}.get(method, Folder)
    monkeypatch.setattr(owner, method, crash)
    if not (late and method == "rename"):
        with pytest.raises(Crash):
            expire_ledgers(keeper, 90, TODAY)
    monkeypatch.undo()
    other = Keeper(keeper.folder.workspace, ("ada",))
    for text in texts:
        assert len(found(other, text)) >= 1
    maintain(other, MaintenanceConfig(ledger_retention_days=1))
    for text in texts:
        assert found(other, text)[0] == archived(name)
        assert other.get(archived(name)).count(text) == 1
    assert not other.folder.size(name)
    assert name not in other.state()["upto"]


def test_k12_a_search_finds_each_entry_at_every_moment(keeper: Keeper) -> None:
    for number in range(30):
        said(keeper, f"fact {number} of the harbour", 100 + number)
    consolidate(keeper)
    keeper.folder.remove("MEMORY.md")
    keeper.sync()
    stop, missing = threading.Event(), list[int]()

    def search() -> None:
        mine, number = Keeper(keeper.folder.workspace, ("ada",)), 0
        while not stop.is_set():
            number = (number + 7) % 30
            if not any(
                hit.text == f"fact {number} of the harbour" for hit in mine.search(f"fact {number} harbour", 60)
            ):
                missing.append(number)

    with beside(search, stop):
        assert expire_ledgers(keeper, 90, TODAY).count == 30
    assert missing == []


def test_k13_appends_while_ledgers_are_retired_all_stay(keeper: Keeper) -> None:
    stop, texts = threading.Event(), list[str]()

    def append() -> None:
        mine = Keeper(keeper.folder.workspace, ("ada",))
        while not stop.is_set():
            texts.append(f"late fact {len(texts)}")
            said(mine, texts[-1], 100 + len(texts) % 3)
            time.sleep(0.01)

    with beside(append, stop):
        while len(texts) < 25:
            consolidate(keeper)
            expire_ledgers(keeper, 90, TODAY)
    consolidate(keeper)
    expire_ledgers(keeper, 90, TODAY)
    kept = [row.entry.text for name in keeper.folder.names("memory/archive") for row in keeper.rows(name)]
    assert sorted(kept) == sorted(texts)
    assert keeper.folder.names("memory") == []
    assert all(f"- {text}\n" in keeper.memory_md() for text in texts[-50:])


# Session logs


def test_session_logs_go_by_their_age(keeper: Keeper) -> None:
    now = time.time()
    for name, days in (("old", 181), ("new", 179), ("future", -400)):
        keeper.folder.replace(f"sessions/{name}.jsonl", b"{}\n")
        os.utime(keeper.folder.path / f"sessions/{name}.jsonl", (now - days * 86_400,) * 2)
    keeper.folder.replace("sessions/notes.txt", b"mine")
    os.utime(keeper.folder.path / "sessions/notes.txt", (0, 0))
    assert prune_sessions(keeper, 0, now).count == 0
    assert prune_sessions(keeper, 180, now).count == 1
    assert keeper.folder.names("sessions", "") == ["sessions/future.jsonl", "sessions/new.jsonl", "sessions/notes.txt"]
    assert prune_sessions(keeper, 180, now - 10**8).count == 0


# Index


def test_a_damaged_index_is_made_anew(keeper: Keeper) -> None:
    said(keeper, "Ada likes tea", 1)
    assert refresh_index(keeper).count == 0
    keeper.close()
    for path in keeper.folder.path.glob("index.db*"):
        path.write_bytes(b"no database at all" * 500 if path.name == "index.db" else b"")
    refresh_index(keeper)
    assert list(keeper.folder.path.glob("index.db.damaged-*"))
    assert found(keeper, "tea") == ["memory/2026-11-29.md"]
    assert refresh_index(keeper).problem == ""


def test_files_edited_by_hand_are_indexed(keeper: Keeper) -> None:
    name = said(keeper, "Ada likes tea", 1)
    with (keeper.folder.path / name).open("a") as file:
        file.write("- Bob likes rum\n")
    refresh_index(keeper)
    with keeper.reading() as db:
        assert [row.entry.text for row in keeper.index.rows(db, name)] == ["Ada likes tea", "Bob likes rum"]


# The round


def test_a_round_names_its_steps_and_each_says_what_it_did(keeper: Keeper) -> None:
    old = (datetime.now() - timedelta(days=100)).isoformat()
    keeper.append([{"text": "Ada likes tea", "timestamp": old}])
    consolidate(keeper)
    for number in range(history.MOST_VERSIONS + 3):
        keeper.folder.replace(f"memory/history/20260101T{number:012d}Z-abc{number}.md", b"- x\n")
    assert [name for name, _ in steps(keeper, MaintenanceConfig())] == ["ledgers", "sessions", "versions", "index"]
    assert [(done.name, done.count) for done in maintain(keeper, MaintenanceConfig())] == [
        ("ledgers", 1),
        ("sessions", 0),
        ("versions", 3),
        ("index", 0),
    ]
    assert not any(done.count for done in maintain(keeper, MaintenanceConfig()))


def test_a_round_where_there_is_no_memory_makes_nothing(keeper: Keeper) -> None:
    assert not any(done.count or done.problem for done in maintain(keeper, MaintenanceConfig()))
    assert not keeper.folder.path.exists()


def test_a_step_that_fails_says_so_and_the_others_go_on(keeper: Keeper, tmp_path: Path) -> None:
    said(keeper, "Ada likes tea", 1)
    (tmp_path / "elsewhere").mkdir()
    (keeper.folder.path / "sessions").symlink_to(tmp_path / "elsewhere")
    done = maintain(keeper, MaintenanceConfig())
    assert [bool(one.problem) for one in done] == [False, True, False, False]


def test_twice_at_once(keeper: Keeper) -> None:
    for number in range(30):
        said(keeper, f"fact {number}", 200 + number)
    consolidate(keeper)
    results: list[Any] = []

    def round_() -> None:
        results.append(maintain(Keeper(keeper.folder.workspace, ("ada",)), MaintenanceConfig()))

    threads = [threading.Thread(target=round_) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(done[0].count for done in results) == 30
    assert not any(one.problem for done in results for one in done)
    kept = [row.entry.text for name in keeper.folder.names("memory/archive") for row in keeper.rows(name)]
    assert sorted(kept) == sorted(f"fact {number}" for number in range(30))
