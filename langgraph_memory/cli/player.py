"""A chat model that says what a script tells it, and counts what it is sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from .meter import Meter

Script = Callable[[Sequence[BaseMessage]], AIMessage]
"""The reply to a history."""


class Player(BaseChatModel):
    """Invoked with a view like any model; `history` is the whole thread, which only the script looks at."""

    script: Script
    meter: Any
    cache: bool | None = False

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        history: Sequence[BaseMessage] = kwargs["history"]
        meter: Meter = self.meter
        reply = meter.answered(self.script(history), meter.measure(messages, history))
        return ChatResult(generations=[ChatGeneration(message=reply)])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._generate(messages, stop, **kwargs)
