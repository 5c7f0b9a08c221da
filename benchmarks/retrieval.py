"""What a search of the long-term memory finds, and how fast: `python -m benchmarks retrieval`.

Three sets of conversations, each turn an entry, appended in order under its day, and asked by `Index.search`, which is
what users get. What counts is *recall@10*: the share of the turns with the answer (evidence) that are among the first
ten hits, averaged over the questions. All contenders get the same texts, without the names of speakers.

- **LoCoMo**: the questions of its categories 1 to 4, whose evidence its authors marked. One index a conversation.
- **CrossWOZ** (Chinese): wizards tell travellers what they looked up. For each value of five characters or more (an
  address, a telephone number, opening hours) that a tool result gives for a place, and that the wizard then says word
  for word, the question is made `PLACE的SLOT是什么？`; the evidence is each turn in which the wizard does. One index
  for all: a place is talked of in several conversations.
- **MemoryBank** (Chinese): for each book or film in 《》 a question is made that names it (see `TITLE_ASKED`); its own
  probing questions that name one are taken as they are. The evidence is every turn that names it. One index for all.

The weights of our ranking are round numbers that were chosen while looking at both halves of the LoCoMo conversations
(those with an even and with an odd place in the file), and lie on a plateau in each; both are told. Nothing was fitted
to questions, but only conversations that nobody looked at say what the weights are worth elsewhere.

Speed is measured on sentences of the recordings, repeated with variations, beside plain FTS5 with the same words in one
`OR` query, over the same rows, and a scan in Python. They take turns, so that whatever else the machine does slows them
alike.
"""

import json
import random
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Protocol
from zlib import crc32

from langchain_core.embeddings import Embeddings

from langgraph_memory.longterm.embedding import Vectors
from langgraph_memory.longterm.entry import Entry
from langgraph_memory.longterm.index import Index, Row, Stamp
from langgraph_memory.longterm.stop_words import ENGLISH
from langgraph_memory.search_text import fold

from .recordings import records

FIRST = 10
ENTRIES = 100_000
QUERIES = 100
SCANS = 5
ANSWERABLE = (1, 2, 3, 4)
"""Categories of LoCoMo; the fifth has questions that nobody can answer."""
VALUE_CHARS = 5
TITLE = re.compile("《([^》]+)》")
TITLE_ASKED = "还记得我们聊过的《{}》吗？都说了些什么？"
WORD = re.compile(r"\w+")
STAMP = Stamp(0, 0, None)


@dataclass(frozen=True)
class Question:
    text: str
    evidence: frozenset[int]
    half: int = 0


@dataclass(frozen=True)
class Memory:
    """What is searched: turns with their times, in order."""

    turns: list[str]
    times: list[datetime]
    questions: list[Question]


# Sets


def locomo(given: Sequence[dict[str, Any]]) -> list[Memory]:
    return [_locomo(record, place % 2) for place, record in enumerate(given)]


def _locomo(record: dict[str, Any], half: int) -> Memory:
    places = {name: place for place, name in enumerate(record["turn_ids"])}
    questions = [
        Question(asked["question"], frozenset(evidence), half)
        for asked in record["qa"]
        if asked["category"] in ANSWERABLE
        and (evidence := [places[name] for name in asked["evidence"] if name in places])
    ]
    times = [datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC) for text in record["turn_times"]]
    return Memory([message["content"] for message in record["messages"]], times, questions)


def crosswoz(given: Sequence[dict[str, Any]]) -> list[Memory]:
    turns: list[str] = []
    times: list[datetime] = []
    questions: dict[str, set[int]] = {}
    for day, record in enumerate(given):
        told: list[tuple[str, str, str]] = []
        for message in record["messages"]:
            if message["role"] == "tool":
                told += _told(message)
            elif text := message["content"]:
                for place, slot, value in told if message["role"] == "assistant" else ():
                    if value in text:
                        questions.setdefault(f"{place}的{slot}是什么？", set()).add(len(turns))
                turns.append(text)
                times.append(_day(day))
    return [Memory(turns, times, [Question(text, frozenset(evidence)) for text, evidence in questions.items()])]


def _told(message: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Place, slot and value of what a tool told."""
    for row in json.loads(message["content"])["results"]:
        if isinstance(row, dict):
            yield from (
                (row["名称"], slot, value)
                for slot, value in row.items()
                if slot != "名称" and isinstance(value, str) and len(value) >= VALUE_CHARS
            )


def memorybank(given: Sequence[dict[str, Any]]) -> list[Memory]:
    chinese = [record for record in given if record["lang"] == "zh"]
    turns = [message["content"] for record in chinese for message in record["messages"]]
    times = [datetime.fromisoformat(time).replace(tzinfo=UTC) for record in chinese for time in record["turn_times"]]
    asked = {f"还记得我们聊过的《{title}》吗？都说了些什么？": title for turn in turns for title in TITLE.findall(turn)}
    probes = [probe["question"] for record in chinese for probe in record["qa"]]
    asked |= {probe: title for probe in probes for title in TITLE.findall(probe)}
    evidence = {title: frozenset(p for p, turn in enumerate(turns) if title in turn) for title in asked.values()}
    return [Memory(turns, times, [Question(text, evidence[title]) for text, title in asked.items() if evidence[title]])]


def _day(number: int) -> datetime:
    return datetime(2026, 1, 1, 12, tzinfo=UTC) + timedelta(days=number)


# Contenders


class Contender(Protocol):
    """Finds the places of turns."""

    def __init__(self, folder: Path, memory: Memory) -> None: ...

    def find(self, question: str) -> list[int]: ...


class Ours:
    def __init__(self, folder: Path, memory: Memory) -> None:
        self.index = Index(folder / "index.db")
        with self.index.writing() as db:
            for path, rows in filed(memory.turns, memory.times):
                self.index.extend(db, path, rows, STAMP)

    def find(self, question: str) -> list[int]:
        return [int(hit.id) for hit in self.index.search(question, FIRST, now=datetime.now(UTC))]


class HashedGrams(Embeddings):
    """Vectors without a model: counts of the three to five letters of words, by hash.

    They know no meaning, and are fused at equal rank: this shows what embeddings that are worse than the words cost.
    """

    SIZE = 1024

    def embed_query(self, text: str) -> list[float]:
        vector = [0.0] * self.SIZE
        kept = [word for word in WORD.findall(fold(text)) if word not in ENGLISH]
        for word in kept:
            padded = f"<{word}>"
            for size in (3, 4, 5):
                for at in range(len(padded) - size + 1):
                    vector[crc32(padded[at : at + size].encode()) % self.SIZE] += 1.0
        return vector

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


class OursWithVectors(Ours):
    def __init__(self, folder: Path, memory: Memory) -> None:
        import numpy  # noqa: F401 - an extra that may be missing

        super().__init__(folder, memory)
        self._vectors = Vectors(HashedGrams(), "hashed")

    def find(self, question: str) -> list[int]:
        hits = self.index.search(question, FIRST, now=datetime.now(UTC), vectors=self._vectors)
        return [int(hit.id) for hit in hits]


def filed(turns: Sequence[str], times: Sequence[datetime], first: int = 0) -> Iterator[tuple[str, list[Row]]]:
    """The turns as rows of a file a day; the id of each is its place."""
    entries = [
        Entry(text, str(place), time) for place, (text, time) in enumerate(zip(turns, times, strict=True), first)
    ]
    for day, of_day in groupby(entries, key=lambda entry: entry.timestamp.date()):
        path = f"memory/{day}.md"
        yield path, [Row(path, line, entry) for line, entry in enumerate(of_day, 1)]


class Fts5:
    """SQLite's full-text search as it is mostly used: each word quoted, `OR` between them, ordered by rank."""

    tokenizer = "porter unicode61"
    stop_words: frozenset[str] = frozenset()

    def __init__(self, folder: Path, memory: Memory) -> None:
        self._db = sqlite3.connect(":memory:")
        self._db.execute(f"CREATE VIRTUAL TABLE turns USING fts5 (text, tokenize='{self.tokenizer}')")
        self._db.executemany("INSERT INTO turns (rowid, text) VALUES (?, ?)", enumerate(memory.turns))

    def find(self, question: str) -> list[int]:
        query = matching(question, self.stop_words)
        if not query:
            return []
        rows = self._db.execute("SELECT rowid FROM turns WHERE turns MATCH ? ORDER BY rank LIMIT ?", (query, FIRST))
        return [row[0] for row in rows]


def matching(question: str, stop_words: frozenset[str] = ENGLISH) -> str:
    words = WORD.findall(question.lower())
    kept = [word for word in words if word not in stop_words] or words
    return " OR ".join(f'"{word}"' for word in dict.fromkeys(kept))


class Fts5WithoutStopWords(Fts5):
    stop_words = ENGLISH


class Fts5Unicode(Fts5):
    tokenizer = "unicode61"


class Fts5Trigram(Fts5):
    tokenizer = "trigram"


class Fts5TrigramParts(Fts5Trigram):
    """Given every three characters of the question."""

    def find(self, question: str) -> list[int]:
        runs = WORD.findall(question)
        return super().find(" ".join(run[at : at + 3] for run in runs for at in range(len(run) - 2)))


class Substring:
    """The whole question, as it stands, somewhere in the text."""

    def __init__(self, folder: Path, memory: Memory) -> None:
        self._turns = [fold(turn) for turn in memory.turns]

    def find(self, question: str) -> list[int]:
        folded = fold(question)
        return [place for place, turn in enumerate(self._turns) if folded in turn][:FIRST]


class Bm25s:
    """The package bm25s, with its English stop words and the stems of PyStemmer, as its guide has it."""

    def __init__(self, folder: Path, memory: Memory) -> None:
        import bm25s
        import Stemmer

        self._words = {"stopwords": "en", "stemmer": Stemmer.Stemmer("english"), "show_progress": False}
        self._cut, self._found = bm25s.tokenize, bm25s.BM25()
        self._found.index(self._cut(memory.turns, **self._words), show_progress=False)
        self._most = min(FIRST, len(memory.turns))

    def find(self, question: str) -> list[int]:
        found, _ = self._found.retrieve(self._cut([question], **self._words), k=self._most, show_progress=False)
        return [int(place) for place in found[0]]


SETS: dict[str, tuple[str, Callable[..., list[Memory]], dict[str, type[Contender]]]] = {
    "LoCoMo": (
        "locomo",
        locomo,
        {
            "substring": Substring,
            "bm25s": Bm25s,
            "FTS5 porter": Fts5,
            "FTS5 porter, no stop words": Fts5WithoutStopWords,
            "ours": Ours,
            "ours, hashed embeddings": OursWithVectors,
        },
    ),
    "CrossWOZ": (
        "crosswoz_zh",
        crosswoz,
        {
            "substring": Substring,
            "FTS5 unicode61": Fts5Unicode,
            "FTS5 trigram": Fts5Trigram,
            "FTS5 trigram, parts": Fts5TrigramParts,
            "ours": Ours,
        },
    ),
}
SETS["MemoryBank"] = ("memorybank", memorybank, SETS["CrossWOZ"][2])


# Measuring


@dataclass(frozen=True)
class Recall:
    name: str
    recall: float | None
    """None where the package is not installed."""
    halves: list[float]
    """Of the conversations with an even and with an odd place, where there are several."""


@dataclass(frozen=True)
class Found:
    name: str
    turns: int
    questions: int
    rows: list[Recall]


@dataclass(frozen=True)
class Pace:
    """Milliseconds of a search."""

    name: str
    median: float
    p99: float
    of_plain: float
    megabytes: float | None
    seconds: float | None
    """To index all."""


@dataclass(frozen=True)
class Speed:
    entries: int
    rows: list[Pace]
    extends: dict[int, float]
    """Milliseconds to append five entries to so many."""


def recall(name: str, data: Path | None = None) -> Found:
    """What each contender finds in one of `SETS`."""
    recording, made, contenders = SETS[name]
    memories = made(records(data, recording))
    rows = [_recall(title, contender, memories) for title, contender in contenders.items()]
    return Found(
        name,
        sum(len(memory.turns) for memory in memories),
        sum(len(memory.questions) for memory in memories),
        rows,
    )


def _recall(title: str, contender: type[Contender], memories: list[Memory]) -> Recall:
    shares: dict[int, list[float]] = {}
    for memory in memories:
        with TemporaryDirectory() as folder:
            try:
                ready = contender(Path(folder), memory)
            except ImportError:
                return Recall(title, None, [])
            for question in memory.questions:
                found = question.evidence.intersection(ready.find(question.text)[:FIRST])
                shares.setdefault(question.half, []).append(len(found) / len(question.evidence))
            if isinstance(ready, Ours):
                ready.index.close()
    halves = [mean(shares[half]) for half in sorted(shares)] if len(shares) > 1 else []
    return Recall(title, mean(share for several in shares.values() for share in several), halves)


def speed(data: Path | None = None, entries: int = ENTRIES, queries: int = QUERIES) -> Speed:
    """How long a search in so many entries takes, and to write them."""
    chance = random.Random(7)
    memories = locomo(records(data, "locomo"))
    texts = _varied([turn for memory in memories for turn in memory.turns], entries, chance)
    questions = [question.text for memory in memories for question in memory.questions]
    with TemporaryDirectory() as folder:
        return _raced(Path(folder), texts, chance.sample(questions, min(queries, len(questions))))


def _varied(turns: Sequence[str], number: int, chance: random.Random) -> list[str]:
    sentences = sorted({text for turn in turns for text in re.split(r"(?<=[.!?])\s+", turn) if len(text) > 20})
    return [f"{chance.choice(sentences)} {chance.choice(sentences)[:60]} #{place}" for place in range(number)]


def _raced(folder: Path, texts: list[str], questions: list[str]) -> Speed:
    times = [_day(place * 365 // len(texts)) for place in range(len(texts))]
    started = perf_counter()
    index = Ours(folder, Memory(texts, times, [])).index
    ours = perf_counter() - started
    with closing(sqlite3.connect(folder / "plain.db")) as plain:
        started = perf_counter()
        plain.execute("CREATE VIRTUAL TABLE turns USING fts5 (text, tokenize='porter unicode61')")
        with plain:
            plain.executemany("INSERT INTO turns (rowid, text) VALUES (?, ?)", enumerate(texts))
        seconds = perf_counter() - started
        found = _timed(questions, index, plain, texts)
    middle = median(found["FTS5 porter"])
    size = {"ours": _megabytes(folder / "index.db"), "FTS5 porter": _megabytes(folder / "plain.db")}
    spent = {"ours": ours, "FTS5 porter": seconds}
    rows = [
        Pace(
            name,
            median(each),
            sorted(each)[len(each) * 99 // 100],
            median(each) / middle,
            size.get(name),
            spent.get(name),
        )
        for name, each in found.items()
    ]
    extends = {len(texts): _extending(index)}
    index.close()
    few = Ours(_made(folder / "few"), Memory(texts[:100], times[:100], [])).index
    extends = {100: _extending(few)} | extends
    few.close()
    return Speed(len(texts), rows, extends)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _timed(questions: list[str], index: Index, plain: sqlite3.Connection, texts: list[str]) -> dict[str, list[float]]:
    now = _day(400)
    select = "SELECT text FROM turns WHERE turns MATCH ? ORDER BY rank LIMIT ?"
    contenders: dict[str, Callable[[str], Any]] = {
        "FTS5 porter": lambda question: plain.execute(select, (matching(question), FIRST)).fetchall(),
        "ours": lambda question: index.search(question, FIRST, now=now),
    }
    taken: dict[str, list[float]] = {name: [] for name in (*contenders, "Python scan")}
    for place, question in enumerate(questions):
        for name, find in contenders.items():
            taken[name].append(_milliseconds(find, question))
        if place < SCANS:
            taken["Python scan"].append(_milliseconds(lambda asked: _scanned(texts, asked), question))
    return taken


def _scanned(texts: list[str], question: str) -> list[str]:
    words = [word for word in WORD.findall(question.lower()) if word not in ENGLISH]
    return sorted(texts, key=lambda text: -sum(word in text.lower() for word in words))[:FIRST]


def _extending(index: Index) -> float:
    """Milliseconds to append five entries in one transaction."""
    taken = []
    for turn in range(20):
        texts = [f"What was said in turn {turn} about subject {number}." for number in range(5)]
        ((path, rows),) = filed(texts, [_day(364)] * 5)

        def append(path: str = path, rows: list[Row] = rows) -> None:
            with index.writing() as db:
                index.extend(db, path, rows, STAMP)

        taken.append(_milliseconds(append))
    return median(taken)


def _milliseconds(call: Callable[..., Any], *given: Any) -> float:
    started = perf_counter()
    call(*given)
    return (perf_counter() - started) * 1000


def _megabytes(path: Path) -> float:
    with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.stat().st_size / 1e6


# Printing


def recall_lines(found: Found) -> Iterator[str]:
    yield f"{found.name}: {found.turns:,} turns, {found.questions:,} questions, recall@{FIRST}"
    for row in found.rows:
        if row.recall is None:
            yield f"  {row.name:28}not installed"
        else:
            halves = "".join(f"{half:10.3f}" for half in row.halves)
            yield f"  {row.name:28}{row.recall:8.3f}{halves and f'   halves{halves}'}"


def speed_lines(result: Speed) -> Iterator[str]:
    yield f"{result.entries:,} entries: milliseconds of a search"
    yield f"  {'':28}{'median':>10}{'p99':>10}{'of plain':>10}{'MB':>10}{'s to index':>12}"
    for row in result.rows:
        size, seconds = (f"{value:.1f}" if value else "-" for value in (row.megabytes, row.seconds))
        yield f"  {row.name:28}{row.median:10.2f}{row.p99:10.2f}{row.of_plain:10.2f}{size:>10}{seconds:>12}"
    yield "append 5 entries: " + ", ".join(f"{ms:.2f} ms to {size:,}" for size, ms in result.extends.items())


def to_json(found: Sequence[Found], pace: Speed | None) -> dict[str, Any]:
    return {"recall": [asdict(each) for each in found], "speed": asdict(pace) if pace else None}
