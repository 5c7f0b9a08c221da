"""What the documents show is run: every fenced block of every document, in order, one document a test."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.recorded import long_task

from .blocks import DOCUMENTS, Block, blocks_of, differs
from .running import ANSWER, Document, Sample


@pytest.fixture
def run(sample: Callable[[], Sample], monkeypatch: pytest.MonkeyPatch):
    """Runs the blocks of one document in the folder of the test, which holds a recording as well."""
    Path("my-recordings.jsonl").write_text(json.dumps({"messages": long_task(2)}) + "\n", encoding="utf-8")
    document = Document(sample, monkeypatch)

    def run_all(*blocks: Block) -> Document:
        for block in blocks:
            document.run(block)
        return document

    yield run_all
    document.close()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_block_of_a_document_does_what_it_shows(path: Path, run) -> None:
    run(*blocks_of(path))


def test_the_programs_of_the_readme_print_an_answer(run) -> None:
    readme = [block for block in blocks_of(DOCUMENTS[0]) if block.language == "python"]
    assert len(readme) >= 3
    for block in readme:
        assert ANSWER in (run(block).printed or "")


def block(language: str, text: str, **remarks: str) -> Block:
    return Block("made.md", 1, language, text, remarks)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (block("yaml", "a: 1\n"), "no rule"),
        (block("text", "what this prints\n"), "<!-- output -->"),
        (block("python", "1 / 0\n"), "division by zero"),
        (block("python", "# continues\n"), "nothing is before it"),
        (block("text", "anything\n", output=""), "nothing was run"),
        (block("sh-session", "$ lgm nonsense\n"), "exit codes [2]"),
        (block("sh-session", "$ rm -rf memory\n"), "'rm' is neither"),
        (block("sh-session", "$ lgm threads --json\n[1]\n"), "shown:"),
        (block("sh", "lgm nonsense\n"), "names no command"),
        (block("sh", "lgm threads rm t --hard\n"), "has no ['--hard']"),
        (block("sh-session", "lgm threads\n"), "begins with a command"),
        (block("json", '{"memory": {"prunning": {}}}\n'), "not a known key"),
        (block("json", "{}\n"), "nothing but defaults"),
        (block("json", '{"checkpointer": {"path": "langgraph_memory.make"}}\n', **{"langgraph.json": ""}), "make"),
        (block("json", '{"checkpointer": {"path": "langgraph_memory:x"}}\n', **{"langgraph.json": ""}), "a colon"),
        (block("sql", "SELECT * FROM lgm_items WHERE id = 0;\n"), "0 rows"),
        (block("sql", "SELECT colour FROM lgm_items;\n"), "no such column"),
        (block("sql", "DELETE FROM lgm_items;\n"), "readonly"),
    ],
)
def test_a_block_that_does_not_do_what_it_shows_is_found(run, wrong: Block, message: str) -> None:
    with pytest.raises(Exception, match=re.escape(message)):
        run(wrong)


def test_programs_continue_only_if_they_say_so(run) -> None:
    document = run(
        block("python", "import asyncio\nheld = asyncio.Event()\n"),
        block("python", "# continues\nawait asyncio.sleep(0)\nheld.set()\nprint('set', held.is_set())\n"),
        block("text", "set ...\n", output=""),
    )
    assert document.printed == "set True\n"
    with pytest.raises(NameError):
        run(block("python", "held\n"))


def test_the_model_of_a_program_says_what_the_remark_says(run) -> None:
    program = (
        "from langchain.chat_models import init_chat_model\n"
        "model = init_chat_model('openai:gpt-5.5')\n"
        "print(model.invoke('one').text, model.invoke('two').tool_calls[0]['name'])\n"
    )
    called = {"content": "", "tool_calls": [{"name": "look", "args": {}, "id": "c1"}]}
    assert run(block("python", program, replies=json.dumps(["first", called]))).printed == "first look\n"


def test_remarks_stand_directly_above_a_block(tmp_path: Path) -> None:
    path = tmp_path / "made.md"
    path.write_text("<!-- sample -->\ntext between\n```sql\nSELECT 1;\n```\n<!-- output -->\n\n```text\n1\n```\n")
    first, second = blocks_of(path)
    assert (first.line, first.remarks, second.remarks) == (3, {}, {"output": ""})
    path.write_text("<!-- outputt -->\n```text\n1\n```\n")
    with pytest.raises(AssertionError, match="outputt"):
        blocks_of(path)
    path.write_text("```text\n1\n")
    with pytest.raises(AssertionError, match="no end"):
        blocks_of(path)


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a  b\n", "a b", True),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("a … d\n", "a b c d\n", True),
        ("a … d\n", "a b\nc d\n", False),
        ("a\n", "a\nb\n", False),
        ("3 turns\n", "4 turns\n", False),
        ("1f1ed01f-e071… 705 KB\n", "1f1ed302-0d6a-66f3-8017-fac2195d68bd 717 KB\n", True),
        ("2026-11-30 21:07:25\n", "2027-01-01 10:00:00\n", True),
        ("2026-11-30 21:07:25\n", "yesterday\n", False),
    ],
)
def test_output_is_compared_word_for_word_where_it_is_the_same_in_every_run(shown, printed, same) -> None:
    assert (not differs(shown, printed)) == same


def test_loosely_numbers_differ_and_lines_may_follow() -> None:
    assert not differs("3 turns, 7,511 tokens\n", "4 turns, 12 tokens\nmore\n", loosely=True)
    assert differs("3 turns\n", "4 twists\n", loosely=True)
