"""A summariser without a model: the last words of what it was given, under the usual headings.

It is the same for every policy, so the differences between them are their own. It never refuses and never fails, and
like many a model it does not obey a limit on its length.
"""

import re
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

from .texts import text_of

WORDS = 420
_SUMMARY = """\
## SESSION INTENT
Continue the recorded task.
## SUMMARY
{}
## ARTIFACTS
None
## NEXT STEPS
Go on."""


class ScriptedSummariser(BaseChatModel):
    """Keeps what it was asked and what it replied; counting that is left to others."""

    profile: Any = None
    exchanges: list[tuple[str, str]] = Field(default_factory=list)
    """Prompt and reply of each request."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        prompt = "\n".join(map(text_of, messages))
        reply = _SUMMARY.format(" ".join(re.findall(r"\w{4,}", prompt)[-WORDS:]))
        self.exchanges.append((prompt, reply))
        return ChatResult(generations=[ChatGeneration(message=AIMessage(reply))])
