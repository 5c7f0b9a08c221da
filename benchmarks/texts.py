"""What a message says, and how many tokens that is, for every policy alike.

Tokens are those of cl100k_base, counted exactly: a policy's own estimate decides what it does, never how it is judged.
"""

import functools
import html
import json
import re

import tiktoken
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from langgraph_memory.context.tokens import EncodingCounter, load_counter

ENCODING = "cl100k_base"
MESSAGE_TOKENS = 4
"""What a provider adds to each message."""

PROBE_CHARS = 60
PROBED_CHARS = 400

Fingerprint = tuple[str, str, str | None]


class RanksMissingError(Exception):
    """There are no token ranks on this machine, so nothing can be counted exactly."""


@functools.cache
def encoding() -> tiktoken.Encoding:
    counter = load_counter(ENCODING)
    if not isinstance(counter, EncodingCounter):
        raise RanksMissingError(f"no ranks of {ENCODING}: pip install '.[benchmarks]'")
    return counter.encoding


def text_of(message: BaseMessage) -> str:
    """Content, then names and arguments of tool calls as JSON."""
    said = "".join(map(_block_text, message.content)) if isinstance(message.content, list) else message.content
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return said + (json.dumps([[call["name"], call["args"]] for call in calls], ensure_ascii=False) if calls else "")


def _block_text(block: object) -> str:
    return block if isinstance(block, str) else block.get("text", "") if isinstance(block, dict) else ""


def fingerprint(message: BaseMessage) -> Fingerprint:
    """What a prompt cache tells messages apart by: role, text, and the call a result answers."""
    return message.type, text_of(message), message.tool_call_id if isinstance(message, ToolMessage) else None


def count_text(text: str) -> int:
    # Not the library's counter, which cuts very long texts into slices.
    return len(encoding().encode_ordinary(text))


_count_once = functools.lru_cache(maxsize=None)(count_text)


def message_tokens(message: BaseMessage) -> int:
    return _count_once(text_of(message)) + MESSAGE_TOKENS


def squeezed(text: str) -> str:
    """Letters and digits only, so that escaping and layout make no difference."""
    return re.sub(r"\W+", "", html.unescape(text))


def probe(message: BaseMessage) -> str:
    """The beginning of what a message says, to be looked for in a squeezed text; empty if it says nothing."""
    said = message.content if isinstance(message.content, str) else text_of(message)
    return squeezed(said[:PROBED_CHARS])[:PROBE_CHARS]
