"""Made recordings, and the command line to run on them."""

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from typer.testing import CliRunner, Result

from langgraph_memory.cli import app
from langgraph_memory.cli.database import with_store
from langgraph_memory.cli.reading import read_thread
from langgraph_memory.threads import ThreadSaver
from tests.support.stores import chat, tell

Raw = dict[str, Any]


def lgm(*args: object, input: str | None = None, **environ: str) -> Result:
    return CliRunner().invoke(app, list(map(str, args)), input=input, env={"COLUMNS": "160", **environ})


def lgm_json(*args: object) -> Any:
    result = lgm(*args, "--json")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return json.loads(result.stdout)


def user(text: Any) -> Raw:
    return {"role": "user", "content": text}


def assistant(text: str | None = "", *calls: Raw) -> Raw:
    return {"role": "assistant", "content": text, **({"tool_calls": list(calls)} if calls else {})}


def call(id: str | None, name: str = "look", arguments: str = "{}") -> Raw:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(id: str | None, text: str) -> Raw:
    return {"role": "tool", "tool_call_id": id, "name": "look", "content": text}


def long_task(turns: int = 3, steps: int = 6, lines: int = 60) -> list[Raw]:
    """An agent that looks at things: `steps` calls a turn, each with a result of about 10 tokens a line."""
    messages = []
    for turn in range(turns):
        messages.append(user(f"Request {turn}: find out what number {turn} is about."))
        for step in range(steps):
            id = f"call-{turn}-{step}"
            text = "\n".join(f"line {line} of step {step} in turn {turn}: {line * step}" for line in range(lines))
            messages += [assistant(f"Step {step}.", call(id, arguments=json.dumps({"step": step}))), tool(id, text)]
        messages.append(assistant(f"Number {turn} is about {turn * turn}."))
    return messages


def write(name: str, conversations: Iterable[tuple[str, list[Raw]] | object]) -> Path:
    """A JSON Lines file of (id, messages) pairs, or of anything else as it is."""
    lines = [{"id": c[0], "messages": c[1]} if isinstance(c, tuple) else c for c in conversations]
    path = Path(name)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def talk(*texts: str, thread: str = "t", channel: str = "add", kind: type[AsyncSqliteSaver] = ThreadSaver) -> None:
    """Tell a graph without memory `texts`, a turn each, in the database of the command line.

    It answers, and asks before it answers what ends in "?".
    """
    Path("memory").mkdir(exist_ok=True)

    async def main() -> None:
        async with kind.from_conn_string("memory/threads.db") as saver:
            await tell(chat(channel, saver), *texts, name=thread)

    asyncio.run(main())


def stored(thread_id: str) -> list[BaseMessage]:
    """The messages of a thread."""
    return list(with_store(None, lambda store: read_thread(store, thread_id))["messages"])


def texts(messages: Iterable[BaseMessage]) -> list[Any]:
    return [message.content for message in messages]
