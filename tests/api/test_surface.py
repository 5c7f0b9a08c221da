"""Public names, signatures, events and keys change on purpose only."""

import tomllib
from difflib import unified_diff
from importlib.resources import files
from pathlib import Path

from tests.api.surface import surface

ACCEPTED = Path(__file__).with_name("surface.txt")
ACCEPT = "python -m tests.api.surface > tests/api/surface.txt"


def test_the_public_surface_is_the_accepted_one():
    accepted = ACCEPTED.read_text(encoding="utf-8").splitlines()
    difference = "\n".join(unified_diff(accepted, list(surface()), "accepted", "now", lineterm="", n=1))
    assert not difference, f"The public surface has changed. Accept it on purpose with: {ACCEPT}\n{difference}"


def test_it_holds_what_programs_rely_on():
    lines = [line.strip() for line in surface()]
    for beginning in (
        "class MemoryMiddleware(AgentMiddleware, Runnable)",
        "async def compact(self, graph: Any",
        "saver (attribute)",
        "class ContextReport()",
        "total: int",
        "compacted actions",
        "memory.pruning.protect_recent = 3 ",
    ):
        assert [line for line in lines if line.startswith(beginning)], beginning
    assert not [line for line in lines if " at 0x" in line]


def test_types_are_shipped_and_what_users_see_of_them_is_checked():
    assert files("langgraph_memory").joinpath("py.typed").is_file()
    settings = tomllib.loads((ACCEPTED.parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["tool"]["mypy"]["files"] == ["langgraph_memory", "tests/typing"]
    assert settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["langgraph_memory"]
