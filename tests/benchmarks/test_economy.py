"""The ruler, on cases small enough to be counted by hand; and that each policy is what it says it is."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.economy import compare, measure
from benchmarks.peers import POLICIES, DeepAgents, LangChain, LangMem, Ours, Policy, Raw, Setting
from benchmarks.recordings import Recording, read_recordings
from benchmarks.ruler import Silence, Tally, halves, shared_front, shows_request, verbatim_share
from benchmarks.summariser import ScriptedSummariser
from benchmarks.texts import count_text, encoding, fingerprint, message_tokens, text_of
from tests.support.data import data_dir, needs_recordings

WINDOW = 4_000
REQUEST = "Find out why the nightly build has been failing since Tuesday, and mend it without touching the tests."
PEERS = [name for name in POLICIES if name != "raw"]


@pytest.fixture(scope="module", autouse=True)
def _ranks() -> None:
    """They are read from files, which no event loop should wait for."""
    encoding()


@pytest.fixture
def peer(request: pytest.FixtureRequest) -> str:
    """The name of a policy whose package is there."""
    name: str = request.param
    if name in ("deepagents", "langmem"):
        pytest.importorskip(name, exc_type=ImportError)
    return name


def calls(id: str, text: str = "") -> AIMessage:
    return AIMessage(text, tool_calls=[{"name": "read", "args": {"path": id}, "id": id}], id=f"ai-{id}")


def result(id: str, text: str = "done") -> ToolMessage:
    return ToolMessage(text, tool_call_id=id, id=f"tool-{id}")


def chat(turns: int) -> list[BaseMessage]:
    """Short turns: a human message and its answer."""
    return [
        message
        for turn in range(turns)
        for message in (
            HumanMessage(f"{turn} is asked about here", id=f"human-{turn}"),
            AIMessage(f"{turn} is answered here", id=f"ai-{turn}"),
        )
    ]


def agent_run(steps: int) -> list[BaseMessage]:
    """One long turn, about 200 tokens a step."""
    messages: list[BaseMessage] = [SystemMessage("You mend builds.", id="system"), HumanMessage(REQUEST, id="request")]
    for step in range(steps):
        output = " ".join(f"{step}-{line} module{line} passed" for line in range(20))
        messages += [calls(f"file{step}", f"Step {step}: looking further."), result(f"file{step}", f"{step}: {output}")]
    return [*messages, AIMessage("It is mended.", id="end")]


class Dictated(Policy):
    """A policy that is told what to do with the history."""

    def __init__(self, choose: Callable[[list[BaseMessage]], list[BaseMessage]]) -> None:
        self._choose = choose

    def __call__(self, setting: Setting) -> "Dictated":
        return self

    async def view(self, history: Sequence[BaseMessage]) -> list[BaseMessage]:
        return self._choose(list(history))


class Summarises(Policy):
    """Has everything but the newest message summarised before each call."""

    def __init__(self, setting: Setting) -> None:
        self._model = setting.model

    async def view(self, history: Sequence[BaseMessage]) -> list[BaseMessage]:
        summary = await self._model.ainvoke(list(history[:-1]))
        return [HumanMessage(summary.content), history[-1]]


class BuysAhead(Policy):
    """Buys one summary while the model answers the first call, and shows it from call `used` on."""

    def __init__(self, used: int) -> None:
        self._used, self._calls, self._model = used, 0, ScriptedSummariser()

    def __call__(self, setting: Setting) -> "BuysAhead":
        self._model = setting.model
        return self

    async def view(self, history: Sequence[BaseMessage]) -> list[BaseMessage]:
        self._calls += 1
        return [HumanMessage("a summary"), *history[2:]] if self._calls >= self._used else list(history)

    async def rest(self) -> None:
        if self._calls == 1:
            await self._model.ainvoke("Summarise.")


def tally_of(make: Any, conversation: list[BaseMessage], window: int = WINDOW) -> Tally:
    tally = Tally()
    measure(make, [conversation], window, tally)
    return tally


def tokens(messages: Sequence[BaseMessage]) -> int:
    return sum(map(message_tokens, messages))


# Cost


def test_a_view_that_only_grows_is_read_anew_only_where_it_has_grown() -> None:
    talk = chat(3)
    tally = tally_of(Raw, talk)
    assert (tally.calls, tally.breaks) == (3, 0)
    assert tally.sent == tokens(talk[:1]) + tokens(talk[:3]) + tokens(talk[:5])
    assert tally.uncached == tally.largest == tokens(talk[:5])
    assert tally.cost == round(tally.uncached + 0.1 * (tally.sent - tally.uncached))


def test_a_view_that_drops_its_first_message_shares_nothing_with_the_one_before() -> None:
    tally = tally_of(Dictated(lambda history: history[-1:]), chat(3))
    assert tally.breaks == 2
    assert tally.uncached == tally.sent == tally.cost


def test_what_the_summariser_reads_and_writes_is_paid_for() -> None:
    talk = chat(2)
    tally = tally_of(Summarises, talk)
    prompts = ["", "\n".join(map(text_of, talk[:2]))]
    assert tally.summaries == 2
    assert tally.summary_input == sum(map(count_text, prompts))
    assert tally.summary_output > 0
    read = tally.uncached + 0.1 * (tally.sent - tally.uncached)
    assert tally.cost == round(read + tally.summary_input + tally.summary_output)


def test_a_summary_bought_ahead_is_paid_for_with_the_call_that_uses_it() -> None:
    tally = tally_of(BuysAhead(used=3), chat(4))
    assert (tally.summaries, tally.breaks, tally.unused) == (1, 1, 0)
    assert tally.summary_input == count_text("Summarise.")
    assert tally.summary_output > 0


@pytest.mark.parametrize("turns", [1, 4])
def test_a_summary_bought_for_a_call_that_never_comes_is_told_apart(turns: int) -> None:
    tally = tally_of(BuysAhead(used=9), chat(turns))
    assert (tally.summaries, tally.summary_input, tally.summary_output) == (0, 0, 0)
    assert tally.unused > count_text("Summarise.")


def test_a_conversation_starts_without_a_cached_prefix() -> None:
    tally, talk = Tally(), chat(1)
    measure(Raw, [talk, talk], WINDOW, tally)
    assert (tally.calls, tally.uncached) == (2, 2 * tokens(talk[:1]))


@pytest.mark.parametrize(
    ("before", "now", "shared"),
    [([], [1], 0), ([1, 2], [1, 2, 3], 2), ([1, 2, 3], [1, 2], 2), ([1, 2, 3], [1, 9, 3], 1), ([1], [], 0)],
)
def test_two_views_share_what_both_begin_with(before: list[Any], now: list[Any], shared: int) -> None:
    assert shared_front(before, now) == shared


def test_the_fingerprint_is_what_a_provider_is_sent_of_a_message() -> None:
    assert fingerprint(calls("a")) == fingerprint(calls("a").model_copy(update={"id": "other"}))
    assert fingerprint(calls("a")) != fingerprint(calls("b"))
    assert fingerprint(result("a")) != fingerprint(result("b"))
    assert fingerprint(HumanMessage("yes")) != fingerprint(AIMessage("yes"))
    assert fingerprint(HumanMessage([{"type": "text", "text": "yes"}])) == fingerprint(HumanMessage("yes"))


# Losses


def test_calls_above_the_window_are_counted() -> None:
    talk = chat(3)
    assert tally_of(Raw, talk, tokens(talk[:3])).over == 1
    assert tally_of(Raw, talk, tokens(talk[:3]) - 1).over == 2


@pytest.mark.parametrize(
    ("view", "found"),
    [
        ([calls("a"), result("a")], 0),
        ([calls("a")], 1),
        ([result("a")], 1),
        ([calls("a"), HumanMessage("wait"), result("a")], 2),
        ([calls("a"), result("b")], 2),
        ([calls("a"), result("a"), result("a")], 1),
    ],
)
def test_a_call_or_a_result_without_its_other_half_is_found(view: list[BaseMessage], found: int) -> None:
    assert halves(view) == found


def test_a_call_with_several_halves_missing_counts_once() -> None:
    orphans = [result("a"), result("b")]
    assert tally_of(Dictated(lambda history: [*history, *orphans]), chat(1)).invalid == 1


@pytest.mark.parametrize(
    ("view", "shown"),
    [
        ([HumanMessage(REQUEST)], True),
        ([HumanMessage([{"type": "text", "text": "summary"}, {"type": "text", "text": REQUEST}])], True),
        ([HumanMessage(f'{REQUEST[:80]} … [trimmed: recall("msg:request")]')], True),
        ([HumanMessage(REQUEST[:80])], False),
        ([AIMessage(REQUEST)], False),
        ([], False),
    ],
)
def test_the_request_is_shown_whole_or_as_a_preview_that_can_be_recalled(view: list[BaseMessage], shown: bool) -> None:
    history = [HumanMessage("Hello"), AIMessage("Hello"), HumanMessage(REQUEST), AIMessage("I am at it")]
    assert shows_request(history, view) is shown


def test_a_history_without_a_request_loses_none() -> None:
    assert shows_request([SystemMessage("You wait.")], [])


def test_of_the_newest_messages_the_share_that_stands_there_word_for_word_is_measured() -> None:
    history = chat(4)
    newest, older = tokens(history[-2:]), tokens(history[-4:-2])
    room = newest + older
    assert verbatim_share(history, history, room) == 1
    assert verbatim_share(history, history[-2:], room) == newest / room
    assert verbatim_share(history, history[:-2], room) == older / room
    assert verbatim_share(history, [], room) == 0


def test_a_message_that_only_partly_belongs_to_the_newest_counts_with_that_part() -> None:
    history = chat(2)
    whole = tokens(history[-1:])
    assert verbatim_share(history, history[-1:], whole + 3) == whole / (whole + 3)
    assert verbatim_share(history, history[-2:-1], whole + 3) == 3 / (whole + 3)


def test_the_share_is_measured_only_where_the_history_takes_most_of_the_window() -> None:
    talk = chat(3)
    forgets = Dictated(lambda history: history[-1:])
    assert tally_of(forgets, talk, 10 * tokens(talk)).recent == []
    assert len(tally_of(forgets, talk, tokens(talk[:5])).recent) == 1
    assert tally_of(Raw, talk, tokens(talk[:5])).recent == [1.0]


def test_the_tenth_percentile_is_a_value_that_was_measured() -> None:
    tally = Tally(recent=[index / 20 for index in range(20, 0, -1)])
    assert tally.recent_p10 == 3 / 20
    assert (Tally().recent_mean, Tally().recent_p10) == (1, 1)


def test_what_leaves_the_view_without_a_summary_is_silent() -> None:
    tally = tally_of(Dictated(lambda history: history[-1:]), chat(4))
    assert tally.silent_most == 6
    assert tally.silent_calls == 3
    assert tally.silent_share == 3 / 4


def test_what_the_summariser_was_given_is_not_silent() -> None:
    tally = tally_of(Summarises, chat(4))
    assert (tally.silent_most, tally.silent_calls) == (0, 0)
    assert tally.lost == 0


def test_what_was_summarised_once_stays_known_and_what_came_later_does_not() -> None:
    silence, talk = Silence(), chat(3)
    silence.read(talk[:2], ["\n".join(map(text_of, talk[:2]))])
    assert silence.gone(talk, []) == talk[2:]


def test_a_message_told_in_the_text_of_another_is_not_silent() -> None:
    message = HumanMessage('Is "a < b" true?', id="human")
    assert Silence().gone([message], []) == [message]
    assert Silence().gone([message], [HumanMessage("<log>Is &quot;a &lt; b&quot; true?</log>")]) == []


def test_a_message_without_text_cannot_be_silent() -> None:
    assert Silence().gone([AIMessage("", id="blank")], []) == []


# Policies


@pytest.mark.parametrize("peer", PEERS, indirect=True)
def test_a_policy_goes_through_a_long_turn_and_summarises(peer: str) -> None:
    tally = tally_of(POLICIES[peer], agent_run(40))
    assert tally.calls == 41
    assert tally.summaries > 0
    assert tally.invalid == 0
    assert tally.sent < tally_of(Raw, agent_run(40)).sent


@pytest.mark.parametrize("peer", ["langchain", "deepagents", "langmem"], indirect=True)
def test_others_lose_the_request_of_a_long_turn(peer: str) -> None:
    assert tally_of(POLICIES[peer], agent_run(40)).lost > 0


def test_ours_loses_nothing_on_a_long_turn() -> None:
    tally = tally_of(Ours, agent_run(40))
    assert (tally.lost, tally.silent_most, tally.over, tally.invalid) == (0, 0, 0, 0)
    assert tally.largest > WINDOW / 2, "a view that is nearly empty would prove nothing"


@pytest.mark.parametrize("peer", PEERS, indirect=True)
def test_the_figures_of_a_policy_are_the_same_each_time(peer: str) -> None:
    once, twice = (tally_of(POLICIES[peer], agent_run(30)).to_json() for _ in range(2))
    assert {**once, "ms_per_call": 0} == {**twice, "ms_per_call": 0}


async def last_view(policy: Policy, conversation: list[BaseMessage]) -> list[BaseMessage]:
    """Plays a conversation; the last view."""
    view: list[BaseMessage] = []
    for position, message in enumerate(conversation):
        if isinstance(message, AIMessage):
            await policy.rest()
            view = await policy.view(conversation[:position])
    return view


@pytest.fixture
def our_policy(setting: Setting) -> Ours:
    # Made outside the event loop: the name of the tokenizer is looked up in files.
    return Ours(setting)


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(ScriptedSummariser(profile={"max_input_tokens": WINDOW}), WINDOW, tmp_path)


async def test_langchain_removes_what_it_summarised_from_its_state(setting: Setting) -> None:
    policy, conversation = LangChain(setting), agent_run(40)
    view = await last_view(policy, conversation)
    held = {message.id for message in policy.state}
    assert len(held) < len(conversation) / 2
    assert "request" not in held
    assert view[0] == conversation[0]
    assert tokens(view) <= WINDOW


async def test_deepagents_keeps_an_event_and_the_history_in_files(setting: Setting) -> None:
    pytest.importorskip("deepagents", exc_type=ImportError)
    policy = DeepAgents(setting)
    await last_view(policy, agent_run(40))
    assert policy.state["_summarization_event"]["cutoff_index"] > 0
    (file,) = setting.folder.rglob("*.md")
    assert REQUEST in file.read_text(encoding="utf-8")


async def test_langmem_keeps_a_running_summary(setting: Setting) -> None:
    pytest.importorskip("langmem", exc_type=ImportError)
    policy = LangMem(setting)
    view = await last_view(policy, agent_run(40))
    summary = policy.context["running_summary"]
    assert "request" in summary.summarized_message_ids
    assert summary.summary in view[1].text


async def test_ours_keeps_a_record_of_decisions(our_policy: Ours) -> None:
    view = await last_view(our_policy, agent_run(40))
    assert our_policy.record["ns"][""]["summary"]["count"] > 0
    assert REQUEST in view[1].text


def test_a_policy_that_fails_says_so_instead_of_showing_figures() -> None:
    def fail(history: list[BaseMessage]) -> list[BaseMessage]:
        raise ValueError("no more")

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(POLICIES, "failing", Dictated(fail))
        failing, raw = compare(Recording("made", [chat(2)]), ["failing", "raw"], WINDOW)
    assert failing.to_json()["error"] == "ValueError: no more"
    assert "cost" not in failing.to_json()
    assert raw.to_json()["calls"] == 2


# Recordings and the command


@needs_recordings
@pytest.mark.parametrize(
    ("name", "conversations", "figures"),
    [
        ("misc_agents", 3, {"calls": 23, "cost": 13_746, "sent": 26_473, "largest": 10_750}),
        ("memorybank", 20, {"calls": 764, "cost": 206_656, "sent": 1_386_523, "largest": 6_844}),
    ],
)
def test_the_whole_history_of_a_recording_costs_what_it_always_did(
    name: str, conversations: int, figures: dict[str, int]
) -> None:
    (recording,) = read_recordings(data_dir(), [name])
    assert len(recording.conversations) == conversations
    (found,) = compare(recording, ["raw"])
    assert found.to_json().items() >= figures.items()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    talk = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello to you", "name": "Ada"}]
    lines = [json.dumps({"id": "one", "messages": talk}), json.dumps({"id": "two", "text": "no messages"})]
    file = tmp_path / "made.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def test_the_command_prints_a_table_and_writes_the_figures(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "figures.json"
    done = CliRunner().invoke(app, ["economy", str(file), "--policy", "raw", "--policy", "ours", "--json", str(target)])
    assert done.exit_code == 0, done.output
    assert [line.split()[0] for line in done.stdout.splitlines() if line] == ["made:", "cost", "raw", "ours"]
    raw, ours = json.loads(target.read_text(encoding="utf-8"))
    assert (raw["policy"], ours["policy"]) == ("raw", "ours")
    assert raw["cost"] == ours["cost"] == message_tokens(HumanMessage("Hello"))


def test_the_command_names_the_policies_it_knows(file: Path) -> None:
    done = CliRunner().invoke(app, ["economy", str(file), "--policy", "other"])
    assert done.exit_code == 2
    assert all(name in done.output for name in ("other", *POLICIES))


def test_a_recording_that_is_not_there_is_an_error(file: Path) -> None:
    with pytest.raises(FileNotFoundError, match="absent"):
        list(read_recordings(file.parent, ["absent"]))
