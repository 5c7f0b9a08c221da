"""`python -m tests.live.child JSON`: a program in a process of its own, so that it can be killed or have its own disk.

It prints what came of it as JSON. As in the tests, warnings are errors and our code may not block an event loop.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SECONDS = 120


@dataclass
class Outcome:
    code: int
    printed: dict[str, Any]
    errors: str


@contextmanager
def started(
    folder: Path, *, inside: str = "", dies_on: str = "", meets: str = "", **program: Any
) -> Iterator[subprocess.Popen[str]]:
    """A program that says each of `given`, by default that it goes on; it is gone when the block is left.

    `inside` are shell commands for a mount namespace that ends with the process; `dies_on` names the event at which it
    kills itself; `meets` names a file it waits for, after it has made one with its process id behind that name. For
    every kind of event it has seen it leaves a file `saw-NAME` in `folder`.
    """
    told = {"dies_on": dies_on, "meets": meets, "program": {"folder": str(folder), **program}}
    command = [sys.executable, "-m", "tests.live.child", json.dumps(told)]
    if inside:
        command = [*NAMESPACE, "sh", "-ec", f'{inside}\nexec "$@"', "sh", *command]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LANG")}
    environment |= {"PYTHONPATH": str(ROOT), "LANGSMITH_TRACING": "false"}
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[str]) -> Outcome:
    """How a program ended."""
    printed, errors = process.communicate(timeout=SECONDS)
    return Outcome(process.returncode, json.loads(printed) if printed else {}, errors)


NAMESPACE = ("unshare", "--mount", "--map-root-user")
"""A place where mounting is allowed and nobody else sees it."""


@cache
def can_mount() -> bool:
    """Whether a file system can be mounted for one process here."""
    tried = [*NAMESPACE, "sh", "-ec", "mount -t tmpfs -o size=64k none /mnt"]
    try:
        return subprocess.run(tried, capture_output=True, check=False, timeout=SECONDS).returncode == 0
    except OSError:
        return False


# In the child


class Kept(logging.Handler):
    """Remembers what our code warns of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def main() -> None:
    told = json.loads(sys.argv[1])
    kept = Kept()
    logging.getLogger("langgraph_memory").addHandler(kept)
    if told["meets"]:
        _meet(Path(told["meets"]))
    given = told["program"].pop("given", [None])
    program = Program(**told["program"], on_event=_noting(told["dies_on"]))
    peaks: list[int] = []
    with blockbuster_ctx("langgraph_memory"):
        outputs = program.run(*given, each=lambda: peaks.append(_peak()))
    printed = {
        "said": [output and [(message.type, message.text) for message in output["messages"]] for output in outputs],
        "warnings": kept.messages,
        "peaks": peaks,
        "files": _files(Path(program.files["workspace"])),
    }
    json.dump(printed, sys.stdout)


def _files(folder: Path) -> list[str]:
    """What stands in a folder that may be gone with the process."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def _peak() -> int:
    """The most memory this process ever held, in bytes."""
    try:
        # Not `ru_maxrss`: on Linux a new process starts with that of the one it was made from.
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _meet(place: Path) -> None:
    place.with_name(f"{place.name}-{os.getpid()}").touch()
    while not place.exists():
        time.sleep(0.01)


def _noting(dies_on: str) -> Any:
    """A listener that leaves a file for every kind of event."""

    def on_event(event: Any) -> None:
        Path(f"saw-{event.name}").touch()
        if event.name == dies_on:
            os.kill(os.getpid(), signal.SIGKILL)

    return on_event


if __name__ == "__main__":
    from blockbuster import blockbuster_ctx

    from tests.live.programs import Program

    warnings.simplefilter("error")
    main()
