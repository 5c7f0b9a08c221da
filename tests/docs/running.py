"""How each kind of block is run or checked. Everything of one document happens in one folder, in order."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import importlib
import io
import json
import shlex
import shutil
import sqlite3
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from langchain_core.messages import AIMessage

from langgraph_memory import RuntimeConfig, cli
from tests.support.models import Scripted

from .blocks import Block, differs

LOOSE = {"README.md"}
"""Documents that show the thread of the sample, which is about the source code and so says something else after each
change of it: words are compared, numbers are not."""

SKIPPED = {"pip", "cat", "ls", "datasette", "langgraph"}
"""Commands of a session that are shown and not run."""

ANSWER = "All is well."


@dataclass
class Sample:
    """The folder in which `lgm replay` has been run, and what it printed."""

    folder: Path
    printed: str


@dataclass
class Document:
    """Runs the blocks of a document, one after the other, in the working folder."""

    sample: Callable[[], Sample]
    monkeypatch: pytest.MonkeyPatch
    printed: str | None = None
    """What the block before printed, which an output block may show."""
    names: dict[str, Any] = field(default_factory=dict)
    """The names of the program before, for one that goes on."""
    runner: asyncio.Runner | None = None

    def run(self, block: Block) -> None:
        if "sample" in block.remarks:
            self.place_sample()
        rule = RULES.get(block.language)
        assert rule, f"{block.place}: no rule says how a block in {block.language!r} is run or checked"
        if "output" in block.remarks:
            self.compare(block)
        else:
            rule(self, block)

    def place_sample(self) -> None:
        if not Path("memory/threads.db").exists():
            shutil.copytree(self.sample().folder / "memory", "memory", dirs_exist_ok=True)

    def compare(self, block: Block) -> None:
        assert self.printed is not None, f"{block.place}: shows output, but nothing was run before it"
        difference = differs(block.text, self.printed, loosely=block.document in LOOSE)
        assert not difference, f"{block.place}: {difference}"

    def close(self) -> None:
        if self.runner:
            self.runner.close()


# --- Programs --------------------------------------------------------------------------------------------------------


def run_python(document: Document, block: Block) -> None:
    """A program of its own, or the continuation of the one before; `await` works at its top as in a notebook."""
    if not block.text.startswith("# continues"):
        document.close()
        document.runner, document.names = asyncio.Runner(), {"__name__": "__main__"}
    assert document.runner, f"{block.place}: nothing is before it that it could continue"
    answer_with(document.monkeypatch, block)
    # As many line ends as stand above the block, so that a traceback names the line of the document.
    code = compile(
        "\n" * block.line + block.text,
        block.document,
        "exec",
        flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
        dont_inherit=True,
    )
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        if code.co_flags & 0x80:  # a coroutine, because something is awaited at its top
            document.runner.run(types.FunctionType(code, document.names)())
        else:
            exec(code, document.names)
    document.printed = printed.getvalue()


def answer_with(monkeypatch: pytest.MonkeyPatch, block: Block) -> None:
    """Whoever asks for a chat model by its name gets one that says what the remark says."""
    replies = block.value("replies")
    if replies is None and block.text.startswith("# continues"):
        return
    model = Scripted(replies=[reply if isinstance(reply, str) else AIMessage(**reply) for reply in replies or [ANSWER]])
    for module in ("langchain.chat_models", "langgraph_memory.models"):
        monkeypatch.setattr(f"{module}.init_chat_model", lambda *_, **__: model)


# --- Sessions --------------------------------------------------------------------------------------------------------


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
    """The README's own are run word for word by `.ci/run`; others are sessions without output."""
    if block.document != "README.md":
        for line in block.text.splitlines():
            assert run_command(document, block, Command(shlex.split(line, comments=True), "")) == 0, block.place
    elif block.text.rstrip().endswith("lgm replay"):
        document.place_sample()


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


# --- Configuration and SQL -------------------------------------------------------------------------------------------


def check_json(document: Document, block: Block) -> None:
    if "langgraph.json" in block.remarks:
        check_server(block)
    else:
        config = RuntimeConfig.model_validate_json(block.text)
        assert config != RuntimeConfig(), f"{block.place}: sets nothing but defaults"


def check_server(block: Block) -> None:
    """What `langgraph dev` would load is there."""
    from langgraph_cli.config import validate_config

    config = json.loads(block.text)
    validate_config({"dependencies": ["."], "graphs": {"agent": "./agent.py:graph"}, **config})
    module, _, name = config["checkpointer"]["path"].replace(":", ".").rpartition(".")
    assert callable(getattr(importlib.import_module(module), name)), block.place


def run_sql(document: Document, block: Block) -> None:
    """Every statement of the block, on a database that cannot be written; all of them find something."""
    own = Path("memory/threads.db")
    named = block.remarks.get("changes") or block.remarks.get("database") or (own if own.exists() else None)
    path = Path(named) if named else document.sample().folder / own
    assert path.exists(), f"{block.place}: there is no {path}"
    mode = "rw" if "changes" in block.remarks else "ro"
    lines: list[str] = []
    with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True)) as db:
        for statement in _statements(block.text):
            cursor = db.execute(statement)
            lines += _table(cursor, block)
        db.commit()
    document.printed = "\n".join(lines)


def _table(cursor: sqlite3.Cursor, block: Block) -> list[str]:
    if cursor.description is None:
        assert "changes" in block.remarks, f"{block.place}: this is no question"
        return []
    rows = cursor.fetchall()
    assert bool(rows) != ("no rows" in block.remarks), f"{block.place}: {len(rows)} rows"
    names = [column[0] for column in cursor.description]
    return [" | ".join(line) for line in (names, *(map(_cell, row) for row in rows))]


def _statements(text: str) -> list[str]:
    statements, pending = [], ""
    for line in text.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            statements.append(pending)
            pending = ""
    return [*statements, pending] if pending.strip() else statements


def _cell(value: Any) -> str:
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    return "" if value is None else str(value)


def refuse_text(document: Document, block: Block) -> None:
    raise AssertionError(f"{block.place}: put <!-- output --> above what is printed; a picture is indented, not fenced")


RULES: dict[str, Callable[[Document, Block], None]] = {
    "python": run_python,
    "sh-session": run_session,
    "sh": run_shell,
    "json": check_json,
    "sql": run_sql,
    "text": refuse_text,
}
