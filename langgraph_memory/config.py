"""`runtime.json`: what it may say, what it means where it says nothing, and where each value came from.

A `RuntimeConfig` is a frozen value, checked once and as a whole. An unknown key, a wrong type or an impossible
combination is a `ConfigError` that lists every problem, one a line, so a configuration that exists can be used.
Nothing is coerced: "20MB", `true` or `null` where a number belongs is refused and never means 0 or "off".

`load_config` is the only function here that looks for files and environment variables, and only when it is called. An
`@file` prompt is read then, relative to the folder of the configuration file; afterwards `prompt` holds the text.
"""

import codecs
import difflib
import json
import os
import re
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError

from langgraph_memory.errors import ConfigError, described

CONFIG_VARIABLE = "LANGGRAPH_MEMORY_CONFIG"
DEFAULT_PATH = Path("runtime.json")

OVERRIDES = {
    "persistence.thread_db": "LANGGRAPH_MEMORY_DB_PATH",
    "persistence.workspace": "LANGGRAPH_MEMORY_WORKSPACE",
}


# --- What a value may be ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Allowed:
    """What a key accepts, in words; an error message shows this instead of one line per member of a union."""

    text: str


@dataclass(frozen=True)
class _Source:
    """Where values under validation come from: a file, if any, and the keys set by an environment variable."""

    path: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict)

    def of(self, key: str) -> str:
        return f"${self.variables[key]}" if key in self.variables else str(self.path or "configuration")


def _tuple_of_list(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _known_tokenizer(value: str) -> str:
    if value in ("auto", "estimate"):
        return value
    # Imported only now, because the import is slow and few configurations name an encoding.
    import tiktoken

    if value not in (names := tiktoken.list_encoding_names()):
        raise ValueError(f'allowed: "auto", "estimate" or a tiktoken encoding: {", ".join(names)}')
    return value


def _without_variables(value: str) -> str:
    # Otherwise a folder of this very name would be made.
    if re.search(r"(^|[/\\])\$\{?[A-Za-z_]", value):
        raise ValueError("variables are not filled in here: write ~ for the home folder, or the path itself")
    return value


def _prompt_text(value: str, info: ValidationInfo) -> str:
    """The prompt itself; `@file` is replaced by that file's text."""
    # A text read from a file may itself start with "@" and must survive being validated again.
    is_file = value.startswith("@") and "{messages}" not in value
    text = _prompt_file(value, info.context) if is_file else value
    if "{messages}" not in text:
        raise ValueError("a prompt must contain {messages}, the place of the messages to work on")
    return text


def _prompt_file(value: str, source: object) -> str:
    if not (isinstance(source, _Source) and source.path):
        raise ValueError("an @file prompt is read from a configuration file only; give the text itself here")
    file = source.path.parent / value[1:]
    return _read_text(file, str(file))


On: TypeAlias = Annotated[bool, Allowed("true or false")]
Size: TypeAlias = Annotated[int, Field(ge=0), Allowed("a whole number, 0 or more")]
Count: TypeAlias = Annotated[int, Field(ge=1), Allowed("a whole number, 1 or more")]
Ratio: TypeAlias = Annotated[float, Field(gt=0, le=1), Allowed("a number above 0 and at most 1 (0.7 means 70 %)")]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1), Allowed("a number from 0 to 1")]
Amount: TypeAlias = Annotated[float, Field(ge=0), Allowed("a number, 0 or more")]
Positive: TypeAlias = Annotated[float, Field(gt=0), Allowed("a number above 0")]
Window: TypeAlias = Annotated[
    Literal["auto"] | Annotated[int, Field(ge=500)], Allowed('"auto" or a whole number of tokens, 500 or more')
]
Reserve: TypeAlias = Annotated[
    Literal["auto"] | Annotated[int, Field(ge=0)], Allowed('"auto" or a whole number of tokens, 0 or more')
]
Name: TypeAlias = Annotated[str, Field(pattern=r"\S")]
Names: TypeAlias = Annotated[tuple[Name, ...], BeforeValidator(_tuple_of_list), Allowed("a list of non-empty strings")]
Segment: TypeAlias = Annotated[str, Field(pattern=r"^\s*([^\s{}]|\{[A-Za-z_]\w*\})([^{}]|\{[A-Za-z_]\w*\})*$")]
Namespace: TypeAlias = Annotated[
    tuple[Segment, ...],
    BeforeValidator(_tuple_of_list),
    Allowed('a list of non-empty strings in which braces stand only around a name, as in "{user_id}"'),
]
Thresholds: TypeAlias = Annotated[
    Mapping[Name, Annotated[int, Field(ge=0)]], Allowed("an object of tool names, each with a whole number, 0 or more")
]
# \x00 cannot be part of a file name; without this rule it would be found only when the file is opened.
FilePath: TypeAlias = Annotated[
    str,
    Field(pattern=r"^[^\x00]*[^\s\x00][^\x00]*$"),
    AfterValidator(_without_variables),
    Allowed("a non-empty path"),
]
ModelName: TypeAlias = Annotated[
    Annotated[str, Field(pattern=r"^[^\s:]+:\S+$")] | None,
    Allowed('null or "provider:name", as in "openai:gpt-5-mini"'),
]
Prompt: TypeAlias = Annotated[
    Annotated[str, AfterValidator(_prompt_text)] | None, Allowed("null, a text with {messages} in it, or @file")
]
Tokenizer: TypeAlias = Annotated[
    str, AfterValidator(_known_tokenizer), Allowed('"auto", "estimate" or the name of a tiktoken encoding')
]
FlushTrigger: TypeAlias = Annotated[Literal["turn", "compaction", "never"], Allowed('"turn", "compaction" or "never"')]
StateScope: TypeAlias = Annotated[Literal["all", "since_summary"], Allowed('"all" or "since_summary"')]


# --- The sections ----------------------------------------------------------------------------------------------------


class Section(BaseModel):
    """Base of every object in `runtime.json`; building one raises `ConfigError`, never pydantic's own error."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    def __init__(self, /, **data: Any) -> None:
        with _as_config_error(type(self), _Source()):
            super().__init__(**data)

    # Without this mark pydantic would build nested sections through __init__ and report one problem instead of all.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        source = options.get("context")
        with _as_config_error(cls, source if isinstance(source, _Source) else _Source()):
            return super().model_validate(obj, **options)

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        text = json_data if isinstance(json_data, str) else _decoded(bytes(json_data), "configuration")
        return cls.model_validate(_parsed(text, "configuration"), **options)


class PruningConfig(Section):
    """Shortening of old tool results in the view; the history keeps them."""

    enabled: On = Field(default=True, description="Prune at all; false means not even under pressure.")
    trim_tool_results: On = Field(
        default=True, description="Prune by the two thresholds; false leaves pruning under pressure on."
    )
    soft_trim_chars: Size = Field(
        default=3000, description="Characters; a longer tool result is cut to at most this many, marker included."
    )
    hard_clear_threshold: Size = Field(
        default=10_000, description="Characters; of a longer tool result only a marker is left."
    )
    protect_recent: Size = Field(
        default=3, description="Number of newest tool messages that are not pruned by threshold."
    )
    min_reclaim_tokens: Size = Field(
        default=4000, description="Tokens that pruning by threshold must free before it is done; 0 means at once."
    )
    exclude_tools: Names = Field(
        default=("read_file",), description="Names of tools whose results are not pruned by threshold."
    )

    @model_validator(mode="after")
    def _trims_before_it_clears(self) -> Self:
        if self.soft_trim_chars > self.hard_clear_threshold:
            rule = f"at most memory.pruning.hard_clear_threshold, which is {self.hard_clear_threshold}"
            raise _impossible("soft_trim_chars", self.soft_trim_chars, rule)
        return self


class TruncateArgsConfig(Section):
    """Shortening of long arguments in old tool calls."""

    enabled: On = Field(default=False, description="Shorten long arguments of old tool calls in the view.")
    trigger_messages: Size = Field(
        default=25, description="Number of messages in the state from which on it is done; 0 means never."
    )
    trigger_tokens: Size = Field(
        default=40_000, description="Tokens of view, system and tools from which on it is done; 0 means never."
    )
    max_chars: Size = Field(default=2000, description="Characters that each text in the arguments keeps at most.")
    keep_messages: Size = Field(default=20, description="Number of newest messages whose arguments stay whole.")


class CompactionConfig(Section):
    """Replacing an old part of the conversation in the view by a summary."""

    enabled: On = Field(default=True, description="Summarise old messages; false turns off every path to a summary.")
    trigger_ratio: Ratio = Field(default=0.7, description="Share of the context window above which compaction starts.")
    trigger_messages: Size = Field(
        default=0, description="Number of messages in the state that starts compaction by itself; 0 means none does."
    )
    trigger_tokens: Size = Field(
        default=0, description="Tokens of view, system and tools that start compaction by themselves; 0 means none do."
    )
    min_messages: Size = Field(
        default=20, description="Number of messages in the state below which the ratio does not start compaction."
    )
    reserve_tokens: Size = Field(
        default=16_384, description="Tokens kept free for new messages; capped at a quarter of the window."
    )
    keep_recent_tokens: Size = Field(
        default=20_000,
        description="Tokens of newest messages kept verbatim at most; capped at a quarter of the window.",
    )
    keep_messages: Size = Field(
        default=0, description="Number of newest messages kept, instead of keep_recent_tokens; 0 means not used."
    )
    keep_turns: Size = Field(
        default=0, description="Number of newest turns kept, instead of keep_recent_tokens; 0 means not used."
    )
    map_chunk_messages: Size = Field(
        default=0, description="Most messages a chunk of the summariser's input; 0 fills the summariser's window."
    )
    summary_tool_chars: Size = Field(
        default=1000,
        description="Characters of each tool result that the summariser gets to read; 0 means all that fits.",
    )
    model: ModelName = Field(
        default=None, description='Summariser as "provider:name"; null means the model the middleware has.'
    )
    prompt: Prompt = Field(
        default=None,
        description="Summary prompt or @file, with {messages} and maybe {previous} in it; null means the built-in one.",
    )
    timeout_seconds: Positive = Field(default=120, description="Seconds after which a summary call is given up.")
    prefetch_ratio: Ratio = Field(
        default=0.9,
        description="Share of the trigger from which on a summary is bought ahead, in the background; 1 means never.",
    )
    cache_ttl_seconds: Amount = Field(
        default=300, description="Seconds after the last call for which the provider's prompt cache counts as warm."
    )
    flush_before: On = Field(default=True, description="Extract memories from messages before a summary covers them.")
    offload_before: On = Field(
        default=True, description="Write messages to the session log in the workspace before a summary covers them."
    )

    @model_validator(mode="after")
    def _keeps_by_one_measure(self) -> Self:
        if self.keep_messages and self.keep_turns:
            rule = f"0 while memory.compaction.keep_messages is {self.keep_messages}; use one of the two"
            raise _impossible("keep_turns", self.keep_turns, rule)
        return self


class BudgetConfig(Section):
    """What the messages have to leave free in the window."""

    system_tokens: Reserve = Field(
        default="auto", description="Tokens for the system prompt; auto measures them, or reserves 500 where unknown."
    )
    tools_tokens: Reserve = Field(
        default="auto", description="Tokens for the tool schemas; auto measures them, or reserves 800 where unknown."
    )
    response_tokens: Size = Field(
        default=2000, description="Tokens for the model's answer; capped at an eighth of the window."
    )


class FlushConfig(Section):
    """Extraction of memories from a thread into the ledger."""

    enabled: On = Field(default=True, description="Extract memories into the ledger.")
    trigger: FlushTrigger = Field(
        default="turn", description="When memories are extracted: after each turn, at compaction, or never."
    )
    min_interval_seconds: Amount = Field(default=0, description="Seconds between two extractions of a thread at least.")
    from_tools: On = Field(default=False, description="Extract from tool output too.")
    model: ModelName = Field(
        default=None, description='Extracting model as "provider:name"; null means the model the middleware has.'
    )
    prompt: Prompt = Field(
        default=None, description="Extraction prompt or @file, with {messages} in it; null means the built-in one."
    )


class ConsolidationConfig(Section):
    """Merging of new ledger entries into MEMORY.md."""

    enabled: On = Field(default=True, description="Merge new ledger entries into MEMORY.md.")
    max_memory_tokens: Size = Field(default=4000, description="Tokens that MEMORY.md may have at most.")
    min_interval_minutes: Amount = Field(default=30, description="Minutes between two merges of a namespace at least.")
    model: ModelName = Field(
        default=None, description='Merging model as "provider:name"; null means the model the middleware has.'
    )
    prompt: Prompt = Field(
        default=None, description="Merge prompt or @file, with {messages} in it; null means the built-in one."
    )


class MaintenanceConfig(Section):
    """Regular tidying of what is on disk."""

    interval_hours: Amount = Field(
        default=6, description="Hours between two rounds; 0 means no rounds in the background."
    )
    ledger_retention_days: Size = Field(default=90, description="Days after which a ledger file moves to the archive.")
    session_retention_days: Size = Field(
        default=180, description="Days after which an offloaded session log is removed."
    )
    thread_retention_days: Size = Field(
        default=0,
        description="Days after which an idle thread is archived in the workspace and removed, at the next opening or "
        "round of upkeep; 0 means never.",
    )
    spill_retention_days: Size = Field(
        default=30,
        description="Days after which a spill file no thread refers to is removed, at the next opening or round of "
        "upkeep.",
    )
    spill_max_mb: Size = Field(
        default=1024, description="Megabytes above which spill files that no thread refers to are removed sooner."
    )


class RetrievalConfig(Section):
    """How memories come back into a conversation."""

    inject_curated: On = Field(default=True, description="Show MEMORY.md to the model.")
    auto_recall: On = Field(default=False, description="Search the memory for each request and show what is found.")
    limit: Count = Field(default=10, description="Number of hits a search returns at most.")
    long_term_weight: Amount = Field(
        default=1.2, description="Factor on the score of a memory over the thread's own messages."
    )
    decay_floor: Share = Field(default=0.5, description="Recency factor that a hit never falls below; a new one has 1.")
    decay_hours: Positive = Field(
        default=24, description="Hours in which the recency factor falls from 1 to decay_floor."
    )
    embeddings: ModelName = Field(
        default=None, description='Embedding model as "provider:name"; null means full-text search only.'
    )


class MemoryConfig(Section):
    """What the model sees, and what outlives a thread."""

    context_window: Window = Field(
        default="auto", description="Tokens of the context window; auto asks the model's profile, else takes 128000."
    )
    tokenizer: Tokenizer = Field(
        default="auto", description="Token counter: a tiktoken encoding, estimate, or auto (chosen by model)."
    )
    namespace: Namespace = Field(
        default=("{user_id}",),
        description="Parts of the folder for what is kept beyond a thread, {name} filled at run time; [] means shared.",
    )
    pruning: PruningConfig = Field(default_factory=PruningConfig, description="Shortening of old tool results.")
    truncate_args: TruncateArgsConfig = Field(
        default_factory=TruncateArgsConfig, description="Shortening of long arguments in old tool calls."
    )
    compaction: CompactionConfig = Field(
        default_factory=CompactionConfig, description="Summaries in place of old messages."
    )
    budget: BudgetConfig = Field(default_factory=BudgetConfig, description="Room the messages leave free.")
    flush: FlushConfig = Field(default_factory=FlushConfig, description="Extraction of memories into the ledger.")
    consolidation: ConsolidationConfig = Field(
        default_factory=ConsolidationConfig, description="Merging of the ledger into MEMORY.md."
    )
    maintenance: MaintenanceConfig = Field(
        default_factory=MaintenanceConfig, description="Regular tidying of what is on disk."
    )
    retrieval: RetrievalConfig = Field(
        default_factory=RetrievalConfig, description="How memories come back into a conversation."
    )


class SpillBufferConfig(Section):
    """Very large tool results go to a file; the conversation gets a preview."""

    enabled: On = Field(default=True, description="Write very large tool results to files in the workspace.")
    default_threshold: Size = Field(
        default=50_000, description="Bytes in UTF-8; a larger tool result is written to a file."
    )
    thresholds: Thresholds = Field(default={}, description="Bytes in UTF-8 for single tools, by tool name.")
    preview_chars: Size = Field(
        default=2000, description="Characters of a spilled result that stay in the conversation at most."
    )
    exclude_tools: Names = Field(default=("read_file",), description="Names of tools whose results are never spilled.")
    path: FilePath = Field(
        default="spill", description="Folder of the spill files, relative to the workspace or absolute."
    )


class ToolsConfig(Section):
    """What happens around tool calls."""

    spill_buffer: SpillBufferConfig = Field(
        default_factory=SpillBufferConfig, description="Files for very large tool results."
    )


class PersistenceConfig(Section):
    """Where things are kept."""

    thread_db: FilePath = Field(default="memory/threads.db", description="SQLite file of the threads.")
    workspace: FilePath = Field(
        default="memory",
        description="Folder of bought summaries and of what outlives threads; made when it is missing.",
    )
    state: StateScope = Field(
        default="all",
        description="Messages in the live state: all, or since_summary: those a summary covers leave it and stay in "
        "the thread's history.",
    )


class RuntimeConfig(Section):
    """The whole of `runtime.json`."""

    memory: MemoryConfig = Field(
        default_factory=MemoryConfig, description="What the model sees, and what outlives a thread."
    )
    tools: ToolsConfig = Field(default_factory=ToolsConfig, description="What happens around tool calls.")
    persistence: PersistenceConfig = Field(
        default_factory=PersistenceConfig, description="Where things are kept; only MemoryMiddleware.open() reads it."
    )

    @classmethod
    def load(
        cls, path: str | os.PathLike[str] | None = None, *, environ: Mapping[str, str] = os.environ
    ) -> "RuntimeConfig":
        """The configuration alone; `load_config` tells where each value came from, too."""
        return load_config(path, environ=environ).config


# --- Walking over the keys -------------------------------------------------------------------------------------------


def config_fields() -> dict[str, FieldInfo]:
    """Every key with a value of its own, dotted, in the order of the file."""
    return {key: info for key, info in _walk(RuntimeConfig) if _subsection(info) is None}


def config_values(config: RuntimeConfig) -> dict[str, Any]:
    """The effective value of every dotted key, as plain JSON values."""
    dumped = config.model_dump(mode="json")
    return {key: reduce(getitem, key.split("."), dumped) for key in config_fields()}


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of `runtime.json`, with the description and the default of every key."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **RuntimeConfig.model_json_schema()}


def _walk(section: type[Section], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for name, info in section.model_fields.items():
        yield prefix + name, info
        if below := _subsection(info):
            yield from _walk(below, f"{prefix}{name}.")


def _subsection(info: FieldInfo) -> type[Section] | None:
    kind = info.annotation
    return kind if isinstance(kind, type) and issubclass(kind, Section) else None


# --- Problems in words -----------------------------------------------------------------------------------------------

Place: TypeAlias = tuple[int | str, ...]

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 80


@contextmanager
def _as_config_error(section: type[Section], source: _Source) -> Iterator[None]:
    try:
        yield
    except ValidationError as error:
        raise ConfigError("\n".join(_problems(section, source, error.errors(include_url=False)))) from None


def _problems(section: type[Section], source: _Source, errors: Sequence[ErrorDetails]) -> list[str]:
    """One line for each key with a problem, however many members of a union refused its value."""
    lines: dict[str, str] = {}
    for error in errors:
        place, info = _locate(section, (*error["loc"], *error.get("ctx", {}).get("key", ())))
        place = _place_of(section) + place
        key = _dotted(place)
        lines.setdefault(key, f"{source.of(key)}: {key} {_problem(place, info, error)}")
    return list(lines.values())


def _locate(section: type[Section], location: Place) -> tuple[Place, FieldInfo | None]:
    """The field at a location, and its path without pydantic's names for the members of a union."""
    if not location:
        return (), None
    head, rest = location[0], location[1:]
    info = section.model_fields.get(str(head))
    if info is None:
        return (head,), None
    if rest and (below := _subsection(info)):
        place, info = _locate(below, rest)
        return (head, *place), info
    has_items = get_origin(info.annotation) in (tuple, Mapping)
    return (head, *(part for part in rest if has_items and part != "[key]")), info


def _place_of(section: type[Section]) -> Place:
    """The path of a section that was built by itself, so that its errors name the same keys as in the file."""
    places = (tuple(key.split(".")) for key, info in _walk(RuntimeConfig) if _subsection(info) is section)
    return next(places, ())


def _dotted(place: Place) -> str:
    parts = (f".{part}" if re.fullmatch(r"[^\W\d][\w-]{,60}", str(part)) else f"[{_shown(part)}]" for part in place)
    return "".join(parts).removeprefix(".") or "the whole configuration"


def _problem(place: Place, info: FieldInfo | None, error: ErrorDetails) -> str:
    details = error.get("ctx", {})
    value = _shown(details.get("value", error["input"]))
    if error["type"] in ("extra_forbidden", "invalid_key"):
        return f"is not a known key (its value is {value}); {_nearest(place)}"
    if error["type"] == "value_error":
        return f"is {value}; {details['error']}"
    if error["type"] == "string_unicode" and (info is None or _subsection(info)):
        return f"has the key {value}, which is not valid Unicode"
    return f"is {value}; allowed: {details.get('allowed') or _allowed(info)}"


def _impossible(key: str, value: object, allowed: str) -> PydanticCustomError:
    """An error of one key that only a look at its neighbours shows."""
    return PydanticCustomError("impossible", "allowed: {allowed}", {"key": (key,), "value": value, "allowed": allowed})


def _allowed(info: FieldInfo | None) -> str:
    section = RuntimeConfig if info is None else _subsection(info)
    if section:
        return f"an object with keys among {', '.join(section.model_fields)}"
    return next(item.text for item in info.metadata if isinstance(item, Allowed)) if info else ""


def _nearest(place: Place) -> str:
    """The valid key with the most similar name at any level; of equal names the one with the most similar path."""
    wanted = ".".join(map(str, place))[-200:].lower()

    def likeness(key: str) -> tuple[float, float]:
        return _similarity(wanted.rpartition(".")[2], key.rpartition(".")[2]), _similarity(wanted, key)

    best = max((key for key, _ in _walk(RuntimeConfig)), key=likeness)
    return f"nearest valid key: {best}" if likeness(best)[0] >= 0.6 else _valid_beside(place)


def _valid_beside(place: Place) -> str:
    beside = ".".join(map(str, place[:-1]))
    return f"valid keys here: {', '.join(key for key, _ in _walk(RuntimeConfig) if key.rpartition('.')[0] == beside)}"


def _similarity(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()


def _shown(value: object) -> str:
    try:
        return _short.repr(value)
    except ValueError:
        # Python refuses to print integers of thousands of digits.
        return "a number too long to print"


# --- Files and environment variables ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class LoadedConfig:
    """A configuration, the file it was read from, and for each dotted key where its value came from.

    An origin is "default", the path of the file or the name of the environment variable.
    """

    config: RuntimeConfig
    path: Path | None
    origins: dict[str, str]


def load_config(path: str | os.PathLike[str] | None = None, *, environ: Mapping[str, str] = os.environ) -> LoadedConfig:
    """Read `path`, else the file that $LANGGRAPH_MEMORY_CONFIG names, else ./runtime.json, else take the defaults.

    $LANGGRAPH_MEMORY_DB_PATH and $LANGGRAPH_MEMORY_WORKSPACE win over the file. An empty variable counts as unset.
    """
    file, label = _choose(path, environ)
    data = _parsed(_read_text(file, label), label) if file else {}
    source = _Source(file, {key: name for key, name in OVERRIDES.items() if environ.get(name)})
    config = RuntimeConfig.model_validate(_overridden(data, source, environ), context=source)
    return LoadedConfig(config, file, _origins(config, source))


def _choose(path: str | os.PathLike[str] | None, environ: Mapping[str, str]) -> tuple[Path | None, str]:
    """The file to read and its name in messages."""
    if path is not None:
        if not isinstance(path, str | os.PathLike):
            raise ConfigError(
                f"config is {described(path)}; allowed: the path of a file. A mapping goes to "
                "RuntimeConfig.model_validate(…), or to MemoryMiddleware as it is."
            )
        return Path(path), str(Path(path))
    if named := environ.get(CONFIG_VARIABLE):
        return Path(named), f"{named} (from ${CONFIG_VARIABLE})"
    # A dangling link counts as there, so that it is an error and not a silent return to the defaults.
    return (DEFAULT_PATH if os.path.lexists(DEFAULT_PATH) else None), str(DEFAULT_PATH)


def _overridden(data: Any, source: _Source, environ: Mapping[str, str]) -> Any:
    section = data.get("persistence", {}) if isinstance(data, dict) else None
    if not source.variables or not isinstance(section, dict):
        return data
    values = {key.removeprefix("persistence."): environ[name] for key, name in source.variables.items()}
    return {**data, "persistence": {**section, **values}}


def _origins(config: RuntimeConfig, source: _Source) -> dict[str, str]:
    in_file = {key: str(source.path) for key in config_fields() if _is_set(config, key)}
    return dict.fromkeys(config_fields(), "default") | in_file | dict(source.variables)


def _is_set(config: RuntimeConfig, key: str) -> bool:
    *parents, name = key.split(".")
    section: Section = reduce(getattr, parents, config)
    return name in section.model_fields_set


def _read_text(path: Path, label: str) -> str:
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{label}: cannot be read ({reason}); name a readable file") from error
    return _decoded(data, label)


def _decoded(data: bytes, label: str) -> str:
    # A NUL is never part of JSON or of a prompt, but every second byte of English in UTF-16 is one.
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in data:
        raise ConfigError(f"{label}: is UTF-16, UTF-32 or not text at all (it starts {data[:4]!r}); save as UTF-8")
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        wrong = data[error.start : error.start + 1]
        raise ConfigError(f"{label}: byte {error.start} is {wrong!r}, which is not UTF-8; save as UTF-8") from error


class _Repeated:
    """Stands for the value of a key that occurs more than once in one object; no field accepts it."""

    def __init__(self, values: list[object]) -> None:
        self.values = values

    def __repr__(self) -> str:
        return f"given more than once ({', '.join(map(_shown, self.values))})"


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values: dict[str, list[object]] = {}
    for key, value in pairs:
        values.setdefault(key, []).append(value)
    return {key: each[0] if len(each) == 1 else _Repeated(each) for key, each in values.items()}


def _parsed(text: str, label: str) -> Any:
    if not text.strip():
        raise ConfigError(f"{label}: is empty; write {{}} to take every default")
    try:
        # NaN, Infinity and 1e999 become floats here, which the fields refuse by name.
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        where = f"{label}: line {error.lineno}, column {error.colno}"
        raise ConfigError(f"{where}: not JSON ({error.msg}){_remedy(text, error.pos)}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{label}: not usable as JSON ({error})") from error


def _remedy(text: str, position: int) -> str:
    """What to do about the usual faults of JSON that was written by hand."""
    here, before = text[position:].lstrip(), text[:position].rstrip()
    if here.startswith(("//", "/*", "#")):
        return "; JSON has no comments: remove them"
    # Newer Pythons point to the comma, older ones to what follows it.
    if (before.endswith(",") and here[:1] in ("}", "]")) or (here[:1] == "," and here[1:].lstrip()[:1] in ("}", "]")):
        return "; remove the comma in front of the bracket"
    return "; names and texts stand in double quotes" if here.startswith("'") else ""
