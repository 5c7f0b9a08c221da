"""Programs that forget to leave `open()` end all the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROGRAM = """
from langgraph_memory import MemoryMiddleware
from tests.support.graphs import node_graph, thread
from tests.support.models import Scripted

{opening}
graph = node_graph(memory, Scripted(replies="fine"), saver=memory.saver)
print(graph.invoke({{"messages": [("user", "go")]}}, thread())["messages"][-1].content)
{end}
"""
OPENINGS = {
    "kept": "opening = MemoryMiddleware.open(); memory = opening.__enter__()",
    "let go": "memory = MemoryMiddleware.open().__enter__()",
}


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize(("end", "code"), [("", 0), ("raise SystemExit(3)", 3), ("1 / 0", 1)])
@pytest.mark.parametrize("opening", sorted(OPENINGS))
def test_a_sync_program_ends_although_it_never_left_open(tmp_path, opening, end, code):
    source = PROGRAM.format(opening=OPENINGS[opening], end=end)
    done = subprocess.run(
        [sys.executable, "-c", source],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("fine\n", code), done.stderr


UNWRITABLE = """
from langgraph_memory import ConfigError, MemoryMiddleware
try:
    with MemoryMiddleware.open({"persistence": {"thread_db": "\\u5185/t.db"}}):
        pass
except ConfigError as error:
    print(ascii(str(error)))
"""


def test_a_name_that_the_locale_cannot_write_is_a_mistake_in_the_configuration(tmp_path):
    environ = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(ROOT)}
    ran = subprocess.run([sys.executable, "-c", UNWRITABLE], env=environ, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "persistence.thread_db: " in ran.stdout and "cannot be used" in ran.stdout
