"""Long-term memory from outside: programs that end or are killed, days apart, and what the provider receives."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.live.child import ended
from tests.live.programs import BOTH
from tests.live.remembering import FLUSH, Rememberer, asked, living, serving, shown_in
from tests.support.server import Call, ModelServer, Reply, Request

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
