import json
import multiprocessing
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage, messages_from_dict

from langgraph_memory import sessions
from langgraph_memory.sessions import LOCK, SessionLog
from tests.support.graphs import chat
from tests.support.texts import CHECK


def keyed(messages: list[Any]) -> list[tuple[str, BaseMessage]]:
    return [(message.id, message) for message in messages]


def lines(log: SessionLog) -> list[dict[str, Any]]:
    found = []
    for line in log.path.read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def test_each_message_is_logged_once_in_its_order(tmp_path):
    log, messages = SessionLog(tmp_path, "t-1"), keyed(chat(5))
    assert log.append(messages[:6]) == 6
    assert log.append(messages) == 4
    assert log.append(messages) == 0
    assert [line["id"] for line in lines(log)] == [key for key, _ in messages]


@pytest.mark.parametrize("script", sorted(CHECK))
def test_a_message_can_be_read_back_as_it_was(tmp_path, script):
    text = CHECK[script][0]
    messages = [
        HumanMessage(text, id=text[:20]),
        AIMessage([{"type": "text", "text": text}], tool_calls=[{"name": "f", "args": {"x": text}, "id": "c"}], id="a"),
        ToolMessage(text, tool_call_id="c", name="f", status="error", artifact=object(), id="r\n\"'"),
    ]
    log = SessionLog(tmp_path, "t-1")
    log.append(keyed(messages))
    read = messages_from_dict([{"type": line["type"], "data": line["data"]} for line in lines(log)])
    assert [(m.type, m.content, m.id) for m in read] == [(m.type, m.content, m.id) for m in messages]
    assert read[1].tool_calls == messages[1].tool_calls
    assert log.append(keyed(messages)) == 0


@pytest.mark.parametrize("key", ["\udc80", "a\nb", '"', "\\", "é", "{", "", "#0123"])
def test_any_key_is_found_again(tmp_path, key):
    log = SessionLog(tmp_path, "t-1")
    assert log.append([(key, HumanMessage("lone \udcff surrogate"))]) == 1
    assert log.append([(key, HumanMessage("lone \udcff surrogate"))]) == 0


@pytest.mark.parametrize("cuts", [[1], [2], [5], [40], [40, 40], [200, 3]])
def test_a_line_that_was_cut_short_is_ended_and_its_message_written_again(tmp_path, cuts):
    log, messages = SessionLog(tmp_path, "t-1"), keyed(chat(3))
    for cut in cuts:
        log.append(messages[:2])
        log.path.write_bytes(log.path.read_bytes()[:-cut])
    log.append(messages)
    assert [line["id"] for line in lines(log)] == ["q0", "a0", "q1", "a1", "q2", "a2"]


@pytest.mark.parametrize("threads", [("a", "A"), ("../x", "x"), ("a/b", "a-b"), ("用户", "用戶")])
def test_two_threads_never_share_a_file(tmp_path, threads):
    logs = [SessionLog(tmp_path, thread) for thread in threads]
    for log in logs:
        log.append(keyed(chat(1)))
    assert len(set(tmp_path.rglob("*.jsonl"))) == 2
    assert [lines(log)[0]["thread"] for log in logs] == list(threads)


def test_what_is_logged_is_private(tmp_path):
    log = SessionLog(tmp_path / "ada", "t-1")
    log.append(keyed(chat(1)))
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.path.parent.stat().st_mode) == 0o700


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path):
    log = SessionLog(tmp_path, "t-1")
    log.path.parent.mkdir()
    log.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        log.append(keyed(chat(1)))
    assert not (tmp_path / "elsewhere").exists()


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    log, messages = SessionLog(tmp_path, "t-1"), keyed(chat(3))
    log.append(messages[:2])
    before, write = log.path.read_bytes(), os.write

    def full(descriptor: int, data: Any) -> int:
        write(descriptor, data[:10])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr(sessions.os, "write", full)
        log.append(messages)
    assert log.path.read_bytes() == before
    assert log.append(messages) == 4


def test_a_lock_that_is_never_given_up_is_an_error_and_no_hang(tmp_path, monkeypatch):
    monkeypatch.setattr(sessions, "LOCK_SECONDS", 0.1)
    with FileLock(tmp_path / LOCK), pytest.raises(TimeoutError):
        SessionLog(tmp_path, "t-1").append(keyed(chat(1)))


def _append(folder: Path) -> None:
    for _ in range(5):
        SessionLog(folder, "t-1").append(keyed(chat(40)))


def test_processes_that_log_the_same_messages_log_them_once(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=_append, args=(tmp_path,)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert [line["id"] for line in lines(SessionLog(tmp_path, "t-1"))] == [key for key, _ in keyed(chat(40))]
