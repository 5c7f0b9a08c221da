"""Recorded conversations, which are kept beside the repository and not in it."""

import json
import os
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, convert_to_messages

_BESIDE = Path(__file__).resolve().parents[2].parent / "shared" / "data"


def data_dir() -> Path | None:
    """The folder of recordings: `LANGGRAPH_MEMORY_TEST_DATA`, else `../shared/data`; None if it does not exist."""
    folder = Path(os.environ.get("LANGGRAPH_MEMORY_TEST_DATA") or _BESIDE)
    return folder if folder.is_dir() else None


needs_recordings = pytest.mark.skipif(
    data_dir() is None, reason="no recordings: set LANGGRAPH_MEMORY_TEST_DATA or put them into ../shared/data"
)


def load_recordings(name: str, folder: Path | None = None) -> list[dict[str, Any]]:
    """The conversations of one file, such as `pi_sessions`."""
    found = folder or data_dir()
    if found is None:
        raise FileNotFoundError(f"no recordings {name!r}: set LANGGRAPH_MEMORY_TEST_DATA")
    with (found / "open" / f"{name}.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def to_messages(record: dict[str, Any]) -> list[BaseMessage]:
    messages = convert_to_messages(record["messages"])
    for index, message in enumerate(messages):
        message.id = f"{record['id']}-{index}"
    return messages


_TEXTS_OF = {
    "English chat": ("locomo", "memorybank en", "tau_airline chat", "deep_research en"),
    "Chinese chat": ("crosswoz_zh chat", "memorybank zh"),
    "Chinese reports": ("deep_research zh",),
    "Chinese tool results": ("crosswoz_zh tool",),
    "JSON": ("tau_airline tool",),
    "agent chat": ("pi_sessions chat", "swe_agent chat", "openhands chat"),
    "tool arguments": ("pi_sessions args", "swe_agent args", "openhands args", "tau_airline args"),
    "code and tool output": ("pi_sessions tool", "swe_agent tool", "openhands tool"),
    "test output": ("tool_outputs_raw",),
}


def text_groups(half: int, folder: Path | None = None) -> dict[str, list[str]]:
    """Recorded texts by kind, of every second conversation: half 0 or half 1."""
    return {
        group: [text for source in sources for text in _texts(*source.split(), half=half, folder=folder)]
        for group, sources in _TEXTS_OF.items()
    }


def _texts(name: str, only: str = "", *, half: int, folder: Path | None) -> Iterator[str]:
    records = load_recordings(name, folder)
    if len(records) == 1:
        messages = records[0]["messages"]
        middle = len(messages) // 2
        records = [{**records[0], "messages": part} for part in (messages[:middle], messages[middle:])]
    for record in records[half::2]:
        if only in ("en", "zh") and record["lang"] != only:
            continue
        if "text" in record:
            yield record["text"]
        for message in record.get("messages", ()):
            kind = "tool" if message["role"] == "tool" else "chat"
            if only in ("", "en", "zh", kind) and message.get("content"):
                yield message["content"]
            if only == "args":
                yield from (call["function"]["arguments"] for call in message.get("tool_calls") or ())


def usage_segments(
    record: dict[str, Any], count: Callable[[BaseMessage], int], count_text: Callable[[str], int]
) -> list[list[tuple[int, int]]]:
    """(our count, provider's input tokens) of each call, in a list for each stretch between two compactions.

    A stretch is taken to begin with the summary alone: what else was kept is not recorded, so it is a constant that
    our count lacks.
    """
    before = [0, *accumulate(map(count, to_messages(record)))]
    compactions = iter(record["reference_compactions"])
    segments: list[list[tuple[int, int]]] = [[]]
    previous = start = extra = 0
    for usage in record["provider_usage"]:
        index, actual = usage["message_index"], usage["input"] + usage["cacheRead"] + usage["cacheWrite"]
        if actual < previous:
            compaction = next(compactions)
            start, extra = before[compaction["after_message_index"] + 1], count_text(compaction["summary"])
            segments.append([])
        segments[-1].append((extra + before[index] - start, actual))
        previous = actual
    return segments
