import asyncio
import errno
import os
import re
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph
from langgraph.prebuilt import ToolNode

from langgraph_memory import MemoryMiddleware, MemoryState
from langgraph_memory import recall as recall_module
from langgraph_memory.config import SpillBufferConfig
from langgraph_memory.recall import MAX_CHARS, make_recall_tool, recall
from langgraph_memory.spill import SpillStore, spilled, spilled_result
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
    assert page.startswith("msg:long: […]xxx")
    assert page.endswith("xxx needle")


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


@pytest.mark.parametrize(
    "pattern", ["(" * 5000 + ")" * 5000, "(?R)", "a{9999999999999999999}", "(?<n>a)(?<n>b)", "\ud800", "[", "\\N{X}"]
)
def test_no_pattern_raises(pattern):
    history = [HumanMessage("row upon row\n" * 2000, id="h")]
    assert "matches" in recall(history, "history", pattern=pattern)


def test_a_pattern_that_takes_too_long_is_looked_for_as_plain_text_and_says_so(monkeypatch):
    monkeypatch.setattr(recall_module, "MATCH_SECONDS", -10.0)
    history = [HumanMessage("one\ntwo is t.o here\n", id="h")]
    answer = recall(history, "history", pattern="t.o")
    assert answer.startswith("msg:h: two is t.o here\n[the pattern takes too long")
    assert "[the pattern takes too long" in recall(history, "history", pattern="o.e")


def test_an_offset_behind_the_last_match_says_how_many_there_are():
    assert "300 lines" in recall(MESSAGES, "msg:t1", pattern="taken", offset=300)


@pytest.mark.parametrize("where", [0, 100, 10_000, 19_990])
@pytest.mark.parametrize("limit", [20, 300, 4000])
def test_a_match_in_a_long_line_is_shown_with_what_stands_around_it(where, limit):
    line = ("x" * where + "NEEDLE-77" + "x" * 20_000)[:20_000]
    shown = recall([HumanMessage(line, id="h")], "msg:h", pattern=r"needle-\d+")
    assert "NEEDLE-77" in shown
    assert len(shown) < 600
    assert len(shown.splitlines()) == 1


# Spilled results


@pytest.fixture
def store(tmp_path: Path) -> SpillStore:
    return SpillStore(tmp_path / "spill")


def spill(store: SpillStore, text: Any, number: int = 1, *, name: str = "grab", **settings: Any) -> ToolMessage:
    config = SpillBufferConfig(default_threshold=1000, **settings)
    return spilled(result(f"c{number}", text, name=name, id=f"r{number}"), name, config, store)


def ref_of(message: ToolMessage) -> str:
    [ref] = re.findall(r'recall\("(spill:[0-9a-f]{32})"\)', str(message.content))
    return str(ref)


def path_of(store: SpillStore, message: ToolMessage) -> Path:
    digest = ref_of(message).removeprefix("spill:")
    return store.folder / digest[:2] / f"{digest}.txt"


def read_all(messages: Sequence[BaseMessage], ref: str, store: SpillStore, limit: int) -> str:
    whole, offset = "", 0
    while True:
        page = recall(messages, ref, store=store, offset=offset, limit=limit)
        more = re.search(r"\n\[characters (\d+)-(\d+) of (\d+); go on with offset=(\d+)\]$", page)
        whole += page[: more.start()] if more else page
        if more is None:
            return whole
        assert (int(more[1]), int(more[4])) == (offset, int(more[2]))
        offset = int(more[4])


@pytest.mark.parametrize("limit", [700, 3000, MAX_CHARS])
@pytest.mark.parametrize(
    "text",
    [
        "".join(f"row {number}\r\n" for number in range(3000)),
        "泊位在中午之前被占用。" * 3000,
        "👨‍👩‍👧‍👦" * 2000,
        "\n".join("x" * 20_000 for _ in range(5)),
        "half \ud83d of it " * 500,
    ],
)
def test_all_of_a_spilled_result_can_be_read_page_by_page(store, text, limit):
    message = spill(store, text)
    assert read_all([*MESSAGES, message], ref_of(message), store, limit) == text.replace("\ud83d", "�")


@pytest.mark.parametrize("limit", [1, 4000, 10**9])
def test_what_is_read_from_a_file_of_few_long_lines_is_not_large_enough_to_be_spilled_again(store, limit):
    message = spill(store, "\n".join(letter * 20_000 for letter in "abcde"))
    for arguments in ({}, {"pattern": "c"}, {"pattern": "."}):
        page = recall([message], ref_of(message), store=store, limit=limit, **arguments)
        assert len(page) <= min(limit, MAX_CHARS) + 600
        again = result("c9", page, name="recall")
        assert spilled(again, "recall", SpillBufferConfig(default_threshold=10), store) is again


def test_a_message_whose_result_was_spilled_gives_its_preview_and_the_reference(store):
    message = spill(store, "row\n" * 20_000)
    assert recall([message], "msg:r1", store=store) == message.content
    assert ref_of(message) in str(message.content)


@pytest.mark.parametrize("blocks", [False, True])
def test_the_spilled_results_of_a_thread_can_be_listed(store, blocks):
    texts = [f"{number} " * 4000 for number in range(20)]
    content = [[{"type": "text", "text": t}, {"type": "image", "base64": "A"}] if blocks else t for t in texts]
    messages = [spill(store, part, number, name=f"tool-{number}") for number, part in enumerate(content)]
    listed = recall([*MESSAGES, *messages, *messages[:3]], "spills", store=store)
    refs = [line.split(" · ")[0] for line in listed.splitlines()]
    assert listed.splitlines()[7] == f"{refs[7]} · tool-7 · {len(texts[7])} bytes"
    assert [read_all(messages, ref, store, MAX_CHARS) for ref in refs] == texts
    assert recall(messages, "spills", store=store, pattern="tool-13 ") == f"spills: {listed.splitlines()[13]}"


def test_a_long_list_is_paged(store):
    messages = [spill(store, f"{number} " * 1000, number) for number in range(300)]
    assert len(read_all(messages, "spills", store, 2000).splitlines()) == 300


@pytest.mark.parametrize("given_store", [True, False])
def test_a_thread_without_spilled_results_says_so(store, given_store):
    assert "No result" in recall(MESSAGES, "spills", store=store if given_store else None)


# Only what this thread refers to


@pytest.mark.parametrize(
    "carrier",
    [
        None,
        lambda text: HumanMessage(text, id="x"),
        lambda text: AIMessage(text, id="x"),
        lambda text: result("c5", text, name="memory_search", id="x"),
        lambda text: result("c5", text, name="recall", id="x"),
    ],
)
def test_a_file_of_another_thread_is_not_served_whoever_names_it(store, carrier):
    theirs = spill(store, "secret " * 1000)
    mine = [*MESSAGES, *([carrier(str(theirs.content))] if carrier else [])]
    for pattern in ("", "secret"):
        answer = recall(mine, ref_of(theirs), store=store, pattern=pattern)
        assert answer.startswith("Nothing here is called")
    assert "No result" in recall(mine, "spills", store=store)


@pytest.mark.parametrize(
    "ref", ["spill:", "spill:../../etc/passwd", "spill:" + "0" * 32, "spill:*", "spill:" + "A" * 32, "spill:msg:t1"]
)
def test_what_is_no_reference_of_this_thread_never_reaches_the_files(store, ref):
    message = spill(store, "text " * 1000)
    hostile = result("c2", f'recall("{ref}") {ref}', id="r2")
    answer = recall([message, hostile], ref, store=store)
    assert answer.startswith(("Nothing here is called", "The file of spill:000"))
    assert len(list(store.folder.rglob("*.txt"))) == 1


# Files that cannot be read


@pytest.mark.parametrize("arguments", [{}, {"pattern": "row"}, {"offset": 5000}])
@pytest.mark.parametrize("damage", ["gone", "folder gone", "emptied", "changed", "linked", "no store"])
def test_a_file_that_is_gone_or_damaged_gives_a_sentence(store, tmp_path, damage, arguments):
    message = spill(store, "row\n" * 20_000)
    path = path_of(store, message)
    data = path.read_bytes()
    if damage == "folder gone":
        store = SpillStore(tmp_path / "elsewhere")
    elif damage == "emptied":
        path.write_bytes(b"")
    elif damage == "changed":
        path.write_bytes(data.replace(b"row", b"cow", 1))
    elif damage == "linked":
        path.rename(tmp_path / "moved")
        path.symlink_to(tmp_path / "moved")
    elif damage == "gone":
        path.unlink()
    answer = recall([message], ref_of(message), store=None if damage == "no store" else store, **arguments)
    assert answer.startswith(f"The file of {ref_of(message)} ")
    assert answer.endswith(".")
    assert "row\n" not in answer


def test_a_file_that_may_not_be_read_says_why(store, monkeypatch):
    message = spill(store, "row\n" * 20_000)

    def refused(*_: Any) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "open", refused)
    assert "cannot be read now (Permission denied)" in recall([message], ref_of(message), store=store)


# Lines of a file


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["berth 899999 ", r"BERTH 89{5}\s"])
def test_a_line_at_the_end_of_a_very_large_file_is_found(store, pattern, monkeypatch):
    monkeypatch.setattr("langgraph_memory.recall.MATCH_SECONDS", 600.0)
    text = "".join(f"service {number % 7} saw that berth {number} is free\n" for number in range(900_000))
    message = spill(store, text)
    line, note = recall([message], ref_of(message), store=store, pattern=pattern).splitlines()
    assert line == f"line 900000: service {899_999 % 7} saw that berth 899999 is free"
    assert note == f"[line 900000 starts at offset={text.rindex('service')}]"
    assert recall([message], ref_of(message), store=store, offset=text.rindex("service"), limit=7).startswith("service")


def test_a_file_is_searched_without_being_loaded(store):
    message = spill(store, "".join(f"{number} ".ljust(250, ".") + "\n" for number in range(10_000)) * 4)
    tracemalloc.start()
    try:
        answer = recall([message], ref_of(message), store=store, pattern="9999 ")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(answer.splitlines()) == 5
    assert peak < 4_000_000


def test_many_matches_in_a_large_file_are_counted_and_read_page_by_page(store):
    text = "".join(f"row {number}\n" for number in range(200_000))
    message = spill(store, text)
    answer = recall([message], ref_of(message), store=store, pattern="row", limit=300, offset=150_000)
    lines = answer.splitlines()
    assert lines[0] == "line 150001: row 150000"
    assert lines[-2] == f"[line 150001 starts at offset={text.index('row 150000')}]"
    assert lines[-1] == f"[{50_000 - len(lines) + 2} more matching lines; go on with offset={150_000 + len(lines) - 2}]"
    assert len(answer) < 500


def test_a_pattern_that_backtracks_for_ever_in_a_file_ends_soon_and_lets_others_work(store):
    message = spill(store, ("a" * 3000 + "b\n") * 300)
    ticks, done = [], threading.Event()

    def ticking() -> None:
        while not done.wait(0.02):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=ticking)
    thread.start()
    try:
        answer = recall([message], ref_of(message), store=store, pattern=r"(a|aa)+c|(.)\2{900}(a|aa)+$")
    finally:
        done.set()
        thread.join()
    assert "[the pattern takes too long" in answer
    assert len(ticks) > 5


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


def ledger(rows: int) -> Any:
    @tool("ledger")
    def read(n: int) -> str:
        """Read the ledger."""
        return "".join(f"ledger {n} row {row}: berth {row % 97} is taken\n" for row in range(rows))

    return read


def ask_ledger(number: int) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "ledger", "args": {"n": number}, "id": f"ledger-{number}"}])


@pytest.mark.parametrize("mode", MODES)
async def test_a_spilled_result_is_found_again_after_its_message_was_covered(store, mode):
    config = SpillBufferConfig(default_threshold=20_000)

    def wrap(request: Any, handler: Any) -> Any:
        return spilled_result(handler(request), request.tool_call["name"], config, store, failed=pytest.fail, done=id)

    async def awrap(request: Any, handler: Any) -> Any:
        made = await handler(request)
        return await asyncio.to_thread(
            spilled_result, made, request.tool_call["name"], config, store, failed=pytest.fail, done=id
        )

    memory = MemoryMiddleware(configured({"context_window": 8000}), model=summariser())
    memory.tools = [make_recall_tool(store)]
    tools = [ledger(20_000), *memory.tools]
    model = Scripted(replies=[ask_ledger(1), ask_ledger(2), "noted"])
    builder = StateGraph(MemoryState)
    builder.add_node("model", memory.model_node(model, tools=tools))
    builder.add_node("tools", ToolNode(tools, wrap_tool_call=wrap, awrap_tool_call=awrap))
    memory.attach(builder)
    talked = talk()
    talked.memory, talked.model, talked.mode = memory, model, mode
    talked.graph = builder.compile(checkpointer=InMemorySaver())
    await talked.send(HumanMessage("read both ledgers", id="first"))
    await talked.send(*chat(14, chars=3000), HumanMessage("go on", id="now"))
    assert "spill:" not in text_of(model.last)
    model.replies = [asked("spills"), "well"]
    model.requests.clear()
    await talked.send("what was it?")
    [listed] = [str(m.content) for m in await talked.history() if m.type == "tool" and m.name == "recall"]
    refs = [line.split(" · ")[0] for line in listed.splitlines()]
    assert [line.split(" · ")[1] for line in listed.splitlines()] == ["ledger", "ledger"]
    model.replies = [asked(refs[1], pattern="row 19999:"), asked(refs[0], limit=8000, offset=400_000), "found"]
    model.requests.clear()
    await talked.send("look it up")
    found = [str(m.content) for m in await talked.history() if m.type == "tool" and m.name == "recall"][1:]
    assert found[0].startswith("line 20000: ledger 2 row 19999: berth 17 is taken\n")
    assert "ledger 1 row" in found[1]
    assert len(found[1]) > 8000
    assert sum(len(str(m.content)) for m in await talked.history() if m.type == "tool") < 20_000
    talked.config = thread("t-2")
    model.replies = [asked("spills"), asked(refs[0]), asked(refs[1], pattern="row"), "nothing"]
    model.requests.clear()
    await talked.send("what did the others read?")
    answers = [str(m.content) for m in await talked.history() if m.type == "tool"]
    assert len(answers) == 3
    assert all(answer.startswith(("No result", "Nothing here is called")) for answer in answers)


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


@pytest.mark.parametrize(
    "messages", [None, [], [{"role": "user", "content": "a tide table", "id": "d1"}, ("ai", "ok")]]
)
def test_the_tool_reads_a_state_that_holds_plain_dicts_or_nothing(messages):
    runtime = SimpleNamespace(state={"messages": messages})
    answer = make_recall_tool().func("msg:d1", runtime)
    assert answer == "a tide table" if messages else "Nothing here is called" in answer


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
