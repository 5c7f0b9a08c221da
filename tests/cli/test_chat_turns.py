"""Turns of a chat that do not end: stopped at every step, failed, or killed with their program."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_memory import MemoryMiddleware, RuntimeConfig
from langgraph_memory.cli.chat_agent import built
from langgraph_memory.cli.chat_commands import run as run_command
from langgraph_memory.cli.chat_folder import Folder
from langgraph_memory.cli.chat_interrupt import Stopped, interruptible
from langgraph_memory.cli.chat_models import Chosen
from langgraph_memory.cli.chat_screen import Screen
from langgraph_memory.cli.chat_session import Chat
from langgraph_memory.cli.meter import is_paired
from langgraph_memory.errors import ThreadBusyError
from langgraph_memory.events import MemoryEvent
from tests.support.models import Scripted, Streaming

from .chatting import write_files

pytestmark = pytest.mark.slow

CALLS = AIMessage("", tool_calls=[{"name": "read", "args": {"path": "harbour.txt"}, "id": f"c{n}"} for n in range(2)])
CONFIG = {"memory": {"flush": {"trigger": "never"}}}


@asynccontextmanager
async def chatting(replies: Any, kind: type[Scripted] = Streaming) -> AsyncIterator[tuple[Chat, Scripted]]:
    model = kind(replies=replies)
    folder = await asyncio.to_thread(Folder.of, await asyncio.to_thread(_here))
    async with MemoryMiddleware.open(RuntimeConfig.model_validate(CONFIG)) as memory:
        chat = Chat(memory, built(memory, model, folder), Chosen(model, "scripted"), Screen(), "ada", None)
        await chat.open("t")
        yield chat, model


def _here():
    from pathlib import Path

    write_files()
    return Path.cwd()


async def said(chat: Chat) -> list[Any]:
    state = await chat.state()
    assert not state.tasks
    return state.values.get("messages", [])


def interrupting(chat: Chat, at: int) -> None:
    """Have Ctrl-C come at the `at`-th checkpoint from now."""
    saver: Any = chat.memory.saver
    whole, left = saver.aput, at

    async def aput(*arguments: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0:
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(0.02)
        return await whole(*arguments)

    saver.aput = aput


@pytest.mark.parametrize("at", range(1, 7))
async def test_a_turn_that_is_stopped_at_any_step_leaves_a_thread_that_goes_on(at, capfd):
    async with chatting([CALLS, "The first answer.", "The second answer."]) as (chat, model):
        interrupting(chat, at)
        await chat.turn("First question")
        assert "Stopped." in capfd.readouterr().err
        messages = await said(chat)
        assert [message.text for message in messages if isinstance(message, HumanMessage)] == ["First question"]
        calls = len(model.requests)
        model.replies = "The last answer."
        await chat.turn("Second question")
        messages = await said(chat)
        asked = [message.text for message in messages if isinstance(message, HumanMessage)]
        assert asked == ["First question", "Second question"]
        assert messages[-1].text == "The last answer."
        assert len({message.id for message in messages}) == len(messages)
        assert len(model.requests) == calls + 1
        sent = model.last[1:]
        assert is_paired(sent)
        shown = "\n".join(str(message.content) for message in sent)
        assert shown.count("First question") == shown.count("Second question") == 1


async def test_a_turn_is_stopped_while_the_model_is_silent(capfd):
    async def silent():
        await asyncio.sleep(60)

    async with chatting("Here.") as (chat, _):
        loop = asyncio.get_running_loop()
        whole = Streaming._astream

        async def hangs(self, *arguments: Any, **options: Any):
            loop.call_soon(signal.raise_signal, signal.SIGINT)
            await silent()
            yield

        Streaming._astream = hangs
        try:
            await chat.turn("A question")
        finally:
            Streaming._astream = whole
        assert "Stopped." in capfd.readouterr().err
        await run_command(chat, "/retry")
        assert [message.text for message in await said(chat)] == ["A question", "Here."]


async def test_what_was_put_in_by_a_program_that_was_killed_is_answered_with_the_next():
    async with chatting("Both.") as (chat, model):
        before = HumanMessage("Before the kill", id="m1")
        await chat.graph.aupdate_state(chat.config, {"messages": [before]}, as_node="__input__")
        assert (await chat.state()).next == ("__start__",)
        await chat.turn("After it")
        assert [message.text for message in await said(chat)] == ["Before the kill", "After it", "Both."]
        assert "Before the kill" in str(model.last) and len(model.requests) == 1


async def test_what_still_waits_in_a_thread_does_not_keep_it_from_being_compacted():
    async with chatting([CALLS, "Done."]) as (chat, _):
        await chat.turn("A question")
        await chat.graph.aupdate_state(chat.config, {"messages": [HumanMessage("More", id="m2")]}, as_node="memory")
        with pytest.raises(ThreadBusyError):
            await chat.memory.compact(chat.graph, chat.config)
        await run_command(chat, "/compact")
        assert [message.id for message in await said(chat)].count("m2") == 1


async def test_a_model_that_never_stops_calling_tools_is_stopped(monkeypatch, capfd):
    def calls(_: Any) -> AIMessage:
        return AIMessage("", tool_calls=[{"name": "list_files", "args": {}, "id": f"c{id(object())}"}])

    async with chatting(calls) as (chat, model):
        monkeypatch.setattr("langgraph_memory.cli.chat_session.STEPS", 12)
        await chat.turn("Loop")
        assert "No answer after 12 steps" in capfd.readouterr().err and chat.failed
        model.replies = "Out of it."
        await chat.turn("And now?")
        assert (await said(chat))[-1].text == "Out of it."


async def test_remarks_wait_while_somebody_types_and_begin_a_new_line(capfd):
    screen = Screen()
    screen.token("half a line")
    with screen.held():
        screen.note("a remark")
        assert capfd.readouterr() == ("half a line\n", "")
    assert capfd.readouterr() == ("", "a remark\n")


async def test_what_the_memory_did_waits_for_the_end_of_a_line_of_the_answer(capfd):
    screen = Screen()
    screen.token("half a ")
    screen.event(MemoryEvent("memory_flushed", "t", "turn"))
    assert capfd.readouterr() == ("half a ", "")
    screen.token("line\nand ")
    assert capfd.readouterr() == ("line\nand ", "  · memory_flushed: turn\n")
    screen.event(MemoryEvent("memory_changed", "t", "saved"))
    screen.called("read", {})
    assert capfd.readouterr() == ("\n", "  · memory_changed: saved\n  → read({})\n")
    screen.event(MemoryEvent("memory_flushed", "t", "turn"))
    assert capfd.readouterr() == ("", "  · memory_flushed: turn\n")


async def test_ctrl_c_ends_only_what_is_under_way():
    async def endless():
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(60)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(Stopped):
        await interruptible(endless())
    assert await interruptible(asyncio.sleep(0, "done")) == "done"
    assert signal.getsignal(signal.SIGINT) is before
