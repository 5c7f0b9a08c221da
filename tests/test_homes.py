"""Whose memory is where: a keeper a namespace, the folders that hold something, the name in the record."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_memory import homes as module
from langgraph_memory.homes import Homes
from langgraph_memory.place import Place
from tests.support.processes import as_nobody, done

USERS = ["ada", "Ada", ".hidden", "..", "a/b", "memory", "spill", "sessions", "archive", "用户", "nul", " ", "x" * 300]


def place(user: Any = "ada", **more: Any) -> Place:
    return Place("t-1", configurable={"user_id": user, **more})


def homes_in(folder: Path | None, *template: str) -> Homes:
    return Homes(folder, template or ("{user_id}",))


# Of a run


def test_a_run_finds_the_same_keeper_again(tmp_path: Path) -> None:
    homes = homes_in(tmp_path)
    ada = homes.of(place())
    assert ada is not None and ada is homes.of(Place("t-2", configurable={"user_id": "ada"}))
    assert ada is not homes.of(place("bob"))
    assert ada.folder.path == tmp_path / "ada"


@pytest.mark.parametrize("missing", [Place("t-1"), place(""), place(None), place(True), place(b"ada")])
def test_where_it_is_not_known_whose_memory_it_is_there_is_none(tmp_path: Path, missing: Place) -> None:
    homes = homes_in(tmp_path)
    assert homes.of(missing) is homes.space(missing) is homes.namespace(missing) is None


def test_without_a_workspace_there_is_none(tmp_path: Path) -> None:
    homes = homes_in(None)
    assert homes.of(place()) is None
    assert homes.all() == []


def test_to_look_for_a_keeper_touches_no_file(tmp_path: Path) -> None:
    workspace = tmp_path / "nowhere"
    homes = homes_in(workspace)
    assert homes.of(place()) is not None
    assert homes.space(place()) == "ada"
    assert not workspace.exists()


def test_the_user_is_found_in_the_context_and_as_the_server_knows_it(tmp_path: Path) -> None:
    homes = homes_in(tmp_path)
    assert homes.space(Place("t-1", context={"user_id": "ada"})) == "ada"
    assert homes.space(Place("t-1", configurable={"langgraph_auth_user_id": "ada"})) == "ada"


def test_a_template_without_names_is_shared(tmp_path: Path) -> None:
    homes = Homes(tmp_path, ())
    assert homes.space(Place("t-1")) == "."
    keeper = homes.of(place())
    assert keeper is not None and keeper.folder.path == tmp_path
    keeper.append(["tea"])
    assert homes.all() == [keeper]


@given(st.lists(st.sampled_from(USERS) | st.text(min_size=1), min_size=2, max_size=4, unique=True))
def test_two_users_never_share_a_space(users: list[str]) -> None:
    homes = homes_in(Path("work"))
    spaces = [space for user in users if (space := homes.space(place(user))) is not None]
    assert len({space.casefold() for space in spaces}) == len(spaces)
    assert not any(part in ("..", ".") or part.startswith(".") for space in spaces for part in space.split("/"))


# All of them


def test_all_that_hold_anything_are_found_whatever_their_user_is_called(tmp_path: Path) -> None:
    homes = homes_in(tmp_path)
    kept = [keeper for user in USERS if (keeper := homes.of(place(user))) is not None]
    for keeper in kept:
        keeper.append(["tea"])
    homes.of(place("nobody"))
    homes.close()
    found = homes.all()
    assert sorted(keeper.folder.path for keeper in found) == sorted(keeper.folder.path for keeper in kept)
    assert {homes.space_of(keeper) for keeper in found} == {homes.space(place(user)) for user in USERS} - {None}


def test_the_keeper_of_a_run_is_the_one_that_is_found(tmp_path: Path) -> None:
    homes = homes_in(tmp_path, "team-{team}", "{user_id}")
    keeper = homes.of(place(team="a"))
    assert keeper is not None
    keeper.append(["tea"])
    assert homes.all() == [keeper]
    assert homes.space_of(keeper) == homes.space(place(team="a")) == "team-a/ada"


@pytest.mark.parametrize("name", ["MEMORY.md", "memory/2026-11-30.md", "index.db", "sessions/t-1.jsonl"])
def test_a_folder_with_any_of_its_files_counts(tmp_path: Path, name: str) -> None:
    file = tmp_path / "ada" / name
    file.parent.mkdir(parents=True)
    file.touch()
    assert [keeper.folder.path for keeper in homes_in(tmp_path).all()] == [tmp_path / "ada"]


def test_what_is_no_namespace_is_not_taken_for_one(tmp_path: Path) -> None:
    for name in ("spill", "archive", ".hidden", "ada/memory", "ada/deeper"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "MEMORY.md").touch()
    (tmp_path / "outside").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "link").symlink_to(tmp_path / "ada", target_is_directory=True)
    assert [keeper.folder.path for keeper in homes_in(tmp_path).all()] == [tmp_path / "ada"]
    assert homes_in(tmp_path / "work").all() == []


def test_a_folder_that_cannot_be_read_hides_no_other() -> None:
    # In a folder of its own, which others may enter.
    with tempfile.TemporaryDirectory() as path:
        workspace = Path(path)
        for name in ("a/ada", "b/bob"):
            (workspace / name).mkdir(parents=True)
            (workspace / name / "MEMORY.md").touch()
        workspace.chmod(0o755)

        def found() -> None:
            assert [one.folder.path.name for one in homes_in(workspace, "{team}", "{user_id}").all()] == ["bob"]

        (workspace / "a").chmod(0o000)
        try:
            assert done(as_nobody(found)) == 0
        finally:
            (workspace / "a").chmod(0o755)


@pytest.mark.parametrize("there", [False, True])
def test_a_workspace_that_is_no_folder_holds_none(tmp_path: Path, there: bool) -> None:
    workspace = tmp_path / "work"
    if there:
        workspace.write_text("in the way")
    assert homes_in(workspace).all() == []


# Kept open


def test_only_so_many_are_held_open_and_those_used_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OPEN", 2)
    homes = homes_in(tmp_path)
    ada, bob = homes.of(place("ada")), homes.of(place("bob"))
    assert ada is not None
    ada.append(["tea"])
    assert homes.of(place("ada")) is ada
    homes.of(place("eve"))
    assert homes.of(place("ada")) is ada
    assert homes.of(place("bob")) is not bob
    homes.of(place("eve"))
    # Whoever still has one that was closed goes on with it.
    assert [row.entry.text for row in ada.ledger()] == ["tea"]
    ada.append(["jazz"])
    again = homes.of(place("ada"))
    assert again is not None
    assert {hit.text for hit in again.search("tea jazz")} == {"tea", "jazz"}


def test_what_was_closed_is_opened_again(tmp_path: Path) -> None:
    homes = homes_in(tmp_path)
    keeper = homes.of(place())
    assert keeper is not None
    keeper.append(["tea"])
    homes.close()
    homes.close()
    again = homes.of(place())
    assert again is not None
    assert [hit.text for hit in again.search("tea")] == ["tea"]


def test_threads_that_ask_at_once_get_the_same_keeper(tmp_path: Path) -> None:
    homes, found = homes_in(tmp_path), list[Any]()
    barrier = threading.Barrier(8)

    def ask() -> None:
        barrier.wait(30)
        found.append(homes.of(place()))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 8
    assert len(set(map(id, found))) == 1
