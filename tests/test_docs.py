"""What the documents name is there. Their code blocks are run in `tests/docs/`."""

import re
from pathlib import Path

from typer.main import get_command

from langgraph_memory import MemoryMiddleware
from langgraph_memory.cli import app

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_first_block_installs_and_replays_in_one_line() -> None:
    first = re.search(r"^```(\w+)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    assert first and first[1] == "sh"
    assert first[2].count("\n") == 1
    assert ".venv" in first[2] and first[2].rstrip().endswith("lgm replay")


def test_every_command_the_readme_shows_exists() -> None:
    shown = set(re.findall(r"\blgm ([a-z]+)", README))
    known = set(get_command(app).commands)
    assert shown and shown <= known


def test_every_public_method_the_readme_shows_exists() -> None:
    shown = set(re.findall(r"\bmemory\.([a-z_]+)\(", README))
    assert shown and all(hasattr(MemoryMiddleware, name) for name in shown)


def test_every_file_the_architecture_names_exists() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    package = ROOT / "langgraph_memory"
    named = set(re.findall(r"`((?:context/|cli/)?[a-z_]+\.py)`", text))
    assert named and not [name for name in named if not (package / name).exists()]
