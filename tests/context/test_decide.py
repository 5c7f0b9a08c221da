"""What is decided before a call, when and why: reported failures of others, and every setting that has a say."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_memory.config import MemoryConfig
from langgraph_memory.context.budget import Overhead, TokenBudget
from langgraph_memory.context.case import Situation
from langgraph_memory.context.decide import Decision, decide
from langgraph_memory.context.history import History
from langgraph_memory.context.learn import observed
from langgraph_memory.context.record import Scope, Sizes, fitted
from langgraph_memory.context.render import render
from langgraph_memory.context.summarize import Ask, Recipe, Rejected
from langgraph_memory.context.tokens import Calibration, count_message
from langgraph_memory.errors import ContextBudgetError
from tests.support.histories import THIRDS, ai, human, named, result, system, usage


class Thread:
    """A thread as the middleware sees it: decides, remembers the scope, and counts what was asked."""

    def __init__(
        self,
        window: int = 20_000,
        *,
        answer: str | Rejected = "Pier B was chosen.",
        system: int | None = 0,
        tools: int | None = 0,
        **sections: Any,
    ) -> None:
        self.window, self.answer = window, answer
        self.overhead = Overhead(system, tools)
        self.settings = MemoryConfig.model_validate(sections)
        self.messages: list[BaseMessage] = []
        self.scope = Scope()
        self.asks: list[Ask] = []
        self.answers: dict[str, str | Rejected] = {}
        self.views: list[list[BaseMessage]] = []

    def say(self, *messages: BaseMessage) -> Thread:
        for message in messages:
            message.id = message.id or f"m{len(self.messages)}"
            self.messages.append(message)
        return self

    def budget(self) -> TokenBudget:
        history = History.of(self.messages, THIRDS)
        scope = fitted(self.scope, history)
        return TokenBudget.of(
            self.window,
            counter=THIRDS,
            budget=self.settings.budget,
            compaction=self.settings.compaction,
            pruning=self.settings.pruning,
            overhead=self.overhead,
            calibration=observed(history, scope, render(history, scope), ""),
        )

    def outcome(self, **situation: Any) -> Decision | Ask:
        budget = self.budget()
        recipe = Recipe(
            window=self.window,
            room=budget.summary,
            most=budget.summary,
            tool_chars=self.settings.compaction.summary_tool_chars,
            chunk_messages=self.settings.compaction.map_chunk_messages,
            prompt=self.settings.compaction.prompt,
            focus=situation.pop("focus", None),
        )
        history = History.of(self.messages, THIRDS)
        return decide(history, self.scope, budget, Situation(self.settings, recipe, **situation), self.answers)

    def call(self, **situation: Any) -> Decision:
        while isinstance(outcome := self.outcome(**situation), Ask):
            self.asks.append(outcome)
            self.answers[outcome.digest] = self.answer
        self.scope = outcome.scope
        self.views.append(outcome.view.messages)
        check_pairs(outcome.view.messages)
        return outcome

    @property
    def shown(self) -> list[BaseMessage]:
        return self.views[-1]

    def steps(self) -> int:
        """How often a view was not a continuation of the one before."""
        pairs = zip(self.views, self.views[1:], strict=False)
        return sum(new[: len(old)] != old for old, new in pairs)


def check_pairs(messages: Sequence[BaseMessage]) -> None:
    waiting: list[str | None] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            assert message.tool_call_id in waiting
            waiting.remove(message.tool_call_id)
        else:
            assert not waiting
            waiting = [call["id"] for call in message.tool_calls] if isinstance(message, AIMessage) else []
    assert not waiting


def words(tokens: int) -> str:
    """A text that makes a message of `tokens` tokens."""
    return "w" * (3 * (tokens - 5))


def tool_round(number: int, size: int, **fields: Any) -> list[BaseMessage]:
    """A call and its result of `size` characters."""
    return [ai("", f"c{number}"), result(f"c{number}", f"row {number} ".ljust(size, "r"), **fields)]


def texts(messages: Sequence[BaseMessage]) -> list[str]:
    return [str(message.content) for message in messages if isinstance(message, ToolMessage)]


def marks(messages: Sequence[BaseMessage]) -> str:
    """A letter for each tool result: whole, trimmed or cleared."""
    kinds = {"[trimmed": "t", "[cleared": "c"}
    return "".join(next((kinds[k] for k in kinds if k in text), "w") for text in texts(messages))


# Nothing to decide


def test_a_small_thread_is_sent_as_it_is() -> None:
    thread = Thread().say(human(), ai("Hello"))
    decision = thread.call()
    assert (decision.actions, decision.rung, thread.asks) == ((), "", [])
    assert all(mine is theirs for mine, theirs in zip(decision.view.messages, thread.messages, strict=True))


def test_a_decision_that_changes_nothing_keeps_the_scope_object() -> None:
    thread = Thread().say(human(), ai("Hello"))
    thread.call()
    first = thread.scope
    assert first.sizes == Sizes(20_000, 0, 0, 2000, "thirds")
    for _ in range(3):
        thread.say(ai("more"))
        thread.call()
        assert thread.scope is first


@pytest.mark.parametrize(("change", "writes"), [(0, False), (64, False), (65, True), (-65, True)])
def test_a_changed_system_prompt_is_noted_when_it_changed_much(change: int, writes: bool) -> None:
    thread = Thread(system=1000).say(human())
    thread.call()
    first = thread.scope
    thread.overhead = Overhead(1000 + change, 0)
    decision = thread.call()
    assert decision.actions == ()
    assert (decision.scope is not first) is writes


def test_another_window_is_noted() -> None:
    thread = Thread().say(human())
    thread.call()
    thread.window = 10_000
    assert thread.call().scope.sizes.window == 10_000


def test_an_empty_thread_has_a_decision() -> None:
    assert Thread().call().view.messages == []


# Pruning by threshold


def worked(rounds: int, size: int, **pruning: Any) -> Thread:
    thread = Thread(200_000, pruning=pruning).say(human())
    for number in range(rounds):
        thread.say(*tool_round(number, size))
    return thread


@pytest.mark.parametrize(
    ("size", "mark"), [(2999, "w"), (3000, "w"), (3010, "t"), (10_000, "t"), (10_001, "c"), (60_000, "c")]
)
def test_results_are_pruned_by_their_size_alone(size: int, mark: str) -> None:
    thread = worked(9, size, min_reclaim_tokens=0)
    thread.call()
    assert marks(thread.shown) == mark * 6 + "w" * 3
    assert all(len(text) <= min(size, 3000) for text in texts(thread.shown)[:6]) or mark == "w"


@pytest.mark.parametrize("protect", [0, 1, 3, 8, 9, 20])
def test_the_newest_results_are_protected_by_number(protect: int) -> None:
    thread = worked(9, 20_000, min_reclaim_tokens=0, protect_recent=protect)
    thread.call()
    assert marks(thread.shown) == "c" * (9 - min(9, protect)) + "w" * min(9, protect)


def test_of_eight_parallel_results_all_but_the_newest_three_are_pruned() -> None:
    ids = [f"c{number}" for number in range(8)]
    thread = Thread(200_000).say(human(), ai("", *ids), *(result(each, "x" * 20_000) for each in ids))
    thread.say(ai(words(4000)))
    thread.call()
    assert marks(thread.shown) == "cccccwww"


def test_block_lists_are_pruned_too() -> None:
    thread = Thread(200_000, pruning={"min_reclaim_tokens": 0, "protect_recent": 0})
    thread.say(human(), ai("", "a"), result("a", [{"type": "text", "text": "x" * 20_000}]), ai("Done."))
    thread.call()
    assert thread.shown[2].content == [{"type": "text", "text": '[cleared: 20000 characters · recall("msg:m2")]'}]


def test_a_result_that_was_pruned_by_hand_does_not_end_the_scan() -> None:
    thread = worked(6, 20_000, min_reclaim_tokens=0, protect_recent=1)
    thread.messages[8].content = "[cleared]"
    thread.call()
    assert texts(thread.shown)[3] == "[cleared]"
    assert marks(thread.shown) == "cccccw"


def test_what_frees_too_little_is_left_alone() -> None:
    thread = worked(4, 11_000)
    assert thread.call().actions == ()
    thread.say(*tool_round(4, 11_000))
    assert thread.call().actions == ("pruned",)


def test_a_cold_cache_makes_any_gain_worth_it() -> None:
    thread = worked(4, 11_000)
    assert thread.call().actions == ()
    assert thread.call(cold=True).actions == ("pruned",)
    assert marks(thread.shown) == "cwww"


def test_the_boundary_moves_in_few_steps_and_the_prefix_is_stable_between_them() -> None:
    thread = Thread(200_000).say(human())
    for number in range(60):
        thread.say(*tool_round(number, 6000))
        thread.call()
    assert 3 <= thread.steps() <= 60 // 4
    assert "t" in marks(thread.shown)


def test_without_a_gate_every_result_is_pruned_as_soon_as_it_is_old() -> None:
    thread = Thread(200_000, pruning={"min_reclaim_tokens": 0}).say(human())
    for number in range(8):
        thread.say(*tool_round(number, 20_000))
        thread.call()
        assert marks(thread.shown) == "c" * max(0, number - 2) + "w" * min(3, number + 1)


@pytest.mark.parametrize("tool", ["read_file", "recall", "memory_search", "memory_get"])
def test_excluded_tools_are_not_pruned_by_threshold(tool: str) -> None:
    thread = Thread(200_000, pruning={"min_reclaim_tokens": 0, "protect_recent": 0}).say(human())
    thread.say(*tool_round(0, 20_000, name=tool), *tool_round(1, 20_000, name="dock"), ai("Done."))
    thread.call()
    assert marks(thread.shown) == "wc"


@pytest.mark.parametrize("pruning", [{"enabled": False}, {"trim_tool_results": False}])
def test_pruning_that_is_off_prunes_nothing(pruning: dict[str, Any]) -> None:
    thread = worked(9, 20_000, min_reclaim_tokens=0, **pruning)
    assert thread.call(cold=True).actions == ()
    assert thread.scope.watermark is None


def test_a_watermark_holds_its_own_thresholds_when_the_settings_change() -> None:
    thread = worked(9, 20_000, min_reclaim_tokens=0)
    thread.call()
    thread.settings = MemoryConfig.model_validate({"pruning": {"soft_trim_chars": 100, "hard_clear_threshold": 200}})
    assert marks(thread.call().view.messages) == "c" * 6 + "w" * 3


# Compaction


def chat(thread: Thread, turns: int, size: int = 500) -> Thread:
    for number in range(turns):
        thread.say(human(f"MARK{len(thread.messages)}X {number} ".ljust(3 * size, "q")))
        thread.call()
        thread.say(ai(f"MARK{len(thread.messages)}X {number} ".ljust(3 * size, "a")))
    return thread


def test_a_view_over_the_trigger_is_compacted_and_shrinks_well_below_it() -> None:
    thread = chat(Thread(), 13)
    assert not thread.asks
    assert 12_000 < thread.call().view.tokens < 14_000
    thread.say(human(words(1500)))
    decision = thread.call()
    assert (decision.actions, decision.rung, len(thread.asks)) == (("compacted",), "summariser", 1)
    assert decision.view.tokens <= 5000 + 600 + 2500 / 8
    assert "Pier B was chosen." in str(thread.shown[0].content)


@pytest.mark.parametrize(("messages", "compacts"), [(19, False), (20, True)])
def test_few_messages_are_not_compacted_by_the_ratio(messages: int, compacts: bool) -> None:
    thread = Thread(20_000).say(human(), *(ai(words(800)) for _ in range(messages - 1)))
    assert (thread.call().actions == ("compacted",)) is compacts


def test_safety_goes_before_min_messages() -> None:
    thread = Thread(20_000).say(human(), *(ai(words(5000)) for _ in range(4)))
    assert "compacted" in thread.call().actions


@pytest.mark.parametrize(
    ("compaction", "compacts"),
    [
        ({}, False),
        ({"trigger_ratio": 0.5}, True),
        ({"trigger_messages": 22}, True),
        ({"trigger_messages": 23}, False),
        ({"trigger_tokens": 11_000}, True),
        ({"trigger_tokens": 12_000}, False),
        ({"enabled": False, "trigger_ratio": 0.5, "trigger_messages": 2, "trigger_tokens": 5}, False),
        ({"trigger_ratio": 0.5, "min_messages": 23}, False),
        ({"trigger_messages": 22, "min_messages": 23}, True),
    ],
)
def test_each_trigger_decides(compaction: dict[str, Any], compacts: bool) -> None:
    thread = Thread(20_000, compaction=compaction)
    thread.say(human(), *(ai(words(540)) for _ in range(21)))
    total = sum(count_message(THIRDS, message) for message in thread.messages)
    assert 11_000 < total < 12_000
    assert (thread.call().actions == ("compacted",)) is compacts


def test_reserve_tokens_lower_the_trigger() -> None:
    thread = Thread(20_000, compaction={"trigger_ratio": 1.0, "reserve_tokens": 5000})
    thread.say(human(), *(ai(words(760)) for _ in range(20)))
    assert thread.call().actions == ("compacted",)
    other = Thread(20_000, compaction={"trigger_ratio": 1.0, "reserve_tokens": 1000})
    other.say(human(), *(ai(words(760)) for _ in range(20)))
    assert other.call().actions == ()


@pytest.mark.parametrize(
    ("compaction", "kept"),
    [
        ({}, 6),
        ({"keep_recent_tokens": 1700}, 2),
        ({"keep_recent_tokens": 0}, 1),
        ({"keep_messages": 5}, 5),
        ({"keep_turns": 1}, 10),
    ],
)
def test_each_way_to_keep_decides(compaction: dict[str, Any], kept: int) -> None:
    thread = Thread(20_000, compaction=compaction)
    thread.say(human(), *(ai(words(800)) for _ in range(11)), human("now"), *(ai(words(800)) for _ in range(10)))
    thread.call()
    assert sum(isinstance(message, AIMessage) for message in thread.shown) == kept


def test_the_summary_of_the_same_messages_is_bought_once() -> None:
    """Tail above the trigger, five idle passes."""
    thread = Thread(20_000).say(human(), *(ai(words(700)) for _ in range(30)), ai(words(9000)), human("go"))
    thread.call()
    asked = list(thread.asks)
    for _ in range(5):
        thread.call()
    assert thread.asks == asked
    assert thread.steps() == 0


def test_a_second_pass_follows_only_when_enough_is_new() -> None:
    thread = Thread(20_000).say(human(), *(ai(words(700)) for _ in range(22)))
    thread.call()
    covered = thread.scope.covered
    for _ in range(12):
        thread.say(ai(words(700)))
        thread.call()
    assert len(thread.asks) == 1
    for _ in range(6):
        thread.say(ai(words(700)))
        thread.call()
    assert len(thread.asks) == 2
    assert thread.scope.covered > covered


def test_the_second_summary_holds_all_that_the_first_kept() -> None:
    thread = chat(Thread(), 60)
    asks = [ask for ask in thread.asks if "MARK" in ask.prompt]
    assert len(asks) >= 3
    seen = [mark for ask in asks for mark in re.findall(r"MARK\d+X", ask.prompt)]
    assert seen == [f"MARK{number}X" for number in range(thread.scope.covered)]


def test_a_newer_summary_takes_the_place_of_the_old_one() -> None:
    thread = Thread(answer="Berth 7 closed.")
    chat(thread, 16)
    thread.answer = "Berth 7 reopened."
    chat(thread, 20)
    text = "".join(str(message.content) for message in thread.shown)
    assert "Berth 7 reopened." in text and "Berth 7 closed." not in text
    assert "Berth 7 closed." in thread.asks[1].prompt


@pytest.mark.parametrize("answer", [Rejected("429"), Rejected("the reply holds no text")])
def test_a_summariser_that_fails_is_asked_twice_and_then_done_without(answer: Rejected) -> None:
    thread = Thread(answer=answer).say(human("Plan the port."), *(ai(words(900)) for _ in range(22)))
    decision = thread.call()
    assert (decision.actions, decision.rung) == (("compacted",), "extract")
    assert len(thread.asks) <= 2
    assert "Plan the port." in str(thread.shown[0].content)
    for _ in range(3):
        assert thread.call().actions == ()


def test_an_unanswered_question_is_the_same_whenever_it_is_asked() -> None:
    thread = Thread().say(human(), *(ai(words(900)) for _ in range(22)))
    one, two = thread.outcome(), thread.outcome()
    assert isinstance(one, Ask)
    assert one == two
    thread.messages = [message.model_copy(deep=True) for message in thread.messages]
    assert thread.outcome() == one


def test_a_question_depends_on_the_covered_messages_and_not_on_later_ones() -> None:
    thread = Thread(compaction={"keep_messages": 5}).say(human(), *(ai(words(900)) for _ in range(22)))
    one = thread.outcome()
    thread.messages[-1].content = "other"
    assert isinstance(one, Ask) and thread.outcome() == one
    thread.messages[3].content = "other"
    other = thread.outcome()
    assert isinstance(other, Ask) and other.digest != one.digest


def test_forcing_compacts_a_thread_that_is_far_from_any_trigger() -> None:
    thread = Thread(200_000).say(human(), *(ai(words(900)) for _ in range(40)))
    assert thread.call().actions == ()
    decision = thread.call(force=True, focus="berth 9")
    assert decision.actions == ("compacted",)
    assert "berth 9" in thread.asks[0].prompt


def test_a_waiting_call_and_all_behind_it_stay_when_the_rest_is_enough() -> None:
    thread = Thread(20_000).say(human(), *(ai(words(700)) for _ in range(12)), ai("", "p9"))
    thread.say(*(ai(words(700)) for _ in range(9)))
    thread.call()
    assert thread.scope.covered == 13
    thread.say(result("p9", "arrived"))
    assert "arrived" in texts(thread.call().view.messages)


# The request


def test_the_newest_request_stays_verbatim_in_front_of_its_calls() -> None:
    thread = Thread(20_000, compaction={"keep_messages": 2}).say(human("old"), ai("ok"))
    thread.say(human("book berth 9 for 04:30"))
    for number in range(25):
        thread.say(*tool_round(number, 1800))
    thread.call()
    content = thread.shown[0].content
    assert isinstance(content, list)
    assert content[-1] == {"type": "text", "text": "book berth 9 for 04:30"}
    assert [message.type for message in thread.shown[1:]] == ["ai", "tool"]


@pytest.mark.parametrize("size", [100_000, 1_000_000])
def test_a_request_larger_than_the_window_is_shown_as_a_preview_that_can_be_recalled(size: int) -> None:
    thread = Thread(8000).say(human("a" * (size // 2) + "z" * (size // 2)))
    decision = thread.call()
    text = str(thread.shown[0].content)
    assert decision.actions == ("squeezed",)
    assert text.startswith("aaaa") and text.endswith("zzzz")
    assert f'of {size} characters · recall("msg:m0")]' in text
    thread.say(ai("I read a part."), human("go on"), ai("x"))
    assert thread.call().view.messages[0].content == text


def test_a_request_that_fits_is_not_cut_while_results_can_be() -> None:
    thread = Thread(8000).say(human("q" * 9000))
    for number in range(6):
        thread.say(*tool_round(number, 12_000))
    thread.call()
    blocks = next(message.content for message in thread.shown if isinstance(message, HumanMessage))
    assert "q" * 9000 in str(blocks)


def test_several_human_messages_of_one_request_all_stay() -> None:
    thread = Thread(8000).say(human("first"), human("second"), human("third"))
    for number in range(30):
        thread.say(*tool_round(number, 2500))
        thread.call()
        shown = str([message.content for message in thread.shown if isinstance(message, HumanMessage)])
        assert all(text in shown for text in ("first", "second", "third"))


# Fitting


def test_a_step_from_far_below_to_past_the_window_fits_before_the_next_call() -> None:
    thread = Thread(10_000).say(human(), ai(words(6000)))
    thread.call()
    thread.say(*tool_round(0, 21_000))
    decision = thread.call()
    assert decision.actions
    assert decision.view.tokens <= thread.budget().limit


def test_a_giant_result_is_cut_and_the_old_messages_are_compacted() -> None:
    """30 old messages, four results of 6 000 tokens, window 27 000."""
    thread = Thread(27_000).say(*(message for _ in range(15) for message in (human(words(60)), ai(words(60)))))
    thread.say(ai("", "a", "b", "c", "d"), *(result(each, "x" * 18_000) for each in "abcd"))
    decision = thread.call()
    assert decision.view.tokens <= thread.budget().limit
    assert [len(text) < 18_000 for text in texts(thread.shown)].count(True) >= 1


def test_protected_results_are_cut_last() -> None:
    thread = Thread(20_000, compaction={"enabled": False}, pruning={"min_reclaim_tokens": 2500}).say(human())
    for number in range(8):
        thread.say(*tool_round(number, 8000))
    thread.call()
    sizes = list(map(len, texts(thread.shown)))
    assert sizes[-3:] == [8000] * 3
    assert max(sizes[:-3]) < 8000


def test_protected_results_are_cut_when_nothing_else_is_left() -> None:
    thread = Thread(8000, compaction={"enabled": False}).say(human())
    thread.say(ai("", "a", "b"), result("a", "x" * 20_000), result("b", "y" * 20_000))
    assert thread.call().view.tokens <= thread.budget().limit
    assert "w" not in marks(thread.shown)


def test_what_was_cut_under_pressure_stays_cut_to_the_same_bytes() -> None:
    thread = Thread(20_000).say(human(), ai("", "a"), result("a", "x" * 60_000))
    assert thread.call().actions == ("squeezed",)
    for number in range(4):
        thread.say(ai(f"thought {number}"))
        assert thread.call().actions == ()
    assert thread.steps() == 0


def test_without_pruning_results_are_never_cut_not_even_under_pressure() -> None:
    thread = Thread(8000, pruning={"enabled": False}).say(human("go"))
    thread.say(ai("", "a"), result("a", "x" * 30_000), ai("Done."))
    decision = thread.call()
    assert decision.actions == ("compacted",)
    assert texts(thread.shown) == []
    thread = Thread(8000, pruning={"enabled": False}, compaction={"enabled": False}).say(human("go"))
    thread.say(ai("", "a"), result("a", "x" * 30_000))
    with pytest.raises(ContextBudgetError):
        thread.call()


def test_with_trimming_off_results_are_still_cut_under_pressure() -> None:
    thread = Thread(8000, pruning={"trim_tool_results": False}).say(human(), ai("", "a"), result("a", "x" * 30_000))
    assert thread.call().actions == ("squeezed",)


def test_without_compaction_nothing_is_ever_summarised() -> None:
    thread = Thread(8000, compaction={"enabled": False, "trigger_messages": 2, "min_messages": 0})
    thread.say(human(), *(ai(words(1000)) for _ in range(9)))
    with pytest.raises(ContextBudgetError):
        thread.call(force=True)
    assert thread.asks == [] and thread.scope.summary is None


def test_a_keep_above_the_window_still_gets_the_view_under_the_limit() -> None:
    thread = Thread(8000, compaction={"keep_recent_tokens": 20_000, "min_messages": 0})
    chat(thread, 20, 230)
    assert all(sum(count_message(THIRDS, m) for m in view) <= 7000 for view in thread.views)
    assert thread.asks


def test_where_the_fixed_part_alone_is_too_large_no_model_is_asked() -> None:
    thread = Thread(8000, system=6500, tools=1000).say(*(ai(words(300)) for _ in range(10)), human("go"))
    with pytest.raises(ContextBudgetError):
        thread.call()
    assert thread.asks == []


def test_the_error_says_which_part_is_how_large() -> None:
    thread = Thread(8000, system=3000, tools=9000).say(system(), human("go"))
    with pytest.raises(ContextBudgetError) as raised:
        thread.call()
    assert raised.value.parts["tools"] == 9000
    assert raised.value.parts["system"] > 3000
    assert raised.value.available == 7000 - 12_000
    assert all(part in str(raised.value) for part in ("tools 9000", "8000", "7000"))


def test_a_window_of_500_tokens_works() -> None:
    thread = Thread(500, system=None, tools=None)
    for number in range(30):
        thread.say(human(f"question {number}"))
        thread.call()
        thread.say(*tool_round(number, 2000))
        thread.call()
        thread.say(ai("answer"))
    assert all(THIRDS.text(ask.prompt) <= 500 for ask in thread.asks)


# Long threads


def test_one_long_turn_fits_on_every_call_with_its_request_verbatim() -> None:
    thread = Thread(20_000).say(human("Refit pier B until it is done."))
    for number in range(60):
        thread.say(*tool_round(number, 4500))
        thread.call()
        assert sum(count_message(THIRDS, message) for message in thread.shown) <= 18_000
        assert "Refit pier B until it is done." in str(thread.shown[0].content)
    assert 1 <= len(thread.asks) <= 20
    assert thread.steps() <= 25


def test_a_chat_of_200_turns_is_summarised_incrementally() -> None:
    thread = chat(Thread(20_000), 200, 500)
    assert 10 <= len(thread.asks) < 28
    assert all(THIRDS.text(ask.prompt) <= 20_000 for ask in thread.asks)
    assert sum(len(ask.prompt) for ask in thread.asks) < 2 * sum(len(str(m.content)) for m in thread.messages)


def test_a_message_trigger_that_stays_crossed_compacts_a_handful_of_times() -> None:
    """50-message trigger, 8k keep, 300-character messages, 200 calls."""
    thread = Thread(128_000, compaction={"trigger_messages": 50, "keep_recent_tokens": 8000})
    for number in range(200):
        thread.say(human(f"{number} ".ljust(300, "q")))
        thread.call()
        thread.say(ai(f"{number} ".ljust(300, "a")))
    assert 1 <= len(thread.asks) <= 10
    assert thread.steps() <= 10
    assert sum(count_message(THIRDS, message) for message in thread.shown) >= 8000


# Changed histories


@pytest.mark.parametrize("change", ["edit", "remove", "rewind"])
def test_a_decision_that_does_not_fit_any_more_is_dropped_and_the_view_is_whole(change: str) -> None:
    thread = Thread(20_000).say(human("Plan."), *(ai(words(700)) for _ in range(22)))
    thread.call()
    assert thread.scope.covered
    if change == "edit":
        thread.messages[2] = ai("edited", id="m2")
    elif change == "remove":
        del thread.messages[2]
    else:
        thread.messages = thread.messages[: thread.scope.covered - 1]
    thread.window = 200_000
    decision = thread.call()
    assert decision.scope.summary is None
    assert decision.view.messages == thread.messages


def test_after_removing_old_messages_the_request_is_still_shown() -> None:
    """The turn of a kept request goes, and the covered one before it is the current request again."""
    thread = Thread(20_000).say(human("Refit pier B. " + "q" * 6000))
    thread.say(*(ai(words(700)) for _ in range(20)), human("And pier C?"), ai("y"))
    thread.call()
    thread.messages = [message for message in thread.messages if message.content not in ("And pier C?", "y")]
    shown = "".join(str(message.content) for message in thread.call().view.messages)
    assert "Refit pier B. " + "q" * 6000 in shown


# What usage teaches


def told(*replies: tuple[int, str | None], window: int = 100_000) -> tuple[History, Scope]:
    """A thread whose replies report usage; the decision was taken before the first of them."""
    messages: list[BaseMessage] = [human(words(4000), "m")]
    scope = Scope(since=("m", History.of(messages, THIRDS).digests[0].hex()), sizes=Sizes(window, 0, 0, 0, "thirds"))
    for number, (tokens, model) in enumerate(replies):
        metadata = {"model_name": model} if model else {}
        messages.append(ai("ok", id=f"a{number}", usage_metadata=usage(tokens), response_metadata=metadata))
    return History.of(messages, THIRDS), scope


def learnt(history: History, scope: Scope) -> Calibration:
    return observed(history, scope, render(history, scope), "")


def test_usage_since_the_decision_teaches_what_the_provider_counts() -> None:
    history, scope = told((5200, "a"))
    assert learnt(history, scope).apply(history.tokens[0]) == pytest.approx(5200, abs=1)


def test_without_usage_nothing_is_learnt() -> None:
    history, scope = told((0, None), (0, None))
    assert learnt(history, scope) == scope.calibration
    plain = History.of([human(), ai("x")], THIRDS)
    assert learnt(plain, Scope()) == Calibration()


def test_usage_from_before_the_decision_is_ignored() -> None:
    """The kept tail holds an answer whose usage counted a far larger view."""
    history, scope = told((90_000, "a"), (90_000, "a"))
    scope = replace(scope, since=("a1", history.digests[2].hex()), calibration=Calibration(1.1, 50.0))
    assert learnt(history, scope) == Calibration(1.1, 50.0)


def test_the_usage_of_another_model_is_ignored() -> None:
    mixed, scope = told((9000, "b"), (4400, "a"))
    alone, _ = told((4400, "a"))
    assert learnt(mixed, scope).apply(4000) == pytest.approx(4400, abs=20)
    assert learnt(alone, scope).apply(4000) == pytest.approx(4400, abs=20)


@pytest.mark.parametrize(("counter", "model"), [("other", "a"), ("thirds", "b"), ("other", "b"), ("thirds", "")])
def test_what_was_learnt_with_another_counter_or_for_another_model_is_forgotten(counter: str, model: str) -> None:
    history, scope = told((2500, None), (2600, None))
    scope = replace(scope, calibration=Calibration(0.6, 5.0), sizes=replace(scope.sizes, counter=counter, model="a"))
    view = render(history, scope)
    assert observed(history, scope, view, model) == Calibration()


def test_a_figure_above_the_window_is_ignored() -> None:
    history, scope = told((100_001, "a"))
    assert learnt(history, scope) == Calibration()
    history, scope = told((5000, "a"), (2_000_000, "a"))
    assert learnt(history, scope).apply(4000) == pytest.approx(5000, abs=1)


@pytest.mark.parametrize("tokens", [0, 1, 100])
def test_a_figure_that_cannot_be_the_whole_request_is_ignored(tokens: int) -> None:
    history, scope = told((tokens, "a"))
    assert learnt(history, scope) == Calibration()


@pytest.mark.parametrize("change", [lambda m: m[1:], lambda m: [human("edited", "m"), *m[1:]]])
def test_when_the_messages_of_the_decision_are_gone_its_usage_teaches_nothing(
    change: Callable[[list[BaseMessage]], list[BaseMessage]],
) -> None:
    history, scope = told((90_000, "a"))
    changed = History.of(change(list(history.messages)), THIRDS)
    assert learnt(changed, replace(scope, calibration=Calibration(1.2, 0.0))) == Calibration(1.2, 0.0)


def test_system_and_tools_count_in_what_was_sent() -> None:
    history, scope = told((6200, "a"))
    scope = replace(scope, sizes=replace(scope.sizes, system=1000, tools=1000))
    assert learnt(history, scope).apply(6000) == pytest.approx(6200, abs=15)


def test_a_provider_that_counts_twice_as_much_is_compacted_at_half_the_tokens() -> None:
    thread = Thread(20_000).say(human())
    for _ in range(30):
        view = thread.call().view
        thread.say(ai(words(450), usage_metadata=usage(2 * view.tokens), response_metadata={"model_name": "a"}))
    assert thread.asks
    assert max(sum(count_message(THIRDS, m) for m in view) for view in thread.views) < 8500


def test_after_a_compaction_an_old_figure_does_not_ask_for_another() -> None:
    thread = Thread(20_000).say(human(), *(ai(words(650)) for _ in range(21)))
    thread.call()
    thread.say(ai(words(600), usage_metadata=usage(14_300), response_metadata={"model_name": "a"}))
    thread.call()
    asked = len(thread.asks)
    assert asked == 1
    for _ in range(3):
        thread.say(ai("short"))
        thread.call()
    assert len(thread.asks) == asked


def test_the_calibration_is_kept_with_the_decision() -> None:
    thread = Thread(20_000).say(human())
    for _ in range(20):
        view = thread.call().view
        thread.say(ai(words(600), usage_metadata=usage(int(1.3 * view.tokens)), response_metadata={"model_name": "a"}))
    assert thread.scope.covered
    assert thread.scope.calibration.apply(5000) == pytest.approx(6500, rel=0.1)


def test_named_messages_are_what_these_tests_use() -> None:
    assert [message.id for message in named([human(), ai()])] == ["m0", "m1"]
