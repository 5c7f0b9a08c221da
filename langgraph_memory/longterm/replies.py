"""What a model answered that was asked for things worth remembering: a list of texts, or why there is none. Pure.

Models were asked for one bullet a line, and give numbers, JSON, fences, a friendly sentence around it, or `NO_REPLY`.
All of that is understood. What is no answer — a refusal, a call, an error, a text that was cut off, the conversation
once more — is rejected as a whole, so that it is asked for again and nothing of it is kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage

from ..context.refusals import declines
from ..context.text import clean_text, message_text, one_line
from ..context.verdict import Rejected, fault, tells, unwrapped
from ..search_text import words
from .stop_words import ENGLISH, OTHERS

MOST_CHARS = 500
"""Of an entry; a longer one is cut at the end of a sentence."""
ABSURD_CHARS = 4000
"""An entry as long as this is none."""
EACH, SOME = 3, 5
"""Entries that a message may give at most, and how many more a reply may have."""
COPY_CHARS = 400
COPIED = 0.7
"""Share of the messages' text, if that is long, that entries may repeat word for word."""

_NO_REPLY = re.compile(r"\W*no[_\s-]?reply\W*", re.IGNORECASE)
_TOKEN = r"(?:(?i:no_reply)|NO[ -]?REPLY)"
_BEGINS_WITH_TOKEN = re.compile(rf"\W*{_TOKEN}(?![\w@])")
_ENDS_WITH_TOKEN = re.compile(rf"(?<![\w@-]){_TOKEN}\W*\Z")
_NOTHING = re.compile(
    r"\W*(?:none|nothing|n/a|null|nil|empty|no (?:entries|facts|memories|reply|new (?:facts|entries|memories"
    r"|infor\w+))"
    r"|无|無|没有|沒有|なし|없음|нет|ничего|nichts|keine|rien|aucun|nada|ninguno|لا شيء|कुछ नहीं)\W*",
    re.IGNORECASE,
)
_SAYS_NOTHING = re.compile(
    r"\W*(?:there (?:is|are|was|were) |i (?:found|see|have) "
    r"|(?:the |these )?(?:new )?(?:messages|conversation) (?:contains?|holds?) )?"
    r"(?:(?:no|nothing|not any)\b.{0,60}?\b(?:to|worth|be|was|were) (?:be )?"
    r"(?:remember|record|sav|stor|memori|note|noting|extract)"
    r"|no (?:new|lasting|relevant|further|more|memorable|important) (?:facts?|infor|memories|entries|details))"
    r"|(?:这些|新的|以上)?.{0,8}(?:没有|沒有|无|無).{0,20}(?:记住|記住|记录|記錄|保存|长期|長期|事实|事實)"
    r"|(?:нет|ничего).{0,40}(?:запомн|запис|сохран|факт)|nichts.{0,40}(?:merken|speichern)|rien.{0,30}(?:retenir"
    r"|noter)",
    re.IGNORECASE,
)
_CHAT = re.compile(
    r"\W*(?:here (?:are|is)\b|here['’]s\b|sure\b|okay\b|ok\b[,.!:]|of course\b|certainly\b|absolutely\b|got it\b"
    r"|understood\b|i(?:['’]ve| have)? (?:extracted|found|identified|noted|summari[sz]ed|saved|stored|recorded)\b"
    r"|i(?:['’]ll| will)\b"
    r"|based on (?:the|these|our|your)\b|the following\b|(?:these|below) (?:are|is)\b|let me know\b|would you like\b"
    r"|(?:please )?feel free\b|i hope\b|is there anything\b|if you (?:need|want|have|would|['’]d)\b|hope this\b"
    r"|(?:new |lasting |key |extracted |important )+(?:facts?|entries|memories|notes|information)\b\W*$"
    r"|(?:memory )?entries\b\W*$"
    r"|以下(?:是|为|為)|好的[，,。！!]|当然|當然|根据(?:以上|对话|這|这)|如果您?(?:需要|还|想)|希望(?:这|這|以上)|以下の|はい[、。]"
    r"|다음은|네[,.]|вот\b|конечно\b|хорошо[,.]|если (?:вам|вы|нужно)|hier (?:sind|ist)\b|gerne?\b[,.!]"
    r"|natürlich\b[,.!]"
    r"|voici\b|bien sûr|d['’]accord[,.!]|aquí (?:están|tienes|hay)\b|claro\b[,.!]|por supuesto|aqui (?:estão|está)\b"
    r"|إليك|فيما يلي|بالتأكيد|यहाँ|ज़रूर)",
    re.IGNORECASE,
)
_BULLET = re.compile(r"([ \t]*)(?:[-*+•‣▪◦·–—●○・]|\(?\d{1,3}[.)、．:](?!\d)|[①-⑳])[ \t　]*(?=\S)(.*)")
_HEADING = re.compile(r"[ \t]*(?:#{1,6}[ \t].*|(?:\*\*|__)[^*_]{1,80}(?:\*\*|__)[ \t]*[:：]?[ \t]*|[-=*_]{3,}|```.*)")
_FENCED = re.compile(r"```[^\n`]*\n(.*?)\n?[ \t]*```", re.DOTALL)
_TYPE = r"(?:conversation|fact|summary|tool_result|preference|decision|identity|event|plan|date|memory|note|entry)"
_STAMP = r"\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?"
_LABEL = re.compile(
    rf"\s*(?:{_STAMP}\s+)?(?:\[(?:[ xX✓]|{_TYPE}s?)\]\s*|(?:\*\*)?{_TYPE}s?(?:\*\*)?\s*[:：](?:\*\*)?\s*)?",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"\s*<!--.*?(?:-->|\Z)", re.DOTALL)
_QUOTED = re.compile(r"\A([\"'“”«„「`])(.*)([\"'”“»」`]),?\Z", re.DOTALL)
_SPEAKER = r"(?:user|assistant|human|ai|tool)"
_ROLE = re.compile(
    rf"\s*(?:\[\d{{1,5}}\]\s*{_SPEAKER}\b[^\n]{{0,90}}?[:：]\s|\[{_SPEAKER}\b[^\]]*\]"
    rf"|{_SPEAKER}(?: \([^)\n]{{1,60}}\))?\s*[:：])",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[。！？]|[.!?](?=\s|$)")
_TEXT_KEYS = ("text", "content", "memory", "fact", "entry", "value", "note", "statement", "description", "summary")
_LIST_KEYS = ("entries", "memories", "facts", "items", "results", "notes", "data", "memory")
_STOP_WORDS = ENGLISH.union(*OTHERS)
_LONE_CHARS = 60
"""A single line as short as this that has nothing from the messages is a sentence that there is nothing."""


def parse(
    reply: BaseMessage | str, *, messages: int, source: str = "", known: Iterable[str] = ()
) -> list[str] | Rejected:
    """The texts in a reply about so many `messages`, whose text is `source`; none for `NO_REPLY`. Never raises.

    Texts that are `known` already are left out, however many the reply repeats.
    """
    try:
        return _parsed(reply, messages, source, known)
    except Exception as error:  # noqa: BLE001 - a reply may hold anything
        return Rejected(f"the reply cannot be read: {type(error).__name__}")


def _parsed(reply: BaseMessage | str, messages: int, source: str, known: Iterable[str]) -> list[str] | Rejected:
    if isinstance(reply, BaseMessage) and (reason := fault(reply)):
        return Rejected(reason)
    text = unwrapped(message_text(reply) if isinstance(reply, BaseMessage) else clean_text(reply))
    if not text:
        return Rejected("the reply holds no text")
    if _is_nothing(text):
        return []
    found = _items(text)
    if isinstance(found, Rejected):
        return found
    said, is_list = found
    if not is_list and _has_token(text):
        return []
    if not tells(text if not is_list or text[0] in "[{" else f"Entries\n{text}"):
        return Rejected("the reply is a refusal, an error, a call or markup, not a list of memories")
    if not is_list and not any(map(declines, said)) and _stands_alone(said, source):
        return []
    return _judged([item for item in map(_tidy, said) if item], text, messages, source, set(map(_squeezed, known)))


def _judged(
    items: Sequence[str], text: str, messages: int, source: str, known: Collection[str]
) -> list[str] | Rejected:
    entries = list({item.casefold(): item for item in items if not _names_nothing(item)}.values())
    if not entries:
        said_so = bool(items) or any(map(_is_nothing, text.splitlines()))
        return [] if said_so else Rejected("the reply holds nothing to remember, and does not say so")
    if all(map(declines, entries)):
        return Rejected("the reply is a refusal")
    entries = [entry for entry in entries if _squeezed(entry) not in known]
    if len(entries) > (most := EACH * messages + SOME):
        return Rejected(f"the reply has {len(entries)} entries, allowed are {most} for {messages} messages")
    if _copies(entries, source):
        return Rejected("the reply repeats the messages")
    return [entry for entry in (_cut(entry) for entry in entries) if entry]


def _is_nothing(text: str) -> bool:
    return (
        bool(_NO_REPLY.fullmatch(text) or _NOTHING.fullmatch(text))
        or (len(text) <= 200 and _SAYS_NOTHING.match(text) is not None)
        or (text[:1] in ("[", "{") and _is_hollow(_json(text)))
    )


def _is_hollow(value: Any) -> bool:
    """Whether a JSON value has room for entries, and none in it."""
    if isinstance(value, dict):
        return all(item is None or _is_hollow(item) for item in value.values())
    return isinstance(value, list) and all(map(_is_hollow, value))


def _has_token(text: str) -> bool:
    """Whether a text that is no list says `NO_REPLY`, and perhaps why."""
    return (
        any(map(_NO_REPLY.fullmatch, text.splitlines()))
        or _BEGINS_WITH_TOKEN.match(text) is not None
        or _ENDS_WITH_TOKEN.search(text) is not None
    )


def _stands_alone(lines: Sequence[str], source: str) -> bool:
    """Whether the only line is short and about nothing in the messages, as "Nothing new." is in any language.

    In another script than theirs it may say with other words what they say.
    """
    said = [line for line in lines if line.strip()]
    if len(said) != 1 or len(said[0]) > _LONE_CHARS or _is_latin(said[0]) != _is_latin(source):
        return False
    return bool(source) and not _telling(said[0]) & _telling(source)


def _is_latin(text: str) -> bool:
    letters = [char for char in text if char.isalpha()]
    return 2 * sum(char < "\u0250" for char in letters) > len(letters)


def _telling(text: str) -> set[str]:
    """The words of a text that tell what it is about; single characters do not, unless they are digits."""
    return {word for word in words(text) if len(word) > 1 or word.isdigit()} - _STOP_WORDS


def _names_nothing(item: str) -> bool:
    return _is_nothing(item) or _BEGINS_WITH_TOKEN.match(item) is not None


def _copies(entries: Sequence[str], source: str) -> bool:
    whole = _squeezed(source)
    lines = [entry[label.end() :] for entry in entries if (label := _ROLE.match(entry))]
    if sum(not source or _squeezed(line) in whole for line in lines) > len(entries) // 2:
        return True
    if len(source) < COPY_CHARS:
        return False
    copied = sum(len(short) for entry in entries if (short := _squeezed(entry)) in whole)
    return copied > COPIED * len(whole)


def _squeezed(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


# Items


def _items(text: str) -> tuple[list[str], bool] | Rejected:
    """The texts of a reply, and whether it has the form of a list."""
    inner = _inner(text)
    for candidate in (text, inner):
        if (value := _json(candidate)) is not None:
            return _of_json(value) or (_of_lists(value) if isinstance(value, dict) else []), True
    if inner[0] in "[{" and inner[1:].lstrip()[:1] in ('"', "{", "'"):
        return Rejected("the reply is JSON that is cut off or broken")
    lines = inner.splitlines()
    if bullets := list(_bullets(lines)):
        return bullets, True
    return [line for line in lines if not _CHAT.match(line) and not _HEADING.fullmatch(line)], False


def _inner(text: str) -> str:
    """What stands in code fences, if anything does that is not blank."""
    inside = "\n".join(found[1] for found in _FENCED.finditer(text))
    return (inside if inside.strip() else text).strip() or text


def _json(text: str) -> Any:
    """The JSON value that a text is, or that stands in it behind a sentence, or a list of one value a line."""
    start = next((i for i, char in enumerate(text) if char in "[{"), None)
    if start is None or (start and "\n" not in text[:start] and len(text[:start]) > 200):
        return None
    if lines := _json_lines(text[start:]):
        return lines
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    before, rest = text[:start].strip(), text[end:].strip()
    plausible = isinstance(value, dict) or all(isinstance(item, str | dict) for item in value)
    talk = _CHAT.match(before or rest) is not None and not re.search(r"[\[{]", rest)
    return value if plausible and (not rest or (value and ("\n" in text[end:] or talk))) else None


def _json_lines(text: str) -> list[Any]:
    lines = [line.strip().rstrip(",") for line in text.splitlines() if line.strip()]
    if len(lines) < 2 or not all(line.startswith("{") for line in lines):
        return []
    try:
        return [json.loads(line) for line in lines]
    except (ValueError, RecursionError):
        return []


def _of_json(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in _of_json(item)]
    if isinstance(value, dict):
        if any(isinstance(value.get(key), list) for key in _LIST_KEYS):
            return _of_lists(value)
        return next(([value[key]] for key in _TEXT_KEYS if isinstance(value.get(key), str)), [])
    return []


def _of_lists(value: Mapping[str, Any]) -> list[str]:
    """The texts of all lists, by whatever names they have."""
    return [text for item in value.values() if isinstance(item, list) for text in _of_json(item)]


def _bullets(lines: Sequence[str]) -> Iterator[str]:
    """The items of a list with the lines that belong to them; one that only introduces deeper ones goes before them."""
    item, indent, heads = "", 0, list[tuple[int, str]]()
    for line in [*lines, ""]:
        found = _BULLET.fullmatch(line)
        if found is None and item and line[:1].isspace() and line.strip():
            item += f" {line.strip()}"
            continue
        if item:
            deeper = found is not None and len(found[1].expandtabs(4)) > indent
            if item.rstrip("*_ ").endswith((":", "：")) and deeper:
                heads.append((indent, item.strip("*_ ")))
            else:
                yield " ".join([*(head for _, head in heads), item])
        item = ""
        if found is not None and not _HEADING.fullmatch(line):
            item, indent = found[2], len(found[1].expandtabs(4))
            heads = [head for head in heads if head[0] < indent]


# Texts


def _tidy(item: str) -> str:
    """One item as a line without what the form of the answer put around it; empty where nothing is left."""
    item = " ".join(_COMMENT.sub("", item).split())
    while quoted := _QUOTED.match(item):
        if quoted[1] in quoted[2]:
            break
        item = quoted[2].strip()
    item = item[_LABEL.match(item).end() :].strip()  # type: ignore[union-attr]
    if item.startswith("**") and item.endswith("**") and item.count("**") == 2:
        item = item[2:-2].strip()
    if not any(map(str.isalnum, item)) or len(item) > ABSURD_CHARS:
        return ""
    return item


def _cut(item: str) -> str:
    if len(item) <= MOST_CHARS:
        return item
    line = one_line(item, MOST_CHARS)
    ends = [found.end() for found in _SENTENCE_END.finditer(line)]
    return line[: ends[-1]] if ends and ends[-1] > MOST_CHARS // 3 else line
