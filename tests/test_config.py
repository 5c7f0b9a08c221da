import codecs
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_memory.config import (
    Allowed,
    CompactionConfig,
    MemoryConfig,
    PruningConfig,
    RuntimeConfig,
    config_fields,
    config_values,
    json_schema,
    load_config,
)
from langgraph_memory.errors import ConfigError

EXAMPLE = Path(__file__).parent.parent / "runtime.example.json"
DEFAULTS = config_values(RuntimeConfig())
KEYS = list(DEFAULTS)
PATH_KEYS = {"tools.spill_buffer.path", "persistence.thread_db", "persistence.workspace"}
PROMPT_KEYS = ["memory.compaction.prompt", "memory.flush.prompt", "memory.consolidation.prompt"]
MODEL_KEYS = [
    "memory.compaction.model",
    "memory.flush.model",
    "memory.consolidation.model",
    "memory.retrieval.embeddings",
]


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("CONFIG", "DB_PATH", "WORKSPACE"):
        monkeypatch.delenv(f"LANGGRAPH_MEMORY_{name}", raising=False)


def nested(key: str, value: object) -> dict[str, object]:
    for part in reversed(key.split(".")):
        value = {part: value}
    return value


def nested_json(key: str, raw: str) -> str:
    """Like `nested`, for values such as 1e999 that only a JSON text can hold."""
    return json.dumps(nested(key, "@@")).replace('"@@"', raw)


def refusal(data: object) -> str:
    with pytest.raises(ConfigError) as caught:
        RuntimeConfig.model_validate(data)
    return str(caught.value)


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def load_refusal(path: Path | None = None, **environ: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(path, environ=environ)
    return str(caught.value)


# --- Defaults and documentation --------------------------------------------------------------------------------------


def test_the_example_file_names_every_key_with_its_default():
    raw = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    assert raw == RuntimeConfig().model_dump(mode="json")


def test_the_example_file_loads_to_the_defaults():
    assert load_config(EXAMPLE).config == RuntimeConfig()


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (
            """
{
  "memory": {
    "pruning": {
      "soft_trim_chars": 5000,
      "hard_clear_threshold": 20000,
      "protect_recent": 5
    }
  }
}
""",
            {
                "memory.pruning.soft_trim_chars": 5000,
                "memory.pruning.hard_clear_threshold": 20000,
                "memory.pruning.protect_recent": 5,
            },
        ),
        (
            """
{
  "memory": {
    "compaction": {
      "enabled": true,
      "reserve_tokens": 32768,
      "keep_recent_tokens": 40000,
      "min_messages": 30
    }
  }
}
""",
            {
                "memory.compaction.enabled": True,
                "memory.compaction.reserve_tokens": 32768,
                "memory.compaction.keep_recent_tokens": 40000,
                "memory.compaction.min_messages": 30,
            },
        ),
        (
            """
{
  "tools": {
    "spill_buffer": {
      "default_threshold": 50000,
      "thresholds": {
        "Grep": 20000,
        "run_command": 100000
      }
    }
  }
}
""",
            {"tools.spill_buffer.thresholds": {"Grep": 20000, "run_command": 100000}},
        ),
        (
            """
{
  "memory": {
    "compaction": {
      "enabled": false
    }
  }
}
""",
            {"memory.compaction.enabled": False},
        ),
        (
            """
{
  "memory": {
    "pruning": {
      "trim_tool_results": false
    }
  }
}
""",
            {"memory.pruning.trim_tool_results": False},
        ),
    ],
)
def test_a_block_of_the_mycel_memory_page_loads_unchanged(tmp_path, block, expected):
    config = RuntimeConfig.load(write(tmp_path / "mycel.json", block))
    assert config_values(config) == DEFAULTS | expected


@pytest.mark.parametrize(("key", "info"), config_fields().items(), ids=KEYS)
def test_every_key_has_a_one_line_description_and_says_what_it_allows(key, info):
    assert info.description and "\n" not in info.description
    assert [type(item) for item in info.metadata].count(Allowed) == 1


def test_the_json_schema_closes_every_object_and_describes_every_key_with_its_default():
    schema = json_schema()
    objects = [schema, *schema["$defs"].values()]
    properties = [entry for each in objects for entry in each["properties"].values()]
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert all(each["additionalProperties"] is False for each in objects)
    assert all("$ref" in entry or entry["description"] for entry in properties)
    assert all(each["description"] for each in objects)
    assert len([entry for entry in properties if "default" in entry]) == len(KEYS)


def test_the_json_schema_is_plain_json_with_the_limits_in_it():
    pruning = json.loads(json.dumps(json_schema()))["$defs"]["PruningConfig"]["properties"]
    assert pruning["soft_trim_chars"]["minimum"] == 0
    assert pruning["exclude_tools"]["default"] == ["read_file"]


# --- Values ----------------------------------------------------------------------------------------------------------


def fits(key: str, raw: str) -> bool:
    """Whether one of the values below happens to be a good one for a key."""
    default = DEFAULTS[key]
    if raw.startswith('"'):
        return key in PATH_KEYS
    good = {"true": isinstance(default, bool), "null": default is None}
    return good.get(raw, raw in ("[]", "{}") and type(default) is type(json.loads(raw)))


@pytest.mark.parametrize("raw", ['"20MB"', '"70%"', "null", "true", "[]", "{}", "1e999", "-Infinity", "NaN", "-1"])
@pytest.mark.parametrize("key", KEYS)
def test_a_value_of_another_kind_is_refused_by_key_and_never_coerced(key, raw):
    if fits(key, raw):
        loaded = RuntimeConfig.model_validate_json(nested_json(key, raw))
        assert config_values(loaded)[key] == json.loads(raw)
        return
    with pytest.raises(ConfigError) as caught:
        RuntimeConfig.model_validate_json(nested_json(key, raw))
    assert f"{key} is {json.loads(raw)!r}; " in str(caught.value)


@pytest.mark.parametrize("value", [4000.0, 4000.5, "4000", True, None, [4000], {"value": 4000}])
@pytest.mark.parametrize("key", [key for key in KEYS if type(DEFAULTS[key]) is int])
def test_a_whole_number_is_written_as_a_whole_number(key, value):
    assert f"{key} is {value!r}; allowed: a whole number" in refusal(nested(key, value))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("memory.context_window", 499),
        ("memory.context_window", 0),
        ("memory.context_window", True),
        ("memory.context_window", "AUTO"),
        ("memory.context_window", 128000.0),
        ("memory.tokenizer", ""),
        ("memory.tokenizer", "cl100k"),
        ("memory.tokenizer", "gpt-4o"),
        ("memory.pruning.enabled", 0),
        ("memory.pruning.enabled", "false"),
        ("memory.compaction.trigger_ratio", 0),
        ("memory.compaction.trigger_ratio", 1.01),
        ("memory.compaction.trigger_ratio", 70),
        ("memory.compaction.prefetch_ratio", 0.0),
        ("memory.compaction.timeout_seconds", 0),
        ("memory.budget.system_tokens", -1),
        ("memory.budget.tools_tokens", False),
        ("memory.flush.trigger", "never "),
        ("memory.retrieval.limit", 0),
        ("memory.retrieval.decay_hours", 0),
        ("memory.retrieval.decay_floor", 1.5),
        ("persistence.state", "some"),
        ("persistence.thread_db", ""),
        ("persistence.thread_db", " \t"),
        ("persistence.workspace", "a\0b"),
        ("persistence.workspace", "\ud800"),
    ],
)
def test_a_value_out_of_range_is_refused_with_key_and_value(key, value):
    assert f"{key} is {value!r}" in refusal(nested(key, value))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("memory.context_window", 500),
        ("memory.tokenizer", "estimate"),
        ("memory.tokenizer", "o200k_base"),
        ("memory.compaction.trigger_ratio", 1),
        ("memory.compaction.trigger_ratio", 1e-9),
        ("memory.compaction.timeout_seconds", 0.5),
        ("memory.compaction.min_messages", 0),
        ("memory.compaction.keep_recent_tokens", 10**30),
        ("memory.budget.system_tokens", 0),
        ("memory.retrieval.decay_floor", 0),
        ("memory.pruning.exclude_tools", []),
        ("memory.namespace", []),
        ("memory.namespace", ["team", "{org_id}-{user_id}"]),
        ("tools.spill_buffer.thresholds", {"mcp.read file": 0}),
        ("persistence.thread_db", "潮汐/线程.db"),
    ],
)
def test_a_value_at_the_edge_of_its_range_is_kept_as_it_is(key, value):
    assert config_values(RuntimeConfig.model_validate(nested(key, value)))[key] == value


def test_the_window_error_names_the_smallest_window():
    assert '"auto" or a whole number of tokens, 500 or more' in refusal(nested("memory.context_window", 499))


def test_the_tokenizer_error_lists_the_known_encodings():
    assert "cl100k_base, o200k_base" in refusal(nested("memory.tokenizer", "cl100k"))


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("bad", ["", "  ", None, 3, ["a"], True])
@pytest.mark.parametrize(
    "key", ["memory.pruning.exclude_tools", "tools.spill_buffer.exclude_tools", "memory.namespace"]
)
def test_a_bad_item_of_a_list_is_named_by_its_position(key, bad, position):
    items = ["one", "two"]
    items.insert(position, bad)
    assert f"{key}[{position}] is {bad!r}; allowed: a list of non-empty strings" in refusal(nested(key, items))


@pytest.mark.parametrize("value", ["read_file", {"read_file": True}, {"read_file"}])
def test_a_list_is_not_made_from_something_else(value):
    assert "memory.pruning.exclude_tools is" in refusal(nested("memory.pruning.exclude_tools", value))


@pytest.mark.parametrize("bad", ["{", "}", "{}", "{0}", "{user id}", "{a!r}", "{a.b}", "{{user_id}}", "x{user_id"])
def test_a_brace_in_a_namespace_stands_only_around_a_name(bad):
    assert f"memory.namespace[1] is {bad!r}" in refusal(nested("memory.namespace", ["a", bad]))


@pytest.mark.parametrize("bad", [-1, 1.0, True, None, "20MB", [], float("nan")])
@pytest.mark.parametrize("names", [("Grep", "a", "b"), ("a", "Grep", "b"), ("a", "b", "Grep")])
def test_a_bad_spill_threshold_is_named_by_its_tool(bad, names):
    thresholds = {name: bad if name == "Grep" else 1 for name in names}
    message = refusal(nested("tools.spill_buffer.thresholds", thresholds))
    assert f"tools.spill_buffer.thresholds.Grep is {bad!r}; allowed: an object of tool names" in message


@pytest.mark.parametrize("name", ["", " ", "\ud800"])
def test_a_spill_threshold_needs_the_name_of_a_tool(name):
    assert f"is {name!r}; allowed: " in refusal(nested("tools.spill_buffer.thresholds", {name: 1}))


@pytest.mark.parametrize("bad", ["gpt-4o", "", ":", "openai:", ":gpt-4o", " openai:gpt-4o", "openai:gpt-4o\n", 3, True])
@pytest.mark.parametrize("key", MODEL_KEYS)
def test_a_model_is_null_or_provider_and_name(key, bad):
    assert f'{key} is {bad!r}; allowed: null or "provider:name"' in refusal(nested(key, bad))


@pytest.mark.parametrize("good", ["openai:gpt-5-mini", "ollama:llama3:8b", "huggingface:org/model", None])
@pytest.mark.parametrize("key", MODEL_KEYS)
def test_a_model_name_may_itself_hold_colons_and_slashes(key, good):
    assert config_values(RuntimeConfig.model_validate(nested(key, good)))[key] == good


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=6,
)


def same(one: object, other: object) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


@given(st.sampled_from(KEYS), json_values)
def test_any_junk_under_a_known_key_is_kept_unchanged_or_refused_by_key(key, junk):
    try:
        config = RuntimeConfig.model_validate(nested(key, junk))
    except ConfigError as error:
        assert key in str(error)
    else:
        assert same(config_values(config)[key], junk)


@given(st.sampled_from(KEYS), json_values)
def test_any_junk_means_the_same_as_python_value_and_as_json_text(key, junk):
    def outcome(build):
        try:
            return build()
        except ConfigError as error:
            return str(error)

    text = json.dumps(nested(key, junk))
    assert outcome(lambda: RuntimeConfig.model_validate_json(text)) == outcome(
        lambda: RuntimeConfig.model_validate(json.loads(text))
    )


# --- Combinations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pruning",
    [
        {"soft_trim_chars": 10_001},
        {"hard_clear_threshold": 2999},
        {"soft_trim_chars": 1, "hard_clear_threshold": 0},
        {"hard_clear_threshold": 5000, "enabled": False, "soft_trim_chars": 5001},
    ],
)
def test_results_cannot_be_cut_later_than_they_are_cleared(pruning):
    message = refusal({"memory": {"pruning": pruning}})
    soft, hard = pruning.get("soft_trim_chars", 3000), pruning.get("hard_clear_threshold", 10_000)
    assert f"memory.pruning.soft_trim_chars is {soft}; " in message
    assert f"memory.pruning.hard_clear_threshold, which is {hard}" in message


def test_equal_pruning_thresholds_are_possible():
    both = {"soft_trim_chars": 10, "hard_clear_threshold": 10}
    assert RuntimeConfig.model_validate({"memory": {"pruning": both}}).memory.pruning.soft_trim_chars == 10


def test_newest_messages_are_kept_by_messages_or_by_turns_and_not_by_both():
    message = refusal({"memory": {"compaction": {"keep_messages": 2, "keep_turns": 1}}})
    assert "memory.compaction.keep_turns is 1; allowed: 0 while memory.compaction.keep_messages is 2" in message


@pytest.mark.parametrize("key", ["keep_messages", "keep_turns"])
def test_one_of_the_two_keep_rules_is_possible(key):
    config = RuntimeConfig.model_validate({"memory": {"compaction": {key: 4}}})
    assert getattr(config.memory.compaction, key) == 4


# --- Unknown keys and the shape of messages --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unknown", "nearest"),
    [
        ("pruning", "memory.pruning"),
        ("memroy", "memory"),
        ("soft_trim", "memory.pruning.soft_trim_chars"),
        ("memory.soft_trim", "memory.pruning.soft_trim_chars"),
        ("memory.compaction.soft_trim", "memory.pruning.soft_trim_chars"),
        ("memory.pruning.softTrimChars", "memory.pruning.soft_trim_chars"),
        ("memory.pruning.hard_clear_treshold", "memory.pruning.hard_clear_threshold"),
        ("memory.compaction.enable", "memory.compaction.enabled"),
        ("memory.spill_buffer", "tools.spill_buffer"),
        ("tools.spill_buffer.threshold", "tools.spill_buffer.thresholds"),
    ],
)
def test_an_unknown_key_is_answered_with_the_nearest_valid_one(unknown, nearest):
    assert f"{unknown} is not a known key (its value is 7); nearest valid key: {nearest}" in refusal(nested(unknown, 7))


def test_an_unknown_key_unlike_any_other_is_answered_with_the_keys_valid_in_its_place():
    answer = "valid keys here: persistence.thread_db, persistence.workspace, persistence.state"
    assert refusal({"persistence": {"db": 7}}).endswith(answer)


def test_a_dotted_path_written_as_one_key_is_answered_with_the_key_it_means():
    message = refusal({"memory.pruning.soft_trim_chars": 5})
    assert "['memory.pruning.soft_trim_chars'] is not a known key" in message
    assert message.endswith("nearest valid key: memory.pruning.soft_trim_chars")


@pytest.mark.parametrize("unknown", ["zzz", "", "\n", "\ud800", "q" * 10_000, 1])
@pytest.mark.parametrize("section", ["", "memory", "memory.pruning"])
def test_any_unknown_key_is_refused_in_one_readable_line(section, unknown):
    data = {unknown: 1}
    message = refusal(nested(section, data) if section else data)
    assert "\n" not in message
    assert len(message) < 800
    message.encode("utf-8")


def test_all_problems_are_reported_at_once_one_a_line():
    data = {
        "memory": {"context_window": True, "pruning": {"soft_trim_chars": "20MB", "exclude": 1}, "flush": []},
        "tools": {"spill_buffer": {"thresholds": {"Grep": None}}},
        "persistance": {},
    }
    lines = refusal(data).splitlines()
    assert sorted(line.split()[1] for line in lines) == [
        "memory.context_window",
        "memory.flush",
        "memory.pruning.exclude",
        "memory.pruning.soft_trim_chars",
        "persistance",
        "tools.spill_buffer.thresholds.Grep",
    ]


@pytest.mark.parametrize("bad", [None, True, 3, "x", [], [{}]])
@pytest.mark.parametrize("section", ["memory", "memory.pruning", "tools.spill_buffer", "persistence"])
def test_a_section_is_an_object(section, bad):
    assert f"{section} is {bad!r}; allowed: an object with keys among " in refusal(nested(section, bad))


@pytest.mark.parametrize("bad", [None, True, 3, "x", [], [{}]])
def test_the_whole_is_an_object(bad):
    assert f"the whole configuration is {bad!r}; allowed: an object" in refusal(bad)


def test_a_long_value_is_shortened_in_the_message():
    assert len(refusal(nested("memory.tokenizer", "x" * 100_000))) < 400


def test_a_whole_number_beyond_every_float_is_refused_where_a_float_belongs():
    assert "memory.compaction.timeout_seconds is 1000" in refusal(nested("memory.compaction.timeout_seconds", 10**400))


def test_a_number_too_long_to_print_is_refused_all_the_same():
    assert "memory.context_window is a number too long to print" in refusal(
        nested("memory.context_window", -(10**5000))
    )


@pytest.mark.parametrize(
    "build",
    [
        lambda: RuntimeConfig(memory={"pruning": {"soft_trim_chars": -1}}),
        lambda: RuntimeConfig(memory=MemoryConfig(pruning=PruningConfig(soft_trim_chars=-1))),
        lambda: PruningConfig(soft_trim_chars=-1),
        lambda: PruningConfig.model_validate({"soft_trim_chars": -1}),
        lambda: RuntimeConfig.model_validate({"memory": {"pruning": {"soft_trim_chars": -1}}}),
        lambda: RuntimeConfig.model_validate_json('{"memory": {"pruning": {"soft_trim_chars": -1}}}'),
        lambda: RuntimeConfig.model_validate_json(b'{"memory": {"pruning": {"soft_trim_chars": -1}}}'),
    ],
)
def test_every_way_to_build_a_configuration_raises_the_same_error(build):
    with pytest.raises(ConfigError, match=r"^configuration: memory\.pruning\.soft_trim_chars is -1; allowed: "):
        build()


def test_a_configuration_can_be_put_together_from_sections():
    config = RuntimeConfig(memory=MemoryConfig(compaction=CompactionConfig(keep_turns=2)))
    assert config == RuntimeConfig.model_validate({"memory": {"compaction": {"keep_turns": 2}}})


def test_a_configuration_cannot_be_changed_afterwards():
    thresholds = {"Grep": 1}
    config = RuntimeConfig.model_validate(nested("tools.spill_buffer.thresholds", thresholds))
    thresholds["Grep"] = -1
    assert config.tools.spill_buffer.thresholds == {"Grep": 1}
    with pytest.raises(ValueError, match="frozen"):
        config.memory.pruning.enabled = False


def test_a_configuration_survives_a_round_trip_through_json():
    config = RuntimeConfig.model_validate(nested("memory.pruning.exclude_tools", ["a", "b"]))
    assert RuntimeConfig.model_validate_json(config.model_dump_json()) == config


# --- Prompts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", ["", "  ", "Summarise.", "{message}", "{ messages }"])
@pytest.mark.parametrize("key", PROMPT_KEYS)
def test_a_prompt_says_where_the_messages_go(key, bad):
    assert f"{key} is {bad!r}; a prompt must contain {{messages}}" in refusal(nested(key, bad))


@pytest.mark.parametrize("key", PROMPT_KEYS)
def test_a_prompt_may_hold_any_other_braces(key):
    text = 'Reply as {"json": {}} {0} {previous} %s {messages}'
    assert config_values(RuntimeConfig.model_validate(nested(key, text)))[key] == text


@pytest.mark.parametrize("content", ["潮汐 {messages} ✓", "\ufeff潮汐 {messages} ✓"], ids=["plain", "byte order mark"])
@pytest.mark.parametrize("key", PROMPT_KEYS)
def test_a_prompt_file_is_read_relative_to_the_configuration_file(tmp_path, key, content):
    folder = tmp_path / "settings"
    folder.mkdir()
    write(folder / "prompt.md", content)
    write(folder / "runtime.json", json.dumps(nested(key, "@prompt.md")))
    assert config_values(RuntimeConfig.load("settings/runtime.json"))[key] == "潮汐 {messages} ✓"


def test_a_prompt_file_may_be_named_by_an_absolute_path(tmp_path):
    prompt = write(tmp_path / "p.md", "{messages}")
    file = write(tmp_path / "runtime.json", json.dumps(nested("memory.compaction.prompt", f"@{prompt}")))
    assert RuntimeConfig.load(file).memory.compaction.prompt == "{messages}"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read (No such file or directory)"),
        (b"Summarise.", "must contain {messages}"),
        (b"", "must contain {messages}"),
        (b"caf\xe9 {messages}", "byte 3 is b'\\xe9', which is not UTF-8"),
        ("{messages}".encode("utf-16"), "save as UTF-8"),
    ],
)
@pytest.mark.parametrize("key", PROMPT_KEYS)
def test_a_prompt_file_that_cannot_be_used_is_an_error_of_its_key(tmp_path, key, content, reason):
    if content is not None:
        write(tmp_path / "p.md", content)
    message = load_refusal(write(tmp_path / "c.json", json.dumps(nested(key, "@p.md"))))
    assert message.startswith(f"{tmp_path / 'c.json'}: {key} is '@p.md'; ")
    assert reason in message


@pytest.mark.parametrize("value", ["@", "@."])
def test_a_folder_is_not_a_prompt_file(tmp_path, value):
    file = write(tmp_path / "c.json", json.dumps(nested("memory.compaction.prompt", value)))
    assert "cannot be read" in load_refusal(file)


def test_a_prompt_file_needs_a_configuration_file_to_be_relative_to(tmp_path):
    write(tmp_path / "p.md", "{messages}")
    assert "read from a configuration file only" in refusal(nested("memory.compaction.prompt", "@p.md"))


def test_a_prompt_text_that_starts_with_an_at_sign_survives_a_second_validation(tmp_path):
    write(tmp_path / "p.md", "@you: {messages}")
    file = write(tmp_path / "c.json", json.dumps(nested("memory.compaction.prompt", "@p.md")))
    config = RuntimeConfig.load(file)
    assert RuntimeConfig.model_validate(config.model_dump()).memory.compaction.prompt == "@you: {messages}"


# --- Which file ------------------------------------------------------------------------------------------------------


def with_recent(count: int) -> str:
    return json.dumps(nested("memory.pruning.protect_recent", count))


def test_without_any_file_the_defaults_are_in_effect():
    loaded = load_config(environ={})
    assert loaded.config == RuntimeConfig()
    assert loaded.path is None
    assert set(loaded.origins.values()) == {"default"}


def test_the_given_path_wins_over_the_variable_and_the_variable_over_the_working_folder(tmp_path):
    write(tmp_path / "runtime.json", with_recent(1))
    write(tmp_path / "variable.json", with_recent(2))
    write(tmp_path / "given.json", with_recent(3))
    environ = {"LANGGRAPH_MEMORY_CONFIG": "variable.json"}
    found = [load_config(environ={}), load_config(environ=environ), load_config("given.json", environ=environ)]
    assert [loaded.config.memory.pruning.protect_recent for loaded in found] == [1, 2, 3]
    assert [loaded.path for loaded in found] == [Path("runtime.json"), Path("variable.json"), Path("given.json")]


def test_the_process_environment_is_read_at_the_time_of_the_call(tmp_path, monkeypatch):
    write(tmp_path / "variable.json", with_recent(2))
    monkeypatch.setenv("LANGGRAPH_MEMORY_CONFIG", "variable.json")
    assert RuntimeConfig.load().memory.pruning.protect_recent == 2


def test_an_empty_variable_counts_as_unset():
    names = ("LANGGRAPH_MEMORY_CONFIG", "LANGGRAPH_MEMORY_DB_PATH", "LANGGRAPH_MEMORY_WORKSPACE")
    assert load_config(environ=dict.fromkeys(names, "")) == load_config(environ={})


def test_the_origin_of_every_value_is_known(tmp_path):
    file = write(tmp_path / "c.json", '{"memory": {"tokenizer": "auto"}, "persistence": {"thread_db": "a.db"}}')
    loaded = load_config(file, environ={"LANGGRAPH_MEMORY_DB_PATH": "b.db", "LANGGRAPH_MEMORY_WORKSPACE": "elsewhere"})
    assert loaded.config.persistence.thread_db == "b.db"
    assert loaded.config.persistence.workspace == "elsewhere"
    assert list(loaded.origins) == KEYS
    assert {key: origin for key, origin in loaded.origins.items() if origin != "default"} == {
        "memory.tokenizer": str(file),
        "persistence.thread_db": "LANGGRAPH_MEMORY_DB_PATH",
        "persistence.workspace": "LANGGRAPH_MEMORY_WORKSPACE",
    }


def test_the_variables_work_without_a_file():
    loaded = load_config(environ={"LANGGRAPH_MEMORY_DB_PATH": "b.db"})
    assert loaded.config.persistence.thread_db == "b.db"
    assert loaded.path is None


def test_a_bad_value_from_a_variable_is_blamed_on_the_variable():
    message = load_refusal(LANGGRAPH_MEMORY_WORKSPACE=" ")
    assert message == "$LANGGRAPH_MEMORY_WORKSPACE: persistence.workspace is ' '; allowed: a non-empty path"


@pytest.mark.parametrize("persistence", ["[]", "null", '{"thread_db": 3, "state": "x"}'])
def test_a_variable_does_not_hide_another_problem_of_its_section(tmp_path, persistence):
    file = write(tmp_path / "c.json", f'{{"persistence": {persistence}}}')
    assert f"{file}: persistence" in load_refusal(file, LANGGRAPH_MEMORY_DB_PATH="b.db")


# --- Files that cannot be read ---------------------------------------------------------------------------------------


def test_a_given_path_that_does_not_exist_is_an_error(tmp_path):
    assert load_refusal(tmp_path / "no.json").startswith(f"{tmp_path / 'no.json'}: cannot be read (No such file")


def test_a_path_from_the_variable_that_does_not_exist_is_an_error_that_names_the_variable():
    message = load_refusal(LANGGRAPH_MEMORY_CONFIG="no.json")
    assert message.startswith("no.json (from $LANGGRAPH_MEMORY_CONFIG): cannot be read (No such file")


@pytest.mark.parametrize("path", ["", ".", "no\0file", "x" * 5000])
def test_a_path_that_cannot_be_a_file_is_an_error(path):
    assert "cannot be read" in load_refusal(Path(path))


def test_a_folder_with_the_default_name_is_an_error(tmp_path):
    (tmp_path / "runtime.json").mkdir()
    assert load_refusal().startswith("runtime.json: cannot be read")


def test_a_dangling_link_with_the_default_name_is_an_error(tmp_path):
    (tmp_path / "runtime.json").symlink_to("gone.json")
    assert load_refusal().startswith("runtime.json: cannot be read")


def test_a_file_that_may_not_be_read_is_an_error(tmp_path, monkeypatch):
    def denied(self):
        raise PermissionError(13, "Permission denied")

    write(tmp_path / "runtime.json", "{}")
    monkeypatch.setattr(Path, "read_bytes", denied)
    assert load_refusal().startswith("runtime.json: cannot be read (Permission denied)")


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path, mark, newline):
    text = '{\n"memory": {"namespace": ["潮汐表 ✓"]}\n}\n'.replace("\n", newline)
    config = RuntimeConfig.load(write(tmp_path / "c.json", mark + text.encode("utf-8")))
    assert config.memory.namespace == ("潮汐表 ✓",)


@pytest.mark.parametrize("key", sorted(PATH_KEYS))
@pytest.mark.parametrize("path", ["$HOME/x", "${HOME}/x", "a/$USER", "a/${USER}/b", "C:\\$x"])
def test_a_variable_in_a_path_is_refused_by_key_with_what_to_write(key, path):
    said = refusal(nested(key, path))
    assert key in said and "write ~ for the home folder" in said


@pytest.mark.parametrize("path", ["~/x", "price$", "a$b/c", "$5/x", "$", "~"])
def test_other_dollars_in_a_path_are_part_of_it(path):
    assert RuntimeConfig.model_validate(nested("persistence.workspace", path)).persistence.workspace == path


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_utf_16_and_utf_32_are_refused_with_the_way_out(tmp_path, encoding):
    file = write(tmp_path / "c.json", '{"memory": {}}'.encode(encoding))
    message = load_refusal(file)
    assert message.startswith(f"{file}: is UTF-16, UTF-32 or not text")
    assert message.endswith("save as UTF-8")


@pytest.mark.parametrize("before", [b"", codecs.BOM_UTF8, "潮".encode()])
def test_a_byte_that_is_not_utf_8_is_named_by_its_position(tmp_path, before):
    file = write(tmp_path / "c.json", before + b'{"a": "caf\xe9"}')
    assert load_refusal(file) == (f"{file}: byte {len(before) + 10} is b'\\xe9', which is not UTF-8; save as UTF-8")


@pytest.mark.parametrize("content", ["", " \r\n\t", "\ufeff"])
def test_an_empty_file_is_refused(tmp_path, content):
    file = write(tmp_path / "c.json", content)
    assert load_refusal(file) == f"{file}: is empty; write {{}} to take every default"


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ('{"memory": {},}', "line 1, column 15"),
        ('\ufeff{\r\n  "memory": {\r\n    // comment\r\n  }\r\n}', "line 3, column 5"),
        ("{'memory': {}}", "line 1, column 2"),
        ('{"memory": {}', "line 1, column 14"),
        ('{"memory": {}} {}', "line 1, column 16"),
        ('{"memory": undefined}', "line 1, column 12"),
        ('{"memory": "a\nb"}', "line 1, column 14"),
    ],
)
def test_bad_json_is_refused_with_line_and_column(tmp_path, content, place):
    file = write(tmp_path / "c.json", content)
    assert load_refusal(file).startswith(f"{file}: {place}: not JSON (")


@pytest.mark.parametrize("content", ["[" * 100_000, '{"a":' * 100_000, "9" * 5000])
def test_json_too_deep_or_too_long_to_read_is_refused(tmp_path, content):
    file = write(tmp_path / "c.json", content)
    assert load_refusal(file).startswith(f"{file}: not usable as JSON (")


@pytest.mark.parametrize("content", ["[]", "[{}]", "null", "true", "3", '"{}"', "NaN"])
def test_a_file_that_is_not_an_object_is_refused(tmp_path, content):
    file = write(tmp_path / "c.json", content)
    assert load_refusal(file).startswith(f"{file}: the whole configuration is ")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"memory": {}, "memory": {}}', "memory is given more than once ({}, {})"),
        (
            '{"memory": {"pruning": {"enabled": true, "protect_recent": 1, "enabled": false}}}',
            "memory.pruning.enabled is given more than once (True, False)",
        ),
        (
            '{"memory": {"namespace": ["a"], "namespace": ["a"]}}',
            "memory.namespace is given more than once (['a'], ['a'])",
        ),
        (
            '{"tools": {"spill_buffer": {"thresholds": {"Grep": 1, "Grep": 1}}}}',
            "tools.spill_buffer.thresholds.Grep is given more than once (1, 1)",
        ),
        (
            '{"memory": {"flush": {"model": null, "model": null, "model": null}}}',
            "memory.flush.model is given more than once (None, None, None)",
        ),
    ],
)
def test_a_key_given_twice_is_refused_by_its_path(tmp_path, content, problem):
    file = write(tmp_path / "c.json", content)
    assert load_refusal(file).startswith(f"{file}: {problem}; ")


@pytest.mark.parametrize("raw", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize(
    "key", ["memory.compaction.trigger_ratio", "memory.retrieval.long_term_weight", "memory.budget.response_tokens"]
)
def test_a_number_that_is_not_finite_is_refused_by_key(tmp_path, key, raw):
    file = write(tmp_path / "c.json", nested_json(key, raw))
    assert load_refusal(file).startswith(f"{file}: {key} is ")


def test_every_line_of_an_error_names_the_file(tmp_path):
    file = write(tmp_path / "c.json", '{"memory": {"tokenizer": 1, "context_window": 2}, "tool": {}}')
    assert [line.startswith(f"{file}: ") for line in load_refusal(file).splitlines()] == [True] * 3
