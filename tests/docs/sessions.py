"""How a session is run: each command after a `$` through the real command line, in this process."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.testing import CliRunner
from typer.main import get_command

from langgraph_memory import cli
from langgraph_memory.cli import app

from .blocks import LOOSE, Block, differs

if TYPE_CHECKING:
    from .running import Document

SKIPPED = {"pip", "cat", "ls", "printf", "datasette", "langgraph"}
"""Commands of a session that are shown and not run."""


@dataclass
class Command:
    words: list[str]
    shown: str


def run_session(document: Document, block: Block) -> None:
    """Each command after a `$`; below it what it prints, if that is shown."""
    commands = _commands(block)
    codes = [run_command(document, block, command) for command in commands]
    expected = [0] * (len(codes) - 1) + [int(block.remarks.get("exit", "0"))]
    assert codes == expected, f"{block.place}: exit codes {codes}, expected {expected}\n{document.printed}"


def run_shell(document: Document, block: Block) -> None:
    """The README's own are run word for word by `.ci/run`; others are not run, but what they call has to be there."""
    if block.document != "README.md":
        for line in block.text.replace("\\\n", " ").splitlines():
            check_call(block, shlex.split(line, comments=True))
    elif block.text.rstrip().endswith("lgm replay"):
        document.place_sample()


def check_call(block: Block, words: list[str]) -> None:
    """Whether a command line names a command of `lgm`, and options that it has."""
    if "|" in words:
        at = words.index("|")
        for part in (words[:at], words[at + 1 :]):
            check_call(block, part)
        return
    program = Path(words[0]).name if words else ""
    if not words or program in SKIPPED:
        return
    assert program in ("lgm", "langgraph-memory"), f"{block.place}: {program!r} is neither lgm nor one that is skipped"
    command, path = get_command(app), []
    for word in words[1:]:
        if word not in getattr(command, "commands", {}):
            break
        command, path = command.commands[word], [*path, word]
    assert path, f"{block.place}: {shlex.join(words)} names no command"
    known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    used = {word.partition("=")[0] for word in words if word.startswith("-")}
    assert used <= {*known, "--help"}, f"{block.place}: `lgm {' '.join(path)}` has no {sorted(used - known)}"


def _commands(block: Block) -> list[Command]:
    lines = block.text.replace("\\\n", " ").splitlines()
    assert lines and lines[0].startswith("$ "), f"{block.place}: a session begins with a command after `$ `"
    commands: list[Command] = []
    for line in lines:
        if line.startswith("$ "):
            commands.append(Command(shlex.split(line[2:], comments=True), ""))
        else:
            commands[-1].shown += f"{line}\n"
    return commands


def run_command(document: Document, block: Block, command: Command) -> int:
    words, environ = list(command.words), {}
    while words and "=" in words[0]:
        name, _, environ[name] = words.pop(0).partition("=")
    program = Path(words[0]).name if words else ""
    if not words or program in SKIPPED:
        return 0
    assert program in ("lgm", "langgraph-memory"), f"{block.place}: {program!r} is neither lgm nor one that is skipped"
    words, file, piped = _redirected(words[1:])
    if words == ["replay"] and not Path("memory/threads.db").exists():
        document.place_sample()
        document.printed, code = document.sample().printed, 0
    else:
        document.printed, code = lgm(words, environ, block.value("input"))
    if file:
        Path(file).write_text(document.printed, encoding="utf-8")
    elif command.shown.strip() and not piped:
        difference = differs(command.shown, document.printed, loosely=block.document in LOOSE)
        assert not difference, f"{block.place}: {shlex.join(command.words)}: {difference}"
    return code


def _redirected(words: list[str]) -> tuple[list[str], str | None, bool]:
    """The words for `lgm` itself, the file its output goes to, and whether another program gets it."""
    if "|" in words:
        return words[: words.index("|")], None, True
    if ">" in words:
        at = words.index(">")
        return words[:at], words[at + 1], False
    return words, None, False


class _Main(click.Command):
    """`lgm` as it is called from a shell, errors and warnings included."""

    def main(self, args: Any = None, **_: Any) -> Any:
        sys.argv = ["lgm", *args]
        cli.main()


def lgm(words: list[str], environ: dict[str, str] | None = None, typed: str | None = None) -> tuple[str, int]:
    """What a command prints, stdout and stderr in one as in a terminal, and its exit code."""
    before = sys.argv
    try:
        result = CliRunner().invoke(_Main("lgm"), words, input=typed, env={"COLUMNS": "160", **(environ or {})})
    finally:
        sys.argv = before
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output, result.exit_code
