"""The memory of one namespace for async programs: nothing waits on the loop, nothing crosses namespaces."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langgraph_memory.longterm.entry import EntryError
from langgraph_memory.longterm.folder import Folder, WorkspaceError
from langgraph_memory.longterm.keeper import Keeper
from langgraph_memory.longterm.workspace import Workspace
from tests.support.processes import done

LOG = "memory/2031-04-12.md"


def note(text, **rest):
    return {"text": text, "timestamp": "2031-04-12T12:00:00", **rest}


async def ledger(workspace):
    rows = await asyncio.to_thread(workspace.keeper.rows, LOG)
    return [row.entry.text for row in rows]


async def test_a_day_with_a_workspace(tmp_path):
    async with Workspace(tmp_path / "ws", ("ada",)) as workspace:
        assert await workspace.search("x") == [] and await workspace.memory_md() == "" and not workspace.path.exists()
        (one,) = await workspace.append([note("Ada prefers dark mode.", id="x-1")])
        assert one.id == "x-1" and await workspace.append(["ada prefers DARK mode"]) == []
        (hit,) = await workspace.search("dark mode preference", limit=5)
        assert (hit.id, hit.path, hit.line) == ("x-1", LOG, 3)
        assert "dark mode" in await workspace.get(hit.path, hit.line, hit.line)
        assert await workspace.reindex() == 1
        with pytest.raises(EntryError):
            await workspace.append([{"text": ""}])
        with pytest.raises(WorkspaceError):
            await workspace.get("../x.md")
        assert await workspace.forget("dark mode") == 1
        assert await workspace.search("dark mode") == []
    # What is closed is opened again by whatever is called next.
    assert len(await workspace.append([note("again")])) == 1
    await workspace.aclose()


async def test_one_entry_may_stand_alone(tmp_path):
    async with Workspace(tmp_path) as workspace:
        assert [one.text for one in await workspace.append("hello there")] == ["hello there"]
        assert [one.text for one in await workspace.append(note("a fact"))] == ["a fact"]


async def test_a_home_folder_and_a_text_as_path(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    async with Workspace("~/memory", "ada") as workspace:
        await workspace.append([note("x")])
    assert (tmp_path / "memory" / "ada" / LOG).exists()


# Under asyncio


async def test_many_at_once_write_each_once_and_the_loop_goes_on(tmp_path):
    workspace, other = Workspace(tmp_path, "ada"), Workspace(tmp_path, "ada")
    beats, longest = [0], [0.0]

    async def beat():
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(0.001)
            longest[0] = max(longest[0], loop.time() - before)
            beats[0] += 1

    heart = asyncio.create_task(beat())
    calls = [(workspace, other)[n % 2].append([note(f"fact {n}"), note("the same")]) for n in range(60)]
    added = await asyncio.gather(*calls, *(workspace.search("fact") for _ in range(20)))
    heart.cancel()
    assert beats[0] > 20
    assert Counter(await ledger(workspace)) == Counter([*(f"fact {n}" for n in range(60)), "the same"])
    assert sum(len(one) for one in added[:60]) == 61
    await workspace.aclose()
    await other.aclose()


@pytest.mark.parametrize("step", ["locked", "append", "replace"])
async def test_who_is_cancelled_in_the_middle_leaves_things_whole(tmp_path, monkeypatch, step):
    workspace = Workspace(tmp_path, "ada")
    await workspace.append([note("before")])
    inside, go = threading.Event(), threading.Event()
    real = getattr(Folder, step)

    def slow(self, *args, **options):
        if not inside.is_set():
            inside.set()
            go.wait(30)
        return real(self, *args, **options)

    monkeypatch.setattr(Folder, step, slow)
    act = (
        workspace.forget("before") if step == "replace" else workspace.append([note("cancelled\nor not"), note("two")])
    )
    task = asyncio.create_task(act)
    await asyncio.to_thread(inside.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go.set()
    await workspace.append([note("behind")])
    expected = ["behind"] if step == "replace" else ["before", "cancelled\nor not", "two", "behind"]
    # What was cancelled goes on in its thread.
    for _ in range(1000):
        if len(await ledger(workspace)) == len(expected):
            break
        await asyncio.sleep(0.01)
    assert sorted(await ledger(workspace)) == sorted(expected)
    assert await asyncio.to_thread(workspace.keeper.index.problems) == []
    await workspace.aclose()


def test_a_workspace_outlives_its_loops(tmp_path):
    workspace = Workspace(tmp_path, "ada")
    for number in range(3):
        asyncio.run(workspace.append([note(f"fact {number}")]))
    assert len(asyncio.run(workspace.search("fact"))) == 3
    asyncio.run(workspace.aclose())


def test_one_that_is_not_closed_neither_warns_nor_keeps_the_program_alive(tmp_path):
    code = (
        "import asyncio\nfrom langgraph_memory.longterm.workspace import Workspace\n"
        "async def main():\n"
        "    global kept\n"
        "    kept = Workspace('ws', 'ada')\n"
        "    await kept.append(['x y z'])\n"
        "    print(len(await kept.search('y')))\n"
        "asyncio.run(main())\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-X", "dev", "-W", "error", "-W", "ignore::DeprecationWarning", "-c", code]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "1\n", "")


def is_open(file: Path) -> bool:
    """Whether this process holds a file."""
    return any(one.exists() and one.resolve() == file for one in Path("/proc/self/fd").iterdir())


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not tell which files are open")
def test_one_that_is_dropped_is_closed(tmp_path):
    workspace = Workspace(tmp_path)
    asyncio.run(workspace.append(["x y z"]))
    assert is_open(tmp_path / "index.db")
    del workspace
    gc.collect()
    assert not is_open(tmp_path / "index.db")


async def test_it_works_on_in_a_fork(tmp_path):
    workspace = Workspace(tmp_path)
    await workspace.append([note("parent")])

    def child():
        workspace.keeper.append([note("child")])
        assert len(workspace.keeper.search("parent child")) == 2

    assert await asyncio.to_thread(done, child) == 0
    await workspace.append([note("parent again")])
    assert await ledger(workspace) == ["parent", "child", "parent again"]
    assert len(await workspace.search("parent child")) == 3
    await workspace.aclose()


# Namespaces

PARTS = st.one_of(
    st.sampled_from(
        ["", " ", ".", "..", "/", "\\", "\0", "a/b", "a\\b", "../bob", "C:", "CON", "con", "nul.txt", "~", "%00"]
    ),
    st.sampled_from(["memory", "Memory", "spill", "sessions", "archive", "history", "index.db", "MEMORY.md", ".lock"]),
    st.sampled_from(["ada", "Ada", "ADA", "é", "e\u0301", "ﬁ", "fi", "K", "\u212a", "ß", "ss", "İ", "i\u0307", "😀"]),
    st.sampled_from(
        ["👩‍👩‍👧", "\u202eada", "ada ", "ada.", "x" * 300, "x" * 300 + "y", "潮" * 100, "\ud83d", "\udcff"]
    ),
    st.sampled_from(["a~b", "*", "?", "a\nb", "$HOME", "~root", "cache.db"]),
    st.text(max_size=12),
)


@settings(max_examples=150)
@given(st.lists(st.lists(PARTS, max_size=3).map(tuple), min_size=2, max_size=6, unique=True))
def test_no_namespace_escapes_or_meets_another(tmp_path, namespaces):
    root = tmp_path / "ws"
    folders = [Folder(root, namespace).path for namespace in namespaces]
    for folder in folders:
        assert root in [folder, *folder.parents] and ".." not in folder.parts
        assert all(
            len(part) <= 100 and part.isascii() and part.isprintable() for part in folder.relative_to(root).parts
        )
        assert all(part not in ("memory", "sessions", "spill", "archive") for part in folder.relative_to(root).parts)
    # Also where case is not told apart.
    for one, other in combinations(folders, 2):
        assert str(one).lower() != str(other).lower()


def test_what_one_namespace_says_no_other_finds(tmp_path):
    odd = [
        (), ("ada",), ("Ada",), ("ada", "x"), ("ada/x",), ("../ada",), ("memory",), ("é",), ("e\u0301",), ("x" * 300,),
        ("x" * 301,), ("\0",), ("",), ("CON",), ("😀",), ("archive", "memory"), ("index.db",), ("MEMORY.md",), ("..",),
        (".",),
    ]  # fmt: skip
    root = tmp_path / "in" / "ws"
    keepers = [Keeper(root, namespace) for namespace in odd]
    for number, keeper in enumerate(keepers):
        keeper.append([note(f"fact of namespace number{number}")])
        keeper.replace_memory(f"- curated number{number}", was="")
    for number, keeper in enumerate(keepers):
        assert sorted(hit.text for hit in keeper.search("fact curated namespace", 50)) == [
            f"curated number{number}",
            f"fact of namespace number{number}",
        ]
        assert keeper.memory_md() == f"- curated number{number}"
        with pytest.raises(WorkspaceError):
            keeper.get("ada/MEMORY.md")
        keeper.close()
    assert [one.name for one in (tmp_path / "in").iterdir()] == ["ws"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["in"]


@pytest.mark.parametrize("bad", [(7,), (None,), 7])
def test_a_namespace_that_is_no_text_is_refused(tmp_path, bad):
    with pytest.raises(TypeError):
        Workspace(tmp_path, bad)
