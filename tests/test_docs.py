"""What the documentation shows is run: code blocks with a scripted model, configuration through the real loader."""

import re
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage
from typer.main import get_command

from langgraph_memory import MemoryMiddleware, RuntimeConfig
from langgraph_memory.cli import app
from tests.support.models import Scripted

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("code", blocks("python"), ids=lambda code: re.findall(r"^from (\S+)", code, re.MULTILINE)[0])
def test_a_python_block_of_the_readme_runs(code: str, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    model = Scripted(replies=[AIMessage("All is well.")])
    monkeypatch.setattr("langchain.chat_models.init_chat_model", lambda name: model)
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert "All is well." in capsys.readouterr().out


@pytest.mark.parametrize("block", blocks("json"))
def test_a_json_block_of_the_readme_is_a_valid_configuration(block: str) -> None:
    assert RuntimeConfig.model_validate_json(block) != RuntimeConfig()


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
