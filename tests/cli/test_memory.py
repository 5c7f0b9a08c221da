import json
import sqlite3
from contextlib import closing
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_memory.cache import FileCache
from langgraph_memory.cli.errors import (
    MemoryFileError,
    MemoryMissingError,
    MemoryUnusableError,
    UnknownMemoryError,
)
from langgraph_memory.errors import ConfigError
from langgraph_memory.longterm import flushed
from langgraph_memory.longterm.entry import EntryError
from langgraph_memory.longterm.folder import WorkspaceError
from langgraph_memory.longterm.keeper import Keeper
from langgraph_memory.sessions import SessionLog
from tests.support.models import Scripted

from .recorded import lgm, lgm_json, talk

WORKSPACE = Path("memory")


def today() -> date:
    """Asked for when it is needed: the suite may run over midnight."""
    return datetime.now().date()


def keeper(*namespace: str) -> Keeper:
    return Keeper(WORKSPACE, namespace or ("ada",))


def remember(*texts: str, user: str = "ada", **more: Any) -> None:
    keeper(user).append([{"text": text, **more} for text in texts])


def write_memory(*texts: str) -> None:
    """Make each of `texts` the MEMORY.md of ada, one after the other."""
    for text in texts:
        assert keeper().replace_memory(text, was=keeper().memory_md())


def configure(**memory: Any) -> None:
    Path("runtime.json").write_text(json.dumps({"memory": memory}), encoding="utf-8")


# add and show


def test_an_entry_is_added_to_the_ledger_of_its_day_and_shown_without_what_is_for_programs():
    result = lgm("memory", "add", "Ada prefers dark mode.", "--user", "ada")
    assert (result.exit_code, result.stdout) == (0, f"memory/{today()}.md:3\n")
    assert "ada: remembered." in result.stderr
    shown = lgm("memory", "show", "today").stdout
    assert shown.startswith(f"# {today()}\n\n- ") and shown.endswith(" [fact] Ada prefers dark mode.\n")
    assert lgm("memory", "show", today()).stdout == lgm("memory", "show", f"memory/{today()}.md").stdout == shown


def test_what_is_remembered_already_is_not_added_again():
    remember("Ada prefers dark mode.")
    result = lgm("memory", "add", "ada prefers DARK mode", "--user", "ada")
    assert (result.exit_code, result.stdout) == (0, "") and "already" in result.stderr


def test_an_entry_has_the_time_and_the_type_that_are_given():
    at, text = "2026-03-31T12:00:00+02:00", "Moved to Lisbon."
    (row,) = lgm_json("memory", "add", text, "--user", "ada", "--at", at, "--type", "summary")
    assert (row["memory"], row["path"], row["line"]) == ("ada", "memory/2026-03-31.md", 3)
    assert (row["type"], row["text"], row["abandoned"]) == ("summary", text, False)
    assert datetime.fromisoformat(row["timestamp"]) == datetime.fromisoformat(at)
    found = lgm_json("memory", "show", "2026-03-31")
    assert (found["memory"], found["path"], found["first"], found["last"]) == ("ada", row["path"], 1, 3)
    assert [entry["id"] for entry in found["entries"]] == [row["id"]]


def test_an_entry_comes_from_standard_input_too():
    result = lgm("memory", "add", "-", "--user", "ada", input="Likes tea.\nAnd coffee.\n")
    assert result.exit_code == 0
    assert [row.entry.text for row in keeper().ledger()] == ["Likes tea.\nAnd coffee."]


def test_what_cannot_be_an_entry_is_an_error():
    assert isinstance(lgm("memory", "add", "  ", "--user", "ada").exception, EntryError)
    for options in (["--at", "31.3."], ["--type", "rumour"]):
        result = lgm("memory", "add", "x", "--user", "ada", *options)
        assert result.exit_code == 2 and options[1] in result.stderr
    assert not WORKSPACE.exists()


def test_memory_md_is_shown_as_it_is_and_lines_of_it_alone():
    write_memory("# Ada\n\n- [bold]dark[/bold] mode\n- tea\n")
    assert lgm("memory", "show").stdout == "# Ada\n\n- [bold]dark[/bold] mode\n- tea\n"
    cases = {"3": 1, "3:4": 2, "3:": 2, ":2": 2, "4:99": 1, "9": 0}
    for lines, number in cases.items():
        assert lgm("memory", "show", "--lines", lines).stdout.count("\n") == number
    assert "MEMORY.md has 4 lines" in lgm("memory", "show", "--lines", "9").stderr


@pytest.mark.parametrize("lines", ["", ":", "x", "0", "4:3", "1:2:3", "-1"])
def test_lines_that_are_none_are_refused(lines):
    remember("x is so")
    result = lgm("memory", "show", "--lines", lines)
    assert result.exit_code == 2 and "--lines" in result.stderr


def test_without_a_memory_md_it_is_said_how_one_is_made():
    remember("x is so")
    result = lgm("memory", "show")
    assert (result.exit_code, result.stdout) == (0, "") and "memory consolidate" in result.stderr


def test_lines_are_counted_as_a_search_counts_them_whatever_a_text_holds():
    remember("one\u2028two\x0bthree\x85four", "behind it")
    (hit,) = lgm_json("search", "behind")
    shown = lgm_json("memory", "show", "today", "--lines", hit["line"])
    assert shown["text"].endswith("[fact] behind it") and len(shown["entries"]) == 1


def test_the_files_are_listed_the_newest_first():
    write_memory("- tea\n- coffee\n")
    for day in ("2026-03-30", "2026-03-31"):
        remember(f"It was {day}.", timestamp=f"{day}T12:00")
    archive = keeper().folder.path / "memory/archive"
    archive.mkdir()
    (archive.parent / "2026-03-30.md").rename(archive / "2026-03-30.md")
    rows = lgm_json("memory", "show", "--list")
    paths = ["MEMORY.md", "memory/2026-03-31.md", "memory/archive/2026-03-30.md"]
    assert [row["path"] for row in rows] == paths
    assert [row["kind"] for row in rows] == ["curated", "ledger", "archive"]
    assert [row["entries"] for row in rows] == [2, 1, 1]
    assert [row["bytes"] for row in rows] == [(keeper().folder.path / path).stat().st_size for path in paths]
    table = lgm("memory", "show", "--list").stdout.splitlines()
    assert table[0].split()[0] == "file" and [line.split()[0] for line in table[1:]] == paths
    assert "It was 2026-03-30." in lgm("memory", "show", "2026-03-30").stdout


def test_entries_of_a_branch_that_was_given_up_are_shown_as_such():
    remember("Ada moved to Paris.", "Ada likes tea.")
    with keeper().writing() as db:
        keeper().index.mark_abandoned(db, [keeper().ledger()[0].entry.id], True)
    lines = lgm("memory", "show", "today").stdout.splitlines()
    assert lines[2].endswith("Paris. · from a branch that was given up") and lines[3].endswith("tea.")
    assert [entry["abandoned"] for entry in lgm_json("memory", "show", "today")["entries"]] == [True, False]
    assert [row["abandoned"] for row in lgm_json("memory", "show", "--list")] == [1]
    (hit,) = lgm_json("search", "Paris")
    assert hit["abandoned"] is True and "given up" in lgm("search", "Paris").stdout
    assert lgm_json("memory", "status")["abandoned"] == 1


@pytest.mark.parametrize("name", ["../runtime.json", "2020-01-01", "/etc/passwd", "memory/.state.json", "index.db", ""])
def test_a_file_that_is_none_of_the_memory_is_not_shown(name):
    remember("x is so")
    assert isinstance(lgm("memory", "show", name).exception, MemoryFileError)


@pytest.mark.parametrize("command", [["show"], ["show", "today"], ["diff"]], ids=" ".join)
def test_text_of_a_memory_is_shown_and_not_obeyed(command):
    text = "\x1b[2J needle \x1b]0;title\x07 \x9b31m [bold]x[/nope] \r hidden"
    remember(text)
    write_memory(f"- {text}\n", f"- {text} anew\n")
    for environ in ({}, {"FORCE_COLOR": "1", "TERM": "xterm-256color"}):
        out = lgm("memory", *command, **environ).stdout
        assert "needle" in out and "[bold]x[/nope]" in out
        assert not any(sign in out for sign in ("\x1b[2J", "\x1b]", "\x9b", "\x07", "\r"))
    assert "\x9b" not in lgm("memory", *command, "--json").stdout


# Whose


def test_the_only_memory_is_meant_where_none_is_named():
    remember("Bob likes tea.", user="Bob@example.com")
    assert "Bob likes tea." in lgm("memory", "show", "today").stdout
    assert lgm("memory", "add", "Bob likes coffee.").exit_code == 0
    assert len(keeper("Bob@example.com").ledger()) == 2


def test_of_several_memories_one_has_to_be_named_and_all_are_told():
    for user in ("ada", "Bob@example.com"):
        remember("x is so", user=user)
    for command in (["show"], ["add", "y"], ["forget", "x is so", "--yes"], ["status"], ["reindex"]):
        error = lgm("memory", *command).exception
        assert isinstance(error, UnknownMemoryError)
        assert "ada, bob-example-com~" in str(error) and "--user" in str(error)
    assert isinstance(lgm("memory", "show", "--user", "cy").exception, UnknownMemoryError)
    assert lgm_json("memory", "status", "--user", "ada")["memory"] == "ada"


def test_a_memory_is_named_as_it_is_shown_too():
    for user in ("ada", "Bob@example.com"):
        remember("x is so", user=user)
    name = lgm_json("memory", "status", "--user", "Bob@example.com")["memory"]
    assert name.startswith("bob-example-com~") and len(name) < 30
    for shown in (name, "bob-example-com~"):
        assert lgm_json("memory", "status", "--namespace", shown)["memory"] == name
    assert lgm("memory", "add", "y is so", "--namespace", name).exit_code == 0
    assert len(keeper("Bob@example.com").ledger()) == 2
    assert isinstance(lgm("memory", "status", "--namespace", "bob").exception, UnknownMemoryError)


def test_a_namespace_of_several_parts_is_filled_or_given():
    configure(namespace=["team-{team}", "{user_id}"])
    result = lgm("memory", "add", "x is so", "--user", "ada")
    assert result.exit_code == 2 and "--set team=VALUE" in result.stderr
    assert lgm("memory", "add", "x is so", "--user", "ada", "--set", "team=harbour").exit_code == 0
    assert (WORKSPACE / "team-harbour/ada/memory").is_dir()
    for options in (["--namespace", "team-harbour", "--namespace", "ada"], ["--namespace", "team-harbour/ada"], []):
        assert lgm_json("memory", "status", *options)["memory"] == "team-harbour/ada"


def test_a_memory_that_all_share_needs_no_name():
    configure(namespace=[])
    assert lgm("memory", "add", "x is so").exit_code == 0
    assert (WORKSPACE / f"memory/{today()}.md").is_file()
    assert lgm_json("memory", "status")["memory"] == "(shared)"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--set", "team"], "NAME=VALUE"),
        (["--set", "team=x"], "{team}"),
        (["--user", " "], "{user_id}"),
        (["--user", "ada", "--namespace", "ada"], "--namespace"),
    ],
)
def test_options_that_name_no_memory_are_refused(options, message):
    result = lgm("memory", "add", "x", *options)
    assert result.exit_code == 2 and message in result.stderr
    assert not WORKSPACE.exists()


def test_no_id_leaves_the_workspace():
    assert lgm("memory", "add", "x is so", "--user", "../../outside").exit_code == 0
    assert [path.name.partition("~")[0] for path in WORKSPACE.iterdir()] == ["outside"]


@pytest.mark.parametrize(
    "command",
    [
        "show",
        "show --list",
        "show --user ada",
        "status",
        "log",
        "diff",
        "revert x",
        "forget xyz",
        "reindex",
        "consolidate",
    ],
)
def test_without_a_memory_the_error_says_where_it_looked_and_nothing_is_made(command):
    result = lgm("memory", *command.split(), LANGGRAPH_MEMORY_WORKSPACE="some/where")
    assert isinstance(result.exception, MemoryMissingError)
    assert str(result.exception).startswith("some/where: there is no long-term memory here yet")
    assert result.stdout == "" and list(Path().iterdir()) == []


def test_a_workspace_that_cannot_be_used_is_an_error_that_names_it():
    WORKSPACE.write_text("a file", encoding="utf-8")
    error = lgm("memory", "add", "x is so", "--user", "ada").exception
    assert isinstance(error, WorkspaceError) and "memory" in str(error)


@pytest.mark.parametrize(
    "command", [["add", "y is so"], ["forget", "x is so", "--yes"], ["revert", "PLACE"]], ids=" ".join
)
def test_a_folder_that_cannot_be_written_is_an_error_that_names_it(command, monkeypatch):
    remember("x is so")
    write_memory("- one\n", "- two\n")
    version = lgm_json("memory", "log")[1]["version"]

    def refused(*args: Any, **options: Any) -> Any:
        raise PermissionError(13, "Permission denied", str(WORKSPACE / "ada"))

    monkeypatch.setattr("tempfile.mkstemp", refused)
    monkeypatch.setattr("langgraph_memory.longterm.folder.Folder.append", refused)
    error = lgm("memory", *(version if one == "PLACE" else one for one in command)).exception
    assert isinstance(error, MemoryUnusableError | WorkspaceError)
    assert "ada" in str(error) and "Permission denied" in str(error)


# forget


def everywhere() -> None:
    """The word "Rosebud" in each kind of place."""
    remember("The password is Rosebud.", "Ada likes tea.")
    remember("rosebud was a sledge", timestamp="2026-03-31T12:00")
    write_memory("# Ada\n\n- tea\n- ROSEBUD\n", "# Ada\n\n- tea\n")
    log = SessionLog(keeper().folder.path, "t")
    log.append([("a", HumanMessage("say rosebud")), ("b", AIMessage("No."))])
    FileCache(WORKSPACE / "cache.db").put("digest", "He said Rosebud.")
    FileCache(WORKSPACE / "cache.db").put("other", "He said nothing.")


def everything_says() -> str:
    return "\n".join(path.read_bytes().decode(errors="replace") for path in WORKSPACE.rglob("*") if path.is_file())


def test_what_would_be_forgotten_is_shown_with_its_place_and_nothing_goes_without_a_yes():
    everywhere()
    before = {path: path.read_bytes() for path in WORKSPACE.rglob("*.md")}
    result = lgm("memory", "forget", "rosebud", input="n\n")
    assert result.exit_code == 1 and "Nothing was forgotten." in result.stderr
    places = [line.split()[0] for line in result.stdout.splitlines()]
    (version,) = [path.name for path in (WORKSPACE / "ada/memory/history").iterdir()]
    files = ["memory/2026-03-31.md:3", f"memory/{today()}.md:3", f"memory/history/{version}:4", "sessions/t.jsonl:1"]
    assert places[:5] == [*files, "cache.db"]
    assert "[fact] The password is Rosebud." in result.stdout and "human: say rosebud" in result.stdout
    assert "<!--" not in result.stdout
    assert {path: path.read_bytes() for path in WORKSPACE.rglob("*.md")} == before
    assert lgm("memory", "forget", "rosebud").exit_code == 1, "without an answer"
    assert {path: path.read_bytes() for path in WORKSPACE.rglob("*.md")} == before


def test_what_was_shown_goes_and_nothing_else():
    everywhere()
    done = lgm_json("memory", "forget", "Rosebud", "--yes")
    assert (done["memory"], done["forgotten"], done["summaries"]) == ("ada", 4, 1)
    assert [place["line"] for place in done["places"]] == [3, 3, 4, 1]
    left = everything_says()
    assert "rosebud" not in left.lower()
    assert "Ada likes tea." in left and "No." in left and "He said nothing." in left
    again = lgm("memory", "forget", "Rosebud", "--yes")
    assert (again.exit_code, again.stdout) == (0, "") and "nothing holds 'Rosebud'" in again.stderr


def test_a_yes_on_standard_input_is_one():
    everywhere()
    result = lgm("memory", "forget", "rosebud", input="y\n")
    assert result.exit_code == 0 and "forgotten in 4 places, and 1 bought summary" in result.stderr
    assert "rosebud" not in everything_says().lower()


def test_what_consolidation_has_noted_is_shown_where_it_goes_and_its_watermark_is_no_place():
    remember("Ada likes tea.")
    lgm("memory", "consolidate")
    remember("The password is Rosebud.")
    failed = {"at": "2026-03-31T12:00:00+00:00", "reason": "the model said Rosebud"}
    keeper().write_state({**keeper().state(), "failed": failed})
    paths = [place["path"] for place in lgm_json("memory", "forget", "rosebud", "--yes")["places"]]
    assert paths == ["memory/.state.json", f"memory/{today()}.md"]
    done = lgm_json("memory", "forget", "likes tea", "--yes")
    assert [place["path"] for place in done["places"]] == ["MEMORY.md", f"memory/{today()}.md"] and done[
        "forgotten"
    ] == 2


def test_what_we_note_of_days_and_entries_is_no_place():
    remember("Ada likes tea.", "Milk.", metadata={"by": "memory_save"}, thread="t-2026")
    lgm("memory", "consolidate")
    before = everything_says()
    for text in (str(today()), str(today().year), "memory", "t-2026"):
        done = lgm_json("memory", "forget", text, "--yes")
        assert (done["forgotten"], done["places"]) == (0, []), text
    assert f"## {today()}" in everything_says() and everything_says().count("Milk.") == before.count("Milk.")


def test_an_entry_is_forgotten_by_its_id_with_all_its_lines():
    remember("Ada keeps a list:\n- bread\n- milk", "Ada likes tea.")
    first = keeper().ledger()[0].entry
    done = lgm_json("memory", "forget", first.id, "--yes")
    assert done["forgotten"] == 1 and [place["line"] for place in done["places"]] == [3, 4, 5]
    assert [row.entry.text for row in keeper().ledger()] == ["Ada likes tea."]


@pytest.mark.parametrize("text", ["a", "", "..", "的"])
def test_a_text_that_stands_nearly_everywhere_is_refused(text):
    remember("Ada likes tea.")
    before = everything_says()
    assert isinstance(lgm("memory", "forget", text, "--yes").exception, WorkspaceError)
    assert everything_says() == before


def test_where_the_bought_summaries_cannot_be_read_nothing_is_forgotten():
    everywhere()
    (WORKSPACE / "cache.db").write_bytes(b"no database at all" * 500)
    error = lgm("memory", "forget", "rosebud", "--yes").exception
    assert isinstance(error, MemoryUnusableError) and "cache.db" in str(error) and "may be deleted" in str(error)
    assert len(keeper().ledger()) == 2


def test_only_the_memory_that_is_named_forgets():
    for user in ("ada", "bob"):
        remember("The password is Rosebud.", user=user)
    lgm("memory", "forget", "Rosebud", "--yes", "--user", "bob")
    assert len(keeper("ada").ledger()) == 1 and not keeper("bob").ledger()


def test_a_memory_with_logged_messages_only_can_forget():
    SessionLog(WORKSPACE / "ada", "t").append([("a", HumanMessage("say rosebud"))])
    assert lgm_json("memory", "forget", "rosebud", "--yes", "--user", "ada")["forgotten"] == 1
    assert "rosebud" not in everything_says()


# status


def test_the_status_of_a_new_memory():
    remember("Ada prefers dark mode.", "Ada likes tea.")
    status = lgm_json("memory", "status")
    assert status["folder"] == str((WORKSPACE / "ada").absolute())
    assert (status["entries"], status["ledgers"], status["waiting"], status["versions"]) == (2, 1, 2, 0)
    assert status["last_consolidated"] is None and status["failed"] is None and status["due"] == []
    assert status["index"] == {"exists": True, "behind": [], "problems": []}
    assert status["memory_tokens"] == 0 < status["bytes"]
    out = lgm("memory", "status").stdout
    assert "to be consolidated  2 entries" in out and "in step" in out and "never" in out


def test_the_status_tells_what_waits_and_what_went_wrong():
    remember("Ada likes tea.")
    lgm("memory", "consolidate")
    remember("Ada moved to Lisbon.")
    state = keeper().state()
    keeper().write_state({**state, "failed": {"at": "2026-03-31T12:00:00+00:00", "reason": "too long", "times": 2}})
    with keeper().writing() as db:
        flushed.set_due(db, "t-1", "m-7", reason="turn", now=0.0)
    status = lgm_json("memory", "status")
    assert status["waiting"] == 1 and status["last_consolidated"] is not None and status["memory_tokens"] > 0
    assert status["failed"] == {"at": "2026-03-31T12:00:00+00:00", "reason": "too long", "times": 2}
    assert status["due"] == [{"thread": "t-1", "reason": "turn", "since": "1970-01-01T00:00:00+00:00"}]
    out = lgm("memory", "status").stdout
    assert "2 times in a row: too long" in out and "t-1 (turn, 1970-01-01 00:00:00)" in out


def test_an_entry_counts_as_waiting_once_where_the_last_done_one_was_removed_by_hand():
    remember("one is so", "two is so")
    lgm("memory", "consolidate")
    ledger = WORKSPACE / f"ada/memory/{today()}.md"
    ledger.write_text("".join(ledger.read_text().splitlines(keepends=True)[:-1]), encoding="utf-8")
    remember("three is so")
    assert lgm_json("memory", "status")["waiting"] == 1


def test_the_status_tells_whether_the_index_is_in_step_and_reindex_makes_it_so():
    remember("Ada likes tea.")
    ledger = WORKSPACE / f"ada/memory/{today()}.md"
    ledger.write_text(ledger.read_text() + "- by hand\n", encoding="utf-8")
    assert lgm_json("memory", "status")["index"]["behind"] == [f"memory/{today()}.md"]
    assert lgm_json("memory", "reindex") == {"memory": "ada", "entries": 2}
    assert lgm_json("memory", "status")["index"] == {"exists": True, "behind": [], "problems": []}
    with closing(sqlite3.connect(WORKSPACE / "ada/index.db")) as db, db:
        db.execute("INSERT INTO lookup (rowid, words) VALUES (99, 'nowhere')")
    result = lgm("memory", "status")
    assert "damaged" in result.stdout and "memory reindex" in result.stderr
    assert lgm("memory", "reindex").stdout == "ada: 2 entries in the index\n"
    assert lgm_json("memory", "status")["index"]["problems"] == []


def test_looking_at_a_memory_makes_no_index():
    remember("Ada likes tea.")
    for path in WORKSPACE.glob("ada/index.db*"):
        path.unlink()
    for command in (["show"], ["show", "today"], ["show", "--list"], ["status"], ["log"], ["diff"]):
        assert lgm("memory", *command).exit_code == 0
    assert not list(WORKSPACE.glob("ada/index.db*"))
    assert "not made yet" in lgm("memory", "status").stdout


# Versions


def test_the_versions_are_listed_the_newest_first_with_what_each_changed():
    write_memory("- one\n", "- one\n- two\n", "- two\n- three\n- four\n")
    rows = lgm_json("memory", "log")
    assert [(row["lines"], row["added"], row["removed"]) for row in rows] == [(3, 2, 1), (2, 1, 0), (1, 1, 0)]
    assert rows[0]["version"] == "MEMORY.md" and rows[0]["until"] is None
    assert rows[1]["until"] > rows[2]["until"]
    assert len(lgm_json("memory", "log", "-n", 2)) == 2
    table = lgm("memory", "log").stdout.splitlines()
    assert table[1].split()[:5] == ["MEMORY.md", "now", "3", "+2", "-1"]


def test_a_difference_is_shown_from_the_newest_version_or_between_two():
    write_memory("- one\n", "- two\n", "- three\n")
    old = lgm_json("memory", "log")[2]["version"]
    assert lgm("memory", "diff").stdout.splitlines()[3:] == ["-- two", "+- three"]
    assert lgm("memory", "diff", old).stdout.splitlines()[3:] == ["-- one", "+- three"]
    newer = lgm_json("memory", "log")[1]["version"]
    assert lgm_json("memory", "diff", old, newer)["diff"].splitlines()[3:] == ["-- one", "+- two"]
    assert lgm("memory", "diff", old, old).stderr == "Nothing changed.\n"
    assert isinstance(lgm("memory", "diff", "nowhere").exception, WorkspaceError)
    assert lgm("memory", "show", old).stdout == "- one\n"


def test_a_version_becomes_the_memory_again_and_that_can_be_taken_back():
    write_memory("- one\n", "- two\n")
    old = lgm_json("memory", "log")[1]["version"]
    result = lgm("memory", "revert", old)
    assert (result.exit_code, result.stdout) == (0, "MEMORY.md: 1 lines added, 1 removed\n")
    assert keeper().memory_md() == "- one\n"
    was = result.stderr.split("memory revert ")[1].split("`")[0]
    assert lgm_json("memory", "revert", was) == {"reverted": True, "added": 1, "removed": 1, "was": old}
    assert keeper().memory_md() == "- two\n"
    assert "says that already" in lgm("memory", "revert", was).stderr
    assert isinstance(lgm("memory", "revert", "nowhere").exception, WorkspaceError)


def test_a_memory_without_versions_has_an_empty_log():
    remember("x is so")
    result = lgm("memory", "log")
    assert result.exit_code == 0 and "there is no MEMORY.md yet" in result.stderr
    assert lgm_json("memory", "log") == []


# consolidate


def test_a_dry_run_prints_what_would_change_and_writes_nothing():
    remember("Ada prefers dark mode.")
    before = {path: path.read_bytes() for path in WORKSPACE.rglob("*.*") if path.suffix in (".md", ".json")}
    result = lgm("memory", "consolidate", "--dry-run")
    assert result.exit_code == 0
    assert "+- Ada prefers dark mode." in result.stdout.splitlines()
    assert "1 entry would be merged. Nothing was written." in result.stderr
    assert {path: path.read_bytes() for path in before} == before and not (WORKSPACE / "ada/MEMORY.md").exists()


def test_without_a_model_it_is_merged_by_rules_which_is_said():
    remember("Ada prefers dark mode.")
    result = lgm("memory", "consolidate")
    assert result.exit_code == 0 and "without a model" in result.stderr
    assert "memory.consolidation.model" in result.stderr and "1 entry merged" in result.stderr
    assert "- Ada prefers dark mode." in keeper().memory_md()
    again = lgm("memory", "consolidate")
    assert (again.exit_code, again.stdout) == (0, "") and "nothing is to be merged" in again.stderr
    done = lgm_json("memory", "consolidate")
    assert (done["outcome"], done["entries"], done["diff"], done["model"]) == ("nothing", 0, "", None)


def test_the_model_that_is_configured_merges_unless_it_is_told_not_to(monkeypatch):
    configure(consolidation={"model": "some:model"})
    model = Scripted(replies=[AIMessage("<memory_file>\n# Ada\n\n- Prefers dark mode.\n</memory_file>")])
    monkeypatch.setattr("langgraph_memory.models.init_chat_model", lambda name: model)
    remember("Ada prefers dark mode.")
    preview = lgm("memory", "consolidate", "--dry-run", "--no-model")
    assert "without a model" in preview.stderr and "runtime.json" not in preview.stderr
    done = lgm_json("memory", "consolidate")
    assert (done["outcome"], done["entries"], done["model"]) == ("written", 1, "some:model")
    assert done["added"] == 3 and "+- Prefers dark mode." in done["diff"]
    assert keeper().memory_md() == "# Ada\n\n- Prefers dark mode.\n"
    (usage,) = FileCache(WORKSPACE / "cache.db").usage()
    assert (usage.kind, usage.calls) == ("memory_consolidation", 1)


def test_a_proposal_that_is_refused_changes_nothing_and_is_exit_code_1(monkeypatch):
    configure(consolidation={"model": "some:model"})
    model = Scripted(replies=[AIMessage("I cannot help with that.")])
    monkeypatch.setattr("langgraph_memory.models.init_chat_model", lambda name: model)
    remember("Ada prefers dark mode.")
    result = lgm("memory", "consolidate")
    assert (result.exit_code, result.stdout) == (1, "") and "not merged (refused)" in result.stderr
    assert lgm_json("memory", "status")["failed"]["times"] == 1
    assert keeper().memory_md() == ""


def test_a_model_that_cannot_be_made_is_named_by_its_key():
    configure(consolidation={"model": "nothing:x"})
    remember("Ada prefers dark mode.")
    error = lgm("memory", "consolidate").exception
    assert isinstance(error, ConfigError) and str(error).startswith("memory.consolidation.model: 'nothing:x'")


def test_entries_of_a_branch_that_its_thread_has_left_are_not_merged():
    talk("one", "two")
    remember("It was one.", thread="t", messages=["q one"])
    remember("It was two.", thread="t", messages=["q two"])
    remember("It was elsewhere.", thread="unknown", messages=["q two"])
    lgm("rewind", "t", "--turns", 1)
    assert lgm("memory", "consolidate").exit_code == 0
    memory = keeper().memory_md()
    assert "It was one." in memory and "It was elsewhere." in memory and "It was two." not in memory
    assert "given up" in lgm("memory", "show", "today").stdout
    lgm("undo", "t")
    lgm("memory", "consolidate")
    assert "It was two." in keeper().memory_md()


def test_a_byte_order_mark_of_standard_input_is_no_part_of_the_text():
    lgm("memory", "add", "-", "--user", "ada", input="\ufeffLikes tea.\n")
    (row,) = lgm_json("memory", "show", "today", "--user", "ada")["entries"]
    assert row["text"] == "Likes tea."
