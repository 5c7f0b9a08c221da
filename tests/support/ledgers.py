"""What of the ledgers is not merged yet."""

from collections.abc import Mapping

from langgraph_memory.longterm.consolidate import Mark, past
from langgraph_memory.longterm.index import Row
from langgraph_memory.longterm.keeper import Keeper


def pending(keeper: Keeper, upto: Mapping[str, str]) -> list[Row]:
    """The entries behind a watermark: ledger file -> id of its last entry that is done."""
    return list(past(keeper, Mark.of({"upto": upto})))
