"""Forgetting a text: taking it out of every file of long-term memory, and out of what the index has on its pages.

The unit is an entry, a line of Markdown or a logged message: what holds the text goes as a whole, and everything else
stays byte for byte; of a list inside a list, the item that holds it goes with what is below that. A logged message
leaves its key behind, so that it is not logged anew, and how far each thread was flushed is kept in a file, so that
nothing comes back when the index is lost.

A text is held where it stands in whole words, as a search finds them. Case, width and white space are not told apart,
accents are where the text to be forgotten has some, and JSON is looked at without its escapes. The names by which
programs find things — ids, types, tools, file names — are no text, nor is what this library and providers note of
themselves: who saved an entry, the day above a ledger, the model of a reply. The threads keep their messages; those go
with the thread.
"""

from __future__ import annotations

import json
import logging
import re
import sqlite3
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, get_args

from ..context.text import clean_text, to_json
from ..errors import LangGraphMemoryError
from ..search_text import GOES_ON, Query, fold
from ..sessions import FOLDER as SESSIONS
from .cues import Kind
from .curated import Block
from .entry import Entry, Placed, is_item, without_comment
from .folder import ARCHIVE, HISTORY, LEDGER, MEMORY, STATE, WorkspaceError
from .index import DamagedIndexError, IndexUnusableError, print_of

if TYPE_CHECKING:
    from .keeper import Keeper

logger = logging.getLogger(__name__)

SHORTEST = 3
SHORTEST_WIDE = 2
"""Of Chinese, Japanese and Korean characters. What is shorter stands in nearly everything."""
Holds = Callable[[str], bool]

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([\"\\/bfnrt]))")
_PLAIN = {"b": " ", "f": " ", "n": "\n", "r": "\n", "t": "\t"}
_DEPTH = 4
"""How often JSON may stand inside JSON."""
_NAMES = frozenset({"id", "type", "role", "status", "tool_call_id", "index"})
"""What stands under these keys is no text."""
_CALLING = frozenset({"args", "arguments", "input"})
"""Beside these, a name is that of a tool."""
_NAMING = _CALLING | {"metadata"}
"""Under these, keys are somebody's text too."""
_ABOUT = ("additional_kwargs", "response_metadata")
_NOTED = frozenset(
    {"model", "model_name", "model_provider", "model_version", "finish_reason", "stop_reason", "token_usage", "usage"}
    | {"system_fingerprint", "service_tier", "timestamp", "created", "created_at", "sent_at", "lc_source"}
)
"""What stands in those under these keys was noted by programs: about the model, its tokens and the time."""
_NAMED = frozenset({"ai", "AIMessageChunk", "tool", "function"})
"""Types of messages whose name is that of a program."""
_MARKS = frozenset({"v", "upto", "recent", "skipped", "written", "pending", "last_run"})
_FAILED = "failed"
_DAY = re.compile(r"#{1,2} [0-9]{4}-[0-9]{2}-[0-9]{2}")
"""The heading of a ledger, or of a day in MEMORY.md."""
_SPELLINGS = str.maketrans({"’": "'", "ı": "i"})
_ENDS = "।॥"
"""Marks behind a sentence that stand among the letters of their script."""
BY = "by"
"""In the metadata of an entry: who wrote it. Those that a flush wrote name the messages it is through with."""
TOOL, FLUSH, RULE = "memory_save", "flush", "rule"
MARKS = "memory/.flushed.json"
"""Thread -> keys of messages up to which it was flushed when something was forgotten."""
CACHE = "cache.db"
"""In the workspace: summaries and replies of all its namespaces."""
INDEX = "index.db"
MOST_BYTES = 10_000_000
"""Of a file of others that is looked into."""


def holding(text: str) -> Holds:
    """Whether something holds `text`, however it is written. Raises `WorkspaceError` for one that is too short."""
    needle = _flat(text)
    exact = _exact(text)
    form = _flat if exact == needle else _exact
    wide = all(unicodedata.east_asian_width(char) in "WF" for char in needle if char.isalnum())
    if len(needle) < (SHORTEST_WIDE if wide else SHORTEST) or not Query.of(text):
        raise WorkspaceError(
            f"{text!r} is too short to be forgotten by; give at least {SHORTEST} characters ({SHORTEST_WIDE} of "
            "Chinese, Japanese or Korean), or the id of an entry."
        )
    raw = clean_text(text).casefold()
    return lambda said: any(_stands(exact, form(one)) or _stands(raw, one.casefold()) for one in _forms(said))


def _flat(text: str) -> str:
    return " ".join(fold(clean_text(text)).split())


def _exact(text: str) -> str:
    """As `_flat`, with the accents; the dot of an i is none."""
    same = unicodedata.normalize("NFKC", clean_text(text)).casefold().replace("i\u0307", "i")
    return " ".join(unicodedata.normalize("NFKC", same).translate(_SPELLINGS).split())


def _stands(needle: str, said: str) -> bool:
    """Whether a text stands in another in whole words."""
    place = said.find(needle)
    while place >= 0:
        end = place + len(needle)
        if not _is_in_word(said, place) and not _is_in_word(said, end):
            return True
        place = said.find(needle, place + 1)
    return False


def _is_in_word(text: str, place: int) -> bool:
    """Whether a word of a script that parts words by blanks goes on across a place."""
    return 0 < place < len(text) and all(
        char not in _ENDS and GOES_ON.match(char) for char in text[place - 1 : place + 1]
    )


def _forms(text: str) -> Iterator[str]:
    """A text as it stands and without the escapes of JSON in it."""
    yield text
    for _ in range(_DEPTH):
        plain = clean_text(_ESCAPE.sub(_unescaped, text))
        if plain == text:
            return
        yield plain
        text = plain


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else _PLAIN.get(found[2], found[2])


def forget(keeper: Keeper, text: str) -> int:
    """Remove what holds `text`, under the lock that the caller has; in how many places it was."""
    folder = keeper.folder
    try:
        # What a crash has left to be appended must not be appended later.
        keeper.sync()
    except (sqlite3.Error, OSError, LangGraphMemoryError) as error:
        logger.warning("The memory index cannot be used while a text is forgotten: %s", error)
    # Before anything goes: by a crash nothing comes back.
    _keep_marks(keeper)
    files = [MEMORY, *(name for each in (LEDGER, ARCHIVE, HISTORY) for name in folder.names(each))]
    if same := _said_by(keeper, files, text):
        count = sum(_without(keeper, name, lambda one: one.id == text or print_of(one.text) in same) for name in files)
    else:
        holds = holding(text)
        count = sum(_without(keeper, name, lambda one: holds(_told(one)), holds) for name in files)
        count += sum(_logged(keeper, name, holds) for name in folder.names(SESSIONS, ".jsonl"))
        count += sum(_kept_aside(keeper, name, holds) for name in folder.copies())
        count += _noted(keeper, holds)
        _report_others(keeper, files, holds)
    folder.sweep()
    _clean_index(keeper)
    return count


def _said_by(keeper: Keeper, files: Sequence[str], id_: str) -> set[bytes]:
    """Prints of what the entries with an id say; no id has a blank in it."""
    if len(id_.split()) != 1:
        return set()
    return {print_of(row.entry.text) for name in files for row in keeper.rows(name) if row.entry.id == id_}


# Markdown


def _without(keeper: Keeper, name: str, goes: Callable[[Entry], bool], holds: Holds = lambda _: False) -> int:
    """Take out of a file the entries that go, and any other lines that hold the text."""
    if (data := keeper.folder.bytes_of(name)) is None:
        return 0
    # Whatever is no UTF-8 comes back as the bytes it was.
    lines = data.decode(errors="surrogateescape").split("\n")
    there = keeper.placed(name, data)
    said = _places(there)
    ours = _places([one for one in there if without_comment(lines[one.last - 1]) != lines[one.last - 1]])
    days = _days(keeper, name, lines)
    known = ours | days
    parts = [part for one in there if goes(one.entry) for part in _parts(one, lines, ours, holds)]
    others = [place for place, line in enumerate(lines) if place not in said and place not in days and holds(line)]
    gone, count = {*chain(*parts), *others}, len(parts) + len(others)
    # A text may take several lines of a person; ours have been looked at as a whole.
    plain = ["\0" if place in known else f"\0 {line}" if is_item(line) else line for place, line in enumerate(lines)]
    while across := _across([(place, line) for place, line in enumerate(plain) if place not in gone], holds):
        gone |= across
        count += 1
    if gone:
        _move_watermark(keeper, name, {one.entry.id for one in there if not gone.isdisjoint(_places([one]))})
        left = "\n".join(line for place, line in enumerate(lines) if place not in gone)
        keeper.folder.replace(name, left.encode(errors="surrogateescape"))
    return count


def _places(entries: Sequence[Placed]) -> set[int]:
    """The lines of entries, counted from 0."""
    return {place for one in entries for place in range(one.first - 1, one.last)}


def _days(keeper: Keeper, name: str, lines: Sequence[str]) -> set[int]:
    """The places of the headings that we wrote for a day."""
    plain = ((place, line.lstrip("\ufeff").strip()) for place, line in enumerate(lines))
    found = {place: line for place, line in plain if _DAY.fullmatch(line)}
    if not name.startswith(HISTORY) and name != MEMORY:
        return {place for place, line in found.items() if line == f"# {name.rpartition('/')[2].removesuffix('.md')}"}
    written = keeper.state().get("written")
    return {place for place, line in found.items() if isinstance(written, list) and Block((line,)).print in written}


def _parts(one: Placed, lines: Sequence[str], ours: Collection[int], holds: Holds) -> list[list[int]]:
    """The lines of an entry that goes, or of the items inside it that hold the text for themselves."""
    places = sorted(_places([one]))
    return [places] if one.first - 1 in ours else _below(places, lines, holds) or [places]


def _below(places: Sequence[int], lines: Sequence[str], holds: Holds) -> list[list[int]]:
    """The items under the first line of an item that hold the text, if what else it says does not."""
    own, items = [places[0]], list[list[int]]()
    for place in places[1:]:
        line = lines[place]
        if items and (not line.strip() or _indent(line) > _indent(lines[items[-1][0]])):
            items[-1].append(place)
        elif is_item(line):
            items.append([place])
        else:
            own.append(place)
    if holds("\n".join(lines[place] for place in own)):
        return []
    held = [item for item in items if holds("\n".join(lines[place] for place in item))]
    return [part for item in held for part in _below(item, lines, holds) or [item]]


def _indent(line: str) -> int:
    blanks = line[: len(line) - len(line.lstrip())]
    return len(blanks.expandtabs(4))


def _told(entry: Entry) -> str:
    return "\n".join([entry.text, *_texts(_given(entry.metadata), naming=True)])


def _given(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata without what we note ourselves; others may use our keys for what they have to say."""
    by = metadata.get(BY)
    ours = {BY} if by in (TOOL, FLUSH, RULE) else set()
    if by == RULE and metadata.get("kind") in get_args(Kind):
        ours.add("kind")
    return {key: value for key, value in metadata.items() if key not in ours}


def _across(lines: Sequence[tuple[int, str]], holds: Holds) -> set[int]:
    """The first lines that hold the text only together."""
    said = [line for _, line in lines]
    if not holds("\n".join(said)):
        return set()
    end = bisect_left(range(len(said)), True, key=lambda end: holds("\n".join(said[: end + 1]))) + 1
    start = bisect_left(range(end), True, key=lambda start: not holds("\n".join(said[start:end]))) - 1
    return {place for place, _ in lines[start:end]}


def _move_watermark(keeper: Keeper, name: str, gone: Collection[str]) -> None:
    """A ledger that is done up to an entry that goes is done up to the one before it."""
    state = keeper.state()
    done = state.get("upto")
    if not isinstance(done, dict) or done.get(name) not in gone:
        return
    ids = [row.entry.id for row in keeper.rows(name)]
    before = [one for one in ids[: ids.index(done[name])] if one not in gone]
    done = {key: value for key, value in done.items() if key != name} | ({name: before[-1]} if before else {})
    keeper.write_state({**state, "upto": done})


# How far threads were flushed


def flushed_upto(keeper: Keeper) -> dict[str, list[str]]:
    """Thread -> keys of messages up to which it was flushed, as `forget` kept them."""
    try:
        kept = json.loads(keeper.folder.bytes_of(MARKS) or b"{}")
    except (ValueError, RecursionError):
        return {}
    kept = kept if isinstance(kept, dict) else {}
    return {thread: [str(key) for key in keys] for thread, keys in kept.items() if isinstance(keys, list)}


def _keep_marks(keeper: Keeper) -> None:
    """Keep what the index knows of how far threads were flushed; where it knows nothing, what their entries say."""
    kept, known = flushed_upto(keeper), keeper.flushed_keys()
    marks = kept | {thread: [key] for thread, key in known.items()}
    for name in (*keeper.folder.names(LEDGER), *keeper.folder.names(ARCHIVE)):
        for entry in (row.entry for row in keeper.rows(name) if row.entry.metadata.get(BY) in (FLUSH, RULE)):
            if entry.thread_id is not None and entry.thread_id not in known:
                marks[entry.thread_id] = [*dict.fromkeys([*marks.get(entry.thread_id, ()), *entry.message_ids])]
    if marks != kept:
        keeper.folder.replace(MARKS, clean_text(to_json(marks)).encode())


# Logged messages


def _logged(keeper: Keeper, name: str, holds: Holds) -> int:
    """Empty the logged messages that hold the text; what is no message goes whole."""
    lines = (keeper.folder.bytes_of(name) or b"").decode(errors="surrogateescape").split("\n")
    kept, count = [], 0
    for line in lines:
        message = _parsed(line)
        if not holds(line if message is None else "\n".join(_texts(_spoken(_data(message))))):
            kept.append(line)
        else:
            count += 1
            kept += _emptied(message)
    if count:
        keeper.folder.replace(name, "\n".join(kept).encode(errors="surrogateescape"))
    return count


def _parsed(text: str) -> Any:
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    return None


def _data(message: Any) -> Any:
    return message["data"] if isinstance(message, dict) and "data" in message else message


def _spoken(message: Any) -> Any:
    """The data of a message without what programs note of it."""
    if not isinstance(message, dict):
        return message
    about = {
        key: {name: value for name, value in message[key].items() if name not in _NOTED}
        for key in _ABOUT
        if isinstance(message.get(key), dict)
    }
    noted = {"usage_metadata", "example", *(["name"] if message.get("type") in _NAMED else [])}
    return {key: value for key, value in message.items() if key not in noted} | about


def _texts(value: Any, *, naming: bool = False) -> Iterator[str]:
    """The texts in a value that was JSON; with `naming`, keys are such."""
    stack = [(value, naming)]
    while stack:
        one, naming = stack.pop()
        if isinstance(one, dict):
            names = set() if naming else _NAMES if _CALLING.isdisjoint(one) else _NAMES | {"name"}
            stack += [(key, True) for key in one if naming]
            stack += [(each, naming or key in _NAMING) for key, each in one.items() if key not in names]
        elif isinstance(one, list):
            stack += [(each, naming) for each in one]
        elif one is not None:
            yield str(one)


def _emptied(message: Any) -> list[str]:
    """The line of a message without what was said, if it has a key; it still is a message when it is read."""
    if not isinstance(message, dict) or "id" not in message:
        return []
    data = _data(message)
    names = {key: data[key] for key in sorted(_NAMES & data.keys())} if isinstance(data, dict) else {}
    kept = {key: message[key] for key in ("thread", "logged", "type") if key in message}
    rest = clean_text(to_json({**kept, "forgotten": True, "data": {"content": "", **names}}))
    return [f'{{"id": {json.dumps(message["id"])}, {rest[1:]}']


# What else there is


def _kept_aside(keeper: Keeper, name: str, holds: Holds) -> int:
    """Remove a copy of a damaged file in which the text stands."""
    if not holds((keeper.folder.bytes_of(name) or b"").decode(errors="replace")):
        return 0
    keeper.folder.remove(name)
    return 1


def _noted(keeper: Keeper, holds: Holds) -> int:
    """Remove what consolidation noted where it holds the text; how far it is, and when it was, says nothing."""
    state = keeper.state()
    gone = [key for key, value in state.items() if key not in _MARKS and holds("\n".join(_reasons(key, value)))]
    if gone:
        keeper.write_state({key: value for key, value in state.items() if key not in gone})
    return len(gone)


def _reasons(key: str, value: Any) -> Iterator[str]:
    """What a note of consolidation says; of a failure, why."""
    return _texts(value.get("reason") if key == _FAILED and isinstance(value, dict) else value, naming=key != _FAILED)


def _report_others(keeper: Keeper, files: Collection[str], holds: Holds) -> None:
    """Tell of files that others have put here, which are theirs to change; databases are not looked into."""
    for folder in ("", LEDGER, ARCHIVE, HISTORY, SESSIONS):
        for name in keeper.folder.others(folder):
            ours = name in files or name in (STATE, MARKS) or ".db" in name or name.endswith(".jsonl")
            if ours or keeper.folder.size(name) > MOST_BYTES:
                continue
            if holds((keeper.folder.bytes_of(name) or b"").decode(errors="replace")):
                logger.warning("%s holds what was to be forgotten; it is not ours", keeper.folder.path / name)


def _clean_index(keeper: Keeper) -> None:
    """Leave nothing of what was removed in the index, nor in damaged ones, whose pages cannot be searched."""
    try:
        try:
            keeper.sync()
            keeper.index.forget()
        except DamagedIndexError:
            keeper.sync()
        if rest := keeper.folder.size(f"{INDEX}-wal"):
            raise IndexUnusableError(f"{rest} bytes of what was written last are in use")
    except (sqlite3.Error, OSError, LangGraphMemoryError) as error:
        raise WorkspaceError(
            f"{keeper.index.path}: the text is out of the files, but perhaps not out of the index: {error}. "
            "Forget it once more, or delete the index; it is made anew."
        ) from error
    finally:
        for name in keeper.folder.copies():
            if name.startswith(INDEX):
                keeper.folder.remove(name)
