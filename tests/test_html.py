"""What a notebook shows: well-formed, escaped, without scripts; and lists stay lists."""

import asyncio
import json
from html.parser import HTMLParser
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langgraph_memory import MemoryMiddleware, ThreadSaver, ThreadStore, Workspace
from langgraph_memory.context.viewdiff import ViewDiff
from langgraph_memory.html import HEAD_ROWS, TAIL_ROWS, Html, element, table
from langgraph_memory.longterm.history import Diff
from langgraph_memory.threads import Hit, Node, ThreadRow
from langgraph_memory.threads.listed import Hits, Listed, Messages, Threads, Tree

EVIL = "<script>alert('x')</script><img src=x onerror=\"go()\"> & $x$ \ud800\x1b[31m"


class Reader(HTMLParser):
    """The elements and texts of a piece of HTML, in which every element has its end."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: set[str] = set()
        self.styles, self.text = "", ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self._open.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.styles += "".join(f"{value};" for name, value in attrs if name == "style")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def node(id: str, parent: str | None = None, **values: Any) -> Node:
    about = {"created": "2026-01-01", "source": "loop", "step": 0, "reason": None, "origin": None, "messages": 2}
    about |= {"next": (), "active": True, "newest": False} | values
    return Node(id, parent, **about)


def evil_values() -> dict[str, Any]:
    call = {"name": EVIL, "args": {EVIL: EVIL}, "id": "c"}
    return {
        "threads": Threads([ThreadRow(EVIL, 1, 1, 1, 1, EVIL, (EVIL,), None)]),
        "messages": Messages(
            [HumanMessage(EVIL), AIMessage(EVIL, tool_calls=[call]), ToolMessage(EVIL, tool_call_id="c", name=EVIL)]
        ),
        "tree": Tree([node(EVIL, reason=EVIL, next=(EVIL,))]),
        "hits": Hits([Hit(EVIL, EVIL, EVIL, EVIL, EVIL, EVIL, 1.0)]),
        "diff": Diff(f"--- a\n+++ b\n@@ -1 +1 @@\n-{EVIL}\n+{EVIL}\n"),
    }


@pytest.mark.parametrize("name", evil_values())
def test_nothing_that_anybody_said_becomes_markup(name: str) -> None:
    html = evil_values()[name]._repr_html_()
    read = Reader(html)
    assert {"script", "img"}.isdisjoint(read.names)
    assert read.attributes <= {"class", "style", "title"}
    assert "<script>" in read.text and "onerror" in read.text
    assert "\x1b" not in html
    html.encode()


@pytest.mark.parametrize("name", evil_values())
def test_what_is_shown_fits_light_and_dark_themes_and_loads_nothing(name: str) -> None:
    styles = Reader(evil_values()[name]._repr_html_()).styles
    assert "url(" not in styles
    assert all(word not in styles for word in ("white;", "black;", "#fff", "#000"))
    assert "max-width" in styles


def test_a_report_shows_its_parts_and_what_was_done() -> None:
    memory = MemoryMiddleware({"memory": {"context_window": 10_000, "compaction": {"enabled": False}}})
    state = {"messages": [HumanMessage("hello " * 100, id="m")], "memory_record": {}}
    report = memory.report(state)
    read = Reader(report._repr_html_())
    assert f"{report.total:,} of 10,000 tokens" in read.text
    assert "human" in read.text and "free" in read.text and "recalled" not in read.text
    assert "1 messages, 1 in the view: 0 summarised, 0 trimmed, 0 cleared" in read.text
    assert repr(report).startswith("ContextReport(total=")


async def test_what_a_store_lists_is_a_list_and_shows_itself(tmp_path) -> None:
    async with ThreadSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        await talk(saver, "one", "two")
        store = ThreadStore(saver)
        listed = [
            await store.threads(),
            await store.messages("t"),
            await store.checkpoints("t"),
            await store.search("one"),
        ]
        for one in listed:
            assert one and isinstance(one, list) and one == list(one)
            assert repr(one) == repr(list(one))
            assert type(one[:1]) is type(one) and type(one[0]) is type(next(iter(one)))
            Reader(one._repr_html_())
        assert "one" in Reader(listed[1]._repr_html_()).text
        assert "newest" in Reader(listed[2]._repr_html_()).text
        json.dumps([[row.to_json() for row in one] for one in listed if not isinstance(one, Messages)])
        # What was read can be said again in another thread.
        await talk(saver, *listed[1], thread="u")
        assert [message.text for message in await store.messages("u")] == ["one", "two"]


async def talk(saver: ThreadSaver, *messages: Any, thread: str = "t") -> None:
    from langgraph.graph import MessagesState, StateGraph

    builder = StateGraph(MessagesState)
    builder.add_node("nothing", lambda state: {})
    builder.set_entry_point("nothing")
    graph = builder.compile(checkpointer=saver)
    await graph.ainvoke(
        {"messages": Messages([HumanMessage(m) if isinstance(m, str) else m for m in messages])},
        {"configurable": {"thread_id": thread}},
    )


def test_two_views_show_what_was_decided_between_them() -> None:
    memory = MemoryMiddleware({"memory": {"context_window": 10_000}})
    said = [HumanMessage(f"{EVIL} {number}", id=f"m{number}") for number in range(5)]
    before, after = (
        memory.explain({"messages": messages, "memory_record": {}}) for messages in (said, [*said[:4], AIMessage(EVIL)])
    )
    read = Reader(before._repr_html_())
    assert "of 10,000 tokens" in read.text and read.text.count("<script>") == 5
    diff = ViewDiff.of(before, after)
    read = Reader(diff._repr_html_())
    assert "A prompt cache breaks at message 5 of the view" in read.text
    assert "1–4" in read.text and "4 messages" in read.text
    assert {"script", "img"}.isdisjoint(read.names)
    assert "The same view." in Reader(ViewDiff.of(before, before)._repr_html_()).text


class Printer:
    text_ = ""

    def text(self, text: str) -> None:
        self.text_ += text


@pytest.mark.parametrize("name", [name for name in evil_values() if name != "diff"])
def test_where_there_is_no_html_there_are_lines(name: str) -> None:
    printer = Printer()
    value = evil_values()[name]
    value._repr_pretty_(printer, False)
    assert printer.text_.count("\n") == len(value) - 1
    assert "Row(" not in printer.text_ and "Message(" not in printer.text_


def test_a_report_and_a_view_are_a_few_lines_without_html() -> None:
    memory = MemoryMiddleware({"memory": {"context_window": 10_000}})
    state = {"messages": [HumanMessage("hello", id="m")], "memory_record": {}}
    report, view = memory.report(state), memory.explain(state)
    for value, lines in ((report, 3), (view, 2), (ViewDiff.of(view, view), 1)):
        printer = Printer()
        value._repr_pretty_(printer, False)
        assert len(printer.text_.splitlines()) == lines


def test_a_tree_names_checkpoints_by_their_places_in_the_list() -> None:
    tree = Tree([node("a"), node("b", "a", next=("model",)), node("c", "b", active=False), node("d", "b", newest=True)])
    lines = Reader(tree._repr_html_()).text
    assert "● [0]" in lines and "├─○ [2]" in lines and "● [3]  2 messages · newest" in lines
    assert "[1]" not in lines


def test_the_middle_of_a_long_list_is_left_out() -> None:
    several = Messages([HumanMessage(f"said {number}.") for number in range(1000)])
    text = Reader(several._repr_html_()).text
    assert text.count("said") == HEAD_ROWS + TAIL_ROWS
    assert "said 0." in text and "said 999." in text and "said 500." not in text
    assert f"{1000 - HEAD_ROWS - TAIL_ROWS} in the middle are not shown" in text


@pytest.mark.parametrize("kind", [Threads, Messages, Tree, Hits])
def test_nothing_shows_too(kind: type[Listed[Any]]) -> None:
    Reader(kind()._repr_html_())


async def test_a_diff_of_the_memory_is_text_and_shows_in_colour(tmp_path) -> None:
    async with Workspace(tmp_path) as workspace:
        await asyncio.to_thread(workspace.keeper.replace_memory, "# Me\n- tea\n", was="")
        await asyncio.to_thread(workspace.keeper.replace_memory, "# Me\n- coffee\n", was="# Me\n- tea\n")
        diff = await workspace.diff()
    assert "-- tea\n+- coffee\n" in diff
    read = Reader(diff._repr_html_())
    assert "+- coffee" in read.text and read.styles.count("color:") == 5
    assert "no change" in Diff("")._repr_html_()


def test_only_markup_of_ours_is_not_escaped() -> None:
    inner = element("b", "<i>")
    assert element("p", inner, "&", title='"') == '<p title="&quot;"><b>&lt;i&gt;</b>&amp;</p>'
    assert isinstance(inner, Html)
    assert "<thead>" not in table(("", ""), [("a", "b")])


def test_a_display_is_bounded_however_long_names_and_lists_are() -> None:
    long = "n" * 300_000
    call = {"name": long, "args": {long: long}, "id": "c", "type": "tool_call"}
    messages = [AIMessage(long, tool_calls=[call]), ToolMessage(long, name=long, tool_call_id="c")] * 2000
    assert len(Messages(messages)._repr_html_()) < 400_000
    assert len(Diff("".join(f"+{long[:3000]}\n" for _ in range(5000)))._repr_html_()) < 800_000
