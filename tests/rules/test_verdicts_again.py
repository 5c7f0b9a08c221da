"""What a reply quotes is not what it is, and what it is it is in any language, size and position."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_memory.context.extract import NOTE
from langgraph_memory.context.verdict import accept, usable
from tests.support.graphs import Bare, chat, text_of
from tests.support.models import Scripted

SETTINGS = {"context_window": 8000}
HEADINGS = "## SESSION INTENT\n{}\n## SUMMARY\nThe parser was written; tests are missing.\n## NEXT STEPS\nWrite tests."


def accepted(text: str) -> bool:
    return isinstance(accept(text, replaces=100_000, room=20_000, count=len), str)


# Quoted formats

ACT = "Thought: why\nAction: search\nAction Input: tide\nObservation: x"
REQUESTS = {
    "react": f"Write a parser for our agent logs. Keep pier 7 out of it. The format is:\n{ACT}",
    "react in Chinese": f"请为日志写一个解析器，不要动 pier 7。格式如下：\n{ACT}",
    "react twice": f"{ACT}\n{ACT}\nThat is what the logs look like. Keep pier 7 out of it.",
    "react at once": f"{ACT}\nKeep pier 7 out of it.",
    "tags": "Keep pier 7 out of it. They look like <tool_call>{}</tool_call>",
    "tags at once": "<｜tool▁calls▁begin｜> is where the parser stops. Keep pier 7 out of it.",
    "page": "<!doctype html><p>fix this page. Keep pier 7 out of it.",
    "function": 'functions.search({"q": 1}) fails, find out why. Keep pier 7 out of it.',
}


def history(request: str, answer: str = "Done: parser.py written.") -> list:
    return [HumanMessage(request, id="r"), AIMessage(answer, id="ra"), *chat(20, chars=1500)]


@pytest.mark.parametrize("side", [None, Scripted(replies=RuntimeError("429"))], ids=["no model", "failing"])
@pytest.mark.parametrize("name", REQUESTS)
def test_an_extract_is_kept_whatever_it_quotes_also_by_the_next_decision(name, side):
    bare = Bare(SETTINGS, side=side)
    view = bare.sync(history(REQUESTS[name]))
    assert bare.named("compacted")[-1].reason == "extract"
    assert "pier 7" in text_of(view[:1])
    view = bare.sync([*history(REQUESTS[name]), *chat(20, chars=1500, start=50)])
    assert NOTE in text_of(view[:1])
    assert "pier 7" in text_of(view[:1])


@pytest.mark.parametrize("name", ["react", "react in Chinese", "react twice", "react at once", "tags"])
def test_a_summary_with_headings_may_quote_a_call(name):
    summary = HEADINGS.format(REQUESTS[name])
    bare = Bare(SETTINGS, side=Scripted(replies=summary))
    view = bare.sync(history(REQUESTS[name]))
    assert bare.named("compacted")[-1].reason == "summariser"
    assert "pier 7" in text_of(view[:1])


@pytest.mark.parametrize(
    "text",
    [
        HEADINGS.format("Write a parser.") + f"\nThe lines are:\n{ACT}",
        f"The user wants a parser of lines such as\n{ACT}\n\nIt was written; tests are missing.",
    ],
)
def test_a_quoted_call_may_stand_anywhere_in_what_is_plainly_a_summary(text):
    assert accepted(text)


@pytest.mark.parametrize(
    "text",
    [
        'Action: dock\nAction Input: {"pier": "B"}',
        ACT,
        f"\n\n{ACT}\n\nFinal Answer: pier B\n\nThat is all.",
        'Thought: I look first.\n\nThen I see.\nAction: dock\nAction Input: {\n  "pier": "B"\n}',
        "I have to see the dock first.\n\naction: dock\naction input: B\n",
        "我先看看码头。\nAction: dock\nAction Input: B",
        "Long thoughts about the harbour. " * 60 + "\nAction: dock\nAction Input: B",
    ],
)
def test_a_reply_that_is_such_a_call_is_none(text):
    assert not usable(text)


# What is no summary

PAD = (
    "\n\nThe request asks me to write in the place of messages that are not mine, and I would rather answer them. " * 2
)
MARK = "｜DSML｜"
NONE = {
    **{
        f"{lead} <{mark}{kind}>": f'{lead}\n<{mark}{kind}>\n<{mark}invoke name="read">\n</{mark}{kind}>'
        for mark in (MARK, "｜｜DSML｜｜", "‖DSML‖", "|DSML|")
        for kind in ("tool_calls", "function_calls")
        for lead in ("", "Let me look at the file first.\n")
    },
    "tags left open": f'<{MARK}tool_calls>\n<{MARK}invoke name="read">',
    "a call in JSON": '{"tool": "read_file", "input": {"path": "a.py"}}',
    "calls in JSON": '[{"tool": "read_file", "input": {"path": "a.py"}}]',
    "too long": "Prompt is too long",
    "too long, with figures": "prompt is too long: 208310 tokens > 200000 maximum",
    "too low": "Credit balance is too low",
    "too large": "The input context is too large.",
    "interrupted": "[Request interrupted by user]",
    "template": "## SESSION INTENT\n[what the user wants]\n## SUMMARY\n- [summary]\n## NEXT STEPS\n[next steps].",
    "template in Chinese": "## 意图\n【用户想要什么】\n## 概要\n[对话的总结]",
    "template in braces": "## SESSION INTENT\n{{intent}}\n## SUMMARY\n{summary}",
    **{
        f"refusal in {language}, {times} times": opening + PAD * times
        for times in (3, 5, 10)
        for language, opening in {
            "English": "I can't produce this summary as requested. Two parts of it conflict.",
            "English too": "Sorry, I'm not able to write that summary.",
            "German": "Leider kann ich diese Zusammenfassung nicht schreiben.",
            "Chinese": "很遗憾，我无法提供总结。",
        }.items()
    },
}


@pytest.mark.parametrize("name", NONE)
def test_what_is_no_summary_is_turned_away(name):
    assert not accepted(NONE[name])


@pytest.mark.parametrize(
    "text",
    [
        "## SESSION INTENT\nI can't log in, please fix it." + PAD * 6 + "\n## SUMMARY\n- the password was reset",
        "The prompt of the user was too long for the model; it was split.",
        "## SUMMARY\n[the log](a.log) was read\n## NEXT STEPS\n[none]",
        "- [x] pier B chosen\n- [ ] berth 9",
        "\n".join(f"- src/harbour/piers/pier_{n}.py was read and changed in line {n * n}" for n in range(60)),
        "The template ends with </｜DSML｜tool_calls> in each of its lines; strip it.",
    ],
)
def test_what_only_resembles_it_is_used(text):
    assert accepted(text)


# Documents

SNAPSHOT = """\
<state_snapshot>
  <overall_goal>Refactor the login of the harbour office</overall_goal>
  <key_knowledge>- build with make all; pier 7 is closed</key_knowledge>
  <current_plan>none</current_plan>
</state_snapshot>"""
DOCUMENTS = [
    SNAPSHOT,
    f"Here is the snapshot:\n{SNAPSHOT}",
    f"<?xml version='1.0'?>\n{SNAPSHOT}",
    f"```xml\n{SNAPSHOT}\n```",
    "<state><goal>重构港口的登录模块</goal></state>",
    "<goal>Load the boat at pier 7</goal>\n<plan><step>Ask for a berth</step><step>Call the office</step></plan>",
    "<snapshot><goal>Загрузить судно у причала</goal></snapshot>",
    "<snapshot>" + "".join(f"<fact>The berth {n} is booked for {n * n}</fact>" for n in range(200)) + "</snapshot>",
]
NO_DOCUMENTS = [
    "<read_file>\n<path>a.py</path>\n</read_file>",
    "<write_to_file><path>a.py</path><content>print the table of tides</content></write_to_file>",
    "<use_tool><name>read</name><why>I want to read the file</why></use_tool>",
    "<?xml version='1.0'?><Error><Status>AccessDenied</Status><Message>You may not read this</Message></Error>",
    "<soap:Fault><faultstring>The server could not answer</faultstring></soap:Fault>",
    "<html><body><p>We will be back very soon.</p></body></html>",
    "<state_snapshot><goal></goal><plan>none</plan></state_snapshot>",
    "<state_snapshot><goal>[what the user wants]</goal></state_snapshot>",
    "<state_snapshot><goal>I'm sorry, but I can't help with that.</goal></state_snapshot>",
]


@pytest.mark.parametrize("text", DOCUMENTS)
def test_a_document_whose_elements_say_something_is_a_summary(text):
    assert accepted(text)


@pytest.mark.parametrize("text", NO_DOCUMENTS)
def test_a_call_an_error_a_page_or_an_empty_document_is_none(text):

    assert not accepted(text)


def test_a_prompt_of_one_s_own_may_ask_for_a_document():
    prompt = "Write a <state_snapshot> with <overall_goal>, <key_knowledge>, <current_plan>.\n{messages}"
    bare = Bare({**SETTINGS, "compaction.prompt": prompt}, side=Scripted(replies=SNAPSHOT))
    view = bare.sync(chat(20, chars=2000))
    assert bare.named("compacted")[-1].reason == "summariser"
    assert "pier 7 is closed" in text_of(view[:1])
