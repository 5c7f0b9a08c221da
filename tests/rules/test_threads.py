"""One file, many users: what is stored is what is read, nobody hangs, and nothing is half there."""

from __future__ import annotations

import array
import asyncio
import enum
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import ormsgpack
import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Send
from pydantic import BaseModel

from langgraph_memory.errors import UnstorableError, WrongThreadError
from langgraph_memory.threads import ThreadSaver, ThreadStore
from langgraph_memory.threads.blocks import Moulds
from langgraph_memory.threads.moulds import mould_of
from tests.support.savers import checkpoint, config, talk
from tests.support.stores import chat, tell, texts, thread

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "threads.db"


@pytest.fixture
async def saver(path: Path) -> AsyncIterator[ThreadSaver]:
    async with ThreadSaver.from_conn_string(path) as made:
        yield made


async def put(saver: ThreadSaver, number: int = 1, thread_id: Any = "t-1", **values: Any) -> Any:
    return await saver.aput(config(thread_id), checkpoint(number, **values), {"source": "loop", "step": number}, {})


async def read(saver: ThreadSaver, thread_id: Any = "t-1") -> Any:
    found = await saver.aget_tuple(config(thread_id))
    assert found is not None
    return found.checkpoint["channel_values"]


def content_of(path: Any) -> bytes:
    return Path(path).read_bytes()


def write(path: Any, content: bytes) -> None:
    Path(path).write_bytes(content)


# Values


async def test_an_array_in_a_message_is_an_array_however_often_it_is_read(saver: ThreadSaver) -> None:
    numpy = pytest.importorskip("numpy")
    await put(saver, messages=[ToolMessage("plot", tool_call_id="c", artifact=numpy.arange(4), id="m")])
    for _ in range(3):
        found = (await read(saver))["messages"][0].artifact
        assert isinstance(found, numpy.ndarray) and found.tolist() == [0, 1, 2, 3]


async def test_an_array_that_changes_its_shape_only_has_changed(saver: ThreadSaver) -> None:
    numpy = pytest.importorskip("numpy")
    message = ToolMessage("plot", tool_call_id="c", artifact=numpy.arange(4), id="m")
    await put(saver, 1, messages=[message])
    message.artifact = message.artifact.reshape(2, 2)
    await put(saver, 2, messages=[message])
    assert (await read(saver))["messages"][0].artifact.tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    "odd", [array.array("i", [1, 2]), [array.array("b", b"x")], {"deep": [{"er": array.array("b", b"y")}]}]
)
def test_what_is_no_plain_value_has_no_mould(odd: Any) -> None:
    assert mould_of(ToolMessage("x", tool_call_id="c", artifact=odd), 1) is None


@pytest.mark.parametrize("plain", [None, {1, 2}, {"a": [1, {2: b"x"}]}, (1, frozenset({2})), [[]], {"k": {}}])
def test_plain_values_have_a_mould(plain: Any) -> None:
    first, second = (ToolMessage("x", tool_call_id="c", artifact=plain) for _ in range(2))
    assert Moulds([mould_of(first, 1)]).changed([second]) == []


def ring() -> Any:
    root: dict[str, Any] = {"children": []}
    root["children"] += [{"parent": root, "n": n} for n in range(3)]
    return root


@pytest.mark.parametrize(
    "value", [ring(), [ring()], [ToolMessage("x", tool_call_id="c", artifact=ring())], {"\ud800": ring()}]
)
async def test_a_value_that_holds_itself_is_refused_at_once(saver: ThreadSaver, value: Any) -> None:
    with pytest.raises(UnstorableError, match="Nothing was written"):
        await put(saver, x=value)
    assert await saver.aget_tuple(config()) is None


def nested(depth: int, leaf: Any, kind: type) -> Any:
    for _ in range(depth):
        leaf = [leaf] if kind is list else {"a": leaf}
    return leaf


@pytest.mark.parametrize("kind", [list, dict])
@pytest.mark.parametrize("depth", [1, 63, 64, 65, 100, 200])
async def test_broken_text_is_kept_however_deep_it_stands(saver: ThreadSaver, depth: int, kind: type) -> None:
    value = nested(depth, "half \ud83d ?", kind)
    place = await put(saver, x=value)
    await saver.aput_writes(place, [("x", value)], "task")
    found = await saver.aget_tuple(config())
    assert found is not None and found.pending_writes is not None
    assert found.checkpoint["channel_values"]["x"] == found.pending_writes[0][2] == value


@pytest.mark.parametrize("depth", [300, 600, 1500, 5000])
async def test_what_is_too_deep_is_refused(saver: ThreadSaver, depth: int) -> None:
    for leaf in ("text", "half \ud83d"):
        with pytest.raises(UnstorableError):
            await put(saver, x=nested(depth, leaf, list))


class Berth(enum.Enum):
    EAST = "east \ud83d"


class Form(BaseModel):
    text: str


@dataclass
class Signed:
    text: str

    def __post_init__(self) -> None:
        self.text = self.text.upper()


@pytest.mark.parametrize(
    "value",
    [
        PurePosixPath("/files/\udcff"),
        Berth.EAST,
        re.compile("\ud800"),
        [Document(page_content="\udfff")],
        {"file": [PurePosixPath("\udcff")]},
        Send("node", PurePosixPath("\udcff")),
        Form.model_construct(text="half \ud83d"),
        [Signed("half \ud83d")],
    ],
    ids=["path", "enum", "pattern", "document", "inside", "sent", "model", "changed by its class"],
)
async def test_broken_text_that_cannot_be_kept_is_told_and_never_replaced(saver: ThreadSaver, value: Any) -> None:
    with pytest.raises(UnstorableError, match="half a surrogate pair"):
        await put(saver, x=value)
    assert await saver.aget_tuple(config()) is None


@pytest.mark.parametrize(
    "value", [lambda: 1, object(), 1j, iter([])], ids=["function", "object", "complex", "iterator"]
)
async def test_a_value_nobody_can_store_fails_the_put_and_leaves_the_thread(saver: ThreadSaver, value: Any) -> None:
    await put(saver, 1, messages=talk(2))
    with pytest.raises(UnstorableError, match="'x'"):
        await put(saver, 2, messages=talk(4), x=value)
    with pytest.raises(UnstorableError, match="'messages'"):
        await put(saver, 3, messages=[*talk(2), ToolMessage("x", tool_call_id="c", artifact=value)])
    assert (await read(saver))["messages"] == talk(2)
    await put(saver, 4, messages=talk(6))
    assert (await read(saver))["messages"] == talk(6)
    assert (await saver.verify()).problems == []


async def test_megabytes_in_one_message_are_stored_once_whatever_is_done_to_the_thread(
    saver: ThreadSaver, path: Path
) -> None:
    graph, store = chat("add", saver), ThreadStore(saver)
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "QUJD" * 500_000}}
    await graph.ainvoke({"messages": [HumanMessage([image, {"type": "text", "text": "look"}], id="i")]}, thread())
    await tell(graph, "one", "two")
    await store.rewind("t", (await store.checkpoints("t"))[3].checkpoint_id)
    await store.fork("t", "u")
    await tell(graph, "else")
    assert (await saver.stats()).message_bytes < 2_100_000
    await saver.vacuum()
    assert len(content_of(path)) < 3_000_000
    assert (await saver.verify()).problems == []


@pytest.mark.parametrize("odd", [float("nan"), [float("-inf")], object(), {1, 2}], ids=["nan", "inf", "object", "set"])
async def test_metadata_that_is_not_json_is_refused_before_it_spoils_the_queries(saver: ThreadSaver, odd: Any) -> None:
    await put(saver, messages=talk(1))
    with pytest.raises(UnstorableError, match="metadata"):
        await saver.aput(config("odd"), checkpoint(2), {"source": "loop", "odd": odd}, {})  # type: ignore[typeddict-unknown-key]
    assert len([one async for one in saver.alist(None, filter={"source": "loop"})]) == 1
    await saver.adelete_for_runs(["nobody"])


# Decoding


class Trap:
    """Notes that somebody built it."""

    built: list[Any] = []  # noqa: RUF012 - shared on purpose

    def __init__(self, *given: Any) -> None:
        self.built.append(given)


@pytest.mark.parametrize("table", ["writes", "lgm_items", "lgm_queue"])
async def test_with_a_list_of_allowed_types_a_planted_row_builds_nothing(path: Path, table: str) -> None:
    Trap.built.clear()
    planted = ormsgpack.packb(ormsgpack.Ext(0, ormsgpack.packb((Trap.__module__, "Trap", "boo"))))
    serde = JsonPlusSerializer(allowed_msgpack_modules=[("nobody", "Nothing")])
    async with ThreadSaver.from_conn_string(path, serde=serde) as saver:
        place = await put(saver, messages=talk(2), big="b" * 400)
        await saver.aput_writes(place, [("x", 1)], "task")
    with closing(sqlite3.connect(path)) as db:
        column = "value" if table == "writes" else "data"
        db.execute(f"UPDATE {table} SET type = 'msgpack', {column} = ?", (planted,))
        db.commit()
    async with ThreadSaver.from_conn_string(path, serde=serde) as saver:
        found = await saver.aget_tuple(config())
        assert found is not None
        assert [one async for one in saver.alist(config())]
    assert Trap.built == []


async def test_a_value_whose_class_is_gone_is_never_none(saver: ThreadSaver) -> None:
    name = "langgraph_memory_test_gone"
    module = type(sys)(name)
    sys.modules[name] = module
    exec("import dataclasses\n@dataclasses.dataclass\nclass Boat:\n    name: str\n", module.__dict__)
    try:
        await put(saver, one=module.Boat("tern"), many=[module.Boat("gull")])
    finally:
        del sys.modules[name]
    values = await read(saver)
    assert "tern" in repr(values["one"]) and "gull" in repr(values["many"])


# Files


async def test_a_plain_saver_may_use_the_file_at_the_same_time(saver: ThreadSaver, path: Path) -> None:
    async with AsyncSqliteSaver.from_conn_string(str(path)) as plain:
        graphs = {"ours": chat("add", saver), "plain": chat("add", plain)}
        await asyncio.gather(
            *(tell(graph, "one", "two", name=f"{kind} {n}") for kind, graph in graphs.items() for n in range(4))
        )
    for kind in graphs:
        for n in range(4):
            assert await texts(graphs["ours"], f"{kind} {n}") == ["one", "answer one", "two", "answer two"]
    assert (await saver.verify()).problems == []


async def test_a_copy_of_a_file_in_use_is_a_whole_database(saver: ThreadSaver, path: Path, tmp_path: Path) -> None:
    graph, copy = chat("add", saver), tmp_path / "copy.db"
    await tell(graph, "one", "two")
    for end in ("", "-wal"):
        write(f"{copy}{end}", content_of(f"{path}{end}"))
    await tell(graph, "three")
    async with ThreadSaver.from_conn_string(copy) as other:
        assert await texts(chat("add", other)) == ["one", "answer one", "two", "answer two"]
        assert (await other.verify()).problems == []
        await tell(chat("add", other), "else")


async def test_a_log_that_a_crash_left_torn_gives_what_was_committed_before_it(path: Path, tmp_path: Path) -> None:
    torn = tmp_path / "torn.db"
    async with ThreadSaver.from_conn_string(path) as saver:
        await tell(chat("add", saver), "one", "two", "three")
        write(torn, content_of(path))
        log = content_of(f"{path}-wal")
        write(f"{torn}-wal", log[: len(log) * 2 // 3])
    async with ThreadSaver.from_conn_string(torn) as saver:
        assert (await saver.verify()).problems == []
        found = await texts(chat("add", saver))
        assert found and found == ["one", "answer one", "two", "answer two", "three", "answer three"][: len(found)]
        await tell(chat("add", saver), "on")


@pytest.mark.parametrize("content", [b"no database at all" * 300, b"SQLite format 3\0" + b"\xff" * 5000])
async def test_a_file_that_is_no_database_is_an_error_and_stays_as_it_is(path: Path, content: bytes) -> None:
    write(path, content)
    async with ThreadSaver.from_conn_string(path) as saver:
        with pytest.raises(sqlite3.DatabaseError):
            await put(saver)
    assert content_of(path) == content


async def test_a_disk_that_is_full_fails_the_put_and_loses_nothing(saver: ThreadSaver) -> None:
    await put(saver, 1, messages=talk(3))
    pages = (await (await saver.conn.execute("PRAGMA page_count")).fetchone())[0]  # type: ignore[index]
    await saver.conn.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        await put(saver, 2, messages=[*talk(3), HumanMessage("x" * 100_000)])
    assert (await read(saver))["messages"] == talk(3)
    await saver.conn.execute("PRAGMA max_page_count = 1000000")
    await put(saver, 3, messages=[*talk(3), HumanMessage("x" * 100_000)])
    assert len((await read(saver))["messages"]) == 4
    assert (await saver.verify()).problems == []


# Threads, loops and processes


async def test_a_history_that_is_paused_lets_everybody_write(saver: ThreadSaver, path: Path) -> None:
    graph = chat("add", saver)
    await tell(graph, *"abc")
    history = graph.aget_state_history(thread())
    newest = await anext(history)
    async with ThreadSaver.from_conn_string(path) as other:
        await tell(graph, "own")
        await tell(chat("add", other), "theirs")
        assert await graph.aget_state(thread())
        await saver.adelete_thread("nobody")
        rest = [state async for state in history]
    assert newest.values["messages"][-1].text == "answer c"
    assert len({state.config["configurable"]["checkpoint_id"] for state in rest}) == len(rest)


async def test_a_graph_used_in_a_blocking_way_inside_the_loop_says_so(saver: ThreadSaver) -> None:
    graph = chat("add", saver)
    for call in (
        lambda: graph.invoke({"messages": [("user", "x")]}, thread()),
        lambda: graph.get_state(thread()),
        lambda: list(graph.get_state_history(thread())),
        lambda: graph.update_state(thread(), {"messages": [("user", "x")]}),
        lambda: list(graph.stream({"messages": [("user", "x")]}, thread())),
    ):
        with pytest.raises(WrongThreadError, match="Await"):
            call()


async def test_fifty_threads_at_once_each_get_their_own(saver: ThreadSaver) -> None:
    graph = chat("add", saver)
    given = [{"messages": [HumanMessage(f"m{n}")]} for n in range(50)]
    results = await graph.abatch(given, [thread(f"t{n}") for n in range(50)])
    for n, result in enumerate(results):
        assert [m.text for m in result["messages"]] == [f"m{n}", f"answer m{n}"] == await texts(graph, f"t{n}")
    assert (await saver.verify()).problems == []


async def test_runs_cancelled_anywhere_leave_a_thread_that_goes_on(saver: ThreadSaver) -> None:
    graph = chat("add", saver)
    for steps in range(40):
        run = asyncio.create_task(tell(graph, f"m{steps}"))
        for _ in range(steps):
            await asyncio.sleep(0)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
    await tell(graph, "last")
    found = await texts(graph)
    assert found[-2:] == ["last", "answer last"] and len(set(found)) == len(found)
    assert not saver.conn.in_transaction
    assert (await saver.verify()).problems == []


FORKED = """
import asyncio, os, sys, threading, warnings
from langgraph_memory.threads import ThreadSaver
from tests.support.savers import checkpoint, config, talk
warnings.simplefilter("ignore", DeprecationWarning)

async def use(saver):
    await saver.aput(config("child"), checkpoint(2, messages=talk(1)), {}, {})

async def own(path):
    async with ThreadSaver.from_conn_string(path) as saver:
        await use(saver)

def run(work, answer):
    try:
        asyncio.run(work)
    except Exception as error:
        answer.append(type(error).__name__)

async def main(path, way):
    async with ThreadSaver.from_conn_string(path) as saver:
        await saver.aput(config(), checkpoint(1, messages=talk(2)), {}, {})
        child = os.fork()
        if not child:
            answer = []
            work = use(saver) if way == "parents" else own(path)
            thread = threading.Thread(target=run, args=(work, answer))
            thread.start()
            thread.join()
            print(*answer, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        await saver.aput(config(), checkpoint(3, messages=talk(4)), {}, {})
        print(len(await saver.call(lambda db: db.execute("SELECT 1 FROM checkpoints").fetchall())))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize(("way", "said"), [("parents", ["WrongThreadError", "2"]), ("own", ["", "3"])])
def test_a_forked_process_opens_the_file_itself_or_is_told_to(path: Path, way: str, said: list[str]) -> None:
    assert ended(FORKED, path, way) == (0, said, "")


FORKED_SYNC = """
import os, sys, warnings
from langgraph_memory import MemoryMiddleware
from tests.support.graphs import configured, node_graph, thread
from tests.support.models import Scripted
warnings.simplefilter("ignore", DeprecationWarning)

with MemoryMiddleware.open(configured(), model=Scripted()) as memory:
    graph = node_graph(memory, Scripted(), saver=memory.saver)
    graph.invoke({"messages": [("user", "hello")]}, thread())
    child = os.fork()
    if not child:
        if sys.argv[1] == "leaves":
            print("leaves", flush=True)
            raise SystemExit(3)
        try:
            graph.get_state(thread())
        except Exception as error:
            print(type(error).__name__, flush=True)
        os._exit(3)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(len(graph.invoke({"messages": [("user", "again")]}, thread())["messages"]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize(("way", "said"), [("reads", "WrongThreadError"), ("leaves", "leaves")])
def test_a_forked_sync_program_is_told_so_too_and_can_end(path: Path, way: str, said: str) -> None:
    assert ended(FORKED_SYNC, way) == (0, [said, "3", "4"], "")


FORGOTTEN = """
import asyncio, sys
from langgraph_memory import MemoryMiddleware
from tests.support.graphs import configured, node_graph, thread
from tests.support.models import Scripted, summariser

opening = MemoryMiddleware.open(configured(), model=summariser())

def graph(memory):
    return node_graph(memory, Scripted(), saver=memory.saver)

async def run():
    memory = await opening.__aenter__()
    await graph(memory).ainvoke({"messages": [("user", "hello")]}, thread())
    end()

def end():
    if sys.argv[1] == "raise":
        raise SystemExit(3)
    if sys.argv[1] == "interrupt":
        raise KeyboardInterrupt

asyncio.run(run())
"""


def ended(code: str, *args: Any) -> tuple[int, list[str], str]:
    """How a program ended that may not take longer than a minute, and what it said."""
    ran = subprocess.run(
        [sys.executable, "-c", code, *map(str, args)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ran.returncode, ran.stdout.splitlines(), ran.stderr


@pytest.mark.parametrize(("way", "code"), [("return", 0), ("raise", 3), ("interrupt", -signal.SIGINT)])
def test_an_async_program_that_forgets_to_close_the_memory_ends(way: str, code: int) -> None:
    assert ended(FORGOTTEN, way)[0] == code


def test_only_the_driver_knows_what_the_driver_keeps_private() -> None:
    users = [
        file.name
        for file in (ROOT / "langgraph_memory").rglob("*.py")
        if re.search(r"conn\._[a-z]|_thread\b.*aiosqlite|aiosqlite\.core", file.read_text(encoding="utf-8"))
    ]
    assert users == ["driver.py"]


# Growth


async def statements(saver: ThreadSaver, work: Any) -> int:
    seen: list[str] = []
    await saver.conn.set_trace_callback(seen.append)
    await work()
    await saver.conn.set_trace_callback(None)  # type: ignore[arg-type]
    return len(seen)


async def test_the_last_twenty_of_a_long_history_cost_the_same_as_of_a_short_one(saver: ThreadSaver) -> None:
    for number in range(30):
        await put(saver, number, "short", messages=talk(number + 1))
    for number in range(600):
        await put(saver, number, "long", messages=talk(min(number, 40) + 1))

    def last(name: str) -> Any:
        async def work() -> None:
            assert len([one async for one in saver.alist(config(name), limit=20)]) == 20

        return work

    assert await statements(saver, last("long")) <= await statements(saver, last("short")) + 2


@pytest.mark.parametrize("channel", ["add", "delta"])
async def test_a_thread_grows_by_what_is_new_and_not_by_what_is_there(saver: ThreadSaver, channel: str) -> None:
    graph, sizes = chat(channel, saver), [0]
    for _ in range(3):
        for _ in range(40):
            said = [HumanMessage(os.urandom(1500).hex()), AIMessage("noted")]
            await graph.ainvoke({"messages": said}, thread())
        sizes.append((await saver.stats()).message_bytes)
    assert sizes[3] - sizes[2] < 1.1 * (sizes[2] - sizes[1]) < 1.2 * sizes[1]
