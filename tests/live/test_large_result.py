"""Very large tool results: the thread keeps a preview, and every line of the rest is a recall away."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.large import LINE, line, measured, shown, stored
from tests.live.programs import Program

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

MILLION = 1_000_000
FEWER = 100_000


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """It is gone after the test, as what lies in it is large."""
    folder = tmp_path / "large"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


def test_of_fifty_megabytes_the_thread_stores_kilobytes_and_every_line_can_be_found(folder):
    lookups = {"pattern": "entry 0900000"}, {"offset": LINE * (MILLION - 3)}, {"offset": LINE * MILLION}
    results, costs = measured(folder, MILLION, *lookups, way="create_agent")
    small, preview, found, end, beyond = results
    assert small == f"{line(1)}\n"
    assert f"[spilled: {LINE * MILLION} bytes" in preview
    assert preview.startswith(f"{line(1)}\n") and preview.endswith(f"\n{line(MILLION)}\n")
    assert len(preview) <= 2000
    assert found.splitlines()[0] == f"line 900000: {line(900_000)}"
    assert f"offset={LINE * 899_999}" in found
    assert end == "".join(f"{line(n)}\n" for n in (MILLION - 2, MILLION - 1, MILLION))
    assert f"has {LINE * MILLION} characters" in beyond
    assert costs.checkpoint < 40_000
    assert costs.database < 400_000
    # Reading the file takes twice its size by itself.
    assert costs.factor < 6


@pytest.mark.parametrize(("way", "mode"), [("graph, wrapped tools", "sync"), ("graph, bare tools", "async")])
def test_graphs_of_ones_own_keep_it_small_too(folder, way, mode):
    def run(given: list[str], **program: Any) -> None:
        Program(folder=str(folder), mode=mode, **program).run(*given)

    lookups = {"pattern": r"^entry 009000\d:", "limit": 8000}, {"offset": LINE * 89_999, "limit": LINE}
    _, preview, several, page = shown(folder, FEWER, *lookups, way=way, run=run)
    assert f"[spilled: {LINE * FEWER} bytes" in preview
    assert several.splitlines()[:10] == [f"line {n}: {line(n)}" for n in range(90_000, 90_010)]
    assert page.startswith(f"{line(90_000)}\n")
    checkpoint, database = stored(folder)
    assert checkpoint < 40_000
    # A bare tool node puts the whole result into the thread before the memory node replaces it.
    assert (database < 400_000) == (way == "graph, wrapped tools")
    assert len(spilled_files(folder)) == 1


def spilled_files(folder: Path) -> list[Path]:
    return list(Path(Program("", str(folder)).files["workspace"]).rglob("*.txt"))
