"""What a text holds of a query that no text holds as a whole, and that an index asked for it misses none."""

import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_memory.search_parts import STRETCH, Parts, Some
from langgraph_memory.search_text import TOKENIZE, Query, distinct_words, words


def some(query: str, texts: Sequence[str]) -> Some:
    parts = Parts.of(Query.of(query))
    return Some(parts, len(texts), Counter(word for text in texts for word in parts.needed.intersection(words(text))))


def holding(query: str, *texts: str) -> list[str]:
    told = some(query, texts)
    return [text for text in texts if told.held(text)]


OTHERS = ("the cat sleeps", "午饭吃面条", "雨が降る", "ฝนจะตก", "비가옵니다")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("missing falcon", "a falcon"),
        ("missing foo-bar", "the foo_bar of it"),
        ("missing C++", "in C++"),
        ("missing 🔴", "a 🔴 sign"),
        ("missing 😀🎂", "so 😀🎂 then"),
        ("请问falcon在哪里", "a falcon"),
        ("旅游计划", "桂林旅游"),
        ("一二三四五六七八九十甲乙丙丁戊己庚辛壬癸子丑寅卯潮汐表在", "看潮汐表"),
        ("カメラどこ", "新しいカメラです"),
        ("ตารางอยู่ไหน", "ดูตารางเวลา"),
    ],
)
def test_a_word_or_enough_of_a_run_is_some_of_a_query(query: str, text: str) -> None:
    assert holding(query, *OTHERS, text) == [text]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("missing java", "javascript"),
        ("missing foo-bar", "foo and another bar"),
        ("3处重跑", "处"),
        ("どこにありますか", "もう食べます"),
        ("อยู่ที่ไหนครับ", "สวัสดีครับ"),
        ("请问潮汐表现在究竟挂在哪里", "现场"),
    ],
)
def test_a_piece_of_a_word_or_too_little_of_a_run_is_none(query: str, text: str) -> None:
    assert holding(query, *OTHERS, text) == []


def test_what_is_common_counts_less_the_more_hold_it() -> None:
    assert holding("今天天气", "今天开会", *OTHERS) == ["今天开会"]
    many = [f"今天开第{number}次会" for number in range(30)]
    assert holding("今天天气", *many, *OTHERS, "天气真好") == ["天气真好"]


@given(st.text("潮汐表挂在门后面", min_size=2, max_size=5 * STRETCH))
def test_a_long_run_is_looked_for_in_stretches_that_leave_no_pair_out(run: str) -> None:
    stretches = Parts.of(Query.of(run)).runs
    assert {pair for part in stretches for pair in part.pairs} == {run[at : at + 2] for at in range(len(run) - 1)}
    assert all(len(part.text) <= STRETCH for part in stretches)


LETTERS = "ab-_. 部署方案ตารางカメラ案한국😀"


@given(st.lists(st.text(LETTERS, max_size=12), max_size=6), st.text(LETTERS, max_size=30))
def test_the_index_is_asked_for_every_text_that_holds_some(texts: list[str], query: str) -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute(f'CREATE VIRTUAL TABLE texts USING fts5 (words, tokenize="{TOKENIZE}")')
        db.executemany("INSERT INTO texts VALUES (?)", [(distinct_words(text),) for text in texts])
        told = some(query, texts)
        select = "SELECT rowid - 1 FROM texts WHERE texts MATCH ?"
        found = {place for match in told.matches() for (place,) in db.execute(select, (match,))}
    assert {place for place, text in enumerate(texts) if told.held(text)} <= found


@pytest.mark.parametrize("query", ["", "。", "字" * 100_000, "a_" * 5_000, "部署1" * 5_000, "word " * 10_000])
def test_any_text_is_a_query(query: str) -> None:
    told = some(query, ["word 字", query])
    list(told.matches())
    assert told.held(query) == bool(Query.of(query))
