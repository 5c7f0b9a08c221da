"""The notebooks run from their first cell, offline, and show what they say; so do the outputs that are kept in them."""

import ast
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nbclient", reason="the notebooks are run by nbclient: pip install '.[notebooks]'")

import nbformat

from notebooks.offline import OfflineModel, choose_model
from notebooks.run import HERE, digest, executed, notebooks

pytestmark = pytest.mark.slow

NAMES = [path.stem for path in notebooks()]
LARGEST = 400_000
NOWHERE = "http://127.0.0.1:9"
"""A proxy that is not there: who wants to reach a machine from a kernel gets an error."""
PLACES = re.compile(r"/(?:tmp|home|root|Users|var|opt|usr)/|[A-Za-z]:\\\\|site-packages|Traceback")

Run = Callable[[str], Any]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Runs a notebook in a copy of its folder; it must leave nothing behind, neither there nor in the temporary one."""
    folder, scratch = tmp_path / "notebooks", tmp_path / "scratch"
    shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
    scratch.mkdir()
    before = names(folder)
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, NOWHERE)
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.delenv("NOTEBOOK_MODEL", raising=False)

    yield lambda name: executed(folder / f"{name}.ipynb")

    assert names(folder) == before
    assert names(scratch) == []


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def outputs(notebook: Any) -> list[Any]:
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def printed(notebook: Any) -> str:
    return "".join(output.text for output in outputs(notebook) if output.get("name") == "stdout")


def shown(notebook: Any, kind: str) -> list[str]:
    return [output.data[kind] for output in outputs(notebook) if kind in output.get("data", {})]


def kinds(notebook: Any) -> list[list[str]]:
    """What each cell puts out, by its kind."""
    cells = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    return [[" ".join(sorted(output.get("data", [output.get("name")]))) for output in cell] for cell in cells]


def kept(name: str) -> Any:
    return nbformat.read(HERE / f"{name}.ipynb", as_version=4)


# Run


def test_a_long_run_stays_inside_the_window_that_the_same_run_without_the_memory_overflows(run: Run) -> None:
    notebook = run("1-long-agent-run")
    totals = next(value for text in shown(notebook, "text/plain") if isinstance(value := literal(text), dict))
    window, plain, endless, memory = (totals[name] for name in ("window", "plain", "endless", "memory"))
    assert memory["largest"] <= window < endless["largest"] / 2
    assert plain["calls"] < endless["calls"] <= memory["calls"]
    assert memory["cost"] < endless["cost"] and memory["summaries"] > 0 and memory["cached"] > 0.5
    text = printed(notebook)
    assert f"call {plain['calls'] + 1}: This model's maximum context length is {window} tokens" in text
    assert "pruned" in text and "compacted" in text
    assert "True\nYou asked: Where does the event loop run" in text
    assert len(shown(notebook, "image/png")) == 1
    htmls = shown(notebook, "text/html")
    assert any("→ recall(" in html for html in htmls)
    assert any("A prompt cache breaks at message" in html and "covered by the summary" in html for html in htmls)
    assert kinds(notebook) == kinds(kept("1-long-agent-run"))


def test_a_thread_is_resumed_rewound_and_forked(run: Run) -> None:
    notebook = run("2-resume-rewind-fork")
    sums = re.findall(r"^(\d+) in all", printed(notebook), re.MULTILINE)
    assert sums == ["465", "210", "465"]
    assert "cheaper trip: Noted, 140 so far." in printed(notebook)
    htmls = shown(notebook, "text/html")
    assert len(htmls) == 7
    assert any("· rewind" in html and "· undo" not in html for html in htmls)
    assert any("· undo" in html and "├─○" in html for html in htmls)
    assert "Hostel for 90" in htmls[-2]
    assert kinds(notebook) == kinds(kept("2-resume-rewind-fork"))


def test_another_thread_knows_what_was_said_until_it_is_forgotten(run: Run) -> None:
    notebook = run("3-memory-across-threads")
    text = printed(notebook)
    assert "ada:   You told me: The release date is 12 March." in text
    assert "grace: You have not told me." in text
    assert text.index("12 March") < text.index("You told me: The release date is 19 March.")
    assert "removed: True\nsearch:  []\nfiles:   []\nasked:   You have not told me." in text
    first, last = shown(notebook, "text/markdown")
    assert "heron" in first and "heron" not in last and "19 March" in last
    [diff] = shown(notebook, "text/html")
    assert "-- The release date is 12 March." in diff and "+- The release date is 19 March." in diff
    assert kinds(notebook) == kinds(kept("3-memory-across-threads"))


def test_an_agent_runs_with_a_model_of_ones_own_or_without_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a key alone changes nothing")
    notebook = run("4-create-agent-with-your-model")
    text = printed(notebook)
    assert "model: none, a rule answers (offline)" in text
    assert "Thursday: 2 found: login refused; login refused." in text
    assert "spilled: the result of read_log" in text and "compacted" in text
    assert len(shown(notebook, "image/png")) == 1 and len(shown(notebook, "text/html")) == 2
    assert kinds(notebook) == kinds(kept("4-create-agent-with-your-model"))


def literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return None


def test_a_variable_alone_names_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("langchain.chat_models.init_chat_model", lambda name: f"the model {name}")
    monkeypatch.setenv("OPENAI_API_KEY", "a key alone changes nothing")
    monkeypatch.delenv("NOTEBOOK_MODEL", raising=False)
    assert isinstance(choose_model(str), OfflineModel)
    monkeypatch.setenv("NOTEBOOK_MODEL", "openai:gpt-5.5")
    assert choose_model(str) == "the model openai:gpt-5.5"


# What is kept


def test_every_notebook_has_a_test() -> None:
    assert len(NAMES) == 4
    source = Path(__file__).read_text(encoding="utf-8")
    assert all(f'run("{name}")' in source for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_outputs_that_are_kept_are_those_of_the_code_beside_them(name: str) -> None:
    notebook = kept(name)
    assert notebook.metadata.run == digest(notebook, HERE), f"run `python notebooks/run.py {name}`"
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    assert not [
        output for output in outputs(notebook) if output.output_type == "error" or output.get("name") == "stderr"
    ]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_kept_is_small_and_names_no_place_of_the_machine_it_ran_on(name: str) -> None:
    path = HERE / f"{name}.ipynb"
    assert path.stat().st_size < LARGEST
    text = re.sub(r'"image/png": "[^"]*"', "", path.read_text(encoding="utf-8"))
    assert PLACES.findall(text) == []


def test_the_readme_names_every_notebook() -> None:
    text = (HERE / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\(([\w-]+)\.ipynb\)", text)) == NAMES
