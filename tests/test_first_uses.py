"""What is easily mistaken in a program's first lines: each mistake is one line that says what to write instead."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph

from langgraph_memory import (
    ConfigError,
    FollowUps,
    LangGraphMemoryError,
    MemoryMiddleware,
    MemoryState,
    RuntimeConfig,
    ThreadDocuments,
    ThreadQueue,
    ThreadSaver,
    ThreadStore,
)
from langgraph_memory.errors import ClosedError, NotEnteredError, described
from tests.support.graphs import thread
from tests.support.models import Scripted

GO = {"messages": [("user", "go")]}
WHO: Any = {"configurable": {"thread_id": "t", "user_id": "ada"}}


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def refused(use: Callable[[], Any], kind: type[Exception] = LangGraphMemoryError) -> str:
    with pytest.raises(kind) as refusal:
        use()
    assert isinstance(refusal.value, LangGraphMemoryError)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


# What has to be entered

OPENED = "MemoryMiddleware.open(…) was not entered yet"
SAVED = "ThreadSaver.from_conn_string(…) was not entered yet"
USES: dict[str, Callable[[Any], Any]] = {
    "saver": lambda opening: opening.saver,
    "tools": lambda opening: opening.tools,
    "model_node": lambda opening: opening.model_node(Scripted()),
    "attach": lambda opening: opening.attach(StateGraph(MemoryState)),
    "agent": lambda opening: create_agent(Scripted(), [], middleware=[opening]),
    "node": lambda opening: StateGraph(MemoryState).add_node("memory", opening),
    "store": ThreadStore,
    "queue": ThreadQueue,
    "documents": ThreadDocuments,
    "follow-ups": FollowUps,
    "memory": lambda opening: MemoryMiddleware(saver=opening),
}


@pytest.mark.parametrize("name", USES)
def test_a_memory_that_was_not_entered_says_how_to_enter_it(name):
    said = refused(lambda: USES[name](MemoryMiddleware.open()), NotEnteredError)
    assert said.startswith(OPENED) and "`async with MemoryMiddleware.open(…) as memory:`, or `with`" in said


@pytest.mark.parametrize("name", ["store", "queue", "documents", "follow-ups", "memory"])
def test_a_saver_that_was_not_entered_says_how_to_enter_it(name):
    said = refused(lambda: USES[name](ThreadSaver.from_conn_string("t.db")), NotEnteredError)
    assert said.startswith(SAVED) and "`async with ThreadSaver.from_conn_string(…) as saver:`" in said


@pytest.mark.parametrize("name", ["conn", "setup", "get_tuple", "serde"])
def test_what_a_saver_has_is_there_once_it_is_entered(name):
    opening: Any = ThreadSaver.from_conn_string("t.db")
    assert f"no {name!r}" in refused(lambda: getattr(opening, name), NotEnteredError)


def test_other_names_are_attributes_that_are_not_there():
    opening: Any = MemoryMiddleware.open()
    assert not hasattr(opening, "colour") and not hasattr(opening, "_repr_html_")
    assert getattr(opening, "colour", 1) == 1


def test_a_saver_is_entered_with_async_with_and_a_blocking_program_is_told_what_it_can_write():
    def use() -> None:
        with ThreadSaver.from_conn_string("t.db"):
            pass

    said = refused(use, NotEnteredError)
    assert "`async with`" in said and "`with MemoryMiddleware.open(…) as memory:`" in said
    assert not Path("t.db").exists()


# What was closed


async def awaited(use: Callable[[], Any]) -> str:
    with pytest.raises(ClosedError, match="closed: its `with` block has ended") as refusal:
        await use()
    assert isinstance(refusal.value, ValueError) and isinstance(refusal.value, LangGraphMemoryError)
    return str(refusal.value)


async def test_whatever_is_used_after_the_block_says_that_it_was_closed():
    async with MemoryMiddleware.open(inline=True) as memory:
        agent = create_agent(Scripted(replies="fine"), [], middleware=[memory], checkpointer=memory.saver)
        await agent.ainvoke(GO, WHO)
        store, retriever, queue = ThreadStore(memory.saver), memory.retriever(WHO), ThreadQueue(memory.saver)
    await awaited(lambda: agent.ainvoke(GO, WHO))
    await awaited(lambda: memory.compact(agent, WHO))
    await awaited(lambda: memory.saver.aget_tuple(WHO))
    await awaited(store.threads)
    await awaited(lambda: store.messages("t"))
    await awaited(lambda: queue.put("t", "more"))
    await awaited(lambda: retriever.search("fine"))


def test_in_a_blocking_program_too():
    with MemoryMiddleware.open() as memory:
        agent = create_agent(Scripted(replies="fine"), [], middleware=[memory], checkpointer=memory.saver)
        agent.invoke(GO, WHO)
    for use in (lambda: agent.invoke(GO, WHO), lambda: agent.get_state(WHO), lambda: memory.saver.get_tuple(WHO)):
        with pytest.raises(ClosedError, match="inside the block"):
            use()


async def test_a_saver_of_its_own_says_so_too():
    async with ThreadSaver.from_conn_string("t.db") as saver:
        await saver.setup()
    await awaited(lambda: saver.aget_tuple(thread()))
    await awaited(saver.verify)


# What is given to the constructors


@pytest.mark.parametrize("kind", [ThreadQueue, ThreadDocuments])
def test_what_waits_and_documents_need_a_saver_with_a_file(kind):
    for given, named in (("t.db", "'t.db'"), (InMemorySaver(), "an InMemorySaver"), (MemoryMiddleware(), "MemoryMidd")):
        said = refused(lambda given=given: kind(given))
        assert said.startswith(f"{kind.__name__} needs a ThreadSaver and was given") and named in said
    with MemoryMiddleware.open() as memory:
        assert "give its `.saver`" in refused(lambda: kind(memory))
        assert kind(memory.saver).saver is memory.saver


def test_a_store_needs_a_saver():
    assert "was given 't.db'" in refused(lambda: ThreadStore("t.db"))  # type: ignore[arg-type]
    assert "was given a MemoryMiddleware" in refused(lambda: ThreadStore(MemoryMiddleware()))  # type: ignore[arg-type]
    with_saver = MemoryMiddleware(saver=InMemorySaver())
    assert "give its `.saver`" in refused(lambda: ThreadStore(with_saver))  # type: ignore[arg-type]
    assert ThreadStore(InMemorySaver())


@pytest.mark.parametrize("given", ["t.db", Path("t.db"), None])
def test_a_saver_is_opened_from_a_path_by_another_name(given):
    said = refused(lambda: ThreadSaver(given))
    assert repr(given) in said and "ThreadSaver.from_conn_string(…)" in said


def test_a_model_in_the_place_of_the_configuration_is_told_where_it_goes():
    for use in (MemoryMiddleware, MemoryMiddleware.open):
        said = refused(lambda use=use: use(Scripted()), ConfigError)
        assert said == "config is a Scripted; allowed: a path, a mapping, a RuntimeConfig. A model goes to `model=`."


def test_any_mapping_is_a_configuration_but_not_for_load():
    given = {"memory": {"context_window": 9000}}
    assert MemoryMiddleware(MappingProxyType(given)).config.memory.context_window == 9000
    said = refused(lambda: RuntimeConfig.load(given), ConfigError)  # type: ignore[arg-type]
    assert "the path of a file" in said and "RuntimeConfig.model_validate(…)" in said


async def told(event: Any) -> None:
    raise AssertionError


class Telling:
    async def __call__(self, event: Any) -> None:
        raise AssertionError


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"saver": "t.db"}, "saver: 't.db' is no saver"),
        ({"saver": InMemorySaver}, "saver: the class InMemorySaver"),
        ({"embeddings": 5}, "embeddings: 5 is no embedding model"),
        ({"embeddings": "openai:a"}, "memory.retrieval.embeddings"),
        ({"on_event": 5}, "on_event: 5 cannot be told"),
        ({"on_event": told}, "on_event: an async function"),
        ({"on_event": Telling()}, "on_event: an async function"),
    ],
)
def test_an_argument_that_would_fail_later_is_refused_at_once(arguments, part):
    assert part in refused(lambda: MemoryMiddleware(**arguments))


def test_listeners_may_be_anything_that_is_called():
    for listener in ([].append, print, lambda event: None, threading.Event):
        assert MemoryMiddleware(on_event=listener)  # type: ignore[arg-type]


# What is given to the methods


@pytest.mark.parametrize("given", [None, 5, Scripted])
def test_a_model_node_needs_a_model(given):
    assert "allowed: a chat model, or provider:name" in refused(lambda: MemoryMiddleware().model_node(given))


def test_compact_takes_a_graph_and_the_config_of_its_thread():
    memory = MemoryMiddleware(model=Scripted())
    agent = create_agent(Scripted(), [], middleware=[memory], checkpointer=InMemorySaver())

    def compacted(*given: Any) -> str:
        return refused(lambda: asyncio.run(memory.compact(*given)))

    assert "given 't' as graph; allowed: a compiled graph" in compacted("t", WHO)
    assert "given a StateGraph as graph" in compacted(StateGraph(MemoryState), WHO)
    assert "compile it first" in compacted(StateGraph(MemoryState), WHO)
    assert "given 't' as config" in compacted(agent, "t") and '{"thread_id": "t-1"}' in compacted(agent, "t")


def test_a_value_is_described_in_a_few_words():
    assert described("x" * 1000) == f"'{'x' * 78}…"
    assert [described(value) for value in (None, 5, InMemorySaver(), Scripted(), Scripted)] == [
        "None",
        "5",
        "an InMemorySaver",
        "a Scripted",
        "the class Scripted",
    ]
