"""The demo of `lgm chat`: no model, but fixed rules that use the same tools, so that it needs no key and no network.

What is to be remembered or forgotten goes to the long-term memory; a question about the one who asks is looked up
there, one about the beginning of the thread in the thread; anything else is searched in the folder and read where most
of its words stand. The rules look at the current turn only, as those of the sample do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from langgraph_memory import RuntimeConfig
from langgraph_memory.context.text import message_text, to_json
from langgraph_memory.longterm.stop_words import ENGLISH

from .sample import PAGE, SAMPLE_WINDOW, hits_of, pages_of

WORDS = 3
"""Words of a question that are searched for."""
READS = 2
SHOWN = 6

INTRODUCTION = (
    "I am the demo of lgm chat: fixed rules, no language model. Ask about the files of this folder and I search and "
    'read them; say "remember that …" or "forget …", and ask "what is my …?" in any later thread of yours; ask "what '
    'did I ask first?". Each of my tool results fills the small window, so you soon see results being pruned and old '
    "messages summarised; /context shows where the window goes, /help the commands. With a key of a provider, leave "
    "out --model demo."
)
SAVE = re.compile(r"\W*(?:please\s+)?remember\b(?:\s+that\b)?[\s:,]*(.+)", re.IGNORECASE | re.DOTALL)
FORGET = re.compile(r"\W*(?:please\s+)?forget\b(?:\s+that\b)?[\s:,]*(.+)", re.IGNORECASE | re.DOTALL)
FIRST = re.compile(r"\b(?:I|we)\b.*\b(?:ask|asked|say|said)\b.*\b(?:first|begin|beginning|start)\b", re.IGNORECASE)
ABOUT_ME = re.compile(r"\b(?:my|me|I|our|we|us)\b", re.IGNORECASE)
SMALL_TALK = frozenset({"hello", "hi", "hey", "help", "thanks", "thank", "demo", "good", "morning", "evening"})

Calls = list[tuple[str, dict[str, Any]]]


def demo_config(config: RuntimeConfig) -> RuntimeConfig:
    """`config` with a small window, unless it names one, and with the whole turn in the state."""
    values = config.model_dump()
    if values["memory"]["context_window"] == "auto":
        values["memory"]["context_window"] = SAMPLE_WINDOW
    values["persistence"]["state"] = "all"
    return RuntimeConfig.model_validate(values)


class DemoModel(BaseChatModel):
    """The rules as a chat model that streams its words."""

    @property
    def _llm_type(self) -> str:
        return "demo"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=reply(messages))])

    def _stream(self, messages: list[BaseMessage], *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        message = reply(messages)
        for word in re.findall(r"\S+\s*", message.text):
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))
        calls = [
            {"name": call["name"], "args": to_json(call["args"]), "id": call["id"], "index": number}
            for number, call in enumerate(message.tool_calls)
        ]
        yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=calls, chunk_position="last"))


def reply(history: Sequence[BaseMessage]) -> AIMessage:
    """What the demo says after `history`, in which the newest human message opens the current turn."""
    start = max(i for i, message in enumerate(history) if isinstance(message, HumanMessage))
    results = [message for message in history[start + 1 :] if isinstance(message, ToolMessage)]
    text, calls = _step(message_text(history[start]).strip(), results)
    named = [{"id": f"call-{uuid4().hex[:12]}", "name": name, "args": args} for name, args in calls]
    return AIMessage(text, tool_calls=named)


def _step(request: str, results: Sequence[ToolMessage]) -> tuple[str, Calls]:
    newest = message_text(results[-1]) if results else ""
    if FIRST.search(request):
        return _asked_first(newest)
    if (saved := SAVE.fullmatch(request)) and not request.endswith("?"):
        return _used("memory_save", {"text": saved[1].strip()}, newest, "That goes into your memory.")
    if (gone := FORGET.fullmatch(request)) and not request.endswith("?"):
        return _used("memory_forget", {"text": gone[1].strip(" .!")}, newest, "I remove it from your memory.")
    words = words_of(request)
    if not words:
        return INTRODUCTION, []
    if request.endswith("?") and ABOUT_ME.search(request):
        return _used("memory_search", {"query": request}, newest, "I look into your memory.")
    return _looked_up(words, results)


def words_of(request: str) -> list[str]:
    """The words of a question that are worth a search, the longest first."""
    words = dict.fromkeys(re.findall(r"\w{3,}", request.lower()))
    telling = [word for word in words if word not in ENGLISH and word not in SMALL_TALK]
    return sorted(telling, key=len, reverse=True)[:WORDS]


def _used(tool: str, args: dict[str, Any], result: str, before: str) -> tuple[str, Calls]:
    if not result:
        return before, [(tool, args)]
    # Of what was found, the notes: what was said in this thread is known.
    notes = re.findall(r"^- .* · memory/.*$|^- .* · MEMORY\.md.*$", result, re.MULTILINE)
    return "\n".join(["The memory says:", *notes]) if notes else f"The memory says: {result}", []


def _asked_first(result: str) -> tuple[str, Calls]:
    if not result:
        return "I look it up in the thread.", [("recall", {"ref": "history", "limit": 2000})]
    first = re.search(r"^\[human[^\]]*\]\n(.+)$", result, re.MULTILINE)
    return f"Your first message was: {first[1] if first else 'none that I can find.'}", []


def _looked_up(words: Sequence[str], results: Sequence[ToolMessage]) -> tuple[str, Calls]:
    """List, search, read, answer: the next of these steps."""
    done = [message.name for message in results]
    if "list_files" not in done:
        return "I look at the folder.", [("list_files", {})]
    if "grep" not in done:
        calls: Calls = [("grep", {"pattern": re.escape(word), "ignore_case": True}) for word in words]
        return f"I search for {', '.join(words)}.", calls
    pages = pages_of(results)
    if (number := done.count("read")) < min(READS, len(pages)):
        path, first = pages[number]
        return f"I read {path} from line {first}.", [("read", {"path": path, "start": first, "lines": PAGE})]
    return _answer(words, results), []


def _answer(words: Sequence[str], results: Sequence[ToolMessage]) -> str:
    lines = dict.fromkeys(hits_of(results))
    if not lines:
        return f"No file of the folder holds {' or '.join(words)}. (I am the demo: fixed rules, no language model.)"
    best = sorted(lines, key=lambda hit: -sum(word in hit[2].lower() for word in words))[:SHOWN]
    shown = [f"- {path}, line {line}: {text}" for path, line, text in best]
    return "\n".join([f"These lines hold most of {', '.join(words)}:", *shown])
