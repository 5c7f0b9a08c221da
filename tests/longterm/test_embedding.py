"""Vectors beside the words: bought once, thrown away when the model changes, gone when their text is."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from langchain_core.embeddings import Embeddings

from langgraph_memory.errors import LangGraphMemoryError
from langgraph_memory.longterm.embedding import Vectors
from langgraph_memory.longterm.entry import Entry
from langgraph_memory.longterm.index import Index, Row, Stamp

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
STAMP = Stamp(0, 0, None)
MEANINGS = ({"tea", "cuppa", "茶"}, {"car", "vehicle"}, {"snow", "blizzard"})


class Meanings(Embeddings):
    """Knows three meanings, and counts what it is asked."""

    def __init__(self, size: int = 4) -> None:
        self.size = size
        self.asked: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.asked += texts
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        found = [float(bool(words & set(text.split()))) for words in MEANINGS]
        return (found + [0.0] * self.size)[: self.size]


class Broken(Meanings):
    def embed_query(self, text: str) -> list[float]:
        raise ConnectionError("no network")


@pytest.fixture(autouse=True)
def _numpy() -> None:
    pytest.importorskip("numpy")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    index = Index(tmp_path / "index.db")
    yield index
    index.close()


def keep(index: Index, path: str, *texts: str, time: datetime = NOW) -> None:
    with index.writing() as db:
        index.replace(db, path, [Row(path, n, Entry(text, f"{path}{n}", time)) for n, text in enumerate(texts)], STAMP)


def found(index: Index, query: str, vectors: Vectors) -> list[str]:
    return [hit.text for hit in index.search(query, 5, now=NOW, vectors=vectors)]


def test_what_means_the_same_is_found(index: Index) -> None:
    keep(index, "a", "she likes tea", "an old car")
    assert found(index, "cuppa", Vectors(Meanings(), "m")) == ["she likes tea"]
    assert index.search("cuppa", 5, now=NOW) == []


def test_words_and_meaning_together_come_first(index: Index) -> None:
    keep(index, "a", "cuppa", "x", "y", "tea", "z", "kettle")
    assert found(index, "tea kettle", Vectors(Meanings(), "m"))[0] == "tea"


def test_a_text_is_embedded_once_wherever_it_stands(index: Index) -> None:
    model = Meanings()
    vectors = Vectors(model, "m")
    keep(index, "a", "tea", "car")
    keep(index, "b", "Tea.", "snow")
    assert vectors.update(index) == 3
    keep(index, "a", "new", "tea", "car")
    found(index, "cuppa", vectors)
    assert sorted(text.lower().rstrip(".") for text in model.asked) == ["car", "new", "snow", "tea"]
    assert Vectors(model, "m").update(index) == 0


@pytest.mark.parametrize(("name", "size"), [("other", 4), ("m", 7), ("other", 3)])
def test_another_model_embeds_anew(index: Index, name: str, size: int) -> None:
    keep(index, "a", "tea", "car")
    assert found(index, "cuppa", Vectors(Meanings(), "m")) == ["tea"]
    model = Meanings(size)
    assert found(index, "cuppa", Vectors(model, name)) == ["tea"]
    assert sorted(model.asked) == ["car", "tea"]


def test_what_others_wrote_meanwhile_is_found(index: Index) -> None:
    vectors = Vectors(Meanings(), "m")
    keep(index, "a", "car")
    assert found(index, "cuppa", vectors) == []
    keep(index, "b", "tea")
    assert found(index, "cuppa", vectors) == ["tea"]
    keep(index, "b", "snow")
    assert found(index, "cuppa", vectors) == []


def test_of_what_is_forgotten_no_vector_stays(index: Index) -> None:
    vectors = Vectors(Meanings(), "m")
    keep(index, "a", "tea", "car")
    vectors.update(index)
    keep(index, "a", "car")
    index.forget()
    with index.reading() as db:
        assert db.execute("SELECT count(*) FROM vectors").fetchone() == (1,)
    assert found(index, "vehicle", vectors) == ["car"]


def test_many_texts_are_embedded_in_batches(index: Index) -> None:
    keep(index, "a", *(f"tea {number}" for number in range(250)))
    assert Vectors(Meanings(), "m").update(index) == 250


def test_age_counts_here_too(index: Index) -> None:
    keep(index, "a", "tea leaves", time=NOW - timedelta(days=9))
    keep(index, "b", "cuppa please")
    assert found(index, "茶", Vectors(Meanings(), "m")) == ["cuppa please", "tea leaves"]


@pytest.mark.parametrize("query", ["", "  ", "\0 ", "\ud800"])
def test_any_query_is_safe(index: Index, query: str) -> None:
    keep(index, "a", "tea")
    assert found(index, query, Vectors(Meanings(), "m")) == []


def test_a_model_that_fails_leaves_the_words(index: Index, caplog: pytest.LogCaptureFixture) -> None:
    keep(index, "a", "tea")
    assert found(index, "tea", Vectors(Broken(), "m")) == ["tea"]
    assert "the embeddings failed: " in caplog.text
    assert "no network" not in caplog.text


def test_without_numpy_it_says_what_to_install(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(LangGraphMemoryError, match=r"\[embeddings\]"):
        Vectors(Meanings(), "m").update(index)
