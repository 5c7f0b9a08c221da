"""Documents of threads: what may be one, who may replace it, and how long it stays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from langgraph_memory.errors import DocumentChangedError, ThreadIdError, UnstorableError
from langgraph_memory.threads.documents import ABSENT, MOST_BYTES, MOST_NAME, ThreadDocuments
from langgraph_memory.threads.saver import ThreadSaver
from langgraph_memory.threads.store import ThreadStore
from tests.support.savers import Swap, checkpoint, config

BINDING = {"sandbox": "s-1", "ports": [8080, 22], "pty": None, "größe": 1.5, "on": True}


@pytest.fixture
async def saver(tmp_path: Path) -> AsyncIterator[ThreadSaver]:
    async with ThreadSaver.from_conn_string(tmp_path / "threads.db") as made:
        yield made


@pytest.fixture
def documents(saver: ThreadSaver) -> ThreadDocuments:
    return ThreadDocuments(saver)


async def test_a_document_is_read_as_it_was_written(documents: ThreadDocuments) -> None:
    await documents.set("t-1", "sandbox", BINDING)
    found = await documents.get("t-1", "sandbox")
    assert found == BINDING and list(found) == list(BINDING)
    await documents.set("t-1", "sandbox", "s-2")
    assert await documents.get("t-1", "sandbox") == "s-2"
    assert await documents.get("t-2", "sandbox", "none") == "none"


async def test_documents_have_names_and_can_be_removed(documents: ThreadDocuments) -> None:
    for name in ("terminal", "sandbox", "a/b: *?"):
        await documents.set(7, name, name)
    assert await documents.names("7") == ["a/b: *?", "sandbox", "terminal"]
    assert await documents.delete(7, "terminal") is True
    assert await documents.delete(7, "terminal") is False
    assert await documents.names(7) == ["a/b: *?", "sandbox"]


async def test_null_is_a_value(documents: ThreadDocuments) -> None:
    await documents.set("t-1", "sandbox", None)
    assert await documents.get("t-1", "sandbox", "missing") is None
    with pytest.raises(DocumentChangedError):
        await documents.set("t-1", "sandbox", 1, expected=ABSENT)
    await documents.set("t-1", "sandbox", 1, expected=None)


async def test_who_expects_something_else_writes_nothing(documents: ThreadDocuments) -> None:
    await documents.set("t-1", "sandbox", {"id": 1, "at": "x"}, expected=ABSENT)
    for wrong in (ABSENT, {"id": 2, "at": "x"}, {"id": 1.0, "at": "x"}, {"id": True, "at": "x"}, None):
        with pytest.raises(DocumentChangedError, match='"id":1'):
            await documents.set("t-1", "sandbox", "stolen", expected=wrong)
    with pytest.raises(DocumentChangedError, match="not there"):
        await documents.set("t-1", "terminal", "x", expected="y")
    await documents.set("t-1", "sandbox", "mine", expected={"at": "x", "id": 1})
    assert await documents.get("t-1", "sandbox") == "mine"


async def test_of_many_that_expect_the_same_one_wins(saver: ThreadSaver, tmp_path: Path) -> None:
    async def claim(owner: int) -> int:
        async with ThreadSaver.from_conn_string(tmp_path / "threads.db") as mine:
            try:
                await ThreadDocuments(mine).set("t-1", "sandbox", owner, expected=ABSENT)
            except DocumentChangedError:
                return 0
        return owner

    won = await asyncio.gather(*map(claim, range(1, 9)))
    assert [owner for owner in won if owner] == [await ThreadDocuments(saver).get("t-1", "sandbox")]


WRONG = [object(), b"x", {1: "x"}, (1, 2), {"x": {1, 2}}, float("nan"), float("inf"), "\ud800", {"\udc00": 1}, 10**5000]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda value: type(value).__name__)
async def test_what_is_not_json_is_refused(documents: ThreadDocuments, wrong: Any) -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for value in (wrong, {"inside": [wrong]}, deep):
        with pytest.raises(UnstorableError, match="'sandbox'"):
            await documents.set("t-1", "sandbox", value)
    assert await documents.names("t-1") == []


async def test_a_document_is_small(documents: ThreadDocuments) -> None:
    await documents.set("t-1", "largest", "x" * (MOST_BYTES - 2))
    with pytest.raises(UnstorableError, match="65,537 bytes"):
        await documents.set("t-1", "largest", "x" * (MOST_BYTES - 1))
    with pytest.raises(UnstorableError):
        await documents.set("t-1", "largest", "é" * (MOST_BYTES // 2))
    assert len(await documents.get("t-1", "largest")) == MOST_BYTES - 2


@pytest.mark.parametrize("wrong", ["", "x" * (MOST_NAME + 1), 7, None, "\ud800"])
async def test_a_document_needs_a_name(documents: ThreadDocuments, wrong: Any) -> None:
    for work in (documents.get, documents.delete):
        with pytest.raises(UnstorableError):
            await work("t-1", wrong)
    with pytest.raises(UnstorableError):
        await documents.set("t-1", wrong, 1)
    with pytest.raises(ThreadIdError):
        await documents.set("", "sandbox", 1)


async def test_documents_go_with_their_thread_and_are_not_copied(
    saver: ThreadSaver, documents: ThreadDocuments
) -> None:
    for name in ("t-1", "t-2"):
        await saver.aput(config(name), checkpoint(1, messages=[HumanMessage("x")]), {"step": 1}, {})
        await documents.set(name, "sandbox", BINDING)
    await saver.acopy_thread("t-1", "t-3")
    await ThreadStore(saver).fork("t-1", "t-4")
    assert [await documents.names(name) for name in ("t-3", "t-4")] == [[], []]
    await saver.adelete_thread("t-1")
    assert await documents.names("t-1") == [] and await documents.get("t-2", "sandbox") == BINDING


async def test_an_encrypted_file_shows_no_document(tmp_path: Path) -> None:
    path = tmp_path / "secret" / "threads.db"
    path.parent.mkdir()
    async with ThreadSaver.from_conn_string(path, serde=EncryptedSerializer(Swap())) as saver:
        documents = ThreadDocuments(saver)
        await documents.set("t-1", "sandbox", "a secret place")
        await documents.set("t-1", "sandbox", "a secret place", expected="a secret place")
        assert await documents.get("t-1", "sandbox") == "a secret place"
        assert all(b"secret place" not in file.read_bytes() for file in path.parent.iterdir())
