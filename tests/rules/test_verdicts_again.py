"""What a reply quotes is not what it is, and what it is it is in any language, size and position."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_memory.context.extract import NOTE
from langgraph_memory.context.verdict import accept, tells, usable
from tests.support.data import load_recordings, needs_recordings
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


# Calls as text

LEAD = (
    "I look at the files one after the other and think about what they say of the parser. "
    "Then I decide which of them I read first, as the user asked for it, and why the others may wait. "
)
WRITTEN_CALLS = [
    '[bash(command="ls -la /srv")]',
    '[Called tool: bash({"cmd":"ls"})]',
    'Action: ```json\n[{"tool_name":"bash","parameters":{}}]\n```',
    '<|START_ACTION|>[{"tool_name":"bash","parameters":{}}]<|END_ACTION|>',
    "<start_function_call>call:bash{c:<escape>ls<escape>}<end_function_call>",
    'Sure.[TOOL_CALLS]bash{"c":"ls"}',
    'I will call the tool:\n```json\n{"name": "bash", "arguments": {"c":"ls"}}\n```',
    "Now let me read it.\n\n<read_file>\n<path>src/a.py</path>\n</read_file>",
    '[bash(command="ls -la /srv"), read(path="a")]',
    'Let me look first.\n[bash(command="ls")]',
    '我先看看。\n[bash(command="ls -la /srv")]',
    '```\n[bash(command="ls")]\n```',
    '[Called tool: bash({"cmd":"ls"})]\n[Called tool: read({"p":"a"})]',
    '[tool_call: bash {"cmd":"ls"}]',
    '[assistant]\n→ bash {"cmd": "ls"}',
    'bash(command="ls")',
    'Action:\n```json\n{"tool_name":"bash","parameters":{}}\n```',
    'Action: {"name":"bash","arguments":{}}',
    LEAD + '\n```json\n{"name": "bash", "arguments": {"c":"echo `date`"}}\n```',
    'Сначала посмотрю.\n```json\n{"name": "bash", "arguments": {}}\n```',
    '{"name":"a","arguments":{}}\n{"name":"b","arguments":{}}',
    '{"name":"a","arguments":{}}\nI will wait.',
    'I look.<|START_ACTION|>\n[\n{"tool_name":"bash","parameters":{}}]<|END_ACTION|>',
    '<|action_start|><|plugin|>{"name":"bash","parameters":{}}<|action_end|>',
    "Let me see.\n<start_function_call>call:bash{c:<escape>ls<escape>}<end_function_call>",
    '<|tool_call>call:bash{c:<|"|>ls<|"|>}<tool_call|>',
    LEAD + '[TOOL_CALLS]bash[ARGS]{"c":"ls"}',
    'Sure.[TOOL_CALLS][{"name":"bash","arguments":{}}]</s>',
    "Now.\n\n<bash>ls -la</bash>",
    (
        "<execute_command>\n<command>npm run dev now</command>\n"
        "<requires_approval>false</requires_approval>\n</execute_command>"
    ),
    "现在读。\n<read_file>\n<path>src/a.py</path>\n</read_file>",
    "I look.\n<tool_call>bash\n<arg_key>c</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>",
    "I look.\n<tool_call>bash\n<arg_key>c</arg_key>\n<arg_value>ls</arg_value>",
    "<tool_call>bash\n<arg_key>c</arg_key>\n<arg_value>ls</arg_value></tool_call>\n<tool_call>",
    (
        'I look.\n<minimax:tool_call>\n<invoke name="bash">\n<parameter name="c">ls</parameter>\n</invoke>\n'
        "</minimax:tool_call>"
    ),
    'I look.<minimax:tool_call><invoke name="bash"><parameter name="c">ls</parameter></invoke>',
    (
        "I look. <|tool_calls_section_begin|><|tool_call_begin|>"
        'functions.bash:0<|tool_call_argument_begin|>{"c":"ls"}<|tool_call_end|>'
        "<|tool_calls_section_end|>"
    ),
    (
        'I look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>bash\n```json\n{"c":"ls"}\n'
        "```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    ),
    '<TOOLCALL>[{"name":"bash","arguments":{}}]</TOOLCALL>',
    'Ok.<TOOLCALL>[{"name":"bash","arguments":{}}]</TOOLCALL>',
    '>>>bash\n{"c":"ls"}',
    'Let me see.\n```tool_code\nprint(dock("B"))\n```',
    'Ok.<function=bash>{"c":"ls"}</function>',
    "<seed:tool_call><function=bash><parameter=c>ls</parameter></function></seed:tool_call>",
]
REFUSED = [
    "My guidelines don't allow me to summarize this.",
    "That's not something I can help with.",
    "It's against my policy to process this content.",
    "Content blocked by safety filter.",
    "你好，这个问题我暂时无法回答，让我们换个话题再聊聊吧。",
    "その内容については、お答えすることができません。",
    "Bu konuda yardımcı olamam.",
    "ბოდიში, ვერ დაგეხმარებით.",
    "Кешіріңіз, мен көмектесе алмаймын.",
    "No task was specified — the conversation is empty.",
    "Sure! I'd be happy to help. What would you like me to summarize?",
    "No response requested.",
    "Claude AI usage limit reached|1764583200",
    "Hello! My safety guidelines don't allow me to summarize this.",
    "Our policies prohibit this.",
    "This isn't something I can do.",
    "This is not a request I can fulfil.",
    "Summarizing this would go against my guidelines.",
    "Response blocked by content filter",
    "The prompt was flagged by the moderation system.",
    "这个问题我无法回答。",
    "抱歉，让我们换个话题。",
    "我暂时无法总结。",
    "ご質問の件については、お答えできません。",
    "ბოდიში.",
    "Уучлаарай, би чадахгүй.",
    "Ներողություն, չեմ կարող։",
    "ይቅርታ",
    "ຂໍອະໄພ",
    "សូមអភ័យទោស",
    "တောင်းပန်ပါတယ်",
    "සමාවන්න",
    "üzr istəyirəm",
    "Më vjen keq, nuk mundem.",
    "The conversation is empty.",
    "No question was given.",
    "How can I help you today?",
    "Okay, I'm ready to help! Please share the conversation.",
    "What would you like me to do?",
    "No reply needed.",
    "5-hour limit reached ∙ resets 3pm",
    "Usage limit reached.",
    "You've hit your limit · resets 5pm",
]
LOOPS = [
    "the " * 100,
    "the " * 300,
    "I will now read the file again. " * 60,
    "我们继续我们的工作。" * 60,
    "لا أعرف " * 200,
    "Berth 9 was booked by the user in May. " + "and the " * 900,
    HEADINGS.format("Load the boat.") + "\n- load the boat" * 300,
]
QUOTED = [
    'The agent called `[bash(command="ls")]` and it failed.',
    'The agent called [bash(command="ls")] and it failed.',
    (
        '## SUMMARY\nThe parser reads calls.\n```json\n{"name": "bash", "arguments": {"c":"ls"}}\n```\n'
        "## NEXT STEPS\nWrite tests."
    ),
    'The parser reads calls such as\n```json\n{"name": "bash", "arguments": {"c":"ls"}}\n```\nand the tests are red.',
    'The config is:\n```json\n{"port": 8080, "tls": true}\n```',
    "The user was told: I can't help with that. Then berth 9 was booked.",
    "The build passed; usage limit reached at noon; work went on at one.",
    "Usage limit reached at noon, so the agent waited.",
    "Usage limit reached. Berth 9 was booked by hand.",
    "这个问题无法复现，已关闭。",
    "用户说“这个问题我无法回答”，后来查到了答案。",
    "The message queue is empty; the worker was stopped.",
    "Strip <tool_call> and [TOOL_CALLS] marks (see <tool_call> in the parser).",
    '## SUMMARY\nStrip marks\n- <tool_call>{}</tool_call> and [TOOL_CALLS]bash{"c":1}',
    "- [done](a.md)\n- [x] see f(x)",
    "Jammer installed at pier 7.",
    "Sure, the pier was chosen: B.",
    "The tool `read` was called:\n<read_file>a.py</read_file>\nIt failed.",
    "Okay: the user wants pier B.",
    "Result:\n<note>The berth is booked until the end of May</note>",
    "How the boat was loaded: by crane.",
    "What the user would like: pier B.",
]
REGULAR = [
    f"| pier | berth |\n|{'-' * 900}|\n| B | 9 |",
    f"| pier |{' ' * 900}|\n| B |{' ' * 900}|",
    "\n".join(f"| src/pier_{n}.py | {n * 7} | done |" for n in range(400)),
    "\n".join(f"- /srv/app/src/module/file_{n:03}.py" for n in range(400)),
    '{"berths": [' + ", ".join(f'{{"pier": "B", "berth": {n}}}' for n in range(400)) + "]}",
]


@pytest.mark.parametrize("text", WRITTEN_CALLS)
def test_a_call_in_the_syntax_of_any_model_is_none_whatever_leads_to_it(text):
    assert not accepted(text)


@pytest.mark.parametrize("text", REFUSED)
def test_a_refusal_a_question_or_a_notice_of_a_limit_is_none(text):
    assert not accepted(text)


@pytest.mark.parametrize("text", LOOPS, ids=lambda text: text[:20])
def test_a_reply_that_repeats_itself_without_end_is_none(text):
    assert not accepted(text)
    assert not usable(text)


@pytest.mark.parametrize("text", QUOTED)
def test_what_is_quoted_or_told_in_passing_is_used(text):
    assert accepted(text)


@pytest.mark.parametrize("text", REGULAR, ids=lambda text: text[:20])
def test_tables_and_lists_of_one_form_are_no_loop(text):
    assert accepted(text)


def test_one_entry_that_loops_does_not_take_the_others_of_a_list_with_it():
    assert tells("- " + "word " * 2000 + "\n- Berth 9 is booked.")
    assert not tells("I'm sorry, I can't.")


@needs_recordings
def test_recorded_summaries_of_agents_are_used():
    recorded = [one["summary"] for record in load_recordings("pi_sessions") for one in record["reference_compactions"]]
    assert recorded and all(map(accepted, recorded))


UNITS = ["[a(", "→ a {", "<tool_call>{", '{"a":1}\n', "{} ", ": [[", "<a>\n", "<x|", "</a>", ">>>a\n", "ab", "\n-"]


@pytest.mark.parametrize("unit", UNITS)
def test_calls_and_loops_are_looked_for_in_a_time_that_grows_with_the_length(unit):
    """Quadratic work would take minutes here."""
    assert accept(f"word {unit * 100_000}", replaces=10**9, room=10**9, count=len) is not None
