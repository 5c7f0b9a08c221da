import re
import subprocess
import sys
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph
from langgraph.prebuilt import ToolNode

from langgraph_memory import MemoryMiddleware, MemoryState
from langgraph_memory.recall import MAX_CHARS, recall
from tests.support.graphs import (
    GRAPHS,
    MODES,
    agent_graph,
    calls,
    chat,
    configured,
    grab,
    node_graph,
    result,
    rounds,
    talk,
    text_of,
    thread,
)
from tests.support.models import Scripted, summariser
from tests.support.validity import faults

MESSAGES = [
    HumanMessage("where does the Meridian lie?", id="h1"),
    calls("c1", text="let me look", id="a1"),
    result("c1", "\n".join(f"line {n}: berth {n} is {'free' if n % 3 else 'taken'}" for n in range(900)), id="t1"),
    AIMessage("at berth 9 🛳️", id="a2"),
    HumanMessage("潮汐表在哪里？", id="h2"),
]


def asked(ref: str, **arguments: object) -> AIMessage:
    call = {"name": "recall", "args": {"ref": ref, **arguments}, "id": f"recall-{ref}-{sorted(arguments.items())}"}
    return AIMessage("", tool_calls=[call])


# What comes back


@pytest.mark.parametrize("ref", ["msg:t1", "t1", ' "msg:t1" ', "'msg:t1'"])
def test_a_message_is_found_by_the_reference_of_its_marker(ref):
    assert recall(MESSAGES, ref).startswith("line 0: berth 0 is taken\nline 1: berth 1 is free")


def test_all_of_a_long_message_can_be_read_page_by_page():
    whole, offset = "", 0
    for _ in range(100):
        page = recall(MESSAGES, "msg:t1", offset=offset, limit=1000)
        more = re.search(r"\n\[characters (\d+)-(\d+) of (\d+); go on with offset=(\d+)\]$", page)
        whole += page[: more.start()] if more else page
        if more is None:
            break
        assert (int(more[1]), int(more[4])) == (offset, int(more[2]))
        offset = int(more[4])
    assert whole == MESSAGES[2].content


@pytest.mark.parametrize("limit", [-5, 0, 1, 100, MAX_CHARS, 10**9])
def test_no_page_is_larger_than_it_may_be(limit):
    page = recall(MESSAGES, "msg:t1", limit=limit)
    assert len(page) <= max(1, min(limit, MAX_CHARS)) + 100


@pytest.mark.parametrize("offset", [10**6, 10**12])
def test_an_offset_behind_the_end_says_how_long_the_message_is(offset):
    assert str(len(str(MESSAGES[2].content))) in recall(MESSAGES, "msg:t1", offset=offset)


def test_an_offset_below_zero_starts_at_the_beginning():
    assert recall(MESSAGES, "msg:t1", offset=-3) == recall(MESSAGES, "msg:t1")


@pytest.mark.parametrize("pattern", ["berth 87 is", "BERTH 87 IS", "berth 8[7] "])
def test_a_pattern_gives_the_lines_that_match_and_where_they_stand(pattern):
    assert recall(MESSAGES, "history", pattern=pattern) == "msg:t1: line 87: berth 87 is taken"


@pytest.mark.parametrize("pattern", ["[unclosed", "*", "berth (9", "a{2", "\\"])
def test_a_pattern_that_is_no_expression_is_searched_as_it_stands(pattern):
    history = [*MESSAGES, HumanMessage(f"the text {pattern} itself", id="odd")]
    assert recall(history, "history", pattern=pattern) == f"msg:odd: the text {pattern} itself"


def test_all_matching_lines_can_be_read_page_by_page():
    found: list[str] = []
    while len(found) < 300:
        page = recall(MESSAGES, "msg:t1", pattern="taken", offset=len(found), limit=500)
        lines = [line for line in page.splitlines() if line.startswith("msg:t1: ")]
        assert lines
        found += lines
    assert found == [f"msg:t1: line {n}: berth {n} is taken" for n in range(0, 900, 3)]


def test_a_pattern_that_matches_nothing_says_so():
    assert "matches 'submarine'" in recall(MESSAGES, "history", pattern="submarine")


def test_a_first_matching_line_that_is_longer_than_the_limit_is_still_shown():
    history = [HumanMessage("x" * 400 + " needle", id="long")]
    page = recall(history, "history", pattern="needle", limit=50)
    assert page.startswith("msg:long: xxx")


def test_the_history_shows_every_message_with_its_reference_and_its_calls():
    text = recall(MESSAGES, "history", limit=MAX_CHARS)
    assert text.startswith("[human msg:h1]\nwhere does the Meridian lie?\n[ai msg:a1]\nlet me look\n→ grab {'n': 1}")
    assert "[ai msg:a2]" in "".join(recall(MESSAGES, "history", offset=n, limit=8000) for n in range(0, 40_000, 8000))


@pytest.mark.parametrize("ref", ["msg:nope", "", "msg:", "spill:aa", "../../etc/passwd", "msg:t1; drop", "h"])
def test_an_unknown_reference_says_what_there_is(ref):
    answer = recall(MESSAGES, ref)
    assert "Nothing here is called" in answer
    assert "history" in answer


def test_what_stands_behind_a_half_character_can_still_be_encoded():
    assert recall([HumanMessage("half \ud83d of it", id="h")], "msg:h").encode()


def test_a_pattern_that_backtracks_for_ever_does_not_freeze_the_program():
    code = (
        "from langchain_core.messages import HumanMessage\n"
        "from langgraph_memory.recall import recall\n"
        "print(len(recall([HumanMessage('a' * 5000 + 'b', id='h')], 'history', pattern='(a+)+$')))"
    )
    root = str(Path(__file__).parents[1])
    ran = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": root}, capture_output=True, text=True, timeout=10, check=False
    )
    assert ran.returncode == 0, ran.stderr


# In a graph


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", GRAPHS)
async def test_what_was_trimmed_cleared_or_covered_is_given_back_in_the_run(kind, mode):
    history = [
        HumanMessage("the code word is albatross", id="covered"),
        *rounds(1, chars=4000, start=1),
        *rounds(1, chars=15_000, start=2),
        *chat(12, chars=1500),
    ]
    replies = [asked("msg:covered"), asked("msg:r1", limit=8000), asked("msg:r2", offset=8000, limit=8000), "thank you"]
    settings = {"context_window": 8000, "pruning.min_reclaim_tokens": 0}
    memory = MemoryMiddleware(configured(settings), model=summariser())
    model = Scripted(replies=replies)
    if kind == "node":
        graph = node_graph(memory, model, tools=[grab(10), *memory.tools], saver=InMemorySaver())
    else:
        graph = agent_graph(memory, model, tools=[grab(10)])
    talked = talk(kind=kind)
    talked.memory, talked.graph, talked.model, talked.mode = memory, graph, model, mode
    request = await talked.send(*history, HumanMessage("what was it?", id="now"))
    results = [str(m.content) for m in await talked.history() if m.type == "tool" and m.name == "recall"]
    assert "albatross" not in text_of(model.requests[0].messages)
    assert results[0] == "the code word is albatross"
    assert results[1].startswith("r-0001 row ")
    assert len(results[1]) == 4000
    assert results[2].startswith("row " * 10) or "row row" in results[2]
    assert "albatross" in text_of(request)
    assert faults(request) == []


@pytest.mark.parametrize("mode", MODES)
async def test_the_messages_of_another_thread_are_out_of_reach(mode):
    memory = MemoryMiddleware(configured({"context_window": 8000}), model=summariser())
    model = Scripted(replies=["noted"])
    graph = node_graph(memory, model, tools=[*memory.tools])
    talked = talk()
    talked.memory, talked.graph, talked.model, talked.mode = memory, graph, model, mode
    await talked.send(HumanMessage("the code word is albatross", id="secret"))
    talked.config = thread("t-2")
    model.replies = [asked("msg:secret"), asked("history", pattern="code word"), asked("history"), "well"]
    model.requests.clear()
    await talked.send(HumanMessage("what is it?", id="mine"))
    results = [str(m.content) for m in await talked.history() if m.type == "tool"]
    assert "Nothing here is called" in results[0]
    assert all("albatross" not in found for found in results)
    assert "what is it?" in results[2]


async def test_a_search_does_not_find_itself():
    talked = talk(
        kind="agent", model=Scripted(replies=[asked("history", pattern="submarine")] * 3 + ["never mentioned"])
    )
    await talked.send("was it ever mentioned?")
    results = [str(m.content) for m in await talked.history() if m.type == "tool"]
    assert len(results) == 3
    assert all("matches 'submarine'" in found and found.startswith("No line") for found in results)


async def test_the_tool_works_in_a_plain_tool_node():
    node = ToolNode(MemoryMiddleware().tools)
    builder = StateGraph(MemoryState)
    builder.add_node("tools", node)
    builder.set_entry_point("tools")
    output = await builder.compile().ainvoke({"messages": [*MESSAGES, asked("msg:h2")]})
    assert output["messages"][-1].content == "潮汐表在哪里？"


def test_the_tool_hides_the_state_from_the_model():
    [tool] = MemoryMiddleware().tools
    assert set(tool.tool_call_schema.model_json_schema()["properties"]) == {"ref", "offset", "limit", "pattern"}


@pytest.mark.parametrize("chars", [3500, 7000])
async def test_a_recalled_text_is_not_pruned_so_it_need_not_be_asked_for_again(chars):
    replies = [asked("msg:big", limit=8000), "got it"]
    talked = talk(
        {"context_window": 30_000, "pruning.min_reclaim_tokens": 0, "pruning.protect_recent": 0}, kind="agent"
    )
    talked.model.replies = lambda _: replies.pop(0) if replies else "fine"
    big = result("x", "row " * (chars // 4), id="big")
    await talked.send(HumanMessage("go"), calls("x"), big, HumanMessage("look again"))
    for _ in range(3):
        request = await talked.send("next")
    recalled = [m for m in request if m.type == "tool" and m.name == "recall"]
    assert recalled[0].content == big.content
