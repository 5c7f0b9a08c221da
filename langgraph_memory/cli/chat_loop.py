"""Line after line of a chat, from its beginning to its end."""

from __future__ import annotations

import asyncio
import getpass
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from langgraph_memory.config import RuntimeConfig, load_config
from langgraph_memory.opening import database_path, workspace_of
from langgraph_memory.spilling import spill_folder

from .called import program
from .chat_agent import built
from .chat_commands import LeaveError, completions, split
from .chat_commands import run as run_command
from .chat_demo import demo_config
from .chat_folder import Folder
from .chat_input import Input, open_input
from .chat_interrupt import Stopped, catching, interruptible
from .chat_models import Chosen, choose
from .chat_screen import Screen
from .chat_session import Chat
from .database import open_memory

HISTORY = ".chat_history"
"""In the workspace; no id becomes a name that begins with a dot."""
WAIT_SECONDS = 5.0
"""How long leaving waits for what is being written to the memory."""


@dataclass(frozen=True)
class Options:
    """What was asked for on the command line."""

    model: str | None = None
    base_url: str | None = None
    model_name: str | None = None
    thread: str | None = None
    user: str | None = None
    folder: Path = Path()
    config: Path | None = None

    def resume(self, thread_id: str) -> str:
        """The command that goes on with a thread as this one was begun."""
        named = {
            "--model": self.model,
            "--base-url": self.base_url,
            "--model-name": self.model_name,
            "--user": self.user,
            "--folder": str(self.folder) if self.folder != Path() else None,
            "--config": str(self.config) if self.config else None,
        }
        given = [word for name, value in named.items() if value for word in (name, value)]
        return f"{program()} {shlex.join(['chat', *given, '--thread', thread_id])}"


def run(options: Options) -> int:
    """Chat until the end; the exit code. Raises `LangGraphMemoryError` where it cannot begin."""
    settings = load_config(options.config).config
    chosen = choose(options.model, options.base_url, options.model_name)
    folder = Folder.of(options.folder, kept_by(settings))
    return asyncio.run(_chat(options, demo_config(settings) if chosen.model is None else settings, chosen, folder))


def kept_by(config: RuntimeConfig) -> list[Path]:
    """What the memory keeps on disk, of all its users."""
    workspace = workspace_of(config)
    return [workspace, Path(database_path(config)), spill_folder(config, workspace)]


async def _chat(options: Options, config: RuntimeConfig, chosen: Chosen, folder: Folder) -> int:
    screen = Screen()
    async with open_memory(config, on_event=screen.event) as memory:
        graph = built(memory, chosen.model, folder)
        chat = Chat(memory, graph, chosen, screen, options.user or _login(), options.config)
        known = await chat.open(options.thread)
        _greet(chat, known, folder)
        lines = await asyncio.to_thread(
            open_input, workspace_of(config) / HISTORY, lambda typed: completions(chat, typed)
        )
        # Between two lines there is nothing to be stopped.
        with catching(lambda: None):
            await _lines(chat, lines)
        await _leave(chat, options)
    return 1 if chat.failed and not sys.stdin.isatty() else 0


async def _lines(chat: Chat, lines: Input) -> None:
    while True:
        with chat.screen.held():
            text = await lines.line()
        if text is None:
            return
        try:
            await _line(chat, text.strip())
        except LeaveError:
            return


async def _line(chat: Chat, text: str) -> None:
    if not text:
        return
    if not text.startswith("/") or text.startswith("//"):
        await chat.turn(text.removeprefix("/") if text.startswith("//") else text)
    elif split(text)[0] == "/retry":
        # It catches Ctrl-C itself.
        await run_command(chat, text)
    else:
        try:
            await interruptible(run_command(chat, text))
        except Stopped:
            chat.screen.say("Stopped.")


def _greet(chat: Chat, known: int, folder: Folder) -> None:
    how = f"goes on after {known:,} messages" if known else "a new thread"
    whose = [f"user {chat.user}"] if chat.user else []
    chat.screen.note(" · ".join([f"thread {chat.thread_id} ({how})", chat.chosen.label, *whose, str(folder.root)]))
    if chat.chosen.model is None:
        chat.screen.note("This is the demo: fixed rules that use real tools and real memory, no language model.")
    chat.screen.note("/help lists the commands, Ctrl-C stops an answer, Ctrl-D leaves.")


async def _leave(chat: Chat, options: Options) -> None:
    background = chat.memory.background
    if background.under_way():
        chat.screen.note(f"Waiting for the memory to be written, {WAIT_SECONDS:.0f} seconds at most …")
        try:
            await interruptible(background.drain(WAIT_SECONDS))
        except Stopped:
            chat.screen.note("Not waited for; it is made up for by the next turn.")
    if await chat.report():
        chat.screen.say(f"Go on with: {options.resume(chat.thread_id)}")


def _login() -> str | None:
    """Who is logged in; None where the system does not say."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return None
