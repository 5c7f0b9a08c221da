import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from langgraph_memory import cli

from .recorded import lgm, user, write


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
    assert all(name in out for name in ("replay", "threads", "context", "view", "config"))
    for command in ("replay", "threads", "context", "view", "config"):
        assert lgm(command, "--help").exit_code == 0


def test_the_version_is_that_of_the_distribution():
    assert lgm("--version").stdout == f"langgraph_memory {version('langgraph-memory-middleware')}\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["context", "t"], "Error: memory/threads.db: there is no database of threads here."),
        (["replay", "no.jsonl"], "Error: no.jsonl: cannot be read (No such file or directory)"),
        (["replay", "--window", "100"], "Error: configuration: memory.context_window is 100; allowed: "),
        (["config", "check", "no.json"], "Error: no.json: cannot be read"),
        (["replay", "--model", "nothing:x"], "Error: model: 'nothing:x' cannot be used"),
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

    monkeypatch.setattr(cli, "app", interrupted)
    assert main(monkeypatch) == 130
    assert capsys.readouterr().err == "Interrupted. What was stored stays stored.\n"


def test_text_of_any_language_is_written_whatever_the_encoding_of_the_streams():
    lgm("replay", write("t.jsonl", [("潮汐", [user("Grüße 潮汐 🌊")])]))
    shown = python_m("view", "t/潮汐", PYTHONIOENCODING="ascii")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "Grüße 潮汐 🌊" in shown.stdout


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
