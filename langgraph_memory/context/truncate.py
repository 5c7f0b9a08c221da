"""Truncation: long arguments of old tool calls are shortened in the view.

A file that was written long ago stands whole in the call that wrote it. Like pruning this is one decision, a watermark:
every string longer than the limit in the arguments of calls up to a message keeps its head and tail. Ids, names, other
values and every other part of the message stay, the arguments stay JSON, and a text never grows.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage

from .text import preview

_BLOCK_KEYS = {"tool_use": "input", "tool_call": "args", "custom_tool_call": "input"}


def truncate(message: AIMessage, limit: int) -> AIMessage:
    """`message` with every string in its call arguments cut to `limit` characters; itself if none is longer."""

    def cut(value: Any) -> Any:
        return _shorter(value, limit)

    calls = [{**call, "args": cut(call["args"])} for call in message.tool_calls]
    if calls == message.tool_calls:
        return message
    update: dict[str, Any] = {"tool_calls": calls}
    if isinstance(message.content, list):
        update["content"] = [_block(block, cut) for block in message.content]
    if raw := message.additional_kwargs.get("tool_calls"):
        kept = [_raw_call(call, cut) for call in raw]
        update["additional_kwargs"] = {**message.additional_kwargs, "tool_calls": kept}
    return message.model_copy(update=update)


def _shorter(value: Any, limit: int) -> Any:
    if isinstance(value, str):
        return preview(value, limit, f"[arguments truncated: {len(value)} characters]")
    if isinstance(value, dict):
        return {key: _shorter(item, limit) for key, item in value.items()}
    return [_shorter(item, limit) for item in value] if isinstance(value, list) else value


def _block(block: Any, cut: Callable[[Any], Any]) -> Any:
    """A content block that repeats a call, with its arguments cut as in the call itself."""
    if not isinstance(block, dict):
        return block
    if key := _BLOCK_KEYS.get(str(block.get("type"))):
        return {**block, key: cut(block.get(key))} if key in block else block
    if block.get("type") == "function_call" and isinstance(block.get("arguments"), str):
        return {**block, "arguments": _json_arguments(block["arguments"], cut)}
    return block


def _raw_call(call: Any, cut: Callable[[Any], Any]) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    return {**call, "function": {**function, "arguments": _json_arguments(function["arguments"], cut)}}


def _json_arguments(text: str, cut: Callable[[Any], Any]) -> str:
    try:
        return json.dumps(cut(json.loads(text)), ensure_ascii=False)
    except (ValueError, RecursionError):
        return text
