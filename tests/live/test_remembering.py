"""Long-term memory from outside: programs that end or are killed, days apart, and what the provider receives."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import signal
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from langgraph_memory.longterm.keeper import Keeper
from tests.live.child import ended
from tests.live.programs import BOTH
from tests.live.remembering import FLUSH, Rememberer, asked, living, noted, purpose, serving, shown_in
from tests.support.ledgers import pending
from tests.support.models import GOOD
from tests.support.processes import ended as ended_fork
from tests.support.processes import start
from tests.support.server import Call, ModelServer, Reply, Request

pytestmark = pytest.mark.slow

FACTS = {
    "I am allergic to peanuts and live in Bergen.": "peanut allergies",
    "我对花生过敏,住在杭州。": "杭州",
    "Моя собака по кличке Барсик живёт в Казани.": "собака Барсик",
    "أختي ليلى تعمل في مستشفى القاهرة": "مستشفى",
}


def body(request: Request) -> str:
    return json.dumps(request.body, ensure_ascii=False)


# Days and users


@pytest.mark.parametrize(("kind", "mode"), BOTH)
def test_what_one_process_is_told_another_knows_days_later_and_no_other_user(tmp_path, kind, mode):
    searches = [
        Reply("", [Call("memory_search", {"query": query}, f"c-{n}")]) for n, query in enumerate(FACTS.values())
    ]
    told: dict[str, Any] = {"kind": kind, "mode": mode}
    zone = ZoneInfo("Asia/Shanghai")
    with ModelServer(serving(*["Noted."] * 4, *searches, "I know.")) as server:
        told["url"] = server.url
        before = (datetime.now(zone) - timedelta(days=3)).date()
        with living(tmp_path, *FACTS, days=-3, zone="Asia/Shanghai", thread_id="t-1", **told) as process:
            outcome = ended(process)
        assert outcome.code == 0, outcome.errors
        days = {before.isoformat(), (datetime.now(zone) - timedelta(days=3)).date().isoformat()}
        ada = Rememberer(folder=str(tmp_path), **told)
        assert set(ada.ledger()) <= days
        assert all(fact.rstrip(".。") in "".join(ada.ledger().values()) for fact in FACTS)

        first = len(server.requests)
        with living(tmp_path, "What do you know of me?", zone="America/Havana", thread_id="t-2", **told) as process:
            outcome = ended(process)
        assert outcome.code == 0, outcome.errors
        requests = [request for request in server.requests[first:] if request.body["model"] == "m"]
        block = body(requests[0])
        assert "<curated_memory>" in block and all(fact.rstrip(".。") in block for fact in FACTS)
        results = [message["content"] for message in requests[-1].messages if message["role"] == "tool"]
        assert len(results) == 4
        for fact, result in zip(FACTS, results, strict=True):
            assert fact.rstrip(".。") in result

        first = len(server.requests)
        with living(tmp_path, "What do you know of me?", user="bob", thread_id="t-3", **told) as process:
            assert ended(process).code == 0
        assert not [fact for fact in FACTS for request in server.requests[first:] if fact[2:12] in body(request)]


@pytest.mark.parametrize(("kind", "mode"), [("agent", "sync"), ("agent", "async"), ("node", "async")])
def test_what_the_last_turn_said_is_merged_with_it(tmp_path, kind, mode):
    """Although the answer of an agent is in no checkpoint yet, it is on no branch that was left."""
    with ModelServer(serving("Noted.")) as server:
        program = Rememberer(server.url, str(tmp_path), kind, mode, inline=True)
        for fact in FACTS:
            program.run(fact)
            assert fact.rstrip(".。") in program.notes.read_text(encoding="utf-8")
        hits = Keeper(Path(program.files["workspace"]), ("ada",)).search("peanuts 花生 Барсик القاهرة")
        assert len(hits) >= 4 and not any(hit.abandoned for hit in hits)


# Killed


FLUSHING = "langgraph_memory.longterm.flush:Flush."
KILLS = {
    "asked": ("", 2),
    "reply arrived": (FLUSHING + "_finished", 2),
    "reply kept": (FLUSHING + "_write", 1),
    "written to the journal": ("langgraph_memory.longterm.keeper:Keeper._complete", 1),
}


LONG = [pytest.param("agent", "asked", marks=pytest.mark.exhaustive)]
MOST = [pytest.param("node", when, marks=pytest.mark.exhaustive) for when in KILLS if when != "reply kept"]


@pytest.mark.parametrize(("kind", "when"), [*LONG, *MOST, ("node", "reply kept")])
def test_a_flush_that_was_killed_is_done_once_by_whoever_comes_next(tmp_path, kind, when):
    dies_in, paid = KILLS[when]
    children: list[Any] = []

    def side(request: Request) -> Reply:
        if purpose(request) == FLUSH and not dies_in and len(children) == 1:
            children[0].kill()
            children[0].wait(30)
        return Reply(noted(request))

    told: dict[str, Any] = {"kind": kind, "memory": {"consolidation": {"enabled": False}}}
    with ModelServer(serving("Noted.", side=side)) as server:
        told["url"] = server.url
        with living(tmp_path, "I like jazz.", dies_in=dies_in, **told) as process:
            children.append(process)
            assert ended(process).code == -signal.SIGKILL
        # Two at once; the claim of the dead one has run out for them, but in one case, where they wait for it.
        days = None if (kind, when) == ("agent", "asked") else 0.001
        with living(tmp_path, idle=1, days=days, **told) as one, living(tmp_path, idle=1, days=days, **told) as other:
            children += [one, other]
            outcomes = [ended(one), ended(other)]
        assert [outcome.code for outcome in outcomes] == [0, 0], [outcome.errors for outcome in outcomes]
        text = "".join(Rememberer(folder=str(tmp_path), **told).ledger().values())
        assert text.count("I like jazz.") == 1
        assert shown_in(asked(server, FLUSH), "I like jazz.") == paid
        # Nothing is left to be done.
        with living(tmp_path, idle=0.5, days=0.002, **told) as process:
            assert ended(process).code == 0
        assert shown_in(asked(server, FLUSH), "I like jazz.") == paid


@pytest.mark.exhaustive
def test_a_crash_of_an_agent_whose_model_the_opening_does_not_know_waits_for_its_next_turn(tmp_path):
    """A rule would find nothing in it, and it would be done with."""

    def side(request: Request) -> Reply:
        if not seen:
            seen.append(process)
            process.kill()
            process.wait(30)
        return Reply(noted(request))

    seen: list[Any] = []
    told: dict[str, Any] = {"side_model": None, "memory": {"consolidation": {"enabled": False}}}
    for mode in ("sync", "async"):
        seen.clear()
        fact = f"The {mode} heron nests behind pier nine."
        with ModelServer(serving("Noted.", side=side)) as server:
            told |= {"url": server.url, "mode": mode}
            with living(tmp_path, fact, thread_id=f"t-{mode}", **told) as process:
                assert ended(process).code == -signal.SIGKILL
            with living(tmp_path, idle=0.5, days=0.001, **told) as other:
                assert ended(other).code == 0
            program = Rememberer(folder=str(tmp_path), **told)
            assert fact not in "".join(program.ledger().values())
            with living(tmp_path, "hello", days=0.001, thread_id=f"u-{mode}", **told) as other:
                assert ended(other).code == 0
            assert "".join(program.ledger().values()).count(fact) == 1


@pytest.mark.exhaustive
def test_thirty_kills_lose_double_and_tear_nothing(tmp_path):
    chance = random.Random(5)
    done = tmp_path / "done"
    done.touch()
    with ModelServer(serving("Noted.")) as server:

        def work(number: int) -> None:
            kind, mode = BOTH[number % 2]
            program = Rememberer(server.url, str(tmp_path), kind, mode, thread_id=f"t-{number % 3}")
            facts = iter([f"Fact {number}.{turn} of Ada." for turn in range(50)])

            def finished() -> None:
                with done.open("a") as file:
                    file.write(f"Fact {number}.{next(turns)} of Ada.\n")

            turns = itertools.count()
            program.run(*facts, each=finished)

        for number in range(30):
            pid = start(partial(work, number))
            wanted = len(server.requests) + chance.randint(1, 9)
            until(lambda wanted=wanted: len(server.requests) >= wanted)
            time.sleep(chance.uniform(0, 0.05))
            os.kill(pid, signal.SIGKILL)
            assert ended_fork(pid) == -signal.SIGKILL
        # The first makes up for what was due, the second merges it.
        for said in ("Hello.", "Goodbye."):
            with living(tmp_path, said, url=server.url, days=0.001, idle=1, thread_id="t-9") as process:
                outcome = ended(process)
                assert outcome.code == 0, outcome.errors
    finished = [line for line in done.read_text().splitlines() if line.endswith(" of Ada.")]
    assert len(finished) > 10
    program = Rememberer(server.url, str(tmp_path))
    keeper = Keeper(Path(program.files["workspace"]), ("ada",))
    texts = [row.entry.text for row in pending(keeper, {}) if row.entry.type != "tool_result"]
    assert not set(finished) - set(texts)
    assert len(texts) == len(set(texts)) and all(
        re.fullmatch(r"Fact \d+\.\d+ of Ada\.|Hello\.|Goodbye\.", one) for one in texts
    )
    assert keeper.index.problems() == []
    memory = program.notes.read_text(encoding="utf-8").splitlines()
    assert len(memory) == len(set(memory)) and set(memory) == {f"- {text}" for text in texts}


def test_two_programs_that_merge_and_a_person_who_edits_lose_nothing(tmp_path):
    with ModelServer(serving("Noted.")) as server:

        def work(number: int) -> None:
            kind, mode = BOTH[number]
            program = Rememberer(server.url, str(tmp_path), kind, mode, thread_id=f"t-{number}", inline=True)
            program.run(*(f"Fact {number}.{turn} of Ada." for turn in range(12)))

        program = Rememberer(server.url, str(tmp_path), thread_id="t-9", inline=True)
        program.run("Hello.")
        keeper = Keeper(Path(program.files["workspace"]), ("ada",))
        pids = [start(partial(work, number)) for number in range(2)]
        for number in range(15):
            # As an editor that notices when a file has changed under it.
            with keeper.folder.locked():
                text = program.notes.read_text(encoding="utf-8")
                program.notes.write_text(f"- A person's line {number}\n{text}", encoding="utf-8")
            time.sleep(0.1)
        assert [ended_fork(pid) for pid in pids] == [0, 0]
        program.run("Goodbye.")
    lines = program.notes.read_text(encoding="utf-8").splitlines()
    wanted = [f"Fact {number}.{turn} of Ada." for number in range(2) for turn in range(12)]
    wanted += [f"A person's line {number}" for number in range(15)]
    assert sorted(lines) == sorted(f"- {one}" for one in [*wanted, "Hello.", "Goodbye."])


# Forgotten


@pytest.mark.parametrize("fact", FACTS)
@pytest.mark.parametrize(("kind", "mode"), BOTH)
def test_what_is_forgotten_stands_in_no_file_of_the_workspace(tmp_path, kind, mode, fact):
    fact = fact.rstrip(".。")
    filler = [f"{word} " * 700 for word in ("tide", "pier", "rope", "gull", "salt", "deck", "mast", "keel")]
    forget = Reply("", [Call("memory_forget", {"text": fact})])

    def script(request: Request) -> Any:
        return forget if request.messages[-1]["content"] == "Forget that." else "Noted."

    with ModelServer(serving(script)) as server:
        server.reply = serving(
            script, side=lambda request: noted(request) if purpose(request) != "summary" else f"{GOOD} {fact}"
        )
        memory = {"context_window": 6000, "compaction": {"min_messages": 4}}
        program = Rememberer(server.url, str(tmp_path), kind, mode, memory=memory, inline=True)
        program.run(f"{fact}. Remember that.", *filler, f"Once more: {fact}.")
        assert program.named("compacted") and holding(program, fact)
        program.run("Forget that.", "And now?")
        assert holding(program, fact) == []


def until(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def holding(program: Rememberer, text: str) -> list[str]:
    """The files of a workspace that hold the bytes of a text, as it is or as JSON writes it."""
    wanted = [text.encode(), json.dumps(text)[1:-1].encode(), text.encode("utf-16-le")]
    files = [
        path for path in Path(program.files["workspace"]).rglob("*") if path.is_file() and "spill" not in path.parts
    ]
    return [str(path) for path in files if any(one in path.read_bytes() for one in wanted)]
