"""`langgraph dev` with our checkpointer, driven as a client drives it.

The server runs without keys and without a network, and ends a run in which code blocks its event loop.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from langgraph_memory import ThreadStore
from langgraph_memory.threads.saver import ThreadSaver

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

pytest.importorskip("langgraph_api")
sdk = pytest.importorskip("langgraph_sdk")

ROOT = Path(__file__).parents[2]
SECONDS = 50
DATABASE = "data/threads.db"
BLOCKING = ("BlockingError", "Blocking call")

AGENT = """
import asyncio
import time

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt


async def model(state):
    text = state["messages"][-1].text
    if text == "slow":
        await asyncio.sleep(60)
    if text == "blocking":
        time.sleep(0.1)
    if text.endswith("?"):
        text = interrupt("say yes or no")
    return {"messages": [AIMessage(f"{text}, {len(state['messages'])}")]}


builder = StateGraph(MessagesState)
builder.add_node("model", model)
builder.add_edge(START, "model")
graph = builder.compile()
"""

NOTICING = """
from contextlib import asynccontextmanager
from pathlib import Path

from langgraph_memory import create_checkpointer


@asynccontextmanager
async def made():
    async with create_checkpointer() as saver:
        saver.on_branched.append(lambda branch: print("branched", branch, flush=True))
        print("made by hand", flush=True)
        yield saver
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def process(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """The server, which is there for whoever looks into `log` after it has gone."""
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    offline = {"LANGGRAPH_NO_VERSION_CHECK": "true", "LANGGRAPH_CLI_NO_ANALYTICS": "1", "LANGSMITH_TRACING": "false"}
    strict = {"LANGGRAPH_STRICT_MSGPACK": "true"}
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload", "--port", str(port)]
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen(
            [*command, "--host", "127.0.0.1"],
            cwd=folder,
            env={**kept, **offline, **strict, "HOME": str(folder), "PYTHONPATH": str(ROOT)},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            yield running
        finally:
            running.send_signal(signal.SIGINT)
            try:
                running.wait(10)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()


@asynccontextmanager
async def server(folder: Path, checkpointer: str) -> AsyncIterator[Any]:
    """A client of a server whose checkpointer is found under this path."""
    settings = {"dependencies": ["."], "graphs": {"agent": "./agent.py:graph"}, "checkpointer": {"path": checkpointer}}
    (folder / "langgraph.json").write_text(json.dumps(settings))
    (folder / "agent.py").write_text(AGENT)
    (folder / "runtime.json").write_text(json.dumps({"persistence": {"thread_db": DATABASE}}))
    port = free_port()
    with process(folder, port) as running:
        async with sdk.get_client(url=f"http://127.0.0.1:{port}", api_key=None) as client:
            await answering(client, running, folder)
            yield client


async def answering(client: Any, running: subprocess.Popen[bytes], folder: Path) -> None:
    until = time.monotonic() + SECONDS
    while True:
        assert running.poll() is None and time.monotonic() < until, log(folder)
        try:
            await client.http.get("/ok")
            return
        except sdk.errors.APIConnectionError:
            await asyncio.sleep(0.1)
        except OSError:
            await asyncio.sleep(0.1)


def log(folder: Path) -> str:
    return (folder / "log").read_text()


def say(text: str) -> Any:
    return {"messages": [{"role": "user", "content": text}]}


def texts(values: Any) -> list[str]:
    return [message["content"] for message in values["messages"]]


TWO = ["one", "one, 1", "two", "two, 3"]
THREE = [*TWO, "three", "three, 5"]


async def test_a_server_keeps_its_threads_here(tmp_path: Path) -> None:
    async with server(tmp_path, "langgraph_memory.create_checkpointer") as client:
        runs, threads = client.runs, client.threads
        assert texts(await runs.wait(None, "agent", input=say("hello"))) == ["hello", "hello, 1"]

        thread = (await threads.create())["thread_id"]
        for text in ("one", "two", "three"):
            values = await runs.wait(thread, "agent", input=say(text))
        assert texts(values) == THREE
        state = await threads.get_state(thread)
        assert texts(state["values"]) == THREE and state["next"] == []

        history = await threads.get_history(thread, limit=100)
        assert len(history) == 9 and history[0]["checkpoint"] == state["checkpoint"]
        second = next(old for old in history if texts(old["values"]) == TWO and not old["next"])

        copy = (await threads.copy(thread))["thread_id"]
        changed = await threads.update_state(thread, say("instead"), checkpoint=second["checkpoint"], as_node="model")
        assert texts((await threads.get_state(thread))["values"]) == [*TWO, "instead"]
        values = await runs.wait(thread, "agent", input=say("on"), checkpoint=changed["checkpoint"])
        assert texts(values) == [*TWO, "instead", "on", "on, 6"]

        assert texts((await threads.get_state(copy))["values"]) == THREE
        assert texts(await runs.wait(copy, "agent", input=say("copied"))) == [*THREE, "copied", "copied, 7"]
        assert len((await threads.get_state(thread))["values"]["messages"]) == 7

        await threads.delete(thread)
        with pytest.raises(sdk.errors.NotFoundError):
            await threads.get_state(thread)

    assert not any(blocked in log(tmp_path) for blocked in BLOCKING), log(tmp_path)
    async with ThreadSaver.from_conn_string(tmp_path / DATABASE) as saver:
        assert thread not in (names := {row.thread_id for row in await ThreadStore(saver).threads()}) and copy in names
        assert [message.text for message in await ThreadStore(saver).messages(copy)][-1] == "copied, 7"
        assert (await saver.verify()).problems == []


async def test_a_server_asks_goes_back_and_gives_up(tmp_path: Path) -> None:
    (tmp_path / "noticing.py").write_text(NOTICING)
    async with server(tmp_path, "./noticing.py:made") as client:
        runs, threads = client.runs, client.threads
        thread = (await threads.create())["thread_id"]
        await runs.wait(thread, "agent", input=say("really?"))
        asked = await threads.get_state(thread)
        assert asked["next"] == ["model"] and asked["tasks"][0]["interrupts"]
        answered = await runs.wait(thread, "agent", command={"resume": "yes"})
        assert texts(answered) == ["really?", "yes, 1"]
        other = await runs.wait(thread, "agent", input=say("instead"), checkpoint=asked["checkpoint"])
        assert texts(other) == ["really?", "instead", "instead, 2"]

        slow = await runs.create(thread, "agent", input=say("slow"))
        while (await runs.get(thread, slow["run_id"]))["status"] == "pending":  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        values = await runs.wait(thread, "agent", input=say("quick"), multitask_strategy="rollback")
        assert texts(values) == ["really?", "instead", "instead, 2", "quick", "quick, 4"]

        streamed = [part async for part in runs.stream(thread, "agent", input=say("last"), stream_mode="values")]
        assert texts(streamed[-1].data)[-1] == "last, 6"

        assert not any(blocked in log(tmp_path) for blocked in BLOCKING), log(tmp_path)
        with pytest.raises(Exception, match="Blocking"):
            await runs.wait(thread, "agent", input=say("blocking"))

    assert "made by hand" in log(tmp_path) and "branched" not in log(tmp_path)
