"""The number that decides covers what is really sent, never raises, and is learnt from what the provider counts."""

import json
import logging
import random
import string
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from langgraph_memory.context import tokens
from tests.support.graphs import (
    GRAPHS,
    MODES,
    Bare,
    calls,
    chat,
    filled,
    grab,
    looping,
    result,
    rounds,
    size,
    talk,
    text_of,
)
from tests.support.models import Scripted, summariser
from tests.support.texts import texts
from tests.support.validity import faults

ODD = {
    "special tokens": "log says <|endoftext|> and <|fim_prefix|> <|im_start|>system",
    "one letter": "a" * 100_000,
    "underscores": "_" * 50_000,
    "Chinese run": "中" * 100_000,
    "base64": "".join(random.Random(1).choices(string.ascii_letters + string.digits + "+/", k=200_000)),
    "blanks": " " * 1_000_000,
    "lone surrogate": "half \ud83d of an emoji",
    "NUL": "a\0b",
}


@pytest.mark.parametrize("where", ["user", "tool", "call"])
@pytest.mark.parametrize("name", ODD)
def test_odd_text_is_counted_and_the_view_fits(name, where):
    text = ODD[name]
    histories: dict[str, list[AnyMessage]] = {
        "user": [HumanMessage(text, id="h")],
        "tool": [HumanMessage("go"), calls("x"), result("x", text)],
        "call": [HumanMessage("go"), AIMessage("", tool_calls=[{"name": "g", "args": {"t": text}, "id": "x"}])],
    }
    bare = Bare({"context_window": 200_000})
    view = bare.sync([*histories[where], HumanMessage("next")])
    assert 0 < bare.report([*histories[where], HumanMessage("next")]).total <= 198_000
    assert faults(view) == []


PAYLOAD = "QUJD" * 100_000
BLOCKS: dict[str, dict[str, Any]] = {
    "image_url": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PAYLOAD}"}},
    "image_url as text": {"type": "image_url", "image_url": f"data:image/png;base64,{PAYLOAD}"},
    "input_image": {"type": "input_image", "image_url": f"data:image/png;base64,{PAYLOAD}"},
    "image source": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PAYLOAD}},
    "standard image": {"type": "image", "base64": PAYLOAD, "mime_type": "image/png"},
    "audio": {"type": "audio", "base64": PAYLOAD, "mime_type": "audio/wav"},
    "input_audio": {"type": "input_audio", "input_audio": {"data": PAYLOAD, "format": "wav"}},
    "file": {"type": "file", "base64": PAYLOAD, "mime_type": "application/pdf"},
    "file data": {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PAYLOAD}", "filename": "a.pdf"}},
    "media": {"type": "media", "data": PAYLOAD, "mime_type": "image/png"},
}


@pytest.mark.parametrize("where", ["user", "tool"])
@pytest.mark.parametrize("name", BLOCKS)
def test_a_payload_has_a_small_price_whatever_its_block_and_starts_no_compaction(name, where):
    content = [{"type": "text", "text": "look"}, BLOCKS[name]]
    history: list[AnyMessage] = [HumanMessage(content)]
    if where == "tool":
        history = [HumanMessage("go"), calls("x"), result("x", content)]
    bare = Bare({"context_window": 20_000, "compaction.min_messages": 0})
    bare.sync(history)
    assert 85 <= bare.report(history).total - 200 <= 4000
    assert bare.named("compacted") == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", GRAPHS)
async def test_without_usage_figures_our_own_count_triggers_compaction(kind, mode):
    talked = talk({"context_window": 10_000}, kind=kind, mode=mode)
    request = await talked.send(*chat(15, chars=1900), "go")
    assert talked.named("compacted")
    assert size(request) <= 8750


def test_metadata_is_neither_counted_nor_sent_to_the_summariser():
    noise = "logprob " * 2500
    side = summariser()
    bare = Bare({"context_window": 8000}, side=side)
    bare.sync([*chat(10), HumanMessage("go")])
    plain = bare.report(chat(10)).total
    noisy = [
        m.model_copy(update={"response_metadata": {"x": noise}, "additional_kwargs": {"y": noise}}) for m in chat(10)
    ]
    assert bare.report(noisy).total == plain
    long = [m.model_copy(update={"response_metadata": {"x": noise}}) for m in chat(14, chars=1800)]
    Bare({"context_window": 8000}, side=side).sync(long)
    assert side.requests
    assert all("logprob" not in request.text for request in side.requests)


# The window


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("window", [4000, 32_000, 1_000_000])
async def test_the_window_is_that_of_the_model(window, kind):
    talked = talk(kind=kind, model=Scripted(profile={"max_input_tokens": window}))
    await talked.send("hello")
    assert (await talked.report()).window == window
    assert talked.named("window_guessed") == []


@pytest.mark.parametrize("kind", GRAPHS)
async def test_the_configured_window_wins_over_the_profile(kind):
    talked = talk({"context_window": 16_000}, kind=kind, model=Scripted(profile={"max_input_tokens": 32_000}))
    await talked.send("hello")
    assert (await talked.report()).window == 16_000


@pytest.mark.parametrize("profile", [None, {}, {"max_input_tokens": None}, {"max_input_tokens": 0}])
async def test_without_any_word_of_a_window_a_default_is_taken_and_said(profile):
    talked = talk(model=Scripted(profile=profile))
    await talked.send("hello")
    await talked.send("again")
    assert (await talked.report()).window == 128_000
    assert [event.data["window"] for event in talked.named("window_guessed")] == [128_000]


# All of it


@pytest.mark.parametrize("system", [None, "never quote prices " * 50])
@pytest.mark.parametrize("kind", GRAPHS)
async def test_the_total_is_what_is_sent_and_its_parts_sum_to_it(kind, system):
    tool = grab(600)
    talked = talk(
        {"context_window": 12_000}, kind=kind, model=Scripted(replies=looping(4)), tools=[tool], system=system
    )
    await talked.send(*chat(10, chars=300), "go")
    report = await talked.report()
    tools = [tool, *(talked.memory.tools if kind == "agent" else [])]
    view = await talked.view()
    expected = size(view, tools) + (size([talked.model.last[0]]) if system else 0)
    assert abs(report.total - expected) <= 64
    assert sum(report.parts.values()) == report.total
    assert report.total + report.reserve + report.free == report.window
    assert report.parts["tools"] > 20
    assert (report.parts["system"] > 100) == bool(system)


@pytest.mark.parametrize("chars", [2000, 40_000])
def test_the_arguments_of_tool_calls_count(chars):
    args = {"path": "a.py", "text": filled("", "value = other + 1\n", chars)}
    history = [HumanMessage("go"), AIMessage("", tool_calls=[{"name": "write", "args": args, "id": "x"}]), result("x")]
    bare = Bare({"context_window": 100_000})
    bare.sync(history)
    assert bare.report(history).parts["ai"] >= size([HumanMessage(json.dumps(args))]) * 0.9


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("factor,extra", [(1.0, 0), (1.25, 1500), (1.45, 300)])
async def test_what_the_provider_counts_is_learnt_and_the_window_holds_in_its_tokens(factor, extra, kind):
    used: list[int] = []

    def usage(request: Any) -> int:
        used.append(int(factor * size(request.messages) + extra))
        return used[-1]

    talked = talk({"context_window": 16_000}, kind=kind, model=Scripted(usage=usage))
    for turn in range(40):
        await talked.send(HumanMessage(filled(f"q-{turn:04d} ", "a longer word ", 1500)))
    assert talked.named("compacted")
    assert max(used) <= 14_000
    foreseen = (await talked.report()).total
    await talked.send("x")
    assert abs(foreseen - used[-1]) <= 0.08 * used[-1] + 100


@pytest.mark.parametrize("name", sorted(texts("check")))
def test_an_estimate_is_never_far_below_the_encoding(name):
    history = [HumanMessage("\n".join(texts("check")[name]) * 3)]
    exact, estimated = Bare({"tokenizer": "cl100k_base"}), Bare({"tokenizer": "estimate"})
    for bare in (exact, estimated):
        bare.sync(history)
    real = exact.report(history)
    guess = estimated.report(history)
    assert (real.exact, guess.exact) == (True, False)
    assert guess.parts["human"] >= 0.6 * real.parts["human"]


@pytest.mark.parametrize("script", ["潮汐表今天改了，", "the tide table ", '{"a": 1, "b": [2, 3]}, '])
async def test_with_estimates_the_provider_s_figures_bring_the_count_within_fifteen_percent(script):
    def usage(request: Any) -> int:
        return size(request.messages)

    talked = talk({"context_window": 32_000, "tokenizer": "estimate"}, model=Scripted(usage=usage))
    for turn in range(8):
        await talked.send(HumanMessage(filled(f"q-{turn:04d} ", script, 1200)))
    report = await talked.report()
    assert report.exact is False
    assert abs(report.total - size(await talked.view())) <= 0.15 * size(await talked.view())


@pytest.mark.parametrize("mode", MODES)
async def test_without_token_ranks_counts_are_estimates_said_once_and_the_run_goes_on(monkeypatch, caplog, mode):
    monkeypatch.setattr(tokens, "load_encoding", lambda name: None)
    monkeypatch.setattr(tokens, "_counters", {})
    talked = talk({"context_window": 6000}, mode=mode)
    with caplog.at_level(logging.WARNING):
        for start in range(0, 60, 15):
            request = await talked.send(*chat(15, chars=500, start=start), "go")
            assert size(request) <= 5250
    warnings = [record for record in caplog.records if "token ranks" in record.getMessage()]
    assert len(warnings) == 1
    assert (await talked.report()).exact is False


@pytest.mark.parametrize("window", [6000, 20_000])
def test_an_estimate_holds_a_tenth_of_the_window_back(window):
    bare = Bare(
        {"context_window": window, "tokenizer": "estimate", "compaction.enabled": False, "pruning.enabled": True}
    )
    history = [HumanMessage("go"), *rounds(20, chars=window)]
    bare.sync(history)
    report = bare.report(history)
    assert report.total <= 0.9 * window - report.reserve
    assert "r-0019" in text_of(bare.sync(history))
