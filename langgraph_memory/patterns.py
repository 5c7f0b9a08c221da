"""Regular expressions that a model thought of: one that explodes is given up, one that is only slow is not."""

from __future__ import annotations

import time
from collections.abc import Callable

import regex

LINE_SECONDS, CHAR_SECONDS = 3e-5, 1e-7
"""What a search may take for each line and each character of it, whatever the limit: honest work on a long text."""

Search = Callable[[str], "regex.Match[str] | None"]


def limited(compiled: regex.Pattern[str], seconds: float) -> Search:
    """Search text after text for `seconds` of computing beyond honest work. The search raises `TimeoutError` then."""
    ends = time.thread_time() + seconds

    def search(text: str) -> regex.Match[str] | None:
        nonlocal ends
        honest = LINE_SECONDS + CHAR_SECONDS * len(text)
        ends += honest
        left = min(ends - time.thread_time(), seconds + honest)
        if left <= 0:
            raise TimeoutError
        # The rest of the program goes on meanwhile, Ctrl-C included: `regex` lets go of the interpreter.
        return compiled.search(text, timeout=left)

    return search
