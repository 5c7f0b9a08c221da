"""A model without a model, so that the notebooks run anywhere: what it answers is a rule.

In every other respect it is used as a provider's model is. It sees nothing but the request, counts it, says in
`usage_metadata` how much of it a prompt cache has, and refuses a request that is larger than its window. The rules are
in `rules.py`. `choose_model` gives a real model instead if the variable `NOTEBOOK_MODEL` names one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field

from langgraph_memory.context.tokens import count_message, count_tools, load_counter

VARIABLE = "NOTEBOOK_MODEL"
COUNTER = load_counter("cl100k_base")

Rule = Callable[[Sequence[BaseMessage]], "AIMessage | str"]


def choose_model(rule: Rule, window: int = 128_000) -> BaseChatModel:
    """The model that `NOTEBOOK_MODEL` names (`openai:gpt-5.5`, with the provider's key set), else `rule`."""
    if name := os.environ.get(VARIABLE):
        from langchain.chat_models import init_chat_model

        return init_chat_model(name)
    return OfflineModel(rule=rule, window=window)


@dataclass(frozen=True)
class Request:
    """A request that was answered, in tokens."""

    sent: int
    cached: int
    """At its front what the request before had at its front too."""


class OfflineModel(BaseChatModel):
    """A chat model whose replies are a function of the request."""

    rule: Any
    window: int = 128_000
    requests: list[Request] = Field(default_factory=list)
    """The agent's own."""
    side_requests: list[Request] = Field(default_factory=list)
    """For summaries and memories, which the memory asks for."""
    before: list[BaseMessage] = Field(default_factory=list)
    """What the newest of the agent's requests held."""
    sizes: dict[str, int] = Field(default_factory=dict)
    """Tokens of messages that were counted."""

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self.profile = {"max_input_tokens": self.window}

    @property
    def _llm_type(self) -> str:
        return "offline"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Runnable[Any, Any]:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **options)

    def _generate(self, messages: list[BaseMessage], stop: Any = None, *_: Any, **options: Any) -> ChatResult:
        tools = count_tools(COUNTER, options.get("tools") or [])
        sizes = [self._size(message) for message in messages]
        sent = tools + sum(sizes)
        if sent > self.window:
            raise ContextOverflowError(
                f"This model's maximum context length is {self.window} tokens. However, your request has {sent} tokens."
            )
        side = next((answer for tag, answer in SIDE_RULES.items() if tag in messages[-1].text), None)
        if side:
            self.side_requests.append(Request(sent, 0))
            return _result(AIMessage(side(messages[-1].text)), sent, 0)
        same = _common(self.before, messages)
        cached = tools + sum(sizes[:same]) if same else 0
        self.before = list(messages)
        self.requests.append(Request(sent, cached))
        reply = self.rule(messages)
        return _result(AIMessage(reply) if isinstance(reply, str) else reply, sent, cached)

    def _size(self, message: BaseMessage) -> int:
        seen = repr((message.type, message.content, getattr(message, "tool_calls", None)))
        if seen not in self.sizes:
            self.sizes[seen] = count_message(COUNTER, message)
        return self.sizes[seen]


def _common(old: Sequence[BaseMessage], new: Sequence[BaseMessage]) -> int:
    pairs = zip(old, new, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(old), len(new)))


def _result(reply: AIMessage, sent: int, cached: int) -> ChatResult:
    said = count_message(COUNTER, reply)
    details = InputTokenDetails(cache_read=cached)
    usage = UsageMetadata(input_tokens=sent, output_tokens=said, total_tokens=sent + said, input_token_details=details)
    return ChatResult(generations=[ChatGeneration(message=reply.model_copy(update={"usage_metadata": usage}))])


# What the memory asks its model for: a summary, memories, MEMORY.md


def summary(prompt: str) -> str:
    """The questions of the user and the last line that the assistant said to each."""
    previous, messages = _inside(prompt, "previous_summary"), _inside(prompt, "messages")
    known = [line for line in previous.splitlines() if line.startswith("- ")]
    for part in messages.split("\n\n["):
        role, _, text = part.removeprefix("[").partition("]\n")
        lines = [line for line in text.splitlines() if line and not line.startswith("→")]
        if role == "user" and lines:
            known.append(f"- asked: {lines[-1]}")
        elif role == "assistant" and lines and "→" not in text:
            known.append(f"- answered: {lines[0]}")
    first = next((line for line in known if line.startswith("- asked")), "- asked: see below")
    return "\n".join(
        ["## SESSION INTENT", first[2:], "## SUMMARY", *known[-30:], "## ARTIFACTS", "## NEXT STEPS", "Go on."]
    )


def memories(prompt: str) -> str:
    """Whatever the user stated, a sentence a line, without questions."""
    said = [line.partition(": ")[2] for line in _inside(prompt, "messages").splitlines() if "] user" in line]
    stated = [one for text in said for one in re.split(r"(?<=[.!?]) ", text) if one and not one.endswith("?")]
    return "\n".join(f"- {one}" for one in stated) or "NO_REPLY"


def memory_file(prompt: str) -> str:
    """The file with the new entries in it; what is said anew of the same thing takes the place of what was said."""
    lines = _inside(prompt, "curated_memory").strip().splitlines() or ["# What I know"]
    for line in _inside(prompt, "new_entries").splitlines():
        text = re.sub(r"^- (\S+ \S+ \[\w+\] )?", "", line.strip())
        if not text:
            continue
        subject = text.partition(" is ")[0]
        places = (i for i, one in enumerate(lines) if one.removeprefix("- ").partition(" is ")[0] == subject)
        place = next(places, len(lines))
        lines[place : place + 1] = [f"- {text}"]
    return "<memory_file>\n" + "\n".join(lines) + "\n</memory_file>"


def _inside(prompt: str, tag: str) -> str:
    """What stands between the last opening tag of a name and its end."""
    return prompt.rpartition(f"<{tag}>\n")[2].partition(f"\n</{tag}>")[0]


SIDE_RULES = {
    "<new_entries>\n": memory_file,
    "<previous_summary>\n": summary,
    "You keep the long-term memory of an assistant. Below": memories,
}
