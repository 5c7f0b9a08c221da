"""Counting tokens: exact and estimated, of texts, messages and tools, and calibrated by usage."""

import base64
import gzip
import hashlib
import json
import logging
import socket
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.tools import tool
from tiktoken_ext import openai_public

from langgraph_memory.context import encodings, tokens
from langgraph_memory.context.calibration import NEWEST
from langgraph_memory.context.estimate import Estimator
from langgraph_memory.context.tokens import (
    ESTIMATOR,
    LINK_TOKENS,
    MEDIA_TOKENS,
    MESSAGE_TOKENS,
    Calibration,
    TokenCounter,
    calibrate,
    count_message,
    count_tools,
    encoding_for,
    estimator_for,
    load_counter,
    ready_counter,
)
from tests.support.data import load_recordings, needs_recordings, text_groups, to_messages, usage_segments
from tests.support.texts import MACHINE, texts

ENCODINGS = ["cl100k_base", "o200k_base"]
COUNTERS = [("cl100k_base",), ("o200k_base",), ("estimate", "gpt-4"), ("estimate", "gpt-4o")]


class Characters:
    """A counter whose tokens are characters, and which remembers what it was shown."""

    name = "characters"
    exact = True

    def __init__(self) -> None:
        self.seen: list[str] = []

    def text(self, text: str) -> int:
        self.seen.append(text)
        return len(text)


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """Loading takes longer than a property test may take for one example."""
    for name in ENCODINGS:
        load_counter(name)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("counting tokens must not use the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is loaded yet."""
    monkeypatch.setattr(tokens, "_counters", {})


@pytest.fixture
def bare(fresh: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without any ranks; returns the empty cache folder."""
    for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    monkeypatch.setattr(encodings, "_package_folder", lambda: None)
    cache = tmp_path / "cache"
    cache.mkdir()
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(cache))
    return cache


def packaged_ranks(name: str) -> bytes:
    folder = encodings._package_folder()
    assert folder is not None
    return gzip.decompress((folder / "data" / f"{name}.tiktoken.gz").read_bytes())


def cache_key(name: str) -> str:
    url = f"https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"
    return hashlib.sha1(url.encode()).hexdigest()


@pytest.fixture
def packaged() -> bytes:
    return packaged_ranks("cl100k_base")


# Which encoding


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("gpt-4o", "o200k_base"),
        ("gpt-4o-2024-11-20", "o200k_base"),
        ("openai:gpt-5-mini", "o200k_base"),
        ("openai/gpt-4.1", "o200k_base"),
        ("openrouter:openai/gpt-4o:extended", "o200k_base"),
        ("ft:gpt-4o:my-org::id", "o200k_base"),
        ("gpt-oss-120b", "o200k_harmony"),
        ("azure_openai:gpt-4", "cl100k_base"),
        ("claude-opus-4-5", "cl100k_base"),
        ("models/gemini-2.5-pro", "cl100k_base"),
        ("", "cl100k_base"),
        (None, "cl100k_base"),
    ],
)
def test_auto_chooses_the_encoding_by_the_model(model: str | None, expected: str) -> None:
    assert encoding_for("auto", model) == expected


def test_a_named_encoding_wins_over_the_model() -> None:
    assert encoding_for("o200k_base", "gpt-4") == "o200k_base"
    assert estimator_for("o200k_base", "gpt-4") is estimator_for("auto", "gpt-4o")


@pytest.mark.parametrize(
    ("tokenizer", "model", "expected"),
    [
        ("estimate", "gpt-4o", "o200k_base"),
        ("estimate", "gpt-oss-120b", "o200k_base"),
        ("estimate", "claude-opus-4-5", "cl100k_base"),
        ("estimate", None, "cl100k_base"),
        ("auto", "openai:gpt-5-mini", "o200k_base"),
        ("auto", "gpt-4", "cl100k_base"),
        ("o200k_harmony", None, "o200k_base"),
        ("p50k_base", "gpt-4o", "cl100k_base"),
        ("no_such_base", "gpt-4o", "cl100k_base"),
    ],
)
def test_the_estimator_is_that_of_the_encoding(tokenizer: str, model: str | None, expected: str) -> None:
    estimator = estimator_for(tokenizer, model)
    assert isinstance(estimator, Estimator)
    assert estimator.encoding == expected
    assert (estimator.name, estimator.exact) == ("estimate", False)
    assert estimator is estimator_for(expected)
    assert (estimator is ESTIMATOR) == (expected == "cl100k_base")


# Finding ranks


@pytest.mark.parametrize("name", ENCODINGS)
def test_an_encoding_counts_as_tiktoken_itself_does(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / cache_key(name)).write_bytes(packaged_ranks(name))
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    reference, counter = tiktoken.get_encoding(name), load_counter(name)
    assert counter.name == name
    assert counter.exact
    for group in texts("check").values():
        for text in group:
            assert counter.text(text) == len(reference.encode_ordinary(text))


WHITE = "\n\r \t\x0b\x85\xa0\u2028\u3000"
ODD = "'sStdlrveLAzǅʰéßñ\u0301ª线カ한ก\u0e33١3½Ⅷ!?/-_.({\"<=\u200d😀𐀀\0"


@settings(max_examples=400, deadline=None)
@given(text=st.text(st.sampled_from(WHITE + ODD), max_size=60) | st.text(max_size=40))
@pytest.mark.parametrize("name", ["r50k_base", "p50k_base", "cl100k_base", "o200k_base"])
def test_text_is_parted_as_by_the_published_patterns(name: str, text: str) -> None:
    published, ours = (_parting(pattern) for pattern in (published_pattern(name), encodings._ENCODINGS[name][1]))
    assert ours.encode_ordinary(text) == published.encode_ordinary(text)


@cache
def published_pattern(name: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(openai_public, "load_tiktoken_bpe", lambda *_, **__: {})
        pattern: str = getattr(openai_public, name)()["pat_str"]
    return pattern


@cache
def _parting(pattern: str) -> tiktoken.Encoding:
    """Of cl100k_base's ranks, which join what stands in one piece whatever the pattern is."""
    ranks = encodings._parse_ranks(packaged_ranks("cl100k_base"))
    return tiktoken.Encoding("parting", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})


def test_every_encoding_of_tiktoken_is_known() -> None:
    assert set(tiktoken.list_encoding_names()) <= encodings.ENCODING_NAMES


@pytest.mark.parametrize("variable", ["TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR", None])
def test_ranks_are_found_in_each_cache_folder(
    variable: str | None, packaged: bytes, bare: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
    folder = tmp_path / "data-gym-cache"
    folder.mkdir()
    (folder / cache_key("cl100k_base")).write_bytes(packaged)
    if variable:
        monkeypatch.setenv(variable, str(folder))
    else:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert load_counter("cl100k_base").exact


def test_without_ranks_the_estimator_is_used_with_one_warning(bare: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        counters = [load_counter("auto", model) for model in (None, "claude-opus-4-5", "unheard-of")]
    assert all(counter is ESTIMATOR for counter in counters)
    assert len(caplog.records) == 1
    assert "'cl100k_base'" in caplog.text


@pytest.mark.parametrize("name", ENCODINGS)
def test_without_ranks_an_encoding_is_estimated_by_its_own_estimator(name: str, bare: Path) -> None:
    assert load_counter(name) is estimator_for(name)
    assert ready_counter(name) is estimator_for(name)
    assert load_counter("auto", "gpt-4o") is estimator_for("o200k_base")


def test_an_unknown_encoding_name_is_the_estimator(fresh: None, caplog: pytest.LogCaptureFixture) -> None:
    assert load_counter("no_such_base") is ESTIMATOR
    assert "'no_such_base'" in caplog.text


def test_a_file_with_a_wrong_hash_is_ignored_and_left_in_place(bare: Path) -> None:
    file = bare / cache_key("cl100k_base")
    file.write_bytes(b"IQ== 0\n")
    assert load_counter("cl100k_base") is ESTIMATOR
    assert file.read_bytes() == b"IQ== 0\n"
    assert list(bare.iterdir()) == [file]


def test_an_encoding_that_breaks_while_loading_is_the_estimator(
    fresh: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(name: str) -> None:
        raise MemoryError(name)

    monkeypatch.setattr(tokens, "load_encoding", fail)
    assert load_counter("o200k_base") is estimator_for("o200k_base")
    assert "MemoryError" in caplog.text


def test_a_counter_is_ready_once_it_was_loaded(fresh: None) -> None:
    assert ready_counter("estimate", None) is load_counter("estimate", None) is ESTIMATOR
    assert ready_counter("estimate", "gpt-4o") is load_counter("estimate", "gpt-4o") is estimator_for("o200k_base")
    assert ready_counter("auto", "gpt-4") is None
    loaded = load_counter("auto", "gpt-4")
    assert ready_counter("auto", "gpt-4") is loaded
    assert ready_counter("cl100k_base", None) is loaded


def test_threads_load_an_encoding_once(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[str] = []

    def load(name: str) -> Any:
        loads.append(name)
        return SimpleNamespace(encode_ordinary=list)

    monkeypatch.setattr(tokens, "load_encoding", load)
    found: list[TokenCounter] = []
    threads = [threading.Thread(target=lambda: found.append(load_counter("o200k_base"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loads == ["o200k_base"]
    assert len(set(map(id, found))) == 1


# Texts


@pytest.fixture(params=COUNTERS, ids=str)
def counter(request: pytest.FixtureRequest) -> TokenCounter:
    return load_counter(*request.param)


@given(text=st.text(st.characters(categories=None)))
def test_any_text_counts(text: str) -> None:
    for setting in COUNTERS:
        count = load_counter(*setting).text(text)
        assert count >= 0
        assert (count > 0) == bool(text)


def test_special_tokens_are_plain_text() -> None:
    for name in ENCODINGS:
        assert load_counter(name).text("log says <|endoftext|> and <|fim_prefix|>") > 10


def test_a_lone_surrogate_counts_like_a_replacement_character(counter: TokenCounter) -> None:
    assert counter.text("a\ud800b") > 0


@pytest.mark.parametrize("text", ["a", "_", " ", "\n", "中", "Ab3+"])
def test_a_long_run_is_counted_in_slices(text: str, counter: TokenCounter) -> None:
    assert 0 < counter.text(text * (1_000_000 // len(text))) <= 1_500_000


def test_no_slice_is_longer_than_the_limit() -> None:
    shown: list[int] = []
    fake: Any = SimpleNamespace(encode_ordinary=lambda text: shown.append(len(text)) or [0] * len(text))
    assert tokens.EncodingCounter("fake", fake).text("x" * 200_000) == 200_000
    assert max(shown) <= 65_536
    assert sum(shown) == 200_000


def test_slices_change_the_count_by_next_to_nothing() -> None:
    text = "The quick brown fox jumps over the lazy dog, twice; " * 10_000
    encoding = encodings.load_encoding("o200k_base")
    assert encoding is not None
    whole = len(encoding.encode_ordinary(text))
    assert whole <= load_counter("o200k_base").text(text) <= whole * 1.0001 + 1


class PanicException(BaseException):
    """Named as the exception of a panic in tiktoken's Rust part."""


@pytest.mark.parametrize(("error", "survives"), [(PanicException, True), (KeyboardInterrupt, False)])
def test_a_panic_is_estimated_and_an_interrupt_is_not(error: type[BaseException], survives: bool) -> None:
    def fail(text: str) -> list[int]:
        raise error

    fake: Any = SimpleNamespace(encode_ordinary=fail)
    counter = tokens.EncodingCounter("o200k_base", fake)
    if survives:
        assert counter.text("नमस्ते") == estimator_for("o200k_base").text("नमस्ते")
    else:
        with pytest.raises(KeyboardInterrupt):
            counter.text("some text")


# Estimates


def estimate_error(written: list[str], name: str) -> float:
    """Of the estimator of an encoding against that encoding."""
    return sum(map(estimator_for(name).text, written)) / sum(map(load_counter(name).text, written)) - 1


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("group", MACHINE)
def test_the_estimate_of_machine_text_is_near_its_encoding(group: str, name: str) -> None:
    for text in texts("check")[group]:
        assert abs(estimate_error([text], name)) <= 0.12


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("group", sorted(set(texts("check")) - set(MACHINE)))
def test_the_estimate_of_every_script_is_near_its_encoding(group: str, name: str) -> None:
    error = estimate_error(texts("check")[group], name)
    assert (-0.10 if "chinese" in group else -0.15) <= error <= 0.15


@pytest.mark.parametrize("name", ENCODINGS)
def test_the_estimate_grows_with_every_kind_of_character(name: str) -> None:
    for char in [*"aA0 \n_\\😀─\ufe0f\ufffd\U0002a6d6\U0010fffd", *(chr(code) for code in range(0x80, 0xFFFF, 0x80))]:
        counts = [estimator_for(name).text(char * length) for length in range(1, 200, 16)]
        assert all(count > 0 for count in counts)
        assert counts[-1] > counts[0]


def test_a_character_counts_the_same_when_it_is_met_again() -> None:
    for char in "\U0002a6d7\u1234\u4e01":
        assert ESTIMATOR.text(char * 7) == ESTIMATOR.text(char * 7)
        assert ESTIMATOR.text(f"a {char}") == ESTIMATOR.text(f"a {char}")


@needs_recordings
@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("half", [0, 1])
def test_the_estimate_of_recorded_text_is_near_its_encoding(half: int, name: str) -> None:
    for group, recorded in text_groups(half).items():
        assert -0.05 <= estimate_error(recorded, name) <= 0.15, group


# Messages


def size(*content: Any, kind: type[BaseMessage] = HumanMessage, **fields: Any) -> int:
    return count_message(Characters(), kind(content=list(content), **fields)) - MESSAGE_TOKENS


def test_a_message_is_its_text_and_an_overhead() -> None:
    assert count_message(Characters(), HumanMessage("four")) == MESSAGE_TOKENS + 4
    assert count_message(Characters(), SystemMessage("")) == MESSAGE_TOKENS
    assert count_message(Characters(), AIMessage.model_construct(content=None)) == MESSAGE_TOKENS


def test_text_and_reasoning_blocks_count_their_text() -> None:
    assert size("four", {"type": "text", "text": "four"}) == 8
    assert size({"type": "thinking", "thinking": "four"}, kind=AIMessage) == 4
    assert size({"type": "reasoning", "reasoning": "four", "id": "rs_1"}, kind=AIMessage) == 4
    summary = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "because"}]}
    assert size(summary, kind=AIMessage) >= 7
    assert size({"text": "four"}) == 4


def test_opaque_reasoning_is_priced_by_a_quarter_of_its_length_up_to_a_limit() -> None:
    def price(length: int) -> int:
        return size({"type": "thinking", "thinking": "", "signature": "x" * length}, kind=AIMessage)

    assert price(400) == 100
    assert price(400_000) == MEDIA_TOKENS
    assert size({"type": "redacted_thinking", "data": "x" * 400}, kind=AIMessage) == 100
    assert size({"type": "reasoning", "summary": [], "encrypted_content": "x" * 40_000}) < 2 * MEDIA_TOKENS


PAYLOAD = base64.b64encode(bytes(range(256)) * 1_200).decode()
DATA_URL = f"data:image/png;base64,{PAYLOAD}"


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image_url", "image_url": {"url": DATA_URL}},
        {"type": "image_url", "image_url": DATA_URL},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "high"}},
        {"type": "input_image", "image_url": DATA_URL},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PAYLOAD}},
        {"type": "image", "source_type": "base64", "mime_type": "image/png", "data": PAYLOAD},
        {"type": "image", "base64": PAYLOAD, "mime_type": "image/png"},
        {"type": "image", "url": "https://example.com/a.png"},
        {"type": "image", "file_id": "file-1"},
        {"type": "audio", "base64": PAYLOAD, "mime_type": "audio/wav"},
        {"type": "input_audio", "input_audio": {"data": PAYLOAD, "format": "wav"}},
        {"type": "video", "base64": PAYLOAD, "mime_type": "video/mp4"},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": PAYLOAD}},
        {"type": "input_file", "file_data": PAYLOAD},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PAYLOAD}},
        {"type": "media", "mime_type": "application/pdf", "data": PAYLOAD},
    ],
)
def test_every_payload_has_the_same_price(block: dict[str, Any]) -> None:
    assert size(block) == MEDIA_TOKENS
    result = {"type": "tool_result", "tool_use_id": "c", "content": [block]}
    assert size(result) == MEDIA_TOKENS + LINK_TOKENS


@pytest.mark.parametrize(
    "block",
    [
        {"image": {"format": "png", "source": {"bytes": b"\x89PNG" * 50_000}}},
        {"type": "screenshot", "data": PAYLOAD},
        {"type": "screenshot", "nested": [{"blob": DATA_URL}]},
        {"type": "non_standard", "value": {"type": "screenshot", "data": PAYLOAD}},
    ],
)
def test_a_payload_in_an_unknown_block_has_the_price_too(block: dict[str, Any]) -> None:
    assert MEDIA_TOKENS <= size(block) <= MEDIA_TOKENS + 100


def test_documents_of_plain_text_are_counted_as_text() -> None:
    assert size({"type": "document", "source": {"type": "text", "data": "x" * 5_000}}) == 5_000
    assert size({"type": "text-plain", "text": "x" * 5_000, "mime_type": "text/plain"}) == 5_000
    inner = {"type": "content", "content": [{"type": "text", "text": "four"}]}
    assert size({"type": "document", "source": inner}) == 4


def test_an_unknown_block_is_counted_as_json() -> None:
    block = {"type": "search_result", "title": "Rates", "content": [{"type": "text", "text": "five percent"}]}
    assert size(block) == len(json.dumps({key: block[key] for key in ("title", "content")}))


CALL = {"name": "search", "args": {"query": "rates"}, "id": "call_1", "type": "tool_call"}
CALL_SIZE = len("search") + len('{"query": "rates"}') + LINK_TOKENS


@pytest.mark.parametrize(
    "block",
    [
        {"type": "tool_use", "id": "call_1", "name": "search", "input": {"query": "rates"}},
        {"type": "tool_use", "id": "call_1", "name": "search", "input": {}, "partial_json": '{"query": "rates"}'},
        {"type": "function_call", "id": "fc_9", "call_id": "call_1", "name": "search", "arguments": "{}"},
        {"type": "tool_call", "id": "call_1", "name": "search", "args": {"query": "rates"}},
        {"type": "tool_call", "name": "search", "args": {"query": "rates"}},
        {"type": "input_json_delta", "partial_json": '{"query": "rates"}'},
    ],
)
def test_a_block_that_mirrors_a_tool_call_is_not_counted_again(block: dict[str, Any]) -> None:
    assert size(block, kind=AIMessage, tool_calls=[CALL]) == CALL_SIZE


def test_a_call_that_is_only_in_the_content_is_counted() -> None:
    block = {"type": "tool_use", "id": "call_2", "name": "search", "input": {"query": "x" * 500}}
    assert size(block, kind=AIMessage, tool_calls=[CALL]) > CALL_SIZE + 500


def test_calls_without_valid_json_count_their_raw_arguments() -> None:
    invalid = {"name": "search", "args": '{"query": ', "id": "call_1", "error": None, "type": "invalid_tool_call"}
    assert size(kind=AIMessage, invalid_tool_calls=[invalid]) == len("search") + len('{"query": ') + LINK_TOKENS
    legacy = {"function_call": {"name": "search", "arguments": "{}"}}
    assert size(kind=AIMessage, additional_kwargs=legacy) == len("search") + 2 + LINK_TOKENS


def test_a_streamed_message_counts_like_a_whole_one() -> None:
    chunk = {"name": "search", "args": '{"query": "rates"}', "id": "call_1", "index": 0}
    streamed = AIMessageChunk(content="", tool_call_chunks=[chunk])
    whole = AIMessage(content="", tool_calls=[CALL])
    assert count_message(ESTIMATOR, streamed) == count_message(ESTIMATOR, whole)


def test_a_tool_result_costs_a_link_and_its_name() -> None:
    message = ToolMessage("four", tool_call_id="call_1", name="search", artifact=PAYLOAD)
    assert count_message(Characters(), message) == MESSAGE_TOKENS + LINK_TOKENS + 4 + len("search")


def test_metadata_is_not_counted() -> None:
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    message = AIMessage("four", response_metadata={"logprobs": "x" * 20_000}, usage_metadata=usage)
    assert count_message(Characters(), message) == MESSAGE_TOKENS + 4


def test_a_long_text_is_never_taken_for_a_payload() -> None:
    counter = Characters()
    count_message(counter, ToolMessage(PAYLOAD, tool_call_id="call_1"))
    assert PAYLOAD in counter.seen


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
TYPES = st.sampled_from(
    [
        *("text", "thinking", "reasoning", "redacted_thinking", "tool_use", "tool_call", "function_call"),
        *("tool_result", "image", "image_url", "document", "file", "non_standard", "input_json_delta", "other"),
    ]
)
KEYS = ("text", "thinking", "summary", "content", "source", "value", "input", "id", "name", "signature", "data")
BLOCKS = st.text(max_size=20) | st.fixed_dictionaries({}, optional={"type": TYPES, **dict.fromkeys(KEYS, JSON)})
CALLS = st.builds(
    lambda name, args, call_id: {"name": name, "args": args, "id": call_id},
    st.text(max_size=12),
    st.dictionaries(st.text(max_size=8), JSON, max_size=3),
    st.none() | st.text(max_size=6),
)
CONTENT = st.text() | st.lists(BLOCKS, max_size=4)
MESSAGES = st.one_of(
    st.builds(HumanMessage, content=CONTENT),
    st.builds(SystemMessage, content=CONTENT),
    st.builds(ToolMessage, content=CONTENT, tool_call_id=st.text(max_size=6), name=st.none() | st.text(max_size=6)),
    st.builds(AIMessage, content=CONTENT, tool_calls=st.lists(CALLS, max_size=3)),
)


@given(message=MESSAGES)
def test_any_message_counts(message: BaseMessage) -> None:
    assert count_message(ESTIMATOR, message) >= MESSAGE_TOKENS


def test_content_nested_without_end_counts() -> None:
    block: dict[str, Any] = {"type": "tool_result"}
    block["content"] = [block]
    assert size(block) <= MEDIA_TOKENS + 20 * LINK_TOKENS


# Tools


@tool
def search(query: str, limit: int = 5) -> str:
    """Search the web for pages about a topic."""
    return query * limit


def test_tools_count_their_schema() -> None:
    counter = Characters()
    total = count_tools(counter, [search, {"name": "plain", "description": "d", "input_schema": {"type": "object"}}])
    assert total == sum(map(len, counter.seen))
    assert "Search the web" in counter.seen[0]
    assert '"limit"' in counter.seen[0]
    assert "plain" in counter.seen[1]


def test_a_tool_that_cannot_be_converted_counts_its_repr() -> None:
    foreign: Any = {"surprise": 1}
    assert count_tools(Characters(), [foreign]) == len(repr(foreign))
    assert count_tools(Characters(), []) == 0


# Calibration


def line(factor: float, offset: float, raws: list[int]) -> list[tuple[int, int]]:
    return [(raw, round(factor * raw + offset)) for raw in raws]


def test_without_usage_the_prior_stays() -> None:
    prior = Calibration(1.3, 400)
    assert calibrate([], prior) == prior
    assert calibrate([(1_000, 0), (1_000, -5), (1_000, 499), (0, 900)], prior) == prior


def test_a_small_first_request_teaches_the_offset() -> None:
    found = calibrate([(160, 2_800)])
    assert found.factor == pytest.approx(1.0, abs=0.05)
    assert found.offset == pytest.approx(2_640, rel=0.01)


def test_a_large_first_request_teaches_the_factor() -> None:
    found = calibrate([(100_000, 130_000)])
    assert found.factor == pytest.approx(1.3, abs=0.05)
    assert found.apply(100_000) == 130_000


def test_the_newest_request_is_always_reproduced() -> None:
    observations = [*line(1.25, 1_800, [1_000, 9_000, 30_000]), (31_000, 43_000)]
    assert calibrate(observations).apply(31_000) == pytest.approx(43_000, abs=1)


def test_a_line_is_found_and_reaches_to_other_sizes() -> None:
    found = calibrate(line(1.25, 1_800, list(range(2_000, 60_000, 2_000))))
    assert found.apply(5_000) == pytest.approx(1.25 * 5_000 + 1_800, rel=0.05)
    assert found.apply(120_000) == pytest.approx(1.25 * 120_000 + 1_800, rel=0.01)


def test_one_strange_request_does_not_bend_the_line() -> None:
    observations = line(1.25, 1_800, list(range(2_000, 60_000, 2_000)))
    observations[10] = (observations[10][0], observations[10][1] * 3)
    assert calibrate(observations).factor == pytest.approx(1.25, abs=0.05)


def test_the_factor_has_no_upper_limit() -> None:
    assert calibrate(line(5.0, 0, [100_000, 120_000, 150_000])).factor == pytest.approx(5.0, rel=0.06)


def test_a_provider_that_counts_less_lowers_the_factor_and_not_the_offset() -> None:
    found = calibrate(line(0.8, 0, [10_000, 20_000, 50_000]))
    assert found.factor == pytest.approx(0.8, abs=0.02)
    assert found.offset == 0.0


def test_only_the_newest_observations_matter() -> None:
    newest = line(1.1, 500, list(range(10_000, 10_000 + 100 * NEWEST, 100)))
    assert calibrate(line(3.0, 0, list(range(1_000, 90_000, 500))) + newest) == calibrate(newest)


def test_a_calibration_rounds_up_and_is_never_negative() -> None:
    assert Calibration(1.25, 0.0).apply(101) == 127
    assert Calibration(1.0, -500.0).apply(100) == 0


@given(
    observations=st.lists(st.tuples(st.integers(-5, 2_000_000), st.integers(-5, 9_000_000)), max_size=80),
    raw=st.integers(0, 2_000_000),
)
def test_any_usage_gives_a_sane_calibration(observations: list[tuple[int, int]], raw: int) -> None:
    found = calibrate(observations)
    assert found.factor >= 0.5
    assert found.offset >= 0
    assert found.apply(raw) >= raw // 2
    assert Calibration(**json.loads(json.dumps(asdict(found)))) == found


@pytest.mark.parametrize("numbers", [(float("nan"), 0.0), (1.0, float("inf")), (0.0, 1.0), (-1.0, 0.0)])
def test_numbers_that_are_no_calibration_are_refused(numbers: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="not a calibration"):
        Calibration(*numbers)


def predictions(segments: list[list[tuple[int, int]]]) -> Iterator[float]:
    prior = calibration = Calibration()
    for segment in segments:
        for position, (raw, actual) in enumerate(segment):
            if position:
                yield abs(calibration.apply(raw) / actual - 1)
            calibration = calibrate(segment[: position + 1], prior)
        prior = calibration


@needs_recordings
@pytest.mark.parametrize("setting", COUNTERS, ids=str)
def test_nine_of_ten_predictions_of_recorded_usage_are_within_one_percent(setting: tuple[str, ...]) -> None:
    counter = load_counter(*setting)
    (record,) = load_recordings("pi_sessions")
    errors = sorted(predictions(usage_segments(record, lambda m: count_message(counter, m), counter.text)))
    assert len(errors) > 400
    assert errors[len(errors) * 9 // 10] <= 0.01
    assert errors[len(errors) * 99 // 100] <= 0.05


@needs_recordings
def test_recorded_messages_count_and_have_ids() -> None:
    for record in load_recordings("openhands"):
        messages = to_messages(record)
        assert [message.id for message in messages] == [f"{record['id']}-{n}" for n in range(len(messages))]
        assert all(count_message(ESTIMATOR, message) > MESSAGE_TOKENS for message in messages)
