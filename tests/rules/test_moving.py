"""Who has an agent on SummarizationMiddleware and AsyncSqliteSaver moves over by the recipe, and back.

The programs are those of `docs/moving.md`, run as they stand there, with further turns before and after.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command, interrupt
from typer.testing import CliRunner

from langgraph_memory import MemoryEvent, MemoryMiddleware, ThreadSaver, ThreadStore
from langgraph_memory.cli import app
from tests.docs.blocks import ROOT, blocks_of
from tests.support.graphs import MODES, text_of, thread
from tests.support.models import Request, Scripted
from tests.support.validity import faults

pytestmark = pytest.mark.slow

FILE, PLAIN = "checkpoints.sqlite", "plain.sqlite"
MOVED, WAITING = "server-1", "waiting"
PROGRAMS = [block.text for block in blocks_of(ROOT / "docs" / "moving.md") if block.language == "python"]
WINDOW = 8000
TURNS = 8


class Worker(Scripted):
    """Calls a tool in each turn, then answers at length; asked without tools it summarises."""

    def _reply(self, request: Request, turn: int) -> AIMessage:
        if not request.tools:
            return AIMessage(f"## SESSION INTENT\nwatch the server, summary-{turn}\n## NEXT STEPS\ngo on watching")
        last = request.messages[-1]
        if last.type == "tool":
            return AIMessage(f"answer-{turn} " + "all is as it was " * 100)
        name, args = ("ask", {"question": "May I?"}) if "ask-first" in last.text else ("read_log", {"day": turn})
        return AIMessage("", tool_calls=[{"name": name, "args": args, "id": f"call-{turn}"}])

    @property
    def calls(self) -> list[Request]:
        return [request for request in self.requests if request.tools]

    @property
    def summaries(self) -> int:
        return len(self.requests) - len(self.calls)


@tool
def ask(question: str) -> str:
    """Ask the person in charge."""
    return f"the person says {interrupt(question)}"


class Seen(NamedTuple):
    """What a program sees of a checkpoint. Not which node is next: one that is no longer in the graph is left out."""

    id: str
    source: str
    messages: list[BaseMessage]


@dataclass
class Agent:
    """A graph that is called as a program calls it: sync, or async on a loop of its own."""

    graph: Any
    runner: asyncio.Runner | None

    def call(self, name: str, *args: Any) -> Any:
        if self.runner is None:
            return getattr(self.graph, name)(*args)
        return self.runner.run(getattr(self.graph, f"a{name}")(*args))

    def say(self, name: str, text: str) -> None:
        self.call("invoke", {"messages": [("user", text)]}, configured(name))

    def talk(self, name: str, turns: range) -> None:
        for turn in turns:
            self.say(name, request(turn))

    def messages(self, name: str, checkpoint_id: str | None = None) -> list[BaseMessage]:
        found: list[BaseMessage] = self.call("get_state", configured(name, checkpoint_id)).values["messages"]
        return found

    def history(self, name: str) -> list[Seen]:
        """What a program sees of each checkpoint, newest first."""
        if self.runner is None:
            states = list(self.graph.get_state_history(configured(name)))
        else:
            states = self.runner.run(_listed(self.graph.aget_state_history(configured(name))))
        return [
            Seen(
                state.config["configurable"]["checkpoint_id"],
                state.metadata["source"],
                state.values.get("messages", []),
            )
            for state in states
        ]


def configured(name: str, checkpoint_id: str | None = None) -> dict[str, Any]:
    found = thread(name)
    found["configurable"]["user_id"] = "ada"
    if checkpoint_id:
        found["configurable"]["checkpoint_id"] = checkpoint_id
    return found


def request(turn: int) -> str:
    return f"request-{turn:03d}: " + "look at it once more " * 60


async def _listed(states: Any) -> list[Any]:
    return [state async for state in states]


def programmed(number: int, without: str = "\0") -> dict[str, Any]:
    """Run a program of the document, `without` a line of it; the names it has defined."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(PROGRAMS[number].replace(without, ""), "moving.md", "exec"), names)
    names.get("tools", []).append(ask)
    return names


@contextlib.contextmanager
def old_agent(names: dict[str, Any], mode: str, file: str = FILE) -> Iterator[Agent]:
    if mode == "sync":
        with SqliteSaver.from_conn_string(file) as saver:
            yield Agent(names["old_agent"](saver), None)
        return
    with asyncio.Runner() as runner:
        opening = AsyncSqliteSaver.from_conn_string(file)
        yield Agent(names["old_agent"](runner.run(opening.__aenter__())), runner)
        runner.run(opening.__aexit__(None, None, None))


@contextlib.contextmanager
def new_agent(names: dict[str, Any], mode: str, events: list[MemoryEvent]) -> Iterator[Agent]:
    opening = MemoryMiddleware.open(names["settings"], on_event=events.append)
    if mode == "sync":
        with opening as memory:
            yield Agent(names["new_agent"](memory), None)
        return
    with asyncio.Runner() as runner:
        yield Agent(names["new_agent"](runner.run(opening.__aenter__())), runner)
        runner.run(opening.__aexit__(None, None, None))


def stored(work: Any) -> Any:
    """What `work` makes of the threads, opened once more."""

    async def run() -> Any:
        async with ThreadSaver.from_conn_string(FILE) as saver:
            return await work(ThreadStore(saver))

    return asyncio.run(run())


@dataclass
class Before:
    """A folder with a database that the old agent has left, and what it saw in it."""

    folder: Path
    names: dict[str, Any]
    history: list[Seen]
    messages: list[BaseMessage]


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Before:
    """Many turns of the old agent, with at least two summaries, and an interrupt that waits."""
    folder, model = tmp_path_factory.mktemp("old"), Worker()
    with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.setattr("langchain.chat_models.init_chat_model", lambda _: model)
        names = programmed(0)
        with old_agent(names, "async") as agent:
            agent.talk(MOVED, range(TURNS))
            agent.say(WAITING, "ask-first, then go on")
            assert agent.call("get_state", configured(WAITING)).next == ("tools",)
            found = Before(folder, names, agent.history(MOVED), agent.messages(MOVED))
    assert model.summaries >= 2
    assert "summary of the conversation" in found.messages[0].text
    return found


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Worker:
    worker = Worker(profile={"max_input_tokens": WINDOW})
    monkeypatch.setattr("langchain.chat_models.init_chat_model", lambda _: worker)
    return worker


@pytest.fixture
def before(left: Before, model: Worker) -> Before:
    """The old database, in the folder of the test."""
    for file in left.folder.iterdir():
        shutil.copy(file, ".")
    return left


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_moves_by_the_recipe_with_its_database(before: Before, model: Worker, mode: str) -> None:
    names, events = programmed(1), list[MemoryEvent]()
    with new_agent(names, mode, events) as agent:
        # The program has run a turn; all that was there before is as it was.
        assert agent.history(MOVED)[-len(before.history) :] == before.history
        assert agent.messages(MOVED)[: len(before.messages)] == before.messages
        assert [found.value for found in agent.call("get_state", configured(WAITING)).interrupts] == ["May I?"]
        agent.call("invoke", Command(resume="yes"), configured(WAITING))
        assert "the person says yes" in text_of(agent.messages(WAITING))
        turns = TURNS
        while not any(event.name == "compacted" for event in events):
            agent.talk(MOVED, range(turns, turns + 1))
            turns += 1
            assert turns < 40
        messages = agent.messages(MOVED)
    assert messages[: len(before.messages)] == before.messages
    assert [m.text[:11] for m in messages if m.text.startswith("request-")][-1] == f"request-{turns - 1:03d}"
    for sent in model.calls:
        assert faults(sent.messages) == []
    for turn in range(TURNS, turns):
        assert [sent for sent in model.calls if request(turn) in text_of(sent.messages)]
    assert "<conversation_summary" in text_of(model.calls[-2].messages + model.calls[-1].messages)
    assert len([event for event in events if event.name == "conflict"]) == 1
    assert not [event for event in events if event.name == "record_ignored"]
    assert stored(lambda store: store.verify()).problems == []


@pytest.mark.parametrize("mode", MODES)
def test_the_thread_goes_back_to_what_the_old_summariser_had_removed(before: Before, model: Worker, mode: str) -> None:
    kept = {message.id for message in before.messages}
    target = next(
        seen
        for seen in before.history
        if len(seen.messages) > 3 and seen.messages[-1].type == "ai" and not kept & {m.id for m in seen.messages}
    )
    names = programmed(1)
    with new_agent(names, mode, []) as agent:
        moved = agent.messages(MOVED)
        assert agent.messages(MOVED, target.id) == target.messages
    stored(lambda store: store.rewind(MOVED, target.id))
    with new_agent(names, mode, []) as agent:
        assert agent.messages(MOVED) == target.messages
        agent.say(MOVED, "request-900")
        assert faults(model.calls[-1].messages) == []
        assert agent.messages(MOVED)[: len(target.messages)] == target.messages
    stored(lambda store: store.undo(MOVED))
    with new_agent(names, mode, []) as agent:
        assert agent.messages(MOVED) == moved


@pytest.mark.parametrize("mode", MODES)
def test_each_saver_reads_what_it_can_and_the_export_goes_back(
    before: Before, mode: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = programmed(1)
    with new_agent(names, mode, []) as agent:
        agent.talk(MOVED, range(TURNS, TURNS + 2))
        history, messages = agent.history(MOVED), agent.messages(MOVED)
    with old_agent(before.names, mode) as agent:
        with pytest.raises(NotImplementedError, match="lgm1"):
            agent.messages(MOVED)
        for seen in before.history[:-1:10]:
            assert agent.messages(MOVED, seen.id) == seen.messages
    monkeypatch.setenv("LANGGRAPH_MEMORY_DB_PATH", FILE)
    assert CliRunner().invoke(app, ["threads", "export", "--plain", PLAIN]).exit_code == 0
    programmed(2)
    assert f"{len(messages)} messages" in capsys.readouterr().out
    with old_agent(before.names, mode, PLAIN) as agent:
        assert agent.history(MOVED) == history
        # The interrupt that nobody has answered still waits, and the old agent goes on.
        assert [found.value for found in agent.call("get_state", configured(WAITING)).interrupts] == ["May I?"]
        agent.call("invoke", Command(resume="late"), configured(WAITING))
        assert "the person says late" in text_of(agent.messages(WAITING))
        agent.say(MOVED, "request-901")
        assert "summary of the conversation" in agent.messages(MOVED)[0].text


@pytest.mark.parametrize("mode", MODES)
def test_a_run_that_stopped_before_the_old_summariser_has_nothing_to_go_on_with(model: Worker, mode: str) -> None:
    names = programmed(0)
    with old_agent(names, mode) as agent:
        stop = {"interrupt_before": ["SummarizationMiddleware.before_model"]}
        given = {"messages": [("user", "request-500")]}
        if agent.runner is None:
            agent.graph.invoke(given, configured(MOVED), **stop)
        else:
            agent.runner.run(agent.graph.ainvoke(given, configured(MOVED), **stop))
        before = agent.messages(MOVED)
    with new_agent(programmed(1, "asyncio.run(main())"), mode, []) as agent:
        assert agent.call("get_state", configured(MOVED)).next == ()
        assert agent.call("invoke", None, configured(MOVED))["messages"] == before
        agent.say(MOVED, "request-501")
        assert faults(model.calls[-1].messages) == []
        assert "request-500" in text_of(model.calls[-1].messages)
