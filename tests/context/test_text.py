"""Texts are shortened without damage: whole characters, right counts, never longer and never blank."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_memory.context.text import (
    TAGS,
    clean_text,
    cleared_marker,
    escape_tags,
    hard_clear,
    message_text,
    one_line,
    preview,
    soft_trim,
    trimmed_marker,
)

JOINED = ["🛳️", "🇳🇴", "👩‍👩‍👧‍👦", "e\u0301", "👍🏽", "한", "\r\n", "🏴\U000e0067\U000e0062\U000e007f", "क्षि", "ก็"]
TEXTS = st.lists(st.one_of(st.text(), st.sampled_from([*JOINED, "\n", "line\n" * 5, "仓" * 30]))).map("".join)
LONG_TEXTS = st.tuples(TEXTS, st.integers(1, 40)).map(lambda pair: pair[0] * pair[1])
REFS = st.one_of(st.none(), st.text(max_size=20), st.just("run--1f0a"))
SHIP = "仓" * 9999 + "🛳️🇳🇴" + "港" * 9999


def ends(shortened: str, marker: str) -> tuple[str, str]:
    head, found, tail = f"\n{shortened}\n".partition(f"\n{marker}\n")
    assert found
    return head.removeprefix("\n"), tail.removesuffix("\n")


def encodes(text: str) -> bool:
    return text == text.encode().decode()


# message_text


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        ([], ""),
        (["one", {"type": "text", "text": "two"}], "one\ntwo"),
        ([{"type": "tool_result", "content": [{"type": "text", "text": "in"}, {"type": "image"}]}], "in\n[image]"),
        ([{"type": "tool_result", "content": "plain"}], "plain"),
        (
            [{"type": "thinking", "thinking": "hm", "signature": "Q" * 99}, {"type": "text", "text": "Pier B."}],
            "Pier B.",
        ),
        ([{"type": "reasoning", "reasoning": "hm"}, {"type": "redacted_thinking", "data": "x"}], ""),
        ([{"type": "tool_use", "id": "1", "name": "dock", "input": {"text": "7"}}], ""),
        ([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}], "[image]"),
        (
            [{"type": "audio", "base64": "AAAA"}, {"type": "file", "file_id": "f"}, {"type": "video"}],
            "[audio]\n[file]\n[video]",
        ),
        ([{"type": "text", "text": None}, {"type": 7}, {}, {"type": "text"}], ""),
        ([{"type": "refusal", "refusal": "I cannot."}], "I cannot."),
    ],
)
def test_the_text_of_a_message_is_what_a_reader_sees(content: str | list[str | dict[str, object]], text: str) -> None:
    assert message_text(HumanMessage(content=content)) == text  # type: ignore[arg-type]


@pytest.mark.parametrize("content", [None, 7, b"bytes", {"type": "text", "text": "a"}, [None, 3, [["deep"]]], object()])
def test_content_that_no_provider_sends_gives_a_text_and_no_error(content: object) -> None:
    assert isinstance(message_text(AIMessage.model_construct(content=content)), str)


def test_content_that_contains_itself_ends() -> None:
    block: dict[str, object] = {"type": "tool_result"}
    block["content"] = [block, {"type": "text", "text": "a"}]
    assert "a" in message_text(ToolMessage.model_construct(content=[block]))


@given(
    st.recursive(
        st.one_of(st.none(), st.integers(), st.text()),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(st.sampled_from(["type", "text", "content", "refusal", "image"]), inner, max_size=3),
        ),
    )
)
def test_the_text_of_any_content_never_raises(content: object) -> None:
    for kind in (HumanMessage, AIMessage, SystemMessage, ToolMessage):
        message: BaseMessage = kind.model_construct(content=content)
        assert isinstance(message_text(message), str)


# preview


@given(LONG_TEXTS, st.integers(0, 400))
def test_a_preview_is_head_marker_and_tail_of_the_text_within_the_limit(text: str, limit: int) -> None:
    result = preview(text, limit, "[cut]")
    assert len(result) <= max(limit, min(len("[cut]"), len(text)))
    assert len(result) <= len(text)
    if len(text) <= limit:
        assert result == text


@given(st.text(alphabet="ab仓\u0301\u200d\ufe0f🇳🇴👍🏽\n\r", max_size=300), st.integers(0, 300))
def test_a_preview_keeps_both_ends_of_the_text(text: str, limit: int) -> None:
    result = preview(text, limit, "[cut]")
    if result in (text, "[cut]"):
        return
    head, tail = ends(result, "[cut]")
    assert text.startswith(head) and text.endswith(tail)
    assert len(head) + len(tail) < len(text)


def test_a_preview_cuts_at_line_ends_where_one_is_near() -> None:
    text = "".join(f"line {number}\n" for number in range(1000))
    head, tail = ends(preview(text, 500, "[cut]"), "[cut]")
    assert head.splitlines() == text.splitlines()[: len(head.splitlines())]
    assert tail.splitlines() == text.splitlines()[-len(tail.splitlines()) :]
    assert len(head) + len(tail) > 450


def test_a_line_end_far_from_the_cut_is_not_used() -> None:
    text = "short\n" + "x" * 5000 + "\nshort"
    assert len(preview(text, 1000, "[cut]")) == 1000


def test_half_of_a_preview_is_head_and_half_is_tail() -> None:
    head, tail = ends(preview("a" * 500 + "b" * 500, 207, "[cut]"), "[cut]")
    assert (head, tail) == ("a" * 100, "b" * 100)


@pytest.mark.parametrize("limit", [-5, 0, 1, 5, 8])
def test_where_no_head_and_tail_fit_the_marker_stands_alone(limit: int) -> None:
    assert preview("x" * 100, limit, "[cut]") == "[cut]"


def test_a_marker_longer_than_the_text_leaves_the_text() -> None:
    assert preview("x" * 10, 5, "[a long marker]") == "x" * 10


@pytest.mark.parametrize("joined", [joined for joined in JOINED if joined != "\r\n"])
@pytest.mark.parametrize("before", range(20, 60))
def test_no_cut_falls_inside_what_a_reader_sees_as_one_character(joined: str, before: int) -> None:
    text = "a" * before + joined * 3 + "b" * (80 - before)
    whole = {before + count * len(joined) for count in range(4)}
    inside = set(range(before, before + 3 * len(joined))) - whole
    for limit in range(20, len(text)):
        head, tail = ends(preview(text, limit, "[]"), "[]")
        assert len(head) not in inside
        assert len(text) - len(tail) not in inside


def test_a_cut_beside_an_emoji_leaves_whole_emoji_and_valid_text_at_every_limit() -> None:
    for shift in range(0, 40, 3):
        text = SHIP[shift:]
        for limit in range(len(text) - 24, len(text)):
            result = preview(text, limit, "[cut]")
            head, tail = ends(result, "[cut]")
            assert encodes(result)
            assert text.startswith(head) and text.endswith(tail)
            assert head.strip("仓港") in ("", "🛳️", "🛳️🇳🇴")
            assert tail.strip("仓港") in ("", "🇳🇴", "🛳️🇳🇴")


def test_surrogate_pairs_of_broken_decoders_are_not_parted() -> None:
    pair = "\ud83d\ude00"
    for padding in range(4):
        head, tail = ends(preview("a" * padding + pair * 200, 101, "[cut]"), "[cut]")
        assert len(head.replace("a", "")) % 2 == 0
        assert len(tail) % 2 == 0


def test_a_letter_with_thousands_of_accents_gives_the_marker() -> None:
    assert preview("a" + "\u0301" * 5000, 1000, "[cut]") == "[cut]"


# markers


def test_markers_say_what_is_left_and_how_to_get_the_rest() -> None:
    assert trimmed_marker(20, 3001, "m1") == '[trimmed: 20 of 3001 characters · recall("msg:m1")]'
    assert cleared_marker(12000, "m1") == '[cleared: 12000 characters · recall("msg:m1")]'


@pytest.mark.parametrize("ref", [None, ""])
def test_a_message_without_an_id_has_no_recall_hint(ref: str | None) -> None:
    assert trimmed_marker(20, 3001, ref) == "[trimmed: 20 of 3001 characters]"
    assert cleared_marker(12000, ref) == "[cleared: 12000 characters]"


@given(st.text(st.characters(), min_size=1))
def test_any_id_makes_a_marker_of_one_line_that_gives_the_id_back(ref: str) -> None:
    marker = cleared_marker(9, ref)
    assert len(marker.splitlines()) == 1
    assert encodes(marker)
    assert json.loads(marker[marker.index('"') : -2]) == f"msg:{ref}"


# soft_trim and hard_clear


@given(LONG_TEXTS, st.integers(60, 400), REFS)
def test_a_trimmed_text_fits_and_counts_what_it_kept(text: str, limit: int, ref: str | None) -> None:
    result = soft_trim(text, limit, ref)
    if len(text) <= limit:
        assert result == text
        return
    assert len(result) <= limit or result in (text, trimmed_marker(0, len(text), ref))
    if result == text:
        return
    kept = re.search(r"\[trimmed: (\d+) of", result)
    assert kept
    marker = trimmed_marker(int(kept[1]), len(text), ref)
    head, tail = ends(result, marker) if result != marker else ("", "")
    assert len(head) + len(tail) == int(kept[1])


@given(LONG_TEXTS, st.integers(-1, 400), REFS)
def test_shortening_never_grows_nor_blanks_a_text_and_is_the_same_every_time(
    text: str, limit: int, ref: str | None
) -> None:
    for result, again in [
        (soft_trim(text, limit, ref), soft_trim(text, limit, ref)),
        (hard_clear(text, ref), hard_clear(text, ref)),
    ]:
        assert result == again
        assert len(result) <= len(text)
        assert result.strip() or not text.strip()


def test_a_result_one_character_above_the_limit_ends_within_it() -> None:
    result = soft_trim("x" * 3001, 3000, "run--0f3c2a54-8a3e-4d7b")
    assert 2900 < len(result) <= 3000


@pytest.mark.parametrize("limit", range(50, 130))
def test_the_number_kept_is_right_where_its_digits_change(limit: int) -> None:
    result = soft_trim("y" * 1000, limit, None)
    assert len(result) <= limit
    assert f"[trimmed: {result.count('y')} of 1000 characters]" in result


@pytest.mark.parametrize("blank", ["", " ", "\n\t"])
def test_a_blank_result_stays_as_it_is(blank: str) -> None:
    assert hard_clear(blank, "m1") == blank
    assert soft_trim(blank, 0, "m1") == blank


def test_a_long_run_of_blanks_becomes_a_marker() -> None:
    assert hard_clear(" " * 20000, "m1") == cleared_marker(20000, "m1")
    assert "[trimmed:" in soft_trim(" " * 20000, 3000, "m1")


def test_a_text_shorter_than_its_marker_is_not_cleared() -> None:
    assert hard_clear("short", "m1") == "short"


# escape_tags and clean_text


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("form", ["<{}>", "</{}>", "< {} >", "< / {}>", "<{} id='1'>", "<\n/\t{}>", "</{}"])
@pytest.mark.parametrize("case", [str.lower, str.upper, str.title])
def test_our_tags_cannot_be_opened_or_closed_from_inside(tag: str, form: str, case: type[str]) -> None:
    written = form.format(case(tag))
    assert escape_tags(f"a {written} b") == f"a &lt;{written[1:]} b"


@pytest.mark.parametrize(
    "text", ["<b>messages</b>", "a < b", "<messagesList>", "&lt;messages>", "messages>", "<<", "<div>"]
)
def test_everything_else_is_left_untouched(text: str) -> None:
    assert escape_tags(text) == text


@given(st.lists(st.sampled_from(["<", "/", " ", "messages", "Curated_Memory", ">", "&lt;", "x"])).map("".join))
def test_escaping_twice_is_escaping_once(text: str) -> None:
    once = escape_tags(text)
    assert escape_tags(once) == once
    assert once.replace("&lt;", "<") == text.replace("&lt;", "<")
    assert not re.search(r"<\s*/?\s*(messages|curated_memory)\b", once, re.IGNORECASE)


def test_clean_text_replaces_lone_surrogates_and_joins_pairs() -> None:
    assert clean_text("a\ud83d b\udc00\ud83d\ude00\ud800") == "a\ufffd b\ufffd😀\ufffd"


@given(st.text(st.characters()))
def test_cleaned_text_encodes_and_clean_text_is_unchanged(text: str) -> None:
    cleaned = clean_text(text)
    assert encodes(cleaned)
    assert clean_text(cleaned) == cleaned
    if not re.search("[\ud800-\udfff]", text):
        assert cleaned == text


# one_line


@given(LONG_TEXTS, st.integers(-1, 100))
def test_one_line_is_one_line_within_the_limit(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= max(limit, 0)
    assert len(line.splitlines()) <= 1
    assert line or limit < 1 or not re.sub(r"[\s\x00-\x1f\x7f-\x9f]", "", text)


def test_one_line_says_that_it_was_cut() -> None:
    assert one_line("one\n two\tthree", 100) == "one two three"
    assert one_line("one two three", 8) == "one two…"
    assert one_line("🇳🇴🇳🇴", 4) == "🇳🇴🇳🇴"
    assert one_line("🇳🇴🇳🇴x", 4) == "🇳🇴…"
    assert one_line("a" + " " * 5000 + "b", 10) == "a…"
