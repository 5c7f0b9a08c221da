"""What outlives a thread: what a search finds, and what happens to memories when something else goes wrong.

SQLite's FTS5 stands for how memories are mostly searched, each word of the question quoted and joined by OR; the best
of its tokenizers counts. langmem's tools search by the embeddings that one brings, so only what they store is
looked at.
"""

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage

from tests.support.models import Scripted
from tests.support.remembering import FLUSH, MERGE, Home, asked_for, meddling, noting

from .. import beside
from ..retrieval import matching
from .agents import LANGMEM, prose
from .outcome import OURS, Outcome, judged, scenario

GROUP = "long-term"
FTS5 = "SQLite FTS5"
TOKENIZERS = ("porter unicode61", "unicode61", "trigram")
NO_MERGE: dict[str, Any] = {"consolidation.enabled": False}
MANY = [f"The {place} of pier {number} was painted." for number in range(20) for place in ("gate", "rail", "lamp")]
FLUSH_SECONDS = 30.0


async def found(contender: str, folder: Path, facts: Sequence[str], queries: Sequence[str]) -> list[list[str]]:
    """What a search finds for each query among `facts` and many others, by the better of what there is."""
    facts = [*MANY, *facts]
    if contender == OURS:
        workspace = Home(folder).workspace()
        await workspace.append(facts)
        return [[hit.text for hit in await workspace.search(query)] for query in queries]
    return [_fts5(contender, facts, query) for query in queries]


def _fts5(tokenizer: str, facts: Sequence[str], query: str) -> list[str]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute(f"CREATE VIRTUAL TABLE facts USING fts5 (text, tokenize='{tokenizer}')")
        db.executemany("INSERT INTO facts VALUES (?)", [(fact,) for fact in facts])
        words = matching(query)
        select = "SELECT text FROM facts WHERE facts MATCH ? ORDER BY rank LIMIT 10"
        return [row[0] for row in db.execute(select, (words,))] if words else []


async def best(contender: str, folder: Path, facts: Sequence[str], expected: dict[str, tuple[str, bool]]) -> Outcome:
    """Whether each query finds, or does not find, a fact; for FTS5 with the tokenizer that is best at it."""
    tried = []
    for name in TOKENIZERS if contender == FTS5 else (OURS,):
        hits = await found(name, folder, facts, list(expected))
        right = [(fact in texts) is wanted for texts, (fact, wanted) in zip(hits, expected.values(), strict=True)]
        wrong = [query for query, good in zip(expected, right, strict=True) if not good]
        tried.append((sum(right), "" if contender == OURS else f" with {name}", wrong))
    number, how, wrong = max(tried, key=lambda each: each[0])
    told = f"; wrong: {', '.join(wrong[:3])}" if wrong else ""
    return judged(number == len(expected), f"{number} of {len(expected)}{how}{told}")


@scenario(
    "24",
    GROUP,
    "“dark mode preference” finds “prefers dark mode”, whatever the order and form of words",
    (FTS5, OURS),
    ("AgentScope",),
)
async def reordered(contender: str, folder: Path) -> Outcome:
    facts = ["Ada prefers dark mode.", "The invoices were sent to Brno."]
    expected = {"dark mode preference": (facts[0], True), "sending an invoice": (facts[1], True)}
    return await best(contender, folder, facts, expected)


@scenario(
    "25",
    GROUP,
    "Two-character Chinese words, whole words (java, javascript), ids with hyphens, and queries that are syntax",
    (FTS5, OURS),
    ("PaiCLI",),
)
async def awkward(contender: str, folder: Path) -> Outcome:
    facts = ["订单 TK-204 在周三发货", "we write javascript", 'NEAR the pier a* is "quoted"']
    expected = {
        "周三": (facts[0], True),
        "发货": (facts[0], True),
        "TK-204": (facts[0], True),
        "java": (facts[1], False),
        "NEAR(": (facts[2], True),
        '"quoted': (facts[2], True),
        "'; drop --": (facts[2], False),
    }
    return await best(contender, folder, facts, expected)


@scenario(
    "26", GROUP, "A torn MEMORY.md, then a save: what it held is kept aside, what is new is kept", (OURS,), ("PaiCLI",)
)
async def torn(contender: str, folder: Path) -> Outcome:
    home = Home(folder)
    held = b"- tea \xe8\x8c"
    await asyncio.to_thread(_write, home.notes, held)
    await home.say("I like jazz")
    aside = held in [path.read_bytes() for path in home.notes.parent.glob("*damaged*")]
    saved = "I like jazz" in home.notes.read_text(encoding="utf-8")
    return judged(aside and saved, "kept aside" if aside else "lost")


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(data)


@scenario("27", GROUP, "Entries and edits made while the merge waits for its model are kept", (OURS,), ("AgentScope",))
async def merged(contender: str, folder: Path) -> Outcome:
    home, other = Home(folder), Home(folder, NO_MERGE)
    said: list[Any] = []
    home.side.replies = meddling(home, other, said)
    await home.say("I like jazz")
    await home.say("and chess")
    text = home.notes.read_text(encoding="utf-8")
    kept = sum(one in text for one in ("by hand", "I like jazz", "Meanwhile I moved to Riga", "and chess"))
    return judged(said and kept == 4, f"{kept} of 4 kept")


BAD_MERGES = ("", "I'm sorry, but I can't help with that.", "Sure! I have merged everything for you.", "NO_REPLY")


@scenario("28", GROUP, "An empty, refusing or chatty answer to the merge changes nothing", (OURS,), ("AgentScope",))
async def bad_merge(contender: str, folder: Path) -> Outcome:
    refused = 0
    for number, bad in enumerate(BAD_MERGES):
        side = Scripted(replies=lambda messages, bad=bad: bad if asked_for(messages) == MERGE else noting(messages))
        home = Home(folder / str(number), side=side)
        before = "".join(f"- kept fact {fact}\n" for fact in range(10)).encode()
        await asyncio.to_thread(_write, home.notes, before)
        await home.say("I like jazz")
        refused += bool(home.asked(MERGE)) and home.notes.read_bytes() == before
    return judged(refused == len(BAD_MERGES), f"{refused} of {len(BAD_MERGES)} refused")


@scenario(
    "29",
    GROUP,
    f"A flush of {FLUSH_SECONDS:g} s at the end of a turn: the next turn's stream ends before it",
    (OURS,),
    ("AgentScope",),
)
async def unhurried(contender: str, folder: Path) -> Outcome:
    timed = await asyncio.to_thread(beside.measure, 2, 1, FLUSH_SECONDS)
    return judged(timed.under_way == timed.rounds, f"{timed.under_way} of {timed.rounds} ended first")


@scenario(
    "30", GROUP, "Text that is flushed before a summary covers it is not extracted again", (OURS,), ("AgentScope",)
)
async def once(contender: str, folder: Path) -> Outcome:
    side = Scripted(replies=lambda messages: "NO_REPLY" if asked_for(messages) == FLUSH else noting(messages))
    home = Home(folder, {"context_window": 6_000, **NO_MERGE}, side=side)
    facts = [HumanMessage(prose(f"fact{number}x", 500), id=f"i-{number}") for number in range(60)]
    answers = [AIMessage("noted", id=f"a-{number}") for number in range(60)]
    imported = [message for pair in zip(facts, answers, strict=True) for message in pair]
    await home.say([*imported, HumanMessage("go on", id="go")])
    await home.say("and on")
    reasons = sorted(event.reason or "" for event in home.named("memory_flushed"))
    shown = [text.rpartition("<messages>")[2] for text in home.asked(FLUSH)]
    times = [sum(f"fact{number}x" in text for text in shown) for number in range(60)]
    figure = "each once" if set(times) == {1} else f"each {min(times)} to {max(times)} times"
    return judged("compaction" in reasons and set(times) == {1}, figure)


FACTS = {"我住在杭州,我的猫叫小雪。": "小雪", "Моего брата зовут Олег, он живёт в Омске.": "брат Олег"}


@scenario(
    "31",
    GROUP,
    "Chinese and Russian facts are stored and found",
    (LANGMEM, OURS),
    ("langgraph-memory (PyPI)",),
)
async def languages(contender: str, folder: Path) -> Outcome:
    if contender == LANGMEM:
        return await _langmem()
    home = Home(folder, NO_MERGE)
    for fact in FACTS:
        await home.say(fact)
    hits = [[hit.text for hit in await home.workspace().search(query)] for query in FACTS.values()]
    right = sum(fact in texts for fact, texts in zip(FACTS, hits, strict=True))
    return judged(right == len(FACTS), f"{right} of {len(FACTS)}")


async def _langmem() -> Outcome:
    from langgraph.store.memory import InMemoryStore
    from langmem import create_manage_memory_tool  # type: ignore[import-untyped, unused-ignore]

    store = InMemoryStore()
    tool = create_manage_memory_tool(namespace=("ada",), store=store)
    for fact in FACTS:
        await tool.ainvoke({"content": fact, "action": "create"})
    kept = [str(item.value) for item in await store.asearch(("ada",))]
    right = sum(any(fact in text for text in kept) for fact in FACTS)
    return judged(right == len(FACTS), f"{right} of {len(FACTS)} stored")
