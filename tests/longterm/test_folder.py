"""The files of a namespace: whole at every moment, for their owner only, and nowhere else."""

import errno
import os
import stat
import threading

import pytest

from langgraph_memory.longterm.folder import LEDGER, MEMORY, STATE, Folder, WorkspaceError
from tests.support.processes import done

LOG = "memory/2031-04-12.md"


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "ws", ("ada",))


def everything(path):
    return {str(one.relative_to(path)): one.read_bytes() for one in path.rglob("*") if one.is_file()}


def test_nothing_is_made_before_something_is_written(folder):
    assert folder.bytes_of(MEMORY) is None and folder.size(MEMORY) == 0 and folder.names(LEDGER) == []
    assert not folder.exists() and folder.copies() == []
    assert not folder.workspace.exists()


def test_files_and_folders_are_for_their_owner_only(folder):
    old = os.umask(0)
    try:
        with folder.locked():
            folder.append(LOG, b"a\n")
            folder.replace(STATE, b"{}")
            folder.replace("memory/history/v.md", b"x")
    finally:
        os.umask(old)
    for path in [folder.workspace, *folder.workspace.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_path_stays_where_it_was_when_the_program_goes_elsewhere(tmp_path, monkeypatch):
    folder = Folder("ws")
    folder.replace(MEMORY, b"here")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir("other")
    assert folder.bytes_of(MEMORY) == b"here"


@pytest.mark.parametrize("written", [0, 1, 7])
def test_a_disk_that_is_full_leaves_a_file_as_it_was(folder, monkeypatch, written):
    folder.append(LOG, b"before\n")
    real = os.write
    left = [written]

    def write(descriptor, data):
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        some = real(descriptor, bytes(data[: left[0]]))
        left[0] -= some
        return some

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(OSError, match="No space"):
        folder.append(LOG, b"what is too much\n")
    monkeypatch.undo()
    assert folder.bytes_of(LOG) == b"before\n"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_replacement_that_fails_leaves_the_old_file_and_nothing_else(folder, monkeypatch, step):
    folder.replace(MEMORY, b"old")
    before = everything(folder.path)

    def fail(*_):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="broken"):
        folder.replace(MEMORY, b"new")
    assert everything(folder.path) == before


def test_what_a_crash_left_of_a_replacement_is_swept_away_and_nothing_of_a_person(folder):
    def crash():
        os.fsync = lambda _: os._exit(7)
        folder.replace(LOG, b"secret")

    folder.replace(LOG, b"old")
    (folder.path / ".notes.tmp").write_text("mine")
    assert done(crash) == 7
    assert b"secret" in everything(folder.path).values()
    folder.sweep()
    assert sorted(everything(folder.path).values()) == [b"mine", b"old"]


def links(folder, outside):
    """Ways to lead a name elsewhere, each with the name."""
    return {
        "file": (folder.path / LOG, outside / "file.md", LOG),
        "memory": (folder.path / MEMORY, outside / "file.md", MEMORY),
        "folder": (folder.path / LEDGER, outside, "memory/file.md"),
        "namespace": (folder.path, outside, "file.md"),
        "dangling": (folder.path / LOG, outside / "none.md", LOG),
        "neighbour": (folder.path / LEDGER, folder.workspace / "bob" / LEDGER, "memory/file.md"),
    }


@pytest.mark.parametrize("kind", ["file", "memory", "folder", "namespace", "dangling", "neighbour"])
def test_a_link_is_followed_by_nothing(folder, tmp_path, kind):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file.md").write_bytes(b"theirs")
    bob = Folder(folder.workspace, ("bob",))
    bob.replace("memory/file.md", b"bob's")
    before = everything(outside), everything(bob.path)
    link, target, name = links(folder, outside)[kind]
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)

    for act in (
        lambda: folder.append(name, b"x"),
        lambda: folder.replace(name, b"x"),
        lambda: folder.bytes_of(name),
        lambda: folder.truncate(name, 0),
    ):
        with pytest.raises(WorkspaceError, match=r"link|leads to"):
            act()
    if kind in ("folder", "namespace", "neighbour"):
        with pytest.raises(WorkspaceError, match="leads to"):
            folder.names(name.rpartition("/")[0])
    else:
        assert folder.names(name.rpartition("/")[0]) == []
    assert (everything(outside), everything(bob.path)) == before


def test_the_workspace_itself_may_be_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "ws").symlink_to(tmp_path / "real")
    Folder(tmp_path / "ws", ("ada",)).append(LOG, b"x")
    assert (tmp_path / "real" / "ada" / LOG).read_bytes() == b"x"


def test_a_lock_that_is_a_link_is_refused_and_its_target_stays(folder, tmp_path):
    (tmp_path / "precious").write_bytes(b"theirs")
    folder.path.mkdir(parents=True)
    (folder.path / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(WorkspaceError, match="link"), folder.locked():
        pass
    assert (tmp_path / "precious").read_bytes() == b"theirs"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_refused_without_waiting_for_it(folder, make):
    (folder.path / LEDGER).mkdir(parents=True)
    for name in (MEMORY, LOG):
        make(folder.path / name)
        for act in (lambda name=name: folder.bytes_of(name), lambda name=name: folder.append(name, b"x")):
            with pytest.raises(WorkspaceError):
                act()
    assert folder.names(LEDGER) == [] and folder.names() == []


@pytest.mark.parametrize(
    "name", ["a\0b.md", "\ud83d.md", "x" * 300 + ".md", "../x.md", "../../etc/passwd", "/etc/passwd"]
)
def test_a_name_that_is_none_is_refused(folder, name):
    folder.replace(MEMORY, b"x")
    for act in (folder.bytes_of, lambda name: folder.append(name, b"x")):
        with pytest.raises(WorkspaceError):
            act(name)
    assert everything(folder.workspace.parent) == {"ws/ada/MEMORY.md": b"x"}


def test_a_file_in_the_place_of_a_folder_is_told(tmp_path):
    (tmp_path / "ws").write_text("a file")
    for folder in (Folder(tmp_path / "ws"), Folder(tmp_path / "ws", ("ada",))):
        with pytest.raises(WorkspaceError, match="ws"), folder.locked():
            pass
        assert folder.bytes_of(MEMORY) is None and folder.names(LEDGER) == []


# The lock


def test_one_holds_the_lock_and_the_others_wait(folder):
    inside, most, seen = [0], [0], []
    lock = threading.Lock()

    def work():
        for _ in range(5):
            with folder.locked(), folder.locked():
                with lock:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                with lock:
                    inside[0] -= 1
        seen.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] and len(seen) == 8


def test_who_waits_too_long_is_told_where(folder):
    held, go = threading.Event(), threading.Event()

    def hold():
        with folder.locked():
            held.set()
            go.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)
    try:
        with pytest.raises(WorkspaceError, match="ada"), folder.locked(0.05):
            pass
        # Also from another object of the same folder, and from another process.
        with pytest.raises(WorkspaceError), Folder(folder.workspace, ("ada",)).locked(0.05):
            pass

        def other():
            with pytest.raises(WorkspaceError), Folder(folder.workspace, ("ada",)).locked(0.05):
                pass

        assert done(other) == 0
    finally:
        go.set()
        thread.join()
    with folder.locked(1):
        pass


def test_a_process_that_is_killed_holds_no_lock(folder):
    def die():
        with folder.locked():
            os.kill(os.getpid(), 9)

    assert done(die) == -9
    with folder.locked(5):
        pass


# Copies


def test_a_damaged_file_is_kept_aside_once_for_each_damage(folder):
    folder.replace(MEMORY, b"\xff")
    assert folder.keep_aside(MEMORY) == folder.keep_aside(MEMORY)
    folder.replace(MEMORY, b"\xfe")
    folder.keep_aside(MEMORY)
    folder.replace(STATE, b"{")
    folder.keep_aside(STATE)
    assert {folder.bytes_of(name) for name in folder.copies()} == {b"\xff", b"\xfe", b"{"}
    assert folder.names() == [MEMORY]
