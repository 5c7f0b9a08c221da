"""Situations in which agent memories are known to go wrong, each run for real: `python -m benchmarks scenarios`.

A scenario is a function that sets a contender up, lets the situation happen and says what came of it. Contenders are
set up as their documentation says, and where they have an option that does better here, with that option; a scripted
model stands in for the real one, so that everybody meets the same. A pass is a pass, whoever has it; "–" means that the
contender does not do this at all; "not run" that it cannot be installed beside the others from a package index.
"""

from . import context, summaries, requests, threads, odd_threads, longterm  # noqa: F401, I001 - each adds its own, in this order
from .outcome import SCENARIOS, Outcome, Result, Scenario, lines, run

__all__ = ["SCENARIOS", "Outcome", "Result", "Scenario", "lines", "run"]
