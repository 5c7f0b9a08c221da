"""Summaries that are bought ahead, in the background, beside other middleware."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    PIIMiddleware,
    TodoListMiddleware,
    ToolRetryMiddleware,
)

from tests.neighbours.agents import LONG, REQUEST, Provider, assert_single, assert_sound, beside, say
from tests.support.graphs import MODES, grab, looping

pytestmark = pytest.mark.slow

AHEAD = {"compaction.prefetch_ratio": 0.6}
NEIGHBOURS: dict[str, dict[str, Any]] = {
    "none": {},
    "fallback": {"outer": [ModelFallbackMiddleware(Provider(model_name="spare"))]},
    "retries": {
        "outer": [ModelRetryMiddleware(initial_delay=0)],
        "inner": [ToolRetryMiddleware(initial_delay=0)],
    },
    "redaction": {"outer": [PIIMiddleware("email", apply_to_tool_results=True)]},
    "approval": {"outer": [HumanInTheLoopMiddleware({"other": True})]},
    "prompt and limit": {"outer": [TodoListMiddleware(system_prompt="Plan."), ModelCallLimitMiddleware(run_limit=90)]},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("neighbour", NEIGHBOURS)
async def test_what_is_bought_ahead_is_paid_once_and_every_request_is_sound(neighbour, mode):
    model = Provider(replies=looping(6))
    talk = beside(**NEIGHBOURS[neighbour], settings=AHEAD, model=model, tools=[grab(1500)], mode=mode)
    for turn in range(5):
        await say(talk, *(LONG if turn == 0 else ()), f"{turn}: {REQUEST}")
    await talk.memory.adrain()
    assert_sound(model, REQUEST)
    assert_single(await talk.history())
    assert talk.named("compacted")
    assert len({request.text for request in talk.side.requests}) == len(talk.side.requests)
