"""A provider that finds the context too long, as an agent with real files and a real HTTP client meets it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI

from tests.live.programs import (
    ASKED,
    BOTH,
    KINDS,
    MODES,
    TALK,
    Program,
    answering,
    calls,
    refusals,
    said,
    showing,
    summaries,
    text_of,
)
from tests.support.graphs import rounds
from tests.support.server import FAILED, FORMS, Events, ModelServer, Request
from tests.support.validity import faults

pytestmark = pytest.mark.slow

LIMIT = 2500
both_kinds = pytest.mark.parametrize("kind", KINDS)
both_modes = pytest.mark.parametrize("mode", MODES)
both = pytest.mark.parametrize(("kind", "mode"), BOTH)


def refusing(form: str) -> Any:
    """An answer that calls every request too long, however short it is."""
    return lambda request: FORMS[form](request, LIMIT)


@both_kinds
@both_modes
@pytest.mark.parametrize(("form", "streaming"), [("openai", False), ("in the stream", True)])
def test_a_turn_with_tool_results_goes_on_after_a_refusal_in_its_middle(tmp_path, form, streaming, mode, kind):
    logs = [tmp_path / f"{name}.log" for name in ("north", "south")]
    for log in logs:
        log.write_text(f"{log.stem} pier: berth 9 is free\n" + "all quiet\n" * 250, encoding="utf-8")
    script = answering(showing(logs[0], "c1"), showing(logs[1], "c2"), "booked", "done")
    # What was said before fits; what the tools bring does not.
    with ModelServer(script, limit=5000, form=form) as server:
        program = Program(server.url, str(tmp_path), kind, mode, streaming)
        program.run([*TALK[:40], TALK[-1]])
        refused = [request for request in calls(server) if request.tokens > 5000]
        assert len(refused) == 1
        assert len(calls(server)) == 4
        assert all(refusals(request) == [] for request in calls(server))
        assert ASKED in text_of(calls(server)[-1])
        assert len(program.named("overflow_recovered")) == 1
        look = program.look()
        assert said(look.messages[:41]) == said([*TALK[:40], TALK[-1]])
        results = [m.content for m in look.messages if isinstance(m, ToolMessage)]
        assert results == [log.read_text(encoding="utf-8") for log in logs]
        assert [m.type for m in look.messages[41:]] == ["ai", "tool", "ai", "tool", "ai"]
        assert look.messages[-1].content == "booked"
        assert max(Counter(m.id for m in look.messages).values()) == 1
        assert faults(look.view) == []
        # Another program goes on with the thread, and the decision holds.
        assert program.run("anything else?")[0]["messages"][-1].content == "done"
        assert len(calls(server)) == 5


@both
@pytest.mark.parametrize(("form", "streaming"), [("anthropic", False), ("openai", True), ("in the stream", True)])
def test_after_a_second_refusal_the_error_is_raised_and_the_turn_can_be_taken_up_later(
    tmp_path, form, streaming, mode, kind
):
    script = answering(refusing(form), refusing(form), "booked")
    with ModelServer(script) as server:
        program = Program(server.url, str(tmp_path), kind, mode, streaming)
        with pytest.raises(Exception, match=r"context|too long"):
            program.run(TALK)
        assert len(calls(server)) == 2
        assert calls(server)[1].tokens < calls(server)[0].tokens
        assert program.named("overflow_recovered") == []
        assert said(program.look().messages) == said(TALK)
        bought = len(summaries(server))
        assert program.run(None)[0]["messages"][-1].content == "booked"
        assert said(program.look().messages) == [*said(TALK), ("ai", "booked")]
        assert len(calls(server)) == 3
        assert len(summaries(server)) == bought


@both
@pytest.mark.parametrize(
    ("form", "streaming"), [("openai", False), ("vllm sum", True), ("413 of a proxy", False), ("in the stream", True)]
)
def test_with_compaction_switched_off_the_error_is_the_one_of_the_client(tmp_path, form, streaming, mode, kind):
    with ModelServer(refusing(form)) as server:
        with pytest.raises(Exception) as bare:
            ChatOpenAI(base_url=server.url, api_key="x", model="m", max_retries=0, streaming=streaming).invoke("hello")
        asked = len(server.requests)
        program = Program(server.url, str(tmp_path), kind, mode, streaming, {"compaction": {"enabled": False}})
        with pytest.raises(Exception) as caught:
            program.run([HumanMessage(ASKED, id="go"), *rounds(8, chars=4000)])
        assert type(caught.value) is type(bare.value)
        assert without_figures(caught.value) == without_figures(bare.value)
        assert len(server.requests) == asked + 1


def without_figures(error: BaseException) -> str:
    return "".join(character for character in str(error) if not character.isdigit())


@both
def test_the_user_sees_the_answer_once(tmp_path, mode, kind):
    with ModelServer(answering("berth nine is booked"), limit=LIMIT) as server:
        program = Program(server.url, str(tmp_path), kind, mode, streaming=True)
        chunks = program.stream(TALK, "messages")
        assert "".join(chunk.text for chunk, _ in chunks if chunk.type != "human") == "berth nine is booked"
        assert len(calls(server)) == 2


@both_kinds
@both_modes
def test_an_answer_that_broke_off_for_lack_of_context_is_not_kept(tmp_path, mode, kind):

    def breaking(request: Request) -> Events:
        """As local servers do it where the answer itself fills the context."""
        choice = {"index": 0, "delta": {"role": "assistant", "content": "berth ni"}, "finish_reason": None}
        half = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]}
        refusal = FORMS["in the stream"](request, LIMIT)
        assert isinstance(refusal, Events)
        return Events([half, *refusal.events])

    with ModelServer(answering(breaking, "berth nine is booked")) as server:
        program = Program(server.url, str(tmp_path), kind, mode, streaming=True)
        assert program.run(TALK)[0]["messages"][-1].content == "berth nine is booked"
        assert said(program.look().messages) == [*said(TALK), ("ai", "berth nine is booked")]
        assert len(calls(server)) == 2


@both
def test_a_failure_of_the_second_try_is_the_one_that_is_raised(tmp_path, mode, kind):
    with ModelServer(answering(refusing("openai"), FAILED, "booked")) as server:
        program = Program(server.url, str(tmp_path), kind, mode)
        with pytest.raises(Exception, match="500") as caught:
            program.run(TALK)
        assert "context length" not in str(caught.value)
        assert len(calls(server)) == 2
        assert said(program.look().messages) == said(TALK)
