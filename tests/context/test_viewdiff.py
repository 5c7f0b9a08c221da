from langchain_core.messages import AIMessage, HumanMessage

from langgraph_memory import ViewDiff
from langgraph_memory.context.record import Remembered, Watermark
from tests.context.test_explain import explain, summary
from tests.support.graphs import chat, rounds

HISTORY = [HumanMessage("go", id="h"), *rounds(5, chars=12_000)]
PRUNED = {"watermark": Watermark("r1", 3000, 10_000)}


def kinds(found: ViewDiff) -> list[tuple[str, str | None]]:
    return [(change.what, change.id) for change in found.changes]


def test_a_view_is_the_same_as_itself():
    found = ViewDiff.of(explain(HISTORY), explain(HISTORY))
    assert found.same and found.first_changed is None and found.stable == len(HISTORY)
    assert {change.what for change in found.changes} == {"same"}


def test_a_view_that_goes_on_breaks_no_cache():
    found = ViewDiff.of(explain(HISTORY[:3]), explain(HISTORY))
    assert not found.same and found.first_changed is None and found.stable == 3
    assert [change.what for change in found.changes] == ["same"] * 3 + ["new"] * 8


def test_what_was_cleared_is_named_and_is_where_the_cache_breaks():
    found = ViewDiff.of(explain(HISTORY), explain(HISTORY, **PRUNED))
    changed = [change for change in found.changes if change.what == "changed"]
    assert [(change.id, change.how) for change in changed] == [
        ("r0", "as it is → cleared"),
        ("r1", "as it is → cleared"),
    ]
    assert found.first_changed == 3 and found.stable == 2
    assert changed[0].tokens_before > 1000 > changed[0].tokens_after
    before, after = found.parts["tool"]
    assert before - after == found.total[0] - found.total[1] > 0


def test_what_a_summary_covers_is_gone_from_where_it_stood():
    history = chat(4)
    found = ViewDiff.of(explain(history), explain(history, summary=summary(history, 5, ("q2",))))
    assert kinds(found)[0] == ("new", found.changes[0].id) and found.changes[0].how == "summary"
    gone = [change for change in found.changes if change.what == "gone"]
    assert [change.id for change in gone] == ["q0", "a0", "q1", "a1", "q2"]
    assert {change.how for change in gone} == {"as it is → covered by the summary"}
    assert found.first_changed == 1


def test_a_larger_summary_is_a_change_of_the_summary():
    history = chat(6)
    old, new = (explain(history, summary=summary(history, count)) for count in (4, 8))
    assert "summary of 4 → 8 messages" in ViewDiff.of(old, new).changes[0].how


def test_changed_memories_are_named():
    old, new = (
        explain(chat(2), remembered=Remembered("ada", text)) for text in ("<curated_memory>a", "<curated_memory>b")
    )
    found = ViewDiff.of(old, new)
    assert found.changes[0].how == "curated changed" and found.first_changed == 1
    assert ViewDiff.of(explain(chat(2)), new).changes[0].how == "curated added"


def test_messages_without_ids_and_with_the_same_id_are_told_apart():
    view = explain([HumanMessage("a"), AIMessage("b", id="x"), HumanMessage("c"), AIMessage("d", id="x")])
    assert [change.what for change in ViewDiff.of(view, view).changes] == ["same"] * 4


def test_as_json_it_has_sizes_before_and_after():
    found = ViewDiff.of(explain(HISTORY), explain(HISTORY, **PRUNED)).to_json()
    assert found["total"]["before"] > found["total"]["after"]
    assert found["changes"][2]["how"] == "as it is → cleared"
