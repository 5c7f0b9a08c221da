"""The sample of `lgm replay`: an agent that explores the source of this package with real tools.

What it does next is a rule, not a model: list the files, search for the words of the request, read the files with most
hits, answer. The rule looks only at the current turn and at what its tools returned, so a thread from an older version
of the package goes on like any other.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, tool
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from langgraph_memory import LangGraphMemoryError, MemoryMiddleware, MemoryState
from langgraph_memory.state import MESSAGES

from .errors import ThreadMismatchError
from .meter import Totals
from .replay_engine import Graph, ModelNode, Outcome, refuse_delta
from .watch import Watch

SAMPLE_THREAD = "sample"
SAMPLE_WINDOW = 12_000
READS = 5
"""Pages read for a request at most."""
PAGE = 180
"""Lines of a page."""
HITS = 60
"""Matching lines that a search returns at most."""

REQUESTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Where is it decided which tool result belongs to which tool call?", ("def pair", "unanswered")),
    ("How are old tool results pruned, and which of them are protected?", ("watermark", "protect_recent")),
    ("When is a summary due, and where is the history cut?", ("trigger", "class Cut")),
    ("What happens when the summariser fails?", ("Rejected", "Breaker")),
    ("How are tokens counted, and when is the count an estimate?", ("count_message", "estimate")),
    ("Which settings decide how much room the messages have?", ("reserve_tokens", "response_tokens")),
    ("How does a decision notice that the messages it was made for have changed?", ("fitted", "digest")),
    ("Where does a message of a thread stand on disk, and how often?", ("lgm_items", "class Piece")),
    ("What does a rewind leave in the thread, and how is it taken back?", ("UNDOABLE", "def undo")),
    ("How is a word found in a text without blanks?", ("_grams", "def fold")),
    ("When does a message that waits become part of a thread?", ("acknowledge", "follow_ups")),
    ("Which names of files does an id become?", ("safe_name", "READABLE")),
)
LAST_REQUEST = "And what did I ask you first?"

ROOT = Path(__file__).resolve().parents[1]


# The tools


@tool
def list_files(pattern: str = "**/*.py") -> str:
    """List the files of the package with their number of lines."""
    return "\n".join(f"{_name(path)} ({len(_lines(path))} lines)" for path in _files(pattern))


@tool
def grep(pattern: str) -> str:
    """Find the lines that match a regular expression, as path:line: text."""
    match = re.compile(pattern).search
    found = [
        f"{_name(path)}:{number}: {line.strip()}"
        for path in _files("**/*.py")
        for number, line in enumerate(_lines(path), 1)
        if match(line)
    ]
    more = [f"({len(found) - HITS} more)"] if len(found) > HITS else []
    return "\n".join([*found[:HITS], *more]) or "no match"


@tool
def read(path: str, start: int = 1, lines: int = PAGE) -> str:
    """Read lines of a file of the package."""
    file = (ROOT / path).resolve()
    if not file.is_relative_to(ROOT) or not file.is_file():
        return f"there is no file {path!r}"
    return "\n".join(f"{start + i:4} {line}" for i, line in enumerate(_lines(file)[start - 1 : start - 1 + lines]))


def _files(pattern: str) -> list[Path]:
    """The files of the package without this one, which holds all the words that are searched for."""
    return sorted(path for path in ROOT.glob(pattern) if path.is_file() and path != Path(__file__).resolve())


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


# The rule


def reply(history: Sequence[BaseMessage]) -> AIMessage:
    """What the agent says after `history`, in which the newest human message opens the current turn."""
    start = max(i for i, message in enumerate(history) if isinstance(message, HumanMessage))
    request, turn = str(history[start].content), history[start + 1 :]
    text, calls = _step(request, turn)
    position = len(history)
    named = [
        ToolCall(id=f"call-{position}-{i}", name=name, args=args, type="tool_call")
        for i, (name, args) in enumerate(calls)
    ]
    return AIMessage(text, id=f"{SAMPLE_THREAD}-{position}", tool_calls=named)


def _step(request: str, turn: Sequence[BaseMessage]) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
    asked = Counter(str(message.name) for message in turn if isinstance(message, ToolMessage))
    if request == LAST_REQUEST:
        return _remember(turn)
    if not asked["list_files"]:
        return "I begin with the files.", [("list_files", {})]
    if not asked["grep"]:
        words = dict(REQUESTS).get(request, (request.split()[-1].strip("?"),))
        return "Now I search for the words that matter here.", [("grep", {"pattern": word}) for word in words]
    pages = pages_of(turn)
    if asked["read"] < min(READS, len(pages)):
        path, first = pages[asked["read"]]
        return f"{path} has hits; I read it from line {first}.", [("read", {"path": path, "start": first})]
    return _answer(request, turn), []


def _remember(turn: Sequence[BaseMessage]) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
    """Ask the thread itself, because the beginning is not in the view any more."""
    found = [str(message.content) for message in turn if isinstance(message, ToolMessage)]
    if not found:
        return "That was long ago; I look it up.", [("recall", {"ref": "history", "pattern": r"\?$", "limit": 600})]
    return f"Your first question was: {found[0].splitlines()[0].partition(': ')[2]}", []


def hits_of(turn: Sequence[BaseMessage]) -> list[tuple[str, int, str]]:
    """Path, line number and text of every hit of the turn."""
    text = "\n".join(str(m.content) for m in turn if isinstance(m, ToolMessage) and m.name == "grep")
    return [(path, int(line), hit) for path, line, hit in re.findall(r"^(\S+?):(\d+): (.*)$", text, re.MULTILINE)]


def pages_of(turn: Sequence[BaseMessage]) -> list[tuple[str, int]]:
    """Path and first line of the pages with hits, those with most hits first."""
    pages = Counter((path, (line - 1) // PAGE * PAGE + 1) for path, line, _ in hits_of(turn))
    return sorted(pages, key=lambda page: (-pages[page], page))


def _answer(request: str, turn: Sequence[BaseMessage]) -> str:
    places = [
        f"- {path}, line {line}: {hit}" for path, line, hit in hits_of(turn) if hit.startswith(("def ", "class "))
    ]
    return "\n".join([f"{request} It is written here:", *places[:8]]) if places else "I found no definition of that."


# The graph


async def _named(request: Any, execute: Callable[[Any], Any]) -> Any:
    """Run a tool; its result gets an id made from the call, by which it can be recalled."""
    result = await execute(request)
    if isinstance(result, ToolMessage):
        result.id = f"{request.tool_call['id']}-result"
    return result


def _built(memory: MemoryMiddleware, model: ModelNode) -> Graph:
    tools: list[BaseTool] = [list_files, grep, read, *memory.tools]
    builder = StateGraph(MemoryState)
    builder.add_node("memory", memory)
    builder.add_node("model", model)
    builder.add_node("tools", ToolNode(tools, awrap_tool_call=_named))
    builder.add_edge(START, "memory")
    builder.add_edge("memory", "model")
    builder.add_conditional_edges("model", tools_condition, {"tools": "tools", END: END})
    builder.add_edge("tools", "memory")
    return builder.compile(checkpointer=memory.saver)


async def run_sample(memory: MemoryMiddleware, thread_id: str, watch: Watch) -> Outcome:
    """Ask the agent everything the thread has not asked yet."""
    model = ModelNode(memory, reply, watch.step)
    graph = _built(memory, model)
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}, "recursion_limit": 100}
    await refuse_delta(graph, config)
    snapshot = await graph.aget_state(config)
    before: list[BaseMessage] = snapshot.values.get(MESSAGES, [])
    _check(before, thread_id)
    inputs = _inputs(before, pending=bool(snapshot.tasks))
    watch.begin(thread_id, len(before), None if inputs else len(before), Totals.of(before).calls)
    await model.recollect(graph, config, before)
    error = None
    try:
        for input_ in inputs:
            await graph.ainvoke(input_, config)
    except LangGraphMemoryError as problem:
        error = str(problem)
    messages = (await graph.aget_state(config)).values.get(MESSAGES, [])
    return Outcome(thread_id, "", SAMPLE_THREAD, Totals.of(messages), len(before), error is None, error)


def _check(messages: Sequence[BaseMessage], thread_id: str) -> None:
    if messages and messages[0].id != _request_id(0):
        raise ThreadMismatchError(
            f"The thread {thread_id!r} holds another conversation, not the sample. Give another name with --thread."
        )


def _inputs(messages: Sequence[BaseMessage], *, pending: bool) -> list[dict[str, Any] | None]:
    """What is still to be put in; None goes on with what is pending."""
    requests = [*(text for text, _ in REQUESTS), LAST_REQUEST]
    asked = sum(isinstance(message, HumanMessage) for message in messages)
    rest = enumerate(requests[asked:], asked)
    # With `snapshot.tasks`, not `next`: that leaves out tasks that have finished without being checkpointed.
    first: list[dict[str, Any] | None] = [None] if pending else []
    return [*first, *({MESSAGES: [HumanMessage(text, id=_request_id(number))]} for number, text in rest)]


def _request_id(number: int) -> str:
    return f"{SAMPLE_THREAD}-request-{number}"
