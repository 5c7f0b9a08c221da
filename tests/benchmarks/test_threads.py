"""What is timed: threads that every contender keeps whole, and figures for each of them."""

from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from benchmarks.threads import CAP, KINDS, Kind, elsewhere, lines, made, measure, measure_recording, opened, recorded

NAMES = [kind.name for kind in KINDS]


def asks(number: int) -> AIMessage:
    return AIMessage(
        "", tool_calls=[{"name": "count", "args": {"file": number}, "id": f"call-{number}"}], id=f"a{number}"
    )


def counted(number: int) -> ToolMessage:
    return ToolMessage(f"{number} words", tool_call_id=f"call-{number}", id=f"t{number}")


@pytest.fixture
def conversation() -> list[BaseMessage]:
    return [
        HumanMessage("Count the words.", id="h1"),
        *(message for number in range(3) for message in (asks(number), counted(number))),
        AIMessage("Done.", id="end"),
        HumanMessage("And of the other file?", id="h2"),
        asks(7),
        counted(7),
        HumanMessage("Stop, I know it.", id="h3"),
        AIMessage("All right.", id="end3"),
    ]


async def kept(kind: Kind, path: Path, turns: list[BaseMessage]) -> list[str | None]:
    async with opened(kind, path) as contender:
        for turn in recorded(turns):
            await contender.take(turn)
        (found,) = [one async for one in contender.saver.alist({"configurable": {"thread_id": "t-1"}}, limit=1)]
        graph_state = await contender.graph.aget_state(found.config)
        return [message.id for message in graph_state.values["messages"]]


def test_a_turn_ends_where_no_tool_is_called_or_a_person_speaks_up(conversation: list[BaseMessage]) -> None:
    turns = recorded(conversation)
    assert [[m.id for m in turn.given] for turn in turns] == [["h1"], ["h2"], ["h3"]]
    assert [len(turn.replies) for turn in turns] == [7, 2, 1]


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
async def test_every_contender_keeps_the_whole_recording(
    kind: Kind, tmp_path: Path, conversation: list[BaseMessage]
) -> None:
    found = [one for one in await kept(kind, tmp_path / "t.db", conversation) if one in {m.id for m in conversation}]
    assert found == [message.id for message in conversation]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.begins_late(CAP + 1)], ids=lambda kind: kind.name)
async def test_a_thread_that_is_begun_near_its_end_is_as_long(kind: Kind, tmp_path: Path) -> None:
    turns = made(6)
    async with opened(kind, tmp_path / "t.db") as contender:
        await contender.begin(turns[:5])
        await contender.take(turns[5])
        state = await contender.graph.aget_state({"configurable": {"thread_id": "t-1"}})
    assert [m.id for m in state.values["messages"]] == [m.id for t in turns for m in (*t.given, *t.replies)]


def test_everybody_is_measured_at_every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.threads.CAP", 4)
    monkeypatch.setattr("benchmarks.threads.LAST", 2)
    monkeypatch.setattr("benchmarks.threads.SHORT", 3)
    result = measure([6, 3, 4], memory=False)
    assert [(size.turns, size.messages) for size in result.sizes] == [(3, 6), (4, 8), (6, 12)]
    assert [[row.name for row in size.rows] for size in result.sizes] == [NAMES] * 3
    assert all(row.milliseconds > 0 for size in result.sizes for row in size.rows)
    without = {row.name for row in result.sizes[-1].rows if row.bytes is None}
    assert without == {"plain", "plain, delta", "in memory", "ours, delta", "ours, memory"}
    assert {row.name for row in result.sizes[0].rows if row.bytes is None} == {"in memory"}
    assert {row.name for row in result.sizes[-1].rows if row.newest is None} == {"in memory"}
    assert result.short and result.short.long_turns == 6
    assert len(list(lines(result))) == 3 * (2 + len(KINDS)) + 3


def test_a_recording_is_measured_once(conversation: list[BaseMessage]) -> None:
    result = measure_recording("made", conversation, memory=False)
    assert [(size.turns, size.messages) for size in result.sizes] == [(3, len(conversation))]
    assert result.short is None


def test_another_process_can_take_up_a_thread(tmp_path: Path) -> None:
    kind = next(kind for kind in KINDS if kind.name == "ours")
    peak = elsewhere(kind, tmp_path / "t.db", made(2))
    assert peak is None or peak >= 0
