"""How many tokens a text, a message or a set of tools is.

A `TokenCounter` counts text: exactly, with a tiktoken encoding whose ranks are on this machine, or by an estimate of
that encoding. It never uses the network, never raises and never takes long over one text. On top of it messages and
tools are counted by what a provider is sent of them: text, reasoning, tool calls and their arguments once, and a fixed
price for each payload (image, audio, file), whose length in base64 says nothing about its tokens. What a provider adds
beyond that is learnt from its usage figures (`calibration`).
"""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

import tiktoken
from langchain_core.messages import BaseMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from .calibration import Calibration, calibrate
from .content import LINK_TOKENS, MEDIA_TOKENS, MESSAGE_TOKENS, message_parts
from .encodings import encoding_name, load_encoding
from .estimate import Estimator
from .text import to_json

__all__ = [
    "ESTIMATOR",
    "LINK_TOKENS",
    "MEDIA_TOKENS",
    "MESSAGE_TOKENS",
    "Calibration",
    "TokenCounter",
    "calibrate",
    "count_message",
    "count_tools",
    "encoding_for",
    "estimator_for",
    "load_counter",
    "ready_counter",
]

logger = logging.getLogger(__name__)

_DEFAULT_ENCODING = "cl100k_base"
_SLICE = 64 * 1024
_NAME = 32
"""Texts of so many characters are mostly names of tools, which come again and again."""


class TokenCounter(Protocol):
    """Counts the tokens of a text."""

    @property
    def name(self) -> str: ...

    @property
    def exact(self) -> bool: ...

    def text(self, text: str) -> int: ...

    def __hash__(self) -> int: ...


ESTIMATOR: TokenCounter = Estimator("cl100k_base")
"""The estimator of the encoding that pays the most, for every model whose encoding is not known."""

_O200K_ESTIMATOR: TokenCounter = Estimator("o200k_base")
_ESTIMATORS = {"o200k_base": _O200K_ESTIMATOR, "o200k_harmony": _O200K_ESTIMATOR}


@dataclass(frozen=True, eq=False)
class EncodingCounter:
    """Counts with a tiktoken encoding, in slices."""

    name: str
    encoding: tiktoken.Encoding = field(repr=False)
    exact: bool = True

    def text(self, text: str) -> int:
        if len(text) <= _NAME:
            return _again(self, text)
        return sum(self._slice(text[start : start + _SLICE]) for start in range(0, len(text), _SLICE))

    def _slice(self, text: str) -> int:
        try:
            return len(self.encoding.encode_ordinary(text))
        except BaseException as error:
            # A panic of the Rust side derives from BaseException, and its class cannot be imported.
            if type(error).__name__ != "PanicException":
                raise
            return _ESTIMATORS.get(self.name, ESTIMATOR).text(text)


@lru_cache(4096)
def _again(counter: EncodingCounter, text: str) -> int:
    return counter._slice(text)


_counters: dict[str, TokenCounter] = {}
_loading = threading.Lock()


def encoding_for(tokenizer: str, model_name: str | None) -> str:
    """The encoding that a setting and a model mean, be it counted with or estimated."""
    if tokenizer not in ("auto", "estimate"):
        return tokenizer
    return (encoding_name(model_name) if model_name else None) or _DEFAULT_ENCODING


def estimator_for(tokenizer: str = "auto", model_name: str | None = None) -> TokenCounter:
    """The estimator of that encoding; always the same object, and no file is read."""
    return _ESTIMATORS.get(encoding_for(tokenizer, model_name), ESTIMATOR)


def ready_counter(tokenizer: str = "auto", model_name: str | None = None) -> TokenCounter | None:
    """The counter if it was loaded before, else None; reads no file."""
    if tokenizer == "estimate":
        return estimator_for(tokenizer, model_name)
    return _counters.get(encoding_for(tokenizer, model_name))


def load_counter(tokenizer: str = "auto", model_name: str | None = None) -> TokenCounter:
    """The counter for a setting and a model, an estimator where ranks are missing. Reads files the first time."""
    if tokenizer == "estimate":
        return estimator_for(tokenizer, model_name)
    name = encoding_for(tokenizer, model_name)
    with _loading:
        if name not in _counters:
            _counters[name] = _load(name)
        return _counters[name]


def _load(name: str) -> TokenCounter:
    try:
        encoding = load_encoding(name)
    except Exception:
        logger.exception("Encoding %r could not be loaded: token counts are estimates.", name)
        return estimator_for(name)
    if encoding is None:
        logger.warning("No token ranks for encoding %r on this machine: token counts are estimates.", name)
        return estimator_for(name)
    return EncodingCounter(name, encoding)


def count_message(counter: TokenCounter, message: BaseMessage) -> int:
    """Tokens of a message as it is sent; metadata, usage and artifacts are not."""
    return sum(part if isinstance(part, int) else counter.text(part) for part in message_parts(message))


def count_tools(counter: TokenCounter, tools: Sequence[BaseTool | dict[str, Any] | Callable[..., Any]]) -> int:
    """Tokens of the schemas of tools, as JSON."""
    return sum(counter.text(_tool_text(tool)) for tool in tools)


def _tool_text(tool: Any) -> str:
    try:
        return to_json(convert_to_openai_tool(tool))
    except Exception:  # noqa: BLE001 - a tool of a foreign kind must not fail a run only because it is counted
        return repr(tool)
