"""What a model answers that was asked for memories: no list is lost, and saying that there is nothing is no memory."""

import json

import pytest

from langgraph_memory.context.verdict import Rejected
from langgraph_memory.longterm.replies import parse

SOURCE = "[1] user: I live in Rome and drink green tea.\n[2] assistant: Noted."
ROME, TEA, MIA = "The user lives in Rome.", "The user drinks green tea.", "Mia starts school in May."


@pytest.mark.parametrize(
    "value",
    [
        {"facts": [ROME], "preferences": [TEA], "events": [MIA]},
        {"facts": [ROME, TEA, MIA], "preferences": []},
        {"facts": [], "preferences": [ROME, TEA, MIA]},
        {"facts": [{"text": ROME}], "likes": [{"memory": TEA}, MIA], "events": None},
        {"about the user": [ROME, TEA], "dates": [{"event": "school", "text": MIA}]},
        {"summary": "The user talked.", "facts": [ROME, TEA], "events": [MIA]},
        [{"facts": [ROME]}, {"facts": [TEA, MIA]}],
    ],
)
@pytest.mark.parametrize("form", ["{}", "```json\n{}\n```", "Here are the facts:\n{}", "Sure: {} Let me know."])
def test_every_list_of_a_json_reply_counts(value: object, form: str) -> None:
    assert parse(form.format(json.dumps(value)), messages=2, source=SOURCE) == [ROME, TEA, MIA]


@pytest.mark.parametrize(
    "value",
    [{"facts": [], "preferences": [], "kg": []}, {"facts": [], "events": None}, {"memory": {"facts": []}}, [{}], {}],
)
def test_empty_lists_only_are_nothing(value: object) -> None:
    assert parse(json.dumps(value), messages=2, source=SOURCE) == []


def test_json_between_talk_on_one_line_is_taken() -> None:
    said = json.dumps({"facts": [ROME]})
    for text in (f"Here are the facts: {said} Let me know if you need more.", f"{said} Let me know!"):
        assert parse(text, messages=2, source=SOURCE) == [ROME]


def test_what_an_entry_says_of_itself_is_no_entry() -> None:
    one = {"text": ROME, "tags": ["city"], "entities": ["Rome"]}
    for value in (one, [one], {"facts": [one]}):
        assert parse(json.dumps(value), messages=2, source=SOURCE) == [ROME]


def test_brackets_in_a_sentence_are_no_list() -> None:
    fact = 'The user calls ["a"] a list of green tea.'
    assert parse(fact, messages=2, source=SOURCE) == [fact]


@pytest.mark.parametrize(
    "value", [{"error": {"message": "overloaded"}}, {"detail": [{"loc": ["body"], "msg": "field"}]}, {"x": [{"y": []}]}]
)
def test_other_json_is_refused(value: object) -> None:
    found = parse(json.dumps(value), messages=2, source=SOURCE)
    assert isinstance(found, Rejected) or value == {"x": [{"y": []}]}


@pytest.mark.parametrize(
    "text",
    [
        "NO_REPLY - nothing of note here.",
        "NO_REPLY. The user only greeted.",
        "NO_REPLY (small talk)",
        "NO_REPLY\n\nThe user lives in Rome, which is known.",
        "**NO_REPLY**: known already",
        "Answer: NO_REPLY",
        "The user only greeted, so NO_REPLY.",
        "- NO_REPLY (small talk)",
        "no_reply, as this is small talk",
        "NO REPLY: small talk",
    ],
)
def test_the_token_with_a_reason_is_nothing(text: str) -> None:
    assert parse(text, messages=2, source=SOURCE) == []


@pytest.mark.parametrize(
    "text",
    [
        "- No reply from the bank yet.",
        "No reply from the bank in Rome yet.",
        "- Mail comes from noreply@bank.example.",
        "- The user's bot says NO_REPLY",
    ],
)
def test_a_fact_about_replies_is_kept(text: str) -> None:
    assert parse(text, messages=2, source=SOURCE) == [text.removeprefix("- ")]


def test_the_token_behind_a_list_takes_nothing_away() -> None:
    assert parse(f"- {ROME}\n- {TEA}\n\nNO_REPLY for the rest", messages=2, source=SOURCE) == [ROME, TEA]


@pytest.mark.parametrize(
    "text",
    [
        "Nothing new.",
        "Keine neuen Fakten.",
        "Aucune nouvelle information.",
        "没有新的信息。",
        "特に記憶すべき内容はありません。",
        "기억할 만한 내용이 없습니다.",
        "لا توجد معلومات جديدة.",
        "Ingen nye opplysninger.",
    ],
)
def test_a_short_sentence_about_nothing_in_the_messages_is_nothing(text: str) -> None:
    source = SOURCE if any("a" <= char <= "z" for char in text) else "[1] user: 我最近住在罗马，喜欢喝绿茶。"
    assert parse(text, messages=2, source=source) == []


@pytest.mark.parametrize(("text", "source"), [("Likes green tea.", "我喜欢喝绿茶。"), ("喜欢喝绿茶。", SOURCE)])
def test_a_single_line_in_another_script_than_the_messages_is_a_memory(text: str, source: str) -> None:
    assert parse(text, messages=2, source=source) == [text]


@pytest.mark.parametrize("text", ["I'm sorry, but I can't help with that.", "抱歉，我无法协助处理这个请求。"])
def test_a_short_refusal_is_asked_again(text: str) -> None:
    assert isinstance(parse(text, messages=2, source=SOURCE), Rejected)


@pytest.mark.parametrize("text", [ROME, "Lives in Rome", "Green tea", "用户住在罗马。"])
def test_a_single_line_about_the_messages_is_a_memory(text: str) -> None:
    assert parse(text, messages=2, source=f"{SOURCE}\n[3] user: 我住在罗马。") == [text]
    assert parse(f"- {text}", messages=2, source="[1] user: x") == [text]
