"""Earlier versions of MEMORY.md: listed, compared, brought back, pruned."""

import threading
from pathlib import Path

import pytest

from langgraph_memory.longterm import history
from langgraph_memory.longterm.folder import WorkspaceError
from langgraph_memory.longterm.keeper import Keeper


@pytest.fixture
def keeper(tmp_path: Path) -> Keeper:
    return Keeper(tmp_path / "memory", ("ada",))


def written(keeper: Keeper, *texts: str) -> None:
    for text in texts:
        assert keeper.replace_memory(text, was=keeper.memory_md())


def test_versions_are_listed_newest_first(keeper: Keeper) -> None:
    assert history.versions(keeper) == []
    written(keeper, "- one\n", "- 二\n", "- three\n")
    there = history.versions(keeper)
    assert [history.text(keeper, one.path) for one in there] == ["- 二\n", "- one\n"]
    assert there[0].when > there[1].when
    assert history.text(keeper) == "- three\n"


def test_other_files_are_no_versions(keeper: Keeper) -> None:
    written(keeper, "- one\n", "- two\n")
    keeper.folder.replace("memory/history/notes.md", b"mine")
    keeper.folder.replace("memory/history/20269999T999999999999Z-ab.md", b"odd")
    assert len(history.versions(keeper)) == 2
    assert history.prune(keeper, 0) == 2
    assert keeper.folder.bytes_of("memory/history/notes.md") == b"mine"


def test_a_version_is_named_by_any_part_that_tells_it(keeper: Keeper) -> None:
    written(keeper, "- one\n", "- two\n", "- three\n")
    newest, oldest = history.versions(keeper)
    for name in (oldest.path, Path(oldest.path).name, Path(oldest.path).stem, oldest.digest, oldest.digest[:6]):
        assert history.version(keeper, name) == oldest
    for wrong in ("2", "", "zzz", "../../MEMORY"):
        with pytest.raises(WorkspaceError):
            history.version(keeper, wrong)
    assert history.version(keeper, newest.digest) == newest


def test_the_difference_between_versions(keeper: Keeper) -> None:
    assert history.diff(keeper) == ""
    written(keeper, "- one\n", "- one\n- 二\n", "- one\n- three\n")
    newest, oldest = history.versions(keeper)
    assert history.diff(keeper).splitlines()[:2] == [f"--- {newest.path}", "+++ MEMORY.md"]
    assert "-- 二\n+- three\n" in history.diff(keeper)
    assert "+- 二\n" in history.diff(keeper, oldest.path, newest.path)
    assert history.diff(keeper, newest.path, newest.path) == ""
    with pytest.raises(WorkspaceError):
        history.diff(keeper, "none")


def test_to_revert_is_a_new_version(keeper: Keeper) -> None:
    written(keeper, "- one\n", "- two\n")
    (oldest,) = history.versions(keeper)
    assert history.revert(keeper, oldest.digest)
    assert keeper.memory_md() == "- one\n"
    assert [history.text(keeper, one.path) for one in history.versions(keeper)] == ["- two\n", "- one\n"]
    assert history.revert(keeper, history.versions(keeper)[0].path)
    assert keeper.memory_md() == "- two\n"
    assert [hit.text for hit in keeper.search("two")] == ["two"]


def test_to_revert_to_what_is_there_changes_nothing(keeper: Keeper) -> None:
    written(keeper, "- one\n", "- two\n", "- one\n")
    before = history.versions(keeper)
    assert history.revert(keeper, before[-1].path)
    assert history.versions(keeper) == before


def test_a_revert_never_overwrites_a_change_of_that_moment(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    written(keeper, "- one\n", "- two\n")
    original = history.text

    def slow(keeper: Keeper, name: str = history.PRESENT) -> str:
        keeper.folder.replace("MEMORY.md", b"- by hand\n")
        return original(keeper, name)

    monkeypatch.setattr(history, "text", slow)
    assert not history.revert(keeper, history.versions(keeper)[0].path)
    assert keeper.memory_md() == "- by hand\n"


def test_only_the_newest_are_kept(keeper: Keeper) -> None:
    written(keeper, *(f"- version {n}\n" for n in range(12)))
    threads = [
        threading.Thread(target=history.prune, args=(Keeper(keeper.folder.workspace, ("ada",)), 4)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [history.text(keeper, one.path) for one in history.versions(keeper)] == [
        f"- version {n}\n" for n in (10, 9, 8, 7)
    ]
    assert history.prune(keeper) == 0
