"""The rules that the offline model answers by: four small agents that see nothing but what they are sent."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

# An explorer of source code: search, read the pages with most hits, answer

QUESTIONS = {
    "Where does the event loop run the callbacks that are due?": "_run_once",
    "How does a task go on when what it waits for is done?": "__wakeup",
    "What happens to a task that is cancelled while it sleeps?": "CancelledError",
    "How is a connection to a server opened?": "create_connection",
    "Who closes a transport, and when?": "def close",
    "How does a queue wake those who wait for an item?": "_wakeup_next",
    "What does a lock do when its owner lets go of it?": "def release",
    "How is a subprocess watched?": "child_watcher|_process_exited",
    "When does a timeout cancel its task?": "reschedule",
    "How do streams keep a fast writer back?": "pause_writing",
}
LAST_QUESTION = "What did I ask you first, word for word?"
PAGE = 200
"""Lines of a page."""
READS = 5
"""Pages read for a question."""

_HIT = re.compile(r"^(\S+?):(\d+): (.*)$", re.MULTILINE)
_NOTES = re.compile(r"^Notes: (.*)$", re.MULTILINE)
_TO_READ = re.compile(r"^Still to read: (.*)$", re.MULTILINE)


def explore(sent: Sequence[BaseMessage]) -> AIMessage:
    """The next step. The plan is carried on from message to message, as agents do with a list of what is to be done."""
    question = _question(sent)
    last = sent[-1]
    if question == LAST_QUESTION:
        return _look_back(sent)
    if isinstance(last, HumanMessage):
        return _step(sent, f"I search for {QUESTIONS[question]}.", "grep", pattern=QUESTIONS[question])
    plan = next(message for message in reversed(sent) if isinstance(message, AIMessage))
    if plan.tool_calls[0]["name"] == "grep":
        hits = _HIT.findall(last.text)
        found = [f"{path}:{line}" for path, line, text in hits if text.startswith(("def ", "class ", "async def "))]
        pages = Counter((path, (int(line) - 1) // PAGE * PAGE + 1) for path, line, _ in hits)
        best = sorted(pages, key=lambda page: (-pages[page], page))[:READS]
        notes, to_read = ", ".join(found[:4]) or "no definition", [f"{path}@{line}" for path, line in best]
    else:
        notes = _NOTES.findall(plan.text)[0]
        to_read = [page for page in _TO_READ.findall(plan.text)[0].split(", ")[1:] if page]
    if not to_read:
        return AIMessage(f"{question} Defined at: {notes}.")
    path, _, line = to_read[0].partition("@")
    text = f"I read {path} from line {line}.\nNotes: {notes}\nStill to read: {', '.join(to_read)}"
    return _step(sent, text, "read", path=path, start=int(line))


def _question(sent: Sequence[BaseMessage]) -> str:
    """The newest question in the request; a summary in front of it may hold earlier ones."""
    text = next(message.text for message in reversed(sent) if isinstance(message, HumanMessage))
    return max([*QUESTIONS, LAST_QUESTION], key=text.rfind)


def _look_back(sent: Sequence[BaseMessage]) -> AIMessage:
    """The beginning is in the request, or it is looked up with the memory's `recall`."""
    first = next(message for message in sent if isinstance(message, HumanMessage))
    if first.text in QUESTIONS:
        return AIMessage(f"You asked: {first.text}")
    if isinstance(sent[-1], ToolMessage):
        found = [question for question in QUESTIONS if question in sent[-1].text]
        return AIMessage(f"You asked: {min(found, key=sent[-1].text.find)}" if found else "I cannot find it.")
    return _step(sent, "That was long ago; I look it up.", "recall", ref="history", pattern=r"\?$", limit=600)


def _step(sent: Sequence[BaseMessage], text: str, name: str, **args: object) -> AIMessage:
    number = sum(isinstance(message, AIMessage) for message in sent)
    # After a compaction the request is short again, so its length alone would give two calls the same id.
    digest = blake2b("\n".join(message.text for message in sent[-3:]).encode(), digest_size=4).hexdigest()
    return AIMessage(text, tool_calls=[{"name": name, "args": args, "id": f"call-{digest}-{number}"}])


# A cashier: adds up what was spent

_SPENT = re.compile(r"^(.+?) for (\d+)\b")


def add_up(sent: Sequence[BaseMessage]) -> str:
    """The sum of what people in the request said they had bought."""
    spent = [match for message in sent if message.type == "human" and (match := _SPENT.match(message.text))]
    total = sum(int(match[2]) for match in spent)
    if sent[-1].text.endswith("?"):
        return f"{total} in all: " + ", ".join(f"{match[1]} ({match[2]})" for match in spent) + "."
    return f"Noted, {total} so far."


# A colleague: says what the memory says


def remember(sent: Sequence[BaseMessage]) -> str:
    """The line of the memory that shares most words with the question."""
    request = sent[-1].text.strip().splitlines()[-1]
    if not request.endswith("?"):
        return "All right."
    memory = "\n".join(message.text for message in sent if "<curated_memory" in message.text)
    lines = [line.removeprefix("- ") for line in memory.splitlines() if line.startswith("- ")]
    best = max(lines, key=lambda line: len(_words(line) & _words(request)), default="")
    return f"You told me: {best}" if _words(best) & _words(request) else "You have not told me."


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.lower()) if len(word) > 3}


# A watchman: reads a log and counts what is wrong


def watch_log(sent: Sequence[BaseMessage]) -> AIMessage:
    """Read the log of the day that is asked about; where only a part of it is shown, look for errors in the rest."""
    last = sent[-1]
    if isinstance(last, ToolMessage):
        if spilled := re.search(r'recall\("(spill:\w+)"\)', last.text):
            return _step(sent, "The rest is in a file.", "recall", ref=spilled[1], pattern="ERROR")
        errors = re.findall(r"ERROR (.*)", last.text)
        return AIMessage(f"{len(errors)} found: {'; '.join(errors)}." if errors else "No errors.")
    days = re.findall(r"\b(Monday|Tuesday|Wednesday|Thursday|Friday)\b", last.text)
    if not days:
        return AIMessage("Ask me about a day of the week.")
    return _step(sent, f"I read the log of {days[-1]}.", "read_log", day=days[-1])
