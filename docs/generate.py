"""Makes the reference documents from the code: `python docs/generate.py` writes `runtime.md` and `cli.md` anew.

A test compares them with what this would write, so whoever adds a key, a command or an option runs it.
"""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

from langgraph_memory.cli import app
from langgraph_memory.config import OVERRIDES, Allowed, RuntimeConfig, Section, config_fields

ROOT = Path(__file__).resolve().parents[1]
HOW = "<!-- Made by `python docs/generate.py`; what is written here by hand is lost. -->"


# --- runtime.json ----------------------------------------------------------------------------------------------------

SEEDS: dict[str, tuple[str, Any, str]] = {
    "memory.pruning.trim_tool_results": ("Mycel", True, ""),
    "memory.pruning.soft_trim_chars": ("Mycel", 3000, ""),
    "memory.pruning.hard_clear_threshold": ("Mycel", 10_000, ""),
    "memory.pruning.protect_recent": ("Mycel", 3, ""),
    "memory.pruning.min_reclaim_tokens": (
        "Mycel",
        0,
        "each time something is pruned the provider's prompt cache is lost from there on, so it has to be worth it",
    ),
    "memory.truncate_args.trigger_messages": ("AgentScope", 25, ""),
    "memory.truncate_args.trigger_tokens": ("AgentScope", 40_000, ""),
    "memory.truncate_args.max_chars": ("AgentScope", 2000, ""),
    "memory.compaction.trigger_ratio": ("Mycel", 0.7, ""),
    "memory.compaction.trigger_messages": (
        "AgentScope",
        50,
        "messages are of any size, so the share of the window decides; a number of them may be set beside it",
    ),
    "memory.compaction.trigger_tokens": ("AgentScope", 80_000, "the share of the window fits every model"),
    "memory.compaction.min_messages": ("Mycel", 20, ""),
    "memory.compaction.reserve_tokens": ("Mycel", 16_384, ""),
    "memory.compaction.keep_recent_tokens": ("Mycel", 20_000, ""),
    "memory.compaction.keep_messages": ("AgentScope", 20, "as Mycel does, tokens decide what is kept"),
    "memory.compaction.map_chunk_messages": (
        "PaiCLI",
        5,
        "fewer calls: a chunk is as large as the summariser can read, whatever the number of messages in it",
    ),
    "memory.compaction.flush_before": ("AgentScope", True, ""),
    "memory.compaction.offload_before": ("AgentScope", True, ""),
    "memory.budget.system_tokens": ("PaiCLI", 500, "measured where the prompt is known; its number where it is not"),
    "memory.budget.tools_tokens": ("PaiCLI", 800, "measured where the tools are known; its number where they are not"),
    "memory.budget.response_tokens": ("PaiCLI", 2000, ""),
    "memory.consolidation.max_memory_tokens": ("AgentScope", 4000, ""),
    "memory.consolidation.min_interval_minutes": ("AgentScope", 30, ""),
    "memory.maintenance.interval_hours": ("AgentScope", 6, ""),
    "memory.maintenance.ledger_retention_days": ("AgentScope", 90, ""),
    "memory.maintenance.session_retention_days": ("AgentScope", 180, ""),
    "memory.retrieval.long_term_weight": ("PaiCLI", 1.2, ""),
    "memory.retrieval.decay_floor": ("PaiCLI", 0.5, ""),
    "memory.retrieval.decay_hours": ("PaiCLI", 24, ""),
    "tools.spill_buffer.default_threshold": (
        "AgentScope",
        80_000,
        "its number is of characters; ours is of bytes, and the one that Mycel's page shows",
    ),
    "tools.spill_buffer.preview_chars": ("AgentScope", 2000, ""),
    "tools.spill_buffer.path": ("AgentScope", "large_tool_results", "Mycel's word for it"),
}
"""Key -> whose default it is, what it is there, and why ours is another, if it is."""

RUNTIME = f"""# runtime.json, key by key

{HOW}

`runtime.json` is read from the path that is given, else from `$LANGGRAPH_MEMORY_CONFIG`, else from `./runtime.json`;
without a file all defaults hold. An unknown key, a wrong type or an impossible combination is a `ConfigError` that
names file, key, value, what is allowed and the nearest valid key. `lgm config check` says whether a file can be used,
`lgm config show` what holds and where each value comes from, `lgm config schema` prints the JSON Schema.

Each key has a test that fails if the key does nothing: `python -m pytest -p tests.support.without_keys` runs them with
the keys made deaf, one after the other, and lists those that pass all the same.

Three systems had most of these settings first: Mycel's memory, AgentScope's harness and PaiCLI. Where a default is
theirs, or is not, it says so.

"""


def runtime() -> str:
    """The text of `docs/runtime.md`."""
    tests = shown_by()
    parts = [RUNTIME]
    section = None
    for key, info in config_fields().items():
        if (above := key.rpartition(".")[0]) != section:
            section = above
            parts.append(f"## {section}\n\n{_section(section).__doc__}\n\n")
        allowed = next(item.text for item in info.metadata if isinstance(item, Allowed))
        lines = [
            f"### `{key}`\n\n{info.description}\n",
            f"- default `{_json(info.get_default())}`; allowed: {allowed}",
            *([f"- `${OVERRIDES[key]}` overrides it"] if key in OVERRIDES else []),
            *_seed(key, info.get_default()),
            *(f"- shown by [`{test.name}`](../{test.path})" for test in tests.get(key, ())),
        ]
        parts.append("\n".join(lines) + "\n\n")
    return "".join(parts).rstrip("\n") + "\n"


def _section(path: str) -> type[Section]:
    section: type[Section] = RuntimeConfig
    for name in path.split("."):
        kind = section.model_fields[name].annotation
        assert isinstance(kind, type)
        section = kind
    return section


def _seed(key: str, ours: Any) -> Iterator[str]:
    if key in SEEDS:
        seed, theirs, why = SEEDS[key]
        assert (theirs == ours) != bool(why), f"{key}: a reason is given where and only where our default is another"
        yield f"- as in {seed}" if theirs == ours else f"- {seed} has `{_json(theirs)}`; {why}"


def _json(value: Any) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


@dataclass(frozen=True)
class Test:
    path: str
    name: str


def shown_by(root: Path = ROOT) -> dict[str, list[Test]]:
    """Key -> the tests that are marked `@pytest.mark.shows(key)`."""
    found: dict[str, list[Test]] = {}
    for path in sorted((root / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        # Most files have no such mark, and parsing them all takes seconds.
        for node in ast.parse(text).body if "mark.shows(" in text else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for key in _shown(node):
                    found.setdefault(key, []).append(Test(path.relative_to(root).as_posix(), node.name))
    return found


def _shown(test: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for mark in test.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.shows":
            yield from (ast.literal_eval(argument) for argument in mark.args)


# --- The command line ------------------------------------------------------------------------------------------------

CLI = f"""# The command line

{HOW}

`lgm` is also called `langgraph-memory`, and `python -m langgraph_memory`. Data goes to stdout, everything said beside
it to stderr. With `--json` a command prints one JSON value and nothing else to stdout.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | not done, or not as it should be; the command says when. Also whoever answers no when asked |
| 2 | an error, in one message on stderr; or the command line cannot be understood |
| 130 | interrupted by Ctrl-C |

"""


@dataclass(frozen=True)
class Parameter:
    """An argument or an option, as its annotation describes it."""

    name: str
    kind: Any
    info: Any
    default: Any

    @property
    def is_argument(self) -> bool:
        return isinstance(self.info, ArgumentInfo)

    @property
    def shown(self) -> str:
        """As in a usage line: `THREAD`, `[FILE]...`, `--at CHECKPOINT`."""
        if self.is_argument:
            name = self.info.metavar or self.name.upper()
            return name if self.default is inspect.Parameter.empty or name.startswith("[") else f"[{name}]"
        # In an annotation the first name stands where the default would be.
        given = [self.info.default] if isinstance(self.info.default, str) else []
        names = ", ".join([*given, *(self.info.param_decls or ())] or [f"--{self.name.replace('_', '-')}"])
        return names if self.kind is bool else f"{names} {self._value}"

    @property
    def _value(self) -> str:
        named = self.info.metavar or {int: "INTEGER", float: "NUMBER", Path: "PATH"}.get(self._plain, "TEXT")
        return named if self.info.min is None else f"{named} (at least {self.info.min})"

    @property
    def _plain(self) -> Any:
        """The type of one value: `int` of `int | None`."""
        return next((each for each in get_args(self.kind) if each is not type(None)), self.kind)

    @property
    def meaning(self) -> str:
        says_more = self.info.show_default and isinstance(self.default, str | int | float) and self.default is not False
        return self.info.help + (f" Default: {self.default}." if says_more else "")


@dataclass(frozen=True)
class Command:
    """A command that does something by itself, with the words it is called by."""

    path: str
    function: Callable[..., Any]
    is_group: bool = False

    @property
    def help(self) -> str:
        return inspect.getdoc(self.function) or ""

    @property
    def summary(self) -> str:
        return self.help.split("\n\n")[0].replace("\n", " ").split(". ")[0].rstrip(".")

    @property
    def parameters(self) -> list[Parameter]:
        hints = get_type_hints(self.function, include_extras=True)
        found = []
        for name, each in inspect.signature(self.function).parameters.items():
            kind, *more = get_args(hints[name]) if get_origin(hints[name]) is Annotated else (hints[name],)
            info = next((one for one in more if isinstance(one, ArgumentInfo | OptionInfo)), None)
            if info and info.help and not info.hidden:
                found.append(Parameter(name, kind, info, each.default))
        return found

    @property
    def usage(self) -> str:
        arguments = [each.shown for each in self.parameters if each.is_argument]
        options = ["[OPTIONS]"] if len(arguments) < len(self.parameters) else []
        return " ".join([self.path, *options, *arguments, *(["[COMMAND …]"] if self.is_group else [])])

    @property
    def may_exit_with_1(self) -> bool:
        """Whether the function ends with `typer.Exit(…1…)` anywhere."""
        tree = ast.parse(inspect.getsource(self.function))
        exits = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_exit(node))
        return any(isinstance(part, ast.Constant) and part.value == 1 for each in exits for part in ast.walk(each))


def _is_exit(call: ast.Call) -> bool:
    return ast.unparse(call.func) == "typer.Exit"


def commands_of(group: typer.Typer = app, path: str = "lgm") -> Iterator[Command]:
    for each in group.registered_commands:
        if each.callback and not each.hidden:
            yield Command(f"{path} {each.name or each.callback.__name__.replace('_', '-')}", each.callback)
    for below in group.registered_groups:
        inner = below.typer_instance
        assert inner
        name = f"{path} {below.name or inner.info.name}"
        if inner.registered_callback and inner.registered_callback.callback:
            yield Command(name, inner.registered_callback.callback, is_group=True)
        yield from commands_of(inner, name)


def cli() -> str:
    """The text of `docs/cli.md`."""
    commands = list(commands_of())
    listed = [f"- [`{each.path}`](#{each.path.replace(' ', '-')}): {each.summary}" for each in commands]
    return "".join([CLI, "\n".join(listed), "\n", *map(_section_of, commands)])


def _section_of(command: Command) -> str:
    rows = [f"| `{_cell(each.shown)}` | {_cell(each.meaning)} |\n" for each in command.parameters]
    table = ["\n| | |\n|---|---|\n", *rows] if rows else []
    return "".join([f"\n## {command.path}\n\n{command.help}\n\n    {command.usage}\n", *table, *_exit_codes(command)])


def _exit_codes(command: Command) -> Iterator[str]:
    """The codes of a command, unless its help says what each of them means."""
    if "Exit codes:" not in command.help:
        yield f"\nExit codes: {'0, 1 and 2' if command.may_exit_with_1 else '0 and 2'}.\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


DOCUMENTS: dict[str, Callable[[], str]] = {"runtime.md": runtime, "cli.md": cli}


def main() -> None:
    for name, made in DOCUMENTS.items():
        (ROOT / "docs" / name).write_text(made(), encoding="utf-8")


if __name__ == "__main__":
    main()
