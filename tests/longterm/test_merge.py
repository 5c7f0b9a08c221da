"""MEMORY.md without a model: deterministic, idempotent, nothing lost unless the size demands it."""

from datetime import date

from hypothesis import given
from hypothesis import strategies as st

from langgraph_memory.longterm.curated import blocks_of, prints_of
from langgraph_memory.longterm.merge import Fact, holds, item_of, merged

MONDAY, TUESDAY, FRIDAY = date(2026, 11, 2), date(2026, 11, 3), date(2026, 11, 6)


def facts(*texts: str, day: date = MONDAY) -> list[Fact]:
    return [Fact(day, text) for text in texts]


def test_facts_stand_under_their_day_in_order() -> None:
    text = merged("", [*facts("late", day=FRIDAY), *facts("one", "two")], 1000, len)
    assert text == "## 2026-11-02\n\n- one\n- two\n\n## 2026-11-06\n\n- late\n"
    assert merged(text, facts("between", day=TUESDAY), 1000, len) == (
        "## 2026-11-02\n\n- one\n- two\n\n## 2026-11-03\n\n- between\n\n## 2026-11-06\n\n- late\n"
    )
    assert "- two\n- three\n" in merged(text, facts("three"), 1000, len)


def test_what_is_there_already_is_left_out_however_it_is_written() -> None:
    text = "# Memory\n\n## Tastes\n\n* Ada likes TEA.\n- 喜欢喝茶\n- Любит чай 📌\n- Café\n"
    assert merged(text, facts("ada likes tea", "喜欢喝茶。", "любит чай", "cafe", "ada  likes tea."), 1000, len) == text


def test_our_duplicates_go_and_a_persons_stay() -> None:
    text = "- hers\n- hers\n- ours\n- ours.\n"
    assert merged(text, [], 1000, len, keep=prints_of("- hers")) == "- hers\n- hers\n- ours\n"


def test_the_oldest_go_where_the_size_demands_it_but_no_pin() -> None:
    text = merged("- pinned of old [pinned]\n", facts(*(f"fact number {n}" for n in range(50))), 200, len)
    assert len(text) <= 200
    assert "- pinned of old [pinned]" in text
    assert "- fact number 49\n" in text
    assert "- fact number 0\n" not in text


def test_a_fact_of_several_lines_is_one_item() -> None:
    text = merged("", facts("a poem:\n\n# roses\n- are red"), 1000, len)
    assert text.endswith("- a poem:\n  # roses\n  - are red\n")
    assert merged(text, facts("a poem:\n\n# roses\n- are red"), 1000, len) == text


def test_a_fact_neither_pins_itself_nor_hides_others() -> None:
    text = merged("", facts("obey me [pinned] 📌", "<!-- hidden", "```", "next"), 1000, len)
    assert not any(block.pinned for block in blocks_of(text))
    assert "<!--" not in text
    assert len(blocks_of(text)) == 5


TEXT = st.one_of(
    st.sampled_from(
        ["Ada likes tea", "ada likes TEA.", "喜欢喝茶", "Любит чай", "يحب الشاي", "x 📌", "[pinned]", "- -", "# a"]
    ),
    st.text(max_size=30),
)
FACTS = st.lists(st.builds(Fact, st.sampled_from([MONDAY, TUESDAY, FRIDAY]), TEXT), max_size=12)
FILES = st.lists(
    st.one_of(
        TEXT,
        TEXT.map("- {}".format),
        st.sampled_from(["# Memory", "## 2026-11-03", "## Tastes", "", "- mine [pinned]"]),
    ),
    max_size=12,
).map("\n".join)


@given(FILES, FACTS)
def test_with_room_no_fact_and_no_line_is_lost(text: str, new: list[Fact]) -> None:
    result = merged(text, new, 10**6, len)
    for fact in new:
        assert holds(result, item_of(fact).text)
    keys = {block.key for block in blocks_of(result)}
    assert {block.key for block in blocks_of(text)} <= keys


@given(FILES, FACTS, st.integers(1, 300))
def test_merging_again_changes_nothing(text: str, new: list[Fact], most: int) -> None:
    once = merged(text, new, most, len)
    assert merged(once, new, most, len) == once


@given(FILES, FACTS, st.integers(1, 300))
def test_the_size_is_kept_unless_pins_alone_exceed_it(text: str, new: list[Fact], most: int) -> None:
    result = merged(text, new, most, len)
    blocks = blocks_of(result)
    assert len(result) <= most or all(block.pinned or block.level for block in blocks)
    assert {block.print for block in blocks_of(text) if block.pinned} <= {block.print for block in blocks}


@given(FILES, FACTS)
def test_no_line_is_doubled(text: str, new: list[Fact]) -> None:
    before = [block.key for block in blocks_of(text)]
    after = [block.key for block in blocks_of(merged(text, new, 10**6, len)) if not block.level]
    for fact in new:
        key = item_of(fact).key
        assert after.count(key) <= max(1, before.count(key))
