"""Pruning changes the text of old tool results, always to the same bytes, and nothing else."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage, ToolMessage

from langgraph_memory.config import PruningConfig
from langgraph_memory.context.groups import pair
from langgraph_memory.context.history import History
from langgraph_memory.context.prune import CLEAR, Pruner, next_watermark, rule_limit, shorten, text_size, tool_name
from langgraph_memory.context.record import Scope, Watermark
from tests.support.histories import SCRIPTS, THIRDS, Text, ai, human, named, result

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
RULE = Watermark("m1", 3000, 10_000, ("read_file",))


def limits(messages: list[BaseMessage], scope: Scope) -> list[int | None]:
    pruner = Pruner(scope, History.of(messages, THIRDS), pair(messages))
    return [pruner.limit(position) for position in range(len(messages))]


# Shortening one message


def test_a_cleared_result_says_how_much_there_was_and_how_to_get_it_back() -> None:
    short = shorten(result("c", "x" * 20_000, "t5"), CLEAR)
    assert short.content == '[cleared: 20000 characters · recall("msg:t5")]'


def test_a_trimmed_result_keeps_head_and_tail_within_the_limit() -> None:
    text = "head " * 1000 + "tail " * 1000
    short = shorten(result("c", text, "t5"), 3000)
    assert len(short.content) <= 3000
    found = re.fullmatch(
        r'(.*)\n\[trimmed: (\d+) of 10000 characters · recall\("msg:t5"\)\]\n(.*)', str(short.content), re.DOTALL
    )
    assert found
    assert text.startswith(found[1]) and text.endswith(found[3])
    assert int(found[2]) == len(found[1]) + len(found[3])


def test_a_message_without_id_gets_a_marker_without_recall() -> None:
    assert shorten(result("c", "x" * 20_000), CLEAR).content == "[cleared: 20000 characters]"


@pytest.mark.parametrize("limit", [CLEAR, 300, 3000])
def test_only_the_content_differs_afterwards(limit: int) -> None:
    message = ToolMessage(
        "long " * 5000,
        tool_call_id="c5",
        artifact={"rows": [1, 2]},
        status="error",
        name="dock",
        id="t5",
        response_metadata={"k": 1},
        additional_kwargs={"z": 2},
    )
    before = message.model_copy(deep=True)
    short = shorten(message, limit)
    assert message == before
    assert short.content != message.content
    assert short.model_copy(update={"content": message.content}) == message
    assert type(short) is ToolMessage


@pytest.mark.parametrize("content", ["", "  \n ", [], [IMAGE], [{"type": "text", "text": ""}], "short"])
@pytest.mark.parametrize("limit", [CLEAR, 100])
def test_what_holds_nothing_to_cut_stays_the_same_object(content: Any, limit: int) -> None:
    message = result("c", content, "t")
    assert shorten(message, limit) is message


@pytest.mark.parametrize("size", [2999, 3000, 3001, 3002, 3050, 9999])
def test_a_text_just_above_the_limit_never_grows(size: int) -> None:
    text = "x" * size
    short = shorten(result("c", text, "a-rather-long-message-id-0123456789"), 3000)
    assert len(short.content) <= min(size, 3000)
    assert (short.content == text) == (size <= 3000)


@pytest.mark.parametrize("size", range(1, 60))
def test_a_text_shorter_than_its_marker_stays(size: int) -> None:
    message = result("c", "x" * size, "m1")
    short = shorten(message, CLEAR)
    assert len(short.content) <= size
    assert (short is message) == (size < len(f'[cleared: {size} characters · recall("msg:m1")]'))


def test_texts_of_block_lists_are_cut_and_other_blocks_stay() -> None:
    nested = {"type": "tool_result", "content": [{"type": "text", "text": "c" * 5000}]}
    content = [IMAGE, {"type": "text", "text": "a" * 5000}, "b" * 5000, nested, IMAGE]
    message = result("c", content, "t")
    assert text_size(message) == 15_000
    short = shorten(message, CLEAR)
    assert short.content == [
        IMAGE,
        {"type": "text", "text": '[cleared: 15000 characters · recall("msg:t")]'},
        IMAGE,
    ]
    trimmed = shorten(message, 1000)
    assert [block.get("type") for block in trimmed.content] == ["image_url", "text", "image_url"]  # type: ignore[union-attr]
    assert len(trimmed.content[1]["text"]) <= 1000  # type: ignore[index]
    assert message.content == content


@given(
    st.builds(Text, st.integers(-1, 12_000), st.sampled_from(tuple(SCRIPTS))),
    st.sampled_from((CLEAR, 50, 300, 3000)),
    st.booleans(),
    st.sampled_from((None, "m1", 'id with “quotes" and \u2028')),
)
def test_shortening_gives_the_same_shorter_text_every_time(
    text: Text, limit: int, blocks: bool, id: str | None
) -> None:
    content: Any = text.of("MARK1X")
    message = result("c", [{"type": "text", "text": content}, IMAGE] if blocks else content, id)
    short = shorten(message, limit)
    assert text_size(short) <= text_size(message)
    assert (text_size(short) > 0) == (text_size(message) > 0)
    assert shorten(message, limit).content == short.content
    if text_size(short) <= limit:
        assert shorten(short, limit).content == short.content


@pytest.mark.parametrize("flag", ["🛳️", "🇳🇴", "👩‍💻", "e\u0301"])
@pytest.mark.parametrize("shift", range(8))
def test_cuts_fall_between_whole_characters(flag: str, shift: int) -> None:
    text = "仓" * (1400 + shift) + flag * 300 + "港" * 1400
    short = str(shorten(result("c", text, "m"), 1800 + shift).content)
    head, tail = re.split(r"\n\[trimmed: .*\]\n", short)
    assert text.startswith(head) and text.endswith(tail)
    for part in (head.strip("仓"), tail.strip("港")):
        assert part == flag * (len(part) // len(flag))


# The rule


@pytest.mark.parametrize(
    ("size", "limit"),
    [(0, None), (2999, None), (3000, None), (3001, 3000), (10_000, 3000), (10_001, CLEAR), (10**6, CLEAR)],
)
def test_exceeding_means_more_than(size: int, limit: int | None) -> None:
    assert rule_limit(size, RULE) == limit


def test_equal_thresholds_leave_no_trimmed_results() -> None:
    assert [rule_limit(size, Watermark("m", 500, 500)) for size in (500, 501)] == [None, CLEAR]


def test_the_watermark_is_the_newest_unprotected_result() -> None:
    messages = named([ai("", "a", "b"), result("a"), result("b")])
    config = PruningConfig(soft_trim_chars=10, hard_clear_threshold=20, exclude_tools=("x",))
    history = History.of(messages, THIRDS)
    assert next_watermark(history, [1, 2], config) == Watermark("m2", 10, 20, ("x",))
    assert next_watermark(history, [], config) is None


# Which messages are pruned


def rounds(*texts: str, tool: str | None = "dock") -> list[BaseMessage]:
    pairs = [(ai("", f"c{n}"), result(f"c{n}", text, name=tool)) for n, text in enumerate(texts)]
    return named([human(), *(message for pair_ in pairs for message in pair_)])


def test_everything_that_exceeds_is_pruned_up_to_the_watermark_whatever_stands_between() -> None:
    """r4 was pruned by hand; older results are pruned all the same."""
    texts = ["x" * 4000, "y" * 20_000, "z" * 4000, "[cleared by hand]", "w" * 20_000, "v" * 20_000]
    messages = rounds(*texts)
    scope = Scope(watermark=Watermark("m10", 3000, 10_000))
    assert limits(messages, scope)[2::2] == [3000, CLEAR, 3000, None, CLEAR, None]


def test_only_tool_results_are_pruned_by_the_rule() -> None:
    messages = named([human("x" * 20_000), ai("y" * 30_000, "c7"), result("c7", "z" * 20_000), ai("w" * 20_000)])
    assert limits(messages, Scope(watermark=Watermark("m3", 3000, 10_000))) == [None, None, CLEAR, None]


def test_rounds_with_one_call_id_are_told_apart() -> None:
    messages = named([message for n in range(3) for message in (ai("", "same"), result("same", f"round {n} " * 2000))])
    assert limits(messages, Scope(watermark=Watermark("m3", 3000, 10_000))) == [None, CLEAR, None, CLEAR, None, None]


@pytest.mark.parametrize("tool", ["read_file", "recall", "memory_search", "memory_get"])
@pytest.mark.parametrize("name", [True, False])
def test_excluded_tools_and_our_own_are_left_alone(tool: str, name: bool) -> None:
    call = ai("")
    call.tool_calls = [{"name": tool, "args": {}, "id": "c", "type": "tool_call"}]
    messages = named([call, result("c", "x" * 20_000, name=tool if name else None)])
    assert tool_name(messages[1], 1, pair(messages)) == tool  # type: ignore[arg-type]
    assert limits(messages, Scope(watermark=Watermark("m1", 3000, 10_000, ("read_file",)))) == [None, None]


def test_the_name_of_a_result_without_call_is_unknown() -> None:
    messages = named([result("gone", "x")])
    assert tool_name(messages[0], 0, pair(messages)) == ""  # type: ignore[arg-type]


def test_of_trim_and_rule_the_harsher_counts() -> None:
    messages = rounds("x" * 20_000, "y" * 20_000, "z" * 4000)
    scope = Scope(watermark=Watermark("m6", 3000, 10_000), trims={"m2": 8000, "m4": CLEAR, "m6": 300})
    assert limits(messages, scope)[2::2] == [CLEAR, CLEAR, 300]


def test_a_trim_reaches_behind_the_watermark_and_to_the_request() -> None:
    messages = rounds("x" * 2000, "y" * 20_000)
    scope = Scope(watermark=Watermark("m2", 3000, 10_000), trims={"m2": 1000, "m4": 300, "m0": 100})
    assert limits(messages, scope) == [100, None, 1000, None, 300]


def test_a_trim_of_an_assistant_message_is_not_followed() -> None:
    messages = rounds("x")
    assert limits(messages, Scope(trims={"m1": 10})) == [None, None, None]


def test_the_same_decision_gives_the_same_bytes_for_a_longer_history() -> None:
    messages = rounds("x" * 4000, "y" * 20_000)
    scope = Scope(watermark=Watermark("m4", 3000, 10_000))
    longer = [*messages, *rounds("z" * 20_000)[1:]]
    assert limits(longer, scope)[:5] == limits(messages, scope)
    assert limits(longer, scope)[5:] == [None, None]
