"""Pruning: old tool results are shortened in the view.

A result longer than the soft limit keeps its head and tail, one longer than the hard limit leaves only a marker that
says how to get it back. What is pruned is one decision for all results up to a message, the *watermark*, so that the
bytes of a pruned result stay the same on every later call. Only text changes: id, call id, name, status, artifact and
every other field stay, and a text never grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

from ..config import PruningConfig
from .groups import Pairing, is_result, result_blocks
from .history import History
from .record import Scope, Watermark
from .text import CUSTOM_OUTPUT, document_text, hard_clear, soft_trim
from .tokens import count_message

OWN_TOOLS = frozenset({"recall", "memory_search", "memory_get"})
"""Results of these are what was asked back; pruning them would make the model ask again."""

_TEXT_KEYS = {"text": "text", "input_text": "text", "text-plain": "text", CUSTOM_OUTPUT: "output"}
"""Where the text of a block stands that is not under `content`."""

CLEAR = 0
"""The limit that leaves the marker alone."""


def shorten(message: BaseMessage, limit: int) -> BaseMessage:
    """`message` with its text cut to `limit` characters, marker included; the same object where nothing changes."""
    shortened = _with_results if result_blocks(message) else _shortened
    content = shortened(message.content, limit, message.id)
    return message if content is message.content else message.model_copy(update={"content": content})


def _shortened(content: Any, limit: int, ref: str | None) -> Any:
    text = content_text(content)
    cut = _cut(text, limit, ref)
    return content if cut == text else with_text(content, cut)


def _with_results(content: Any, limit: int, ref: str | None) -> Any:
    """Results of tools, each cut by itself, and what is said besides."""
    results = [block for block in content if is_result(block)]
    besides = [block for block in content if not is_result(block)]
    cut = [{**block, "content": _shortened(block.get("content") or "", limit, ref)} for block in results]
    short = [*cut, *_shortened(besides, limit, ref)]
    return content if short == [*results, *besides] else short


def content_text(content: Any) -> str:
    """The text of a content that can be cut."""
    return content if isinstance(content, str) else "".join(map(block_text, content))


def with_text(content: Any, text: str) -> Any:
    """`content` with `text` where its first text stood and no other text; images and other blocks stay."""
    if isinstance(content, str):
        return text
    texts = [bool(block_text(block)) for block in content]
    first = texts.index(True)
    return [
        _text_block(block, text) if i == first else block
        for i, block in enumerate(content)
        if i == first or not texts[i]
    ]


def _text_block(block: Any, text: str) -> dict[str, Any]:
    """A block with `text` for `block`; the output of a custom tool is one by its type."""
    if isinstance(block, dict) and block.get("type") == CUSTOM_OUTPUT:
        return {**block, "output": text}
    return {"type": "text", "text": text}


def _cut(text: str, limit: int, ref: str | None) -> str:
    if len(text) <= limit or not text.strip():
        return text
    return soft_trim(text, limit, ref) if limit > CLEAR else hard_clear(text, ref)


def block_text(block: Any) -> str:
    """Text of a block that can be cut; empty for images, files and everything else."""
    if isinstance(block, str):
        return block
    if not isinstance(block, dict):
        return ""
    kind = str(block.get("type"))
    inner: Any = block.get(_TEXT_KEYS.get(kind, "content"))
    if kind == "document":
        inner = document_text(block) or inner
    if isinstance(inner, list):
        return "".join(map(block_text, inner))
    return inner if isinstance(inner, str) else ""


def text_size(message: BaseMessage) -> int:
    """Characters of a message that pruning could take away."""
    return len(content_text(message.content))


def rule_limit(size: int, watermark: Watermark) -> int | None:
    """What the rule of `watermark` shortens a result of `size` characters to; None leaves it alone."""
    if size > watermark.hard:
        return CLEAR
    return watermark.soft if size > watermark.soft else None


class Pruner:
    """The pruning decisions of a scope, ready to be asked message by message."""

    def __init__(self, scope: Scope, history: History, pairing: Pairing) -> None:
        self._history, self._pairing, self._trims = history, pairing, scope.trims
        self.recalled = scope.recalled
        self._rule = scope.watermark
        self._upto = history.positions[scope.watermark.upto] if scope.watermark else -1
        self._spared = OWN_TOOLS.union(scope.watermark.exclude) if scope.watermark else OWN_TOOLS

    def limit(self, position: int) -> int | None:
        """Characters the message at `position` is shortened to, by the harsher decision; None leaves it as it is."""
        message = self._history.messages[position]
        trim = self._trims.get(self._history.keys[position]) if self._trims else None
        if isinstance(message, ToolMessage):
            ruled = self._ruled(message, position)
            return ruled if trim is None else trim if ruled is None else min(trim, ruled)
        return trim if isinstance(message, HumanMessage) else None

    def tokens(self, position: int) -> int:
        """Raw tokens of the message at `position` as it is shown; to know them it is shortened once at most."""
        history, limit = self._history, self.limit(position)
        if limit is None:
            return history.tokens[position]
        return history.once(
            (history.digests[position], limit),
            lambda: count_message(history.counter, shorten(history.messages[position], limit)),
        )

    def _ruled(self, message: ToolMessage, position: int) -> int | None:
        if self._rule is None or position > self._upto or tool_name(message, position, self._pairing) in self._spared:
            return None
        return rule_limit(text_size(message), self._rule)


def tool_name(message: ToolMessage, position: int, pairing: Pairing) -> str:
    """The tool a result came from: its own name, else the name in the call it answers."""
    if message.name:
        return message.name
    owner = pairing.owner.get(position)
    return owner[1].name if owner else ""


def next_watermark(history: History, unprotected: Sequence[int], config: PruningConfig) -> Watermark | None:
    """The watermark at the newest of the `unprotected` tool results (positions, ascending)."""
    if not unprotected:
        return None
    key, rule = history.keys[unprotected[-1]], (config.soft_trim_chars, config.hard_clear_threshold)
    return Watermark(key, *rule, exclude=tuple(config.exclude_tools))
