"""Pruning changes only the text of tool results, never makes one longer, and keeps its word on every later call."""

import json
import re
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage

from tests.support.graphs import (
    ENTRIES,
    GRAPHS,
    MODES,
    Bare,
    calls,
    chat,
    common_prefix,
    filled,
    grab,
    looping,
    result,
    rounds,
    sent,
    size,
    talk,
    text_of,
)
from tests.support.models import Scripted, summariser
from tests.support.validity import faults

AT_ONCE = {"pruning.min_reclaim_tokens": 0}
SCRIPTS = {"English": "row ", "Chinese": "潮汐", "emoji": "🛳️🇳🇴", "lines": "pier 7 is free\n"}


def results(messages: list[BaseMessage]) -> list[ToolMessage]:
    return [message for message in messages if isinstance(message, ToolMessage)]


def pruned(content: Any, **settings: Any) -> Any:
    """What is left of the content of a single old result."""
    history = [HumanMessage("go"), calls("x"), result("x", content, id="x1"), HumanMessage("next")]
    view = Bare({**AT_ONCE, "pruning.protect_recent": 0, **{f"pruning.{k}": v for k, v in settings.items()}}).sync(
        history
    )
    return view[2].content


# How much is left


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("over", [0, 1, 2, 30, 200, 3000])
def test_a_result_above_the_limit_is_cut_to_the_limit_and_one_at_the_limit_is_left(over, script):
    text = filled("", SCRIPTS[script], 3000 + over)
    left = pruned(text, soft_trim_chars=3000)
    assert len(left) <= max(3000, len(text) if over < 200 else 0)
    assert over or left == text


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("over", [1, 30, 90])
def test_a_cut_that_would_cost_more_tokens_than_it_frees_is_not_made(over, script):
    text = filled("", SCRIPTS[script], 3000 + over)
    assert size([result("x", pruned(text, soft_trim_chars=3000))]) <= size([result("x", text)])


@pytest.mark.parametrize("limit", [0, 1, 10, 40, 60, 61, 62, 100])
@pytest.mark.parametrize("chars", [1, 20, 55, 63, 101, 150])
def test_a_result_never_grows_however_small_the_limits_are(chars, limit):
    text = filled("", "潮row ", chars)
    left = pruned(text, soft_trim_chars=limit, hard_clear_threshold=max(limit, 120))
    assert len(left) <= chars
    assert left.strip()


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("chars", [10_001, 50_000])
def test_a_result_above_the_hard_limit_leaves_a_marker_that_names_it(chars, script):
    left = pruned(filled("", SCRIPTS[script], chars))
    assert left == f'[cleared: {chars} characters · recall("msg:x1")]'


def test_the_marker_of_a_trimmed_result_says_how_much_is_left_and_how_to_get_the_rest():
    text = filled("HEAD ", "row ", 5000)[:-4] + "TAIL"
    left = pruned(text)
    kept, total, ref = re.search(r'\[trimmed: (\d+) of (\d+) characters · recall\("msg:(\w+)"\)\]', left).groups()
    assert (int(total), ref) == (5000, "x1")
    assert left.startswith("HEAD ")
    assert left.endswith("TAIL")
    assert int(kept) == len(left) - len(re.search(r"\n?\[trimmed: .*\]\n?", left)[0])


CLUSTERS = ["👩‍👩‍👧", "🇳🇴", "e\u0301", "👍🏽", "仓"]


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_cuts_fall_between_characters_at_every_length(cluster):
    text = cluster * (400 // len(cluster))
    for limit in range(100, 120):
        left = pruned(text, soft_trim_chars=limit)
        head, tail = re.split(r"\n\[trimmed: .*\]\n", left)
        assert left.encode()
        assert head.replace(cluster, "") == tail.replace(cluster, "") == "", (limit, head, tail)


def test_a_cut_in_a_mixed_text_keeps_head_and_tail_as_they_were():
    text = "仓" * 99 + "🛳️🇳🇴" + "港" * 99
    for limit in range(60, 200):
        left = pruned(text, soft_trim_chars=limit)
        parts = re.split(r"\n?\[trimmed: .*\]\n?", left)
        assert left == text or (text.startswith(parts[0]) and text.endswith(parts[-1])), limit
        assert not any(part.startswith(("\ufe0f", "🇴")) or part.endswith("🇳") for part in parts)


# What stays


@pytest.mark.parametrize("chars", [4000, 12_000])
def test_only_the_content_of_a_pruned_result_differs(chars):
    full = result(
        "x",
        "y" * chars,
        name="dock",
        id="t5",
        artifact={"rows": [1, 2]},
        status="error",
        response_metadata={"k": 1},
        additional_kwargs={"cache": True},
    )
    bare = Bare({**AT_ONCE, "pruning.protect_recent": 0})
    view = bare.sync([HumanMessage("go"), calls("x", name="dock"), full, HumanMessage("next")])
    assert view[2].content != full.content
    assert view[2].model_copy(update={"content": full.content}) == full
    assert view[2].artifact == {"rows": [1, 2]}


@pytest.mark.parametrize("blank", ["", "   ", "\n"])
def test_a_result_that_was_blank_stays_as_it_was(blank):
    assert pruned(blank) == blank


def test_text_in_blocks_is_pruned_and_other_blocks_stay_in_their_place():
    image = {"type": "image", "source_type": "base64", "mime_type": "image/png", "data": "AAAA"}
    left = pruned([{"type": "text", "text": "a" * 8000}, image, {"type": "text", "text": "b" * 8000}])
    assert image in left
    texts = [block["text"] for block in left if block["type"] == "text"]
    assert texts == ['[cleared: 16000 characters · recall("msg:x1")]']


@pytest.mark.parametrize(
    "blocks", [["plain " * 1000], [{"type": "text", "text": "x" * 6000}], ["a" * 2000, "b" * 2000]]
)
def test_a_list_of_texts_is_trimmed_like_one_text(blocks):
    left = pruned(blocks)
    assert sum(len(b) if isinstance(b, str) else len(b["text"]) for b in left) <= 3000
    assert "[trimmed: " in str(left)


def test_nested_blocks_count_and_are_pruned():
    nested = [{"type": "tool_result", "content": [{"type": "text", "text": "z" * 20_000}]}]
    assert len(json.dumps(pruned(nested))) < 300


# Which ones


@pytest.mark.parametrize("protect", [0, 1, 3, 8, 20])
@pytest.mark.parametrize("parallel", [1, 8])
def test_exactly_the_newest_results_by_count_are_protected(parallel, protect):
    history: list[AnyMessage] = [HumanMessage("go")]
    for n in range(16 // parallel):
        ids = [f"c{n}-{i}" for i in range(parallel)]
        history += [calls(*ids), *(result(i, f"{i} " + "x" * 20_000, id=i) for i in ids)]
    bare = Bare({**AT_ONCE, "pruning.protect_recent": protect, "context_window": 1_000_000})
    found = results(bare.sync(history))
    whole = [m.content == old.content for m, old in zip(found, results(history), strict=True)]
    assert whole == [False] * (16 - min(16, protect)) + [True] * min(16, protect)


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("chars", [4000, 16_000])
@pytest.mark.parametrize("parallel", [1, 4, 10])
async def test_what_no_model_has_answered_yet_is_shown_whole_where_the_window_holds_it(entry, chars, parallel):
    ids = [f"new-{n}" for n in range(parallel)]
    said = [*rounds(8, chars=chars), calls(*ids), *(result(i, "x" * chars, id=i) for i in ids)]
    view = await sent(entry, [HumanMessage("go"), *said], {"context_window": 200_000})
    whole = [len(m.content) == chars for m in results(view)]
    assert whole[-parallel:] == [True] * parallel


@pytest.mark.parametrize("entry", ENTRIES)
async def test_once_answered_they_are_results_as_others_are(entry):
    ids = [f"new-{n}" for n in range(10)]
    said = [calls(*ids), *(result(i, "pier 7 " * 2500, id=i) for i in ids), AIMessage("fog " * 20_000)]
    view = await sent(entry, [HumanMessage("go"), *said, HumanMessage("and?")], {"context_window": 200_000})
    assert [len(m.content) > 10_000 for m in results(view)] == [False] * 7 + [True] * 3


@pytest.mark.parametrize("groups", [2, 3, 5])
def test_every_group_of_old_results_is_pruned_in_one_pass(groups):
    history: list[AnyMessage] = []
    for n in range(groups):
        ids = [f"g{n}-{i}" for i in range(8)]
        history += [
            HumanMessage(f"group {n}"),
            calls(*ids),
            *(result(i, "x" * 5000, id=i) for i in ids),
            AIMessage("ok"),
        ]
    bare = Bare({**AT_ONCE, "pruning.protect_recent": 0})
    found = results(bare.sync(history))
    assert all("[trimmed: " in str(m.content) for m in found)
    assert len(found) == 8 * groups
    assert len(bare.named("pruned")) == 1


def test_a_result_that_was_shortened_by_hand_ends_no_scan():
    history = [HumanMessage("go"), *rounds(6, chars=5000)]
    history[8] = history[8].model_copy(update={"content": "[shortened by hand]"})
    found = results(Bare({**AT_ONCE, "pruning.protect_recent": 1}).sync(history))
    assert ["[trimmed: " in str(m.content) for m in found] == [True, True, True, False, True, False]
    assert found[3].content == "[shortened by hand]"


@pytest.mark.parametrize("named", ["by the message", "by the call"])
def test_results_of_excluded_tools_stay_whole(named):
    history: list[AnyMessage] = [HumanMessage("go")]
    for n, name in enumerate(["load_guide", "fetch"] * 4):
        own = name if named == "by the message" else None
        history += [calls(f"c{n}", name=name), result(f"c{n}", f"{name} " * 1500, name=own, id=f"r{n}")]
    settings = {**AT_ONCE, "pruning.protect_recent": 0, "pruning.exclude_tools": ["load_guide"]}
    found = results(Bare(settings).sync(history))
    assert [str(m.content).startswith("load_guide load_guide") for m in found] == [True, False] * 4


def test_what_was_asked_back_is_not_pruned_away_again():
    history = [
        HumanMessage("go"),
        calls("c", name="recall"),
        result("c", "x" * 9000, name="recall"),
        HumanMessage("next"),
    ]
    found = results(Bare({**AT_ONCE, "pruning.protect_recent": 0}).sync(history))
    assert found[0].content == "x" * 9000


@pytest.mark.parametrize("kind", GRAPHS)
async def test_a_model_that_loads_a_guide_again_when_it_is_gone_does_not_loop(kind):
    guide = grab(9000, name="load_guide")

    def reply(messages: list[BaseMessage]) -> AIMessage:
        whole = any(len(str(m.content)) == 9000 for m in results(messages))
        number = len(results(messages))
        return (
            AIMessage("done")
            if whole and number > 5
            else calls(f"c{number}", name="load_guide" if not whole else "grab")
        )

    settings = {**AT_ONCE, "pruning.exclude_tools": ["load_guide"]}
    talked = talk(settings, kind=kind, model=Scripted(replies=reply), tools=[guide, grab(4000)])
    await talked.send("work by the guide")
    loaded = [m for m in await talked.history() if isinstance(m, ToolMessage) and m.name == "load_guide"]
    assert len(loaded) == 1


# Sticky and gated


def test_pruned_results_keep_their_bytes_on_later_calls_and_after_a_restart():
    bare = Bare({**AT_ONCE, "pruning.protect_recent": 2})
    history = [HumanMessage("go"), *rounds(10, chars=5000)]
    first = bare.sync(history)
    again = Bare({**AT_ONCE, "pruning.protect_recent": 2})
    again.record = json.loads(json.dumps(bare.record))
    assert again.memory.view({"messages": history, "memory_record": again.record}) == first
    assert bare.sync(history) == first
    later = bare.sync([*history, *rounds(6, chars=5000, start=20)])
    assert [m.content for m in results(later)[:8]] == [m.content for m in results(first)[:8]]


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("chars", [2000, 5000, 15_000])
async def test_a_view_extends_the_one_before_it_except_where_a_decision_was_announced(chars, kind):
    talked = talk({"context_window": 60_000}, kind=kind, model=Scripted(replies=looping(40)), tools=[grab(chars)])
    breaks = []
    seen: list[int] = []
    talked.model.usage = lambda _: seen.append(len(talked.named("pruned")) + len(talked.named("compacted")))
    await talked.send("do forty rounds")
    requests = [request.messages for request in talked.model.requests]
    for number in range(1, len(requests)):
        if common_prefix(requests[number - 1], requests[number]) < len(requests[number - 1]):
            breaks.append(number)
    # In create_agent the event of a call comes with its reply, so there it is seen one call later.
    announced = [n for n in range(1, len(seen)) if seen[n] > seen[n - 1]]
    shift = 0 if kind == "node" else 1
    assert {n + shift for n in breaks} <= set(announced) | {len(requests)}
    # The text that came in pays for every break, at 4000 tokens each.
    assert len(breaks) <= 3 + 40 * size([result("x", filled("", "row ", chars))]) // 4000


@pytest.mark.parametrize("reclaim", [0, 2000, 4000, 7000])
def test_threshold_pruning_waits_until_it_frees_what_it_has_to(reclaim):
    bare = Bare({"context_window": 200_000, "pruning.min_reclaim_tokens": reclaim})
    history: list[AnyMessage] = [HumanMessage("go")]
    for n in range(40):
        history += rounds(1, chars=5000, start=n)
        bare.sync(history)
    freed = [event.before.total - event.after.total for event in bare.named("pruned")]
    assert freed
    assert all(tokens >= max(1, reclaim) for tokens in freed)
    assert len(freed) <= (40 if reclaim == 0 else 40 * 1300 // reclaim)


@pytest.mark.parametrize("gate", [2000, 8000])
def test_below_the_gate_nothing_is_pruned_at_all(gate):
    bare = Bare({"context_window": 100_000, "pruning.min_reclaim_tokens": gate, "pruning.protect_recent": 0})
    history = [HumanMessage("go"), *rounds(3, chars=4000)]
    assert bare.sync(history) == history
    assert bare.events == []


def test_quick_calls_keep_the_cache_warm_and_a_long_pause_lets_pruning_through():
    now = 0.0
    bare = Bare({"context_window": 100_000, "pruning.protect_recent": 1})
    bare.memory._caches._clock = lambda: now
    history: list[AnyMessage] = [HumanMessage("go"), *rounds(3, chars=4000), *chat(10, chars=2500)]
    for n in range(12):
        now += 30
        bare.sync(history)
        bare.memory.called({"configurable": {"thread_id": "t-1"}})
        history = [*history, *rounds(1, chars=100, start=20 + n)]
    assert bare.named("pruned") == []
    now += 301
    bare.sync(history)
    assert len(bare.named("pruned")) == 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("pause,expected", [(30, 0), (301, 1)])
async def test_every_answer_of_the_model_starts_the_clock_of_its_thread_anew(pause, expected, kind, mode):
    now = 0.0
    talked = talk({"context_window": 100_000, "pruning.protect_recent": 1}, kind=kind, mode=mode)
    talked.memory._caches._clock = lambda: now
    await talked.send(HumanMessage("go"), *rounds(3, chars=4000), *chat(10, chars=2500), "and?")
    for _ in range(4):
        now += pause
        await talked.send("next")
    assert len(talked.named("pruned")) == expected


# Under pressure


@pytest.mark.parametrize("entry", ENTRIES)
async def test_under_pressure_even_protected_results_are_cut_and_the_newest_last(entry):
    history = [HumanMessage("go"), *rounds(3, chars=30_000, text="tide ")]
    received = await sent(entry, history, {"context_window": 12_000, "compaction.enabled": False}, side=None)
    found = [len(str(m.content)) for m in results(received)]
    assert size(received) <= 10_500
    assert faults(received) == []
    assert found == sorted(found)


async def test_pruning_comes_before_a_summary_where_it_is_enough():
    side = summariser()
    talked = talk({"context_window": 30_000}, side=side)
    await talked.send(HumanMessage("go"), *rounds(30, chars=4500, text="tide table row "), HumanMessage("and?"))
    assert talked.named("pruned")
    assert side.requests == []
    assert "[trimmed: " in text_of(talked.model.last)
