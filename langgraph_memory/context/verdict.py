"""The verdict on a summary: history is replaced only by a text that has been proved usable.

A reply is one if it ended normally, calls no tool and refuses nothing, says something once thinking and markup are
taken off, does not go round in a loop, and is smaller than what it replaces. What stood in a record or a cache is
judged by the same rule, so a bad text that got there otherwise is not built upon. When in doubt a reply is turned away:
the next rung is an extract, and the history stays.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from .extract import NOTE
from .groups import calls_of
from .refusals import LONG_CHARS, declines
from .text import clean_text, escape_tags, message_text
from .written_calls import HEADING, is_call, is_written_call, json_of

Count = Callable[[str], int]

_ENDINGS = ("finish_reason", "finishReason", "stop_reason", "stopReason", "done_reason", "status")
_ENDED_BADLY = re.compile(
    r"length|max|limit|truncat|incomplete|not_?finished|progress|filter|safety|block|refus|error|fail|abort|cancel"
    r"|recitation|sensitive|prohibit|guardrail|exceed|malformed|spii|insufficient|interrupt|time_?out|toxic|repeti"
    r"|pause|tool|function|\b(?:other|language)\b",
    re.IGNORECASE,
)
"""In any of the words that providers have for an answer that is not whole."""

_THINKING = (
    re.compile(r"<((?:\w+:)?(?:think|thinking|reasoning))\b[^<>]*>.*?(?:</\1\s*>|\Z)", re.IGNORECASE | re.DOTALL),
    re.compile(r"◁think▷.*?(?:◁/think▷|\Z)|\[THINK\].*?(?:\[/THINK\]|\Z)", re.DOTALL),
    re.compile(r"<\|(?:START_THINKING|begin_of_thought)\|>.*?(?:<\|(?:END_THINKING|end_of_thought)\|>|\Z)", re.DOTALL),
)
_THOUGHTS_FIRST = re.compile(
    r"\s*<(antthinking|thought|analysis|reflection|scratchpad)\b[^<>]*>.*?</\1\s*>", re.IGNORECASE | re.DOTALL
)
_THINKING_END = re.compile(
    r"(?<![`'\"])(?:</(?:\w+:)?(?:think|thinking|reasoning)\s*>|◁/think▷|\[/THINK\])(?![`'\"])", re.IGNORECASE
)
_CHANNEL, _FINAL = "<|channel|>", "<|channel|>final<|message|>"
_SPECIAL_END = re.compile(r"(?:<[|｜][\w▁]{1,40}[|｜]>|</s>)\Z")
_SPECIAL_CHARS = 50
_WRAPPER = re.compile(
    r"\A(?:[^\n<]{0,120}[:：]\s*)?<(summary|conversation_summary)\b[^<>]*>(.*)</\1\s*>\Z", re.IGNORECASE | re.DOTALL
)
_FENCE = re.compile(r"\A```(?!tool_)[^\n`]*\n(.*?)\n?```\Z", re.DOTALL)

_PAGE = re.compile(r"\s*(?:<\?xml[^<>]*>\s*)?(?:<!doctype|<html\b|<head\b|<body\b)", re.IGNORECASE)
_FORMATS = (
    r"p|br|hr|b|i|u|s|em|strong|code|pre|div|span|ul|ol|li|dl|dt|dd|h[1-6]|table|thead|tbody|tr|th|td|blockquote"
    r"|section|article|details|markdown|summary|session_intent|artifacts|next_steps"
)
_FORMATTING = re.compile(rf"</?(?:{_FORMATS})\b[^<>]*>", re.IGNORECASE)
_ELEMENT = re.compile(r"<([A-Za-z_][\w:.-]*+)[^<>]*+>[^<]*+</\1\s*+>|<[A-Za-z_/!?][^<>]*+>")
_DOCUMENT = re.compile(
    r"\A(?:[^\n<]{0,120}[:：]\s*)?(?:<\?xml[^<>]*>\s*)?<([A-Za-z_][\w:.-]*)[^<>]*>.*</[\w:.-]+\s*>\Z", re.DOTALL
)
_NO_DOCUMENT = re.compile(
    r"tool|function|invoke|call|command|execut|error|exception|fault|response|thought|think|analysis|reflection"
    r"|scratchpad|reason",
    re.IGNORECASE,
)
_TAG = re.compile(r"<[^<>]*>")
_PROSE_WORDS, _PROSE_LETTERS = 3, 6
_OPENED = re.compile(rf"^<(?!(?:{_FORMATS})\b)([A-Za-z_][\w:.-]*+)[^<>]*+>", re.MULTILINE)
_LEAD_CHARS = 600
"""What leads to a call in XML is no longer than that; behind a longer text it may be an example."""
_ERROR_KEYS = frozenset({"error", "errors", "exception", "error_message", "error_code", "error_msg", "errmsg"})

_LABEL = re.compile(r"[^\n()]{1,80}[:：](?:\*\*|__)?")
_LOOP_CHARS, _LOOP_PIECE, _LOOP_SHARE = 300, 1000, 20
"""From how many characters on a text may be a loop, how long a piece of it is, and how far a loop is compressed."""
_RULE = re.compile(r"([^\w])\1{3,}+")
_EDGES = " \t\r\u3000-–—*•·>_`'\"()[]{}<>.:…。，,;!！?？|~=#/\\"
_PLACE = re.compile(r"[\s>*•–—-]*[\[【{]+[^\[\]【】{}\"]*[\]】}]+[\s.。…*]*")
_INVISIBLE = dict.fromkeys(map(ord, "\u115f\u1160\u3164\uffa0\u2800"))
_NOTHING = frozenset(
    word
    for words in (
        "none|no|n/a|n.a|na|nil|null|nan|undefined|empty|tbd|todo|unknown|nothing|true|false|object object|unavailable",
        "not applicable|not available|no content|no information|no response|no data|lorem ipsum",
        "image|audio|video|file|session intent|artifacts|next steps|summary here|your summary here|insert summary here",
        "无|無|暂无|空|没有|沒有|なし|無し|없음|ninguno|ninguna|nada|aucun|aucune|rien|keine|nichts|nessuno|nessuna",
        "nenhum|nenhuma|нет|ничего|لا شيء|لا يوجد",
    )
    for word in words.split("|")
)
"""What fills a place without saying anything; also what stands for images and other media."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """An answer that cannot be used, and why."""

    reason: str


def accept(reply: BaseMessage | str, *, replaces: int, room: int, count: Count, loops: bool = False) -> str | Rejected:
    """The text of a usable reply: ended normally, no tool call, no refusal, not blank, smaller than what it replaces.

    `replaces` and `room` are tokens as counted by `count`; with `loops` a text may repeat itself.
    """
    if isinstance(reply, BaseMessage) and (reason := fault(reply)):
        return Rejected(reason)
    text = escape_tags(plain(message_text(reply) if isinstance(reply, BaseMessage) else reply))
    size = count(text)
    if size > room:
        return Rejected(f"the reply takes {size} tokens, allowed are {room}")
    if not (tells(text) if loops else usable(text)):
        return Rejected(
            "the reply is a refusal, an error, a call, markup or a loop, not a summary"
            if text
            else "the reply holds no text"
        )
    return text if size < replaces else Rejected(f"the reply takes {size} tokens, what it replaces only {replaces}")


def plain(text: str) -> str:
    """`text` without thinking, wrapping element or code fence around the whole; of JSON blocks their text."""
    return _text_of_blocks(unwrapped(text))


def unwrapped(text: str) -> str:
    """`text` without thinking, wrapping element or code fence around the whole."""
    text = _without_thinking(clean_text(text)).strip()
    for wrapping in (_FENCE, _WRAPPER):
        if found := wrapping.match(text):
            text = found[found.re.groups].strip()
    return text


def usable(text: str) -> bool:
    """Whether a text can stand as a summary: it tells something and does not repeat itself without end.

    An extract made without a model is one whatever it quotes.
    """
    return text.startswith(NOTE) or (tells(text) and not _loops(text))


def tells(text: str) -> bool:
    """Whether a text says something, and is neither refusal, error, call nor markup."""
    if _PAGE.match(text) or is_written_call(text) or _ends_in_element(text):
        return False
    value = json_of(text)
    if isinstance(value, dict | list):
        return not is_call(value) and not _is_error(value) and any(map(_says_something, _leaves(value)))
    before, *sections = HEADING.split(_bare(text))
    if declines(_body(before), LONG_CHARS):
        return False
    return any(map(_says_something, (before, *sections))) or _is_document(text)


# How a reply ended


def fault(reply: BaseMessage) -> str:
    """Why a reply is none, told from everything but its text; "" where it is one."""
    if isinstance(reply, ToolMessage):
        return "the reply is a tool result"
    if (isinstance(reply, AIMessage) and calls_of(reply)) or reply.additional_kwargs.get("function_call"):
        return "the reply is a tool call"
    if reply.additional_kwargs.get("refusal") or any(map(_refuses, reply.content)):
        return "the reply is a refusal"
    return next((f"the reply ended with {reason!r}" for reason in _reasons(reply.response_metadata)), "")


def _refuses(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "refusal"


def _reasons(metadata: Mapping[str, Any]) -> Iterator[str]:
    """Everything that says the reply is not whole."""
    for key in _ENDINGS:
        reason = str(metadata.get(key) or "")
        if _ENDED_BADLY.search(reason):
            yield reason[:80]
    feedback = metadata.get("prompt_feedback")
    if isinstance(feedback, Mapping) and feedback.get("block_reason"):
        yield str(feedback["block_reason"])[:80]
    if metadata.get("is_truncated") is True:
        yield "is_truncated"


# What is taken off


def _without_thinking(text: str) -> str:
    for thinking in _THINKING:
        text = thinking.sub("", text)
    if thoughts := _THOUGHTS_FIRST.match(text):
        text = text[thoughts.end() :]
    # Where the prompt's template opens the thinking, only its end is in the reply.
    if ends := [found.end() for found in _THINKING_END.finditer(text)]:
        text = text[ends[-1] :]
    if _CHANNEL in text:
        text = text.rpartition(_FINAL)[2] if _FINAL in text else ""
    end = len(text.rstrip())
    while special := _SPECIAL_END.search(text, max(0, end - _SPECIAL_CHARS), end):
        end = special.start()
        while end and text[end - 1].isspace():
            end -= 1
    return text[:end]


def _text_of_blocks(text: str) -> str:
    """The text in content blocks that were written as JSON, else `text`."""
    blocks = json_of(text) if text.startswith("[") else None
    if not isinstance(blocks, list) or not blocks or is_call(blocks):
        return text
    if not all(isinstance(block, dict) and isinstance(block.get("type"), str) for block in blocks):
        return text
    return message_text(AIMessage(blocks)).strip()


def _bare(text: str) -> str:
    """`text` without markup; elements that only format leave what is in them, others take it with them."""
    text = _FORMATTING.sub("\n", text)
    count = 1
    while count:
        text, count = _ELEMENT.subn("", text)
    return text.translate(_INVISIBLE)


# What is said


def _says_something(section: str) -> bool:
    body = _body(section)
    return bool(body) and not declines(body)


def _is_document(text: str) -> bool:
    """Whether the whole is XML that tells something: most of its elements hold prose, unlike those of a call."""
    found = _DOCUMENT.match(text)
    if not found or _NO_DOCUMENT.search(found[1]):
        return False
    said = [piece for piece in _TAG.split(text[found.start(1) - 1 :]) if _body(piece)]
    return sum(map(_is_prose, said)) * 2 > len(said)


def _ends_in_element(text: str) -> bool:
    """Whether a few words lead to an element that tells nothing, as calls in XML do: `<read_file>a.py</read_file>`."""
    for found in _OPENED.finditer(text, 0, _LEAD_CHARS):
        if text.endswith(f"</{found[1]}>"):
            lead = text[: found.start()]
            return bool(lead.strip()) and not HEADING.search(lead) and not _is_document(text[found.start() :])
    return False


def _loops(text: str) -> bool:
    """Whether the text or a long piece of it is one phrase over and over; rules and the padding of tables are none."""
    text = _RULE.sub(r"\1", text)
    pieces = (text[start : start + _LOOP_PIECE] for start in range(0, len(text), _LOOP_PIECE))
    return any(map(_is_loop, (text, *pieces)))


def _is_loop(text: str) -> bool:
    data = text.encode("utf-8", "surrogatepass")
    return len(text) >= _LOOP_CHARS and len(zlib.compress(data)) * _LOOP_SHARE < len(data)


def _is_prose(piece: str) -> bool:
    """Whether there are several words, or letters of a script that may have no blanks between them."""
    letters = sum(map(str.isalpha, piece)) if not piece.isascii() else 0
    return _says_something(piece) and (len(piece.split()) >= _PROSE_WORDS or letters >= _PROSE_LETTERS)


def _body(section: str) -> str:
    """The section from its first line that is neither a label nor a placeholder; empty where there is none."""
    lines = section.strip().splitlines()
    for number, line in enumerate(lines):
        if not _LABEL.fullmatch(line.strip()) and _holds_words(line):
            return "\n".join(lines[number:])
    return ""


def _holds_words(line: str) -> bool:
    words = "" if _PLACE.fullmatch(line) else line.strip(_EDGES)
    return any(map(str.isalnum, words)) and words.casefold() not in _NOTHING


def _is_error(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    said = {str(key).lower(): entry for key, entry in value.items()}
    return (
        any(said.get(key) for key in _ERROR_KEYS)
        or said.keys() == {"detail"}
        or "error" in (said.get("type"), said.get("object"), said.get("status"))
        or said.get("success") is False
    )


def _leaves(value: Any) -> Iterator[str]:
    stack = [value]
    while stack:
        found = stack.pop()
        if isinstance(found, dict):
            stack.extend(found.values())
        elif isinstance(found, list):
            stack.extend(found)
        elif found is not None and not isinstance(found, bool):
            yield str(found)
