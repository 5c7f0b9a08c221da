"""Searching without an index gives what the index would give, as far as it can."""

from datetime import datetime, timedelta

import pytest

from langgraph_memory.longterm.entry import Entry
from langgraph_memory.longterm.index import Row
from langgraph_memory.longterm.scan import scan

NOW = datetime(2031, 4, 12, 12).astimezone()


def rows(*texts, hours=0):
    moment = NOW - timedelta(hours=hours)
    return [Row("memory/2031-04-12.md", n, Entry(text, f"i{n}", moment)) for n, text in enumerate(texts, 1)]


def found(rows_, query, limit=10, floor=0.5, hours=24.0):
    return scan(rows_, query, limit, now=NOW, decay_floor=floor, decay_hours=hours)


def test_a_hit_says_where_it_stands():
    (hit,) = found(rows("a heron", "a falcon"), "falcon")
    assert (hit.id, hit.path, hit.line, hit.text) == ("i2", "memory/2031-04-12.md", 2, "a falcon")
    assert datetime.fromisoformat(hit.timestamp) == NOW and hit.score > 0


def test_the_best_comes_first_and_no_more_than_asked_for():
    texts = ["falcon " * n + "filler " * (9 - n) for n in range(9)]
    assert [hit.line for hit in found(rows(*texts), "falcon", 4)] == [9, 8, 7, 6]
    assert found(rows(*texts), "falcon", 0) == found(rows(*texts), "falcon", -1) == []


@pytest.mark.parametrize(("hours", "factor"), [(0, 1.0), (12, 0.75), (24, 0.5), (500, 0.5)])
def test_age_weighs(hours, factor):
    (new,), (old,) = found(rows("a falcon"), "falcon"), found(rows("a falcon", hours=hours), "falcon")
    assert old.score / new.score == pytest.approx(factor)


def test_the_same_text_is_found_once():
    assert len(found(rows("A falcon.", "a  FALCON", "ａ falcon"), "falcon")) == 1


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("prefers dark mode", "dark mode preference"),
        ("部署方案在周三确定", "周三"),
        ("TK-204 shipped", "tk-204"),
        ("café", "CAFE"),
    ],
)
def test_words_are_those_of_the_index(text, query):
    assert len(found(rows(text, "something else"), query)) == 1


@pytest.mark.parametrize("query", ["", "。", "\ud83d", "\0", "zzz", "x" * 100_000])
def test_what_says_nothing_finds_nothing(query):
    assert found(rows("a falcon", "\udcff odd"), query) == [] and found([], query) == []
