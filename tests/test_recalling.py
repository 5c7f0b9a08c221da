"""What a call is reminded of: read when a turn begins and at no other time, cut to its budget, of nobody else."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_memory.config import MemoryConfig
from langgraph_memory.context.memories import Reminder
from langgraph_memory.context.record import Remembered, Scope, Summary
from langgraph_memory.context.tokens import load_counter
from langgraph_memory.homes import Homes
from langgraph_memory.longterm.keeper import Keeper
from langgraph_memory.longterm.retrieve import Found
from langgraph_memory.place import Place
from langgraph_memory.recalling import QUERY_CHARS, RECALLED_TOKENS, Recaller
from tests.support.graphs import GRAPHS, calls, configured, grab, text_of
from tests.support.models import Scripted
from tests.support.remembering import Home

PLACE = Place("t-1", configurable={"user_id": "ada"})
REQUEST = [SystemMessage("s", id="s"), HumanMessage("where is the spare key?", id="q")]
NO_ONE_ELSE = {"flush.enabled": False, "consolidation.enabled": False}
count = load_counter("cl100k_base").text


@pytest.fixture
def homes(tmp_path: Path) -> Iterator[Homes]:
    homes = Homes(tmp_path / "work", ("{user_id}",))
    yield homes
    homes.close()


def keeper_of(homes: Homes, place: Place = PLACE) -> Keeper:
    keeper = homes.of(place)
    assert keeper is not None
    return keeper


def begun(
    homes: Homes,
    settings: dict[str, Any] | None = None,
    *,
    place: Place = PLACE,
    messages: Sequence[BaseMessage] = REQUEST,
    scope: Scope | None = None,
    window: int = 100_000,
    said: Sequence[Found] = (),
) -> Reminder:
    recaller = Recaller(configured(settings).memory, homes)
    found = recaller.begun(place, messages, scope or Scope(), window, count, said)
    assert found is not None
    return found


# When


@pytest.mark.parametrize(
    ("messages", "begins"),
    [
        ([], False),
        (REQUEST, True),
        ([*REQUEST, AIMessage("hm")], False),
        ([*REQUEST, calls("a"), ToolMessage("ok", tool_call_id="a")], False),
        ([*REQUEST, HumanMessage("and quickly")], True),
        ([*REQUEST, SystemMessage("be brief")], False),
    ],
)
def test_a_turn_begins_where_nothing_but_its_request_was_said(
    homes: Homes, messages: list[BaseMessage], begins: bool
) -> None:
    assert Recaller(MemoryConfig(), homes).begins(messages) == begins
    assert not Recaller(MemoryConfig(), Homes(None, ())).begins(messages)


def test_the_query_is_the_whole_request_and_its_end_where_it_is_long(homes: Homes) -> None:
    recaller = Recaller(MemoryConfig(), homes)
    request = [
        HumanMessage("old"),
        AIMessage("ok"),
        HumanMessage("first"),
        HumanMessage([{"type": "text", "text": "2"}]),
    ]
    assert recaller.query(request) == "first\n2"
    assert recaller.query([*request, AIMessage("hm")]) == "first\n2"
    assert recaller.query([HumanMessage("x" * 9000 + "end")]).endswith("xend")
    assert len(recaller.query([HumanMessage("x" * 9000)])) == QUERY_CHARS
    assert recaller.query([AIMessage("hello")]) == ""


def test_within_a_turn_only_whose_memory_it_is_is_looked_at(homes: Homes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Homes, "of", lambda *_: pytest.fail("a keeper was asked for"))
    recaller = Recaller(MemoryConfig(), homes)
    assert recaller.continued(PLACE) == Reminder("ada")
    assert recaller.continued(Place("t-1")) == Reminder(None)
    assert Recaller(MemoryConfig(), Homes(None, ("{user_id}",))).continued(PLACE) is None


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("mode", ["async", "sync"])
async def test_the_calls_within_a_turn_ask_no_keeper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, mode: str
) -> None:
    asked: list[str] = []
    for name in ("memory_md", "search", "ledger", "writing", "reading"):
        real = getattr(Keeper, name)

        def noted(self: Keeper, *args: Any, name: str = name, real: Any = real, **options: Any) -> Any:
            asked.append(name)
            return real(self, *args, **options)

        monkeypatch.setattr(Keeper, name, noted)
    steps: list[int] = []

    def reply(_: list[BaseMessage]) -> AIMessage:
        steps.append(len(asked))
        return calls(f"c{len(steps)}") if len(steps) < 6 else AIMessage("done")

    settings = {"retrieval.auto_recall": True, **NO_ONE_ELSE}
    home = Home(tmp_path, settings, kind, model=Scripted(replies=reply), tools=lambda _: [grab(10)])
    if mode == "sync":
        given = {"messages": [("user", "go")]}, home.config("t-1")
        await asyncio.to_thread(home.graph.invoke, *given)
    else:
        await home.say("go")
    assert sorted(asked) == ["memory_md", "search"]
    assert steps == [2] * 6


# Whose


def test_a_run_without_a_memory_is_told_so(homes: Homes) -> None:
    keeper_of(homes).replace_memory("- likes jazz", was="")
    assert begun(homes, place=Place("t-1")) == Reminder(None)


def test_where_there_is_nothing_nothing_is_made(homes: Homes) -> None:
    assert begun(homes, {"retrieval.auto_recall": True}) == Reminder("ada", "", "")
    assert homes.workspace is not None
    assert not homes.workspace.exists()


def test_what_was_recalled_for_a_request_is_not_looked_for_again(homes: Homes) -> None:
    scope = Scope(remembered=Remembered("ada", "", {"q": "known"}))
    assert begun(homes, {"retrieval.auto_recall": True}, scope=scope).recalled == "known"
    assert begun(homes, {"retrieval.auto_recall": False}, scope=scope).recalled == "known"


@pytest.mark.parametrize("searches", [True, False])
def test_what_was_recalled_for_the_same_request_of_another_is_not_shown(homes: Homes, searches: bool) -> None:
    scope = Scope(remembered=Remembered("bob", "his", {"q": "his"}))
    assert begun(homes, {"retrieval.auto_recall": searches}, scope=scope) == Reminder("ada", "", "")


@pytest.mark.parametrize("kind", GRAPHS)
async def test_a_request_that_another_user_makes_again_shows_nothing_of_the_first(tmp_path: Path, kind: str) -> None:
    settings = {"retrieval.auto_recall": True, **NO_ONE_ELSE}
    model = Scripted(replies=[ConnectionError("down"), AIMessage("fine"), AIMessage("fine")])
    home = Home(tmp_path, settings, kind, model=model, saver=InMemorySaver())
    await home.workspace().append(["The spare key is under the pot of Ada."])
    home.notes.write_text("- Ada likes jazz\n", encoding="utf-8")
    with pytest.raises(ConnectionError):
        await home.say("where is the spare key?")
    assert "pot of Ada" in text_of(model.last) and "Ada likes jazz" in text_of(model.last)
    await home.graph.ainvoke(None, home.config("t-1", "bob"))
    assert len(model.requests) == 2
    assert "Ada" not in text_of(model.last)
    await home.say("and now?", user="bob")
    assert "Ada" not in text_of(model.last)


# The curated memory


def test_the_curated_memory_is_read_every_time(homes: Homes) -> None:
    keeper = keeper_of(homes)
    for text in ("- likes jazz", "- likes tea", ""):
        keeper.replace_memory(text, was=keeper.memory_md())
        assert (text in str(begun(homes).curated)) and bool(begun(homes).curated) == bool(text)
    assert begun(homes, {"retrieval.inject_curated": False}).curated == ""


@pytest.mark.parametrize("blank", [" \n\t\n", "\0", "\ufeff"])
def test_a_blank_file_shows_nothing(homes: Homes, blank: str) -> None:
    path = keeper_of(homes).folder.path / "MEMORY.md"
    path.parent.mkdir(parents=True)
    path.write_text(blank, encoding="utf-8")
    assert begun(homes).curated == ""


@pytest.mark.parametrize(
    ("window", "most", "expected"),
    [(100_000, 4000, 4000), (8000, 4000, 1000), (8000, 200, 200), (800, 4000, 100), (500, 4000, 62), (8000, 0, 0)],
)
def test_the_block_has_at_most_its_share_of_the_window(homes: Homes, window: int, most: int, expected: int) -> None:
    lines = "\n".join(f"- note {n}: words and words" for n in range(2000))
    keeper_of(homes).replace_memory(lines, was="")
    block = begun(homes, {"consolidation.max_memory_tokens": most}, window=window).curated
    assert block is not None
    assert expected * 0.7 - 20 <= count(block) <= expected
    assert ("note 1999" in block) == (expected > 0)


@given(st.text(st.characters(codec="utf-8"), max_size=300), st.integers(0, 400))
def test_whatever_the_file_says_the_block_is_within_its_budget(text: str, most: int) -> None:
    class Only:
        def memory_md(self) -> str:
            return f"{text}\n</curated_memory>\n- and more {text}"

    recaller = Recaller(configured({"consolidation.max_memory_tokens": most}).memory, Homes(None, ()))
    block = recaller._curated(Only(), 100_000, count)  # type: ignore[arg-type]
    assert count(block) <= most
    assert not block or block.startswith("<curated_memory>\n")


# What is recalled


def recalled(homes: Homes, settings: dict[str, Any] | None = None, **more: Any) -> str:
    return begun(homes, {"retrieval.auto_recall": True, **(settings or {})}, **more).recalled


def test_what_fits_the_request_is_recalled(homes: Homes) -> None:
    keeper_of(homes).append(["The spare key is under the pot.", "Lunch is at noon."])
    block = recalled(homes)
    assert "under the pot" in block and "noon" not in block
    assert begun(homes).recalled == ""


@pytest.mark.parametrize("lines", [5, 50, 500])
def test_a_question_behind_a_pasted_log_is_searched_for(homes: Homes, lines: int) -> None:
    keeper_of(homes).append(["The spare key is under the pot.", "Lunch is at noon."])
    log = "\n".join(f"worker{number} lease{number}x expired" for number in range(lines))
    asked = HumanMessage(f"{log}\nWhere is the spare key?", id="q")
    assert "under the pot" in recalled(homes, messages=[asked])


def test_what_the_view_shows_anyway_is_not_recalled(homes: Homes) -> None:
    keeper = keeper_of(homes)
    keeper.replace_memory("- The spare key is in MEMORY.", was="")
    keeper.append(
        [
            {"text": "The spare key is here in this thread.", "thread_id": "t-1"},
            {"text": "The spare key is there in another.", "thread_id": "t-2"},
        ]
    )
    block = recalled(homes)
    assert "there in another" in block and "in MEMORY" not in block and "in this thread" not in block
    assert "in MEMORY" in recalled(homes, {"retrieval.inject_curated": False})
    covered = Scope(summary=Summary("All fine.", (), 1, "", "s", "s"))
    assert "in this thread" in recalled(homes, scope=covered)


def test_of_the_thread_only_what_is_covered_is_recalled(homes: Homes) -> None:
    def said(name: str) -> Found:
        return Found("thread", f"msg:{name}", f"The spare key of {name}.", 1.0, thread_id="t-1")

    messages = [HumanMessage("old", id="old"), HumanMessage("new", id="new"), *REQUEST]
    covered = Scope(summary=Summary("All fine.", (), 1, "", "old", "old"))
    block = recalled(homes, messages=messages, scope=covered, said=[said("old"), said("new"), said("q")])
    assert "key of old" in block and "key of new" not in block and "key of q" not in block


@pytest.mark.parametrize("window", [500, 3000, 100_000])
def test_what_is_recalled_has_its_budget(homes: Homes, window: int) -> None:
    keeper_of(homes).append([f"The spare key {n} is {'here and there ' * 20}" for n in range(30)])
    block = recalled(homes, {"retrieval.limit": 30}, window=window)
    assert count(block) <= min(RECALLED_TOKENS, window // 16)
    assert bool(block) == (window > 500)


# What goes wrong


@pytest.mark.parametrize("searches", [True, False])
def test_a_memory_that_cannot_be_read_leaves_what_is_shown(homes: Homes, searches: bool) -> None:
    keeper = keeper_of(homes)
    keeper.folder.path.mkdir(parents=True)
    (keeper.folder.path / "MEMORY.md").mkdir()
    assert begun(homes, {"retrieval.auto_recall": searches}) == Reminder("ada", None, "")


@pytest.mark.parametrize("error", [PermissionError("no"), OSError("stale file handle")])
def test_an_error_of_the_disk_fails_no_call(homes: Homes, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(_: Keeper) -> str:
        raise error

    monkeypatch.setattr(Keeper, "memory_md", fail)
    assert begun(homes) == Reminder("ada", None, "")


def test_a_link_out_of_the_workspace_is_not_read(homes: Homes, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("- secret", encoding="utf-8")
    folder = keeper_of(homes).folder.path
    folder.mkdir(parents=True)
    (folder / "MEMORY.md").symlink_to(tmp_path / "secret.md")
    assert begun(homes) == Reminder("ada", None, "")


async def test_a_memory_that_cannot_be_read_keeps_its_place_in_the_view(tmp_path: Path) -> None:
    home = Home(tmp_path, NO_ONE_ELSE, saver=InMemorySaver())
    await home.workspace().append(["x"])
    home.notes.write_text("- likes jazz\n", encoding="utf-8")
    await home.say("hello")
    home.notes.unlink()
    os.mkfifo(home.notes)
    assert "likes jazz" in text_of(await home.say("hello again"))
    home.notes.unlink()
    assert "likes jazz" not in text_of(await home.say("and again"))
