"""The tools for a folder, and who tries to get out of it or to hold it up."""

import os
from pathlib import Path

import pytest

from langgraph_memory.cli import chat_folder, chat_tools
from langgraph_memory.cli.chat_folder import Folder, FolderError
from langgraph_memory.cli.chat_tools import folder_tools


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "inside"
    (inside / "docs").mkdir(parents=True)
    (inside / "a.py").write_text("def harbour():\n    return 'tide'\n", encoding="utf-8")
    (inside / "docs" / "b.md").write_text("Tide\n" * 500, encoding="utf-8")
    (inside / ".env").write_text("KEY=tide", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("tide of secrets", encoding="utf-8")
    return inside


def use(folder: Path, name: str, private: tuple[Path, ...] = (), **arguments: object) -> str:
    tools = {tool.name: tool for tool in folder_tools(Folder.of(folder, private))}
    return str(tools[name].invoke(arguments))


def test_files_are_listed_found_and_read(folder):
    assert use(folder, "list_files") == "a.py (33 B)\ndocs/b.md (2 KB)"
    assert use(folder, "list_files", pattern="**/*.md").startswith("docs/b.md")
    assert use(folder, "list_files", pattern="docs/*").startswith("docs/b.md")
    assert use(folder, "list_files", pattern="*.rs") == "No file of the folder fits '*.rs'."
    assert use(folder, "grep", pattern="t.de", files="*.py") == "a.py:2: return 'tide'"
    assert use(folder, "grep", pattern="HARBOUR", ignore_case=True) == "a.py:1: def harbour():"
    assert use(folder, "grep", pattern="whale") == "no match"
    assert use(folder, "read", path="a.py") == "   1 def harbour():\n   2     return 'tide'"
    assert use(folder, "read", path=str(folder / "a.py"), start=2, lines=1) == "   2     return 'tide'"
    assert use(folder, "read", path="docs/b.md").endswith("(300 more lines; go on with start=201)")
    assert use(folder, "read", path="a.py", start=9) == "'a.py' has 2 lines; there is nothing at 9."
    assert "more than 100 lines match" in use(folder, "grep", pattern="Tide")


@pytest.mark.parametrize(
    "path", ["../secret.txt", "docs/../../secret.txt", "link.txt", "away/secret.txt", "{outside}", "/etc/passwd", "~/x"]
)
def test_nothing_outside_of_the_folder_is_read(folder, path):
    (folder / "link.txt").symlink_to(folder.parent / "secret.txt")
    (folder / "away").symlink_to(folder.parent)
    answer = use(folder, "read", path=path.format(outside=folder.parent / "secret.txt"))
    assert "secrets" not in answer and "root:" not in answer
    assert "is outside of the folder" in answer or path == "~/x"
    assert "link.txt" not in use(folder, "list_files")
    assert "secret" not in use(folder, "list_files") and "secret" not in use(folder, "grep", pattern="tide")


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000, "", ".", "docs", ".env", "docs/../.env", "none.txt", "\ud800"])
def test_what_is_no_file_to_be_read_is_said(folder, path):
    answer = use(folder, "read", path=path)
    assert len(answer.splitlines()) == 1 and answer.endswith(".") and "KEY" not in answer


def test_what_the_memory_keeps_and_hidden_files_are_left_out(folder):
    (folder / "memory").mkdir()
    (folder / "memory" / "MEMORY.md").write_text("tide of Bob", encoding="utf-8")
    (folder / "threads.db-wal").write_text("tide", encoding="utf-8")
    private = (folder / "memory", folder / "threads.db")
    assert "memory" not in use(folder, "list_files", private) and "threads" not in use(folder, "list_files", private)
    assert "Bob" not in use(folder, "grep", private, pattern="tide")
    assert "belongs to the memory" in use(folder, "read", private, path="memory/MEMORY.md")
    assert ".env" not in use(folder, "list_files") and "KEY" not in use(folder, "grep", pattern="tide")


def test_binary_and_huge_files_are_told_not_read(folder):
    (folder / "picture.png").write_bytes(b"\x89PNG\0\0tide")
    (folder / "latin.txt").write_bytes("Gezeiten f\xfcr alle".encode("latin-1"))
    with (folder / "huge.txt").open("wb") as file:
        file.truncate(50_000_000)
    assert use(folder, "read", path="picture.png").startswith("'picture.png' is a binary file")
    assert use(folder, "read", path="huge.txt") == "'huge.txt' has 50.0 MB; files above 5.0 MB are not read."
    assert "Gezeiten" in use(folder, "read", path="latin.txt")
    assert "huge" not in use(folder, "grep", pattern="tide") and "huge.txt (50.0 MB)" in use(folder, "list_files")


def test_one_endless_line_is_cut(folder):
    (folder / "line.txt").write_text("tide " * 400_000, encoding="utf-8")
    assert len(use(folder, "read", path="line.txt")) < chat_tools.READ_LINE_CHARS + 100
    assert len(use(folder, "grep", pattern="tide", files="line.txt")) < chat_tools.LINE_CHARS + 100


def test_a_pipe_in_the_folder_holds_nothing_up(folder):
    os.mkfifo(folder / "pipe.txt")
    assert "not a regular file" in use(folder, "read", path="pipe.txt")
    assert "pipe.txt" not in use(folder, "list_files")


@pytest.mark.parametrize("pattern", ["(", "[z-a]", "(?P<x", "a{2,1}", "\\", "(?<=a+*)"])
def test_a_pattern_that_is_none_is_answered(folder, pattern):
    assert "is not a regular expression" in use(folder, "grep", pattern=pattern)


def test_a_pattern_that_explodes_is_cut_off(folder, monkeypatch):
    monkeypatch.setattr(chat_tools, "MATCH_SECONDS", 0.05)
    (folder / "bad.txt").write_text(("a" * 40 + "!\n") * 20, encoding="utf-8")
    assert "takes too long" in use(folder, "grep", pattern="(a|aa)+$", files="bad.txt")


def test_a_long_pattern_and_many_files_are_bounded(folder, monkeypatch):
    assert "at most 1000" in use(folder, "grep", pattern="a" * 2000)
    monkeypatch.setattr(chat_folder, "MOST_FILES", 1)
    assert use(folder, "list_files").splitlines()[0].startswith("a.py")
    assert "docs" not in use(folder, "list_files")
    monkeypatch.setattr(chat_tools, "GREP_SECONDS", -1.0)
    assert "stopped after" in use(folder, "grep", pattern="tide")


def test_a_folder_that_is_none_is_refused(folder):
    with pytest.raises(FolderError, match="is not a folder"):
        Folder.of(folder / "a.py")
