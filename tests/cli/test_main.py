import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from langgraph_memory import cli
from langgraph_memory.cli import commands
from langgraph_memory.cli.called import program
from langgraph_memory.cli.replay import SMALLEST_WINDOW
from langgraph_memory.cli.replay_engine import DEFAULT_WINDOW
from langgraph_memory.cli.sample import SAMPLE_WINDOW
from langgraph_memory.config import CompactionConfig, MemoryConfig
from langgraph_memory.context import tokens
from langgraph_memory.errors import ConfigError

from .recorded import assistant, lgm, user, write

pytestmark = pytest.mark.slow

COMMANDS = (
    "replay",
    "chat",
    "status",
    "log",
    "context",
    "view",
    "diff",
    "tree",
    "rewind",
    "undo",
    "fork",
    "compact",
    "search",
    "verify",
    "maintain",
    "threads",
    "memory",
    "config",
)
OF_THREADS = ("list", "export", "rm", "prune", "stats", "backup", "vacuum")
OF_MEMORY = ("show", "add", "forget", "status", "log", "diff", "revert", "consolidate", "reindex")


def main(monkeypatch: pytest.MonkeyPatch, *args: str) -> int:
    monkeypatch.setattr(sys, "argv", ["lgm", *args])
    with pytest.raises(SystemExit) as leaving:
        cli.main()
    return int(leaving.value.code or 0)


def python_m(*args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "langgraph_memory", *args]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environ}, encoding="utf-8")


def test_the_help_lists_every_command():
    out = lgm("--help").stdout
    for name in (*COMMANDS, "config"):
        assert f" {name} " in out
        assert lgm(name, "--help").exit_code == 0
    assert all(f" {name} " in lgm("threads", "--help").stdout for name in OF_THREADS)
    assert all(f" {name} " in lgm("memory", "--help").stdout for name in OF_MEMORY)


def test_the_help_says_what_exit_codes_mean():
    out = " ".join(lgm("--help").stdout.split())
    assert "Exit codes: 0 all is well" in out and "130 Ctrl-C" in out


def test_the_version_is_that_of_the_distribution():
    assert lgm("--version").stdout == f"langgraph_memory {version('langgraph-memory-middleware')}\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["context", "t"], "Error: memory/threads.db: there is no database of threads here."),
        (["replay", "no.jsonl"], "Error: no.jsonl: cannot be read (No such file or directory)"),
        (["config", "check", "no.json"], "Error: no.json: cannot be read"),
        (["replay", "--model", "nothing:x"], "Error: --model: 'nothing:x' cannot be used"),
    ],
)
def test_an_error_of_the_library_is_one_message_and_exit_code_2(monkeypatch, capsys, args, message):
    assert main(monkeypatch, *args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(message)
    assert "Traceback" not in err


def test_wrong_use_of_the_command_line_is_exit_code_2(monkeypatch, capsys):
    assert main(monkeypatch, "replay", "--nonsense") == 2
    assert "No such option" in capsys.readouterr().err


def test_success_is_exit_code_0(monkeypatch, capsys):
    assert main(monkeypatch, "threads", "--json") == 0
    assert capsys.readouterr().out == "[]\n"


def test_an_interrupt_before_any_command_is_one_line_and_130(monkeypatch, capsys):
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "app", interrupted)
    assert main(monkeypatch) == 130
    assert capsys.readouterr().err == "Interrupted.\n"


@pytest.mark.parametrize("module", ["typer", "langgraph_memory.config", "langgraph_memory.cli.replay_run"])
def test_an_interrupt_during_any_import_is_one_line_and_130(module):
    code = f"""
import sys
class Interrupting:
    def find_spec(self, name, *rest):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
sys.argv = ["lgm", "replay", "my file.jsonl"]
from langgraph_memory.cli import main
main()
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (130, "")
    go_on = "Interrupted. What was stored stays stored; go on with: lgm replay 'my file.jsonl'\n"
    assert ended.stderr.endswith(go_on) and "Traceback" not in ended.stderr


def test_a_command_that_is_shown_names_the_program_as_it_was_called(monkeypatch, tmp_path):
    (tmp_path / "bin").mkdir()
    for name in ("lgm", "langgraph-memory"):
        (tmp_path / "bin" / name).touch(mode=0o755)
    cases = {"bin/lgm": "bin/lgm", "./bin/langgraph-memory": "bin/langgraph-memory", "/usr/bin/pytest": "lgm"}
    for called, shown in cases.items():
        monkeypatch.setattr(sys, "argv", [called])
        assert program() == shown
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "bin" / "lgm")])
    assert program() == "lgm"
    monkeypatch.setattr(sys, "argv", ["/any/langgraph_memory/__main__.py"])
    assert program().endswith(" -m langgraph_memory")


@pytest.mark.parametrize("model", ["gpt-5.5", ":x", "openai:", "open ai:x"])
def test_a_model_is_named_as_in_the_configuration(monkeypatch, capsys, model):
    with pytest.raises(ConfigError):
        CompactionConfig(model=model)
    assert main(monkeypatch, "replay", "--model", model) == 2
    assert "allowed: PROVIDER:NAME" in capsys.readouterr().err


def test_a_model_that_cannot_be_made_is_told_in_words_of_the_command_line(monkeypatch, capsys):
    assert main(monkeypatch, "replay", "--model", "nothing:x") == 2
    err = capsys.readouterr().err
    assert ".." not in err
    assert "MemoryMiddleware" not in err


def test_the_window_has_the_least_of_the_configuration_and_its_help_the_defaults(monkeypatch, capsys):
    assert MemoryConfig(context_window=SMALLEST_WINDOW)
    with pytest.raises(ConfigError):
        MemoryConfig(context_window=SMALLEST_WINDOW - 1)
    assert main(monkeypatch, "replay", "--window", str(SMALLEST_WINDOW - 1)) == 2
    err = capsys.readouterr().err
    assert "--window" in err and str(SMALLEST_WINDOW) in err
    shown = lgm("replay", "--help").stdout
    assert f"{SAMPLE_WINDOW:,}" in shown and f"{DEFAULT_WINDOW:,}" in shown


def test_missing_token_ranks_are_one_line_with_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(tokens, "load_encoding", lambda name: None)
    monkeypatch.setattr(tokens, "_counters", {})
    assert main(monkeypatch, "replay", str(write("t.jsonl", [("a", [user("u"), assistant("a")])]))) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "token ranks" in line]
    assert len(said) == 1
    assert "pip install 'langgraph-memory-middleware[offline-tokens]'" in said[0]


def test_a_command_without_subcommands_shows_none():
    assert "COMMAND" not in lgm("context", "--help").stdout


def test_text_of_any_language_is_written_whatever_the_encoding_of_the_streams():
    lgm("replay", write("t.jsonl", [("潮汐", [user("Grüße 潮汐 🌊")])]))
    shown = python_m("view", "t/潮汐", PYTHONIOENCODING="ascii")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "Grüße 潮汐 🌊" in shown.stdout


def test_a_chat_without_any_input_ends():
    code = (
        "import sys; sys.stdin = None; sys.argv[1:] = ['chat', '--model', 'demo']; from langgraph_memory import cli; "
    )
    code += "cli.main()"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", timeout=60)
    assert (ended.returncode, ended.stdout, "Traceback" in ended.stderr) == (0, "", False), ended.stderr


def test_a_reader_that_leaves_early_is_no_error():
    lgm("replay", write("t.jsonl", [("a", [user("line\n" * 20_000)])]))
    command = [sys.executable, "-m", "langgraph_memory", "view", "t/a", "--full"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    process.wait()
    assert Path("memory/threads.db").exists()
