"""Merging into MEMORY.md: whose line it is, what of a reply is the file, and ledgers that somebody edits."""

from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from langgraph_memory.config import ConsolidationConfig
from langgraph_memory.context.tokens import estimator_for
from langgraph_memory.context.verdict import Rejected
from langgraph_memory.longterm.consolidate import RECENT, Consolidation
from langgraph_memory.longterm.curated import blocks_of, distinct, prints_of, text_of
from langgraph_memory.longterm.keeper import Keeper
from langgraph_memory.longterm.merge import merged
from langgraph_memory.longterm.proposal import Question, judge

COUNTER = estimator_for("auto")

TWO = """\
# People

## Ada

### Likes

- tea
- walks
- the harbour at night

## Bob

### Likes

- milk
- [pinned] coffee with cream
- old ships
- chess
"""
PINNED = "- [pinned] coffee with cream\n"


def judged(reply, was, entries=(), person=()):
    return judge(reply, Question(was, entries, 4000, COUNTER.text, person))


def above(text, line):
    """The headings over a line."""
    return [block.above for block in blocks_of(text) if line in block.text]


@pytest.fixture
def keeper(tmp_path):
    return Keeper(tmp_path, ("ada",))


def consolidated(keeper, reply=None):
    config = ConsolidationConfig(min_interval_minutes=0)
    task = Consolidation(keeper, config, counter=COUNTER, has_model=reply is not None)
    while task.begin() is not None:
        task.finish(AIMessage(reply))
    return task.result


def ours(keeper, text):
    """MEMORY.md as we wrote it."""
    keeper.folder.replace("MEMORY.md", text.encode())
    keeper.write_state({"written": sorted(prints_of(text))})


def ledger(keeper):
    return keeper.folder.path / "memory" / f"{datetime.now().date()}.md"


# Whose line it is


@pytest.mark.parametrize(
    "text",
    [
        "# People\n\n## Ada\n\n### Likes\n\n- tea\n\n## Bob\n\n### Likes\n\n- tea\n- coffee\n",
        "# Ada\n\n## Likes\n\n- tea\n\n# Bob\n\n## Likes\n\n- tea\n",
        "# A\n\n## Ada\n\n### At home\n\n#### Likes\n\n- tea\n\n## Bob\n\n### At home\n\n#### LIKES\n\n- Tea.\n",
        "## 艾达\n\n### 喜欢\n\n- 喝茶\n\n## 鲍勃\n\n### 喜欢\n\n- 喝茶\n",
        "## Ада\n\n### Любит\n\n- чай\n\n## Боб\n\n### любит\n\n- чай\n",
        "## آدا\n\n### تحب\n\n- الشاي\n\n## بوب\n\n### تحب\n\n- الشاي\n",
        "## Ada\n\n### 2026-01-05\n\n- was ill\n\n## Bob\n\n### 2026-01-05\n\n- was ill\n",
        "## Meeting\n\n- Ada came\n\n## Meeting\n\n- Ada came\n",
        "## Ada\n\n- tea\n\n### Likes\n\n- tea\n",
    ],
)
def test_what_stands_under_another_path_of_headings_is_no_duplicate(keeper, text):
    assert text_of(distinct(blocks_of(text))) == text
    assert merged(text, [], 4000, COUNTER.text) == text
    assert judged(text, text) == text
    ours(keeper, text)
    keeper.append(["The Gull is late."])
    assert consolidated(keeper).after.startswith(text)


def test_what_is_said_twice_in_one_section_or_under_two_days_still_goes():
    twice = "## Ada\n\n- tea\n- Tea.\n\n## 2026-01-05\n\n- was ill\n\n## 2026-01-06\n\n- was ill\n"
    assert text_of(distinct(blocks_of(twice))) == "## Ada\n\n- tea\n\n## 2026-01-05\n\n- was ill\n\n## 2026-01-06\n"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("people", [("Ada", "Bob"), ("Bob", "Ada"), ("艾达", "鲍勃"), ("Ада", "Боб"), ("آدا", "بوب")])
@pytest.mark.parametrize("depth", [1, 2, 4])
def test_a_pinned_line_comes_back_in_its_own_section(people, depth, end):
    was = TWO.replace("Ada", people[0]).replace("Bob", people[1])
    was = was.replace("# People\n\n", "") if depth == 1 else was
    was = (
        was.replace("\n#", f"\n{'#' * (depth - 1)}#") if depth > 1 else was.replace("## ", "# ").replace("### ", "## ")
    )
    reply = was.replace(PINNED, "").replace("\n", end)
    assert judged(reply, was) == was
    assert judged(reply.replace("Likes", "LIKES"), was) == was.replace("Likes", "LIKES")


def test_the_same_pinned_line_of_two_people_comes_back_to_the_one_who_lost_it():
    was = TWO.replace("- walks\n", "- walks\n" + PINNED)
    for number in range(2):
        first, second, third = was.split(PINNED)
        reply = first + (PINNED if number else "") + second + ("" if number else PINNED) + third
        assert judged(reply, was) == was
    # Also where the other's is not pinned.
    was = TWO.replace("- walks\n", "- walks\n- coffee with cream\n")
    assert judged(was.replace(PINNED, ""), was) == was


def test_the_second_of_two_sections_of_one_name_keeps_its_line():
    was = "## Log\n\n- one long line about the crane\n\n## Log\n\n- another about the pier\n- keep me 📌\n"
    assert judged(was.replace("- keep me 📌\n", ""), was) == was
    # Where there is only one of them left, it is that.
    both = "## Log\n\n- one long line about the crane\n- another about the pier\n"
    assert above(judged(both, was), "keep me") == [("## Log",)]


@pytest.mark.parametrize(
    ("change", "under"),
    [
        # Its own subheading is gone: it is made again where it was.
        (("## Bob\n\n### Likes\n", "## Bob\n"), ("# People", "## Bob", "### Likes")),
        # The person has another name: what is Bob's does not become Ada's.
        (("## Bob", "## Robert"), ("# People", "## Bob", "### Likes")),
        # Another level, another title, none.
        (("# People\n\n## Ada", "# Friends\n\n## Ada"), ("# Friends", "## Bob", "### Likes")),
        (("# People\n\n", ""), ("## Bob", "### Likes")),
        (("# People\n", "# Memory\n\n# People\n"), ("# People", "## Bob", "### Likes")),
        (("## Bob\n\n### Likes", "## Friends\n\n### Bob\n\n#### Likes"), None),
    ],
)
def test_a_pinned_line_comes_back_where_headings_were_renamed_or_moved(change, under):
    reply = TWO.replace(PINNED, "").replace(*change)
    taken = judged(reply, TWO)
    (found,) = above(taken, "coffee with cream")
    assert found == (under or ("# People", "## Friends", "### Bob", "#### Likes"))
    assert judged(taken, taken) == taken
    assert set(reply.split("\n")) <= set(taken.split("\n"))


def test_a_heading_that_is_as_deep_as_what_belongs_below_it_holds_nothing_of_it():
    reply = TWO.replace(PINNED, "").replace("## Bob\n\n### Likes\n", "### Bob\n")
    taken = judged(reply, TWO)
    assert above(taken, "coffee with cream")[0][-1] == "### Likes"
    assert "Ada" not in "".join(above(taken, "coffee with cream")[0])


def test_a_pinned_heading_comes_back_over_its_own_lines():
    was = TWO.replace("## Bob\n\n### Likes", "## Bob\n\n### Likes [pinned]")
    assert judged(was.replace("### Likes [pinned]", "### Likes"), was) == was
    taken = judged(was.replace("\n### Likes [pinned]\n", ""), was)
    assert above(taken, "Likes [pinned]") == [("# People", "## Bob")]
    assert above(taken, "coffee") == [("# People", "## Bob", "### Likes [pinned]")]


def test_what_a_person_wrote_under_the_same_subheading_stays_theirs():
    person = prints_of("### Likes\n- old ships\n- chess")
    reply = TWO.replace("- old ships\n- chess\n", "").replace("- walks\n", "- walks\n- chess\n")
    taken = judged(reply, TWO, person=person)
    assert above(taken, "- chess") == above(taken, "old ships") == [("# People", "## Bob", "### Likes")]


LINES = st.sampled_from(
    ["# A", "## A", "### A", "# B", "## B", "## B [pinned]", "## 2026-01-05", "- x", "- x 📌", "- y", "- y  ", "z", ""]
)


@given(st.lists(LINES, max_size=20).map("\n".join), st.lists(LINES, max_size=20).map("\n".join), st.booleans())
@settings(max_examples=300, deadline=None)
def test_what_is_pinned_or_a_persons_is_never_lost_and_a_repeat_changes_nothing(was, reply, all_of_it):
    person = prints_of(was) if all_of_it else ()
    was = text_of(distinct(blocks_of(was), keep=person))
    once = judged(was, was, person=person)
    assert isinstance(once, Rejected) or once.rstrip() == was.rstrip()
    taken = judged(reply, was, person=person)
    if not isinstance(taken, Rejected):
        there = [block.text for block in blocks_of(taken)]
        for block in blocks_of(was):
            if block.pinned or (block.print in person and not block.level):
                assert block.text in there


# What of a reply is the file

OLD = """\
# Memory

## Home

- Ada lives in Rome.
- Ada drinks green tea.

## Work

- Ada is a harbour pilot.
- Her ship is the Gull.
"""
ENTRY = "Ada's dentist is Dr. Okafor."
GOOD = f"{OLD}- {ENTRY}\n"
FILE = "<memory_file>\n{}</memory_file>"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "reply",
    [
        f"{FILE.format(OLD)}\nWait, I forgot the dentist. Corrected:\n{FILE.format(GOOD)}",
        f"<memory_file>{OLD}</memory_file>\n\n等等，我漏了一条：\n\n<memory_file>\n{GOOD}\n</memory_file>\n完成。",
        f"{FILE.format('- a')}\nNo.\n{FILE.upper().format(OLD)}\nAgain:\n{FILE.title().format(GOOD)}",
        f'<memory_file path="MEMORY.md">\n{GOOD}</memory_file>',
        f"<memory_file path='MEMORY.md' version=2>\n{GOOD}\n</memory_file >",
        f"{GOOD}</memory_file>",
        f"{GOOD}\n</memory_file>\n\nLet me know if you need more.",
        f"</memory_file>\n{GOOD}\n</memory_file>",
        f"Here: <memory_file>{GOOD}</memory_file> I hope it fits.",
        f"<memory_file>\n{GOOD}</memory_file>\nIt stands between <memory_file> and </memory_file> as asked.",
    ],
)
def test_the_last_whole_file_of_a_reply_counts_and_no_tag_gets_in(reply, end):
    assert judged(reply.replace("\n", end), OLD, [ENTRY]) == GOOD


@pytest.mark.parametrize(
    "reply",
    [
        f"<memory_file>\n{GOOD}",
        f'<memory_file path="MEMORY.md">\n{GOOD}',
        f"<memory_file>\n{GOOD}\n<memory_file>\n",
        f"<memory_file>\n{OLD}</memory_file>\nCorrected:\n<memory_file>\n{GOOD}",
    ],
)
def test_a_file_without_an_end_is_refused(reply):
    assert isinstance(judged(reply, OLD, [ENTRY]), Rejected)


TRAILERS = [
    "**Compression applied:**\n- merged the dentist line into Work\n- kept all other lines\n",
    "**Compression applied**\n\n* merged the dentist line into Work\n* kept all other lines\n",
    "## Changes\n\n- Added the dentist.\n- Everything else is unchanged.\n",
    "---\n\n### CHANGES MADE\n\n- Ada's dentist\n",
    "**Was ich getan habe:**\n- den Zahnarzt in Work eingefügt\n",
    "## Änderungen\n\n- Zahnarzt hinzugefügt\n",
    "## 更改说明\n\n- 添加了牙医\n- 其余内容不变\n",
    "**合并说明：**\n- 已添加牙医\n",
    "## 変更点\n\n- 歯医者を追加\n",
    "## Изменения\n\n- Добавлен стоматолог\n",
    "## التغييرات\n\n- تمت إضافة طبيب الأسنان\n",
    "## Notes on this version\n\n- Merged one line, removed none.\n",
]


@pytest.mark.parametrize("wrap", ["{}", FILE, "```md\n{}```"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("trailer", TRAILERS)
def test_a_reply_that_tells_in_the_file_what_it_changed_is_refused(trailer, end, wrap):
    reply = wrap.format(f"{GOOD}\n{trailer}").replace("\n", end)
    assert isinstance(judged(reply, OLD, [ENTRY]), Rejected)


@pytest.mark.parametrize(
    "elision",
    [
        "[... unchanged ...]",
        "[... rest unchanged ...]",
        "- [... Rest Unchanged ...]",
        "...",
        "- …",
        "…（其余不变）",
        "（其余内容不变）",
        "(... остальное без изменений ...)",
        "[...der Rest bleibt...]",
        "<!-- ... existing lines ... -->",
        "<!-- the rest of the file is unchanged -->",
        "*(other sections unchanged)*",
        "_[weitere Zeilen wie oben …]_",
        "# ... (existing content)",
        "Everything else is unchanged.",
        "- All other lines remain as before.",
        "其余内容保持不变。",
        "その他の行は変更なし",
        "나머지는 그대로",
        "Остальные строки остаются без изменений.",
        "Alles andere bleibt unverändert.",
        "Le reste du fichier est inchangé.",
        "El resto del archivo sigue igual.",
        "باقي الملف كما هو",
    ],
)
@pytest.mark.parametrize("place", ["- Her ship is the Gull.\n", "- Ada drinks green tea.\n", f"- {ENTRY}\n"])
def test_a_reply_with_something_in_the_place_of_lines_is_refused(elision, place):
    for reply in (
        GOOD.replace(place, f"{elision}\n"),
        GOOD.replace(place, f"{place}{elision}\n"),
        f"{GOOD}\n{elision}",
    ):
        for said in (reply, f"<memory_file>\n{reply}\n</memory_file>", reply.replace("\n", "\r\n")):
            assert isinstance(judged(said, OLD, [ENTRY]), Rejected)


@pytest.mark.parametrize(
    "line",
    [
        "- ...",
        "[... unchanged ...]",
        "- Everything else is unchanged.",
        "## Changes\n\n- Added a berth",
        "**Done so far:**\n- merged the two piers",
        "- the docs: [Docs](https://example.com/a/...)",
        "- Ada\n  - ...",
    ],
)
def test_what_the_file_said_itself_may_look_so(line):
    was = f"{OLD}\n{line}\n"
    new = f"{GOOD}\n{line}\n"
    assert judged(was, was) == was
    assert judged(new, was, [ENTRY]) == new


@pytest.mark.parametrize(
    ("new", "entry"),
    [
        ("## Health\n\n- Ada's dentist is Dr. Okafor.", ENTRY),
        ("**Health:**\n- Ada's dentist is Dr. Okafor.", ENTRY),
        ("## Gesundheit\n\n- 艾达的牙医是奥卡福医生。", "Dr. Okafor treats Ada's teeth"),
        ("## Project changes\n\n- The crane was removed and a berth added.", "The crane was removed, a berth added"),
        ("- ...and Justice for All is her favourite record", "...and Justice for All is her favourite record"),
        ("- [Docs](https://example.com/v1/...) are hers", "Her docs: https://example.com/v1/..."),
        ("- The rest of the crew is the same as last year.", "The rest of the crew is the same as last year."),
        ("- 其他策略：先到先得", "其他策略：先到先得"),
        ("- .env holds the key of the pier", ".env holds the key of the pier"),
    ],
)
def test_what_is_new_may_be_of_changes(new, entry):
    assert judged(f"{OLD}\n{new}\n", OLD, [entry]) == f"{OLD}\n{new}\n"


@pytest.mark.parametrize("size", [200, 20_000])
@pytest.mark.parametrize("junk", ["[" + "." * 3, "<memory_file>\n", "</memory_file>", "(…", "**a:**\n", "… ", "- .."])
def test_odd_replies_are_judged_at_once(junk, size):
    assert isinstance(judged(GOOD + junk * (size // len(junk)), OLD, [ENTRY]), str | Rejected)


@pytest.mark.parametrize("reply", [f"{GOOD}\n{TRAILERS[0]}", GOOD.replace("- Her ship is the Gull.", "[...]")])
def test_such_a_reply_changes_nothing_and_the_entries_come_again(keeper, reply):
    ours(keeper, OLD)
    keeper.append([ENTRY])
    result = consolidated(keeper, reply)
    assert (result.outcome, keeper.memory_md()) == ("refused", OLD)
    assert consolidated(keeper, f"<memory_file>\n{GOOD}</memory_file>").after == GOOD


# Ledgers that somebody edits


def copied(keeper, *, on_top=False, end="\n"):
    """Copy the last line of the ledger together with its hidden id, and change it."""
    text = ledger(keeper).read_text()
    line = text.splitlines()[-1]
    copy = line.replace("Pier A is 9", "Pier B is 7")
    text = text.replace(line, f"{copy}\n{line}") if on_top else f"{text}{copy}\n"
    ledger(keeper).write_bytes(text.replace("\n", end).encode())


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("on_top", [True, False])
@pytest.mark.parametrize("with_model", [True, False])
def test_a_line_that_was_copied_with_its_id_and_changed_is_an_entry_too(keeper, on_top, end, with_model):
    keeper.append(["Pier A is 9 m deep."])
    copied(keeper, on_top=on_top, end=end)
    keeper.append(["Pier C is 5 m deep."])
    all_three = "- Pier A is 9 m deep.\n- Pier B is 7 m deep.\n- Pier C is 5 m deep.\n"
    result = consolidated(keeper, all_three if with_model else None)
    assert (result.outcome, result.entries) == ("written", 3)
    for depth in ("A is 9", "B is 7", "C is 5"):
        assert keeper.memory_md().count(f"Pier {depth} m deep.") == 1
    assert consolidated(keeper).outcome == "nothing"
    keeper.append(["Pier D is 4 m deep."])
    assert consolidated(keeper).entries == 1


def test_a_copy_of_a_line_that_is_done_is_merged_once(keeper):
    keeper.append(["Pier A is 9 m deep."])
    consolidated(keeper)
    copied(keeper)
    assert consolidated(keeper).entries == 1
    assert "Pier B is 7 m deep." in keeper.memory_md()
    assert consolidated(keeper).outcome == "nothing"
    keeper.append(["Pier C is 5 m deep."])
    assert consolidated(keeper).entries == 1


@pytest.mark.parametrize("done", [1, 2, RECENT - 1])
@pytest.mark.parametrize("added", [1, 3])
def test_what_was_added_above_what_is_done_is_merged_once(keeper, done, added):
    keeper.append([f"Fact number {number} of the evening" for number in range(done)])
    consolidated(keeper)
    head, rest = ledger(keeper).read_text().split("\n\n", 1)
    new = [f"- The pilot of pier {number} is Jonas.\n" for number in range(added)]
    ledger(keeper).write_text(f"{head}\n\n{''.join(new)}{rest}")
    taken = consolidated(keeper)
    # Where not all that is done is known any more, nothing is taken for new.
    assert taken.entries == (added if done + added <= RECENT else 0)
    assert consolidated(keeper).outcome == "nothing"
    keeper.append([f"Later fact number {number}" for number in range(2 * RECENT)])
    assert consolidated(keeper).entries == 2 * RECENT
    assert consolidated(keeper).outcome == "nothing"


def test_a_day_with_many_entries_is_not_taken_for_new(keeper):
    keeper.append([f"Fact number {number} of the evening" for number in range(3 * RECENT)])
    assert consolidated(keeper).entries == 3 * RECENT
    assert consolidated(keeper).outcome == "nothing"


# How a person writes


@pytest.mark.parametrize(
    "text", ["# A\r\n\r\nline with a hard break  \r\nnext\r\n", "# A\n\nbroken  \nnext\n- x  \n  y\n"]
)
@pytest.mark.parametrize("with_model", [True, False])
def test_line_ends_and_hard_breaks_of_a_person_stay(keeper, text, with_model):
    (keeper.folder.path / "memory").mkdir(parents=True)
    (keeper.folder.path / "MEMORY.md").write_bytes(text.encode())
    end = "\r\n" if "\r\n" in text else "\n"
    for entry in ("Ada has a cat.", "Bob has a dog."):
        keeper.append([entry])
        reply = f"<memory_file>\n{keeper.memory_md()}\n- {entry}\n</memory_file>".replace("  \n", "\n")
        assert consolidated(keeper, reply if with_model else None).outcome == "written"
        now = (keeper.folder.path / "MEMORY.md").read_bytes().decode()
        assert now.startswith(text)
        assert now.count("\n") == now.count(end)
        assert entry in now
    assert consolidated(keeper).outcome == "nothing"
