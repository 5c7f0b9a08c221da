"""Histories in Anthropic's form, where results of tools are blocks of human messages: pairs hold all the same."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_memory import MemoryMiddleware, ThreadStore
from langgraph_memory.context.extract import extract
from langgraph_memory.context.groups import pair, request_run
from langgraph_memory.context.prune import shorten
from langgraph_memory.context.summarize import Recipe, entry
from langgraph_memory.longterm.extraction import line_of
from tests.support.graphs import ENTRIES, Bare, chat, node_graph, sent, summaries_in, text_of
from tests.support.models import Scripted

REQUEST = "Book berth 9 for 04:30, and never berth 7."
COMMENT = "Only the northern pier, please."


def asking(*ids: str, id: str) -> AIMessage:
    blocks: list[Any] = [{"type": "tool_use", "id": call, "name": "grab", "input": {"row": call}} for call in ids]
    parsed = [{"name": "grab", "args": {"row": call}, "id": call, "type": "tool_call"} for call in ids]
    return AIMessage([{"type": "text", "text": "I look."}, *blocks], id=id, tool_calls=parsed)


def answering(*ids: str, id: str, says: str = "", chars: int = 40) -> HumanMessage:
    content: list[Any] = [
        {"type": "tool_result", "tool_use_id": call, "content": "row " * (chars // 4)} for call in ids
    ]
    return HumanMessage([*content, *([{"type": "text", "text": says}] if says else [])], id=id)


def loop(rounds: int, chars: int) -> Iterator[AnyMessage]:
    for k in range(rounds):
        yield asking(f"a{k}", f"b{k}", id=f"ai{k}")
        yield answering(f"a{k}", f"b{k}", id=f"r{k}", chars=chars)


def refused(view: Sequence[BaseMessage]) -> list[str]:
    """What Anthropic's API would refuse, whose turns are the runs of messages that are not the assistant's."""
    found, waiting = [], list[str]()
    turn: list[Any] = []

    def ended() -> None:
        results = [block["tool_use_id"] for block in turn if block["type"] == "tool_result"]
        if sorted(results) != sorted(waiting):
            found.append(f"calls {waiting} are answered by {results}")
        if any(block["type"] == "tool_result" for block in turn[len(results) :]):
            found.append("a result stands behind a text")
        turn.clear()

    for message in view:
        if isinstance(message, AIMessage):
            ended()
            waiting = [str(call["id"]) for call in message.tool_calls]
        elif isinstance(message, ToolMessage):
            turn.append({"type": "tool_result", "tool_use_id": message.tool_call_id})
        else:
            content = message.content
            turn.extend([{"type": "text"}] if isinstance(content, str) else content)
    ended()
    return found


@pytest.mark.parametrize("entry", ENTRIES)
async def test_a_result_in_a_human_message_answers_its_call(entry):
    view = await sent(entry, [HumanMessage(REQUEST, id="q"), *loop(1, 40)])
    assert [message.type for message in view] == ["human", "ai", "human"]
    assert not refused(view)


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize(("rounds", "chars"), [(12, 4000), (60, 800), (300, 200)])
async def test_no_pair_is_parted_and_the_request_stays(entry, rounds, chars):
    messages = [*chat(3, chars=300), HumanMessage(REQUEST, id="q"), *loop(rounds, chars)]
    view = await sent(entry, messages, {"context_window": 8000})
    assert summaries_in(view) == 1
    assert REQUEST in text_of(view)
    assert not refused(view)


@pytest.mark.parametrize("at", [0, 20, 39])
def test_what_is_said_beside_results_is_a_request(at):
    messages: list[BaseMessage] = [HumanMessage(REQUEST, id="q"), *loop(40, 800)]
    messages[2 * at + 2] = answering(f"a{at}", f"b{at}", id="said", says=COMMENT, chars=800)
    assert request_run(messages) == (2 * at + 2, 2 * at + 3)
    view = Bare({"context_window": 8000}).sync(messages)
    assert COMMENT in text_of(view)
    assert not refused(view)


def test_a_call_of_which_no_result_came_gets_one_in_front_of_what_was_said():
    messages = [HumanMessage(REQUEST), asking("a", "b", "c", id="ai"), answering("b", id="r", says=COMMENT)]
    view = Bare().sync(messages)
    assert [message.type for message in view] == ["human", "ai", "tool", "tool", "human"]
    assert not refused(view)


@pytest.mark.parametrize("says", ["", COMMENT])
def test_results_without_a_call_stay_out_but_not_what_is_said_beside_them(says):
    messages = [HumanMessage(REQUEST), AIMessage("Hm."), answering("gone", id="r", says=says), AIMessage("Well.")]
    view = Bare().sync(messages)
    assert not refused(view)
    assert (COMMENT in text_of(view)) == bool(says)
    assert len(view) == (4 if says else 3)


def test_what_is_said_beside_the_results_of_a_broken_call_stays():
    broken = AIMessage("", tool_calls=[{"name": "", "args": {}, "id": "a", "type": "tool_call"}], id="ai")
    view = Bare().sync([HumanMessage(REQUEST), broken, answering("a", id="r", says=COMMENT)])
    assert [message.type for message in view] == ["human", "human"]
    assert view[1].content == [{"type": "text", "text": COMMENT}]


def test_an_explained_view_says_why_such_results_are_missing():
    memory = Bare().memory
    state = {"messages": [HumanMessage(REQUEST, id="q"), answering("gone", id="r")], "memory_record": {}}
    explained = memory.explain(state, {"configurable": {"thread_id": "t"}})
    assert "results of tools whose calls are not there" in str(explained.to_json())


def test_a_shortened_message_keeps_its_results():
    message = answering("a", "b", id="r", says=COMMENT * 100, chars=40_000)
    short = shorten(message, 400)
    assert [block["type"] for block in short.content] == ["tool_result", "tool_result", "text"]
    assert [block.get("tool_use_id") for block in short.content] == ["a", "b", None]
    assert len(text_of([short])) < 1600
    assert shorten(short, 10_000) is short


def test_results_are_no_words_of_the_user():
    results, said = answering("a", id="r"), answering("a", id="r", says=COMMENT)
    recipe = Recipe(window=8000, room=500, most=500)
    assert entry(results, recipe).startswith("[tool result]")
    assert entry(said, recipe).startswith("[user]")
    assert "row row" not in extract([HumanMessage(REQUEST), asking("a", id="ai"), results], "", 2000)
    assert line_of(1, results, from_tools=False) == ""
    assert "not said by the user" in line_of(1, results, from_tools=True)


async def test_results_open_no_turn_of_a_thread():
    graph = node_graph(MemoryMiddleware(), Scripted(replies="Done."))
    config = {"configurable": {"thread_id": "t"}}
    await graph.ainvoke({"messages": [HumanMessage(REQUEST), *loop(5, 40)]}, config)
    (row,) = await ThreadStore(graph.checkpointer).threads()
    assert row.turns == 1


PIECES = st.lists(
    st.tuples(
        st.sampled_from(["ask", "answer", "answer", "tool", "say", "reply"]),
        st.lists(st.sampled_from("abcdef"), min_size=1, max_size=3, unique=True),
        st.sampled_from(["", "", "aside"]),
        st.integers(0, 3000),
    ),
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(PIECES)
def test_whatever_comes_the_view_is_valid_and_what_was_said_is_there(pieces: list[Any]) -> None:
    messages: list[BaseMessage] = [HumanMessage(REQUEST, id="q")]
    bare = Bare({"context_window": 6000})
    for number, (what, ids, says, chars) in enumerate(pieces):
        id, aside = f"m{number}", f"{says} {number}" if says else ""
        if what == "ask":
            messages.append(asking(*ids, id=id))
        elif what == "answer":
            messages.append(answering(*ids, id=id, says=aside, chars=chars))
        elif what == "tool":
            messages.append(ToolMessage("row " * (chars // 4), tool_call_id=ids[0], id=id))
        else:
            messages.append({"say": HumanMessage, "reply": AIMessage}[what](f"{what} {number}", id=id))
        view = bare.sync(messages)
        assert not refused(view)
        if not summaries_in(view):
            assert all(f"aside {n}" in text_of(view) for n, p in enumerate(pieces[: number + 1]) if _spoken(p))
        pairing = pair(messages)
        assert all(len(set(at)) == len(at) for at in pairing.results.values())


def _spoken(piece: tuple[str, list[str], str, int]) -> bool:
    return piece[0] == "answer" and bool(piece[2])
