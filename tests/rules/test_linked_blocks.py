"""Blocks of the provider's own tools that belong together across messages, and what such tools returned."""

from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
from langchain_core.tools import StructuredTool
from langchain_openai.chat_models.base import _construct_responses_api_input

from langgraph_memory.context.artifacts import artifacts
from langgraph_memory.context.groups import pair, request_run, units
from langgraph_memory.context.text import message_text
from langgraph_memory.context.tokens import load_counter
from langgraph_memory.nodes import Overheads, Spec
from langgraph_memory.recall import recall
from tests.support.graphs import ENTRIES, Bare, calls, chat, result, rounds, sent, text_of
from tests.support.models import Scripted

SERVER = {
    "code execution": ("server_tool_use", "code_execution_tool_result"),
    "web search": ("server_tool_use", "web_search_tool_result"),
    "mcp": ("mcp_tool_use", "mcp_tool_result"),
}
ASKED = {
    "approval": (
        {"type": "mcp_approval_request", "id": "r1", "name": "ask", "arguments": "{}", "server_label": "d"},
        {"type": "mcp_approval_response", "approve": True, "approval_request_id": "r1"},
    ),
    "patch": (
        {"type": "apply_patch_call", "id": "a1", "call_id": "p1", "status": "completed", "operation": {"path": "a"}},
        {"type": "apply_patch_call_output", "call_id": "p1", "status": "completed", "output": "ok"},
    ),
    "tool search": (
        {"type": "tool_search_call", "id": "t1", "call_id": "k1", "execution": "client", "arguments": {}},
        {"type": "tool_search_output", "call_id": "k1", "execution": "client", "tools": []},
    ),
}


def parted(view: Sequence[BaseMessage], opens: str, closes: str) -> bool:
    """Whether one of the two blocks is in the view without the other, or they stand the wrong way round."""
    kinds = [
        block["type"]
        for message in view
        if isinstance(message.content, list)
        for block in message.content
        if isinstance(block, dict) and block["type"] in (opens, closes)
    ]
    return kinds not in ([], [opens, closes])


def paused(use: str, answer: str, *, chars: int, client: bool) -> list[AnyMessage]:
    """A tool of the provider that is under way while a message ends, and returns in the next one."""
    began = calls("t1", id="s1") if client else AIMessage("", id="s1")
    began.content = [
        {"type": "text", "text": "let me look " * (chars // 12)},
        {"type": use, "id": "srv", "name": "x", "input": {}},
    ]
    ended = {"type": answer, "tool_use_id": "srv", "content": [{"type": "text", "text": "row " * (chars // 4)}]}
    between = [result("t1", "row " * (chars // 4), id="r1")] if client else []
    return [began, *between, AIMessage([ended, {"type": "text", "text": "fine"}], id="s2")]


@pytest.mark.parametrize("client", [False, True])
@pytest.mark.parametrize("keep", [60, 300, 700])
@pytest.mark.parametrize("kind", SERVER)
def test_a_tool_of_the_provider_is_shown_whole_or_not_at_all(kind, keep, client):
    use, answer = SERVER[kind]
    settings = {"context_window": 6000, "compaction.min_messages": 4, "compaction.keep_recent_tokens": keep}
    for chars in (200, 800, 1800, 4000):
        middle = paused(use, answer, chars=chars, client=client)
        messages = [*chat(12, chars=1500), HumanMessage("go", id="h"), *middle, HumanMessage("go on", id="z")]
        view = Bare(settings).sync(messages)
        assert not parted(view, use, answer)


@pytest.mark.parametrize("entry", ENTRIES)
async def test_a_result_whose_tool_is_not_there_stays_out(entry):
    _, ended = paused("server_tool_use", "web_search_tool_result", chars=40, client=False)
    view = await sent(entry, [HumanMessage("go"), ended, HumanMessage("go on")])
    assert [message.type for message in view] == ["human", "ai", "human"]
    assert "web_search_tool_result" not in str([message.content for message in view])
    assert "fine" in text_of(view)


def test_what_is_closed_later_is_seen_when_the_view_goes_on():
    began, ended = paused("server_tool_use", "web_search_tool_result", chars=40, client=False)
    bare = Bare()
    bare.sync([HumanMessage("go"), began])
    assert ended in bare.sync([HumanMessage("go"), began, ended])


@pytest.mark.parametrize("keep", [60, 300, 900])
@pytest.mark.parametrize("kind", ASKED)
def test_what_the_provider_asked_for_and_the_answer_stay_together(kind, keep):
    asks, answers = ASKED[kind]
    settings = {"context_window": 6000, "compaction.min_messages": 4, "compaction.keep_recent_tokens": keep}
    for behind in (1, 3, 6):
        turn = [HumanMessage("do it", id="h"), AIMessage([asks], id="a"), HumanMessage([answers], id="o")]
        view = Bare(settings).sync([*chat(8, chars=1500), *turn, *rounds(behind, chars=1800)])
        assert not parted(view, asks["type"], answers["type"])
        sent_kinds = [item.get("type") for item in _construct_responses_api_input(view)]
        assert sent_kinds.count(asks["type"]) == sent_kinds.count(answers["type"])
        assert "do it" in text_of(view)


@pytest.mark.parametrize("kind", ASKED)
def test_such_an_answer_is_no_request(kind):
    asks, answers = ASKED[kind]
    messages = [HumanMessage("do it"), AIMessage([asks]), HumanMessage([answers])]
    assert request_run(messages) == (0, 1)
    assert units(messages, pair(messages)) == [(0, 1), (1, 3)]


# What they returned

RETURNED: dict[str, dict[str, Any]] = {
    "mcp": {"type": "mcp_call", "id": "m", "name": "berth", "arguments": "{}", "output": "MARK is free"},
    "bash": {
        "type": "bash_code_execution_tool_result",
        "tool_use_id": "s",
        "content": {"type": "bash_code_execution_result", "stdout": "MARK", "stderr": "", "return_code": 0},
    },
    "interpreter": {"type": "code_interpreter_call", "code": "1", "outputs": [{"type": "logs", "logs": "MARK"}]},
    "search": {
        "type": "web_search_tool_result",
        "tool_use_id": "s",
        "content": [
            {"type": "web_search_result", "title": "MARK", "url": "https://a.b/c", "encrypted_content": "QUJD"}
        ],
    },
    "standard": {"type": "server_tool_result", "tool_call_id": "s", "output": {"row": ["MARK"]}},
    "patch": {"type": "apply_patch_call", "call_id": "p", "operation": {"type": "delete_file", "path": "src/MARK.py"}},
}
SHOWN: dict[str, dict[str, Any]] = {
    "openai": {"type": "image_url", "image_url": {"url": "https://MARK.example/a.png"}},
    "anthropic": {"type": "image", "source": {"type": "url", "url": "https://MARK.example/a.png"}},
    "standard": {"type": "image", "url": "https://MARK.example/a.png"},
    "file": {"type": "input_file", "filename": "MARK.pdf", "file_data": "data:application/pdf;base64,AAAA"},
    "pdf": {"type": "file", "url": "https://MARK.example/a.pdf", "mime_type": "application/pdf"},
}


@pytest.mark.parametrize("block", RETURNED.values(), ids=RETURNED)
def test_what_a_tool_of_the_provider_returned_is_summarised_and_recalled(block):
    opened = {"type": "server_tool_use", "id": "s", "name": "x", "input": {}}
    told = AIMessage([opened, block, {"type": "text", "text": "so"}], id="x")
    bare = Bare({"context_window": 8000, "compaction.min_messages": 4, "compaction.keep_recent_tokens": 600})
    messages = [HumanMessage("look it up", id="h"), told, *chat(12, chars=2500), HumanMessage("next", id="z")]
    bare.sync(messages)
    assert "MARK" in "".join(request.text for request in bare.side.requests)
    assert "MARK" in recall(messages, "msg:x")
    assert "QUJD" not in message_text(told)


@pytest.mark.parametrize("block", SHOWN.values(), ids=SHOWN)
def test_a_link_or_a_name_of_what_was_shown_is_kept(block):
    message = HumanMessage([block], id="x")
    assert "MARK" in message_text(message)
    assert any("MARK" in line for line in artifacts([message]))
    assert "AAAA" not in message_text(message)


@pytest.mark.parametrize("url", ["data:image/png;base64,AAAA", "", "A" * 4000])
def test_a_payload_is_no_link(url):
    assert message_text(HumanMessage([{"type": "image_url", "image_url": {"url": url}}])) == "[image]"


def test_links_that_lead_nowhere_are_followed_only_so_far():
    link: dict[str, Any] = {"url": "https://a.b/c"}
    for _ in range(20_000):
        link = {"url": link}
    assert message_text(HumanMessage([{"type": "image", **link}])) == "[image]"


# Tools that change


@pytest.mark.parametrize("change", [{"description": "word " * 2500}, {"name": "renamed " * 500}])
def test_a_tool_that_was_changed_in_place_is_counted_anew(change):
    tool = StructuredTool.from_function(lambda n: "x", name="grab", description="small")
    overheads, counter, spec = Overheads(), load_counter(), Spec(Scripted(), (tool,))
    before = overheads.of(spec, counter).tools
    for key, value in change.items():
        setattr(tool, key, value)
    after = overheads.of(spec, counter).tools
    assert before is not None and after is not None and after > before + 400


def test_a_schema_that_was_changed_in_place_is_counted_anew():
    schema: dict[str, Any] = {
        "type": "function",
        "function": {"name": "grab", "description": "small", "parameters": {}},
    }
    overheads, counter, spec = Overheads(), load_counter(), Spec(Scripted(), (schema,))
    before = overheads.of(spec, counter).tools
    schema["function"]["description"] = "word " * 2500
    after = overheads.of(spec, counter).tools
    assert before is not None and after is not None and after > before + 2000
