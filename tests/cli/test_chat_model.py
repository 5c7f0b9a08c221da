"""Chats with a real client and a real server, on the loopback interface."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langgraph_memory.cli.meter import is_paired
from tests.support.server import UNAUTHORISED, Call, Fault, ModelServer, Reply, Request, error

from .chatting import KEYS, talked, write_files
from .recorded import lgm_json, stored, texts

pytestmark = pytest.mark.slow

READ = Call("read", {"path": "harbour.txt"}, "call_read")


def told(server: ModelServer, *lines: str, thread: str = "t", options: tuple[str, ...] = ()):
    named = ("--base-url", server.url, "--model-name", "scripted", "--thread", thread, "--user", "ada")
    return talked(*named, *options, lines=lines)


def answers(*replies):
    """Replies for the agent in order, whatever the memory asks beside them."""
    left = list(replies)

    def reply(request: Request):
        if not request.tools:
            return "NO_REPLY"
        return left.pop(0) if len(left) > 1 else left[0]

    return reply


def of_agent(server: ModelServer) -> list[Request]:
    return [request for request in server.requests if request.tools]


def test_an_answer_is_streamed_and_tools_are_used():
    write_files()
    with ModelServer(answers(Reply("Let me look. ", calls=[READ]), "It opens at *high* tide.")) as server:
        result = told(server, "When does the harbour open?")
    assert result.exit_code == 0, result.output
    assert result.stdout == "Let me look. \nIt opens at *high* tide.\n"
    assert '→ read({"path": "harbour.txt"})' in result.stderr
    first, second = of_agent(server)
    assert first.stream and {"list_files", "grep", "read", "recall", "memory_save"} <= set(first.tools)
    assert str(Path.cwd()) in first.messages[0]["content"]
    assert "opens at high tide" in second.messages[-1]["content"]
    assert [type(message) for message in stored("t")] == [HumanMessage, AIMessage, ToolMessage, AIMessage]


def test_what_would_command_the_terminal_is_shown():
    with ModelServer(answers("red: \x1b[31m!")) as server:
        assert told(server, "hello").stdout == "red: ␛[31m!\n"


def test_a_memory_of_the_model_is_there_in_the_next_thread():
    save = Call("memory_save", {"text": "Ada keeps bees."}, "call_save")
    with ModelServer(answers(Reply(calls=[save]), "Noted.")) as server:
        told(server, "I keep bees.")
    search = Call("memory_search", {"query": "bees"}, "call_search")
    with ModelServer(answers(Reply(calls=[search]), "Bees.")) as server:
        told(server, "What do I keep?", thread="u")
        assert "Ada keeps bees." in of_agent(server)[-1].messages[-1]["content"]


@pytest.mark.parametrize(
    "answer, says",
    [
        (UNAUTHORISED, "Incorrect API key"),
        (Fault(404, error("The model `scripted` does not exist.")), "does not exist"),
        (Fault(400, error("Your\nrequest is\nodd.")), "Your request is odd."),
    ],
)
def test_an_error_of_the_model_is_one_line_and_the_thread_goes_on(answer, says):
    with ModelServer(answers(answer, "Well again.")) as server:
        result = told(server, "First question", "Second question")
    assert result.exit_code == 1
    assert sum(says in line for line in result.stderr.splitlines()) == 1
    assert result.stdout == "Well again.\n"
    assert texts(stored("t")) == ["First question", "Second question", "Well again."]
    contents = [message["content"] for message in of_agent(server)[-1].messages if message["role"] == "user"]
    assert str(contents).count("First question") == 1


def test_a_key_that_is_refused_is_named():
    with ModelServer(answers(UNAUTHORISED)) as server:
        assert "Check the key of the provider." in told(server, "hello").stderr


def test_an_answer_is_asked_for_again_without_saying_it_twice():
    with ModelServer(answers(UNAUTHORISED, "Here.")) as server:
        result = told(server, "The question", "/retry")
    assert result.stdout == "Here.\n"
    assert texts(stored("t")) == ["The question", "Here."]


def test_a_server_that_is_not_there_is_one_line():
    with ModelServer() as server:
        url = server.url
    result = talked("--base-url", url, "--thread", "t", lines=("hello", "/context"))
    assert result.exit_code == 1
    assert len([line for line in result.stderr.splitlines() if "Error" in line]) == 1
    assert url in result.stderr and "t: " in result.stdout
    assert texts(stored("t")) == ["hello"]


def test_a_turn_that_broke_off_among_its_tools_goes_on_validly():
    write_files()
    with ModelServer(answers(Reply(calls=[READ]), UNAUTHORISED, "Fine.")) as server:
        told(server, "Look into the harbour.", "And now?")
        last = of_agent(server)[-1].messages
    roles = [message["role"] for message in last]
    assert roles == ["system", "user", "assistant", "tool", "user"]
    assert is_paired(stored("t"))


def test_a_context_that_is_too_long_is_compacted_and_asked_again():
    write_files()
    with ModelServer(answers(*[Reply(calls=[READ]), "Fine."] * 12), limit=3200) as server:
        result = told(server, *(f"Question {number}: {'about the sea ' * 60}" for number in range(12)))
    assert result.exit_code == 0, result.stderr
    assert "overflow_recovered" in result.stderr
    assert result.stdout.count("Fine.") == 12
    assert sum(isinstance(message, HumanMessage) for message in stored("t")) == 12


def test_a_large_result_is_spilled():
    Path("large.txt").write_text("A line about the sea.\n" * 3000, encoding="utf-8")
    call = Call("read", {"path": "large.txt", "lines": 1000}, "call_large")
    write_config = '{"tools": {"spill_buffer": {"default_threshold": 5000}}}'
    Path("runtime.json").write_text(write_config, encoding="utf-8")
    with ModelServer(answers(Reply(calls=[call]), "Long.")) as server:
        result = told(server, "Read it.", options=("--config", "runtime.json"))
    assert "  · spilled: " in result.stderr
    assert "[spilled: " in of_agent(server)[-1].messages[-1]["content"]
    assert "--config runtime.json" in result.stderr


def test_a_tool_call_that_cannot_be_read_is_answered():
    with ModelServer(answers(Reply(calls=[Call("read", "{broken")]), Reply(calls=[Call("fly", {})]), "So.")) as server:
        result = told(server, "Look.", "Again.")
    assert result.exit_code == 0, result.output
    assert "→ read(" in result.stderr


# Ctrl-C


def begun(server: ModelServer, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "langgraph_memory", "chat", "--base-url", server.url, "--model-name", "scripted"]
    environ = {**os.environ, **dict.fromkeys(KEYS, ""), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [*command, "--thread", "t", "--user", "ada", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environ,
        encoding="utf-8",
    )


def say(chat: subprocess.Popen[str], line: str) -> None:
    assert chat.stdin
    chat.stdin.write(f"{line}\n")
    chat.stdin.flush()


def stopped_while(first: Reply, seen: str) -> tuple[ModelServer, str, str, int]:
    """A chat that is interrupted once `seen` stands on its stdout, and then asked something else."""
    with ModelServer(answers(first, "Well then.")) as server:
        chat = begun(server)
        say(chat, "First question")
        read = ""
        while seen not in read:
            character = chat.stdout.read(1)
            assert character, chat.stderr.read()
            read += character
        chat.send_signal(signal.SIGINT)
        say(chat, "Second question")
        out, err = chat.communicate(timeout=60)
        return server, read + out, err, chat.returncode


def test_ctrl_c_stops_an_answer_and_the_thread_goes_on():
    slow = Reply("Once upon a time there was a harbour " * 50, pause=0.2)
    server, out, err, code = stopped_while(slow, "Once")
    assert code == 0, err
    assert out.splitlines()[-1] == "Well then."
    assert "Stopped." in err and "Traceback" not in err
    assert texts(stored("t")) == ["First question", "Second question", "Well then."]
    asked = [message["content"] for message in of_agent(server)[-1].messages if message["role"] == "user"]
    assert str(asked).count("First question") == str(asked).count("Second question") == 1
    assert not lgm_json("threads")[0]["next"]
