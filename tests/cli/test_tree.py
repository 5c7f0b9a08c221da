from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from langgraph_memory.cli.database import with_store
from langgraph_memory.cli.errors import TooFewTurnsError
from langgraph_memory.cli.sample import REQUESTS
from langgraph_memory.errors import (
    NothingToUndoError,
    ThreadExistsError,
    UnknownCheckpointError,
    UnknownThreadError,
)
from langgraph_memory.threads import ThreadSaver

from .recorded import lgm, lgm_json, stored, talk, texts


def marks(*options: object, thread: str = "t") -> list[str]:
    """The lines of a tree up to the id, with the turn."""
    lines = lgm("tree", thread, *options).stdout.splitlines()
    return [f"{line.partition(' turn')[0].split(' 1f')[0]} {line.partition('turn ')[2][:1]}" for line in lines]


def shown(thread: str = "t") -> list[str]:
    return [message["text"] for message in lgm_json("log", thread)]


# tree


@pytest.mark.parametrize("channel", ["add", "delta"])
@pytest.mark.parametrize("kind", [ThreadSaver, AsyncSqliteSaver])
def test_a_tree_has_its_branches_its_active_path_and_what_went_back(kind, channel):
    options: dict[str, Any] = {"kind": kind, "channel": channel}
    talk("one", "two", "three", **options)
    assert marks() == ["● 1", "● 2", "● 3"]
    lgm("rewind", "t", "--turns", "2")
    assert marks() == ["○ 1", "○ 2", "○ 3", "● 1"]
    talk("else", **options)
    lgm("undo", "t")
    lines = lgm("tree", "t").stdout.splitlines()
    assert [line.count("rewind") for line in lines] == [1, 0, 0, 0, 0, 0]
    assert "undo · newest · three" in lines[-1]
    assert [line[0] for line in lines] == ["○", "○", "●", "●", "├", "●"]
    assert shown() == ["one", "answer one", "two", "answer two", "three", "answer three"]


def test_a_turn_is_told_by_what_was_asked_then_also_where_a_summariser_has_removed_it_since():
    talk("one", "two", "three")
    shorter = [RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage("so far: one, two, three"), AIMessage("go on")]
    with_store(None, lambda store: store.append("t", {"messages": shorter}), changing=True)
    talk("four")
    lines = lgm("tree", "t").stdout.splitlines()
    assert [line.rpartition(" · ")[2] for line in lines] == ["one", "two", "three", "so far: one, two, three", "four"]


def test_a_tree_as_json_has_every_checkpoint_and_the_drawing_with_all_too():
    talk("one", "two")
    nodes = lgm_json("tree", "t")
    assert len(nodes) == lgm_json("threads")[0]["checkpoints"] == len(lgm("tree", "t", "--all").stdout.splitlines())
    assert nodes[-1] | {"newest": True, "active": True, "messages": 4, "next": [], "source": "loop"} == nodes[-1]
    assert nodes[-1].keys() >= {"checkpoint_id", "parent_id", "created", "step", "reason", "origin"}


def test_a_tree_says_what_is_to_run_and_what_was_asked():
    talk("one", "really now?")
    last = lgm("tree", "t").stdout.splitlines()[-1]
    assert "turn 2 · 3 messages · to run: model · newest · really now?" in last


@pytest.mark.parametrize("width", [40, 80, 160])
def test_ids_stand_in_a_tree_as_a_whole_and_colours_only_where_they_are_wanted(width):
    talk("what was asked " * 20)
    ids = [one["checkpoint_id"] for one in lgm_json("tree", "t") if not one["next"]]
    out = lgm("tree", "t", COLUMNS=str(width)).stdout
    assert all(id in out for id in ids) and "\x1b[" not in out
    assert all(len(line) <= max(width, 90) for line in out.splitlines())
    assert "\x1b[" in lgm("tree", "t", FORCE_COLOR="1", TERM="xterm-256color").stdout


# rewind, undo


def test_a_rewind_by_turns_and_its_undo():
    talk("one", "two", "three")
    before = shown()
    place = lgm_json("rewind", "t", "--turns", 2)
    assert (place["turns"], place["messages"], place["turns_before"], place["next"]) == (1, 2, 3, [])
    assert place["checkpoint_id"] == lgm_json("tree", "t")[-1]["checkpoint_id"]
    assert shown() == before[:2]
    result = lgm("undo", "t")
    assert result.stdout.startswith("t is at ") and "3 turns, 6 messages (was at 1 turns)" in result.stdout
    assert "undo t" in result.stderr
    assert shown() == before
    assert lgm("undo", "t").exit_code == 0
    assert shown() == before[:2]


def test_a_rewind_to_a_checkpoint_that_was_to_run_says_what_runs_next():
    talk("one", "two")
    target = next(one for one in lgm_json("tree", "t") if one["next"] == ["model"])
    result = lgm("rewind", "t", target["checkpoint_id"])
    assert "The next run goes on with: model" in result.stderr
    assert lgm_json("threads")[0]["next"] == ["model"]


@pytest.mark.parametrize("turns", [3, 50])
def test_a_rewind_by_more_turns_than_there_are_says_how_many_there_are(turns):
    talk("one", "two", "three")
    result = lgm("rewind", "t", "--turns", turns)
    assert isinstance(result.exception, TooFewTurnsError)
    assert "'t' has 3 turns" in str(result.exception) and "at most 2" in str(result.exception)
    assert lgm_json("threads")[0]["branches"] == 1


def test_a_rewind_wants_either_a_checkpoint_or_turns():
    talk("one", "two")
    for options in ([], ["x", "--turns", "1"], ["--turns", "0"]):
        assert lgm("rewind", "t", *options).exit_code == 2
    unknown = lgm("rewind", "t", "nothing")
    assert isinstance(unknown.exception, UnknownCheckpointError) and "'nothing'" in str(unknown.exception)


def test_without_a_rewind_there_is_nothing_to_undo():
    talk("one")
    assert isinstance(lgm("undo", "t").exception, NothingToUndoError)


def test_a_thread_that_waits_can_be_rewound_and_taken_up_again():
    talk("one", "two?")
    assert lgm_json("threads")[0]["next"] == ["model"]
    lgm("rewind", "t", "--turns", 1)
    assert lgm_json("threads")[0]["next"] == []
    talk("three")
    assert shown() == ["one", "answer one", "three", "answer three"]
    lgm("undo", "t")
    assert lgm_json("threads")[0]["next"] == ["model"]


# fork


def test_a_fork_begins_with_the_history_up_to_a_checkpoint():
    talk("one", "two")
    first = next(one for one in lgm_json("tree", "t") if not one["next"])["checkpoint_id"]
    assert lgm_json("fork", "t", "all")["messages"] == 4
    place = lgm_json("fork", "t", "part", "--at", first)
    assert (place["thread_id"], place["checkpoint_id"], place["messages"]) == ("part", first, 2)
    assert shown("part") == shown()[:2] and shown("all") == shown()
    assert "new is at" in lgm("fork", "t", "new").stdout
    assert isinstance(lgm("fork", "t", "all").exception, ThreadExistsError)
    assert len(lgm_json("threads")) == 4


@pytest.mark.parametrize("command", [["tree", "x"], ["rewind", "x", "--turns", "1"], ["undo", "x"], ["fork", "x", "y"]])
def test_a_thread_that_is_not_there_is_named(command):
    talk("one")
    result = lgm(*command)
    assert isinstance(result.exception, UnknownThreadError) and "There is no thread 'x'" in str(result.exception)


# The sample, as the README shows it


@pytest.mark.slow
def test_the_sample_is_rewound_played_on_and_taken_back():
    lgm("replay")
    whole = stored("sample")
    assert lgm_json("rewind", "sample", "--turns", 10)["turns"] == 3
    assert len(REQUESTS) + 1 > 10
    result = lgm("replay")
    assert result.exit_code == 0 and "sample: goes on at message" in result.stderr
    assert texts(stored("sample")) == texts(whole)
    assert lgm_json("undo", "sample")["turns"] == 13
    assert stored("sample") == whole
    lines = lgm("tree", "sample").stdout.splitlines()
    assert len(lines) == 2 + 11 + 11 + 1
    assert sum(" · rewind · " in line for line in lines) == sum(" · undo · " in line for line in lines) == 1
    assert lgm("verify").exit_code == 0
