"""Messages as single providers and servers make them: what is shown of them, what is read of them, and what is not."""

import re

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_openai.chat_models.base import _construct_responses_api_input

from tests.support.graphs import (
    ENTRIES,
    GRAPHS,
    MODES,
    Bare,
    calls,
    chat,
    grab,
    result,
    rounds,
    sent,
    size,
    summaries_in,
    talk,
    text_of,
)
from tests.support.models import Scripted, summariser
from tests.support.validity import faults

REQUEST = "Book berth 9 for 04:30, and never berth 7."


# Notifications of the program


def notified(at: int, kind: str = "notification") -> list[AnyMessage]:
    """A long turn in whose middle a notification comes, behind the result of round `at`."""
    news = HumanMessage("The build has ended.", id="n", additional_kwargs={"lgm_kind": kind})
    loop = [[calls(f"c{k}", id=f"ai{k}"), result(f"c{k}", "row " * 300, id=f"t{k}")] for k in range(60)]
    return [
        *chat(3, chars=300),
        HumanMessage(REQUEST, id="request"),
        *(m for one in loop[:at] for m in one),
        news,
        *(m for one in loop[at:] for m in one),
    ]


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("at", [0, 5, 30, 59, 60])
async def test_a_notification_does_not_displace_the_request(entry, at):
    view = await sent(entry, notified(at), {"context_window": 16000})
    assert REQUEST in text_of(view)
    assert summaries_in(view) == 1
    assert not faults(view)


async def test_a_notification_is_shown_while_it_is_new():
    view = await sent("node", notified(60), {"context_window": 16000})
    assert "The build has ended." in text_of(view)


async def test_a_human_message_of_another_kind_is_the_request():
    view = await sent("node", notified(30, kind="message"), {"context_window": 16000})
    assert "The build has ended." in text_of(view)


# Ids that are empty


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("mode", MODES)
async def test_the_result_of_a_call_with_an_empty_id_is_shown(kind, mode):
    def reply(messages):
        return AIMessage("done") if any(isinstance(m, ToolMessage) for m in messages) else calls("")

    one = talk({}, kind=kind, mode=mode, model=Scripted(replies=reply), tools=[grab(50)])
    one.config["recursion_limit"] = 30
    await one.send("go")
    assert len(one.model.requests) == 2
    assert not faults(one.model.last)


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("number", [1, 2, 3])
async def test_rounds_with_empty_ids_stay_in_their_order(entry, number):
    loop = [
        m
        for k in range(4)
        for m in (calls(*[""] * number, id=f"ai{k}"), *(result("", f"{k}-{n}", id=f"t{k}-{n}") for n in range(number)))
    ]
    view = await sent(entry, [HumanMessage("go"), *loop])
    assert [m.content for m in view if m.type == "tool"] == [f"{k}-{n}" for k in range(4) for n in range(number)]
    assert not faults(view)


@pytest.mark.parametrize("entry", ENTRIES)
async def test_an_open_call_with_an_empty_id_is_answered_beside_the_others(entry):
    history = [HumanMessage("go"), calls("", "", id="a"), result("", "first"), HumanMessage("and?")]
    view = await sent(entry, history)
    assert [m.type for m in view] == ["human", "ai", "tool", "tool", "human"]
    assert not faults(view)


@pytest.mark.parametrize("keep", [1, 2, 3, 4])
async def test_a_cut_parts_no_round_with_empty_ids(keep):
    loop = [m for k in range(8) for m in (calls("", id=f"ai{k}"), result("", f"{k} " + "row " * 200, id=f"t{k}"))]
    settings = {"context_window": 3000, "compaction.trigger_messages": 1, "compaction.keep_messages": keep}
    view = await sent("node", [HumanMessage("go " * 300), *loop], settings)
    assert summaries_in(view) == 1
    assert not faults(view)


# Answers that only think

THINKING = {"type": "thinking", "thinking": "hm", "signature": "sig"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}
REDACTED = {"type": "redacted_thinking", "data": "abc"}
BLANK = {"type": "text", "text": "\n\n"}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize(
    "blocks", [[THINKING], [REASONING], [REDACTED], [THINKING, BLANK], [BLANK, REDACTED, REASONING]]
)
@pytest.mark.parametrize("last", [False, True])
async def test_an_answer_that_only_thinks_stays_out(entry, blocks, last):
    history = [HumanMessage("hi"), AIMessage(blocks, id="a"), *([] if last else [HumanMessage("go on")])]
    view = await sent(entry, history)
    assert [m.type for m in view] == ["human"] * (1 if last else 2)


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("thought", [THINKING, REASONING, REDACTED])
async def test_what_was_thought_beside_a_text_or_a_call_stays(entry, thought):
    said = AIMessage([thought, {"type": "text", "text": "Berth 9."}], id="a")
    call = {"type": "tool_use", "id": "c", "name": "grab", "input": {}}
    called = AIMessage([thought, call], tool_calls=[{"name": "grab", "args": {}, "id": "c"}], id="b")
    view = await sent(entry, [HumanMessage("hi"), said, HumanMessage("go on"), called, result("c")])
    assert [m.content for m in view if m.type == "ai"] == [said.content, called.content]


# Tools that the provider runs


def server_blocks() -> dict[str, list[dict[str, object]]]:
    return {
        "server_tool_use": [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}],
        "web_search_tool_result": [{"type": "web_search_tool_result", "tool_use_id": "s", "content": []}],
        "mcp_tool_use": [{"type": "mcp_tool_use", "id": "m", "name": "f", "server_name": "x", "input": {}}],
        "web_search_call": [{"type": "web_search_call", "id": "w", "status": "completed"}],
        "file_search_call": [{"type": "file_search_call", "id": "f", "status": "completed", "queries": ["a"]}],
        "code_interpreter_call": [{"type": "code_interpreter_call", "id": "i", "status": "completed", "code": "1"}],
        "mcp_call": [{"type": "mcp_call", "id": "mc", "name": "f", "arguments": "{}", "output": "x"}],
        "image_generation_call": [{"type": "image_generation_call", "id": "g", "status": "completed"}],
    }


def growing(blocks: list[dict[str, object]], factor: int) -> Scripted:
    """A model whose usage is `factor` times what it was sent."""

    def reply(messages):
        used = size(messages) * factor + 1000
        usage = {"input_tokens": used, "output_tokens": 10, "total_tokens": used + 10}
        return AIMessage([*blocks, {"type": "text", "text": "answer"}], usage_metadata=usage)

    return Scripted(replies=reply)


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("blocks", server_blocks().values(), ids=server_blocks())
async def test_usage_that_adds_up_the_calls_of_a_providers_tools_teaches_nothing(kind, blocks):
    one = talk({"context_window": 100_000, "compaction.min_messages": 1}, kind=kind, model=growing(blocks, 6))
    await one.send(*chat(10, chars=2000))
    for number in range(4):
        await one.send(f"question {number} " + "word " * 400)
    assert not one.named("compacted")
    assert (await one.report()).total < 2 * size(one.model.last) + 1000


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("blocks", [[], [{"type": "apply_patch_call", "id": "ap", "call_id": "p", "operation": {}}]])
async def test_usage_of_any_other_call_teaches(kind, blocks):
    one = talk({"context_window": 100_000}, kind=kind, model=growing(blocks, 6))
    await one.send(*chat(10, chars=2000))
    for number in range(2):
        await one.send(f"question {number} " + "word " * 400)
    assert (await one.report()).total > 2 * size(one.model.last) + 1000


# Answers that stand beside the content

SPOKEN = {
    "id": "audio_1",
    "data": "UklGR" * 100,
    "expires_at": 1,
    "transcript": "Berth nine is free at half past four.",
}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("content", ["", []])
@pytest.mark.parametrize(
    "kwargs", [{"audio": SPOKEN}, {"audio": {"id": "a"}}, {"function_call": {"name": "grab", "arguments": "{}"}}]
)
async def test_an_answer_that_stands_beside_the_content_is_shown(entry, content, kwargs):
    answer = AIMessage(content, additional_kwargs=kwargs, id="a")
    view = await sent(entry, [HumanMessage("Which berth?"), answer, HumanMessage("Book it")])
    assert [m.type for m in view] == ["human", "ai", "human"]
    assert view[1].additional_kwargs == kwargs


@pytest.mark.parametrize("entry", ENTRIES)
async def test_an_answer_without_anything_stays_out(entry):
    empty = AIMessage("", additional_kwargs={"audio": None, "other": 1}, id="a")
    assert [m.type for m in await sent(entry, [HumanMessage("x"), empty, HumanMessage("y")])] == ["human", "human"]


@pytest.mark.parametrize("kind", GRAPHS)
async def test_the_summariser_reads_what_was_spoken(kind):
    side = summariser()
    answer = AIMessage("", additional_kwargs={"audio": SPOKEN}, id="a")
    await sent(kind, [HumanMessage("Which berth?"), answer, *chat(15, chars=1500)], {"context_window": 6000}, side=side)
    assert any("half past four" in request.text for request in side.requests)


def test_what_was_spoken_counts():
    silent = AIMessage("", additional_kwargs={"audio": {"id": "a"}})
    long = AIMessage("", additional_kwargs={"audio": {**SPOKEN, "transcript": "word " * 500}})
    assert size([long]) > size([silent]) + 400


# Calls that stand only in the content


def looked(number: int) -> AIMessage:
    call = {
        "type": "computer_call",
        "id": f"cu_{number}",
        "call_id": f"call_{number}",
        "action": {"type": "screenshot"},
    }
    return AIMessage([{"type": "reasoning", "id": f"rs_{number}", "summary": []}, call], id=f"look-{number}")


def screen(number: int) -> ToolMessage:
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    kind = {"type": "computer_call_output"}
    return ToolMessage([image], tool_call_id=f"call_{number}", additional_kwargs=kind, id=f"screen-{number}")


def custom(text: str = "print(1)") -> AIMessage:
    block = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "execute", "input": text}
    return AIMessage([block], tool_calls=[{"name": "execute", "args": {"__arg1": text}, "id": "c1"}], id="custom")


def unpaired(view: list[AnyMessage]) -> list[str]:
    """Items of OpenAI's Responses whose other half is not sent."""
    pairs = {
        "function_call": "function_call_output",
        "custom_tool_call": "custom_tool_call_output",
        "computer_call": "computer_call_output",
    }
    provided = [m.model_copy(update={"response_metadata": {"model_provider": "openai"}}) for m in view]
    items = _construct_responses_api_input(provided)
    ids = {
        kind: sorted(item["call_id"] for item in items if item.get("type") == kind)
        for kind in [*pairs, *pairs.values()]
    }
    return [f"{call}: {ids[call]}, {ids[answer]}" for call, answer in pairs.items() if ids[call] != ids[answer]]


@pytest.mark.parametrize("entry", ENTRIES)
async def test_what_a_computer_call_brought_is_shown(entry):
    view = await sent(entry, [HumanMessage("book a berth"), looked(1), screen(1), looked(2), screen(2)])
    assert [m.type for m in view] == ["human", "ai", "tool", "ai", "tool"]
    assert not unpaired(view)


@pytest.mark.parametrize("entry", ENTRIES)
async def test_a_computer_call_without_its_screenshot_stays_out(entry):
    view = await sent(entry, [HumanMessage("book a berth"), looked(1), screen(1), looked(2), HumanMessage("stop")])
    assert [m.type for m in view] == ["human", "ai", "tool", "human"]
    assert not unpaired(view)


@pytest.mark.parametrize("keep", [1, 2, 3, 4, 5])
async def test_a_cut_parts_no_computer_call_from_its_screenshot(keep):
    loop = [m for n in range(6) for m in (looked(n), screen(n))]
    settings = {"context_window": 9000, "compaction.trigger_messages": 1, "compaction.keep_messages": keep}
    view = await sent("node", [*chat(4, chars=900), HumanMessage("book"), *loop], settings)
    assert summaries_in(view) == 1
    assert not unpaired(view)


@pytest.mark.parametrize("entry", ENTRIES)
async def test_a_custom_call_without_a_result_gets_one_of_its_type(entry):
    view = await sent(entry, [HumanMessage("x"), custom(), HumanMessage("go on")])
    assert [m.type for m in view] == ["human", "ai", "tool", "human"]
    assert "interrupted" in str(view[2].content)
    assert not unpaired(view)


@pytest.mark.parametrize("entry", ENTRIES)
async def test_a_function_call_that_was_not_parsed_gets_a_result(entry):
    blocks = [
        {"type": "function_call", "id": f"fc_{i}", "call_id": i, "name": "grab", "arguments": "{"} for i in ("c1", "c2")
    ]
    called = AIMessage(blocks, tool_calls=[{"name": "grab", "args": {}, "id": "c1"}], id="m")
    view = await sent(entry, [HumanMessage("x"), called, result("c1"), HumanMessage("y")])
    assert [m.type for m in view] == ["human", "ai", "tool", "tool", "human"]
    assert not unpaired(view)


# Results whose text stands in blocks of their own


def executed(number: int, text: str, kind: str) -> list[AnyMessage]:
    block = {
        "type": "custom_tool_call",
        "id": f"ctc_{number}",
        "call_id": f"c{number}",
        "name": "execute",
        "input": "x",
    }
    call = {"name": "execute", "args": {"__arg1": "x"}, "id": f"c{number}"}
    said = {
        "custom_tool_call_output": {"output": text},
        "document": {"source": {"type": "text", "media_type": "text/plain", "data": text}},
    }
    answer = ToolMessage(
        [{"type": kind, **said.get(kind, {"text": text})}], tool_call_id=f"c{number}", name="execute", id=f"cr{number}"
    )
    return [AIMessage([block], tool_calls=[call], id=f"cm{number}"), answer]


KINDS = ["custom_tool_call_output", "input_text", "text-plain", "document", "text"]


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("kind", KINDS)
async def test_old_results_are_pruned_whatever_block_they_stand_in(entry, kind):
    history = [HumanMessage("go"), *(m for n in range(8) for m in executed(n, "row 1 2 3; " * 2000, kind))]
    view = await sent(entry, history, {"context_window": 100_000, "pruning.min_reclaim_tokens": 0})
    old = next(m for m in view if m.type == "tool")
    assert size([old]) < 1000
    assert "trimmed" in str(old.content) or "cleared" in str(old.content)
    if kind == "custom_tool_call_output":
        assert {block["type"] for m in view if m.type == "tool" for block in m.content} == {kind}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_result_above_the_window_is_shown_as_a_preview(kind):
    history = [HumanMessage("go"), *executed(0, "berth-0-free " + "row 1 2 3; " * 20000, kind)]
    view = await sent("node", history, {"context_window": 16000})
    assert any("berth-0-free" in str(m.content) for m in view if m.type == "tool")
    assert size(view) < 16000


@pytest.mark.parametrize("kind", KINDS)
async def test_the_summariser_reads_results_whatever_block_they_stand_in(kind):
    side = summariser()
    loop = [m for n in range(30) for m in executed(n, f"berth-{n}-free " + "row 1 2 3; " * 60, kind)]
    await sent("node", [HumanMessage("go"), *loop], {"context_window": 8000}, side=side)
    assert {n for request in side.requests for n in re.findall(r"berth-(\d+)-free", request.text)} >= {"0", "1"}


def test_the_input_of_a_custom_call_is_cut_as_its_arguments():
    text = "print(1)\n" * 5000
    block = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "execute", "input": text}
    called = AIMessage([block], tool_calls=[{"name": "execute", "args": {"__arg1": text}, "id": "c1"}], id="cm")
    settings = {"truncate_args.enabled": True, "truncate_args.trigger_messages": 5, "pruning.min_reclaim_tokens": 0}
    view = Bare(settings).sync([HumanMessage("x"), called, result("c1"), *rounds(30, chars=100)])
    shown = next(m for m in view if m.id == "cm")
    assert shown.content[0]["input"] == shown.tool_calls[0]["args"]["__arg1"]
    assert len(shown.content[0]["input"]) < 5000
