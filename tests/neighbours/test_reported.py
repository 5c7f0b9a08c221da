"""Each of these fails at the time of writing; see the report for the change that makes it pass."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ModelCallLimitMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
)
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Send

from langgraph_memory import ContextBudgetError, MemoryMiddleware, MemoryState
from langgraph_memory.models import model_name, model_window
from tests.neighbours.agents import LONG, NOT_AHEAD, REQUEST, WINDOW, Provider, assert_sound, beside, leaving, say
from tests.neighbours.test_subgraphs import KEEPS
from tests.support.graphs import MODES, Talk, chat, configured, grab, looping, node_graph, text_of, thread
from tests.support.models import GOOD, Scripted, content_text, numbered_summaries

pytestmark = pytest.mark.slow

AT_ONCE: dict[str, Any] = {"initial_delay": 0, "backoff_factor": 0}


class Adding(AgentMiddleware[Any, Any, Any]):
    """As in LangChain's own guide to context engineering."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(request.override(messages=[*request.messages, {"role": "user", "content": "it is noon"}]))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(request.override(messages=[*request.messages, {"role": "user", "content": "it is noon"}]))


@pytest.mark.parametrize("mode", MODES)
async def test_1_a_message_that_an_outer_middleware_adds_as_a_dict_is_sent(mode):
    talk = beside(outer=[Adding()], mode=mode)
    await say(talk, *LONG, REQUEST)
    assert_sound(talk.model, REQUEST)
    assert "it is noon" in text_of(talk.model.last)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: model.with_retry(),
        lambda model: model.bind_tools([grab(1)]).with_retry(),
        lambda model: Provider(window=60_000, model_name="large").with_fallbacks([model]),
        lambda model: model.with_fallbacks([Provider(window=60_000, model_name="large")]),
        lambda model: model.with_retry().with_config(tags=["x"]),
    ],
)
def test_2_the_window_of_a_wrapped_model_is_the_smallest_that_a_call_may_reach(wrap):
    assert model_window(wrap(Provider())) == WINDOW
    assert model_name(wrap(Provider())) in ("scripted", "large")


async def test_2_in_a_plain_graph_a_fallback_gets_a_view_that_fits_it():
    large, small = Provider(window=60_000, replies=RuntimeError("503")), Provider(model_name="small")
    memory = MemoryMiddleware(configured(NOT_AHEAD), model=numbered_summaries())
    graph = node_graph(memory, large.with_fallbacks([small]), tools=[grab(10)])
    await graph.ainvoke({"messages": [*LONG, HumanMessage(REQUEST)]}, thread())
    assert_sound(small, REQUEST)


async def test_2_a_summary_is_never_asked_for_with_the_tools_of_a_wrapped_model():
    model = Provider(replies=looping(3))
    memory = MemoryMiddleware(configured({"context_window": WINDOW}))
    bound = model.bind_tools([grab(10)])
    graph = node_graph(memory, bound.with_fallbacks([bound]))
    await graph.ainvoke({"messages": [*LONG, HumanMessage(REQUEST)]}, thread())
    assert all(request.tools == [] for request in model.requests if "previous_summary" in request.text)


@pytest.mark.parametrize("mode", MODES)
async def test_3_a_window_named_by_a_fallback_behind_the_memory_is_not_taken_for_that_of_the_first_model(mode):
    down = [True]
    large = Provider(window=60_000, model_name="large", replies=lambda _: RuntimeError("503") if down[0] else "ok")
    talk = beside(inner=[ModelFallbackMiddleware(Provider(model_name="small"))], model=large, mode=mode)
    await say(talk, *LONG, REQUEST)
    down[0] = False
    await say(talk, "and back")
    assert (await talk.report()).window == 60_000


@pytest.mark.parametrize("mode", MODES)
async def test_4_a_thread_that_ended_at_a_limit_is_still_ended_after_it_was_compacted_by_hand(mode):
    limit = ModelCallLimitMiddleware(run_limit=2)
    talk = beside(outer=[limit], model=Provider(window=60_000, replies=looping(5)), tools=[grab(300)], mode=mode)
    await say(talk, *LONG, REQUEST)
    await talk.memory.compact(talk.graph, talk.config)
    assert (await talk.graph.aget_state(talk.config)).next == ()
    await talk.memory.compact(talk.graph, talk.config)


@pytest.mark.parametrize("mode", MODES)
async def test_5_a_view_that_cannot_fit_is_not_tried_again_and_not_given_out_as_an_answer(mode):
    retry = ModelRetryMiddleware(max_retries=2, **AT_ONCE)
    talk = beside(outer=[retry], model=Provider(window=600), settings={"budget.system_tokens": 500}, mode=mode)
    with pytest.raises(ContextBudgetError) as caught:
        await say(talk, REQUEST + " word" * 900)
    assert isinstance(caught.value, ContextOverflowError)


async def test_6_a_worker_does_not_wait_for_what_is_bought_ahead_for_another_one_beside_it():
    """Both run at once in the same namespace of a thread, sent to one node; the summariser hangs for the first."""
    free = asyncio.Event()

    class Side(Scripted):
        async def _agenerate(self, messages: list[BaseMessage], *_: Any, **options: Any) -> Any:
            if "alpha" in text_of(messages):
                await free.wait()
            return self._generate(messages, **options)

    memory = MemoryMiddleware(configured(), model=Side(replies=GOOD))
    worker = create_agent(Provider(), [], middleware=[memory])
    ended = []

    async def work(job: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0.3 * job["number"])
        async with asyncio.timeout(5):
            await worker.ainvoke({"messages": job["messages"]})
        ended.append(job["number"])
        return {}

    near, over = chat(11, chars=1000, text="alpha "), chat(14, chars=1600, text="bravo ")
    jobs = [{"number": n, "messages": [*m, HumanMessage("go")]} for n, m in enumerate((near, over))]
    builder = StateGraph(MemoryState)
    builder.add_node("work", work)
    builder.add_conditional_edges(START, lambda _: [Send("work", job) for job in jobs], ["work"])
    await builder.compile().ainvoke({"messages": []}, thread())
    assert memory.background._running
    assert ended == [0, 1]
    free.set()
    await memory.adrain()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("keeps", KEEPS)
async def test_7_messages_never_leave_the_list_of_a_graph_that_is_given_it_by_another_one(keeps, mode):
    """The parent's list comes again with every turn; what had left would be put behind what had stayed."""
    saver, model, side = InMemorySaver(), Provider(window=8000, replies=looping(3)), numbered_summaries()
    memory = MemoryMiddleware(leaving(configured(NOT_AHEAD)), model=side, saver=saver)
    builder = StateGraph(MemoryState)
    builder.add_node("worker", create_agent(model, [grab(1500)], middleware=[memory], **KEEPS[keeps]))
    builder.add_edge(START, "worker")
    talk = Talk(memory, builder.compile(checkpointer=saver), model, side, [], thread(), mode)
    for turn in range(5):
        await say(talk, *(LONG if turn == 0 else ()), f"{turn}: {REQUEST}")
    texts = [content_text(m) for m in await talk.history()]
    order = {text: position for position, text in enumerate(texts) if texts.count(text) == 1}
    for request in model.requests:
        shown = [order[text] for m in request.messages if (text := content_text(m)) in order]
        assert shown == sorted(shown)
    assert len(side.requests) < 8
