import errno
import json
import multiprocessing
import os
import random
import stat
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Command

from langgraph_memory import spill
from langgraph_memory.config import SpillBufferConfig
from langgraph_memory.context.text import clean_text
from langgraph_memory.errors import LangGraphMemoryError
from langgraph_memory.spill import (
    MARKER,
    SpillDamagedError,
    SpillStore,
    Swept,
    exceeds,
    references,
    references_in,
    spilled,
    spilled_marker,
    spilled_result,
)
from tests.support.graphs import result
from tests.support.models import content_text

SCRIPTS = {
    "English": "the berth is taken until noon\n",
    "one line": "x",
    "Chinese": "泊位在中午之前被占用\n",
    "Hindi": "बर्थ दोपहर तक भरी हुई है\n",
    "emoji": "👨‍👩‍👧‍👦🇳🇴⚓️\n",
    "Arabic": "الرصيف مشغول حتى الظهر\n",
    "JSON": '{"berth": "\\u6cca", "taken": [true, null]}',
    "carriage returns": "10 %\r20 %\r\n",
    "blanks": " \t\n",
    "markers": '[spilled: 12 bytes · recall("spill:' + "0" * 32 + '")]\n',
}
HOUR, DAY = 3600, 86_400
IDS = ["../../x", "/abs/x", "..\\x", "C:x", "a/../../b", "a\x00b", "CON", ".", "..", " ", "长" * 300, "A" * 1500]

any_text = st.text(st.characters())


@pytest.fixture
def store(tmp_path: Path) -> SpillStore:
    return SpillStore(tmp_path / "spill")


def buffer(threshold: int = 1000, **values: Any) -> SpillBufferConfig:
    return SpillBufferConfig(default_threshold=threshold, **values)


def long_text(script: str = "English", chars: int = 60_000, mark: str = "") -> str:
    return (mark + SCRIPTS[script] * (chars // len(SCRIPTS[script]) + 1))[:chars]


def file_of(store: SpillStore, digest: str) -> Path:
    return store.folder / digest[:2] / f"{digest}.txt"


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if not path.is_dir()]


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def whole(store: SpillStore, digest: str) -> str:
    return store.page(digest, 0, sys.maxsize)[0]


def digest_in(message: ToolMessage) -> str:
    [digest] = references(str(message.content))
    return digest


def aged(store: SpillStore, digest: str, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(file_of(store, digest), (then, then))


# What is written


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("chars", [0, 1, 999, 70_001])
def test_a_text_that_was_put_is_read_back_as_it_was(store, script, chars):
    text = long_text(script, chars)
    digest = store.put(text)
    assert whole(store, digest) == text
    assert store.size(digest) == len(text.encode())
    assert "".join(store.lines(digest)) == text


def test_files_are_named_by_what_they_hold(store):
    digests = {store.put(text) for text in ("a", "b", "a", "c", "b")}
    assert len(digests) == 3
    assert sorted(files_in(store.folder)) == sorted(file_of(store, digest) for digest in digests)
    assert all(len(digest) == 32 and set(digest) <= set("0123456789abcdef") for digest in digests)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o277, 0o777])
def test_only_the_owner_can_read_whatever_the_umask(tmp_path, umask):
    store = SpillStore(tmp_path / "new" / "spill")
    before = os.umask(0o022)
    try:
        store.folder.parent.mkdir()
        os.umask(umask)
        path = file_of(store, store.put("token=demo"))
    finally:
        os.umask(before)
    assert mode_of(path) == 0o600
    assert mode_of(path.parent) == mode_of(store.folder) == 0o700
    assert path.read_text() == "token=demo"


@pytest.mark.parametrize("mode", [0o755, 0o777, 0o500])
def test_a_folder_that_others_can_read_is_closed_to_them(store, mode):
    store.folder.mkdir()
    store.folder.chmod(mode)
    store.put("token=demo")
    assert mode_of(store.folder) == 0o700


def test_a_file_that_others_can_read_is_replaced_by_a_private_one(store):
    path = file_of(store, store.put("token=demo"))
    path.chmod(0o644)
    with path.open() as opened_before:
        store.put("token=demo")
        assert os.fstat(opened_before.fileno()).st_ino != path.stat().st_ino
    assert mode_of(path) == 0o600


@pytest.mark.parametrize(
    ("text", "kept"),
    [("half \ud83d of it", "half � of it"), ("\ud83d\ude00", "😀"), ("\udfff" * 1500, "�" * 1500)],
)
def test_lone_surrogates_are_replaced_and_pairs_joined(store, text, kept):
    digest = store.put(text)
    assert whole(store, digest) == kept == clean_text(text)
    assert store.put(kept) == digest


@hypothesis_settings(max_examples=200)
@given(text=any_text)
def test_any_text_can_be_put_and_read_back(tmp_path, text):
    store = SpillStore(tmp_path / "any")
    digest = store.put(text)
    assert whole(store, digest) == "".join(store.lines(digest)) == clean_text(text)
    assert whole(store, digest).encode() == file_of(store, digest).read_bytes()


# What is already there is not trusted


@pytest.mark.parametrize(
    "content", [b"", b"other text, same size ", b"something longer than the text that belongs here"]
)
def test_a_file_with_other_content_is_replaced(store, content):
    text = "the text that belongs."
    path = file_of(store, store.put(text))
    path.write_bytes(content)
    assert whole(store, store.put(text)) == text
    assert mode_of(path) == 0o600


@pytest.mark.parametrize("target_holds", ["the text itself", "something else"])
def test_a_planted_link_is_replaced_and_what_it_points_to_is_left_alone(store, tmp_path, target_holds):
    outside = tmp_path / "outside.txt"
    outside.write_text(target_holds)
    path = file_of(store, store.put("the text itself"))
    path.unlink()
    path.symlink_to(outside)
    store.put("the text itself")
    assert not path.is_symlink()
    assert path.read_text() == "the text itself"
    assert outside.read_text() == target_holds


def test_a_planted_pipe_is_replaced_and_waits_for_nobody(store):
    path = file_of(store, store.put("the text itself"))
    path.unlink()
    os.mkfifo(path)
    store.put("the text itself")
    assert path.read_text() == "the text itself"


def test_a_planted_link_in_place_of_an_inner_folder_is_refused(store, tmp_path):
    path = file_of(store, store.put("text"))
    path.unlink()
    path.parent.rmdir()
    (tmp_path / "outside").mkdir()
    path.parent.symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match="link"):
        store.put("text")
    assert files_in(tmp_path / "outside") == []


@pytest.mark.parametrize("read", ["page", "lines", "size"])
@pytest.mark.parametrize("planted", ["link", "pipe", "folder"])
def test_what_is_no_file_is_not_read(store, tmp_path, planted, read):
    path = file_of(store, store.put("secret"))
    path.unlink()
    (tmp_path / "outside").write_text("secret")
    {"link": lambda: path.symlink_to(tmp_path / "outside"), "pipe": lambda: os.mkfifo(path), "folder": path.mkdir}[
        planted
    ]()
    with pytest.raises(OSError):
        {"page": lambda d: store.page(d, 0, 9), "lines": lambda d: list(store.lines(d)), "size": store.size}[read](
            path.stem
        )


@pytest.mark.parametrize("damage", [b"", b"Text", b"text and more", b"\xff\xfe\xff\xfe"])
def test_a_damaged_file_is_never_shown(store, damage):
    digest = store.put("text")
    file_of(store, digest).write_bytes(damage)
    with pytest.raises(SpillDamagedError):
        store.page(digest, 0, 10)
    with pytest.raises(SpillDamagedError):
        next(store.lines(digest))


def test_a_damaged_file_is_one_of_our_errors_and_one_of_the_systems():
    assert issubclass(SpillDamagedError, LangGraphMemoryError)
    assert issubclass(SpillDamagedError, OSError)


def test_a_file_that_is_gone_says_so(store):
    for read in (store.size, lambda d: store.page(d, 0, 1), lambda d: next(store.lines(d))):
        with pytest.raises(FileNotFoundError):
            read("0" * 32)


@pytest.mark.parametrize(
    "digest", [*IDS, "", "0" * 31, "0" * 33, "A" * 32, "0" * 32 + "\n", "٠" * 32, "../" + "0" * 29]
)
def test_what_is_no_digest_never_becomes_a_path(store, digest):
    for read in (store.size, lambda d: store.page(d, 0, 1), lambda d: next(store.lines(d))):
        with pytest.raises(ValueError, match="digest"):
            read(digest)


# When writing fails


@pytest.mark.parametrize("name", ["write", "fsync", "replace", "close"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_full_disk_is_reported_and_leaves_nothing_behind(store, monkeypatch, name, number):
    store.put("earlier")
    before = files_in(store.folder)
    real = getattr(os, name)

    def fails(*arguments: Any) -> Any:
        if name == "close":
            real(*arguments)
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(spill.os, name, fails)
        with pytest.raises(OSError) as caught:
            store.put("x" * 3_000_000)
    assert caught.value.errno == number
    assert files_in(store.folder) == before


def test_a_disk_that_takes_a_little_at_a_time_gets_all_of_it(store, monkeypatch):
    real = os.write
    monkeypatch.setattr(spill.os, "write", lambda fd, data: real(fd, data[:77_777]))
    text = long_text("Chinese", 400_000)
    assert whole(store, store.put(text)) == text


def test_an_interrupt_leaves_nothing_behind(store, monkeypatch):
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(spill.os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.put("text")
    assert files_in(store.folder) == []


def test_a_folder_that_cannot_be_written_is_reported(tmp_path):
    code = (
        "import os, sys\n"
        "from langgraph_memory.spill import SpillStore\n"
        "os.chdir(sys.argv[1])\n"
        "os.getuid() or os.setuid(65534)\n"
        "try:\n    SpillStore('spill').put('text')\nexcept PermissionError:\n    print('refused')"
    )
    tmp_path.chmod(0o555)
    ran = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    tmp_path.chmod(0o755)
    assert ran.stdout == "refused\n", ran.stderr
    assert files_in(tmp_path) == []


def test_a_file_in_place_of_the_folder_is_reported(store):
    store.folder.write_text("mine")
    with pytest.raises(OSError):
        store.put("text")
    assert store.folder.read_text() == "mine"


# Pages and lines


@hypothesis_settings(max_examples=150)
@given(text=any_text, limit=st.integers(1, 7), piece=st.integers(1, 5))
def test_pages_put_together_are_the_text(tmp_path, text, limit, piece):
    store = SpillStore(tmp_path / "pages")
    digest = store.put(text)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(spill, "PIECE", piece)
        pages = [store.page(digest, offset, limit) for offset in range(0, len(text) + 1, limit)]
    kept = clean_text(text)
    assert "".join(page for page, _ in pages) == kept
    assert {total for _, total in pages} == {len(kept)}


@pytest.mark.parametrize(("offset", "limit"), [(-5, 3), (0, 0), (2, -1), (10**9, 5), (9, 10**12)])
def test_a_page_outside_the_text_is_empty_or_what_is_there(store, offset, limit):
    digest = store.put("0123456789")
    expected = "0123456789"[max(0, offset) :][: max(0, limit)]
    assert store.page(digest, offset, limit) == (expected, 10)


def test_lines_keep_their_ends_and_end_where_lines_end(store):
    digest = store.put("a\nb\r\nc\rd\u2028e\x0bf\n\n泊位")
    assert list(store.lines(digest)) == ["a\n", "b\r\n", "c\r", "d\u2028e\x0bf\n", "\n", "泊位"]


def test_a_file_is_read_without_being_loaded(store):
    digest = store.put(long_text("English", 20_000_000))
    tracemalloc.start()
    try:
        assert store.page(digest, 15_000_000, 1000)[1] == 20_000_000
        assert sum(1 for _ in store.lines(digest)) == 20_000_000 // len(SCRIPTS["English"]) + 1
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8_000_000


# Many at once


def test_threads_that_put_the_same_text_all_get_a_whole_file(store):
    text, digests, barrier = long_text(chars=300_000), [], threading.Barrier(8)

    def work() -> None:
        barrier.wait()
        digests.append(store.put(text))
        assert whole(store, digests[-1]) == text

    run_all([work] * 8)
    assert len(digests) == 8
    assert files_in(store.folder) == [file_of(store, digests[0])]


def run_all(works: list[Callable[[], None]]) -> None:
    failures: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - shown by the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def put_many(folder: str, seed: int) -> list[str]:
    store, rng = SpillStore(folder), random.Random(seed)
    numbers = rng.sample(range(20), 20)
    return [store.put(long_text("Chinese", 20_000, mark=f"{number} ")) for number in numbers]


def test_processes_that_put_the_same_texts_all_get_whole_files(store):
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        made = pool.starmap(put_many, [(str(store.folder), seed) for seed in range(4)])
    assert len(files_in(store.folder)) == 20
    assert all(set(digests) == set(made[0]) for digests in made)
    for digest in made[0]:
        assert store.page(digest, 0, 1)[1] == 20_000


@pytest.mark.parametrize("damaged", [False, True])
def test_a_text_put_while_sweeps_go_on_is_there_afterwards(store, damaged):
    for number in range(150):
        text = f"text {number % 3} " * 50
        digest = store.put(text)
        if damaged:
            file_of(store, digest).write_text("damaged")
        aged(store, digest, 2 * HOUR)
        barrier = threading.Barrier(3)

        def sweeping(barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            store.sweep((), now=time.time(), keep_seconds=0, max_bytes=0)

        def putting(barrier: threading.Barrier = barrier, text: str = text) -> None:
            barrier.wait()
            store.put(text)

        run_all([putting, sweeping, sweeping])
        assert whole(store, digest) == text


def test_a_file_put_again_between_listing_and_removing_is_kept(store, monkeypatch):
    digest = store.put("text")
    aged(store, digest, 10_000)
    real = spill._removed

    def put_first(file: Any) -> bool:
        store.put("text")
        return real(file)

    monkeypatch.setattr(spill, "_removed", put_first)
    swept = store.sweep((), now=time.time(), keep_seconds=10, max_bytes=0)
    assert swept == Swept(0, 0, 4)
    assert whole(store, digest) == "text"


def test_a_file_that_another_sweep_removed_is_not_counted(store, monkeypatch):
    digest = store.put("text")
    aged(store, digest, 10_000)
    real = spill._removed
    monkeypatch.setattr(spill, "_removed", lambda file: file.path.unlink() or real(file))
    assert store.sweep((), now=time.time(), keep_seconds=10, max_bytes=0).files == 0


# Sweeping


def put_aged(store: SpillStore, number: int, age: float, size: int = 1000) -> str:
    digest = store.put(f"{number:06d} ".ljust(size, "x"))
    aged(store, digest, age)
    return digest


def there(store: SpillStore) -> set[str]:
    return {path.stem for path in files_in(store.folder)}


def test_files_without_a_reference_go_when_they_are_old(store):
    old, young = put_aged(store, 1, 31 * DAY), put_aged(store, 2, 29 * DAY)
    swept = store.sweep((), now=time.time(), keep_seconds=30 * DAY, max_bytes=10**9)
    assert swept == Swept(1, 1000, 1000)
    assert there(store) == {young} != {old}


def test_the_oldest_files_go_first_until_the_rest_fits(store):
    digests = [put_aged(store, number, (300 - number) * HOUR) for number in range(2, 60)]
    swept = store.sweep((), now=time.time(), keep_seconds=30 * DAY, max_bytes=10_500)
    assert swept == Swept(48, 48_000, 10_000)
    assert there(store) == set(digests[-10:])


@pytest.mark.parametrize("max_bytes", [0, 5000, 50_000])
def test_a_file_with_a_reference_stays_however_old_and_large(store, max_bytes):
    digests = [put_aged(store, number, 400 * DAY) for number in range(30)]
    kept = set(digests[::3])
    swept = store.sweep(kept, now=time.time(), keep_seconds=30 * DAY, max_bytes=max_bytes)
    assert there(store) == kept
    assert swept == Swept(20, 20_000, 10_000)


def test_what_was_put_just_now_stays_until_its_message_can_be_in_a_checkpoint(store):
    fresh, old = put_aged(store, 1, 60), put_aged(store, 2, 2 * HOUR)
    store.sweep((), now=time.time(), keep_seconds=0, max_bytes=0)
    assert there(store) == {fresh} != {old}
    store.sweep((), now=time.time() + 2 * HOUR, keep_seconds=0, max_bytes=0)
    assert there(store) == set()


def test_putting_a_text_again_makes_its_file_young(store):
    digest = put_aged(store, 1, 31 * DAY, size=7)
    assert store.put("000001 ") == digest
    assert store.sweep((), now=time.time(), keep_seconds=30 * DAY, max_bytes=10**9).files == 0


def test_what_a_crash_left_goes_and_what_is_being_written_stays(store):
    digest = put_aged(store, 1, 0)
    for name, age in {".abc.tmp": 2 * HOUR, ".def.tmp": 10, ".ghi.swept": 2 * HOUR}.items():
        path = store.folder / digest[:2] / name
        path.write_text("half")
        os.utime(path, (time.time() - age,) * 2)
    swept = store.sweep((), now=time.time(), keep_seconds=30 * DAY, max_bytes=10**9)
    assert swept == Swept(0, 0, 1000)
    assert {path.name for path in files_in(store.folder)} == {".def.tmp", f"{digest}.txt"}


def test_what_is_not_ours_is_left_alone(store, tmp_path):
    digest = put_aged(store, 1, 90 * DAY)
    foreign = [store.folder / "notes.txt", store.folder / digest[:2] / "notes.txt", store.folder / "zz" / "a.txt"]
    foreign += [store.folder / digest[:2] / "notes.tmp", store.folder / digest[:2] / f"{digest}.txt.bak"]
    for path in foreign:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
        os.utime(path, (0, 0))
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / ("0" * 32 + ".txt")).write_text("mine")
    (store.folder / "00").symlink_to(tmp_path / "outside")
    link = store.folder / digest[:2] / ("1" * 32 + ".txt")
    link.symlink_to(foreign[0])
    assert store.sweep((), now=time.time(), keep_seconds=DAY, max_bytes=0) == Swept(1, 1000, 0)
    assert all(path.exists() for path in [*foreign, link])
    assert len(files_in(tmp_path / "outside")) == 1


def test_a_folder_that_does_not_exist_has_nothing_to_sweep(store):
    assert store.sweep((), now=0, keep_seconds=0, max_bytes=0) == Swept(0, 0, 0)
    assert not store.folder.exists()


# References


@pytest.mark.parametrize("wrap", [str, json.dumps, lambda text: json.dumps({"a": json.dumps([text])}), repr])
def test_references_are_found_in_texts_however_quoted(wrap):
    digests = [f"{number:032x}" for number in range(5)]
    text = wrap("\n".join(f"head {spilled_marker(60_000, digest)} tail" for digest in digests))
    assert references(text) == set(digests) == references_in(text.encode())


@pytest.mark.parametrize(
    "text", ["", "spill:", 'recall("spill:12ab")', f'recall("spill:{"g" * 32}")', f'recall("spill:{"0" * 33}")']
)
def test_what_is_no_digest_is_no_reference(text):
    assert references(text) == references_in(text.encode()) == set()


@pytest.mark.parametrize("blocks", [False, True])
def test_references_are_found_in_checkpoint_values(store, blocks):
    text = long_text("Chinese")
    content = [{"type": "text", "text": text}, {"type": "image", "base64": "AAAA"}] if blocks else text
    message = spilled(result("c1", content), "grab", buffer(), store)
    for serializer in (JsonPlusSerializer(), JsonPlusSerializer(pickle_fallback=True)):
        _, data = serializer.dumps_typed({"messages": [HumanMessage("泊位"), message]})
        assert references_in(data) == {store.put(text)}


# Tool results


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("chars", [1500, 50_000, 200_000])
@pytest.mark.parametrize("preview_chars", [0, 100, 2000, 10**6])
def test_a_large_result_leaves_a_preview_and_its_text_is_on_disk(store, script, chars, preview_chars):
    text = long_text(script, chars)
    message = result("c1", text, id="r1")
    short = spilled(message, "grab", buffer(preview_chars=preview_chars), store)
    shown = str(short.content)
    marker = next(m for m in MARKER.finditer(shown) if m["digest"] == store.put(text))
    assert int(marker["bytes"]) == len(text.encode())
    assert whole(store, marker["digest"]) == text
    assert len(shown) <= max(preview_chars, len(marker[0]))
    assert len(shown.encode()) <= 1000
    head, tail = shown[: marker.start()].removesuffix("\n"), shown[marker.end() :].removeprefix("\n")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert abs(len(head) - len(tail)) <= len(shown) // 2


def test_a_preview_is_cut_at_line_ends(store):
    text = "".join(f"row {number} of the harbour log\n" for number in range(3000))
    shown = str(spilled(result("c1", text), "grab", buffer(preview_chars=900), store).content)
    assert set(shown.splitlines()) - set(text.splitlines()) == {spilled_marker(len(text), store.put(text))}


@pytest.mark.parametrize(("script", "width"), [("one line", 1), ("Chinese", 3), ("emoji", 4)])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_the_threshold_counts_bytes_and_is_exceeded_above_it(store, script, width, more):
    letter = {"one line": "x", "Chinese": "泊", "emoji": "⚓"}[script] if width < 4 else "🛳"
    text = letter * 2000
    message = result("c1", text)
    short = spilled(message, "grab", buffer(2000 * width + more, preview_chars=200), store)
    assert (short is message) == (more >= 0)
    assert exceeds(message, "grab", buffer(2000 * width + more)) == (more < 0)
    assert bool(files_in(store.folder)) == (more < 0)


@pytest.mark.parametrize(
    ("tool", "settings", "spills"),
    [
        ("grab", {}, True),
        ("grab", {"enabled": False}, False),
        ("read_file", {}, False),
        ("read_file", {"exclude_tools": []}, True),
        ("grab", {"exclude_tools": ["grab"]}, False),
        ("grab", {"thresholds": {"grab": 100_000}}, False),
        ("grab", {"thresholds": {"other": 100_000}}, True),
        ("small", {"thresholds": {"small": 10}, "default_threshold": 100_000}, True),
        ("recall", {"exclude_tools": []}, False),
        ("memory_search", {"thresholds": {"memory_search": 10}}, False),
        ("memory_get", {}, False),
    ],
)
def test_what_is_spilled_depends_on_the_tool_and_the_settings(store, tool, settings, spills):
    message = result("c1", long_text(), name=tool)
    config = SpillBufferConfig.model_validate({"default_threshold": 1000, **settings})
    assert (spilled(message, tool, config, store) is not message) == spills
    assert exceeds(message, tool, config) == spills
    assert bool(files_in(store.folder)) == spills


FIELDS: dict[str, Any] = {
    "id": "t5",
    "status": "error",
    "artifact": {"rows": [1, 2]},
    "response_metadata": {"k": 1},
    "additional_kwargs": {"extra": ["kept"]},
}


class LoggedMessage(ToolMessage):
    """A kind of message that somebody else made."""

    level: int = 3


@pytest.mark.parametrize("call", IDS)
@pytest.mark.parametrize("kind", [ToolMessage, LoggedMessage])
@pytest.mark.parametrize("blocks", [False, True])
def test_only_the_content_differs_and_no_id_or_name_becomes_a_path(tmp_path, call, kind, blocks):
    store = SpillStore(tmp_path / "base" / "spill")
    text = long_text("Hindi", 200_000)
    message = kind([{"type": "text", "text": text}] if blocks else text, tool_call_id=call, name=call, **FIELDS)
    before = message.model_copy(deep=True)
    short = spilled(message, call, buffer(), store)
    assert short.model_dump(exclude={"content"}) == message.model_dump(exclude={"content"})
    assert type(short) is kind
    assert short.artifact is message.artifact
    assert message == before
    assert whole(store, digest_in(short)) == text
    assert files_in(tmp_path) == [file_of(store, store.put(text))]


IMAGE = {"type": "image", "base64": "AAAA" * 9000, "mime_type": "image/png"}
ODD = {"type": "json", "json": {"rows": [1, 2]}}


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "text", "text": "{}"}, IMAGE, ODD],
        [IMAGE, {"type": "text", "text": "{}"}, ODD],
        [IMAGE, ODD, "{}"],
        [
            IMAGE,
            {"type": "text", "text": ""},
            ODD,
            {"type": "tool_result", "content": [{"type": "text", "text": "{}"}]},
        ],
    ],
)
def test_images_and_other_blocks_stay_where_they_are(store, content):
    text = long_text("Chinese", 40_000)
    filled = json.loads(json.dumps(content).replace('"{}"', json.dumps(text)))
    short = spilled(result("c1", filled), "grab", buffer(), store)
    texts = [block for block in short.content if isinstance(block, dict) and block.get("text")]
    assert len(texts) == 1
    assert [block for block in short.content if block in (IMAGE, ODD)] == [b for b in content if b in (IMAGE, ODD)]
    assert whole(store, next(iter(references(texts[0]["text"])))) == text
    assert len(short.content) == len(filled)


def test_texts_of_several_blocks_are_kept_as_one(store):
    parts = [long_text("English", 700), long_text("Chinese", 700), long_text("emoji", 700)]
    content = [{"type": "text", "text": parts[0]}, parts[1], IMAGE, {"type": "text", "text": parts[2]}]
    short = spilled(result("c1", content), "grab", buffer(), store)
    assert [block["type"] for block in short.content] == ["text", "image"]
    assert whole(store, next(iter(references(short.content[0]["text"])))) == "".join(parts)


@pytest.mark.parametrize("content", ["", "   ", [], [IMAGE], [{"type": "text", "text": ""}], [IMAGE, ODD]])
def test_results_without_much_text_stay_the_same_object(store, content):
    message = result("c1", content)
    assert spilled(message, "grab", buffer(), store) is message
    assert not store.folder.exists()


@pytest.mark.parametrize("chars", range(1, 130, 8))
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_text_never_grows_and_never_becomes_blank(store, script, chars):
    message = result("c1", long_text(script, chars))
    short = spilled(message, "grab", buffer(0, preview_chars=0), store)
    assert len(str(short.content).encode()) <= len(str(message.content).encode())
    assert len(str(short.content)) <= len(str(message.content))
    assert short is message or str(short.content).strip()


@hypothesis_settings(max_examples=150)
@given(text=any_text, threshold=st.integers(0, 200), preview_chars=st.integers(0, 300))
def test_for_any_text_and_size_the_preview_is_small_and_the_text_is_kept(tmp_path, text, threshold, preview_chars):
    store, text = SpillStore(tmp_path / "sizes"), text * 20
    message = result("c1", text)
    short = spilled(message, "grab", buffer(threshold, preview_chars=preview_chars), store)
    if short is message:
        marker = spilled_marker(len(clean_text(text).encode()), "0" * 32)
        assert len(clean_text(text)) <= len(marker) or len(clean_text(text).encode()) <= threshold
        return
    markers = [m for m in MARKER.finditer(str(short.content)) if whole(store, m["digest"]) == clean_text(text)]
    assert len(markers) == 1
    assert len(str(short.content)) <= max(preview_chars, len(markers[0][0]))
    assert len(str(short.content).encode()) <= max(threshold, len(markers[0][0].encode()))
    assert spilled(short, "grab", buffer(threshold, preview_chars=preview_chars), store) is short


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_preview_is_not_spilled_again_when_the_settings_become_stricter(store, script):
    short = spilled(result("c1", long_text(script)), "grab", buffer(20_000, preview_chars=9000), store)
    assert len(str(short.content)) > 3000
    assert spilled(short, "grab", buffer(100, preview_chars=50), store) is short


@pytest.mark.parametrize("size", [20_000, 70_000, 10**17])
@pytest.mark.parametrize("real", [True, False])
@pytest.mark.parametrize("place", ["{marker}\n{text}", "{text}\n{marker}", "{text}\n{marker}\n{text}"])
def test_a_large_text_that_only_quotes_a_marker_is_spilled_all_the_same(store, size, real, place):
    digest = store.put("y" * size) if size < 10**6 and real else "0" * 32
    text = place.format(marker=spilled_marker(size, digest), text=long_text(chars=25_000))
    short = spilled(result("c1", text), "grab", buffer(), store)
    own = store.put(text)
    assert own in references(str(short.content))
    assert len(str(short.content)) <= 1000
    assert whole(store, own) == text


def test_a_result_that_cannot_be_written_is_an_error_here(store, monkeypatch):
    monkeypatch.setattr(spill.os, "write", full_disk)
    with pytest.raises(OSError, match="space"):
        spilled(result("c1", long_text()), "grab", buffer(), store)


def full_disk(*_: Any) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(("script", "chars"), [("English", 20_000_000), ("Chinese", 10_000_000), ("emoji", 5_000_000)])
def test_a_huge_text_is_not_copied_many_times(store, script, chars):
    text = long_text(script, chars)
    message, size = result("c1", text), sys.getsizeof(text)
    tracemalloc.start()
    try:
        short = spilled(message, "grab", buffer(), store)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert store.size(digest_in(short)) == len(text.encode())
    assert peak < size


# What a tool call returns


def failing(error: OSError) -> None:
    raise AssertionError(f"not expected: {error}")


def noting(message: ToolMessage) -> None:
    assert MARKER.search(content_text(message))


BIG = long_text("Chinese", 5000)


def shapes(message: Any) -> Iterator[tuple[str, Any, Callable[[Any], Any]]]:
    """Results that hold `message`, and where to find it in them."""
    yield "message", message, lambda r: r
    yield "list", [message, result("c2", "ok")], lambda r: r[0]
    yield "dict", Command(update={"messages": [HumanMessage("a"), message], "x": 1}), lambda r: r.update["messages"][1]
    yield "single", Command(update={"messages": message}, goto="next"), lambda r: r.update["messages"]
    yield "pairs", Command(update=[("x", 1), ("messages", [message])]), lambda r: r.update[1][1][0]
    yield "pair tuple", Command(update=(("messages", message),)), lambda r: r.update[0][1]
    yield "messages", Command(update=[message, AIMessage("b")], graph=Command.PARENT), lambda r: r.update[0]
    yield "list of commands", [Command(update={"messages": [message]}), message], lambda r: r[0].update["messages"][0]


@pytest.mark.parametrize("shape", [name for name, _, _ in shapes(None)])
def test_a_result_of_any_shape_is_spilled_and_keeps_its_shape(store, shape):
    message = result("c1", BIG, id="r1")
    [(given_result, place)] = [(made, place) for name, made, place in shapes(message) if name == shape]
    before = repr(given_result)
    changed = spilled_result(given_result, "grab", buffer(), store, failed=failing, done=noting)
    assert exceeds(given_result, "grab", buffer())
    assert whole(store, digest_in(place(changed))) == BIG
    assert type(changed) is type(given_result)
    assert repr(given_result) == before
    assert repr(changed).replace(repr(place(changed).content), repr(BIG)) == before


@pytest.mark.parametrize("shape", [name for name, _, _ in shapes(None)])
def test_a_small_result_of_any_shape_is_the_same_object(store, shape):
    [made] = [made for name, made, _ in shapes(result("c1", "ok")) if name == shape]
    assert spilled_result(made, "grab", buffer(), store, failed=failing, done=noting) is made
    assert not exceeds(made, "grab", buffer())


@pytest.mark.parametrize(
    "other",
    [None, 7, BIG, {"messages": [result("c1", BIG)]}, Command(goto="x"), Command(update=BIG), HumanMessage(BIG), [BIG]],
)
def test_anything_else_is_left_alone(store, other):
    assert spilled_result(other, "grab", buffer(), store, failed=failing, done=noting) is other
    assert not exceeds(other, "grab", buffer())


def test_only_tool_results_are_spilled(store):
    command = Command(update={"messages": [HumanMessage(BIG), AIMessage(BIG)], "notes": [result("c1", BIG)]})
    assert spilled_result(command, "grab", buffer(), store, failed=failing, done=noting) is command


def test_a_message_that_cannot_be_written_stays_and_the_reason_is_told(store, monkeypatch):
    store.put(BIG)
    other = long_text("Hindi", 5000)
    command = Command(update={"messages": [result("c1", other), result("c2", BIG)]})
    failures: list[OSError] = []
    monkeypatch.setattr(spill.os, "write", full_disk)
    changed = spilled_result(command, "grab", buffer(), store, failed=failures.append, done=noting)
    assert [error.errno for error in failures] == [errno.ENOSPC]
    assert changed.update["messages"][0] is command.update["messages"][0]
    assert whole(store, digest_in(changed.update["messages"][1])) == BIG


@pytest.mark.parametrize("shape", [name for name, _, _ in shapes(None)])
def test_on_a_full_disk_every_result_stays_as_it_is(store, monkeypatch, shape):
    monkeypatch.setattr(spill.os, "fsync", full_disk)
    failures: list[OSError] = []
    [made] = [made for name, made, _ in shapes(result("c1", BIG)) if name == shape]
    assert spilled_result(made, "grab", buffer(), store, failed=failures.append, done=noting) is made
    assert failures
    assert files_in(store.folder) == []
