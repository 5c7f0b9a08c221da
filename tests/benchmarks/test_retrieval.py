"""What is measured of a search: the sets, on conversations small enough to be read; and that the promise holds."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.retrieval import SETS, crosswoz, locomo, matching, memorybank, recall, recall_lines, speed, speed_lines
from tests.support.data import needs_recordings

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

CHAT: dict[str, Any] = {
    "id": "c",
    "messages": [{"role": "user", "content": text} for text in ("Hello Ada", "I moved to Oslo", "Nice", "It is cold")],
    "turn_ids": ["D1:1", "D1:2", "D2:1", "D2:2"],
    "turn_times": ["1:56 pm on 8 May, 2023"] * 2 + ["9:00 am on 9 May, 2023"] * 2,
    "qa": [
        {"question": "Where did Ada move?", "evidence": ["D1:2", "D9:9"], "category": 4},
        {"question": "What did Bob say?", "evidence": ["D1:1"], "category": 5},
        {"question": "Who?", "evidence": ["D9:9"], "category": 1},
    ],
}
TOLD = {"results": [{"名称": "四川人家", "电话": "87163077", "评分": 4.0, "地铁": "无"}, "出租"]}
TRIP: dict[str, Any] = {
    "messages": [
        {"role": "user", "content": "87163077是哪里的电话？"},
        {"role": "assistant", "content": "", "tool_calls": []},
        {"role": "tool", "content": json.dumps(TOLD)},
        {"role": "assistant", "content": "是四川人家。"},
        {"role": "user", "content": "电话87163077？"},
        {"role": "assistant", "content": "电话是87163077。"},
    ],
}
DIARY: dict[str, Any] = {
    "lang": "zh",
    "messages": [{"role": "user", "content": text} for text in ("我在看《活着》", "好看吗？", "《活着》很好")],
    "turn_times": ["2023-04-27"] * 3,
    "qa": [{"question": "《活着》讲了什么？"}, {"question": "我喜欢什么？"}],
}


def test_questions_of_locomo_are_those_with_evidence_that_can_be_answered() -> None:
    first, second = locomo([CHAT, CHAT])
    assert [(question.text, question.evidence, question.half) for question in first.questions] == [
        ("Where did Ada move?", frozenset({1}), 0)
    ]
    assert second.questions[0].half == 1
    assert first.turns[1] == "I moved to Oslo"
    assert (first.times[0].hour, first.times[2].day) == (13, 9)


def test_a_value_is_asked_for_where_the_wizard_told_it() -> None:
    (memory,) = crosswoz([TRIP])
    assert len(memory.turns) == 4
    assert [(question.text, question.evidence) for question in memory.questions] == [
        ("四川人家的电话是什么？", frozenset({3}))
    ]


def test_titles_are_asked_for_and_so_are_probes_with_one() -> None:
    (memory,) = memorybank([DIARY, {**DIARY, "lang": "en"}])
    assert len(memory.turns) == 3
    assert [question.evidence for question in memory.questions] == [frozenset({0, 2})] * 2
    assert memory.questions[1].text == "《活着》讲了什么？"


@pytest.mark.parametrize(
    ("question", "expected"),
    [("Where did Ada move?", '"ada" OR "move"'), ("Who is it?", '"who" OR "is" OR "it"'), ("a \"b'", '"b"'), ("?", "")],
)
def test_the_query_of_the_others_is_their_words(question: str, expected: str) -> None:
    assert matching(question) == expected


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name, record in (("locomo", CHAT), ("crosswoz_zh", TRIP), ("memorybank", DIARY)):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(record) + "\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("name", SETS)
def test_every_contender_is_asked_or_said_not_to_be_there(name: str, data: Path) -> None:
    found = recall(name, data)
    shares = {row.name: row.recall for row in found.rows}
    assert shares["substring"] == 0
    assert shares["ours"] == 1
    assert [row.name for row in found.rows] == list(SETS[name][2])
    assert len(list(recall_lines(found))) == len(found.rows) + 1


def test_speed_is_told_beside_plain_full_text_search(data: Path) -> None:
    longer = {**CHAT, "messages": [{"role": "user", "content": f"Sentence {n} about Oslo and Ada."} for n in range(4)]}
    (data / "locomo.jsonl").write_text(json.dumps(longer) + "\n", encoding="utf-8")
    result = speed(data, entries=200)
    assert {row.name for row in result.rows} == {"ours", "FTS5 porter", "Python scan"}
    assert set(result.extends) == {100, 200}
    assert len(list(speed_lines(result))) == 6


def test_the_command_prints_and_writes(data: Path) -> None:
    file = data / "out.json"
    ran = CliRunner().invoke(app, ["retrieval", str(data), "--entries", "0", "--json", str(file)])
    assert ran.exit_code == 0, ran.output
    assert "LoCoMo: 4 turns, 1 questions" in ran.output
    assert len(json.loads(file.read_text())["recall"]) == len(SETS)
    assert CliRunner().invoke(app, ["retrieval", "--set", "Nothing"]).exit_code == 2


@needs_recordings
def test_recall_is_what_is_promised() -> None:
    shares = {row.name: row.recall or 0.0 for row in recall("LoCoMo").rows}
    assert round(shares["FTS5 porter"], 3) == 0.536
    assert shares["substring"] == 0
    assert shares["ours"] >= 0.70
    assert shares["ours"] >= shares["FTS5 porter, no stop words"] + 0.08


@needs_recordings
@pytest.mark.parametrize("name", ["CrossWOZ", "MemoryBank"])
def test_in_chinese_more_is_found_than_by_others(name: str) -> None:
    shares = {row.name: row.recall or 0.0 for row in recall(name).rows}
    assert shares.pop("ours") > max(shares.values())
