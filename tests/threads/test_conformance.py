"""LangGraph's own suite for savers: every capability, every test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from langgraph_memory.threads.saver import ThreadSaver
from tests.support.savers import Swap


@pytest.mark.parametrize("serde", [None, EncryptedSerializer(Swap())], ids=["plain", "encrypted"])
async def test_every_test_of_every_capability_passes(tmp_path: Path, serde: Any) -> None:
    @checkpointer_test(name="ThreadSaver")
    async def saver() -> AsyncIterator[ThreadSaver]:
        async with ThreadSaver.from_conn_string(tmp_path / "threads.db", serde=serde) as made:
            yield made

    report = await validate(saver)
    assert {name: result.failures for name, result in report.results.items() if not result.passed} == {}
    assert len(report.results) == 8
    assert sum(result.tests_passed for result in report.results.values()) == 81
