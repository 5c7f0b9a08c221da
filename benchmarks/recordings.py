"""The recorded conversations that are played, and the context windows they are played with.

A recording is a file with one conversation a line, OpenAI-style. Its window is about half of its longest conversation,
so that memory has something to do, and at least 4,000 tokens, so that a summary has room; the one long agent run gets
the 32,000 tokens of a small model. Files without messages are no recordings.
"""

import json
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage, convert_to_messages

WINDOWS = {
    "pi_sessions": 32_000,
    "openhands": 14_000,
    "locomo": 12_000,
    "crosswoz_zh": 6_000,
    "swe_agent": 5_000,
    "misc_agents": 5_000,
    "tau_airline": 4_000,
    "memorybank": 4_000,
    "deep_research": 4_000,
}
DEFAULT_WINDOW = 32_000
DATA_VARIABLE = "LANGGRAPH_MEMORY_TEST_DATA"
BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"

Conversation = list[BaseMessage]


@dataclass(frozen=True)
class Recording:
    """The conversations of one file."""

    name: str
    conversations: list[Conversation]

    @property
    def window(self) -> int:
        return WINDOWS.get(self.name, DEFAULT_WINDOW)


def read_recordings(data: Path | None = None, names: Collection[str] = ()) -> Iterator[Recording]:
    """The recordings in `data`, a file or a folder; only those called `names`, where any are given.

    Without `data` they are looked for in `$LANGGRAPH_MEMORY_TEST_DATA`, else in `../shared/data`. Raises
    `FileNotFoundError` where there are none.
    """
    place = data or Path(os.environ.get(DATA_VARIABLE) or BESIDE)
    files = [file for file in _files(place) if not names or file.stem in names]
    missing = sorted(set(names) - {file.stem for file in files})
    if missing or not files:
        raise FileNotFoundError(f"no recording {', '.join(missing) or '*.jsonl'} in {str(place)!r}")
    for file in files:
        if conversations := _conversations(file):
            yield Recording(file.stem, conversations)


def records(data: Path | None, name: str) -> list[dict[str, Any]]:
    """The conversations of one recording as they are in its file, with whatever else is told of them."""
    place = data or Path(os.environ.get(DATA_VARIABLE) or BESIDE)
    for file in _files(place):
        if file.stem == name:
            return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    raise FileNotFoundError(f"no recording {name} in {str(place)!r}")


def _files(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    return sorted((place / "open" if (place / "open").is_dir() else place).glob("*.jsonl"))


def _conversations(file: Path) -> list[Conversation]:
    with file.open(encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    return [to_messages(record) for record in records if record.get("messages")]


def to_messages(record: dict[str, Any]) -> Conversation:
    """The messages of a conversation, with ids that never change; people's names are left out."""
    messages = convert_to_messages([_nameless(raw) for raw in record["messages"]])
    for position, message in enumerate(messages):
        message.id = f"{record['id']}-{position}"
    return messages


def _nameless(raw: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if key != "name" or raw["role"] == "tool"}
