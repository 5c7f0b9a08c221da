"""What is timed beside a flush: turns that end before it does, with the steps they should have."""

import pytest

from benchmarks.beside import lines, measure


@pytest.mark.slow
def test_a_turn_is_timed_with_and_without_a_flush_beside_it() -> None:
    result = measure(steps=2, rounds=1, flush_seconds=30)
    assert result.under_way == result.rounds == 1
    assert result.beside > 0 and result.alone > 0 and result.step_beside > 0
    assert len(list(lines(result))) == 5 and result.to_json()["ratio"] == result.ratio
