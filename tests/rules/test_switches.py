"""Every key of `runtime.json` changes what happens.

The mark `shows` says which keys a test shows; the reference in `docs/runtime.md` is made from it. Those of long-term
memory are in `test_memory_switches.py`, those of spilling and threads in the tests of these.
"""

import json
import logging
import time
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_memory import ConfigError, ContextBudgetError, MemoryMiddleware, RuntimeConfig
from tests.support.graphs import GRAPHS, Bare, chat, configured, result, rounds, size, summaries_in, talk, text_of
from tests.support.models import GOOD, Hanging, Slow, content_text, summariser

TOOLS: list[AnyMessage] = [HumanMessage("go", id="go"), *rounds(8, chars=5000)]
CHAT = chat(30, chars=1000)
NOW = {"pruning.min_reclaim_tokens": 0}
OFF = {"pruning.enabled": False}


def shortened(settings: dict[str, Any], history: list[AnyMessage] = TOOLS) -> list[bool]:
    """For each tool result whether it was shortened."""
    view = Bare(settings).sync(history)
    new, old = ([m.content for m in messages if m.type == "tool"] for messages in (view, history))
    return [a != b for a, b in zip(new, old, strict=True)]


def kept(settings: dict[str, Any], history: list[AnyMessage] = CHAT) -> int:
    """How many messages of the history stand in the view as they are."""
    ids = {m.id for m in history}
    return sum(m.id in ids for m in Bare(settings).sync(history))


def compactions(settings: dict[str, Any], history: list[AnyMessage] = CHAT) -> int:
    bare = Bare(settings)
    bare.sync(history)
    return len(bare.named("compacted"))


# memory


@pytest.mark.shows("memory.context_window")
@pytest.mark.parametrize("window", [4000, 8000, 16_000])
def test_context_window_is_what_has_to_hold_the_view(window):
    bare = Bare({"context_window": window})
    assert size(bare.sync(chat(60, chars=1000))) <= window
    assert bare.report(chat(60, chars=1000)).window == window


@pytest.mark.shows("memory.tokenizer")
@pytest.mark.parametrize("tokenizer,exact", [("estimate", False), ("cl100k_base", True), ("o200k_base", True)])
def test_tokenizer_names_the_counter(tokenizer, exact):
    bare = Bare({"tokenizer": tokenizer})
    bare.sync(CHAT)
    report = bare.report(CHAT)
    assert (report.counter, report.exact) == (tokenizer, exact)


# memory.pruning


@pytest.mark.shows("memory.pruning.enabled")
def test_pruning_off_is_off_even_under_pressure():
    assert any(shortened({**NOW}))
    assert not any(shortened({**NOW, **OFF}))
    with pytest.raises(ContextBudgetError):
        Bare({**OFF, "context_window": 4000, "compaction.enabled": False}).sync(TOOLS)
    assert size(Bare({"context_window": 4000, "compaction.enabled": False}).sync(TOOLS)) <= 3500


@pytest.mark.shows("memory.pruning.trim_tool_results")
def test_trim_tool_results_off_leaves_only_pressure():
    off = {"pruning.trim_tool_results": False}
    assert any(shortened(NOW))
    assert not any(shortened({**NOW, **off}))
    assert any(shortened({**off, "context_window": 4000, "compaction.enabled": False}))


@pytest.mark.shows("memory.pruning.soft_trim_chars")
@pytest.mark.parametrize("chars", [500, 2000, 4990])
def test_soft_trim_chars_is_the_size_of_a_trimmed_result(chars):
    view = Bare({**NOW, "pruning.protect_recent": 0, "pruning.soft_trim_chars": chars}).sync(TOOLS)
    sizes = [len(str(m.content)) for m in view if m.type == "tool"]
    assert all(chars - 300 <= found <= max(chars, 5000 if chars > 4900 else 0) for found in sizes)


@pytest.mark.shows("memory.pruning.hard_clear_threshold")
@pytest.mark.parametrize("threshold", [3000, 4999, 5000])
def test_hard_clear_threshold_decides_what_is_cleared(threshold):
    view = Bare({**NOW, "pruning.hard_clear_threshold": threshold}).sync(TOOLS)
    cleared = sum(str(m.content).startswith("[cleared: ") for m in view)
    assert cleared == (5 if threshold < 5000 else 0)


@pytest.mark.shows("memory.pruning.protect_recent")
@pytest.mark.parametrize("protect", [0, 1, 5, 8])
def test_protect_recent_is_the_number_of_whole_results(protect):
    assert shortened({**NOW, "pruning.protect_recent": protect}) == [True] * (8 - protect) + [False] * protect


@pytest.mark.shows("memory.pruning.min_reclaim_tokens")
def test_min_reclaim_tokens_is_a_gate():
    settings = {"context_window": 100_000, "pruning.protect_recent": 0}
    assert all(shortened({**settings, **NOW}))
    assert not any(shortened({**settings, "pruning.min_reclaim_tokens": 12_000}))


@pytest.mark.shows("memory.pruning.exclude_tools")
def test_exclude_tools_keeps_results_of_named_tools_whole():
    settings = {**NOW, "pruning.protect_recent": 0}
    assert all(shortened({**settings, "pruning.exclude_tools": []}))
    assert not any(shortened({**settings, "pruning.exclude_tools": ["grab"]}))


# memory.compaction


@pytest.mark.shows("memory.compaction.enabled")
@pytest.mark.parametrize("kind", [*GRAPHS, "forced"])
async def test_compaction_off_is_off_on_every_path(kind):
    off = {"compaction.enabled": False}
    every = {"context_window": 20_000, "compaction.trigger_messages": 1, "compaction.trigger_tokens": 1}
    talked = talk({**every, **off}, kind="node" if kind == "forced" else kind)
    assert len(await talked.send(*CHAT, "go")) == len(CHAT) + 1
    if kind == "forced":
        await talked.memory.compact(talked.graph, talked.config)
        assert len(await talked.view()) == len(CHAT) + 2
    assert talked.side.requests == []
    with pytest.raises(ContextBudgetError):
        await Bare({**every, **off, "context_window": 4000}).call(CHAT)
    on = Bare(every)
    await on.call(CHAT)
    assert len(on.named("compacted")) == 1


@pytest.mark.shows("memory.compaction.trigger_ratio")
@pytest.mark.parametrize("ratio,expected", [(0.5, 1), (0.7, 1), (0.8, 0), (1.0, 0)])
def test_trigger_ratio_is_the_share_of_the_window(ratio, expected):
    window = int(size(CHAT) / 0.75)
    settings = {"context_window": window, "compaction.reserve_tokens": 0, "budget.response_tokens": 0}
    settings |= {"budget.system_tokens": 0, "budget.tools_tokens": 0}
    assert compactions({**settings, "compaction.trigger_ratio": ratio}) == expected


@pytest.mark.shows("memory.compaction.trigger_messages")
@pytest.mark.parametrize("messages,expected", [(0, 0), (59, 1), (60, 1), (61, 0)])
def test_trigger_messages_starts_compaction_by_itself(messages, expected):
    settings = {"context_window": 100_000, "compaction.keep_recent_tokens": 3000}
    assert compactions({**settings, "compaction.trigger_messages": messages}) == expected


@pytest.mark.shows("memory.compaction.trigger_tokens")
@pytest.mark.parametrize("tokens,expected", [(0, 0), (8000, 1), (50_000, 0)])
def test_trigger_tokens_starts_compaction_by_itself(tokens, expected):
    settings = {"context_window": 100_000, "compaction.keep_recent_tokens": 3000}
    assert compactions({**settings, "compaction.trigger_tokens": tokens}) == expected


@pytest.mark.shows("memory.compaction.min_messages")
@pytest.mark.parametrize("messages,expected", [(0, 1), (60, 1), (61, 0)])
def test_min_messages_holds_the_ratio_back(messages, expected):
    settings = {"context_window": int(size(CHAT) / 0.8), "budget.response_tokens": 500}
    assert compactions({**settings, "compaction.min_messages": messages}) == expected


@pytest.mark.shows("memory.compaction.reserve_tokens")
def test_reserve_tokens_lowers_the_trigger():
    settings = {"context_window": int(size(CHAT) / 0.8), "compaction.trigger_ratio": 1, "budget.response_tokens": 0}
    settings |= {"budget.system_tokens": 0, "budget.tools_tokens": 0}
    assert compactions({**settings, "compaction.reserve_tokens": 0}) == 0
    assert compactions({**settings, "compaction.reserve_tokens": 10_000}) == 1


@pytest.mark.shows("memory.compaction.keep_recent_tokens")
@pytest.mark.parametrize("keep", [500, 1500, 3000])
def test_keep_recent_tokens_is_how_much_stays_verbatim(keep):
    settings = {"context_window": 16_000, "compaction.trigger_tokens": 5000, "compaction.keep_recent_tokens": keep}
    view = Bare(settings).sync(CHAT)
    behind = [m for m in view if not str(m.id).startswith("summary-")]
    assert keep - 600 <= size(behind) <= keep


@pytest.mark.shows("memory.compaction.keep_messages")
@pytest.mark.parametrize("keep", [1, 5, 11])
def test_keep_messages_is_how_many_messages_stay(keep):
    # A cut does not leave a question at the front of what is kept: it is taken into the message with the summary.
    settings = {"context_window": 16_000, "compaction.trigger_tokens": 5000, "compaction.keep_messages": keep}
    assert kept(settings) == keep


@pytest.mark.shows("memory.compaction.keep_turns")
@pytest.mark.parametrize("keep", [1, 3, 6])
def test_keep_turns_is_how_many_turns_stay(keep):
    settings = {"context_window": 16_000, "compaction.trigger_tokens": 5000, "compaction.keep_turns": keep}
    text = text_of(Bare(settings).sync(CHAT))
    assert [f"q-{n:04d}" in text for n in range(30)] == [False] * (30 - keep) + [True] * keep
    assert [f"a-{n:04d}" in text for n in range(30)] == [False] * (30 - keep) + [True] * keep


@pytest.mark.shows("memory.compaction.map_chunk_messages")
@pytest.mark.parametrize("most", [0, 5, 11])
def test_map_chunk_messages_limits_each_chunk(most):
    side = summariser(profile={"max_input_tokens": 100_000})
    Bare({"context_window": 10_000, "compaction.map_chunk_messages": most}, side=side).sync(CHAT)
    read = [sum(f"{m.content}"[:6] in request.text for m in CHAT) for request in side.requests]
    assert read[0] == most if most else len(read) == 1
    assert max(read) <= (most or 60)


@pytest.mark.shows("memory.compaction.summary_tool_chars")
@pytest.mark.parametrize("chars", [0, 100, 1000])
def test_summary_tool_chars_limits_what_the_summariser_reads_of_a_result(chars):
    side = summariser(profile={"max_input_tokens": 100_000})
    settings = {"context_window": 8000, "compaction.summary_tool_chars": chars, **OFF}
    Bare(settings, side=side).sync(TOOLS)
    most = max(len(part) for part in side.requests[0].text.split("[tool result grab]")[1:])
    assert most >= 5000 if chars == 0 else chars - 60 <= most <= chars + 300


@pytest.mark.shows("memory.compaction.model")
def test_compaction_model_names_the_summariser(monkeypatch):
    named = summariser()
    asked = []
    monkeypatch.setattr("langgraph_memory.models.init_chat_model", lambda name: asked.append(name) or named)
    other = summariser("## SUMMARY\nfrom the other")
    view = Bare({"context_window": 8000, "compaction.model": "acme:small"}, side=other).sync(CHAT)
    assert asked == ["acme:small"]
    assert named.requests
    assert other.requests == []
    assert "SUMMARY-TEXT" in text_of(view)


def test_a_compaction_model_that_cannot_be_made_is_named_at_once():
    with pytest.raises(ConfigError, match=r"memory\.compaction\.model: 'nosuch:thing'"):
        MemoryMiddleware(configured({"compaction.model": "nosuch:thing"}))


@pytest.mark.shows("memory.compaction.prompt")
@pytest.mark.parametrize("prompt", ["Kurz: {messages}", "{previous} and {messages} {not_a_slot} {}", "{messages}" * 2])
def test_compaction_prompt_is_what_the_summariser_is_asked(prompt):
    side = summariser(profile={"max_input_tokens": 100_000})
    Bare({"context_window": 8000, "compaction.prompt": prompt}, side=side).sync(CHAT)
    sent = side.requests[0].text
    assert sent.startswith(prompt.split("{")[0])
    assert "q-0000" in sent
    assert ("{not_a_slot} {}" in sent) == ("{not_a_slot} {}" in prompt)
    assert "previous_summary" not in sent


@pytest.mark.shows("memory.compaction.timeout_seconds")
@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_timeout_seconds_gives_a_summary_up(mode):
    side = Hanging(replies=GOOD)
    hasty = Bare({"context_window": 8000, "compaction.timeout_seconds": 0.05}, side=side)
    await hasty.by(mode, CHAT)
    side.release.set()
    assert hasty.named("compacted")[0].reason == "extract"
    patient = Bare({"context_window": 8000, "compaction.timeout_seconds": 30}, side=Slow(replies=GOOD, seconds=0.06))
    view = await patient.by(mode, CHAT)
    assert "SUMMARY-TEXT" in text_of(view)


@pytest.mark.shows("memory.compaction.cache_ttl_seconds")
@pytest.mark.parametrize("ttl,expected", [(0.01, 1), (300, 0)])
def test_cache_ttl_seconds_decides_when_the_prompt_cache_is_cold(ttl, expected):
    bare = Bare({"context_window": 100_000, "compaction.cache_ttl_seconds": ttl, "pruning.protect_recent": 1})
    history = [HumanMessage("go", id="go"), *rounds(3, chars=4000), *chat(10, chars=2500)]
    bare.sync(history)
    bare.memory.called({"configurable": {"thread_id": "t-1"}})
    time.sleep(0.02)
    bare.sync(history)
    assert len(bare.named("pruned")) == expected


# memory.budget


@pytest.mark.shows("memory.budget.system_tokens")
def test_system_tokens_are_kept_free():
    base = {"context_window": 8000, "budget.tools_tokens": 0}
    for tokens in (0, 3000):
        bare = Bare({**base, "budget.system_tokens": tokens})
        assert size(bare.sync(CHAT)) + tokens <= 7000
        assert bare.report(CHAT).parts["system"] == tokens
    assert compactions({**base, "budget.system_tokens": 0}, CHAT[:24]) == 0
    assert compactions({**base, "budget.system_tokens": 3000}, CHAT[:24]) == 1


@pytest.mark.shows("memory.budget.tools_tokens")
def test_tools_tokens_are_kept_free():
    base = {"context_window": 8000, "budget.system_tokens": 0}
    for tokens in (0, 3000):
        bare = Bare({**base, "budget.tools_tokens": tokens})
        assert size(bare.sync(CHAT)) + tokens <= 7000
        assert bare.report(CHAT).parts["tools"] == tokens
    assert compactions({**base, "budget.tools_tokens": 0}, CHAT[:24]) == 0
    assert compactions({**base, "budget.tools_tokens": 3000}, CHAT[:24]) == 1


@pytest.mark.shows("memory.budget.response_tokens")
@pytest.mark.parametrize("tokens", [0, 500, 1000])
def test_response_tokens_are_kept_free(tokens):
    bare = Bare({"context_window": 8000, "budget.response_tokens": tokens})
    bare.sync(CHAT)
    report = bare.report(CHAT)
    assert report.reserve == tokens
    assert report.total + report.free == 8000 - tokens


# persistence


@pytest.mark.shows("persistence.thread_db")
async def test_thread_db_is_the_file_of_the_threads():
    config = RuntimeConfig.model_validate({"persistence": {"thread_db": "some/where/else.db"}})
    async with MemoryMiddleware.open(config) as memory:
        assert memory.saver is not None
        await memory.saver.aput(
            {"configurable": {"thread_id": "t", "checkpoint_ns": ""}},
            {"v": 4, "id": "1", "ts": "", "channel_values": {}, "channel_versions": {}, "versions_seen": {}},
            {"source": "input", "step": 0, "parents": {}},
            {},
        )
    files = {str(path) for path in Path().rglob("*") if path.is_file()}  # noqa: ASYNC240 - the test's own look
    assert "some/where/else.db" in files
    assert not any(name.endswith("threads.db") for name in files)


# Off means off


def test_without_open_nothing_is_written_to_the_disk():
    bare = Bare({"context_window": 4000})
    bare.sync(CHAT)
    assert bare.named("compacted")
    assert list(Path().iterdir()) == []


def test_a_file_with_a_byte_order_mark_configures_the_middleware():
    text = json.dumps({"memory": {"context_window": 4000}}).replace("\n", "\r\n")
    Path("runtime.json").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert MemoryMiddleware("runtime.json").config.memory.context_window == 4000


@pytest.mark.parametrize("value", ["20MB", "70%", None, True, [], float("inf"), float("nan"), -1])
@pytest.mark.parametrize("key", ["pruning.soft_trim_chars", "compaction.trigger_ratio", "compaction.trigger_messages"])
def test_a_value_that_cannot_be_read_is_refused_and_never_means_off(key, value):
    with pytest.raises(ConfigError, match=key.replace(".", r"\.")):
        configured({key: value})


def test_the_defaults_work_without_any_configuration(caplog):
    with caplog.at_level(logging.WARNING):
        memory = MemoryMiddleware(model=summariser(), saver=InMemorySaver())
        memory.invoke({"messages": CHAT, "memory_record": {}})
    assert caplog.records == []


def test_no_message_is_lost_when_everything_is_off():
    settings = {**OFF, "compaction.enabled": False}
    view = Bare(settings).sync([*CHAT, *TOOLS, result("nobody")])
    assert [content_text(m) for m in view] == [content_text(m) for m in [*CHAT, *TOOLS]]
    assert summaries_in(view) == 0


@pytest.mark.shows("persistence.workspace")
@pytest.mark.parametrize("name", ["memory", "deep/er/記憶"])
async def test_workspace_is_where_bought_summaries_are_kept(tmp_path, name):
    folder = tmp_path / name
    settings = {"memory": {"context_window": 8000}, "persistence": {"workspace": str(folder), "thread_db": ":memory:"}}
    state = {"messages": CHAT, "memory_record": {}}
    for bought in (1, 0):
        side = summariser(profile={"max_input_tokens": 100_000})
        async with MemoryMiddleware.open(settings, model=side) as memory:
            await memory(state, {"configurable": {"thread_id": f"t-{bought}"}})
        assert len(side.requests) == bought
    assert (folder / "cache.db").exists()


# Truncation of arguments

TRUNCATE = {
    "context_window": 1_000_000,
    "pruning.min_reclaim_tokens": 0,
    "truncate_args.enabled": True,
    "truncate_args.trigger_messages": 0,
    "truncate_args.trigger_tokens": 0,
}


def written(rounds: int, chars: int = 5000) -> list[AnyMessage]:
    """One request, then rounds in which a file of `chars` characters is written."""
    history: list[AnyMessage] = [HumanMessage("write the files", id="h")]
    for n in range(rounds):
        call = {"name": "write", "args": {"path": f"f{n}.py", "content": "x" * chars}, "id": f"c{n}"}
        history += [AIMessage("", id=f"a{n}", tool_calls=[call]), result(f"c{n}", "written", id=f"t{n}")]
    return history


def lengths(view: list[AnyMessage]) -> list[int]:
    return [len(m.tool_calls[0]["args"]["content"]) for m in view if isinstance(m, AIMessage)]


@pytest.mark.shows("memory.truncate_args.enabled")
def test_truncate_args_is_off_until_it_is_switched_on():
    on = {**TRUNCATE, "truncate_args.trigger_messages": 1, "truncate_args.keep_messages": 2}
    assert max(lengths(Bare({**on, "truncate_args.enabled": False}).sync(written(4)))) == 5000
    assert lengths(Bare(on).sync(written(4)))[-1] == 5000
    assert max(lengths(Bare(on).sync(written(4)))[:-1]) <= 2000


@pytest.mark.shows("memory.truncate_args.trigger_messages")
@pytest.mark.parametrize(("trigger", "cut"), [(9, True), (10, False), (0, False)])
def test_truncate_args_trigger_messages_is_when_it_begins(trigger, cut):
    on = {**TRUNCATE, "truncate_args.trigger_messages": trigger, "truncate_args.keep_messages": 0}
    assert (max(lengths(Bare(on).sync(written(4)))) < 5000) is cut


@pytest.mark.shows("memory.truncate_args.trigger_tokens")
@pytest.mark.parametrize(("trigger", "cut"), [(1000, True), (900_000, False), (0, False)])
def test_truncate_args_trigger_tokens_is_when_it_begins(trigger, cut):
    on = {**TRUNCATE, "truncate_args.trigger_tokens": trigger, "truncate_args.keep_messages": 0}
    assert (max(lengths(Bare(on).sync(written(4)))) < 5000) is cut


@pytest.mark.shows("memory.truncate_args.max_chars")
@pytest.mark.parametrize("chars", [200, 1999, 4000])
def test_truncate_args_max_chars_is_what_each_text_keeps(chars):
    on = {**TRUNCATE, "truncate_args.trigger_messages": 1, "truncate_args.max_chars": chars}
    found = lengths(Bare({**on, "truncate_args.keep_messages": 0}).sync(written(4)))
    assert max(found) <= chars
    assert min(found) >= chars // 2


@pytest.mark.shows("memory.truncate_args.keep_messages")
@pytest.mark.parametrize(("keep", "whole"), [(0, 0), (2, 1), (4, 2), (20, 4)])
def test_truncate_args_keep_messages_stay_whole(keep, whole):
    on = {**TRUNCATE, "truncate_args.trigger_messages": 1, "truncate_args.keep_messages": keep}
    assert [n == 5000 for n in lengths(Bare(on).sync(written(4)))] == [False] * (4 - whole) + [True] * whole
