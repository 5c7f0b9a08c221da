import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langgraph_memory.cli.chat_commands import COMMANDS, completions
from langgraph_memory.cli.chat_demo import words_of
from langgraph_memory.cli.chat_names import new_id
from langgraph_memory.cli.chat_session import Chat
from langgraph_memory.errors import ConfigError, LangGraphMemoryError
from tests.live.child import ROOT

from .chatting import demo, talked, write_files
from .recorded import lgm, lgm_json, stored, talk, texts

# The demo


def test_the_demo_answers_from_the_files_of_the_folder():
    write_files()
    result = demo("When does the harbour open?")
    assert result.exit_code == 0, result.output
    assert "- harbour.txt, line 1: The harbour opens at high tide." in result.stdout
    used = [message.name for message in stored("t") if isinstance(message, ToolMessage)]
    assert used[0] == "list_files" and {"grep", "read"} < set(used)
    assert '  → grep({"pattern": "harbour", "ignore_case": true})' in result.stderr
    assert re.search(r"context \d+% of 12,000", result.stderr)
    assert result.stderr.rstrip().endswith("chat --model demo --user ada --thread t")
    assert "\x1b" not in result.output


def test_a_greeting_is_answered_with_what_the_demo_is():
    result = demo("hello")
    assert "fixed rules, no language model" in result.stdout
    assert len(stored("t")) == 2


def test_what_is_remembered_is_known_in_another_thread_of_the_same_user_only():
    assert "The memory says: Saved." in demo("Remember that my dog is called Rex").stdout
    question = "What is my dog called?"
    assert "dog is called Rex" in demo(question, thread="u").stdout
    assert "Rex" not in demo(question, thread="v", user="bob").stdout
    assert "Rex" in demo("/memory show today", thread="w").stdout
    demo("forget dog is called Rex")
    assert "Rex" not in demo(question, thread="x").stdout


def test_a_thread_is_resumed_and_asked_about():
    write_files()
    demo("When is high tide?")
    result = demo("And what about the pilot?", "What did I ask first?")
    assert "Your first message was: When is high tide?" in result.stdout
    assert "goes on after" in result.stderr
    asked = [message.text for message in stored("t") if isinstance(message, HumanMessage)]
    assert asked == ["When is high tide?", "And what about the pilot?", "What did I ask first?"]


def test_a_newcomer_sees_pruning_and_a_summary():
    write_files()
    requests = [f"What do the pilots do at tide {number}?" for number in range(6)]
    result = demo(*requests, "/context")
    assert ": pruned" in result.stderr
    assert ": compacted (extract)" in result.stderr
    assert "Σ summary" in result.stdout
    report = lgm_json("context", "t")
    assert report["total"] <= report["window"]


def test_a_new_thread_has_a_short_id_that_is_told():
    result = talked("--model", "demo", lines=("hello",))
    name = re.search(r"^thread ([a-z]+-[a-z]+-\d\d) \(a new thread\)", result.stderr)
    assert name and f"--thread {name[1]}" in result.stderr
    assert stored(name[1])
    taken = {new_id(()) for _ in range(50)}
    assert new_id(taken) not in taken


def test_nothing_is_kept_of_a_chat_in_which_nothing_was_said():
    result = demo("/context", "/compact", "/retry", "   ", "/exit", "hello")
    assert result.stderr.count("Nothing was said yet.") == 3
    assert "Go on with" not in result.stderr
    assert lgm_json("threads") == []


@pytest.mark.parametrize("command", ["/tree", "/rewind", "/rewind 2", "/undo"])
def test_a_chat_in_which_nothing_was_said_has_nothing_to_go_back_in(command):
    result = demo(command)
    assert [line for line in result.stderr.splitlines() if "there is no thread" in line.lower()] == []
    assert "Nothing was said yet." in result.stderr.splitlines()
    assert result.exit_code == 0 and result.stdout == ""


def test_a_rewind_to_the_very_beginning_can_be_taken_back():
    demo("hello")
    start = lgm_json("tree", "t")[0]["checkpoint_id"]
    result = demo(f"/rewind {start}", "/undo")
    assert "Nothing was said yet." not in result.stderr and "2 messages" in result.stderr
    assert len(stored("t")) == 2


def test_a_byte_order_mark_in_front_of_the_first_line_is_no_part_of_it():
    assert "/exit" in demo("\ufeff/help").stdout
    command = [sys.executable, "-m", "langgraph_memory", "chat", "--model", "demo", "--user", "ada"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    given = "\ufeff/help\n\ufeffhello\n".encode()
    ended = subprocess.run(command, input=given, env=environ, capture_output=True, timeout=120, check=True)
    assert "/exit" in ended.stdout.decode()
    [thread] = lgm_json("threads")
    assert stored(thread["thread_id"])[0].text == "\ufeffhello"


def test_words_of_a_question_are_the_telling_ones():
    assert words_of("Where is the watermark of the pruning?") == ["watermark", "pruning"]
    assert words_of("hello") == []


# Commands


def test_a_wrong_command_is_one_line_with_the_nearest():
    result = demo("/compcat", "/frobnicate")
    lines = result.stderr.splitlines()
    assert sum("did you mean /compact?" in line for line in lines) == 1
    assert sum("/help lists them." in line for line in lines) == 1
    assert result.exit_code == 0 and result.stdout == ""


def test_a_line_that_is_no_command_is_shown_in_short():
    lines = demo("/" + "y" * 100_000, "/HELP").stderr.splitlines()
    assert max(map(len, lines)) < 300
    assert sum("did you mean /help?" in line for line in lines) == 1


def test_what_a_command_takes_may_stand_behind_a_tab():
    assert "there is no thread 'q' yet." in demo("/threads\tq").stderr
    assert "Nothing was said yet." in demo("/retry\tnow").stderr


def test_two_slashes_send_one_to_the_model():
    demo("//context is what?")
    assert stored("t")[0].text == "/context is what?"


def test_help_lists_every_command():
    out = demo("/help").stdout
    assert all(out.count(f"\n{name} ") + out.startswith(f"{name} ") for name in COMMANDS)


def test_rewinding_takes_turns_off_and_undo_gives_them_back():
    demo("hello", "hello again", "hello once more")
    whole = texts(stored("t"))
    result = demo("/rewind 2", "/context", "/undo", "/tree")
    assert "1 turns, 2 messages (was at 3 turns)" in result.stderr
    assert "2 messages, 2 in the view" in result.stdout
    assert "3 turns, 6 messages (was at 1 turns)" in result.stderr
    assert texts(stored("t")) == whole
    assert "undo" in result.stdout and "turn 3 · 6 messages" in result.stdout
    checkpoint = next(row for row in lgm_json("tree", "t") if row["messages"] == 2 and not row["next"])
    demo(f"/rewind {checkpoint['checkpoint_id']}", "hello after that")
    assert texts(stored("t")) == [*whole[:2], "hello after that", whole[1]]


@pytest.mark.parametrize(
    "line", ["/rewind 9", "/rewind 0", "/rewind nowhere", "/undo", "/tree x", "/search", "/threads q"]
)
def test_a_command_that_cannot_be_done_is_one_line(line):
    result = demo("hello", line, "hello")
    assert result.exit_code == 0, result.output
    assert sum("Error: " in each for each in result.stderr.splitlines()) == 1
    assert len(stored("t")) == 4


def test_compacting_by_hand_summarises_with_a_focus():
    write_files()
    demo(*(f"What do the pilots do at tide {number}?" for number in range(3)))
    result = demo("/compact the boats", "/context", "hello")
    assert re.search(r"[\d,]+ → [\d,]+ tokens, [1-9]\d* messages summarised", result.stderr)
    assert "Σ summary" in result.stdout
    assert isinstance(stored("t")[-1], AIMessage)


def test_a_short_thread_is_not_compacted():
    assert "nothing to summarise" in demo("hello", "/compact").stderr


def test_the_memory_of_the_user_is_looked_at_and_changed():
    # A regular round would merge what was added, whenever it gets to it.
    Path("runtime.json").write_text('{"memory": {"maintenance": {"interval_hours": 0}}}', encoding="utf-8")
    result = demo(
        "/memory add 'Ada sails a sloop'", "/memory", "/memory show --list", "/memory today", "/memory show --nonsense"
    )
    assert "memory/" in result.stdout and "Ada sails a sloop" in result.stdout
    assert "there is no MEMORY.md yet" in result.stderr
    assert "Error: No such option: --nonsense" in result.stderr
    assert "sloop" in lgm("memory", "show", "today", "--user", "ada").stdout


def test_forgetting_by_a_command_has_to_be_meant():
    demo("remember that Ada sails a sloop")
    result = demo("/memory forget sloop", "/memory add -", "/memory show 'today")
    assert [line.partition(": ")[0] for line in result.stderr.splitlines() if "Error" in line] == ["Error"] * 3
    assert "sloop" in lgm("memory", "show", "today", "--user", "ada").stdout
    demo("/memory forget sloop --yes")
    assert "sloop" not in lgm("memory", "show", "today", "--user", "ada").stdout


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("Ada's cat", "Ada's cat"),
        ("two words", "two words"),
        ('two  "quoted" words \\ and a slash', 'two  "quoted" words \\ and a slash'),
        ("'Ada' is a name", "'Ada' is a name"),
        ('"Ada\'s cat"', "Ada's cat"),
        ("-5 degrees --user bob", "-5 degrees --user bob"),
        ("--type fact 'a sloop'", "a sloop"),
        ("'a sloop' --type fact", "a sloop"),
    ],
)
def test_the_text_to_remember_is_the_rest_of_the_line(typed, text):
    Path("runtime.json").write_text('{"memory": {"maintenance": {"interval_hours": 0}}}', encoding="utf-8")
    assert "Error" not in demo(f"/memory add {typed}").stderr
    (row,) = lgm_json("memory", "show", "today", "--user", "ada")["entries"]
    assert row["text"] == text


@pytest.mark.parametrize("typed", ["Ada's cat --yes", "--yes Ada's cat", "-y Ada's cat", '"Ada\'s cat" --yes'])
def test_the_text_to_forget_is_the_rest_of_the_line(typed):
    demo("/memory add Ada's cat is called Rex")
    assert "forgotten in" in demo(f"/memory forget {typed}").stderr
    assert "Rex" not in lgm("memory", "show", "today", "--user", "ada").stdout


def test_forgetting_two_words_has_to_be_meant():
    demo("/memory add Ada's cat is called Rex")
    assert "say so with" in demo("/memory forget Ada's cat").stderr
    assert "Rex" in lgm("memory", "show", "today", "--user", "ada").stdout


@pytest.mark.parametrize("user", ["", "  "])
def test_a_blank_user_is_refused(user):
    result = demo("hello", user=user)
    assert result.exit_code == 2
    assert "names nobody" in result.stderr


def test_threads_and_memories_are_searched():
    talk("Something about a brigantine.", thread="other")
    assert "brigantine" in demo("/search brigantine").stdout
    demo("remember that Ada sails a brigantine")
    found = demo("/search brigantine").stdout
    assert "Ada sails a brigantine" in found and "memory/" in found


def test_threads_are_listed_and_gone_over_to():
    demo("hello", thread="a")
    result = demo("/threads", "/threads a", "hello again", thread="b")
    assert "a " in result.stdout
    assert "a: 2 messages." in result.stderr
    assert len(stored("a")) == 4
    assert "did you mean 'a-long-name'?" in demo("hello", "/threads a-long-nam", thread="a-long-name").stderr


async def test_commands_threads_and_checkpoints_are_completed(monkeypatch):
    class Row:
        thread_id, checkpoint_id = "amber-bay-10", "1f0"

    class Store:
        async def threads(self):
            return [Row]

        async def checkpoints(self, thread_id):
            return [Row]

    monkeypatch.setattr(Chat, "store", Store())
    chat = Chat(*[None] * 6)
    assert await completions(chat, "/co") == ["/context", "/compact"]
    assert await completions(chat, "/threads am") == ["amber-bay-10"]
    assert await completions(chat, "/rewind ") == ["1f0"]
    assert "show" in await completions(chat, "/memory s")
    assert await completions(chat, "/search x") == await completions(chat, "hello") == []


# How it begins


def test_a_thread_of_another_graph_is_not_written():
    import asyncio
    from typing import Annotated, TypedDict

    from langgraph.graph import START, StateGraph
    from langgraph.graph.message import add_messages

    from langgraph_memory.threads import ThreadSaver

    class State(TypedDict):
        messages: Annotated[list, add_messages]
        plan: str

    async def main():
        async with ThreadSaver.from_conn_string("memory/threads.db") as saver:
            builder = StateGraph(State).add_node("plan", lambda state: {"plan": "p", "messages": ["hi"]})
            graph = builder.add_edge(START, "plan").compile(checkpointer=saver)
            await graph.ainvoke({"messages": ["hello"]}, {"configurable": {"thread_id": "t"}})

    Path("memory").mkdir()
    asyncio.run(main())
    result = demo("hello")
    assert isinstance(result.exception, LangGraphMemoryError) and "plan" in str(result.exception)
    assert len(stored("t")) == 2


def test_without_a_model_it_is_said_how_to_get_one():
    error = talked(lines=()).exception
    assert isinstance(error, ConfigError)
    assert "chat --model demo" in str(error) and "OPENAI_API_KEY" in str(error) and "\n" not in str(error)


@pytest.mark.parametrize(
    "model, says",
    [
        ("groq:x", "pip install langchain-groq"),
        ("cohere:x", "pip install langchain-cohere"),
        ("openai:gpt-5.5", "export OPENAI_API_KEY="),
        ("nonsense:x", "provider:name"),
        ("x", "provider:name"),
    ],
)
def test_a_model_that_cannot_be_had_is_one_line(model, says):
    error = talked("--model", model, lines=()).exception
    assert isinstance(error, ConfigError) and says in str(error) and "\n" not in str(error)


@pytest.mark.parametrize(
    "options",
    [("--model", "demo", "--base-url", "http://x"), ("--model-name", "x"), ("--base-url", "x"), ("--folder", "none")],
)
def test_options_that_do_not_go_together_are_refused(options):
    result = talked(*options, lines=())
    assert result.exit_code == 2 or isinstance(result.exception, LangGraphMemoryError)


def test_what_the_memory_keeps_is_not_shown_to_the_model():
    write_files()
    demo("remember that the harbour is secret")
    result = demo("Where is the harbour?", thread="u", user="bob")
    listing = next(message.text for message in stored("u") if isinstance(message, ToolMessage))
    assert "harbour.txt" in listing and "memory" not in listing
    assert "secret" not in result.stdout


# What the documentation says

DOC = (Path(__file__).parents[2] / "docs" / "chat.md").read_text(encoding="utf-8")


def test_the_page_lists_every_command_and_option():
    rows = re.findall(r"^\| `(/\w+)((?: [^`]*)?)` \|", DOC, re.MULTILINE)
    assert {name: arguments.strip().replace("\\|", "|") for name, arguments in rows} == {
        command.name: command.arguments for command in COMMANDS.values()
    }
    help = lgm("chat", "--help").stdout
    options = set(re.findall(r"^\| `(--[\w-]+)", DOC, re.MULTILINE))
    assert options == set(re.findall(r"--[a-z-]+", help)) - {"--help"}
    assert set(re.findall(r"lgm chat.*?(--[a-z-]+)", DOC)) <= options


def test_the_page_s_pipes_do_what_it_says():
    lines = re.findall(r"^printf '(.*)' \| lgm (.*)$", DOC, re.MULTILINE)
    assert len(lines) == 2
    outs = [lgm(*command.split(), input=text.replace("\\n", "\n")).stdout for text, command in lines]
    assert all("my boat is called Gull" in out for out in outs)
