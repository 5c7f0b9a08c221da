"""A chat at a terminal: with the editor of prompt_toolkit, and with plain lines where the terminal can do no more."""

import os
import select
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from langgraph_memory.cli.chat_editor import history_in
from langgraph_memory.cli.chat_names import new_id

from .recorded import stored

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

pty = pytest.importorskip("pty")

CTRL_C, CTRL_D, ENTER, TAB = "\x03", "\x04", "\r", "\t"
PATIENCE = 60.0
SAID = "fixed rules, no language model"


PROMPT = "\x1b[?2004h"
"""The editor has taken the terminal over and reads; a Ctrl-D before that would be the terminal's own."""


class Terminal:
    """A chat with the demo at a terminal of its own."""

    def __init__(self, kind: str) -> None:
        self._number, theirs = pty.openpty()
        command = [sys.executable, "-m", "langgraph_memory", "chat", "--model", "demo", "--thread", "t"]
        path = os.pathsep.join(filter(None, sys.path))
        environ = {**os.environ, "TERM": kind, "PYTHONPATH": path, "PROMPT_TOOLKIT_NO_CPR": "1", "COLUMNS": "120"}
        self.process = subprocess.Popen(
            [*command, "--user", "ada"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environ,
            # The terminal is theirs, so what is typed as Ctrl-C becomes a signal to them.
            preexec_fn=_own_terminal,
        )
        os.close(theirs)
        self.shown = ""

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._number)

    def type(self, text: str) -> None:
        os.write(self._number, text.encode())

    def see(self, text: str) -> str:
        """Wait until `text` is shown; what was shown up to there since the last time."""
        ends = time.monotonic() + PATIENCE
        while text not in self.shown:
            assert time.monotonic() < ends, f"{text!r} was not shown: {self.shown!r}"
            if select.select([self._number], [], [], 1.0)[0]:
                self.shown += os.read(self._number, 65536).decode("utf-8", "replace")
        before, _, self.shown = self.shown.partition(text)
        return before

    def left(self) -> int:
        self.see("Go on with: ")
        return self.process.wait(PATIENCE)


def _own_terminal() -> None:
    import fcntl
    import termios

    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_the_editor_completes_gives_a_line_up_and_leaves():
    with Terminal("xterm") as terminal:
        terminal.see("Ctrl-D leaves")
        terminal.see(">")
        terminal.type("this line is given up" + CTRL_C)
        terminal.see(">")
        terminal.type("hello" + ENTER)
        terminal.see(SAID)
        terminal.see(" of 12,000")
        terminal.see(">")
        terminal.type("/cont" + TAB)
        terminal.see("ext")
        terminal.type(ENTER)
        terminal.see("compaction above")
        terminal.see(PROMPT)
        terminal.type(CTRL_D)
        assert terminal.left() == 0
    assert stored("t")[0].text == "hello"
    history = Path("memory/.chat_history")
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert "+hello" in history.read_text(encoding="utf-8")


def test_plain_lines_at_a_terminal_are_asked_for_and_ctrl_c_only_gives_one_up():
    with Terminal("dumb") as terminal:
        terminal.see("> ")
        terminal.type("given up" + CTRL_C)
        terminal.see("\n> ")
        terminal.type("hello\n")
        terminal.see(SAID)
        terminal.see("> ")
        terminal.type(CTRL_D)
        assert terminal.left() == 0
    assert stored("t")[0].text == "hello"


def test_a_history_that_cannot_be_kept_costs_nothing(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").write_text("", encoding="utf-8")
    for path in (tmp_path / "fifo", tmp_path, tmp_path / "file" / "below"):
        history_in(path).append_string("hello")
    kept = history_in(tmp_path / "new" / "history")
    kept.append_string("hello")
    assert "+hello" in (tmp_path / "new" / "history").read_text(encoding="utf-8")
    (tmp_path / "new" / "history").unlink()
    (tmp_path / "new" / "history").mkdir()
    kept.append_string("hello again")


def test_new_ids_are_short_words():
    assert all(part.isalnum() and part.islower() for part in new_id(()).split("-")[:2])
