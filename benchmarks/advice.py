"""What to set for what one wants, chosen from the points of a sweep and written as blocks of runtime.json."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from .sweep import Found, Point, cheapest, fullest

WINDOW = 128_000
"""The window the blocks are written for; the sweep's sizes are shares of its own windows."""
CHEAP, CAREFUL, HUGE = "cheap", "careful", "huge tool output"
WHY = {
    CHEAP: "the least cost of the points above",
    CAREFUL: "the most of the newest messages word for word",
    HUGE: "the least cost on very long tool results",
}


def chosen(given: Mapping[str, Any]) -> dict[str, Found]:
    """The point for each wish, as far as it was measured; none loses a request or sends too much if any does not."""
    talks, huge = ([_found(each) for each in given[kind]] for kind in ("talks", "huge"))
    found = {CHEAP: cheapest(talks), CAREFUL: fullest(talks)} if talks else {}
    return {**found, HUGE: cheapest(huge)} if huge else found


def blocks(given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """runtime.json for each wish; what the sweep did not vary there is left to its defaults."""
    return {wish: {"memory": {"context_window": WINDOW, **_varied(wish, each)}} for wish, each in chosen(given).items()}


def _varied(wish: str, found: Found) -> dict[str, Any]:
    settings = found.point.settings(WINDOW)
    if wish == HUGE:
        return {"pruning": settings["pruning"]}
    gate = {"min_reclaim_tokens": settings["pruning"]["min_reclaim_tokens"]}
    return {"compaction": settings["compaction"], "pruning": gate}


def advised(given: Mapping[str, Any]) -> Iterator[str]:
    found = chosen(given)
    if not found:
        return
    yield (
        f"What to set, for a window of {WINDOW:,} tokens, by the same shares of the window as above (they were "
        "measured in smaller windows, so measure your own conversations where it matters):"
    )
    for wish, block in blocks(given).items():
        base = _found(given["huge" if wish == HUGE else "talks"][0])
        each = found[wish]
        kept = f"{each.recent:.2f} word for word (defaults {base.recent:.2f})"
        told = f"{each.cost / base.cost:.2f} of the defaults' cost, {kept}"
        yield f"**{wish}** – {WHY[wish]}: {told}."
        yield f"```json\n{json.dumps(block, indent=2)}\n```"


def _found(each: Mapping[str, Any]) -> Found:
    return Found(**{**each, "point": Point(**each["point"])})
