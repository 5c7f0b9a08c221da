import asyncio
import itertools
import logging
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from blockbuster import BlockingError

from langgraph_memory import cache, summariser
from langgraph_memory.cache import FileCache, Guarded, ProcessCache, SummaryCache, Usage, totals
from langgraph_memory.context.summarize import Ask
from langgraph_memory.errors import LangGraphMemoryError
from langgraph_memory.summariser import Summariser
from tests.support.models import GOOD, Hanging, Scripted, Slow
from tests.support.models import summariser as scripted

MODES = ("sync", "async")
KINDS = ("process", "file", "guarded file")
USAGE = {
    "input_tokens": 100,
    "output_tokens": 20,
    "total_tokens": 120,
    "input_token_details": {"cache_read": 60},
}


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.db"


@pytest.fixture(autouse=True)
def _nothing_is_left_open(path: Path) -> Any:
    yield
    assert not path.with_name("cache.db-wal").exists()
    assert not path.with_name("cache.db-shm").exists()


def make(kind: str, path: Path, clock: Clock, **options: Any) -> SummaryCache:
    if kind == "process":
        return ProcessCache(clock=clock, **options)
    file = FileCache(path, clock=clock, **options)
    return file if kind == "file" else Guarded(file)


def words(text: str) -> int:
    return len(text.split())


def ask(digest: str = "d") -> Ask:
    return Ask(digest, "prompt", replaces=1000, room=500, boundary="b0")


async def answer(mode: str, rim: Summariser, model: Any, question: Ask | None = None) -> Any:
    if mode == "sync":
        return await asyncio.to_thread(rim.answer_sync, question or ask(), model, "t", words)
    return await rim.answer(question or ask(), model, "t", words)


def rows(path: Path, query: str = "SELECT digest, boundary, text, tokens, model FROM summaries") -> list[Any]:
    db = sqlite3.connect(path)
    try:
        return db.execute(query).fetchall()
    finally:
        db.close()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


# What every cache does


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_put_is_found_and_nothing_else(kind, path, clock):
    kept = make(kind, path, clock)
    assert kept.get("d") is None
    kept.put("d", "text ✓ 要約", boundary="b", tokens=3, model="m")
    assert (kept.get("d"), kept.get("e")) == ("text ✓ 要約", None)
    kept.put("d", "newer")
    assert kept.get("d") == "newer"


@pytest.mark.parametrize("kind", KINDS)
def test_a_claim_keeps_others_out_until_it_is_released(kind, path, clock):
    kept = make(kind, path, clock)
    assert kept.claim("d", "me", 10)
    assert not kept.claim("d", "you", 10)
    assert kept.claim("e", "you", 10)
    kept.release("d", "you")
    assert not kept.claim("d", "you", 10)
    kept.release("d", "me")
    assert kept.claim("d", "you", 10)


@pytest.mark.parametrize("kind", ["process", "file"])
def test_a_claim_runs_out_and_its_owner_can_prolong_it(kind, path, clock):
    kept = make(kind, path, clock)
    assert kept.claim("d", "me", 10)
    clock.now += 9
    assert kept.claim("d", "me", 10)
    clock.now += 9
    assert not kept.claim("d", "you", 10)
    clock.now += 1
    assert kept.claim("d", "you", 10)
    assert not kept.claim("d", "me", 10)


@pytest.mark.parametrize("kind", KINDS)
def test_a_release_of_what_is_not_held_changes_nothing(kind, path, clock):
    kept = make(kind, path, clock)
    kept.release("d", "me")
    assert kept.claim("d", "me", 10)


@pytest.mark.parametrize("kind", ["process", "file"])
def test_only_the_newest_summaries_are_kept(kind, path, clock):
    kept = make(kind, path, clock, most=3)
    for number in range(5):
        kept.put(str(number), f"text {number}")
    assert [kept.get(str(number)) for number in range(5)] == [None, None, "text 2", "text 3", "text 4"]


@pytest.mark.parametrize("kind", KINDS)
def test_usage_adds_up_by_model_and_kind(kind, path, clock):
    kept = make(kind, path, clock)
    assert kept.usage() == []
    for model, what, usage in [
        ("m", "summary", USAGE),
        ("m", "summary", USAGE),
        ("m", "flush", USAGE),
        ("n", "x", None),
    ]:
        kept.add_usage(model, what, usage)
    assert [row[1:] for row in kept.usage()] == [
        ("m", "flush", 1, 100, 60, 20),
        ("m", "summary", 2, 200, 120, 40),
        ("n", "x", 1, 0, 0, 0),
    ]
    assert {row.day for row in kept.usage()} == {time.strftime("%Y-%m-%d")}


@pytest.mark.parametrize("kind", KINDS)
def test_threads_share_a_cache(kind, path, clock):
    kept = make(kind, path, clock)
    start = threading.Barrier(8)

    def work(number: int) -> bool:
        start.wait()
        mine = kept.claim("d", str(number), 60)
        for n in range(5):
            kept.put(f"{number}-{n}", "text")
            kept.add_usage("m", "summary", USAGE)
        return mine

    with ThreadPoolExecutor(8) as pool:
        claimed = list(pool.map(work, range(8)))
    assert sum(claimed) == 1
    assert [(row.calls, row.input) for row in kept.usage()] == [(40, 4000)]
    assert all(kept.get(f"{number}-{n}") for number in range(8) for n in range(5))


def test_totals_join_rows_of_the_same_day_model_and_kind():
    monday, tuesday = Usage("2026-01-05", "m", "k", 1, 2, 3, 4), Usage("2026-01-06", "m", "k", 1, 1, 1, 1)
    assert totals([tuesday, monday, monday]) == [Usage("2026-01-05", "m", "k", 2, 4, 6, 8), tuesday]


# The file


def test_the_file_holds_what_a_summary_covers_its_size_and_its_model(path):
    FileCache(path, clock=lambda: 7.5).put("d", "text", boundary="b", tokens=3, model="m")
    assert rows(path, "SELECT * FROM summaries") == [("d", "b", "text", 3, "m", 7.5)]
    assert rows(path, "PRAGMA user_version") == [(len(cache.MIGRATIONS),)]
    assert rows(path, "PRAGMA journal_mode") == [("wal",)]


def test_the_file_is_for_its_owner_only(path):
    FileCache(path).put("d", "text")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_string_is_enough_as_a_path(path):
    FileCache(str(path)).put("d", "text")
    assert FileCache(path).get("d") == "text"


def test_after_every_call_the_file_stands_alone(path):
    kept = FileCache(path)
    for call in (kept.usage, lambda: kept.put("d", "x"), lambda: kept.claim("d", "me", 9), lambda: kept.get("d")):
        call()
        assert [entry.name for entry in path.parent.iterdir()] == ["cache.db"]


def test_a_failed_call_changes_nothing(path):
    kept = FileCache(path)
    kept.put("d", "text")
    with pytest.raises(LangGraphMemoryError):
        kept.put("e", None)  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError), kept._writing() as db:
        db.execute("DELETE FROM summaries")
        raise ZeroDivisionError
    assert kept.get("d") == "text"


def test_a_migration_that_fails_leaves_the_version_as_it_was(path, monkeypatch):
    FileCache(path).put("d", "text")

    def half_done(db: sqlite3.Connection) -> None:
        db.execute("CREATE TABLE more (x)")
        db.execute("SELECT * FROM nowhere")

    monkeypatch.setattr(cache, "MIGRATIONS", (*cache.MIGRATIONS, half_done))
    with pytest.raises(LangGraphMemoryError, match="nowhere"):
        FileCache(path).get("d")
    monkeypatch.undo()
    assert FileCache(path).get("d") == "text"


def test_a_later_migration_keeps_what_is_there(path, monkeypatch):
    FileCache(path).put("d", "text")
    later = (*cache.MIGRATIONS, lambda db: db.execute("CREATE INDEX by_model ON summaries (model)"))
    monkeypatch.setattr(cache, "MIGRATIONS", later)
    assert FileCache(path).get("d") == "text"
    assert rows(path, "PRAGMA user_version") == [(len(later),)]


def test_a_newer_version_is_refused_by_name(path):
    newer(path)
    with pytest.raises(LangGraphMemoryError, match=r"cache\.db' has version 99, .* up to 2\. Upgrade"):
        FileCache(path).get("d")


# A cache that cannot be used


def newer(path: Path) -> None:
    FileCache(path).put("other", "text")
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()


def read_only_folder(path: Path) -> None:
    path.parent.chmod(0o500)
    if os.access(path.parent, os.W_OK):
        pytest.skip("this user may write everywhere")


def foreign(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE summaries (something, other)")
    db.commit()
    db.close()


def damaged(path: Path) -> None:
    for number in range(200):
        FileCache(path).put(str(number), "text " * 50)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))


UNUSABLE = {
    "a folder that cannot be written": read_only_folder,
    "a folder that is missing": lambda path: path.parent.rmdir(),
    "a directory in its place": Path.mkdir,
    "garbage": lambda path: path.write_bytes(b"\x00\xffgarbage" * 500),
    "a few bytes of garbage": lambda path: path.write_bytes(b"no"),
    "a damaged file": damaged,
    "a newer version": newer,
    "tables of somebody else": foreign,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", UNUSABLE)
async def test_the_run_goes_on_with_one_warning(name, mode, tmp_path, caplog):
    path = tmp_path / "folder" / "cache.db"
    path.parent.mkdir()
    await asyncio.to_thread(UNUSABLE[name], path)
    rim, model = Summariser(timeout=5, cache=FileCache(path)), scripted()
    for digest in "dde":
        assert await answer(mode, rim, model, ask(digest)) == GOOD
    assert len(model.requests) == 2
    (warning,) = warnings(caplog)
    assert "kept in this process only" in warning
    assert "cache.db" in warning


@pytest.mark.parametrize("mode", MODES)
async def test_a_full_disk_stops_nothing(mode, path, caplog, monkeypatch):
    await asyncio.to_thread(FileCache(path).put, "old", "text of before")
    connect = sqlite3.connect

    def small(*args: Any, **options: Any) -> sqlite3.Connection:
        db = connect(*args, **options)
        db.execute("PRAGMA max_page_count = 1")
        return db

    long = f"{GOOD}\n" + "".join(map(str, range(20_000)))
    rim = Summariser(timeout=5, cache=FileCache(path))
    monkeypatch.setattr(sqlite3, "connect", small)
    assert await answer(mode, rim, scripted(long)) == long
    assert await answer(mode, rim, scripted([RuntimeError("not asked")])) == long
    monkeypatch.undo()
    (warning,) = warnings(caplog)
    assert "disk is full" in warning
    assert await asyncio.to_thread(rows, path, "SELECT digest, text FROM summaries") == [("old", "text of before")]


@pytest.mark.parametrize("mode", MODES)
async def test_a_file_that_may_only_be_read_stops_nothing(mode, path, caplog, monkeypatch):
    await asyncio.to_thread(FileCache(path).put, "old", GOOD)
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda name, **o: connect(f"file:{name}?mode=ro", uri=True, **o))
    rim = Summariser(timeout=5, cache=FileCache(path))
    assert await answer(mode, rim, None, ask("old")) == GOOD
    assert await answer(mode, rim, scripted()) == GOOD
    assert len(warnings(caplog)) == 1
    monkeypatch.undo()
    assert await asyncio.to_thread(FileCache(path).get, "old") == GOOD


class Failing(ProcessCache):
    """Fails as long as it is told to, and counts how often it was asked."""

    failing, asked = True, 0

    def get(self, digest: str) -> str | None:
        self.asked += 1
        if self.failing:
            raise OSError("gone")
        return super().get(digest)


def test_a_cache_that_failed_is_left_alone_for_five_minutes_and_then_tried_again(clock, caplog):
    inner = Failing()
    guarded = Guarded(inner, clock=clock)
    for _ in range(5):
        assert guarded.get("d") is None
    guarded.put("d", "while it was failing")
    assert (inner.asked, guarded.get("d")) == (1, "while it was failing")
    clock.now += 300
    assert guarded.get("e") is None
    assert (inner.asked, len(warnings(caplog))) == (2, 1)
    inner.failing = False
    clock.now += 300
    inner.put("f", "there again")
    assert guarded.get("f") == "there again"
    inner.failing = True
    assert guarded.get("g") is None
    assert len(warnings(caplog)) == 2


def test_what_was_counted_while_the_cache_failed_is_in_the_totals(clock):
    inner = Failing()
    guarded = Guarded(inner, clock=clock)
    guarded.add_usage("m", "summary", USAGE)
    guarded.get("d")
    guarded.add_usage("m", "summary", USAGE)
    assert [row.calls for row in guarded.usage()] == [1]
    clock.now += 300
    assert [row.calls for row in guarded.usage()] == [2]


def test_threads_that_fail_together_warn_once(caplog):
    guarded = Guarded(Failing())
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(guarded.get, map(str, range(50)))) == [None] * 50
    assert len(warnings(caplog)) == 1


# Asking through a file


@pytest.mark.parametrize("mode", MODES)
async def test_a_summary_is_found_by_the_next_program(mode, path):
    question = ask()
    assert await answer(mode, Summariser(timeout=5, cache=FileCache(path)), scripted(), question) == GOOD
    model = scripted()
    assert await answer(mode, Summariser(timeout=5, cache=FileCache(path)), model, question) == GOOD
    assert model.requests == []
    assert await asyncio.to_thread(rows, path) == [("d", "b0", GOOD, words(GOOD), "scripted")]


@pytest.mark.parametrize("mode", MODES)
async def test_a_summary_that_is_no_longer_of_use_is_bought_anew(mode, path):
    kept = FileCache(path)
    for useless in ("word " * 2000, "", "I'm sorry, I can't help.", sqlite3.Binary(b"\x00\xff")):
        await asyncio.to_thread(kept.put, "d", useless)
        assert await answer(mode, Summariser(timeout=5, cache=kept), scripted()) == GOOD
        assert await asyncio.to_thread(kept.get, "d") == GOOD


@pytest.mark.parametrize("mode", MODES)
async def test_every_answered_call_is_counted_of_use_or_not(mode, path):
    kept = FileCache(path)
    rim = Summariser(timeout=5, cache=kept)
    model = scripted([GOOD, "", RuntimeError("down")], usage=lambda _: 700, model_name="side")
    for digest in "abca":
        await answer(mode, rim, model, ask(digest))
    assert [row[1:] for row in await asyncio.to_thread(kept.usage)] == [("side", "summary", 2, 1400, 0, 20)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("reply", [GOOD, "", RuntimeError("down")])
async def test_no_claim_outlives_its_question(reply, mode, path):
    kept = FileCache(path)
    await answer(mode, Summariser(timeout=5, cache=kept), scripted([reply]))
    assert await asyncio.to_thread(rows, path, "SELECT * FROM claims") == []


async def test_a_cancelled_question_gives_its_claim_back(path):
    rim, model = Summariser(timeout=60, cache=FileCache(path)), Hanging(replies=GOOD)
    task = asyncio.create_task(rim.answer(ask(), model, "t", words))
    while not model.requests:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert len(await asyncio.to_thread(rows, path, "SELECT * FROM claims")) == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(rows, path, "SELECT * FROM claims") == []


@pytest.mark.parametrize("at", ["get", "claim", "put", "add_usage"])
async def test_cancelled_in_the_middle_of_a_call_to_the_cache_no_claim_stays(at, path, monkeypatch):
    kept, inside, go_on = FileCache(path), threading.Event(), threading.Event()
    original = getattr(kept, at)

    def slow(*args: Any, **options: Any) -> Any:
        inside.set()
        go_on.wait(10)
        return original(*args, **options)

    monkeypatch.setattr(kept, at, slow)
    task = asyncio.create_task(Summariser(timeout=60, cache=kept).answer(ask(), scripted(), "t", words))
    await asyncio.to_thread(inside.wait, 10)
    task.cancel()
    await asyncio.sleep(0.02)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    monkeypatch.undo()
    assert await asyncio.to_thread(rows, path, "SELECT * FROM claims") == []
    assert (await asyncio.to_thread(kept.get, "d") == GOOD) == (at in ("put", "add_usage"))


async def test_an_event_loop_never_waits_for_the_file(path, caplog):
    with pytest.raises(BlockingError):
        FileCache(path).get("d")
    kept = FileCache(path)
    assert await Summariser(timeout=5, cache=kept).answer(ask(), scripted(), "t", words) == GOOD
    assert await Summariser(timeout=5, cache=kept).answer(ask(), None, "t", words) == GOOD
    # A blocking call would have been taken for a failing cache, and reported.
    assert warnings(caplog) == []


@pytest.mark.parametrize("first", MODES)
@pytest.mark.parametrize("second", MODES)
async def test_two_programs_that_ask_the_same_pay_once(first, second, path, monkeypatch):
    monkeypatch.setattr(summariser, "POLL_SECONDS", 0.01)
    model, other = Hanging(replies=GOOD), scripted()
    buying = asyncio.create_task(answer(first, Summariser(timeout=30, cache=FileCache(path)), model))
    while not model.requests:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    waiting = asyncio.create_task(answer(second, Summariser(timeout=30, cache=FileCache(path)), other))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    model.release.set()
    assert await asyncio.gather(buying, waiting) == [GOOD, GOOD]
    assert other.requests == []


@pytest.mark.parametrize("mode", MODES)
async def test_who_waits_for_one_that_fails_asks_by_itself(mode, path, monkeypatch):
    monkeypatch.setattr(summariser, "POLL_SECONDS", 0.01)
    model, other = Hanging(replies=""), scripted()
    buying = asyncio.create_task(answer(mode, Summariser(timeout=30, cache=FileCache(path)), model))
    while not model.requests:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    waiting = asyncio.create_task(answer(mode, Summariser(timeout=30, cache=FileCache(path)), other))
    await asyncio.sleep(0.05)
    model.release.set()
    assert isinstance(await buying, summariser.Rejected)
    assert await waiting == GOOD


@pytest.mark.parametrize("mode", MODES)
async def test_a_claim_that_never_ends_is_not_waited_for_longer_than_a_question_may_take(mode, path, monkeypatch):
    monkeypatch.setattr(summariser, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(summariser, "MARGIN_SECONDS", 5)
    kept, ticks = FileCache(path), itertools.count()
    await asyncio.to_thread(kept.claim, "d", "a clock that was set back", 10**9)
    assert await answer(mode, Summariser(timeout=5, cache=kept, clock=lambda: float(next(ticks))), scripted()) == GOOD
    assert await asyncio.to_thread(kept.claim, "d", "a clock that was set back", 1)


# Other processes

LIGHT = """
import sys
from langgraph_memory.cache import FileCache
cache = FileCache(sys.argv[1])
for _ in range(20):
    cache.add_usage("m", "summary", {"input_tokens": 10})
print(cache.claim("d", sys.argv[2], 60))
"""

ASKING = f"""
import asyncio, os, signal, sys, time
from pathlib import Path
from langchain_core.messages import AIMessage
from langgraph_memory.cache import FileCache
from langgraph_memory.context.summarize import Ask
from langgraph_memory.summariser import Summariser

class Slow:
    def invoke(self, *_):
        with open("calls", "a") as calls:
            calls.write("x")
        time.sleep(float(seconds))
        return AIMessage({GOOD!r})

    async def ainvoke(self, *_):
        return await asyncio.to_thread(self.invoke)

class Dying(FileCache):
    def add_usage(self, *_):
        os.kill(os.getpid(), signal.SIGKILL)

path, mode, timeout, seconds, end = sys.argv[1:]
rim = Summariser(timeout=float(timeout), cache=(Dying if end == "dies" else FileCache)(path))
question = Ask("d", "prompt", replaces=1000, room=500), Slow(), "t", len
open(f"ready-{{os.getpid()}}", "w").close()
while not os.path.exists("go"):
    time.sleep(0.01)
print(rim.answer_sync(*question) if mode == "sync" else asyncio.run(rim.answer(*question)))
"""


def run(script: str, *args: Any) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-c", script, *map(str, args)], stdout=subprocess.PIPE, text=True)


def until(found: Any) -> None:
    deadline = time.monotonic() + 30
    while not found() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert found()


def test_many_processes_make_and_share_one_file(path, capfd):
    started = [run(LIGHT, path, number) for number in range(6)]
    claimed = [process.communicate(timeout=30)[0].strip() for process in started]
    assert sorted(claimed) == ["False"] * 5 + ["True"], capfd.readouterr().err
    assert [row[1:] for row in FileCache(path).usage()] == [("m", "summary", 120, 1200, 0, 0)]
    assert rows(path, "PRAGMA journal_mode") == [("wal",)]


def test_two_processes_that_ask_the_same_at_the_same_time_make_one_call(path):
    started = [run(ASKING, path, mode, 30, 0.5, "lives") for mode in MODES]
    until(lambda: len(list(Path().glob("ready-*"))) == 2)
    Path("go").touch()
    assert [process.communicate(timeout=30)[0].strip() for process in started] == [GOOD, GOOD]
    assert Path("calls").read_text() == "x"


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_the_claim_of_a_process_that_was_killed_runs_out(mode, path, monkeypatch):
    monkeypatch.setattr(summariser, "CLAIM_SECONDS", 1.0)
    script = ASKING.replace("rim = ", "import langgraph_memory.summariser as s; s.CLAIM_SECONDS = 1.0\nrim = ")
    Path("go").touch()
    process = run(script, path, mode, 30, 60, "lives")
    until(Path("calls").exists)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    kept, model = FileCache(path), scripted()
    assert not kept.claim("d", "me", 1)
    rim = Summariser(timeout=60, cache=kept)
    if mode == "sync":
        assert rim.answer_sync(ask(), model, "t", words) == GOOD
    else:
        assert asyncio.run(rim.answer(ask(), model, "t", words)) == GOOD
    assert len(model.requests) == 1
    assert rows(path, "SELECT * FROM claims") == []


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_claim_holds_as_long_as_the_model_is_asked(mode, path, monkeypatch):
    monkeypatch.setattr(summariser, "CLAIM_SECONDS", 0.3)
    kept, refused = FileCache(path), []
    assert kept.get("d") is None
    model = Slow(replies=GOOD, seconds=1.5)
    rim = Summariser(timeout=30, cache=kept)
    asking = rim.answer_sync if mode == "sync" else lambda *given: asyncio.run(rim.answer(*given))
    asker = threading.Thread(target=asking, args=(ask(), model, "t", words))
    asker.start()
    until(lambda: rows(path, "SELECT * FROM claims"))
    while asker.is_alive():
        refused.append(not kept.claim("d", "me", 1) or kept.get("d") is not None)
        asker.join(0.1)
    assert len(refused) > 3 and all(refused)


@pytest.mark.parametrize("mode", MODES)
def test_a_summary_survives_its_buyer_being_killed_right_after(mode, path):
    Path("go").touch()
    process = run(ASKING, path, mode, 30, 0, "dies")
    assert process.communicate(timeout=30)[0] == ""
    assert process.returncode == -signal.SIGKILL
    model = Scripted(replies=[RuntimeError("not asked")])
    assert Summariser(timeout=5, cache=FileCache(path)).answer_sync(ask(), model, "t", words) == GOOD
    assert model.requests == []
