"""Twelve ways to be confused on the first day.

What is a mistake ends with one line on stderr that says what to do, and exit code 2.
"""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import langgraph_memory
from langgraph_memory import cli
from langgraph_memory.threads import schema
from tests.live.child import NAMESPACE, ROOT, can_mount
from tests.support.processes import as_nobody, done

from .recorded import assistant, lgm, lgm_json, talk, user, write

KEYS = ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "ANTHROPIC_API_KEY")


class Use:
    """The command line in this process, as its scripts call it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self._capsys = monkeypatch, capsys

    def code(self, *args: str) -> tuple[int, str]:
        # Not "lgm", which would be looked for on the path, in the middle of reading a thread.
        self.monkeypatch.setattr(sys, "argv", ["program", *args])
        with pytest.raises(SystemExit) as leaving:
            cli.main()
        return int(leaving.value.code or 0), self._capsys.readouterr().err

    def refused(self, *args: str) -> str:
        """The one line that a use ends with."""
        code, said = self.code(*args)
        assert (code, said.count("\n"), "Traceback" in said) == (2, 1, False), said
        assert said.startswith("Error: ")
        return said


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Use:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    return Use(monkeypatch, capsys)


def configure(text: str) -> None:
    Path("runtime.json").write_text(text, encoding="utf-8")


# 1. A wrong path


@pytest.mark.parametrize(
    ("args", "environ", "parts"),
    [
        (["threads", "--config", "no.json"], {}, ["no.json: cannot be read", "name a readable file"]),
        (["status"], {"CONFIG": "no.json"}, ["no.json (from $LANGGRAPH_MEMORY_CONFIG)", "name a readable file"]),
        (["view", "t"], {"DB_PATH": "no/t.db"}, ["no/t.db: there is no database", "replay", "persistence.thread_db"]),
        (["threads"], {"DB_PATH": "."}, ["is a folder", "Name another file"]),
        (["replay"], {"DB_PATH": "file/t.db"}, ["persistence.thread_db: 'file/t.db' cannot be used"]),
        (["view", "t"], {"DB_PATH": "file"}, ["file is not a database", "Name another file"]),
        (["replay", "no.jsonl"], {}, ["no.jsonl: cannot be read"]),
        (["replay", "."], {}, ["cannot be read"]),
        (["memory", "show"], {"WORKSPACE": "no"}, ["no: there is no long-term memory here yet", "memory add"]),
        (["memory", "add", "x", "--user", "a"], {"WORKSPACE": "file"}, ["file", "Not a directory"]),
    ],
)
def test_a_wrong_path_is_named_with_where_to_change_it(use, args, environ, parts):
    Path("file").write_text("in the way " * 100)
    for name, value in environ.items():
        use.monkeypatch.setenv(f"LANGGRAPH_MEMORY_{name}", value)
    said = use.refused(*args)
    assert all(part in said for part in parts), said


# 2. No key


@pytest.mark.parametrize(
    ("args", "section"),
    [
        (["replay", "--model", "openai:gpt-5.5"], None),
        (["compact", "t", "--model", "openai:gpt-5.5"], None),
        (["compact", "t"], "compaction"),
        (["memory", "consolidate", "--user", "ada"], "consolidation"),
        (["maintain"], "flush"),
    ],
)
def test_a_missing_key_is_named(use, args, section):
    talk("one")
    lgm("memory", "add", "likes tea", "--user", "ada")
    if section:
        configure(f'{{"memory": {{"{section}": {{"model": "openai:gpt-5.5"}}}}}}')
    said = use.refused(*args)
    assert "'openai:gpt-5.5' cannot be used" in said and "OPENAI_API_KEY" in said and "with its key set" in said


def test_looking_needs_no_key(use):
    talk("one")
    configure(
        '{"memory": {"compaction": {"model": "openai:a"}, "flush": {"model": "openai:a"}, '
        '"consolidation": {"model": "openai:a"}, "retrieval": {"embeddings": "openai:a"}}}'
    )
    for args in (["view", "t"], ["context", "t"], ["status"], ["compact", "t", "--dry-run"], ["diff", "t", "t"]):
        assert use.code(*args) == (0, "")


# 3. Bad JSON


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b'{// mine\n "memory": {}}', "line 1, column 2: not JSON"),
        (b'{// mine\n "memory": {}}', "JSON has no comments: remove them"),
        (b'{\n "memory": {} # mine\n}', "JSON has no comments"),
        (b'{"memory": {"pruning": {"enabled": true,}}}', "remove the comma in front of the bracket"),
        (b'{"memory": {"namespace": ["a",\n]}}', "remove the comma in front of the bracket"),
        (b"{'memory': {}}", "names and texts stand in double quotes"),
        (b"", "is empty; write {}"),
        (b" \r\n", "is empty; write {}"),
        ("{}".encode("utf-16"), "save as UTF-8"),
        ('{"memory": "ä"}'.encode("latin-1"), "save as UTF-8"),
        (b'\xef\xbb\xbf{"memory": }', "not JSON"),
        (b'{"memroy": {}}', "memory"),
    ],
)
def test_bad_json_says_where_and_what_to_change(use, content, part):
    Path("runtime.json").write_bytes(content)
    said = use.refused("status")
    assert "runtime.json" in said and part in said


def test_a_byte_order_mark_is_none_of_the_users_business(use):
    Path("runtime.json").write_bytes(b'\xef\xbb\xbf{"memory": {"context_window": 9000}}')
    assert lgm_json("status")["configured"]["memory.context_window"]["value"] == 9000


# 4. An old Python


def test_an_old_python_is_told_which_one_is_needed(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["program.py"])
    with pytest.raises(ImportError, match=r"needs Python 3\.11 or newer, and this is 3\.9 \("):
        langgraph_memory._refuse_old_python((3, 9))
    for called in ("-m", "/usr/bin/lgm"):
        monkeypatch.setattr(sys, "argv", [called, "threads"])
        with pytest.raises(SystemExit) as leaving:
            langgraph_memory._refuse_old_python((3, 9))
        said = capsys.readouterr().err
        assert leaving.value.code == 2 and said.startswith("Error: ") and said.count("\n") == 1


def test_python_m_on_an_old_python_ends_before_anything_newer_is_imported():
    code = (
        "import sys; sys.version_info = (3, 9, 2, 'final', 0); sys.argv = ['-m', 'threads']; "
        f"sys.path.insert(0, {str(ROOT)!r}); import langgraph_memory.__main__"
    )
    ended = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.count("\n") == 1 and "needs Python 3.11 or newer, and this is 3.9" in ended.stderr


# 5. An unknown thread


@pytest.mark.parametrize("command", ["view", "context", "log", "tree", "undo", "compact"])
def test_an_unknown_thread_names_the_nearest_and_how_to_list_them(use, command):
    talk("one", thread="harbour-1")
    said = use.refused(command, "harbor-1")
    assert "no thread 'harbor-1'" in said and "'harbour-1'" in said and "`lgm threads` lists all" in said


# 6. A folder that cannot be written


@pytest.mark.parametrize(
    "args",
    [
        ["rewind", "t", "--turns", "1"],
        ["compact", "t"],
        ["threads", "vacuum"],
        ["replay"],
        ["memory", "add", "likes tea", "--user", "ada"],
    ],
)
def test_a_folder_that_cannot_be_written_is_named_with_what_to_do(use, args):
    configure('{"memory": {"context_window": 1000}}')
    talk(*(f"{number} " + "word " * 100 for number in range(8)))
    for path in Path("memory").iterdir():
        path.chmod(0o444)
    Path("memory").chmod(0o555)
    for parent in Path.cwd().parents[: len(Path.cwd().parts) - 2]:
        parent.chmod(parent.stat().st_mode | 0o055)
    Path().chmod(0o755)

    def work() -> None:
        said = use.refused(*args)
        assert "memory" in said and ("may you write in it?" in said or "change the rights" in said), said

    try:
        assert done(as_nobody(work)) == 0
    finally:
        Path("memory").chmod(0o755)


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        (["view", "t"], ["the database of threads cannot be used (Permission denied)", "Name another file"]),
        (["status"], ["threads.db: Permission denied. To allow it, change the rights"]),
        (
            ["memory", "show", "--user", "ada"],
            ["this memory cannot be used (Permission denied). To allow it, change the rights"],
        ),
    ],
)
def test_a_folder_that_may_not_be_looked_into_is_named_with_what_to_do(use, args, parts):
    Path("memory").mkdir()
    for parent in Path.cwd().parents[: len(Path.cwd().parts) - 2]:
        parent.chmod(parent.stat().st_mode | 0o055)
    Path().chmod(0o755)
    Path("memory").chmod(0o600)

    def work() -> None:
        said = use.refused(*args)
        assert all(part in said for part in parts), said

    try:
        assert done(as_nobody(work)) == 0
    finally:
        Path("memory").chmod(0o755)


@pytest.mark.parametrize("args", [["status"], ["chat", "--model", "demo"]])
def test_a_working_folder_that_was_removed_is_told(use, args, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    use.monkeypatch.chdir(gone)
    gone.rmdir()
    assert use.refused(*args) == "Error: The working folder is not there any more: go to one that is.\n"


# 7. A full disk


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device here is always full")
@pytest.mark.parametrize("args", [["status"], ["status", "--json"]])
def test_output_that_cannot_be_written_is_one_line(args):
    command = [sys.executable, "-m", "langgraph_memory", *args]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    said = "Error: No space left on device. The disk is full: make room on it, then try again.\n"
    assert (ended.returncode, ended.stderr) == (2, said)


BOTH = """
import sys
from langgraph_memory import cli
for arguments in (["rewind", "t", "--turns", "1"], ["memory", "add", "likes tea", "--user", "ada"]):
    sys.argv = ["lgm", *arguments]
    try:
        cli.main()
    except SystemExit as leaving:
        print(leaving.code)
"""


def test_a_full_disk_is_said_to_be_full():
    if not can_mount():
        pytest.skip("no file system can be mounted here")
    talk("one", "two")
    Path("memory").rename("made")
    Path("memory").mkdir()
    fill = "mount -t tmpfs -o size=1m none memory; cp made/* memory/; cat /dev/zero > memory/filler 2>/dev/null || true"
    command = [*NAMESPACE, "sh", "-ec", f'{fill}\nexec "$@"', "sh", sys.executable, "-c", BOTH]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, capture_output=True, text=True, env=environ, check=False, timeout=120)
    assert ended.stdout == "2\n2\n" and "Traceback" not in ended.stderr, ended.stderr
    # The memory goes on without its index, and says so, before it finds that nothing at all can be written.
    rewind, _, remembered = ended.stderr.splitlines()
    for said in (rewind, remembered):
        assert said.startswith("Error: ") and "full: make room on it, then try again" in said


# 8. A package that is not installed


@pytest.mark.parametrize(
    ("args", "config"),
    [
        (["replay", "--model", "anthropic:x"], "{}"),
        (["maintain"], '{"memory": {"compaction": {"model": "anthropic:x"}}}'),
        (["maintain"], '{"memory": {"retrieval": {"embeddings": "cohere:x"}}}'),
    ],
)
def test_a_missing_package_is_named_with_how_to_install_it(use, args, config):
    talk("one")
    configure(config)
    for module in ("langchain_anthropic", "langchain_cohere"):
        use.monkeypatch.setitem(sys.modules, module, None)
    said = use.refused(*args)
    assert "cannot be used" in said and "pip install" in said


# 9. A file that somebody else is writing


@pytest.mark.parametrize("args", [["rewind", "t", "--turns", "1"], ["fork", "t", "u"], ["compact", "t"]])
def test_a_file_that_is_being_written_is_waited_for_and_then_named(use, args):
    configure('{"memory": {"context_window": 1000}}')
    talk(*(f"{number} " + "word " * 100 for number in range(8)))
    use.monkeypatch.setattr(schema, "BUSY_SECONDS", 0)
    with closing(sqlite3.connect("memory/threads.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        said = use.refused(*args)
    assert "memory/threads.db" in said and "Another program is writing to it: try again" in said
    assert lgm(*args).exit_code == 0


# 10. A width of nothing


@pytest.mark.parametrize("width", ["0", "00", ""])
@pytest.mark.parametrize("args", [["threads"], ["config", "show"], ["status"], ["context", "t"], ["tree", "t"]])
def test_a_width_of_nothing_is_no_width(args, width):
    talk("one")
    shown = lgm(*args, COLUMNS=width).stdout
    assert shown.strip() and shown == lgm(*args, COLUMNS="160").stdout


# 11. A variable in a path


@pytest.mark.parametrize("environ", [{}, {"LANGGRAPH_MEMORY_DB_PATH": "$HOME/t.db"}])
def test_a_variable_in_a_path_makes_no_folder_of_its_name(use, environ):
    for name, value in environ.items():
        use.monkeypatch.setenv(name, value)
    if not environ:
        configure('{"persistence": {"thread_db": "$HOME/t.db"}}')
    said = use.refused("replay")
    assert "persistence.thread_db is '$HOME/t.db'" in said and "write ~ for the home folder" in said
    assert not Path("$HOME").exists()


# 12. Line ends of Windows


def test_files_with_line_ends_of_windows_are_what_they_would_be_without():
    Path("prompt.txt").write_bytes(b"Sum up:\r\n{messages}\r\n")
    text = '{\r\n  "memory": {"context_window": 9000, "compaction": {"prompt": "@prompt.txt"}}\r\n}\r\n'
    Path("runtime.json").write_bytes(text.encode())
    recording = write("r.jsonl", [("a", [user("hello"), assistant("hi")]), ("b", [user("and"), assistant("so")])])
    recording.write_bytes(recording.read_bytes().replace(b"\n", b"\r\n"))
    assert lgm("replay", "r.jsonl").exit_code == 0
    assert {row["thread_id"]: row["messages"] for row in lgm_json("threads")} == {"r/a": 2, "r/b": 2}
    assert [message["text"] for message in lgm_json("view", "r/a")["messages"]] == ["hello", "hi"]


def test_memories_with_line_ends_of_windows_are_read_searched_and_forgotten():
    lgm("memory", "add", "The pier is closed on Mondays.", "--user", "ada")
    [ledger] = Path("memory/ada/memory").glob("*.md")
    ledger.write_bytes(ledger.read_bytes().replace(b"\n", b"\r\n"))
    Path("memory/ada/MEMORY.md").write_bytes(b"# Ada\r\n\r\n- likes tea\r\n- sails a boat\r\n")
    assert lgm_json("memory", "show")["text"].splitlines()[2:] == ["- likes tea", "- sails a boat"]
    found = lgm_json("search", "boat", "--memory")
    assert "sails a boat" in str(found)
    assert "closed on Mondays" in str(lgm_json("search", "pier", "--memory"))
    assert lgm_json("status")["memories"][0]["behind"] == []
    assert lgm("memory", "forget", "sails a boat", "--yes").exit_code == 0
    assert "sails" not in Path("memory/ada/MEMORY.md").read_text()
    assert "likes tea" in Path("memory/ada/MEMORY.md").read_text()
