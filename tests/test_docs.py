"""What the documents name is there. Their code blocks are run in `tests/docs/`."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

from langgraph_memory import MemoryMiddleware
from langgraph_memory.cli import app
from tests.docs.blocks import DOCUMENTS, ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
TESTS = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]


def test_the_first_block_installs_and_replays_in_one_line() -> None:
    first = re.search(r"^```(\w+)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    assert first and first[1] == "sh"
    assert first[2].count("\n") == 1
    assert ".venv" in first[2] and first[2].rstrip().endswith("lgm replay")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_a_document_shows_exists(path: Path) -> None:
    shown = set(
        re.findall(r"`(?:\.venv/bin/)?lgm ([a-z]+)|^\$ (?:\S+/)?lgm ([a-z]+)", path.read_text(encoding="utf-8"), re.M)
    )
    assert {one or other for one, other in shown} <= set(get_command(app).commands)
    assert shown or path != DOCUMENTS[0]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_test_a_document_names_exists(path: Path) -> None:
    named = set(re.findall(r"`(test_\w+)`", path.read_text(encoding="utf-8")))
    defined = {name for text in TESTS for name in re.findall(r"^(?:async )?def (test_\w+)", text, re.MULTILINE)}
    assert named <= defined


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_to_a_file_leads_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    assert not [link for link in links if "://" not in link and not (path.parent / link).exists()]


def test_every_public_method_the_readme_shows_exists() -> None:
    shown = set(re.findall(r"\bmemory\.([a-z_]+)\(", README))
    assert shown and all(hasattr(MemoryMiddleware, name) for name in shown)


def test_every_file_the_architecture_names_exists() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    package = ROOT / "langgraph_memory"
    named = set(re.findall(r"`((?:context/|cli/)?[a-z_]+\.py)`", text))
    assert named and not [name for name in named if not (package / name).exists()]
