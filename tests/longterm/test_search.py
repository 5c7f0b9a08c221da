"""Any text is a query, in any script; what is found, and in which order."""

import string
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from langgraph_memory.longterm.entry import Entry
from langgraph_memory.longterm.index import Hit, Index, Row, Stamp
from langgraph_memory.longterm.ranking import Question
from langgraph_memory.longterm.stemming import stem
from langgraph_memory.longterm.stop_words import ENGLISH, OTHERS

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
STAMP = Stamp(0, 0, None)
Find = Callable[..., list[str]]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    index = Index(tmp_path / "index.db")
    yield index
    index.close()


def keep(index: Index, *texts: str, path: str = "memory/2026-11-30.md", time: datetime = NOW) -> list[Row]:
    """Append texts to a file."""
    with index.writing() as db:
        line = len(index.rows(db, path)) + 1
        rows = [Row(path, line + place, Entry.of(text, now=time)) for place, text in enumerate(texts)]
        index.extend(db, path, rows, STAMP)
    return rows


def found(index: Index, query: str, limit: int = 10, now: datetime = NOW) -> list[str]:
    return [hit.text for hit in index.search(query, limit, now=now)]


FILLER = ("The cat sleeps.", "午饭吃了面条", "Завтра будет дождь", "Lunch is at noon", "القطة نائمة")
"""Entries of other things, which share no word with what is looked for."""


def among(index: Index, text: str, place: int) -> None:
    """Keep a text among others, which are too far away to be its neighbours."""
    others = [*FILLER, *(f"Again: {text}" for text in FILLER)]
    keep(index, *others[:place], text, *others[place:])


# Query text


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("订单 TK-204 shipped", "TK-204"),
        ("订单 TK-204 shipped", "tk-204"),
        ("订单TK-204已发货", "TK-204"),
        ("订单TK-204已发货", "订单TK-204"),
        ("use foo_bar here", "foo_bar"),
        ("runs v1.2 now", "v1.2"),
        ("Ubuntu 20.04 LTS", "20.04"),
        ("written in C++ and Go", "C++"),
        ("written in C# and Go", "C#"),
        ("a/b testing", "a/b"),
        ("100% sure", "100%"),
        ("I don't know", "don't"),
        ("mail ada@example.org", "ada@example.org"),
        ("see docs/plan.md", "docs/plan.md"),
        ("what is half", '"half'),
        ("say hi", 'say "hi"'),
        ("drop the table", "'; drop"),
        ("near and far, or not", "NEAR(far near)"),
        ("near and far, or not", "near AND far"),
        ("column text of it", "text:column"),
    ],
)
@pytest.mark.parametrize("place", [0, 5, 10])
def test_names_and_marks_are_found_as_they_are_written(index: Index, text: str, query: str, place: int) -> None:
    among(index, text, place)
    assert found(index, query)[0] == text


@pytest.mark.parametrize("mark", [*string.punctuation, *"。，（）「」：；！？…—“”‘’《》、·￥％＋－"])
@pytest.mark.parametrize("shape", ["{0}", "{0}word", "word{0}", "wo{0}rd", "{0} word {0}", "word {0}{0}{0}"])
def test_no_mark_is_syntax(index: Index, mark: str, shape: str) -> None:
    keep(index, "a word", "another")
    texts = found(index, shape.format(mark))
    if shape == "{0}":
        assert texts == []
    elif "wo{" not in shape and mark not in "_+#＋":
        assert texts[0] == "a word"


@pytest.mark.parametrize(
    "query", ["", "   ", "\t\n", "\u3000", "\0", "?!", "*", '""', "()", "。，", "\ufeff", "\u200b"]
)
def test_a_blank_query_finds_nothing(index: Index, query: str) -> None:
    keep(index, "a word")
    assert index.search(query, 10, now=NOW) == []


@pytest.mark.parametrize("limit", [0, -1])
def test_no_hits_are_wanted(index: Index, limit: int) -> None:
    keep(index, "a word")
    assert index.search("word", limit, now=NOW) == []


@pytest.mark.parametrize(
    "query",
    [
        "\ud83d",
        "word \udfff",
        "a\0word",
        "😀",
        "word 👩‍👩‍👧",
        "\u0301",
        "word\u202e",
        "ﷺ",
        "x" * 100_000,
        "😀" * 10_000,
    ],
)
def test_odd_characters_never_raise(index: Index, query: str) -> None:
    keep(index, "a word", "😀 smile")
    found(index, query)


@pytest.mark.parametrize("piece", ["word ", "字", "w-", "a_b.", '"NEAR*(', "й ", "가", "\ud800"])
def test_a_query_may_be_a_megabyte(index: Index, piece: str) -> None:
    keep(index, "a word", "一个字", "й")
    found(index, piece * (1_000_000 // len(piece)))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(codec=None), max_size=40), st.text(st.characters(codec=None), max_size=40))
def test_any_text_is_kept_and_any_text_is_asked(index: Index, text: str, query: str) -> None:
    with index.writing() as db:
        index.replace(db, "MEMORY.md", [Row("MEMORY.md", 1, Entry(text, "id", NOW))], STAMP)
    found(index, query)
    hits = index.search(text, 1, now=NOW)
    if any(char.isascii() and char.isalnum() for char in text):
        assert [hit.id for hit in hits] == ["id"]


def test_a_text_with_half_a_character_is_kept(index: Index) -> None:
    with index.writing() as db:
        index.extend(db, "MEMORY.md", [Row("MEMORY.md", 1, Entry("heron \ud83d falcon", "id", NOW))], STAMP)
    assert found(index, "falcon") == ["heron \ufffd falcon"]


# Scripts


@pytest.mark.parametrize("query", ["部署", "方案", "周三", "周", "部署方案", "定", "在周三"])
@pytest.mark.parametrize("place", [0, 4, 10])
def test_any_part_of_a_run_of_chinese_is_found(index: Index, query: str, place: int) -> None:
    among(index, "部署方案在周三确定", place)
    assert found(index, query) == ["部署方案在周三确定"]


@pytest.mark.parametrize("query", ["tide", "3处", "重跑", "TIDE", "3", "tide表"])
def test_words_that_are_glued_to_chinese_are_found(index: Index, query: str) -> None:
    among(index, "重跑tide表后发现3处", 5)
    assert found(index, query)[0] == "重跑tide表后发现3处"


def test_several_short_words_are_each_found(index: Index) -> None:
    keep(index, "去广西", *FILLER)
    keep(index, "桂林山水", *FILLER, path="b")
    keep(index, "旅游计划", *FILLER, path="c")
    assert {"去广西", "桂林山水", "旅游计划"} <= set(found(index, "广西 桂林 旅游"))


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Ｄａｒｋ mode", "dark"),
        ("CAFÉ Zürich", "cafe zurich"),
        ("Straße", "STRASSE"),
        ("ёлка", "елка"),
        ("Любит чай", "любит"),
        ("يحب القهوة", "القهوة"),
        ("हिन्दी सीखना", "हिन्दी"),
        ("ภาษาไทยง่าย", "ไทย"),
        ("好きな食べ物は寿司です", "寿司"),
        ("ﾊﾟｿｺﾝを買う", "パソコン"),
        ("한국어를 배운다", "한국어"),
        ("Ελληνικά", "ελληνικα"),
        ("q", "Q"),
        ("x 7", "7"),
    ],
)
def test_width_case_and_accents_do_not_matter(index: Index, text: str, query: str) -> None:
    among(index, text, 5)
    assert found(index, query)[0] == text


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.text(st.sampled_from("部署方案周三确定旅游桂林数据索引"), min_size=3, max_size=40), st.integers(1, 6), st.data()
)
def test_whatever_part_is_asked_the_text_is_a_hit(index: Index, text: str, length: int, data: st.DataObject) -> None:
    with index.writing() as db:
        index.replace(db, "MEMORY.md", [Row("MEMORY.md", 1, Entry(text, "id", NOW))], STAMP)
    start = data.draw(st.integers(0, len(text) - 1))
    assert found(index, text[start : start + length]) == [text]


# Which, and which not


def test_a_question_finds_a_preference_in_other_forms(index: Index) -> None:
    among(index, "Ada prefers dark mode", 6)
    assert found(index, "dark mode preference")[0] == "Ada prefers dark mode"


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("likes javascript", "java"),
        ("order TK-205", "TK-204"),
        ("order TK and 204 others", "TK-204"),
        ("runs v1.3", "v1.2"),
        ("foo and bar", "foo_bar"),
        ("written in C", "C++"),
        ("written in C++", "C#"),
        ("部方署案", "部署"),
    ],
)
def test_what_only_looks_alike_is_not_found(index: Index, text: str, query: str) -> None:
    keep(index, text)
    assert found(index, query) == []


@pytest.mark.parametrize("query", ["java", "TK-204", "方案", "dark mode", "the java"])
def test_a_look_up_finds_no_neighbours(index: Index, query: str) -> None:
    keep(index, "one", f"about {query}", "javascript", "three")
    assert found(index, query) == [f"about {query}"]


def test_who_holds_every_word_comes_first(index: Index) -> None:
    keep(index, "red house", *FILLER)
    keep(index, "a red car in front of the old house of my uncle", *FILLER, path="b")
    keep(index, "red red red car", *FILLER, path="c")
    assert found(index, "red car house")[0].startswith("a red car in front")


LOG = [f"2026-11-30T08:{number % 60:02} worker{number} lease{number}x expired" for number in range(100)]


@pytest.mark.parametrize("place", [0, 1, 20, 50, 99, 100])
@pytest.mark.parametrize("lines", [100, 2_000])
def test_a_question_is_found_wherever_it_stands_in_a_pasted_log(index: Index, place: int, lines: int) -> None:
    among(index, "The harbour office keeps the tide tables.", 5)
    log = LOG * (lines // len(LOG))
    log.insert(place if place < len(LOG) else lines, "Which office keeps the tide tables?")
    assert found(index, "\n".join(log))[0] == "The harbour office keeps the tide tables."


@pytest.mark.parametrize("question", ["{log} harbour", "harbour {log}", "harbour {log} harbour"])
def test_the_ends_of_a_long_question_count_however_rare_its_other_words_are(index: Index, question: str) -> None:
    log = [f"word{number}" for number in range(300)]
    keep(index, *(f"{word} is rare" for word in log), path="a")
    keep(index, *(f"harbour note {number}" for number in range(400)), path="b")
    texts = found(index, question.format(log=" ".join(log)), limit=100)
    assert any(text.startswith("harbour") for text in texts)


def test_of_a_long_question_the_rarest_words_that_are_held_count(index: Index) -> None:
    common = [f"common{number}" for number in range(200)]
    keep(index, *(" ".join(common) for _ in range(5)), *FILLER, "a falcon, once")
    asked = " ".join([*common[:100], "missing1", "falcon", "missing2", *common[100:]])
    assert "a falcon, once" in found(index, asked)


def test_who_holds_every_word_of_a_long_question_is_found_without_neighbours(index: Index) -> None:
    text = " ".join(f"word{number}" for number in range(200))
    keep(index, *FILLER, text, *FILLER[::-1])
    assert found(index, text) == [text]


def test_words_in_different_entries_find_each_of_them(index: Index) -> None:
    keep(index, "falcon", *FILLER)
    keep(index, "heron", *FILLER, path="b")
    assert {"falcon", "heron"} <= set(found(index, "falcon heron"))


def test_an_answer_is_found_by_the_question_before_it(index: Index) -> None:
    keep(index, *FILLER, "Which book did your sister read on holiday?", "Middlemarch, twice.", *FILLER[::-1])
    assert "Middlemarch, twice." in found(index, "What book did the sister read on her holiday in Spain?")[:3]


def test_files_have_no_neighbours_in_other_files(index: Index) -> None:
    keep(index, "Which book did your sister read on holiday?", path="a")
    keep(index, "Middlemarch, twice.", path="b")
    assert "Middlemarch, twice." not in found(index, "What book did the sister read on her holiday in Spain?")


@pytest.mark.parametrize("query", ["what is the", "who", "的", "что это", "was ist das"])
def test_stop_words_count_where_there_are_no_others(index: Index, query: str) -> None:
    keep(index, f"so {query} then")
    assert found(index, query) == [f"so {query} then"]


@pytest.mark.parametrize("query", ["red hat", "war stories", "my son", "sin city"])
def test_a_word_that_another_language_drops_counts(index: Index, query: str) -> None:
    keep(index, query.split()[-1])
    assert found(index, query) == [query.split()[-1]]


@pytest.mark.parametrize(
    ("query", "text"),
    [("thé vert", "Ada aime le thé."), ("thé", "Ada aime le thé."), ("THÉ vert", "le thé d'Ada"), ("hàs vert", "hàs")],
)
def test_a_word_with_an_accent_is_no_english_stop_word(index: Index, query: str, text: str) -> None:
    keep(index, text, "The wall is vert.")
    assert text in found(index, query)


@pytest.mark.parametrize("query", ["où est le chat", "¿cuándo está el gato?", "WHAT’S the ｔｈｅ cat"])
def test_stop_words_with_an_accent_are_dropped_in_their_language(query: str) -> None:
    assert len(Question.of(query).features) == 1


def test_stop_words_are_written_as_they_are_compared() -> None:
    from langgraph_memory.search_text import words

    for language in (ENGLISH, *OTHERS):
        assert all(words(word) == [word] for word in language)


# Order


def test_of_two_alike_the_newer_comes_first(index: Index) -> None:
    keep(index, "tea in the morning, yesterday", time=NOW - timedelta(hours=30))
    keep(index, "tea in the morning, today", time=NOW - timedelta(hours=1), path="b")
    assert found(index, "tea")[0].endswith("today")


@pytest.mark.parametrize(
    ("hours", "share"), [(0, 1.0), (6, 0.875), (12, 0.75), (24, 0.5), (48, 0.5), (10_000, 0.5), (-3, 1.0)]
)
def test_age_counts_down_to_the_floor(index: Index, hours: float, share: float) -> None:
    keep(index, "tea")
    fresh, aged = (index.search("tea", 1, now=NOW + timedelta(hours=age))[0].score for age in (0, hours))
    assert aged / fresh == pytest.approx(share)


def test_no_decay_is_possible(index: Index) -> None:
    keep(index, "tea")
    late = NOW + timedelta(days=900)
    one, other, none = (
        index.search("tea", 1, now=now, decay_floor=floor, decay_hours=hours)[0].score
        for now, floor, hours in ((NOW, 0.5, 24), (late, 1.0, 24), (late, 0.25, 0))
    )
    assert (other, none) == (pytest.approx(one), pytest.approx(one / 4))


def test_the_newest_is_found_among_many_that_are_alike(index: Index) -> None:
    old = [f"tea number {number}" for number in range(2_000)]
    keep(index, *old, time=NOW - timedelta(days=30))
    keep(index, "tea, and a long story of what was said about it in the garden", time=NOW, path="b")
    assert found(index, "tea", 1)[0].startswith("tea, and a long story")


@pytest.mark.parametrize("copies", [1, 2, 300, 3_000])
def test_copies_of_one_text_do_not_hide_another(index: Index, copies: int) -> None:
    keep(index, *(f"{'  ' * (number % 3)}Green tea{'.' * (number % 4)}" for number in range(copies)), path="a")
    keep(index, "Some tea, and rather a lot of other things too", path="b")
    texts = found(index, "green tea")
    assert len(texts) == 2
    assert texts[1].startswith("Some tea")


@pytest.mark.parametrize("number", [1, 5, 10, 60, 500])
def test_as_many_hits_as_were_asked_for(index: Index, number: int) -> None:
    keep(index, *(f"tea {number}" for number in range(700)))
    assert len(found(index, "tea", number)) == number


def test_a_hit_says_where_it_stands(index: Index) -> None:
    entry = Entry("Ada prefers tea", "e-1", NOW, "summary", thread_id="t-1")
    with index.writing() as db:
        index.extend(db, "memory/2026-11-30.md", [Row("memory/2026-11-30.md", 7, entry)], STAMP)
    (hit,) = index.search("tea", 5, now=NOW)
    expected = Hit(
        "e-1", "memory/2026-11-30.md", 7, "Ada prefers tea", hit.score, NOW.isoformat(), "t-1", "summary", False
    )
    assert hit == expected
    assert datetime.fromisoformat(hit.timestamp) == NOW


# Stems


@pytest.mark.parametrize(
    "several",
    [
        ("prefer", "prefers", "preferred", "preference"),
        ("relate", "related", "relational"),
        ("happy", "happiness"),
        ("hope", "hoping", "hopeful"),
        ("try", "tries", "tried")[1:],
        ("agree", "agreed"),
    ],
)
def test_forms_of_a_word_have_one_stem(several: Sequence[str]) -> None:
    assert len(set(map(stem, several))) == 1


@pytest.mark.parametrize("word", ["as", "v1.2", "tk-204", "работа", "部署", "7", "c++", "naïve", ""])
def test_what_is_no_english_word_is_its_own_stem(word: str) -> None:
    assert stem(word) == word


@settings(max_examples=300, deadline=None)
@given(
    st.text(st.sampled_from("aeioubcdglnrstyz"), max_size=8), st.sampled_from(["", "s", "ed", "ing", "ation", "ful"])
)
def test_stems_are_those_of_sqlite(word: str, ending: str) -> None:
    import sqlite3
    from contextlib import closing

    if len(word + ending) < 4:
        return
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE VIRTUAL TABLE t USING fts5 (word, tokenize='porter ascii')")
        db.execute("CREATE VIRTUAL TABLE v USING fts5vocab (t, row)")
        db.execute("INSERT INTO t VALUES (?)", (word + ending,))
        assert [row[0] for row in db.execute("SELECT term FROM v")] == [stem(word + ending)]
