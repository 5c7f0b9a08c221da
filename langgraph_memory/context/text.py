"""Texts as people and models read them: what a message says, shortened without being damaged.

A text is only ever shortened to a *preview*: a head and a tail around one marker line that says how much was kept and
how to get the rest back. A preview depends on nothing but its input, so it is the same bytes on every call. Cuts fall
at line ends where one is near and otherwise between whole characters as a reader sees them: a flag, a family emoji or a
letter with its accents stays in one piece. Where a marker would make a text longer, the text stays as it is, so no
result is longer than its input, and none is blank unless its input was.

All sizes are characters (code points).
"""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from langchain_core.messages import BaseMessage

TAGS = ("conversation_summary", "curated_memory", "recalled_memory", "previous_summary", "messages")

_HIDDEN = frozenset(
    [
        "thinking",
        "redacted_thinking",
        "reasoning",
        "reasoning_content",
        "signature",
        "tool_use",
        "tool_call",
        "tool_call_chunk",
        "invalid_tool_call",
        "function_call",
        "custom_tool_call",
        "computer_call",
        "server_tool_use",
        "server_tool_call",
        "server_tool_call_chunk",
    ]
)
_MEDIA = {
    "image": "[image]",
    "image_url": "[image]",
    "input_image": "[image]",
    "image_generation_call": "[image]",
    "audio": "[audio]",
    "input_audio": "[audio]",
    "video": "[video]",
    "video_url": "[video]",
    "file": "[file]",
    "input_file": "[file]",
    "document": "[file]",
    "media": "[file]",
    "container_upload": "[file]",
}
_LINKS = ("url", "file_url", "image_url", "source", "file", "filename")
"""Where a block of media names what it shows."""
_HOSTED = ("_call", "_result", "_output")
"""How the types of blocks end in which a tool of the provider stands with what it returned."""
_NO_WORDS = frozenset(
    [
        "type",
        "status",
        "id",
        "call_id",
        "tool_use_id",
        "tool_call_id",
        "approval_request_id",
        "container_id",
        "signature",
    ]
)
_OPAQUE = re.compile(r"data:|[A-Za-z0-9+/_=-]{256}")
CUSTOM_OUTPUT = "custom_tool_call_output"
"""The type of a block with what a custom tool of OpenAI's returned."""
_MAX_NESTING = 8
_LINK_CHARS = 500

# Possessive, so that a long run of blanks behind "<" is walked once.
_TAG_OPENING = re.compile(rf"<(?=\s*+/?+\s*+(?:{'|'.join(TAGS)})\b)", re.IGNORECASE)

_dumped = json.JSONEncoder(ensure_ascii=False, default=str).encode
_CONTROLS = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0)], " ")
_ZERO_WIDTH_JOINER = "\u200d"
_VIRAMA = 9


def message_text(message: BaseMessage) -> str:
    """The readable text of a message, one line or more a block: no reasoning, no signatures, no calls.

    Images, audio, video and files stand as `[image]`, `[audio]`, `[video]` and `[file]`, with their link or name where
    they have one; an answer that was only spoken is its transcript. Never raises.
    """
    return _content_text(message.content) or transcript(message)


def transcript(message: BaseMessage) -> str:
    """What was spoken in an answer with audio; empty where there is none."""
    audio = message.additional_kwargs.get("audio")
    text = audio.get("transcript") if isinstance(audio, Mapping) else None
    return text if isinstance(text, str) else ""


def document_text(block: Mapping[Any, Any]) -> str:
    """The plain text that a block holds as its source; empty for any other document or payload."""
    source = block.get("source")
    text = source.get("data") if isinstance(source, Mapping) and source.get("type") == "text" else None
    return text if isinstance(text, str) else ""


def clean_text(text: str) -> str:
    """`text` with every lone surrogate replaced by U+FFFD and surrogate pairs joined, so that it encodes to UTF-8."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def escape_tags(text: str) -> str:
    """`text` with the `<` of anything that could open or close one of our `TAGS` written as `&lt;`. Idempotent."""
    return _TAG_OPENING.sub("&lt;", text)


def to_json(value: object) -> str:
    """JSON as providers write it; what JSON cannot hold is written as `str` does, and never raises."""
    for write in (_dumped, str):
        try:
            return write(value)
        except (TypeError, ValueError, RecursionError):
            continue
    return f"<{type(value).__name__} that cannot be written>"


def trimmed_marker(kept: int, total: int, ref: str | None) -> str:
    """The line inside a shortened text; `ref` is the message id, none or '' leaves the recall hint out."""
    return f"[trimmed: {kept} of {total} characters{_recall_hint(ref)}]"


def cleared_marker(total: int, ref: str | None) -> str:
    """The line that stands for a whole text; `ref` as in `trimmed_marker`."""
    return f"[cleared: {total} characters{_recall_hint(ref)}]"


def preview(text: str, limit: int, marker: str) -> str:
    """At most `limit` characters of `text`, half head and half tail, with `marker` on a line of its own between.

    The marker alone, even above `limit`, where no head and tail fit; `text` itself where that is not longer.
    """
    if len(text) <= limit:
        return text
    return _shorter(_join(*_ends(text, limit - len(marker)), marker), text)


def soft_trim(text: str, limit: int, ref: str | None) -> str:
    """A preview of `text` whose marker counts the characters kept and refers to message `ref`."""
    total = len(text)
    if total <= limit:
        return text
    # `total` has at least as many digits as what is kept, so the real marker fits where this one does.
    head, tail = _ends(text, limit - len(trimmed_marker(total, total, ref)))
    return _shorter(_join(head, tail, trimmed_marker(len(head) + len(tail), total, ref)), text)


def hard_clear(text: str, ref: str | None) -> str:
    """The cleared marker for `text`, or `text` itself where that is shorter."""
    return _shorter(cleared_marker(len(text), ref), text)


def one_line(text: str, limit: int) -> str:
    """`text` on one line without control characters, at most `limit` characters, ending in "…" where it was cut."""
    stripped = text.strip()
    start = stripped[: 4 * max(limit, 0) + 1000]
    line = " ".join(start.translate(_CONTROLS).split())
    if len(line) <= limit and len(start) == len(stripped):
        return line
    return line[: _whole_end(line, min(limit - 1, len(line)))].rstrip() + "…" if limit > 0 else ""


def _content_text(content: object, depth: int = 0) -> str:
    if isinstance(content, str):
        return content
    if depth > _MAX_NESTING:
        return ""
    if isinstance(content, Mapping):
        return _block_text(content, depth)
    if isinstance(content, Sequence) and not isinstance(content, (bytes, bytearray)):
        texts = (_content_text(block, depth + 1) for block in content)
        return "\n".join(text for text in texts if text)
    return ""


def _block_text(block: Mapping[object, object], depth: int) -> str:
    kind = block.get("type")
    if not isinstance(kind, str):
        kind = ""
    if kind in _HIDDEN:
        return ""
    if kind in _MEDIA:
        return document_text(block) or _linked(_MEDIA[kind], block, depth)
    if kind == CUSTOM_OUTPUT:
        return _content_text(block.get("output"), depth + 1)
    for key in ("text", "refusal"):
        text = block.get(key)
        if isinstance(text, str):
            return text
    if kind.endswith(_HOSTED) and kind != "tool_result":
        return "\n".join(_words(block, depth))
    return _content_text(block.get("content"), depth + 1)


def _linked(name: str, block: Mapping[object, object], depth: int) -> str:
    """The name of a medium with its link, or the name of its file."""
    for key in _LINKS:
        found = block.get(key)
        if isinstance(found, Mapping) and depth < _MAX_NESTING:
            return _linked(name, found, depth + 1)
        if isinstance(found, str) and found and not _OPAQUE.match(found):
            return f"{name[:-1]}: {one_line(found, _LINK_CHARS)}]"
    return name


def _words(value: object, depth: int) -> Iterator[str]:
    """The texts in what a tool of the provider returned, without ids, states and what only the provider can read."""
    if isinstance(value, str):
        if value.strip() and not _OPAQUE.match(value):
            yield value
    elif depth > _MAX_NESTING:
        return
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if key not in _NO_WORDS and not str(key).startswith("encrypted"):
                yield from _words(item, depth + 1)
    elif isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        for item in value:
            yield from _words(item, depth + 1)


def _recall_hint(ref: str | None) -> str:
    if not ref:
        return ""
    return f" · recall({json.dumps(f'msg:{ref}', ensure_ascii=not ref.isprintable())})"


def _shorter(candidate: str, text: str) -> str:
    return candidate if len(candidate) <= len(text) else text


def _join(head: str, tail: str, marker: str) -> str:
    return "\n".join(part for part in (head, marker, tail) if part)


def _ends(text: str, room: int) -> tuple[str, str]:
    """Head and tail of `text` that take at most `room` characters with a line break each; both '' if there is none."""
    room -= 2
    if room < 2:
        return "", ""
    return text[: _head_end(text, room - room // 2)], text[_tail_start(text, len(text) - room // 2) :]


def _head_end(text: str, end: int) -> int:
    line_end = text.rfind("\n", end - end // 4, end + 1)
    if line_end > 0:
        return line_end
    return _whole_end(text, end)


def _whole_end(text: str, end: int) -> int:
    """The last place at or before `end` that parts no visible character."""
    while _joined(text, end):
        end -= 1
    return end


def _tail_start(text: str, start: int) -> int:
    line_end = text.find("\n", start - 1, start + (len(text) - start) // 4)
    if line_end >= 0:
        return line_end + 1
    while _joined(text, start):
        start += 1
    return start


def _joined(text: str, cut: int) -> bool:
    """Whether a cut before index `cut` would part what a reader sees as one character."""
    if not 0 < cut < len(text):
        return False
    before, after = text[cut - 1], text[cut]
    if before.isascii() and after.isascii():
        return before == "\r" and after == "\n"
    return (
        _extends(after)
        or before == _ZERO_WIDTH_JOINER
        or (unicodedata.combining(before) == _VIRAMA and after.isalpha())
        or ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff")
        or (_regional(after) and _splits_flag(text, cut))
    )


def _extends(char: str) -> bool:
    """Marks, joiners, skin tones, emoji tags, dependent vowels and finals: never the first of a visible character."""
    return (
        unicodedata.category(char) in ("Mn", "Me", "Mc")
        or char in "\u200c\u200d\u0e33\u0eb3\uff9e\uff9f"
        or "\u1160" <= char <= "\u11ff"
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or "\U000e0020" <= char <= "\U000e007f"
    )


def _regional(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _splits_flag(text: str, cut: int) -> bool:
    """Flags are pairs counted from the start of their run, so a cut parts one after an odd number."""
    run = sum(1 for _ in takewhile(_regional, (text[i] for i in range(cut - 1, -1, -1))))
    return run % 2 == 1
