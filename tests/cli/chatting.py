"""Chats that are read from a pipe."""

from pathlib import Path

from typer.testing import Result

from langgraph_memory.cli.chat_models import PROVIDERS

from .recorded import lgm

FILES = {
    "harbour.txt": "The harbour opens at high tide.\nThe pilot waits at the mole.\n",
    "docs/tides.md": "# Tides\n\nHigh tide is at noon.\n" + "Another line about the sea.\n" * 150,
    "docs/pilots.md": "# Pilots\n" + "A pilot needs a boat, a chart and the tide of the day.\n" * 150,
}
KEYS = tuple(key for provider in PROVIDERS.values() for key in provider.keys)


def write_files() -> None:
    for name, text in FILES.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")


def demo(*lines: str, thread: str = "t", user: str = "ada", options: tuple[str, ...] = ()) -> Result:
    return talked("--model", "demo", "--thread", thread, "--user", user, *options, lines=lines)


def talked(*options: str, lines: tuple[str, ...]) -> Result:
    """A chat to which `lines` are said."""
    return lgm("chat", *options, input="".join(f"{line}\n" for line in lines), **dict.fromkeys(KEYS, ""))
