from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from langgraph_memory.context.verdict import Rejected
from langgraph_memory.longterm.replies import MOST_CHARS, parse
from tests.support.models import UNUSABLE

A, B = "Ada prefers dark mode.", "The harbour review is on 2031-04-12."
BOTH = {
    "bullets": f"- {A}\n- {B}",
    "stars": f"* {A}\n\n* {B}\n",
    "dots": f"• {A}\n• {B}",
    "numbered": f"1. {A}\n2. {B}",
    "brackets": f"1) {A}\n2) {B}",
    "Chinese numbers": f"1、{A}\n2、{B}",
    "circled": f"① {A}\n② {B}",
    "lines": f"{A}\n{B}",
    "lines with a gap": f"{A}\n\n{B}\n",
    "JSON strings": f'["{A}", "{B}"]',
    "JSON objects": f'[{{"text": "{A}", "type": "fact"}}, {{"type": "fact", "text": "{B}"}}]',
    "JSON of facts": f'[{{"type": "preference", "fact": "{A}"}}, {{"type": "event", "fact": "{B}"}}]',
    "JSON object": f'{{"entries": [{{"text": "{A}"}}, "{B}"]}}',
    "JSON lines": f'{{"text": "{A}"}}\n{{"text": "{B}"}}',
    "fenced": f"```\n- {A}\n- {B}\n```",
    "fenced JSON": f'```json\n["{A}", "{B}"]\n```',
    "JSON behind talk": f'Here are the memories:\n["{A}", "{B}"]',
    "fenced JSON behind talk": f'Sure!\n\n```json\n["{A}", "{B}"]\n```\nLet me know if you need more.',
    "talk around": f"Here are the facts I extracted:\n\n- {A}\n- {B}\n\nLet me know if I should add more!",
    "talk around lines": f"Sure, here you go:\n{A}\n{B}\nWould you like me to go on?",
    "Chinese talk": f"好的，以下是需要记住的内容：\n{A}\n{B}",
    "thinking": f"<think>The user said\n- a lot</think>\n- {A}\n- {B}",
    "thinking whose beginning is in the prompt": f"so I write two</think>- {A}\n- {B}",
    "headings": f"## Facts\n- {A}\n\n## Events\n- {B}",
    "bold headings": f"**Preferences**\n- {A}\n**Dates:**\n- {B}",
    "types": f"- [fact] {A}\n- **fact**: {B}",
    "check boxes": f"- [ ] {A}\n- [x] {B}",
    "our own lines": f'- 14:03:22+01:00 [fact] {A} <!-- lgm {{"id": "x"}} -->\n- 14:03 {B}',
    "quotes": f'- "{A}"\n- “{B}”',
    "repeated": f"- {A}\n- {B}\n- {A.upper()}",
    "wrapped": "- Ada prefers\n  dark mode.\n- The harbour review\n  is on 2031-04-12.",
    "with NO_REPLY behind": f"- {A}\n- {B}\n- NO_REPLY",
    "Windows": f"- {A}\r\n- {B}\r\n",
}
NOTHING = [
    "NO_REPLY",
    "no_reply",
    "NO_REPLY.",
    "**NO_REPLY**",
    "`NO_REPLY`",
    "...NO_REPLY...",
    "No reply",
    "NO-REPLY",
    "NOREPLY",
    "- NO_REPLY",
    "```\nNO_REPLY\n```",
    "<think>nothing lasting here</think>NO_REPLY",
    "There is nothing new here.\n\nNO_REPLY",
    "[]",
    "```json\n[]\n```",
    '{"entries": []}',
    '["NO_REPLY"]',
    "None",
    "There is nothing worth remembering in these messages.",
    "No new facts to record.",
    "无",
    "没有需要记录的内容。",
    "Нет новых фактов",
]
JUNK: dict[str, Any] = {
    "JSON that is cut off": '[{"text": "Ada prefers dark',
    "markup": "<result><entry>Ada</entry></result>",
    "HTML": "<!doctype html><html><body>502 Bad Gateway</body></html>",
    "error JSON": '{"error": {"message": "overloaded"}}',
    "error": "Error: rate limit exceeded",
    "refusing bullet": "- I'm sorry, but I can't help with that.",
    "tool result": ToolMessage("x", tool_call_id="1"),
    "marks": "---\n***",
    "too many": "\n".join(f"- fact {n}" for n in range(40)),
    "the messages again": "[1] user: I like the sea.\n[2] assistant: Me too.\n[3] user: Good.",
    "the messages again in a list": "- user: I like the sea.\n- assistant: Me too.",
}


@pytest.mark.parametrize("form", BOTH)
def test_a_list_in_any_form_is_understood(form):
    assert [text.casefold() for text in parse(BOTH[form], messages=4)] == [A.casefold(), B.casefold()]


@pytest.mark.parametrize("form", BOTH)
def test_also_as_a_message(form):
    assert len(parse(AIMessage(BOTH[form], response_metadata={"finish_reason": "stop"}), messages=4)) == 2
    blocks = [{"type": "thinking", "thinking": "- no"}, {"type": "text", "text": BOTH[form]}]
    assert len(parse(AIMessage(blocks), messages=4)) == 2


@pytest.mark.parametrize("text", NOTHING)
def test_nothing_is_no_entry_and_no_failure(text):
    assert parse(text, messages=4) == []


@pytest.mark.parametrize("name", [name for name in UNUSABLE if not callable(UNUSABLE[name])])
def test_no_unusable_reply_gives_an_entry(name):
    reply = UNUSABLE[name]
    if not isinstance(reply, BaseException):
        assert isinstance(parse(reply, messages=4), Rejected)


@pytest.mark.parametrize("name", JUNK)
def test_junk_is_rejected_with_a_reason(name):
    found = parse(JUNK[name], messages=4)
    assert isinstance(found, Rejected)
    assert found.reason


def test_the_whole_input_given_back_is_rejected():
    source = "\n".join(f"[{n}] user: berth {n} is free until {n} o'clock and costs {n} a day." for n in range(30))
    lines = "\n".join(f"- berth {n} is free until {n} o'clock and costs {n} a day." for n in range(30))
    assert isinstance(parse(lines, messages=30, source=source), Rejected)
    assert parse("- berth 3 is free until 3 o'clock and costs 3 a day.", messages=30, source=source) != []


def test_what_only_looks_like_a_line_of_the_talk_is_kept():
    source = "[1] user: I like tea very much.\n[2] assistant: Me too."
    assert isinstance(parse("- user: I like tea very much.", messages=2, source=source), Rejected)
    assert isinstance(parse("- [1] user Eve (2023-05-08 13:56): I like tea", messages=2, source=source), Rejected)
    for fact in ("User: prefers tea to coffee.", "User prefers: tea"):
        assert parse(f"- {fact}", messages=2, source=source) == [fact]


def test_a_long_entry_ends_with_a_sentence():
    text = "Ada likes the sea. " * 60
    found = parse(f"- {text}\n- {B}", messages=4)
    assert found[1] == B
    assert len(found[0]) <= MOST_CHARS
    assert found[0].endswith("sea.")


def test_an_absurdly_long_entry_is_left_out():
    assert parse(f"- {'word ' * 2000}\n- {B}", messages=4) == [B]


def test_what_a_person_cannot_or_will_not_do_is_a_fact():
    facts = ["I don't have a car.", "I can't eat nuts.", B]
    assert parse("\n".join(f"- {fact}" for fact in facts), messages=4) == facts


def test_an_introduction_in_a_list_goes_before_what_it_introduces():
    assert parse("- Diet:\n  - no nuts\n  - no fish\n- Ada sails", messages=4) == [
        "Diet: no nuts",
        "Diet: no fish",
        "Ada sails",
    ]


@pytest.mark.parametrize(
    "fact",
    [
        "用户喜欢喝绿茶。",
        "Пользователь живёт в Казани.",
        "المستخدم يعيش في القاهرة.",
        "उपयोगकर्ता शाकाहारी है।",
        "犬の名前はポチ。",
    ],
)
def test_any_language_is_kept_as_it_is(fact):
    assert parse(f"- {fact}\n", messages=1) == [fact]


def test_nothing_raises():
    for odd in (
        AIMessage([{"type": "text"}, {"x": 1}]),
        AIMessage([]),
        "\ud83d",
        "{" * 100_000,
    ):
        assert isinstance(parse(odd, messages=1), Rejected | list)


def test_numbers_with_a_point_are_no_bullets():
    assert parse("1.5 litres of water a day", messages=1) == ["1.5 litres of water a day"]
