"""How the program was called, so that a command it shows can be copied. Imports nothing slow."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

NAMES = ("lgm", "langgraph-memory")


def program() -> str:
    """The program as it was called; `lgm` where it was not called by itself."""
    called = Path(sys.argv[0])
    if called.parts[-2:] == ("langgraph_memory", "__main__.py"):
        return f"{_shortest(Path(sys.executable))} -m langgraph_memory"
    return _shortest(called) if called.stem in NAMES else NAMES[0]


def _shortest(path: Path) -> str:
    """The name alone where the shell finds it, else the path, from the working folder where it is below it."""
    if shutil.which(path.name) == str(path.absolute()):
        return path.name
    below = path.absolute().is_relative_to(Path.cwd())
    return shlex.quote(str(path.absolute().relative_to(Path.cwd()) if below else path))


def interrupted() -> str:
    """What is said after Ctrl-C, with the command that goes on where there is one."""
    arguments = sys.argv[1:]
    if arguments[:1] != ["replay"]:
        return "Interrupted."
    return f"Interrupted. What was stored stays stored; go on with: {program()} {shlex.join(arguments)}"
