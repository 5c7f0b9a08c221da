"""Entries keep what they are given, in lines that people can read; whatever people write is read as entries."""

import json
import time
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from types import MappingProxyType
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_memory.longterm.entry import (
    Entry,
    EntryError,
    lines_of,
    read_lines,
    to_lines,
    with_text,
    without_comment,
)
from tests.support.texts import CHECK

DAY = date(2031, 4, 12)
PIECES = st.sampled_from(
    [
        "\n", "\n\n", "\r\n", "\r", "\0", "\t", "  ", "\u2028", "\x85", "\x0b", "\ufeff", "\ud83d", "\udcff", "😀",
        "שלום", "\u202e",
        "- ", "* ", "+ ", "1. ", "# ", "## Title", "```", "---", "|", ">", "[fact] ", "[todo] ", "[ ] ", "-->", "<!--",
        "<!-- lgm {", '<!-- lgm {"id": "x"} -->', ' <!-- lgm {"id": "evil", "thread": "t"} -->', "} -->", "\\u003c",
        '"',
        "14:03", "14:03:22+01:00 ", "09:00-10:30 ", "99:99 ", "部署", "e\u0301", "Ada", "likes", " ", "  - nested",
    ]
)  # fmt: skip
TEXTS = st.one_of(st.lists(PIECES, min_size=1, max_size=12).map("".join), st.text(min_size=1, max_size=80))


def entry(text="Ada prefers dark mode.", **rest):
    return Entry.of({"text": text, **rest})


def back(one, day=None):
    """The entry read again from its lines."""
    (placed,) = read_lines(to_lines(one), day or one.day)
    return placed.entry


def same(one, other):
    """Equal but for the zone in which the moment is told."""
    return replace(one, timestamp=one.timestamp.astimezone(UTC)) == replace(
        other, timestamp=other.timestamp.astimezone(UTC)
    )


# Round trips


@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_any_texts_come_back_as_they_were_kept(texts):
    kept = []
    for text in texts:
        try:
            kept.append(Entry.of({"text": text, "timestamp": datetime(2031, 4, 12, 12)}))
        except EntryError:
            assert not text.strip()
    lines = lines_of(kept)
    assert lines.encode() is not None
    found = read_lines(f"# 2031-04-12\n\n{lines}", DAY)
    assert [one.entry.text for one in found] == [one.text for one in kept]
    assert all(same(read.entry, one) for read, one in zip(found, kept, strict=True))
    split = f"# 2031-04-12\n\n{lines}".split("\n")
    for placed, one in zip(found, kept, strict=True):
        assert "\n".join(split[placed.first - 1 : placed.last]) + "\n" == to_lines(one)


@given(TEXTS)
def test_a_kept_text_says_all_that_was_given(text):
    try:
        kept = Entry.of(text).text
    except EntryError:
        return
    assert "".join(kept.split()) == "".join(
        text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").replace("\0", "\ufffd").split()
    )
    assert Entry.of(kept).text == kept


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(
    metadata=st.dictionaries(TEXTS, JSON, max_size=4),
    thread=TEXTS,
    checkpoint=st.none() | TEXTS,
    messages=st.lists(TEXTS, max_size=3),
    kind=st.sampled_from(["conversation", "fact", "summary", "tool_result"]),
    tokens=st.integers(0, 10**9),
    text=TEXTS.filter(lambda text: text.strip("\0 \r\n\t\u2028\x85\x0b")),
)
def test_all_that_programs_need_comes_back_whatever_it_says(metadata, thread, checkpoint, messages, kind, tokens, text):
    about = {"thread": thread, "checkpoint": checkpoint, "messages": messages, "type": kind, "tokens": tokens}
    try:
        one = entry(text, metadata=metadata, **about)
    except EntryError:
        return
    assert same(back(one), one)
    assert json.loads(json.dumps(one.metadata)) == dict(one.metadata)


def test_a_megabyte_comes_back():
    for text in ("x" * 1_000_000, "<!-- lgm {" * 100_000, "a\n\n" * 300_000, "潮" * 400_000):
        assert back(entry(text)).text == text.strip()


def test_a_megabyte_by_a_person_is_read_in_the_time_it_needs():
    for line in (
        "<!-- lgm {" * 100_000,
        "- " + "<!-- lgm {} " * 80_000,
        "- " + " <!-- lgm {" + "[" * 500_000 + "} -->",
    ):
        (placed,) = read_lines(line, DAY)
        assert len(placed.entry.text) > 400_000


@pytest.mark.parametrize("script", sorted(CHECK))
def test_every_script_comes_back(script):
    for text in CHECK[script]:
        one = entry(text, metadata={"said": text}, thread=text)
        assert same(back(one), one)


def test_an_entry_in_the_middle_of_others_is_parted_from_them():
    texts = ["one\n\n- two\n# three", "- four", "five\n  six\n\n\n\tseven", "1. eight"]
    lines = lines_of(map(entry, texts))
    assert [placed.entry.text for placed in read_lines(lines, DAY)] == texts
    assert [placed.entry.text for placed in read_lines(lines.replace("\n", "\r\n"), DAY)] == texts
    trimmed = "\n".join(line.rstrip() for line in lines.split("\n"))
    assert [placed.entry.text for placed in read_lines(trimmed, DAY)] == texts


# Time


ZONES = ["Asia/Shanghai", "Pacific/Honolulu", "Pacific/Chatham", "Europe/Berlin", "America/St_Johns", "UTC"]


@pytest.fixture(params=ZONES)
def zone(request, monkeypatch):
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield ZoneInfo(request.param)
    monkeypatch.undo()
    time.tzset()


@given(
    moment=st.datetimes(datetime(1980, 1, 1), datetime(2090, 1, 1)),
    given_in=st.sampled_from([*ZONES, None]),
    fold=st.sampled_from([0, 1]),
)
def test_a_moment_is_kept_to_the_microsecond_and_on_its_local_day(zone, moment, given_in, fold):
    moment = moment.replace(tzinfo=ZoneInfo(given_in) if given_in else None, fold=fold)
    one = entry(timestamp=moment)
    read = back(one)
    assert read.timestamp == one.timestamp.astimezone(UTC) == moment.astimezone(UTC)
    assert one.day == read.day == moment.astimezone(zone).date()


@pytest.mark.parametrize(
    ("zone_name", "utc", "day"),
    [
        ("Asia/Shanghai", "2031-04-11T19:53:00Z", "2031-04-12"),
        ("Pacific/Honolulu", "2031-04-12T09:59:00Z", "2031-04-11"),
        ("Pacific/Chatham", "2031-01-11T10:20:00Z", "2031-01-12"),
        ("Europe/Berlin", "2031-03-30T00:59:59.999999Z", "2031-03-30"),
        ("Europe/Berlin", "2031-10-26T00:30:00Z", "2031-10-26"),
        ("Europe/Berlin", "2031-10-26T01:30:00Z", "2031-10-26"),
        ("Europe/Berlin", "2031-10-25T22:30:00Z", "2031-10-26"),
    ],
)
def test_the_day_is_the_local_one_and_not_that_of_utc(monkeypatch, zone_name, utc, day):
    monkeypatch.setenv("TZ", zone_name)
    time.tzset()
    try:
        one = entry(timestamp=utc)
        read = back(one)
        assert str(one.day) == str(read.day) == day
        assert read.timestamp == one.timestamp
    finally:
        monkeypatch.undo()
        time.tzset()


def test_both_hours_of_the_night_the_clocks_go_back_are_kept_apart(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        first, second = (entry(timestamp=f"2031-10-26T0{hour}:30:00Z") for hour in (0, 1))
        assert back(second).timestamp - back(first).timestamp == timedelta(hours=1)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_file_is_read_alike_in_another_zone(monkeypatch):
    try:
        monkeypatch.setenv("TZ", "Pacific/Chatham")
        time.tzset()
        one = entry(timestamp="2031-01-11T10:20:00Z")
        lines, day = to_lines(one), one.day
        monkeypatch.setenv("TZ", "Pacific/Honolulu")
        time.tzset()
        assert read_lines(lines, day)[0].entry.timestamp == one.timestamp
    finally:
        monkeypatch.undo()
        time.tzset()


def test_without_a_zone_a_moment_is_local_and_without_a_moment_it_is_now():
    now = datetime(2031, 4, 12, 3, 53, tzinfo=timezone(timedelta(hours=8)))
    assert Entry.of("x", now=now).timestamp == now
    assert entry(timestamp="2031-04-12T03:53").timestamp == datetime(2031, 4, 12, 3, 53).astimezone()
    assert abs(entry().timestamp - datetime.now(UTC)) < timedelta(seconds=60)


# What people write


@pytest.mark.parametrize(
    ("markdown", "texts"),
    [
        ("- a\n* b\n+ c\n• d\n1. e\n2) f\n-\tg", list("abcdefg")),
        ("a\nb\n\nc", list("abc")),
        ("# Title\n\n## 2031\n#\n###### six\na", ["a"]),
        ("#hashtag is said\n####### seven", ["#hashtag is said", "####### seven"]),
        ("- a\n  more\n\n  and more\n- b", ["a\nmore\n\nand more", "b"]),
        ("- a\n\tmore\n  - nested\nnot more", ["a\nmore\n- nested", "not more"]),
        ("  - indented\n  - too\n    more", ["indented", "too\nmore"]),
        (
            "---\n\n***\n```\ncode\n```\n| a | b |\n|---|:-:|\n| c | d |\n> said",
            ["code", "| a | b |", "| c | d |", "> said"],
        ),
        ("- \n-\n*   \n- 14:03 \n- a", ["14:03", "a"]),
        ("- [ ] open\n- [x] done", ["[ ] open", "[x] done"]),
        ("- a <!-- a remark -->\n- b <!-- lgm {broken} -->", ["a <!-- a remark -->", "b <!-- lgm {broken} -->"]),
        ('- <!-- lgm {"id": "x"} -->\n<!-- lgm {"id": "y"} -->\n- b', ["b"]),
        ("a\r\n- b\r\n  c\r\n", ["a", "b\nc"]),
        ("", []),
        ("\n\n \n", []),
        ("- 😀\n🎉", ["😀", "🎉"]),
    ],
)
def test_markdown_of_every_kind_is_read(markdown, texts):
    found = read_lines(markdown, DAY)
    assert [placed.entry.text for placed in found] == texts
    lines = markdown.split("\n")
    assert all(
        texts[0].split("\n")[0] in lines[placed.first - 1]
        for placed, texts in zip(found, [[t] for t in texts], strict=True)
    )


@pytest.mark.parametrize(
    ("line", "text", "clock", "kind"),
    [
        ("14:03 met Ada", "14:03 met Ada", "14:03:00", "fact"),
        ("14:03:22 [summary] met", "met", "14:03:22", "summary"),
        ("09:00-10:30 standup", "09:00-10:30 standup", "00:00:00", "fact"),
        ("99:99 no time", "99:99 no time", "00:00:00", "fact"),
        ("14:03 [todo] buy", "14:03 [todo] buy", "14:03:00", "fact"),
        ("[summary] x", "[summary] x", "00:00:00", "fact"),
        ("١٤:٠٣ x", "١٤:٠٣ x", "00:00:00", "fact"),
        ("14:03", "14:03", "00:00:00", "fact"),
    ],
)
def test_a_time_in_front_is_taken_where_it_is_one_and_nothing_of_the_text_is_lost(line, text, clock, kind):
    for bullet in ("- ", "", "* "):
        (placed,) = read_lines(bullet + line, DAY)
        one = placed.entry
        assert (one.text, one.type) == (text, kind)
        assert one.timestamp.astimezone().strftime("%Y-%m-%d %H:%M:%S") == f"2031-04-12 {clock}"


HAND = st.lists(
    st.sampled_from(
        [
            "- tea",
            "- tea",
            "tea",
            "coffee",
            "* milk\n  and sugar",
            "# Food",
            "",
            "潮汐表",
            "- [x] done",
            "| a | b |",
            "---",
        ]
    ),
    max_size=8,
)


@given(before=HAND, after=HAND, kept=HAND)
def test_ids_stay_when_other_lines_come_before_between_and_behind(before, after, kept):
    unlike = [
        line.replace("tea", "beer")
        .replace("coffee", "wine")
        .replace("milk", "cream")
        .replace("潮汐表", "部署")
        .replace("done", "left")
        .replace("a | b", "c | d")
        for line in (*before, *after)
    ]
    ids = [one.entry.id for one in read_lines("\n".join(kept), DAY)]
    mixed = "\n".join(["", *unlike[: len(before)], "#", *kept, "#", *unlike[len(before) :]])
    found = [one.entry.id for one in read_lines(mixed, DAY)]
    assert [id_ for id_ in found if id_ in ids] == ids
    assert len(set(found)) == len(found)


def test_ids_of_a_person_s_lines_do_not_hang_on_what_programs_wrote():
    alone = read_lines("- tea", DAY)[0].entry.id
    (_, placed) = read_lines(to_lines(entry("tea")) + "- tea\n", DAY)
    assert placed.entry.id == alone


def test_ids_are_those_of_the_day_or_of_the_file():
    other = DAY + timedelta(days=1)
    assert read_lines("tea", DAY)[0].entry.id != read_lines("tea", other)[0].entry.id
    assert (
        read_lines("tea", DAY, file="MEMORY.md")[0].entry.id == read_lines("tea", other, file="MEMORY.md")[0].entry.id
    )


@pytest.mark.parametrize(
    "comment",
    [
        '{"id": 7, "tokens": "x", "messages": "m", "metadata": [], "thread": {}, "checkpoint": 1}',
        '{"id": "", "tokens": -1, "messages": [1, null], "metadata": null}',
        '{"id": null, "tokens": true}',
        "{}",
    ],
)
def test_a_comment_that_somebody_broke_is_read_as_far_as_it_makes_sense(comment):
    (placed,) = read_lines(f"- 14:03:22+01:00 [fact] tea <!-- lgm {comment} -->", DAY)
    one = placed.entry
    assert one.text == "tea" and len(one.id) == 32 and one.tokens > 0 and one.metadata == {} and one.thread_id is None
    assert same(back(Entry.of(one)), Entry.of(one))


def test_readers_are_shown_a_line_without_what_programs_need():
    for text in ("tea", "tea <!-- lgm {", 'a <!-- lgm {"id": "x"} --> b', "<!-- a remark -->"):
        line = to_lines(entry(text)).removesuffix("\n")
        assert without_comment(line).endswith(f"] {text}")
        assert without_comment(line + "\r").endswith(f"] {text}\r")
    assert without_comment("tea <!-- a remark -->  ") == "tea <!-- a remark -->  "


# What cannot be one


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"text": "x", "type": "note"}, ["type", "'note'", "'fact'", "'tool_result'"]),
        ({"text": "x", "id": "a b"}, ["id", "'a b'", r"\S"]),
        ({"text": "x", "id": "i" * 201}, ["id", "200"]),
        ({"text": "x", "id": ""}, ["id"]),
        ({"text": "x", "timestamp": "yesterday"}, ["timestamp", "'yesterday'"]),
        ({"text": "x", "timestamp": datetime(1, 1, 1)}, ["timestamp", "0001-01-01"]),
        ({"text": "x", "timestamp": "9999-12-31T23:59:59-12:00"}, ["timestamp", "9999-12-31"]),
        ({"text": "x", "tokens": -1}, ["tokens", "-1", "0"]),
        ({"text": "x", "messages": "m-1"}, ["messages", "'m-1'", "list"]),
        ({"text": "x", "metadata": {"a": {(1, 2): 3}}}, ["metadata", "(1, 2)", "JSON"]),
        ({"text": "x", "metadata": {"a": float("nan")}}, ["metadata", "JSON"]),
        ({"text": "x", "metadata": [1]}, ["metadata", "[1]", "dict"]),
        ({"text": "x", "txt": "y"}, ["txt", "'y'", "text, id, type, timestamp"]),
        ({"text": 5}, ["text", "5", "string"]),
        ({}, ["text", "required"]),
        ({"text": " \n\t "}, ["text", "blank"]),
        ("", ["text", "blank"]),
        (5, ["5", "text", "mapping"]),
        (None, ["None", "text"]),
        (b"x", ["b'x'", "text"]),
        (["x"], ["['x']", "text"]),
    ],
)
def test_an_error_names_the_field_its_value_and_what_is_allowed(value, told):
    with pytest.raises(EntryError) as error:
        Entry.of(value)
    assert all(part in str(error.value) for part in told), error.value


def test_an_error_is_no_longer_than_a_person_reads():
    with pytest.raises(EntryError) as error:
        Entry.of({"text": "x", "type": "y" * 1_000_000})
    assert len(str(error.value)) < 1000


def test_a_metadata_that_turns_in_circles_is_refused():
    circle = {}
    circle["me"] = circle
    with pytest.raises(EntryError):
        entry(metadata=circle)


def test_any_mapping_will_do_and_an_entry_is_made_tidy():
    assert Entry.of(MappingProxyType({"text": "x", "id": "i"})).id == "i"
    loose = Entry(" a\r\nb \udcff", "i", datetime(2031, 4, 12, 12), metadata=MappingProxyType({"a": (1, 2)}))
    tidy = Entry.of(loose)
    assert (tidy.text, tidy.id, tidy.metadata) == ("a\nb \ufffd", "i", {"a": [1, 2]})
    assert tidy.timestamp.tzinfo is not None
    assert Entry.of(tidy) == tidy and same(back(tidy), tidy)


def test_another_text_is_counted_anew():
    one = entry("a long text about nothing much", tokens=7)
    assert with_text(one, " short ").text == "short" and with_text(one, "short").tokens != 7
