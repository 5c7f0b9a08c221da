"""Searching threads: by an index that is derived, and without one."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from langgraph_memory import search_text
from langgraph_memory.errors import EncryptedSearchError, UnknownThreadError
from langgraph_memory.threads import Hit, ThreadSaver, ThreadStore, index, search
from tests.support.savers import Swap
from tests.support.stores import CHANNELS, SAVERS, chat, opened, tell, thread

every = pytest.mark.parametrize("kind", SAVERS)
both = pytest.mark.parametrize("channel", CHANNELS)


async def found(store: ThreadStore, query: str, **options: Any) -> list[tuple[str, str | None]]:
    return [(hit.thread_id, hit.message_id) for hit in await store.search(query, **options)]


async def put(graph: Any, name: str, *messages: Any) -> None:
    await graph.ainvoke({"update": {"messages": list(messages)}}, thread(name))


async def rows(saver: ThreadSaver, query: str) -> list[Any]:
    return await saver.call(lambda db: db.execute(query).fetchall())


@every
@both
async def test_messages_are_found_in_their_threads(kind: str, channel: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat(channel, saver), ThreadStore(saver)
        assert await store.search("anything") == []
        await tell(graph, "the falcon flies", "部署方案在周三确定", name="a")
        await tell(graph, "a heron, no Falcon-9", name="b")
        assert set(await found(store, "falcon", thread_id="a")) == {
            ("a", "q the falcon flies"), ("a", "a the falcon flies 1"),
        }  # fmt: skip
        assert {name for name, _ in await found(store, "falcon")} == {"a", "b"}
        assert {name for name, _ in await found(store, "falcon-9")} == {"b"}
        assert {name for name, _ in await found(store, "周三")} == {"a"}
        assert {name for name, _ in await found(store, "heron falcon")} == {"b"}
        assert len(await store.search("falcon", limit=1)) == 1
        assert await store.search("falcon", limit=0) == []
        for odd in ("", " ", '"', "' OR 1=1", "NEAR(", "*", "\ud800", "。"):
            assert await store.search(odd) == []
        with pytest.raises(UnknownThreadError):
            await store.search("falcon", thread_id="c")


@every
async def test_where_no_message_has_every_word_those_with_some_are_given(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat("add", saver), ThreadStore(saver)
        await put(graph, "a", *(HumanMessage(text, id=text) for text in ("广西 游记", "桂林 照片", "other")))
        assert {id for _, id in await found(store, "广西 桂林 旅游")} == {"广西 游记", "桂林 照片"}


@every
@both
async def test_a_hit_says_which_checkpoint_holds_the_message(kind: str, channel: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat(channel, saver), ThreadStore(saver)
        await tell(graph, "one", "the zebra", "three")
        end = (await store.checkpoints("t"))[-1].checkpoint_id
        await store.rewind("t", (await store.checkpoints("t"))[2].checkpoint_id)
        await tell(graph, "the lion")
        [hit] = [hit for hit in await store.search("zebra") if hit.role == "human"]
        assert hit.message_id == "q the zebra" and hit.excerpt == "the zebra" and hit.namespace == ""
        there = [message.id for message in await store.messages("t", hit.checkpoint_id)]
        assert "q the zebra" in there
        if kind == "ours":
            assert there == ["q one", "a one 1", "q the zebra"]
        assert hit.checkpoint_id <= end
        assert hit.to_json()["excerpt"] == "the zebra"


async def test_calls_are_searched_and_removals_are_not(tmp_path: Path) -> None:
    async with opened("ours", tmp_path) as saver:
        graph, store = chat("add", saver), ThreadStore(saver)
        call = AIMessage("", tool_calls=[{"name": "read_file", "args": {"path": "src/main.py"}, "id": "c"}], id="a")
        await put(graph, "t", HumanMessage("x", id="h"), call, ToolMessage("the text", tool_call_id="c", id="r"))
        await put(graph, "t", RemoveMessage(id="r"))
        assert await found(store, "main.py") == [("t", "a")]
        assert await found(store, "read_file") == [("t", "a")]
        assert await found(store, "the text") == [("t", "r")]


async def test_the_index_is_brought_up_to_date_with_what_was_added(tmp_path: Path) -> None:
    async with opened("ours", tmp_path) as saver:
        graph, store = chat("add", saver), ThreadStore(saver)
        await put(graph, "t", *(HumanMessage(f"word{n}", id=f"{n}") for n in range(index.BATCH + 50)))
        assert not await rows(saver, "SELECT 1 FROM sqlite_master WHERE name LIKE 'lgm_search%'")
        assert await found(store, f"word{index.BATCH + 49}") == [("t", f"{index.BATCH + 49}")]
        before = await rows(saver, "SELECT count(*) FROM lgm_search_words")
        await put(graph, "t", HumanMessage("new", id="new"))
        assert await rows(saver, "SELECT count(*) FROM lgm_search_words") == before
        assert await found(store, "new") == [("t", "new")]
        assert await rows(saver, "SELECT count(*) FROM lgm_search_words") == [(before[0][0] + 1,)]
        assert (await store.verify()).ok


async def test_an_edited_message_is_found_once_by_its_old_and_by_its_new_words(tmp_path: Path) -> None:
    async with opened("ours", tmp_path) as saver:
        graph, store = chat("add", saver), ThreadStore(saver)
        await put(graph, "t", HumanMessage("old falcon same", id="k"))
        await put(graph, "t", HumanMessage("new heron same", id="k"))
        assert await found(store, "same") == await found(store, "falcon") == await found(store, "heron") == [("t", "k")]


async def test_deleted_threads_disappear_from_the_index_and_from_the_file(tmp_path: Path) -> None:
    async with opened("ours", tmp_path) as saver:
        graph, store = chat("add", saver), ThreadStore(saver)
        await put(graph, "a", HumanMessage("shared words", id="s"), HumanMessage("xyzzyfalcon", id="f"))
        await put(graph, "b", HumanMessage("shared words", id="s"))
        assert await found(store, "xyzzyfalcon") == [("a", "f")]
        await store.delete("a")
        assert await found(store, "xyzzyfalcon") == []
        assert await found(store, "shared") == [("b", "s")]
        assert (await store.verify()).ok
        await saver.vacuum()
    assert b"xyzzyfalcon" not in (tmp_path / "ours.db").read_bytes()


async def test_whoever_removes_messages_keeps_the_index_right(tmp_path: Path) -> None:
    async with opened("ours", tmp_path) as saver:
        graph, store = chat("add", saver), ThreadStore(saver)
        await put(graph, "a", *(HumanMessage(f"falcon {n}", id=f"{n}") for n in range(5)))
        await store.search("falcon")
        async with ThreadSaver.from_conn_string(tmp_path / "ours.db") as other:
            await other.adelete_thread("a")
            # The numbers of the removed items are given to new ones.
            await put(chat("add", other), "b", *(HumanMessage(f"heron {n}", id=f"{n}") for n in range(5)))
        assert await found(store, "falcon") == []
        assert len(await found(store, "heron")) == 5
        assert (await store.verify()).ok


async def test_an_index_of_another_version_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened("ours", tmp_path) as saver:
        graph, store = chat("add", saver), ThreadStore(saver)
        await put(graph, "a", HumanMessage("falcon", id="f"))
        await store.search("falcon")
        await saver.call(lambda db: db.execute("UPDATE lgm_search_words SET words = 'wrong'").connection.commit())
        assert not (await store.verify()).ok
        monkeypatch.setattr(search_text, "VERSION", 99)
        assert await found(store, "falcon") == [("a", "f")]
        assert (await store.verify()).ok


async def test_two_processes_may_index_at_once(tmp_path: Path) -> None:
    async with opened("ours", tmp_path) as saver, ThreadSaver.from_conn_string(tmp_path / "ours.db") as other:
        await put(chat("add", saver), "a", *(HumanMessage(f"falcon {n}", id=f"{n}") for n in range(900)))
        stores = [ThreadStore(saver), ThreadStore(other)] * 2
        results = await asyncio.gather(*(found(store, "falcon 899") for store in stores))
        assert results == [[("a", "899")]] * 4
        assert (await stores[0].verify()).ok


async def test_threads_the_plain_saver_wrote_are_found_too(tmp_path: Path) -> None:
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "ours.db")) as plain:
        await tell(chat("add", plain), "the falcon", name="old")
    async with opened("ours", tmp_path) as saver:
        graph, store = chat("add", saver), ThreadStore(saver)
        await tell(graph, "a falcon", name="new")
        assert {name for name, _ in await found(store, "falcon")} == {"old", "new"}
        await tell(graph, "more", name="old")
        assert {name for name, _ in await found(store, "falcon")} == {"old", "new"}


async def test_a_fork_is_found_as_well_as_its_origin(tmp_path: Path) -> None:
    async with opened("ours", tmp_path) as saver:
        graph, store = chat("delta", saver), ThreadStore(saver)
        await tell(graph, "falcon")
        await store.fork("t", "u")
        assert {name for name, _ in await found(store, "falcon")} == {"t", "u"}


async def test_an_encrypted_saver_is_not_searched(tmp_path: Path) -> None:
    async with ThreadSaver.from_conn_string(tmp_path / "t.db", serde=EncryptedSerializer(Swap())) as saver:
        await tell(chat("add", saver), "falcon")
        with pytest.raises(EncryptedSearchError, match="search is off"):
            await ThreadStore(saver).search("falcon")
        assert not await rows(saver, "SELECT 1 FROM sqlite_master WHERE name LIKE 'lgm_search%'")


async def test_a_file_that_can_only_be_read_is_searched_without_an_index(tmp_path: Path) -> None:
    import aiosqlite

    async with opened("ours", tmp_path) as saver:
        await tell(chat("add", saver), "falcon")
    async with aiosqlite.connect(f"file:{tmp_path / 'ours.db'}?mode=ro", uri=True) as conn:
        hits: list[Hit] = await ThreadStore(ThreadSaver(conn)).search("falcon")
    assert {hit.message_id for hit in hits} == {"q falcon", "a falcon 1"}


def test_sqlite_has_what_the_index_needs() -> None:
    with sqlite3.connect(":memory:") as db:
        db.execute("CREATE TABLE lgm_items (id INTEGER PRIMARY KEY, kind INTEGER)")
        index._make(db)
    db.close()


# Some of the words

TIDES = {
    "潮汐表挂在港务局绿色的门后面": "请问潮汐表现在挂在哪里",
    "潮汐表は港湾事務所の緑のドアの後ろに掛かっています": "潮汐表はどこに掛かっていますか",
    "ตารางน้ำขึ้นน้ำลงแขวนอยู่หลังประตูสีเขียวของสำนักงานท่าเรือ": "ตารางน้ำขึ้นน้ำลงแขวนอยู่ที่ไหนครับ",
    "조석표는항만사무소의초록색문뒤에걸려있습니다": "조석표는지금어디에걸려있나요",
    "カレンダーはキッチンのドアにあります": "カレンダーってどこだっけ",
    "តារាងជំនោរព្យួរនៅក្រោយទ្វារពណ៌បៃតង": "តើតារាងជំនោរនៅឯណា",
    "订单TK-204已经发货了": "请问TK-204现在到哪里了呢",
}
"""Questions that share a part of the text they ask for."""
CHAT = (
    "午饭吃了面条，还不错",
    "Lunch is at noon",
    "明日は雨が降るそうです",
    "พรุ่งนี้ฝนจะตกทั้งวันนะครับ",
    "내일은비가옵니다",
    "我们周三开会",
)


def said(*texts: str) -> list[HumanMessage]:
    return [HumanMessage(text, id=text) for text in texts]


@every
@pytest.mark.parametrize(("text", "question"), TIDES.items())
@pytest.mark.parametrize("one", [True, False])
async def test_a_question_in_a_script_without_blanks_finds_what_it_shares_a_part_with(
    kind: str, text: str, question: str, one: bool, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat("add", saver), ThreadStore(saver)
        await put(graph, "a", *said(*CHAT[:3], text, *CHAT[3:]))
        await put(graph, "b", *said("something else"))
        hits = await store.search(question, thread_id="a" if one else None)
        assert [hit.message_id for hit in hits] == [text]
        assert hits[0].excerpt == text


@every
@pytest.mark.parametrize("place", [0, 1, 15, 16, 17, 63, 64, 65, 199])
@pytest.mark.parametrize("one", [True, False])
async def test_no_word_of_a_long_question_is_dropped(kind: str, place: int, one: bool, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat("add", saver), ThreadStore(saver)
        await put(graph, "a", *said("The boat to Zanzibar", "Something else"))
        asked = [f"filler{number}" for number in range(200)]
        asked.insert(place, "Zanzibar")
        assert await found(store, " ".join(asked), thread_id="a" if one else None) == [("a", "The boat to Zanzibar")]


@every
async def test_every_word_of_a_long_question_that_was_said_finds_its_message(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat("add", saver), ThreadStore(saver)
        texts = [f"word{number} and" for number in range(150)]
        await put(graph, "a", *said(*texts, "and no other"))
        asked = " ".join([*(f"word{number}" for number in range(150)), "and", "missing"])
        assert {id for _, id in await found(store, asked, limit=200)} == {*texts, "and no other"}
        assert "and no other" not in {id for _, id in await found(store, asked, limit=100)}


@every
async def test_the_more_is_shared_the_further_in_front(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat("add", saver), ThreadStore(saver)
        texts = ("潮汐表挂在绿色的门后面", "潮汐表不在这里放着啊", "挂在墙上的照片真好看")
        await put(graph, "a", *said(*CHAT, *texts[::-1]))
        ids = [id for _, id in await found(store, "请问潮汐表现在挂在哪里")]
        assert ids[:2] == list(texts[:2])


@every
async def test_who_holds_every_word_is_found_alone(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat("add", saver), ThreadStore(saver)
        await put(graph, "a", *said("潮汐表挂在门后面", "潮汐表挂在墙上，港务局说的", "潮汐表挂在门上"))
        assert await found(store, "潮汐表挂在门后面") == [("a", "潮汐表挂在门后面")]
        assert await found(store, "港务局 潮汐表挂在墙上") == [("a", "潮汐表挂在墙上，港务局说的")]


@every
@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("请问潮汐表现在挂在哪里", "现在开第{}次会"),
        ("今天天气怎么样", "今天是第{}天"),
        ("潮汐表はどこに掛かっていますか", "彼は{}を待っています"),
        ("ตารางน้ำขึ้นน้ำลงอยู่ที่ไหนครับ", "สวัสดีครับ {}"),
    ],
)
async def test_what_everybody_says_is_no_part_that_counts(kind: str, question: str, text: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as saver:
        graph, store = chat("add", saver), ThreadStore(saver)
        await put(graph, "a", *said(*(text.format(number) for number in range(60))))
        assert await found(store, question) == await found(store, question, thread_id="a") == []


async def test_a_whole_match_in_a_thread_of_the_plain_saver_leaves_no_room_for_parts(tmp_path: Path) -> None:
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "ours.db")) as plain:
        await put(chat("add", plain), "old", *said("a falcon and a heron"))
    async with opened("ours", tmp_path) as saver:
        graph, store = chat("add", saver), ThreadStore(saver)
        await put(graph, "new", *said("a heron", "something else", "more"))
        assert await found(store, "falcon heron") == [("old", "a falcon and a heron")]
        assert {name for name, _ in await found(store, "falcon heron eagle")} == {"old", "new"}


async def test_no_more_than_so_many_texts_are_looked_at_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST_WRONG", 100)
    async with opened("ours", tmp_path) as saver:
        graph, store = chat("add", saver), ThreadStore(saver)
        # Both parts of the name, but apart: the index cannot tell.
        await put(graph, "a", *said(*(f"foo {number} other words and then bar" for number in range(1000))))
        read, looked = search._read, []
        monkeypatch.setattr(search, "_read", lambda codec, rows: looked.extend(rows) or read(codec, rows))
        assert await found(store, "foo_bar missing") == []
        assert len(looked) < 400
