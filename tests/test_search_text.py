"""Words for full-text search: what a text is found by, in any script, and that no text is query syntax."""

import sqlite3
import string
import unicodedata
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_memory.search_text import LONGEST, TOKENIZE, Query, distinct_words, fold, words


@pytest.fixture(scope="module")
def db() -> Iterator[sqlite3.Connection]:
    with sqlite3.connect(":memory:") as db:
        db.execute(f'CREATE VIRTUAL TABLE texts USING fts5 (words, tokenize="{TOKENIZE}")')
        yield db
    db.close()


def finds(db: sqlite3.Connection, query: str, text: str) -> bool:
    """Whether a query finds a text, by the index and then by the text."""
    db.execute("DELETE FROM texts")
    db.execute("INSERT INTO texts VALUES (?)", (distinct_words(text),))
    asked = Query.of(query)
    if not asked:
        return False
    hit = db.execute("SELECT 1 FROM texts WHERE texts MATCH ?", (asked.match(),)).fetchone() is not None
    holds = asked.holds(text) == len(asked.terms)
    assert hit or not holds, "the index misses what the text holds"
    assert hit == holds or not asked.exact, "an exact query has to be checked"
    return hit and holds


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("tk-204", "订单 TK-204 shipped"),
        ("TK 204", "订单 TK-204 shipped"),
        ("TK-204", "about tk_204, done"),
        ("204", "订单 TK-204 shipped"),
        ("don't", "they DON’T know"),
        ('"half', "half of it"),
        ("'; drop", "drop table"),
        ("20.04", "Ubuntu 20.04."),
        ("C++", "in C++, or C#"),
        ("c#", "in C++, or C#"),
        ("100%", "it is 100 % sure"),
        ("a/b", "paths a/b and c"),
        ("main.py", "see src/app/main.py:12"),
        ("src/app", "see src/app/main.py:12"),
        ("__init__", "def __init__(self):"),
        ("user_name", "the user_name field"),
        ("name", "the user_name field"),
        ("ada@example.com", "mail ada@example.com!"),
        ("部署", "部署方案在周三确定"),
        ("方案", "部署方案在周三确定"),
        ("周", "部署方案在周三确定"),
        ("定", "部署方案在周三确定"),
        ("部署方案", "部署方案在周三确定"),
        ("周三 部署", "部署方案在周三确定"),
        ("tide", "重跑tide表后发现3处"),
        ("3处", "重跑tide表后发现3处"),
        ("重跑", "重跑tide表后发现3处"),
        ("跑tide表", "重跑tide表后发现3处"),
        ("東京", "私は東京に行きました"),
        ("カタカナ", "ｶﾀｶﾅの文"),
        ("한국", "한국어는 재미있다"),
        ("ไทย", "ภาษาไทยง่าย"),
        ("creme brulee", "Crème BRÛLÉE"),
        ("STRASSE", "die Straße"),
        ("istanbul", "İSTANBUL'da"),
        ("елка", "Ёлка в лесу"),
        ("Αθηνα", "στην Αθήνα"),
        ("محمد", "قال مُحَمَّد"),
        ("שלום", "שָׁלוֹם"),
        ("ｗｉｄｅ", "wide"),
        ("हिन्दी", "यह हिन्दी है"),
        ("x", "x"),
        ("x" * 100, "x" * 100),
        ("😀 smile", "a smile 😀"),
        ("😀", "so😀glad"),
        ("status 🔴", "status 🔴 B"),
        ("🔴", "码头🔴关闭"),
        ("❤", "with ❤️"),
        ("❤️", "with ❤"),
        ("👍", "well done 👍🏽"),
        ("👩\u200d💻", "a 👩\u200d💻 at work"),
        ("→", "A → B"),
        ("Gesamtkonzept", "Das Gesamt\u00adkonzept steht."),
        ("Gesamt\u00adkonzept", "Das Gesamtkonzept steht."),
        ("zerowidth", "zero\u200bwidth joined"),
        ("joined", "word\u2060 joi\ufeffned"),
        ("cafe", "cafe\u200b\u0301"),
    ],
)
def test_a_text_is_found_by(db: sqlite3.Connection, query: str, text: str) -> None:
    assert finds(db, query, text)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("java", "javascript"),
        ("20.04", "20 apples and 04 pears"),
        ("部署方案", "方案的部署"),
        ("C++", "vitamin c"),
        ("мои", "мой"),
        ("क", "कि"),
        ("が", "か"),
        ("word other", "word"),
        ("x" * 99 + "y", "x" * 100),
        ("", "anything"),
        ("  \t\n　", "anything"),
        ("。，（）「」", "。，（）「」"),
        ("status 🔴", "status 🟢"),
        ("🇩🇪", "🇩🇰 🇪🇸"),
        ("→ x", "x"),
        ("│", "│"),
        ("\u200b\u00ad", "anything"),
    ],
)
def test_a_text_is_not_found_by(db: sqlite3.Connection, query: str, text: str) -> None:
    assert not finds(db, query, text)


@pytest.mark.parametrize("mark", [*string.punctuation, *"。，（）「」：？！…—’“”\x00\ud800\u200d\u0301"])
def test_no_mark_is_syntax(db: sqlite3.Connection, mark: str) -> None:
    for query in (mark, f"{mark}word", f"wo{mark}rd", f"word{mark}", f"{mark} word {mark}", f"a AND {mark} NEAR(b)"):
        finds(db, query, "word")
    assert finds(db, f"word {mark}", "a word")


@pytest.mark.parametrize(
    "query", ["NEAR", "a NEAR b", "OR", "NOT x", "a AND", "words : x", "^x", "x*", "-x", "(", "x'y\"z"]
)
def test_operators_are_words(db: sqlite3.Connection, query: str) -> None:
    assert finds(db, query, f"here: {query}") == bool(words(query))


@given(text=st.text(max_size=60), data=st.data())
def test_any_piece_between_blanks_finds_its_text(db: sqlite3.Connection, text: str, data: st.DataObject) -> None:
    pieces = text.split()
    for piece in pieces[:3]:
        assert finds(db, piece, text) == bool(Query.of(piece))


@given(
    text=st.text(alphabet="ab1-_. 部署案한국ไทaé\u0301ｶﾞ+#@/", max_size=30),
    query=st.text(alphabet="ab1-_. 部署案한국ไทaé\u0301ｶﾞ+#@/", max_size=8),
)
def test_the_index_finds_whatever_the_text_holds(db: sqlite3.Connection, text: str, query: str) -> None:
    finds(db, query, text)


@given(text=st.text(max_size=40))
def test_folding_twice_is_folding_once(text: str) -> None:
    assert fold(fold(text)) == fold(text)


def test_very_long_texts_and_queries_are_no_problem(db: sqlite3.Connection) -> None:
    text = " ".join(f"word{n} 部署{n}" for n in range(3000))
    assert finds(db, text, text)
    assert not finds(db, text + " missing", text)
    for one in ("a-" * 5000 + "b", "部署1" * 5000, "x_" * 5000 + "x"):
        assert finds(db, one, f"the {one} is there")
        assert not finds(db, one, f"the {one[:-1]} is there")
    assert all(len(word) <= LONGEST for word in words("x" * 10_000 + " " + "a-" * 5000))


def test_an_excerpt_shows_the_place_on_one_line() -> None:
    text = "filler " * 300 + "the\nFOUND   thing " + "filler " * 300
    excerpt = Query.of("found").excerpt(text)
    assert "the FOUND thing" in excerpt and excerpt[0] == excerpt[-1] == "…" and len(excerpt) <= 162
    folded = "ﬀ" * 2000 + " Größe " + "ﬀ" * 2000
    assert "Größe" in Query.of("grosse").excerpt(folded)
    assert Query.of("x").excerpt("short x") == "short x"


def test_the_symbols_that_are_words_are_no_letters_digits_brackets_or_lines() -> None:
    found = [char for code in range(0x2190, 0x1FC00) if words(char := chr(code)) == [char]]
    symbols = {char for char in found if unicodedata.category(char) in ("So", "Sm", "Sk")}
    assert {"→", "≈", "★", "✓", "❤", "🔴", "🎂", "🏽", "🇩"} <= symbols
    assert not symbols & set("─│█▒")
    assert {char for char in found if unicodedata.category(char)[0] == "P"} <= set("゠・"), "those are of kana"
