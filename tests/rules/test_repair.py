"""A call that nobody answered gets an error result in its place, in the view and nowhere else."""

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from tests.support.graphs import ENTRIES, GRAPHS, MODES, Bare, calls, chat, result, sent, talk
from tests.support.models import Scripted
from tests.support.validity import faults


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("behind", [1, 2, 5])
async def test_the_result_of_an_unanswered_call_stands_right_behind_it(entry, behind):
    received = await sent(entry, [HumanMessage("go"), calls("x"), *chat(behind)])
    assert [m.type for m in received[:4]] == ["human", "ai", "tool", "human"]
    assert (received[2].tool_call_id, received[2].status) == ("x", "error")
    assert str(received[2].content).strip()
    assert faults(received) == []


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("answered", [[], ["a"], ["b"], ["c", "a"], ["a", "b", "c"]])
async def test_of_parallel_calls_only_the_unanswered_ones_are_repaired(entry, answered):
    history = [
        HumanMessage("go"),
        calls("a", "b", "c"),
        *(result(i, f"real {i}") for i in answered),
        HumanMessage("so?"),
    ]
    received = await sent(entry, history)
    results = {m.tool_call_id: m for m in received if isinstance(m, ToolMessage)}
    assert set(results) == {"a", "b", "c"}
    assert {i for i, m in results.items() if m.status != "error"} == set(answered)
    assert all(results[i].content == f"real {i}" for i in answered)
    assert faults(received) == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", GRAPHS)
async def test_the_repair_is_never_written_into_the_state(kind, mode):
    talked = talk(kind=kind, mode=mode)
    await talked.send(HumanMessage("go"), calls("x"), HumanMessage("hello?"))
    await talked.send("and now?")
    assert [m.type for m in await talked.history()] == ["human", "ai", "human", "ai", "human", "ai"]
    assert not any(isinstance(m, ToolMessage) for m in await talked.history())


def test_a_late_result_takes_the_place_of_the_repair():
    bare = Bare()
    history: list[AnyMessage] = [HumanMessage("go"), calls("x"), HumanMessage("hello?"), AIMessage("one moment")]
    assert bare.sync(history)[2].status == "error"
    view = bare.sync([*history, result("x", "here it is")])
    assert [(m.type, m.content) for m in view[1:4]] == [("ai", ""), ("tool", "here it is"), ("human", "hello?")]
    assert faults(view) == []


def test_a_call_with_broken_arguments_is_answered_as_one_that_was_not_run():
    broken = AIMessage(
        [{"type": "tool_use", "id": "z1", "name": "dock", "input": {}}],
        invalid_tool_calls=[{"type": "invalid_tool_call", "id": "z1", "name": "dock", "args": '{"d":', "error": ""}],
    )
    view = Bare().sync([HumanMessage("go"), broken, HumanMessage("and?")])
    assert [m.type for m in view] == ["human", "ai", "tool", "human"]
    assert view[1] == broken
    assert (view[2].tool_call_id, view[2].status) == ("z1", "error")


def test_the_repair_is_the_same_bytes_on_every_call_and_after_a_restart():
    history = [HumanMessage("go"), calls("x", "y"), result("y"), HumanMessage("hello?")]
    first = Bare().sync(history)
    assert Bare().sync([*history, AIMessage("yes")])[: len(first)] == first


@pytest.mark.parametrize("keep", [1, 2, 4])
def test_an_abandoned_call_that_is_covered_leaves_nothing_behind(keep):
    history = [HumanMessage("go"), calls("x"), HumanMessage("forget it"), *chat(12, chars=800)]
    settings = {"context_window": 4000, "compaction.keep_messages": keep}
    bare = Bare(settings)
    view = bare.sync(history)
    assert faults(view) == []
    assert bare.named("compacted")


async def test_a_model_that_only_talks_still_answers_after_a_crash_between_call_and_result():
    talked = talk(model=Scripted(replies=["fine"]))
    await talked.graph.aupdate_state(talked.config, {"messages": [HumanMessage("go"), calls("x")]}, as_node="model")
    await talked.send("are you there?")
    assert faults(talked.model.last) == []
    assert (await talked.history())[-1].content == "fine"
