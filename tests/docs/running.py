"""How each kind of block is run or checked. Everything of one document happens in one folder, in order."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import importlib
import io
import json
import shutil
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from langgraph_memory import RuntimeConfig
from tests.support.models import Scripted

from .blocks import LOOSE, Block, differs
from .questions import run_sql
from .sessions import run_session, run_shell

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
    model: Scripted | None = None

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
    answer_with(document, block)
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


def answer_with(document: Document, block: Block) -> None:
    """Whoever asks for a chat model by its name gets one that says what the remark says."""
    replies = block.value("replies")
    if replies is None and block.text.startswith("# continues"):
        return
    said = [reply if isinstance(reply, str) else AIMessage(**reply) for reply in replies or [ANSWER]]
    document.model = Scripted(replies=said)
    for module in ("langchain.chat_models", "langgraph_memory.models"):
        # Found when it is called: a program that goes on has imported the function already.
        document.monkeypatch.setattr(f"{module}.init_chat_model", lambda *_, **__: document.model)


# --- Configuration -------------------------------------------------------------------------------------------


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
    path = config["checkpointer"]["path"]
    assert ":" not in path, f"{block.place}: the server refuses a colon in {path!r}"
    module, _, name = path.rpartition(".")
    assert callable(getattr(importlib.import_module(module), name)), block.place


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
