"""The slash commands of `lgm chat`. What they show is made by the functions behind the commands of `lgm`."""

from __future__ import annotations

import asyncio
import difflib
import re
import shlex
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import typer
from rich.text import Text

from langgraph_memory.context.text import one_line
from langgraph_memory.errors import LangGraphMemoryError, UnknownThreadError
from langgraph_memory.opening import database_path
from langgraph_memory.threads.drawing import draw

from . import going
from . import memory as memory_commands
from .back import described
from .chat_session import Chat
from .console import print_table
from .database import naming
from .errors import MemoryMissingError, UnknownMemoryError
from .listing import listed
from .meter_bar import drawn
from .search import search
from .threads import table_of
from .tree import line, read

Run = Callable[[Chat, str], Awaitable[None]]

NOTHING = "Nothing was said yet."
SHOWN_CHARS = 80
"""Of what was typed and is no command."""
MOST_TURNS = 6
"""Digits up to which a number means turns; ids of checkpoints are longer."""
USAGE: Any = typer.BadParameter.__base__
"""What typer raises for arguments that cannot be used; the class stands in different places in its versions."""
_MEANT = re.compile(r"^(?:--yes|-y)(?:\s+|$)|\s+(?:--yes|-y)$")
OWN_USER = ("--user", "--namespace", "--set", "--help")


class LeaveError(Exception):
    """/exit."""


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    arguments: str
    help: str
    run: Run


def split(text: str) -> tuple[str, str]:
    """The command that a line names, and what stands behind it, a tab away or a blank."""
    name, *rest = text.split(maxsplit=1)
    return name, "".join(rest).strip()


async def run(chat: Chat, text: str) -> None:
    """Do what a line says that begins with a slash. A fault is one line. Raises `LeaveError`."""
    name, arguments = split(text)
    command = COMMANDS.get(name)
    if command is None:
        shown = one_line(name, SHOWN_CHARS)
        near = difflib.get_close_matches(shown.lower(), COMMANDS, 1)
        hint = f"did you mean {near[0]}?" if near else "/help lists them."
        chat.screen.say(f"There is no command {shown}: {hint} (//text says /text to the model.)")
        return
    try:
        with naming(database_path(chat.settings)):
            await command.run(chat, arguments)
    except UnknownThreadError:
        # A thread that a command names is looked up before; the chat's own begins with the first request.
        chat.screen.say(NOTHING)
    except (LangGraphMemoryError, ValueError) as error:
        chat.screen.say(f"Error: {error}")
    except USAGE as error:
        chat.screen.say(f"Error: {error.format_message()}")


# Looking


async def _help(chat: Chat, _: str) -> None:
    for command in COMMANDS.values():
        chat.screen.show(Text(f"{f'{command.name} {command.arguments}'.strip():<28} {command.help}"))
    chat.screen.note("Anything else goes to the model; //text sends /text. Ctrl-C stops an answer, Ctrl-D leaves.")


async def _context(chat: Chat, _: str) -> None:
    report = await chat.report()
    if report is None:
        chat.screen.say(NOTHING)
        return
    for row in drawn(chat.thread_id, report, chat.screen.out):
        chat.screen.show(row)


async def _tree(chat: Chat, arguments: str) -> None:
    if arguments not in ("", "--all"):
        raise ValueError(f"/tree takes --all or nothing, not {arguments!r}.")
    nodes, turns = await read(chat.store, chat.thread_id)
    for row in draw(nodes, all=bool(arguments)):
        chat.screen.show(line(row, turns.get(row.node.checkpoint_id), chat.screen.out.width))
    chat.screen.note("/rewind CHECKPOINT goes back to any of them.")


async def _search(chat: Chat, words: str) -> None:
    if not words:
        raise ValueError("/search WORDS: give a word at least.")
    user = chat.user if _takes_user(chat) else None
    try:
        await asyncio.to_thread(search, words, user=user, config=chat.config_path)
    except (MemoryMissingError, UnknownMemoryError):
        await asyncio.to_thread(search, words, threads=True, config=chat.config_path)


async def _memory(chat: Chat, arguments: str) -> None:
    """As `lgm memory`, for the user of the chat; what it would ask has to be said, as the chat reads the input."""
    given, text = _given(arguments)
    if "-" in (*given, *text):
        raise ValueError("there is no standard input in a chat: give the text itself.")
    if given[0] == "forget" and not {"--yes", "-y", "--help"} & set(given):
        raise ValueError("this removes something for good: say so with /memory forget TEXT --yes.")
    app = typer.main.get_command(memory_commands.app)
    if given[0] not in app.commands and not given[0].startswith("-"):  # type: ignore[attr-defined]
        given = ["show", *given]
    if chat.user is not None and _takes_user(chat) and not any(each.partition("=")[0] in OWN_USER for each in given):
        given += ["--user", chat.user]
    if chat.config_path and "--help" not in given:
        given += ["--config", str(chat.config_path)]
    await asyncio.to_thread(
        app.main, [*given, *(("--", *text) if text else ())], prog_name="/memory", standalone_mode=False
    )


def _given(arguments: str) -> tuple[list[str], list[str]]:
    """What the shell would make of a line, and the text it ends with where it is taken word for word."""
    name, *rest = arguments.split(maxsplit=1)[:2] or ["show"]
    if name not in ("add", "forget") or not rest:
        return shlex.split(arguments) or ["show"], []
    text, yes = _MEANT.subn("", rest[0]) if name == "forget" else (rest[0], 0)
    if (words := _as_in_a_shell(text)) is None:
        return [name, *["--yes"] * bool(yes)], [text]
    return [name, *words, *["--yes"] * bool(yes)], []


def _as_in_a_shell(text: str) -> list[str] | None:
    """The words of a text that begins with an option, or that is quoted as a whole; None for any other."""
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    quoted = text[:1] in ("'", '"') and all(word.startswith("--") for word in words[1:2])
    return words if quoted or text.startswith("--") or not text else None


def _takes_user(chat: Chat) -> bool:
    return any("{user_id}" in part for part in chat.settings.memory.namespace)


async def _threads(chat: Chat, thread: str) -> None:
    if not thread:
        print_table(table_of(await listed(chat.store)), chat.screen.out)
        return
    names = [row.thread_id for row in await chat.store.threads()]
    if thread not in names:
        near = difflib.get_close_matches(thread, names, 1)
        raise ValueError(f"there is no thread {thread!r}{f'; did you mean {near[0]!r}?' if near else ' yet.'}")
    count = await chat.open(thread)
    chat.screen.say(f"{chat.thread_id}: {count:,} messages.")


# Changing


async def _compact(chat: Chat, focus: str) -> None:
    before = await chat.report()
    if before is None:
        chat.screen.say(NOTHING)
        return
    await chat.settle(None)
    after = await chat.memory.compact(chat.graph, chat.config, focus or None)
    if after.compacted == before.compacted and after.total >= before.total:
        chat.screen.say("There is nothing to summarise yet: all of it is newer than what is kept word for word.")
    else:
        chat.screen.say(f"{before.total:,} → {after.total:,} tokens, {after.compacted:,} messages summarised.")


async def _rewind(chat: Chat, arguments: str) -> None:
    target = arguments or "1"
    turns = int(target) if target.isdecimal() and len(target) <= MOST_TURNS else None
    if turns == 0:
        raise ValueError("/rewind N: at least one turn.")
    place = await going.rewind(chat.store, chat.thread_id, None if turns else target, turns)
    chat.screen.say(described(place))
    chat.screen.note("/undo takes it back.")


async def _undo(chat: Chat, _: str) -> None:
    chat.screen.say(described(await going.undo(chat.store, chat.thread_id)))
    chat.screen.note("/undo again takes this back too.")


async def _retry(chat: Chat, _: str) -> None:
    if await chat.report() is None:
        chat.screen.say(NOTHING)
    else:
        await chat.turn(None)


async def _exit(chat: Chat, _: str) -> None:
    raise LeaveError


COMMANDS = {
    command.name: command
    for command in (
        Command("/help", "", "this list", _help),
        Command("/context", "", "where the context window goes", _context),
        Command("/compact", "[FOCUS]", "summarise old messages now", _compact),
        Command("/tree", "[--all]", "the checkpoints of this thread", _tree),
        Command("/rewind", "[N | CHECKPOINT]", "go back N turns (1), or to a checkpoint", _rewind),
        Command("/undo", "", "take back the newest rewind or undo", _undo),
        Command("/retry", "", "ask for an answer once more", _retry),
        Command("/memory", "[show …]", "what is remembered, as `lgm memory`", _memory),
        Command("/search", "WORDS", "search threads and your memory", _search),
        Command("/threads", "[ID]", "list all threads, or go on with one", _threads),
        Command("/exit", "", "leave; so does Ctrl-D", _exit),
    )
}


# Completion


async def completions(chat: Chat, typed: str) -> Sequence[str]:
    """The words that may end what has been typed: commands, then what they take."""
    if not typed.startswith("/"):
        return []
    name, blank, rest = typed.partition(" ")
    if not blank:
        return [each for each in COMMANDS if each.startswith(name)]
    try:
        words = await _arguments(chat, name)
    except LangGraphMemoryError:
        return []
    last = rest.rpartition(" ")[2]
    return [word for word in words if word.startswith(last)]


async def _arguments(chat: Chat, name: str) -> Sequence[str]:
    if name == "/threads":
        return [row.thread_id for row in await chat.store.threads()]
    if name == "/rewind":
        return [node.checkpoint_id for node in reversed(await chat.store.checkpoints(chat.thread_id))]
    if name == "/memory":
        return list(typer.main.get_command(memory_commands.app).commands)  # type: ignore[attr-defined]
    return ["--all"] if name == "/tree" else []
