"""What is published is what was measured: the JSON, and the pages, charts and README that are made from it."""

import copy
import json
import re
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
from typer.testing import CliRunner

import benchmarks
from benchmarks import measured, pieces
from benchmarks.__main__ import app
from benchmarks.advice import blocks
from benchmarks.charts import CHARTS, draw, pareto
from benchmarks.report import SECTIONS, markdown
from benchmarks.results import FILE, read, rounded, without_paths, write
from langgraph_memory import RuntimeConfig

FOLDER = Path(benchmarks.__file__).parent
README = FOLDER.parent / "README.md"
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")
NOT_MEASURED = re.compile(r"FTS5|DeltaChannel\(50\)|2 kB|\(.*?\.(?:png|md)\)|pip install.*?`")
"""Numbers in the block that are names."""


@pytest.fixture
def results() -> dict[str, Any]:
    return read(FOLDER / FILE)


def test_every_piece_was_measured_and_none_failed(results: dict[str, Any]) -> None:
    assert set(results) == {*pieces.PIECES, "sweep"}
    assert [name for name, piece in results.items() if "figures" not in piece] == []
    assert all(piece["about"]["packages"]["langgraph"] and piece["about"]["cpus"] for piece in results.values())


def test_the_figures_tell_no_path_and_no_name_of_a_machine(results: dict[str, Any]) -> None:
    assert {key for piece in results.values() for key in piece["about"]} == {
        "date",
        "python",
        "system",
        "cpus",
        "packages",
    }
    text = (FOLDER / FILE).read_text(encoding="utf-8")
    assert not re.search(r'[\s"\'](/[\w.-]+){2,}|[A-Z]:\\', text)


def test_the_page_is_what_the_figures_give(results: dict[str, Any]) -> None:
    assert (FOLDER / "RESULTS.md").read_text(encoding="utf-8") == markdown(results)


def test_the_readme_is_what_the_figures_give(results: dict[str, Any]) -> None:
    text = README.read_text(encoding="utf-8")
    assert measured.renewed(text, results) == text


def test_every_number_in_the_readme_comes_from_the_figures(results: dict[str, Any]) -> None:
    before = numbers(measured.block(results))
    after = [numbers(measured.block(Changed(seed).all(results))) for seed in range(5)]
    assert {len(each) for each in after} == {len(before)} and len(before) > 40
    # What stays the same whatever the figures are was written by hand, but for none of several.
    fixed = [old for old, *others in zip(before, *after, strict=True) if set(others) == {old} != {"0"}]
    assert fixed == []


def numbers(block: str) -> list[str]:
    return [found.replace(",", "") for found in NUMBER.findall(NOT_MEASURED.sub("", block))]


class Changed:
    """The same figures, each another one."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)

    def all(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: self.all(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.all(each) for each in [*value, *self._more(value)]]
        if isinstance(value, str):
            return self._digits(value) if re.match(r"\d+\.|\d{4}-", value) else value
        return value if isinstance(value, bool) or value is None else value * self._chance.randint(2, 30) + 1

    def _more(self, rows: list[Any]) -> list[Any]:
        """More scenarios and recordings, so that their numbers are others too."""
        times = self._chance.randint(1, 9)
        if len({each["recording"] for each in rows if _row(each)}) > 1:
            return [{**each, "recording": f"{each['recording']}-{n}"} for n in range(times) for each in rows]
        return rows * times if rows and isinstance(rows[0], Mapping) and "outcomes" in rows[0] else []

    def _digits(self, text: str) -> str:
        return re.sub(r"\d+", lambda digits: str(int(digits[0]) + self._chance.randint(1, 99)), text)


def _row(each: Any) -> bool:
    return isinstance(each, Mapping) and "recording" in each


@pytest.mark.parametrize("piece", [*pieces.PIECES, "sweep"])
def test_a_part_of_the_figures_makes_a_page_and_a_block_too(results: dict[str, Any], piece: str) -> None:
    alone = {piece: results[piece]}
    page = markdown(alone)
    assert f"## {SECTIONS[piece][0]}" in page and page.count("\n## ") == 1
    assert measured.block(alone).startswith("`pip install")


def test_a_piece_that_failed_is_told(results: dict[str, Any]) -> None:
    failed = {"about": results["threads"]["about"], "seconds": 3, "error": "OSError: the disk is full"}
    page = markdown({**results, "threads": failed})
    assert "Failed: OSError: the disk is full" in page
    assert "python -m benchmarks threads" not in measured.block({**results, "threads": failed})


def test_a_policy_that_failed_is_told_and_stands_in_no_ratio(results: dict[str, Any]) -> None:
    broken = copy.deepcopy(results)
    for row in broken["economy"]["figures"]:
        if row["policy"] == "langmem":
            row["error"] = "ValueError: no"
    assert "failed: ValueError: no" in markdown(broken)
    assert "| langmem" not in measured.block(broken)


def test_a_readme_without_a_place_is_refused(results: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="measured:begin"):
        measured.renewed("# Something else\n", results)


def test_every_chart_is_drawn_and_committed(results: dict[str, Any], tmp_path: Path) -> None:
    names = [f"{name}.png" for name in CHARTS]
    assert all(5_000 < (FOLDER / name).stat().st_size < 100_000 for name in names)
    pytest.importorskip("matplotlib")
    drawn = [file.name for file in draw(results, tmp_path)]
    assert drawn == names
    assert all((tmp_path / name).stat().st_size > 5_000 for name in drawn)


def test_what_is_to_be_set_is_a_configuration(results: dict[str, Any]) -> None:
    found = blocks(results["sweep"]["figures"])
    assert list(found) == ["cheap", "careful", "huge tool output"]
    for block in found.values():
        config = RuntimeConfig.model_validate(block)
        assert config.memory.context_window == 128_000
        assert json.dumps(block, indent=2) in (FOLDER / "RESULTS.md").read_text(encoding="utf-8")


# The machinery


@pytest.fixture
def _made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise FileNotFoundError(f"no recording in '{Path.cwd()}/recordings/here'")

    monkeypatch.setattr(pieces, "PIECES", {"bad": fail, "good": lambda *_: [{"x": 1.23456789}]})


@pytest.mark.usefixtures("_made_up")
def test_a_piece_that_fails_is_told_without_a_path_and_the_others_go_on() -> None:
    told: list[str] = []
    results: dict[str, Any] = {}
    for one in pieces.run(["bad", "good"], None, 1, told.append):
        results |= one
    assert results["bad"]["error"] == "FileNotFoundError: no recording in '…'"
    assert results["good"]["figures"] == [{"x": 1.235}]
    assert "failed: FileNotFoundError: no recording in '…'" in told


@pytest.mark.usefixtures("_made_up")
def test_the_command_writes_what_it_has_and_ends_with_an_error_if_a_piece_fails(tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["all", "--out", str(tmp_path), "--skip", "good"])
    assert told.exit_code == 1 and "failed: bad" in told.output
    told = CliRunner().invoke(app, ["all", "--out", str(tmp_path), "--only", "good"])
    assert told.exit_code == 0
    assert set(read(tmp_path / FILE)) == {"bad", "good"}
    assert (tmp_path / "RESULTS.md").exists()


def test_an_unknown_piece_is_refused() -> None:
    told = CliRunner().invoke(app, ["all", "--only", "economics"])
    assert told.exit_code == 2 and "economy" in told.output


def test_figures_are_drawn_up_again_from_their_file(results: dict[str, Any], tmp_path: Path) -> None:
    write(tmp_path / FILE, {"scenarios": results["scenarios"]})
    readme = tmp_path / "README.md"
    readme.write_text(f"# Mine\n{measured.BEGIN}\nold\n{measured.END}\nrest\n", encoding="utf-8")
    told = CliRunner().invoke(app, ["report", str(tmp_path / FILE), "--readme", str(readme)])
    assert told.exit_code == 0, told.output
    text = readme.read_text(encoding="utf-8")
    assert "old" not in text and text.endswith("rest\n") and "situations" in text
    assert (tmp_path / "RESULTS.md").read_text(encoding="utf-8") == markdown({"scenarios": results["scenarios"]})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.23456, 1.235),
        (1234567, 1234567),
        (123456.7, 123500.0),
        ([{"a": (0.00012345,)}], [{"a": [0.0001234]}]),
        ("x", "x"),
    ],
)
def test_floats_are_rounded_and_counts_are_not(value: Any, expected: Any) -> None:
    assert rounded(value) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [("no '/home/ada/x.db'", "no '…'"), ("1/2 of a/b/c", "1/2 of a/b/c"), ("at /tmp/a/b: gone", "at …: gone")],
)
def test_paths_are_left_out(said: str, expected: str) -> None:
    assert without_paths(said) == expected


def test_the_best_are_those_that_no_other_beats_in_both() -> None:
    assert pareto([(3, 0.9), (1, 0.5), (2, 0.4), (4, 0.9), (2, 0.7)]) == [(1, 0.5), (2, 0.7), (3, 0.9)]
