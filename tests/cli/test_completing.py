import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from .recorded import lgm, lgm_json, talk


def completed(*words: str, shell: str = "bash") -> list[str]:
    """What a shell would offer for the last of the words."""
    line = " ".join(("lgm", *words))
    environ = {"COMP_WORDS": line, "COMP_CWORD": str(len(words)), "_TYPER_COMPLETE_ARGS": line}
    result = lgm(_LGM_COMPLETE=f"complete_{shell}", _COMPLETE=f"complete_{shell}", **environ)
    assert result.stderr == ""
    return [line for line in result.stdout.splitlines() if line]


@pytest.fixture(autouse=True)
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_LGM_COMPLETE", "")


def test_threads_are_completed_the_one_changed_last_first():
    talk("one", thread="first")
    talk("two", thread="fork")
    talk("three", thread="other")
    assert completed("view", "f") == ["fork", "first"]
    assert completed("diff", "first", "o") == ["other"]
    assert completed("threads", "rm", "fir") == ["first"]


def test_checkpoints_are_completed_for_the_thread_that_was_named():
    talk("one", thread="first")
    newest = [node["checkpoint_id"] for node in lgm_json("tree", "first")][::-1]
    assert completed("view", "first", "--at", newest[0][:8]) == newest
    assert completed("rewind", "first", newest[0]) == newest[:1]
    assert completed("diff", "first@") == [f"first@{id}" for id in newest]
    assert completed("view", "nope", "--at", "1") == []


@pytest.mark.parametrize("there", ["nothing", "damage", "bad configuration"])
def test_where_nothing_can_be_read_nothing_is_offered_and_nothing_said(there):
    if there == "damage":
        Path("memory").mkdir()
        Path("memory/threads.db").write_text("no database " * 500)
    if there == "bad configuration":
        Path("runtime.json").write_text("{")
    before = sorted(Path().rglob("*"))
    assert completed("view", "f") == [] and completed("view", "t", "--at", "1") == []
    assert sorted(Path().rglob("*")) == before


def test_a_database_that_is_being_written_is_read_at_once():
    talk("one", thread="first")
    with closing(sqlite3.connect("memory/threads.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert completed("view", "f") == ["first"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_the_script_of_each_shell_is_shown(shell, monkeypatch):
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    result = lgm("--show-completion", shell)
    assert result.exit_code == 0 and "_COMPLETE" in result.stdout
