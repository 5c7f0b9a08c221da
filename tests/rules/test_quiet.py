"""Calls for summaries are nobody's business: no token, no message, no delay of others, no secret in a log."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import PIIMiddleware
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langgraph_memory import ContextBudgetError, MemoryMiddleware
from tests.support.graphs import (
    GRAPHS,
    MODES,
    Bare,
    Talk,
    agent_graph,
    chat,
    configured,
    grab,
    node_graph,
    rounds,
    summaries_in,
    talk,
    text_of,
    thread,
)
from tests.support.models import GOOD, Hanging, Scripted, Streaming, summariser
from tests.support.server import FORMS, ModelServer

SMALL = {"context_window": 5000}
LONG = chat(12, chars=1400)
ANSWER = "the answer is pier B"
OWN_CHANNEL = "memory_record"


def streaming(kind: str) -> Talk:
    return talk(SMALL, kind=kind, model=Streaming(replies=ANSWER), side=Streaming(replies=GOOD))


async def streamed(talked: Talk, mode: str, modes: Any, graph: Any = None, **options: Any) -> list[Any]:
    graph, given = graph or talked.graph, {"messages": [*LONG, HumanMessage("go", id="go")]}
    if mode == "sync":
        return await asyncio.to_thread(lambda: list(graph.stream(given, talked.config, stream_mode=modes, **options)))
    return [part async for part in graph.astream(given, talked.config, stream_mode=modes, **options)]


def without_record(value: Any) -> Any:
    """`value` as a client sees it that looks at every channel but our own."""
    if isinstance(value, dict):
        return {key: without_record(item) for key, item in value.items() if key != OWN_CHANNEL}
    return [without_record(item) for item in value] if isinstance(value, list | tuple) else value


# Streams


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("stream", ["messages", "updates", "values", "custom", "tasks", "checkpoints", "debug"])
async def test_in_no_stream_mode_is_a_summary_seen_outside_of_its_own_channel(stream, kind, mode):
    talked = streaming(kind)
    found = await streamed(talked, mode, stream)
    assert talked.side.requests
    assert "SUMMARY-TEXT" not in str(without_record(found))
    assert "conversation_summary" not in str(without_record(found))
    if stream == "messages":
        tokens = [
            str(chunk.content) for chunk, _ in found if isinstance(chunk, AIMessage) and chunk.id not in ids(LONG)
        ]
        assert "".join(tokens) == ANSWER


def ids(messages: list[Any]) -> set[str]:
    return {message.id for message in messages}


@pytest.mark.parametrize("kind", GRAPHS)
async def test_a_subgraph_that_compacts_is_as_quiet_in_the_stream_of_its_parent(kind):
    talked = streaming(kind)
    builder = StateGraph(MessagesState)
    builder.add_node("child", talked.graph)
    builder.add_edge(START, "child")
    found = await streamed(talked, "async", "messages", builder.compile(checkpointer=InMemorySaver()), subgraphs=True)
    assert talked.side.requests
    assert "SUMMARY-TEXT" not in str(found)


@pytest.mark.filterwarnings("ignore::langchain_core._api.beta_decorator.LangChainBetaWarning")
@pytest.mark.parametrize("kind", GRAPHS)
async def test_the_messages_of_the_newest_event_stream_are_the_answer_alone(kind):
    talked = streaming(kind)
    given = {"messages": [*LONG, HumanMessage("go", id="go")]}
    run = await talked.graph.astream_events(given, talked.config, version="v3")
    assert [str(await message.text) async for message in run.messages] == [ANSWER]
    assert talked.side.requests


@pytest.mark.parametrize("kind", GRAPHS)
async def test_every_event_of_a_summary_call_says_that_it_is_internal(kind):
    talked = streaming(kind)
    given = {"messages": [*LONG, HumanMessage("go", id="go")]}
    events = [event async for event in talked.graph.astream_events(given, talked.config, version="v2")]
    inner = [event for event in events if event["event"].startswith("on_chat_model") and is_marked(event)]
    outer = [event for event in events if event["event"].startswith("on_chat_model") and not is_marked(event)]
    assert {event["event"] for event in inner} == {f"on_chat_model_{what}" for what in ("start", "stream", "end")}
    assert "previous_summary" not in str([event["data"] for event in outer])
    said = [event["data"].get("chunk") or event["data"].get("output") for event in outer]
    assert "SUMMARY-TEXT" not in str(said)


def is_marked(event: Any) -> bool:
    return "nostream" in event["tags"] and event["metadata"].get("lc_source") == "summarization"


class Watching:
    """Keeps, by run, what a callback handler of the user is told of model calls."""

    def __init__(self) -> None:
        super().__init__()
        self.marked: dict[UUID, bool] = {}
        self.asked: dict[UUID, str] = {}
        self.tokens: dict[UUID, str] = {}

    def started(self, messages: Any, run_id: UUID, tags: Any, metadata: Any) -> None:
        self.asked[run_id] = text_of(messages[0])
        self.marked[run_id] = "nostream" in (tags or []) and metadata.get("lc_source") == "summarization"

    def token(self, token: str, run_id: UUID) -> None:
        self.tokens[run_id] = self.tokens.get(run_id, "") + token


class SyncWatching(Watching, BaseCallbackHandler):
    def on_chat_model_start(self, _: Any, messages: Any, *, run_id: UUID, tags: Any = None, **more: Any) -> None:
        self.started(messages, run_id, tags, more["metadata"])

    def on_llm_new_token(self, token: str, *, run_id: UUID, **_: Any) -> None:
        self.token(token, run_id)


class AsyncWatching(Watching, AsyncCallbackHandler):
    async def on_chat_model_start(self, _: Any, messages: Any, *, run_id: UUID, tags: Any = None, **more: Any) -> None:
        self.started(messages, run_id, tags, more["metadata"])

    async def on_llm_new_token(self, token: str, *, run_id: UUID, **_: Any) -> None:
        self.token(token, run_id)


@pytest.mark.parametrize("handler", [SyncWatching, AsyncWatching])
@pytest.mark.parametrize("kind", GRAPHS)
async def test_the_user_s_callbacks_can_tell_a_summary_call_from_the_answer(kind, handler):
    watching, talked = handler(), streaming(kind)
    talked.config = {**talked.config, "callbacks": [watching], "tags": ["mine"], "metadata": {"mine": 1}}
    await streamed(talked, "async", "messages")
    internal = {run for run, asked in watching.asked.items() if "previous_summary" in asked}
    assert internal == {run for run, marked in watching.marked.items() if marked}
    assert internal
    said = [text for run, text in watching.tokens.items() if run not in internal]
    assert said == [ANSWER]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", GRAPHS)
async def test_the_models_that_were_given_are_left_as_they_were(kind, mode):
    model, side = Streaming(replies=ANSWER), Streaming(replies=GOOD)
    bound = side.bind_tools([grab(10)]).with_config(tags=["mine"])
    talked = talk(SMALL, kind=kind, mode=mode, model=model, side=bound)
    before = [given.model_dump(exclude={"requests", "bound"}) for given in (model, side, bound)]
    await streamed(talked, mode, "messages")
    assert side.requests
    assert before == [given.model_dump(exclude={"requests", "bound"}) for given in (model, side, bound)]


# Overflow while streaming


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("form", [form for form in FORMS if form not in ("empty stream", "silent")])
async def test_a_refused_stream_is_made_once_more_and_the_client_sees_one_answer(form, kind, mode):
    with ModelServer("booked for 04:30", limit=2000, form=form) as server:
        model = ChatOpenAI(base_url=server.url, api_key="x", model="m", max_retries=0, max_tokens=200, streaming=True)
        memory = MemoryMiddleware({"memory": {"context_window": 100_000}})
        graph = (node_graph if kind == "node" else agent_graph)(memory, model)
        given, config = {"messages": [*chat(20, chars=300), HumanMessage("book", id="go")]}, thread()
        if mode == "sync":
            found = await asyncio.to_thread(lambda: list(graph.stream(given, config, stream_mode="messages")))
        else:
            found = [part async for part in graph.astream(given, config, stream_mode="messages")]
        known = ids(given["messages"])
        assert "".join(str(chunk.content) for chunk, _ in found if chunk.id not in known) == "booked for 04:30"
        history = (await graph.aget_state(config)).values["messages"]
        assert [message.id for message in history[:-1]] == [message.id for message in given["messages"]]
        assert history[-1].content == "booked for 04:30"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", GRAPHS)
async def test_a_model_that_fails_after_a_compaction_leaves_nothing_behind_on_the_disk(kind, mode, tmp_path):
    side = summariser(profile={"max_input_tokens": 100_000})
    memory = MemoryMiddleware(
        configured({"context_window": 6000, "flush.enabled": False}), model=side, workspace=tmp_path
    )
    model = Scripted(replies=[ConnectionError("down")] * 3 + ["ok"])
    graph = (node_graph if kind == "node" else agent_graph)(memory, model)
    config = {"configurable": {"thread_id": "t-1", "user_id": "ada"}}
    await graph.aupdate_state(config, {"messages": chat(14, chars=1400)}, as_node="__start__")
    for attempt in range(4):
        call = {"messages": [HumanMessage("go", id="go")]}
        work = asyncio.to_thread(graph.invoke, call, config) if mode == "sync" else graph.ainvoke(call, config)
        if attempt == 3:
            await work
        else:
            with pytest.raises(ConnectionError):
                await work
    assert len(side.requests) == 1
    assert summaries_in(model.last) == 1
    left = await asyncio.to_thread(lambda: [path for path in tmp_path.rglob("*") if path.is_file()])
    assert {path.suffix for path in left} <= {".db", ".jsonl", ".lock", ""}
    for log in (path for path in left if path.suffix == ".jsonl"):
        logged = [json.loads(line)["id"] for line in log.read_text(encoding="utf-8").splitlines()]
        assert len(logged) == len(set(logged))


# Delays


@pytest.mark.parametrize("kind", GRAPHS)
async def test_while_one_thread_waits_for_its_summary_others_are_answered(kind):
    side, model = Hanging(replies=GOOD), Scripted()
    memory = MemoryMiddleware(configured(SMALL), model=side)
    graph = (node_graph if kind == "node" else agent_graph)(memory, model)
    waiting = asyncio.create_task(graph.ainvoke({"messages": [*LONG, HumanMessage("go")]}, thread("slow")))
    async with asyncio.timeout(60):
        while not side.requests:  # noqa: ASYNC110 - the model knows no events
            await asyncio.sleep(0.005)
        for name in ("quick", "quicker"):
            await graph.ainvoke({"messages": chat(3)}, thread(name))
            await graph.ainvoke({"messages": [HumanMessage("and?")]}, thread(name))
        assert not waiting.done()
        side.release.set()
        await waiting
    assert "SUMMARY-TEXT" in text_of(model.last)


@pytest.mark.parametrize("kind", GRAPHS)
def test_in_a_sync_program_too(kind):
    side, model = Hanging(replies=GOOD), Scripted()
    memory = MemoryMiddleware(configured(SMALL), model=side)
    graph = (node_graph if kind == "node" else agent_graph)(memory, model)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(graph.invoke, {"messages": [*LONG, HumanMessage("go")]}, thread("slow"))
        stop = threading.Event()
        while not side.requests and not stop.wait(0.005):
            pass
        graph.invoke({"messages": chat(3)}, thread("quick"))
        assert not waiting.done()
        side.release.set()
        waiting.result(60)
    assert "SUMMARY-TEXT" in text_of(model.last)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_summariser_that_hangs_without_an_async_side_does_not_keep_the_program_alive(mode):
    code = (
        "import asyncio, sys, threading\n"
        "from langchain_core.messages import AIMessage, HumanMessage\n"
        "from langchain_core.runnables import RunnableLambda\n"
        "from langgraph_memory import MemoryMiddleware\n"
        "from tests.support.graphs import chat, configured\n"
        "side = RunnableLambda(lambda _: threading.Event().wait())\n"
        "settings = configured({'context_window': 5000, 'compaction.timeout_seconds': 0.2})\n"
        "memory = MemoryMiddleware(settings, model=side)\n"
        "state = {'messages': chat(12, chars=1400), 'memory_record': {}}\n"
        "update = memory.invoke(state) if sys.argv[1] == 'sync' else asyncio.run(memory(state))\n"
        "print('summary' in str(update))\n"
    )
    root = str(Path(__file__).parents[2])
    ran = subprocess.run(
        [sys.executable, "-c", code, mode],
        env={"PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.stdout == "True\n", ran.stderr


# Privacy

SECRET = "albatross-4711"
KEY = "sk-proj-abcdef0123456789ABCDEF"


@pytest.mark.parametrize("mode", MODES)
async def test_what_is_filtered_out_for_the_model_never_reaches_the_summariser(mode):
    filters = PIIMiddleware("email", strategy="redact", apply_to_input=True)
    for first in (True, False):
        side, model = summariser(), Scripted()
        memory = MemoryMiddleware(configured({**SMALL, "compaction.min_messages": 4}), model=side)
        middleware = [filters, memory] if first else [memory, filters]
        graph = create_agent(model, [], middleware=middleware, checkpointer=InMemorySaver())
        for turn in range(10):
            given = {"messages": [HumanMessage(f"{turn} ada@harbour.example wrote " + "word " * 700)]}
            if mode == "sync":
                await asyncio.to_thread(graph.invoke, given, thread())
            else:
                await graph.ainvoke(given, thread())
        assert side.requests
        assert "ada@harbour" not in "".join(request.text for request in [*side.requests, *model.requests])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("replies", [GOOD, "", [RuntimeError("down")]], ids=["good", "blank", "raises"])
@pytest.mark.parametrize("kind", GRAPHS)
async def test_no_log_line_and_no_event_holds_what_was_said(kind, replies, mode, caplog):
    side = Scripted(replies=replies if isinstance(replies, list) else f"{replies}\n{SECRET}" if replies else "")
    talked = talk(SMALL, kind=kind, mode=mode, side=side, system=f"the word is {SECRET}", tools=[grab(10)])
    said = [m.model_copy(update={"content": f"{SECRET} {m.content}"}) for m in [*LONG, *rounds(4, chars=9000)]]
    caplog.set_level(logging.DEBUG, "langgraph_memory")
    await talked.send(*said, HumanMessage(SECRET, id="go"))
    assert talked.named("compacted")
    assert SECRET not in "".join(record.getMessage() for record in caplog.records if "langgraph_memory" in record.name)
    assert SECRET not in json.dumps([event.to_json() for event in talked.events])


@pytest.mark.parametrize("mode", MODES)
async def test_a_request_that_an_error_quotes_is_neither_logged_nor_told_as_a_whole(mode, caplog):
    def reply(messages: list[BaseMessage]) -> Any:
        return RuntimeError(f"401 for Bearer {KEY} (api_key={KEY}): {text_of(messages)} api_key: {KEY}")

    bare = Bare(SMALL, side=Scripted(replies=reply))
    caplog.set_level(logging.DEBUG, "langgraph_memory")
    await bare.by(mode, LONG)
    told = [event.reason for event in bare.named("compaction_failed")]
    assert told
    assert all("401" in reason and len(reason) < 500 for reason in told)
    assert KEY not in "".join(told) + caplog.text
    assert len(caplog.text) < 5000


def test_a_budget_that_cannot_be_met_is_told_in_numbers():
    bare = Bare({"context_window": 1000, "compaction.enabled": False, "budget.system_tokens": 2000})
    with pytest.raises(ContextBudgetError) as caught:
        bare.sync([HumanMessage(f"{SECRET} " * 50, id=SECRET)])
    assert SECRET not in str(caught.value) + str(caught.value.parts)
