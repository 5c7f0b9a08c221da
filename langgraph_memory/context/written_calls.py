"""Calls that a model wrote as text, in any of the forms models were trained on. Pure.

A call is told from a text about calls by where it stands: it is the whole, or the end that a few words lead to. What
stands under a heading, in a sentence that goes on behind it, or in quotes is quoted.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any

HEADING = re.compile(r"^[ \t]*(?:#{1,6}[^\n]*|(?:\*\*|__)[^*_\n.]{1,60}(?:\*\*|__)[ \t]*[:：]?)[ \t]*$", re.MULTILINE)

_CALL = re.compile(
    r"\A\s*(?:\[TOOL_CALLS\]|<\|python_tag\|>|<[|｜‖]+(?:\w{1,20}[|｜‖]+)?(?:tool|function|invoke)|```tool_"
    r"|(?:to=)?functions\.\w+\s*[({:<])"
    r"|(?:</(?:[|｜‖]*\w{1,20}[:|｜‖]+)?(?:tool_calls?|function_calls?|function|invoke|tool_use)\s*>"
    r"|<[|｜]tool[^<>]{0,40}end[|｜]>)\s*\Z",
    re.IGNORECASE,
)
_OPENING = re.compile(
    r"(?<![`'\"“‘«「])(?:\[TOOL_CALLS\]|<\|python_tag\|>|^>>>(?=\w{1,64}\n)|^[ \t]*```tool_\w+(?=\n)"
    r"|<[|｜‖]{0,4}[\w:|｜‖-]{0,24}?(?:tool[_▁]?(?:calls?|use)|function(?:s\b|[_▁]calls?|=)|invoke\b)[^<>\n]{0,80}>"
    r"|<[|｜]\w{0,8}action[^<>\n]{0,20}>)"
    r"(?=\s*+(?:[\w.:-]{1,64}\s*)?[\[{<(])",
    re.IGNORECASE | re.MULTILINE,
)
_CLOSINGS = ("]", "}", ")", ">")
_ARGUMENTS = r"\((?=\s*(?:\)|[\"'{\[]|\w+\s*=))"
_CALL_LINE = re.compile(
    rf"\[(?:[^\[\]()\n]{{0,40}}[\s:])?[\w.:-]{{1,64}}(?:\(.*\)|[ ]?\{{.*\}})[,;]?\]|[\w.]{{1,64}}{_ARGUMENTS}.*\)"
    r"|(?:→|->) ?[\w.:-]{1,64} ?\{.*\}",
    re.DOTALL,
)
_ACTION = re.compile(r"^[ \t]*Action[ \t]*:[^\n]*\n[ \t]*Action Input[ \t]*:", re.IGNORECASE | re.MULTILINE)
_THOUGHT = re.compile(r"\s*(?:Thought[ \t]*:|\Z)", re.IGNORECASE)
_JSON = re.compile(r"(?:^|[:：])[ \t]*(?=[\[{]\s*[\"{\[])", re.MULTILINE)
_JSON_TRIES = 8
_BLANK = re.compile(r"\s*")
_CALL_KEYS = {"arguments", "args", "parameters", "tool_calls", "function", "function_call"}
_CALL_KEYS |= {"action_input", "tool_input", "tool_name"}
_CALL_TYPES = frozenset({"tool_use", "tool_call", "function_call", "function"})


def is_written_call(text: str) -> bool:
    """Whether `text` is a call, or ends in one that it does not quote."""
    return (
        _CALL.search(text) is not None
        or _is_marked(text)
        or _is_line(_unfenced(text))
        or _acts(text)
        or _is_in_json(text)
    )


def is_call(value: Any) -> bool:
    """Whether a JSON value is a call, or has one among its items."""
    if isinstance(value, list):
        return any(is_call(item) for item in value if isinstance(item, dict))
    named = any(isinstance(value.get(key), str) for key in ("name", "tool")) and "input" in value
    return named or bool(value.keys() & _CALL_KEYS) or str(value.get("type")) in _CALL_TYPES


def json_of(text: str) -> Any:
    """The JSON value that `text` is, None where it is none."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_marked(text: str) -> bool:
    """Whether a mark of a model's own opens a call, at the start or where the call ends the text."""
    found = _OPENING.search(text)
    if not found:
        return False
    lead = text[: found.start()]
    return not lead.strip() or (_unfenced(text).endswith(_CLOSINGS) and not HEADING.search(lead))


def _is_line(text: str) -> bool:
    """Whether the whole, the first line, or the last one to which no heading leads, is a call such as `[name(…)]`."""
    if _CALL_LINE.fullmatch(text):
        return True
    first, _, rest = text.partition("\n")
    lead, _, last = rest.rpartition("\n")
    return _CALL_LINE.fullmatch(first.strip()) is not None or (
        _CALL_LINE.fullmatch(last.strip()) is not None and not HEADING.search(f"{first}\n{lead}")
    )


def _acts(text: str) -> bool:
    """Whether `text` is a call in lines (`Action:`, `Action Input:`) and does not quote one in a summary."""
    found = list(_ACTION.finditer(text))
    if not found:
        return False
    before, after = text[: found[0].start()], text[found[-1].end() :]
    return bool(_THOUGHT.match(before)) or not (HEADING.search(before) or "\n\n" in after.strip())


def _is_in_json(text: str) -> bool:
    """Whether `text` begins with a call in JSON, or ends in one, in a fence or not, without a heading before it."""
    text = _unfenced(text)
    for found in islice(_JSON.finditer(text), _JSON_TRIES):
        values, end = _values(text, found.end())
        if any(map(is_call, values)):
            return not found.start() or (end == len(text) and not HEADING.search(text[: found.start()]))
        if end == len(text):
            break
    return False


def _values(text: str, start: int) -> tuple[list[Any], int]:
    """The JSON objects and lists that follow one another from `start` on, and where they end."""
    values, end = list[Any](), start
    while text[start : start + 1] in ("[", "{"):
        try:
            value, end = json.JSONDecoder(strict=False).raw_decode(text, start)
        except (ValueError, RecursionError):
            break
        values.append(value)
        start = _BLANK.match(text, end).end()  # type: ignore[union-attr]
    return values, end


def _unfenced(text: str) -> str:
    return text.strip().strip("`").strip()
