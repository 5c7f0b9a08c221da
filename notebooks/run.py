"""Runs the notebooks from their first cell and keeps what they show: `python notebooks/run.py [NAME …]`.

What differs from run to run and says nothing is left out, so that a notebook changes only where it shows something
else. What was run is noted by its digest, which tells of a notebook that was changed since.
"""

from __future__ import annotations

import os
import sys
from hashlib import blake2b
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode, from_dict

HERE = Path(__file__).resolve().parent
HELPERS = ("offline.py", "rules.py")
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def notebooks() -> list[Path]:
    return sorted(HERE.glob("*.ipynb"))


def executed(path: Path) -> NotebookNode:
    """The notebook with the outputs of a fresh run in its own folder. Raises `CellExecutionError`."""
    notebook = nbformat.read(path, as_version=4)
    # The package of this checkout, whether it is installed or not.
    packages = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))
    client = NotebookClient(
        notebook,
        timeout=120,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": path.parent}},
    )
    client.execute(env={**os.environ, "PYTHONPATH": packages})
    return tidied(notebook, digest(notebook, path.parent))


def tidied(notebook: NotebookNode, run: str) -> NotebookNode:
    notebook.metadata = from_dict({"kernelspec": KERNEL, "language_info": {"name": "python"}, "run": run})
    for number, cell in enumerate(notebook.cells, 1):
        cell.id, cell.metadata = f"cell-{number}", from_dict({})
    return notebook


def digest(notebook: NotebookNode, folder: Path) -> str:
    """Names the code of a notebook and of the modules that it uses."""
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    code += [(folder / name).read_text(encoding="utf-8") for name in HELPERS]
    return blake2b("\0".join(code).encode(), digest_size=8).hexdigest()


def main(names: list[str]) -> None:
    for path in notebooks():
        if not names or any(name in path.name for name in names):
            nbformat.write(executed(path), path)
            print(path.name)


if __name__ == "__main__":
    main(sys.argv[1:])
