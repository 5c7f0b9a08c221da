"""Exports: for programs, for people, for `lgm replay`."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage, convert_to_messages
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_memory.cli.recordings import read_recordings
from langgraph_memory.threads import ThreadStore
from langgraph_memory.threads.export import lines
from tests.support.stores import chat, tell

TALK = [
    SystemMessage("be kind", id="s"),
    HumanMessage([{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:x"}}], id="h"),
    AIMessage("", tool_calls=[{"name": "read", "args": {"path": "a.py", "n": 1}, "id": "c1"}], id="a"),
    ToolMessage("```python\nprint('`x`')\n```\r\n````\n# no heading", tool_call_id="c1", name="read", id="t"),
    AIMessage("done 完成", id="b", usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}),
]


def test_json_lines_give_the_messages_back() -> None:
    found = [json.loads(line) for line in lines("t", TALK, "jsonl")]
    assert [row["id"] for row in found] == ["s", "h", "a", "t", "b"]
    assert found[4] == {
        "id": "b", "type": "ai", "content": "done 完成",
        "usage_metadata": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    }  # fmt: skip
    again = convert_to_messages([{name: row[name] for name in row if name != "usage_metadata"} for row in found])
    assert [(m.type, m.id, m.content, getattr(m, "tool_calls", None)) for m in again] == [
        (m.type, m.id, m.content, getattr(m, "tool_calls", None)) for m in TALK
    ]


def test_text_that_is_no_text_is_kept(tmp_path: Path) -> None:
    odd = [HumanMessage("half \ud83d", id="h"), AIMessage("x", id="a", response_metadata={"raw": b"\x00"})]
    for format in ("jsonl", "recording", "markdown"):
        for line in lines("t", odd, format):
            assert format == "markdown" or line.encode()
    assert json.loads(next(lines("t", odd, "jsonl")))["content"] == "half \ud83d"


def test_a_recording_is_read_by_replay(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_text("\n".join(lines("t-1", TALK, "recording")) + "\n", encoding="utf-8")
    [recording] = read_recordings(file)
    assert recording.id == "t-1"
    assert [(m.type, m.text) for m in recording.messages] == [(m.type, m.text) for m in TALK]
    assert recording.messages[2].tool_calls[0]["args"] == {"path": "a.py", "n": 1}  # type: ignore[attr-defined]


def test_nothing_in_a_text_closes_its_fence() -> None:
    found = list(lines("a\n# b", TALK, "markdown"))
    assert found[0] == "# a # b"
    outside, fence = [], ""
    for line in found:
        mark = re.match("`{3,}", line)
        if fence:
            fence = "" if line == fence else fence
        elif mark:
            fence = mark[0]
        else:
            outside.append(line)
    assert not fence
    assert [line for line in outside if line.startswith("#")] == [
        "# a # b",
        "## 1. system · `s`",
        "## 2. human · `h`",
        "## 3. ai · `a`",
        "## 4. tool `read` answers `c1` · `t`",
        "## 5. ai · `b`",
    ]
    assert "calls `read` `c1`" in outside and '{"path": "a.py", "n": 1}' in found


def test_broken_calls_are_exported_too() -> None:
    broken = AIMessage("", invalid_tool_calls=[{"name": "x`y", "args": "{oops", "id": "c", "error": None}], id="a")
    assert "{oops" in "\n".join(lines("t", [broken], "markdown"))
    row = json.loads(next(lines("t", [broken], "recording")))
    assert row["messages"][0]["tool_calls"][0]["function"]["arguments"] == "{oops"


async def test_a_thread_is_exported_line_by_line() -> None:
    saver = InMemorySaver()
    await tell(chat("add", saver), "one", "two")
    store = ThreadStore(saver)
    assert len([line async for line in store.export("t")]) == 4
    assert "## 1. human · `q one`" in [line async for line in store.export("t", "markdown")]
    wrong: Any = "html"
    with pytest.raises(ValueError, match="no export format 'html'"):
        _ = [line async for line in store.export("t", wrong)]
