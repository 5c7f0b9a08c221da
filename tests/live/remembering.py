"""`python -m tests.live.remembering JSON`: programs with long-term memory, each a process of its own.

The clock of a process may be moved by days (`LIVE_DAYS`), and its zone is that of `TZ`. What the side model is asked
goes to the same server as what the agent asks; `serving` answers both.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import logging
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

DAY = 86400


def _move_clock(days: float) -> None:
    """Have everything that is imported from here on find it `days` later."""
    real_time, real = time.time, datetime.datetime

    class Kind(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, real)

    class Moved(real, metaclass=Kind):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return cls.fromtimestamp(time.time(), tz)

    time.time = lambda: real_time() + days * DAY
    datetime.datetime = Moved  # type: ignore[misc]


if __name__ == "__main__" and "LIVE_DAYS" in os.environ:
    _move_clock(float(os.environ["LIVE_DAYS"]))

from langchain_core.messages import HumanMessage  # noqa: E402

from langgraph_memory import MemoryMiddleware  # noqa: E402
from tests.live.child import ROOT, Kept  # noqa: E402
from tests.live.programs import Program  # noqa: E402
from tests.support.remembering import FLUSH, MERGE, asked_for, noting  # noqa: E402
from tests.support.server import Answer, ModelServer, Request  # noqa: E402

SECONDS = 60
Side = Callable[[Request], "str | Answer"]


@dataclass
class Rememberer(Program):
    """A program of `user` in the thread `thread_id`; MEMORY.md is merged after each turn unless `memory` says else."""

    user: Any = "ada"
    thread_id: Any = "t"
    inline: bool = False
    drain: float = SECONDS
    """How long it waits at its end for what is beside the run."""
    side_model: str | None = "side"
    idle: float = 0
    """Seconds that it stays open behind its turns; work that the opening starts is under way by then."""

    @property
    def thread(self) -> dict[str, Any]:
        return {"configurable": {"thread_id": self.thread_id, "user_id": self.user}}

    @property
    def home(self) -> Path:
        return Path(self.files["workspace"]) / str(self.user)

    @property
    def notes(self) -> Path:
        return self.home / "MEMORY.md"

    def ledger(self) -> dict[str, str]:
        return {path.stem: path.read_text(encoding="utf-8") for path in sorted((self.home / "memory").glob("2*.md"))}

    def _opening(self) -> Any:
        memory = {"consolidation": {"min_interval_minutes": 0}, **self.memory}
        side = self.client(self.side_model) if self.side_model else None
        values = {"memory": memory, "persistence": self.files}
        return MemoryMiddleware.open(values, model=side, on_event=self._noted, inline=self.inline)

    def _live(self, act: Callable[[Any], list[Any]]) -> list[Any]:
        with self._opening() as memory:
            found = act(self.graph(memory))
            time.sleep(self.idle)
            memory.drain(self.drain)
            return found

    async def _alive(self, act: Callable[[Any], Any]) -> list[Any]:
        async with self._opening() as memory:
            found: list[Any] = await act(self.graph(memory))
            await asyncio.sleep(self.idle)
            await memory.adrain(self.drain)
            return found


# The other side


def purpose(request: Request) -> str:
    """What a request is for: "flush", "merge", "summary" or "agent"."""
    if request.body["model"] != "side" and not is_side(request):
        return "agent"
    return asked_for(_asked(request))


def is_side(request: Request) -> bool:
    text = str(request.messages[-1]["content"])
    return any(mark in text for mark in ("<new_entries>", "reply with NO_REPLY", "<previous_summary>"))


def serving(*replies: Any, side: Side | None = None) -> Callable[[Request], str | Answer]:
    """A script: the agent gets `replies` in turn, the last one again and again; the side model notes all it is told."""
    left = list(replies) or ["Noted."]

    def answer(request: Request) -> str | Answer:
        if purpose(request) != "agent":
            return noted(request) if side is None else side(request)
        reply = left.pop(0) if len(left) > 1 else left[0]
        found: str | Answer = reply(request) if callable(reply) else reply
        return found

    return answer


def noted(request: Request) -> str:
    return noting(_asked(request))


def _asked(request: Request) -> list[Any]:
    return [HumanMessage(request.messages[-1]["content"])]


def asked(server: ModelServer, kind: str) -> list[str]:
    """The texts of the requests of one kind that arrived."""
    return [json.dumps(request.messages, ensure_ascii=False) for request in server.requests if purpose(request) == kind]


def shown_in(texts: Sequence[str], said: str) -> int:
    """How many of the side model's requests show what was said as new."""
    return sum(said in text.rpartition("<messages>")[2] for text in texts)


# Processes


@contextmanager
def living(
    folder: Path, *given: Any, days: float | None = None, zone: str | None = None, dies_in: str = "", **program: Any
) -> Iterator[subprocess.Popen[str]]:
    """A program that says each of `given`; it is gone when the block is left.

    `dies_in` names a method, as `module:Class.method`, instead of which it kills itself.
    """
    told = {"given": given, "dies_in": dies_in, "program": {"folder": str(folder), **program}}
    command = [sys.executable, "-m", "tests.live.remembering", json.dumps(told)]
    environment = dict(os.environ) | {"PYTHONPATH": str(ROOT), "LANGSMITH_TRACING": "false"}
    environment |= {"LIVE_DAYS": str(days)} if days else {}
    environment |= {"TZ": zone} if zone else {}
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def main() -> None:
    told = json.loads(sys.argv[1])
    kept = Kept()
    logging.getLogger("langgraph_memory").addHandler(kept)

    if told["dies_in"]:
        module, _, name = told["dies_in"].partition(":")
        owner, _, method = name.partition(".")
        setattr(getattr(import_module(module), owner), method, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
    program = Rememberer(**told["program"])
    outputs = program.run(*told["given"])
    events = [(event.name, event.reason, dict(event.data)) for event in program.events]
    json.dump(
        {"said": [output["messages"][-1].text for output in outputs], "events": events, "warnings": kept.messages},
        sys.stdout,
    )


if __name__ == "__main__":
    from blockbuster import blockbuster_ctx

    warnings.simplefilter("error")
    with blockbuster_ctx("langgraph_memory"):
        main()


__all__ = ["FLUSH", "MERGE", "Rememberer", "asked", "living", "noted", "purpose", "serving", "shown_in"]
