"""Notes that only look alike are kept apart: when one is taken in, when one is read, and when one is forgotten."""

from __future__ import annotations

import threading
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from langgraph_memory.cli.forgetting import places
from langgraph_memory.config import FlushConfig
from langgraph_memory.context.history import History
from langgraph_memory.longterm.flush import Flush
from langgraph_memory.longterm.folder import MEMORY, WorkspaceError
from langgraph_memory.longterm.forgetting import MARKS
from langgraph_memory.longterm.index import Index
from langgraph_memory.longterm.keeper import Keeper
from langgraph_memory.sidework import run
from tests.support.histories import THIRDS, ai, human
from tests.support.ledgers import pending

LOG = "memory/2031-04-12.md"
NOON = datetime(2031, 4, 12, 12)


@pytest.fixture
def keeper(tmp_path: Path) -> Keeper:
    return Keeper(tmp_path / "workspace", ("ada",))


def texts(keeper: Keeper) -> list[str]:
    return [row.entry.text for name in keeper.folder.names("memory") for row in keeper.rows(name)]


def note(text: str, minutes: float, **rest: Any) -> dict[str, Any]:
    return {"text": text, "timestamp": NOON + timedelta(minutes=minutes), **rest}


def merged(keeper: Keeper, text: str) -> None:
    """As after a merge of all there is, which left `text`."""
    names = [name for name in keeper.folder.names("memory") if keeper.rows(name)]
    keeper.write_state({"upto": {name: keeper.rows(name)[-1].entry.id for name in names}})
    keeper.replace_memory(text, was=keeper.memory_md())


def without_index(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise OSError("no index")

    monkeypatch.setattr(Index, "writing", fails)
    monkeypatch.setattr(Index, "reading", fails)


# What is true again


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("noise", [0, 40])
@pytest.mark.parametrize(
    ("rome", "oslo"),
    [
        ("Ada lives in Rome.", "Ada lives in Oslo."),
        ("艾达住在罗马。", "艾达住在奥斯陆。"),
        ("Ада живёт в Риме.", "Ада переехала в Осло."),
        ("عنوان آدا في روما", "عنوان آدا في أوسلو"),
    ],
)
def test_what_is_true_again_is_taken_in(keeper, monkeypatch, index, noise, rome, oslo):
    if not index:
        without_index(keeper, monkeypatch)
    keeper.append([note(f"other {n}", -60 + n / 10) for n in range(noise)])
    for minutes, text in enumerate((rome, oslo, rome, oslo)):
        assert [one.text for one in keeper.append(note(text, minutes))] == [text]
    assert texts(keeper)[noise:] == [rome, oslo, rome, oslo]


@pytest.mark.parametrize("minutes", [0.05, 1, 60 * 30])
def test_what_is_true_again_after_a_merge_is_taken_in(keeper, minutes):
    keeper.append(note("Ada lives in Rome.", 0))
    merged(keeper, "- Ada lives in Rome.\n")
    assert keeper.append(note("Ada lives in Rome.", minutes)) == []
    keeper.append(note("Ada lives in Oslo.", minutes))
    merged(keeper, "- Ada lives in Oslo.\n")
    assert len(keeper.append(note("Ada lives in Rome.", 2 * minutes))) == 1
    assert [row.entry.text for row in pending(keeper, keeper.state()["upto"])] == ["Ada lives in Rome."]


def test_what_memory_says_is_said_again_behind_something_newer(keeper):
    keeper.folder.replace(MEMORY, b"- Ada lives in Rome.\n")
    future = datetime.now() + timedelta(days=1)
    given = [{"text": f"Ada lives in {city}.", "timestamp": future} for city in ("Rome", "Oslo", "Rome")]
    given[2]["timestamp"] = future + timedelta(minutes=1)
    assert [len(keeper.append(one)) for one in given] == [0, 1, 1]


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("size", [1, 7])
def test_what_was_said_last_is_not_said_twice_however_late(keeper, monkeypatch, index, size):
    if not index:
        without_index(keeper, monkeypatch)
    batch = [f"fact {n}" for n in range(size)]
    keeper.append([note("before", 0), note("earlier", 0)])
    keeper.append([note(text, 1) for text in batch])
    assert keeper.append([note(text.upper(), 90) for text in batch]) == []
    assert texts(keeper) == ["before", "earlier", *batch]


@pytest.mark.parametrize("minutes", [-5, 0, 0.1])
def test_what_is_said_twice_at_once_or_not_later_is_said_once(keeper, minutes):
    keeper.append(note("Ada lives in Rome.", 0))
    keeper.append(note("Ada has a boat.", 0.05))
    assert keeper.append(note("ada lives in Rome", minutes)) == []


def test_the_same_messages_say_a_thing_once(keeper):
    about = {"thread": "t", "messages": ["m1", "m4"]}
    keeper.append([note("Ada lives in Rome.", 0, **about)])
    keeper.append(note("Ada has a boat.", 5))
    assert keeper.append(note("Ada lives in Rome.", 90, thread="t", messages=["m1"])) == []
    assert len(keeper.append(note("Ada lives in Rome.", 90, thread="t", messages=["m9"]))) == 1


def test_what_a_tool_returned_is_kept_once(keeper):
    keeper.append(note('weather("Rome") → sun', 0, type="tool_result"))
    keeper.append(note("Ada has a boat.", 5))
    assert keeper.append(note('weather("Rome") → sun', 90, type="tool_result")) == []


def test_many_at_once_take_in_what_is_true_again_once(keeper):
    keeper.append(note("Ada lives in Rome.", 0))
    keeper.append(note("Ada lives in Oslo.", 5))
    workspace = keeper.folder.workspace
    work = [
        threading.Thread(target=lambda: Keeper(workspace, ("ada",)).append(note("Ada lives in Rome.", 90)))
        for _ in range(8)
    ]
    for one in work:
        one.start()
    for one in work:
        one.join()
    assert texts(keeper) == ["Ada lives in Rome.", "Ada lives in Oslo.", "Ada lives in Rome."]


# What is the same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("5 °C is the lowest", "-5 °C is the lowest"),
        ("The lowest is 5", "- -5"),
        ("0.5 is the share", ".05 is the share"),
        ("The limit is 10⁵", "The limit is 105"),
        ("H₂O", "H2O"),
        ("Ada is vegan.", "Ada is vegan?"),
        ("艾达吃素。", "艾达吃素？"),
        ("Lan thích ăn bò.", "Lan thích ăn bơ."),
        ("Her name is Muller", "Her name is Müller"),
        ("año", "ano"),
        ("C", "C++"),
    ],
)
def test_what_differs_in_more_than_case_width_and_blanks_is_another_fact(keeper, one, other):
    assert [len(keeper.append(note(text, 0))) for text in (one, other, one, other)] == [1, 1, 0, 0]
    assert keeper.folder.size(LOG) and len(texts(keeper)) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ada prefers tea.", "- ADA  prefers\ttea"),
        ("The folder is /Data/in", "the folder is /data/in"),
        ("Ａda，tea！", "ada,tea"),
        ("ﾊﾟﾝが好き。", "パンが好き"),
        ("Her name is Mu\u0308ller", "“HER NAME IS MÜLLER”"),
        ("Ada's boat", "Ada’s boat"),
        ("5 °C is the lowest", "- 5 °C is the lowest"),
        ("-5 °C is the lowest", "* -5 °c is the lowest."),
    ],
)
def test_what_differs_in_case_width_and_blanks_only_is_the_same_fact(keeper, one, other):
    assert [len(keeper.append(note(text, 0))) for text in (one, other)] == [1, 0]


def test_a_text_of_many_marks_is_compared_in_the_time_it_needs(keeper):
    keeper.append([note("." * 200_000 + "a" + "." * 200_000 + "b", 0), note("." * 300_000, 0)])
    assert len(texts(keeper)) == 2


# What is forgotten by a word


@pytest.mark.parametrize(
    ("word", "goes", "stays"),
    [
        ("tea", ["Ada drinks tea.", "TEA!", "green_tea", "喝tea吧"], ["the platform team", "Ada eats steak.", "teas"]),
        ("Ana", ["Ana lives in Rome."], ["Diana lives in Oslo.", "Anatol"]),
        ("room 12", ["It is in room 12.", "Room\n12"], ["It is in room 125", "ballroom 12"]),
        ("1.2", ["version 1.2, of May"], ["it is 1.25", "it is 11.2"]),
        ("дом", ["Это дом."], ["домик", "в доме"]),
        ("राम", ["राम घर है", "यह राम।"], ["रामायण"]),
        ("بيت", ["هذا بيت"], ["بيتنا"]),
        ("dùng", ["Lan dùng máy.", "DÙNG"], ["anh Dũng ở Huế", "dung"]),
        ("dung", ["dung", "Lan dùng máy."], ["dungeon"]),
        ("İzmir", ["izmir", "İZMİR"], ["izmirli"]),
        ("café", ["CAFE\u0301 noir"], ["cafe noir", "cafés"]),
        ("王芳", ["我是王芳啊", "王芳"], ["王小芳"]),
        ("ชาเขียว", ["ฉันดื่มชาเขียวร้อน"], ["ฉันดื่มน้ำ"]),
        ("I like tea", ["I like tea in the morning", '{"x": "I like\\ntea"}'], ["I like teas", "we like tea"]),
    ],
)
def test_a_word_is_forgotten_where_it_is_one(keeper, word, goes, stays):
    keeper.append([note(f"{text} · {n}", 0) for n, text in enumerate([*stays, *goes])])
    keeper.folder.replace(MEMORY, "".join(f"- {' '.join(text.split())}\n" for text in [*goes, *stays]).encode())
    assert len(places(keeper, word)) >= 2 * len(goes)
    assert keeper.forget(word) == 2 * len(goes)
    assert texts(keeper) == [f"{text} · {n}" for n, text in enumerate(stays)]
    assert keeper.memory_md() == "".join(f"- {text}\n" for text in stays)


# Lists


@pytest.mark.parametrize("indent", ["", " ", "  ", "    ", "\t"])
@pytest.mark.parametrize("bullet", ["-", "*", "1."])
@pytest.mark.parametrize("size", [3, 300])
def test_items_of_a_list_are_entries_however_far_it_is_indented(keeper, indent, bullet, size):
    lines = [f"{indent}{bullet} fact number {n}" for n in range(size)]
    keeper.folder.replace(MEMORY, "\n".join(["# People", "", *lines, ""]).encode())
    assert [row.entry.text for row in keeper.rows(MEMORY)] == [f"fact number {n}" for n in range(size)]
    assert keeper.forget("fact number 1") == 1
    assert keeper.memory_md() == "\n".join(["# People", "", lines[0], *lines[2:], ""])


NESTED = "# People\n\n- Bob\n  - likes tea\n    - green\n  - eats nuts\n\n    - in May\n- Mia\n\t- has a cat\n"


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("likes tea", "  - likes tea\n    - green\n"),
        ("green", "    - green\n"),
        ("in May", "    - in May\n"),
        ("eats nuts", "  - eats nuts\n\n    - in May\n"),
        ("has a cat", "\t- has a cat\n"),
        ("Bob", "- Bob\n  - likes tea\n    - green\n  - eats nuts\n\n    - in May\n"),
        ("Mia", "- Mia\n\t- has a cat\n"),
    ],
)
@pytest.mark.parametrize("indent", ["", "  "])
def test_of_a_list_in_a_list_goes_what_is_said_and_what_is_below_it(keeper, text, gone, indent):
    def shifted(said: str) -> str:
        return "".join(indent + line if line.strip() else line for line in said.splitlines(keepends=True))

    keeper.folder.replace(MEMORY, shifted(NESTED).encode())
    assert keeper.forget(text) == 1
    assert keeper.memory_md() == shifted(NESTED).replace(shifted(gone), "")


def test_two_items_below_one_go_and_the_rest_stays(keeper):
    keeper.folder.replace(MEMORY, b"- Bob\n  - old tea\n  - milk\n  - new tea\n")
    assert keeper.forget("tea") == 2
    assert keeper.memory_md() == "- Bob\n  - milk\n"


def test_an_entry_of_ours_goes_as_a_whole(keeper):
    keeper.append([note("Bob\n- likes tea\n- likes milk", 0), note("other", 0)])
    assert keeper.forget("likes tea") == 1
    assert texts(keeper) == ["other"]


# Lost indexes


def flush(keeper: Keeper, messages: list[BaseMessage], thread: str = "t") -> int:
    rows = History.of(messages, THIRDS)
    work = Flush(keeper, thread, rows, FlushConfig(), counter=THIRDS, has_model=False, force=True)
    run(work, None, seconds=10)
    return work.result.messages


def lose_index(keeper: Keeper) -> None:
    keeper.close()
    for file in keeper.folder.path.glob("index.db*"):
        file.unlink()


TALK = [
    human("Remember that my door code is kestrel blue.", "m1"),
    ai("I will.", id="m2"),
    human("Remember that my boat is the Gull.", "m3"),
    human("Remember that my door code is kestrel blue.", "m4"),
]


@pytest.mark.parametrize(("lost_before", "size"), [(False, 1), (False, 4), (True, 1), (True, 3)])
@pytest.mark.parametrize("thread", ["t", "тред-1", "線程"])
def test_what_was_forgotten_stays_so_without_the_index(keeper, lost_before, size, thread):
    assert flush(keeper, TALK[:size], thread) == size
    if lost_before:
        lose_index(keeper)
    assert keeper.forget("kestrel blue") >= 1
    assert "kestrel" not in keeper.folder.bytes_of(MARKS).decode()
    for _ in range(2):
        lose_index(keeper)
        flush(keeper, [*TALK[:size], human("Remember that my cat is Tom.", "m9")], thread)
        assert not [text for text in texts(keeper) if "kestrel" in text]
        assert [text for text in texts(keeper) if "Tom" in text]
        keeper.forget("nothing of this")


def test_a_file_of_marks_that_cannot_be_read_costs_nothing_but_them(keeper):
    flush(keeper, TALK)
    keeper.folder.replace(MARKS, b"\xff{")
    assert keeper.forget("kestrel blue") >= 1
    assert flush(keeper, TALK) == 0


def test_a_preview_shows_text_only(keeper):
    flush(keeper, TALK)
    assert {place.path for place in places(keeper, "kestrel blue")} == {f"memory/{date.today()}.md"}
    assert keeper.folder.bytes_of(MARKS) is None


# Places and times


def test_a_place_is_read_as_a_search_names_it(keeper):
    keeper.append([note(f"fact {n}", 0) for n in range(9)])
    keeper.folder.replace(MEMORY, b"a\nb\nc\nd\n")
    (hit,) = keeper.search("fact 7", 1)
    assert keeper.get(f"{hit.path}:{hit.line}").split("\n")[0].endswith("fact 7")
    assert keeper.get("MEMORY.md:2-3") == "b\nc" == keeper.get("./MEMORY.md:2-3")
    assert keeper.get("MEMORY.md:2", 3, 3) == "c"
    assert keeper.get("MEMORY.md:3") == "c\nd\n"
    for path in ("MEMORY.md:", "MEMORY.md:x", "MEMORY.md:1:2", "../MEMORY.md:1", "notes.txt:1"):
        with pytest.raises(WorkspaceError):
            keeper.get(path)


@pytest.mark.parametrize("name", [LOG, MEMORY])
@pytest.mark.parametrize("line", ["18:30 last ferry to Gull island", "07:45:00 поезд в Берн", "09:00 会议"])
@pytest.mark.parametrize("bullet", ["- ", "", "  * "])
def test_the_time_that_a_person_wrote_is_a_part_of_what_is_said(keeper, name, line, bullet):
    keeper.folder.replace(name, f"# Times\n\n{bullet}{line}\n".encode())
    assert [row.entry.text for row in keeper.rows(name)] == [line]
    assert [hit.text for hit in keeper.search(line.split()[0])] == [line]


def test_the_time_of_an_entry_of_ours_is_no_part_of_it(keeper):
    keeper.append(note("18:30 last ferry", 0))
    assert texts(keeper) == ["18:30 last ferry"]
    assert keeper.search("12:00") == []
