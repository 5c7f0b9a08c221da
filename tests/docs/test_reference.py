"""The documents that are made from the code are those that the code makes now."""

import ast
import copy
import importlib.util
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from langgraph_memory.config import config_fields
from tests.cli.recorded import lgm

from .blocks import ROOT


def _generator():
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec and spec.loader
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generate = _generator()


@pytest.mark.parametrize("name", generate.DOCUMENTS)
def test_a_document_is_what_the_code_makes(name: str) -> None:
    written = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert written == generate.DOCUMENTS[name](), "run: python docs/generate.py"


def test_every_key_has_a_test_that_shows_it_and_every_test_shows_keys_that_exist() -> None:
    assert set(generate.shown_by()) == set(config_fields())


def test_every_test_of_a_key_names_it() -> None:
    for key, tests in generate.shown_by().items():
        for test in tests:
            source = _without_mark(ROOT / test.path, test.name)
            assert key.rpartition(".")[2] in source, (key, test)


def _without_mark(path: Path, name: str) -> str:
    """The source of a test and of what it uses from its file, but for the mark."""
    named = _named(path)
    test = copy.copy(named[name])
    test.decorator_list = [mark for mark in test.decorator_list if "mark.shows" not in ast.unparse(mark)]
    used = {part.id for part in ast.walk(test) if isinstance(part, ast.Name)} - {name}
    return "\n".join(map(ast.unparse, [test, *(named[each] for each in used & set(named))]))


@cache
def _named(path: Path) -> dict[str, Any]:
    """What a file defines: functions, classes and values."""
    found: dict[str, Any] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        found |= dict.fromkeys([getattr(node, "name", ""), *map(ast.unparse, targets)], node)
    return found


def test_a_mark_is_found_on_functions_sync_and_async(tmp_path: Path) -> None:
    file = tmp_path / "tests" / "test_made.py"
    file.parent.mkdir()
    file.write_text(
        "@pytest.mark.shows('a', 'b')\ndef test_one(): pass\n@pytest.mark.shows('b')\nasync def test_two(): pass\n"
    )
    found = generate.shown_by(tmp_path)
    assert {key: [test.name for test in tests] for key, tests in found.items()} == {
        "a": ["test_one"],
        "b": ["test_one", "test_two"],
    }


@pytest.mark.parametrize("command", [*generate.commands_of()], ids=lambda command: command.path)
def test_a_command_that_may_end_with_1_says_when(command) -> None:
    assert ("exit code is 1" in " ".join(command.help.split())) == command.may_exit_with_1


@pytest.mark.parametrize("path", ["lgm replay", "lgm log", "lgm search", "lgm threads", "lgm memory forget"])
def test_the_reference_of_a_command_says_what_its_help_says(path: str) -> None:
    [command] = [each for each in generate.commands_of() if each.path == path]
    shown = " ".join(lgm(*path.split()[1:], "--help").stdout.split())
    assert len(command.parameters) >= 2
    for each in command.parameters:
        assert all(name.split()[0] in shown for name in each.shown.split(", ")), each.shown
        assert " ".join(each.info.help.split()) in shown


def test_the_exit_codes_of_a_command_are_told_once() -> None:
    sections = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8").split("\n## ")[1:]
    assert {section.count("Exit codes:") for section in sections} == {1}
    [chat] = [section for section in sections if section.startswith("lgm chat\n")]
    assert "Exit codes: 0 left; 1 a turn failed" in chat
