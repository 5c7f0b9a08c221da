"""Forgetting a text: taking it out of every file of long-term memory, and out of what the index has on its pages.

The unit is an entry, a line of Markdown or a logged message: what holds the text goes as a whole. A logged message
leaves its key behind, so that it is not logged anew. The threads keep their messages; those go with the thread.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ..context.text import to_json
from ..search_text import Query, fold
from ..sessions import FOLDER as SESSIONS
from .entry import read_lines
from .folder import ARCHIVE, HISTORY, LEDGER, MEMORY, STATE, WorkspaceError

if TYPE_CHECKING:
    from .keeper import Keeper

SHORTEST = 3
"""Characters of a text in a script with blanks between words; a shorter one stands in nearly everything."""
Holds = Callable[[str], bool]


def forget(keeper: Keeper, text: str) -> int:
    """Remove what holds `text`, which may be an entry's id, under the lock that the caller has; in how many places."""
    keeper.sync()
    holds = _test(text)
    names = [MEMORY, *keeper.folder.names(LEDGER), *keeper.folder.names(ARCHIVE), *keeper.folder.names(HISTORY)]
    count = sum(_without(keeper, name, holds) for name in names)
    count += sum(_logged(keeper, name, holds) for name in keeper.folder.names(SESSIONS, ".jsonl"))
    count += sum(_aside(keeper, name, holds) for name in _damaged(keeper))
    keeper.sync()
    keeper.index.forget()
    return count


def _test(text: str) -> Holds:
    needle = _flat(text)
    if len(needle) < (SHORTEST if needle.isascii() else 1) or not Query.of(text):
        raise WorkspaceError(
            f"{text!r} is too short to be forgotten by; give at least {SHORTEST} characters, or the id of an entry."
        )
    return lambda said: needle in _flat(said)


def _flat(text: str) -> str:
    return " ".join(fold(text).split())


def _without(keeper: Keeper, name: str, holds: Holds) -> int:
    """Take out of a Markdown file the entries, and any other lines, that hold the text."""
    if (data := keeper.folder.bytes_of(name)) is None:
        return 0
    text = data.decode(errors="replace")
    lines, gone, ids = text.split("\n"), set[int](), []
    count = 0
    for placed in read_lines(text, datetime.now(UTC).date()):
        span = range(placed.first - 1, placed.last)
        told = "\n".join([placed.entry.text, to_json(dict(placed.entry.metadata)), *(lines[i] for i in span)])
        if holds(told):
            gone.update(span)
            ids.append(placed.entry.id)
            count += 1
    headings = {i for i, line in enumerate(lines) if i not in gone and holds(line)}
    if gone or headings:
        _move_watermark(keeper, name, ids)
        left = "\n".join(line for i, line in enumerate(lines) if i not in gone | headings)
        keeper.folder.replace(name, left.encode(errors="replace"))
    return count + len(headings)


def _move_watermark(keeper: Keeper, name: str, gone: list[str]) -> None:
    """A ledger that is done up to an entry that goes is done up to the one before it."""
    state = keeper.state()
    done = state.get("upto")
    if not isinstance(done, dict) or done.get(name) not in gone:
        return
    ids = [row.entry.id for row in keeper.rows(name)]
    before = [one for one in ids[: ids.index(done[name])] if one not in gone]
    done = {key: value for key, value in done.items() if key != name} | ({name: before[-1]} if before else {})
    keeper.write_state({**state, "upto": done})


def _logged(keeper: Keeper, name: str, holds: Holds) -> int:
    """Empty the logged messages that hold the text."""
    lines = (keeper.folder.bytes_of(name) or b"").decode(errors="replace").split("\n")
    kept, count = [], 0
    for line in lines:
        if holds("\n".join([line, *_texts(_parsed(line))])):
            count += 1
            line = _emptied(_parsed(line))
        kept.append(line)
    if count:
        keeper.folder.replace(name, "\n".join(kept).encode(errors="replace"))
    return count


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _texts(value: Any) -> Iterator[str]:
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, dict):
            stack += one.values()
        elif isinstance(one, list):
            stack += one
        elif isinstance(one, str):
            yield one


def _emptied(message: Any) -> str:
    """The line without what was said; a torn one goes whole."""
    if not isinstance(message, dict) or "id" not in message:
        return ""
    kept = {key: message[key] for key in ("thread", "logged", "type") if key in message}
    return f'{{"id": {json.dumps(message["id"])}, {to_json({**kept, "forgotten": True, "data": {}})[1:]}'


def _damaged(keeper: Keeper) -> Iterator[str]:
    for folder in ("", LEDGER):
        yield from (name for name in keeper.folder.names(folder, "") if ".damaged-" in name)
    if keeper.folder.size(STATE):
        yield STATE


def _aside(keeper: Keeper, name: str, holds: Holds) -> int:
    """Remove a copy of a damaged file, or what consolidation noted, where the text stands in it."""
    data = keeper.folder.bytes_of(name) or b""
    if not holds(data.decode(errors="replace")):
        return 0
    if name == STATE:
        state = keeper.state()
        keeper.write_state({key: value for key, value in state.items() if not holds(to_json(value))})
    else:
        keeper.folder.remove(name)
    return 1
