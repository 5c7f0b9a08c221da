"""Chat models that follow a script and remember what they were sent, as a provider would have received it."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field

Reply = str | AIMessage | BaseException


@dataclass(frozen=True)
class Request:
    """One request as the provider receives it. The messages are copies, so later changes do not show."""

    messages: list[BaseMessage]
    tools: list[str]
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return "\n".join(map(content_text, self.messages))


class Scripted(BaseChatModel):
    """Replies from a list (the last one again and again) or from a function of the request's messages.

    `usage` makes the `usage_metadata` of a reply from the request: input tokens, or None for none.
    """

    replies: Any = "ok"
    requests: list[Request] = Field(default_factory=list)
    usage: Any = None
    profile: Any = None
    model_name: str = "scripted"

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def last(self) -> list[BaseMessage]:
        """The messages of the newest request."""
        return self.requests[-1].messages

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Runnable[Any, Any]:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **options)

    def _generate(self, messages: list[BaseMessage], *_: Any, **options: Any) -> ChatResult:
        return _result(self._next(messages, options))

    def _next(self, messages: list[BaseMessage], options: dict[str, Any]) -> AIMessage:
        options = {key: value for key, value in options.items() if key != "run_manager"}
        tools = [tool["function"]["name"] for tool in options.pop("tools", ())]
        request = Request([message.model_copy(deep=True) for message in messages], tools, options)
        turn = len(self.requests)
        self.requests.append(request)
        return self._reply(request, turn)

    def _reply(self, request: Request, turn: int) -> AIMessage:
        reply: Reply = (
            self.replies(request.messages)
            if callable(self.replies)
            else self.replies[min(turn, len(self.replies) - 1)]
            if isinstance(self.replies, list)
            else self.replies
        )
        if isinstance(reply, BaseException):
            raise reply
        message = AIMessage(reply) if isinstance(reply, str) else reply.model_copy(deep=True)
        tokens = self.usage(request) if self.usage else None
        if tokens is not None:
            message.usage_metadata = {"input_tokens": tokens, "output_tokens": 10, "total_tokens": tokens + 10}
        return message


class Streaming(Scripted):
    """A scripted model that streams its text word by word."""

    def _stream(self, messages: list[BaseMessage], *_: Any, **options: Any) -> Iterator[ChatGenerationChunk]:
        run_manager = options.get("run_manager")
        for chunk in _chunks(self._next(messages, options)):
            if run_manager:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    async def _astream(
        self, messages: list[BaseMessage], *_: Any, **options: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        run_manager = options.get("run_manager")
        for chunk in _chunks(self._next(messages, options)):
            await asyncio.sleep(0)
            if run_manager:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk


class Hanging(Scripted):
    """A model that does not answer until `release` is set, whichever way it is called."""

    release: Any = Field(default_factory=threading.Event)

    def _generate(self, messages: list[BaseMessage], *_: Any, **options: Any) -> ChatResult:
        reply = self._next(messages, options)
        self.release.wait(30)
        return _result(reply)

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **options: Any) -> ChatResult:
        reply = self._next(messages, options)
        while not self.release.is_set():  # noqa: ASYNC110 - it is set from any thread
            await asyncio.sleep(0.01)
        return _result(reply)


class Slow(Scripted):
    """A model that takes `seconds` for every answer."""

    seconds: float = 0.1

    def _generate(self, messages: list[BaseMessage], *_: Any, **options: Any) -> ChatResult:
        time.sleep(self.seconds)
        return _result(self._next(messages, options))

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **options: Any) -> ChatResult:
        await asyncio.sleep(self.seconds)
        return _result(self._next(messages, options))


GOOD = "## SESSION INTENT\nSUMMARY-TEXT of the work\n## SUMMARY\nthe essentials\n## NEXT STEPS\ngo on"


def summariser(replies: Any = GOOD, **options: Any) -> Scripted:
    """A model for summaries: a good one unless `replies` says otherwise."""
    return Scripted(replies=replies, **options)


def numbered_summaries(**options: Any) -> Scripted:
    """A summariser whose texts are told apart: `SUMMARY-1`, `SUMMARY-2`, …"""
    replies = [GOOD.replace("SUMMARY-TEXT", f"SUMMARY-{number}") for number in range(1, 500)]
    return Scripted(replies=replies, **options)


def echo(messages: list[BaseMessage]) -> str:
    """Gives its whole input back."""
    return content_text(messages[-1])


def padded(messages: list[BaseMessage]) -> str:
    """Longer than its input."""
    return echo(messages) + "\n" + "and then some more about it. " * 2000


def appending(messages: list[BaseMessage]) -> str:
    """The previous summary in full, and something new behind it."""
    found = re.search(r"<previous_summary>\n(.*?)\n</previous_summary>", echo(messages), re.DOTALL)
    return f"{found[1] if found else ''}\n- " + "one more line about the berth and its tides " * 12


def call_message() -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "dock_list", "args": {}, "id": "s1"}])


BAD_MARK = "BAD-ANSWER"
"""Stands in every reply below that has a text which must not get into a view."""

UNUSABLE: dict[str, Reply | Callable[[list[BaseMessage]], Reply]] = {
    "raises": RuntimeError(f"429 slow down {BAD_MARK}"),
    "raises a timeout": TimeoutError(f"{BAD_MARK}"),
    "empty": "",
    "blank": "   \n\t",
    "empty blocks": AIMessage([]),
    "thinking only": AIMessage([{"type": "thinking", "thinking": f"{BAD_MARK} hmm", "signature": "x" * 50}]),
    "think tag only": f"<think>{BAD_MARK} long plan</think>   ",
    "unclosed think tag": f"<think>{BAD_MARK} and then the tokens ran out",
    "English refusal": f"I'm sorry, but I can't help with that. {BAD_MARK}",
    "Chinese refusal": f"抱歉，我无法满足这个请求。{BAD_MARK}",
    "refusal field": AIMessage(f"{BAD_MARK}", additional_kwargs={"refusal": "I will not do that."}),
    "cut short": AIMessage(f"## SUMMARY\n{BAD_MARK} the work was", response_metadata={"finish_reason": "length"}),
    "cut short, Anthropic": AIMessage(f"{BAD_MARK} work", response_metadata={"stop_reason": "max_tokens"}),
    "filtered": AIMessage(f"{BAD_MARK} the", response_metadata={"finish_reason": "content_filter"}),
    "tool call": call_message(),
    "tool call with text": AIMessage(BAD_MARK, tool_calls=[{"name": "dock_list", "args": {}, "id": "s2"}]),
    "longer than its input": lambda messages: f"{BAD_MARK} {padded(messages)}",
    "echo": lambda messages: f"{BAD_MARK} {echo(messages)}",
    "markup only": f"<call name=dock><arg>{BAD_MARK}</arg></call>",
    "call as JSON": f'{{"name": "dock_list", "arguments": {{"pier": "{BAD_MARK}"}}}}',
}
"""Replies that must never stand as a summary."""


def content_text(message: BaseMessage) -> str:
    """Every text in a message: content, text blocks and call arguments."""
    content = message.content
    texts = [content] if isinstance(content, str) else list(map(_block_text, content))
    calls = [f"{call['name']} {call['args']}" for call in getattr(message, "tool_calls", ())]
    return "\n".join([*texts, *calls])


def _block_text(block: Any) -> str:
    return block if isinstance(block, str) else str(block.get("text") or block.get("content") or "")


def _result(message: AIMessage) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=message)])


def _chunks(message: AIMessage) -> Iterator[ChatGenerationChunk]:
    words = re.findall(r"\S+\s*", str(message.content)) or [""]
    for number, word in enumerate(words):
        last = number == len(words) - 1
        chunk = AIMessageChunk(
            word,
            tool_call_chunks=[
                {"name": call["name"], "args": json.dumps(call["args"]), "id": call["id"], "index": i}
                for i, call in enumerate(message.tool_calls)
            ]
            if last
            else [],
            usage_metadata=message.usage_metadata if last else None,
        )
        yield ChatGenerationChunk(message=chunk)
