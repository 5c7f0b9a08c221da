"""What a provider is sent of one message, as texts to count and prices to add.

Text, reasoning, tool names and tool arguments are text. A payload (image, audio, file) is one fixed price, wherever it
hides, as its length in base64 says nothing about its tokens. An opaque blob (a signature, encrypted reasoning) is
priced by a quarter of its length up to the same price: it is sent back, but what it stands for is mostly not billed
again. A content block that repeats a tool call of the message is not counted a second time.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from .text import to_json, transcript

MESSAGE_TOKENS = 4
"""What a message costs beside its content: its role and its delimiters."""

LINK_TOKENS = 8
"""What a tool call, and again its result, costs beside name, arguments and content: the id and the wrapping."""

MEDIA_TOKENS = 1000
"""The price of a payload: about one image of a megapixel, or a page of a document."""

_TEXT_KEYS = ("text", "thinking", "reasoning", "refusal")
_OPAQUE_KEYS = frozenset({"signature", "encrypted_content", "encrypted_index", "thoughtSignature", "thought_signature"})
_BOOKKEEPING_KEYS = frozenset({"type", "id", "index", "cache_control", "extras", "status"})
_MEDIA_TYPES = frozenset(
    {
        *("image", "image_url", "input_image", "image_file", "image_generation_call"),
        *("audio", "input_audio", "output_audio", "video", "video_url", "media"),
        *("file", "input_file", "document", "text-plain", "container_upload"),
    }
)
_CALL_TYPES = frozenset(
    {"tool_use", "tool_call", "function_call", "custom_tool_call", "invalid_tool_call", "tool_call_chunk"}
)
_STREAMED_ARGUMENTS = "input_json_delta"
_PAYLOAD = re.compile(r"data:[^,]{0,200};base64,|[A-Za-z0-9+/_=\r\n-]{256}")
_DEEPEST = 16

Part = str | int
"""A text to be counted, or a price in tokens."""


def message_parts(message: BaseMessage) -> Iterator[Part]:
    yield MESSAGE_TOKENS
    if message.name:
        yield str(message.name)
    calls = list(_calls(message))
    for name, arguments, _ in calls:
        yield LINK_TOKENS
        yield name
        yield arguments
    if isinstance(message, ToolMessage):
        yield LINK_TOKENS
    yield from _content(message.content, _Mirrored(calls), 0)
    if spoken := transcript(message):
        yield spoken


def _calls(message: BaseMessage) -> Iterator[tuple[str, str, str | None]]:
    """Name, arguments and id of each tool call; raw arguments where they could not be parsed."""
    if not isinstance(message, AIMessage):
        return
    for call in message.tool_calls:
        yield str(call.get("name") or ""), to_json(call.get("args")), call.get("id")
    for invalid in message.invalid_tool_calls:
        yield str(invalid.get("name") or ""), str(invalid.get("args") or ""), invalid.get("id")
    legacy = message.additional_kwargs.get("function_call")
    if isinstance(legacy, Mapping) and not message.tool_calls:
        yield str(legacy.get("name") or ""), str(legacy.get("arguments") or ""), None


class _Mirrored:
    """Tells whether a content block repeats one of the message's tool calls."""

    def __init__(self, calls: list[tuple[str, str, str | None]]) -> None:
        self._ids = {call_id for _, _, call_id in calls if call_id}
        self._names = {name for name, _, _ in calls}

    def __contains__(self, block: Mapping[str, Any]) -> bool:
        if block.get("type") == _STREAMED_ARGUMENTS:
            return bool(self._names)
        ids = {str(block[key]) for key in ("call_id", "id") if block.get(key)}
        return not self._ids.isdisjoint(ids) if ids else str(block.get("name")) in self._names


def _content(content: Any, mirrored: _Mirrored, depth: int) -> Iterator[Part]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, Mapping):
        yield from _block(content, mirrored, depth)
    elif isinstance(content, list | tuple):
        for block in content:
            yield from _content(block, mirrored, depth)
    elif content is not None:
        yield from _value(content, depth)


def _block(block: Mapping[str, Any], mirrored: _Mirrored, depth: int) -> Iterator[Part]:
    kind = str(block.get("type"))
    if depth > _DEEPEST:
        yield MEDIA_TOKENS
    elif kind in _MEDIA_TYPES:
        yield from _media(block, mirrored, depth)
    elif kind in _CALL_TYPES or kind == _STREAMED_ARGUMENTS:
        if block not in mirrored:
            yield LINK_TOKENS
            yield from _value(block, depth)
    elif kind == "tool_result":
        yield LINK_TOKENS
        yield from _content(block.get("content"), mirrored, depth + 1)
    elif kind == "non_standard":
        yield from _content(block.get("value"), mirrored, depth + 1)
    else:
        yield from _fields(block, depth)


def _media(block: Mapping[str, Any], mirrored: _Mirrored, depth: int) -> Iterator[Part]:
    """A document may hold plain text, which is sent as text; anything else has the fixed price."""
    source = block.get("source")
    if not isinstance(source, Mapping):
        source = {}
    if isinstance(block.get("text"), str):
        yield block["text"]
    elif source.get("type") == "text" and isinstance(source.get("data"), str):
        yield source["data"]
    elif source.get("type") == "content":
        yield from _content(source.get("content"), mirrored, depth + 1)
    else:
        yield MEDIA_TOKENS


def _fields(block: Mapping[str, Any], depth: int) -> Iterator[Part]:
    """Text, reasoning and unknown blocks: their text as it is, the rest as JSON."""
    rest = {}
    for key, value in block.items():
        if key in _TEXT_KEYS and isinstance(value, str):
            yield value
        elif key in _OPAQUE_KEYS or (key == "data" and block.get("type") == "redacted_thinking"):
            yield _opaque(value)
        elif key not in _BOOKKEEPING_KEYS and value not in (None, [], {}, ""):
            rest[key] = value
    if rest:
        yield from _value(rest, depth)


def _value(value: Any, depth: int) -> Iterator[Part]:
    """Any JSON-like value: the JSON without its payloads and blobs, and their prices."""
    prices: list[int] = []
    yield to_json(_without_payloads(value, prices, depth))
    yield from prices


def _without_payloads(value: Any, prices: list[int], depth: int) -> Any:
    if depth > _DEEPEST or isinstance(value, bytes | bytearray | memoryview):
        prices.append(MEDIA_TOKENS)
        return ""
    if isinstance(value, str) and _PAYLOAD.match(value):
        prices.append(MEDIA_TOKENS)
        return ""
    if isinstance(value, Mapping):
        prices.extend(_opaque(blob) for key, blob in value.items() if key in _OPAQUE_KEYS)
        kept = {str(key): item for key, item in value.items() if key not in _OPAQUE_KEYS}
        return {key: _without_payloads(item, prices, depth + 1) for key, item in kept.items()}
    if isinstance(value, list | tuple):
        return [_without_payloads(item, prices, depth + 1) for item in value]
    return value


def _opaque(value: Any) -> int:
    return min(MEDIA_TOKENS, len(value) // 4) if isinstance(value, str | bytes) else 0
