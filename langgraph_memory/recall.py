"""The `recall` tool: what the view leaves out, given back from the thread's own messages and their spill files.

The markers in the view name what can be read: `recall("msg:ID")` pages through a message, `recall("spill:DIGEST")`
through a spilled result, `recall("history")` through all messages, `recall("spills")` lists the spilled results, and
`pattern` picks matching lines of any of them. Only the running thread's own state can be reached: a spill file is
opened for a thread only if one of its tool results carries the marker.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, NoReturn, Protocol

import regex
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, convert_to_messages
from langchain_core.tools import BaseTool

from . import patterns
from .context.prune import OWN_TOOLS
from .context.text import clean_text, message_text, one_line
from .spill import MARKER, SpillDamagedError, SpillStore, references
from .state import MESSAGES
from .tooling import make_tool

MAX_CHARS = 8000
LINE_CHARS = 500
PATTERN_CHARS = 1000
NAME = "recall"
HISTORY = "history"
SPILLS = "spills"
SPILL = "spill:"
MESSAGE = "msg:"
CUT = "[…]"
MATCH_SECONDS = 1.0
"""Time for all matches of a pattern; a pattern that takes longer is looked for as plain text."""

_TOO_COSTLY = "[the pattern takes too long as a regular expression; it was looked for as plain text]"
_SPECIAL = frozenset("\\.^$*+?{}[]()|")
_CALLED = re.compile(r"\s*(?:recall\s*\()?\s*(?:ref\s*=\s*)?([\"'])(.*)\1\s*\)?\s*", re.DOTALL)
_SHOWN_CHARS = 200

Span = tuple[int, int]
Search = Callable[[str], Span | None]


class Line(NamedTuple):
    label: str
    text: str
    start: int | None = None
    """The character it starts at, where a page can be read from there."""


class Source(NamedTuple):
    """What a reference stands for."""

    page: Callable[[int, int], tuple[str, int]]
    """From offset and limit: the characters there, and how many there are in all."""
    lines: Callable[[], Iterable[Line]]


class Earlier(Protocol):
    """Gives all messages of a thread, also those that have left its state."""

    async def messages(self, thread_id: str) -> Sequence[BaseMessage]: ...

    def messages_sync(self, thread_id: str) -> Sequence[BaseMessage]: ...


def make_recall_tool(store: SpillStore | None = None, earlier: Earlier | None = None) -> BaseTool:
    """The tool for a model, with the spill files of `store`, and what `earlier` gives beside the state."""

    def read(ref: str, runtime: ToolRuntime, offset: int = 0, limit: int = 4000, pattern: str = "") -> str:
        """Read what this conversation shows shortened, cleared, spilled or summarised.

        Args:
            ref: "msg:ID" or "spill:DIGEST" from a marker, "history" for all messages, "spills" to list spilled results.
            offset: Character to start at (with a pattern: number of matching lines to skip).
            limit: Characters to return, at most 8000.
            pattern: Return only lines that contain this text (a regular expression, case-insensitive).
        """
        before = earlier.messages_sync(thread) if earlier and (thread := _thread(runtime)) else ()
        return recall(_whole(before, runtime), ref, store=store, offset=offset, limit=limit, pattern=pattern)

    async def aread(ref: str, runtime: ToolRuntime, offset: int = 0, limit: int = 4000, pattern: str = "") -> str:
        before = await earlier.messages(thread) if earlier and (thread := _thread(runtime)) else ()
        told = partial(recall, store=store, offset=offset, limit=limit, pattern=pattern)
        return await asyncio.to_thread(lambda: told(_whole(before, runtime), ref))

    return make_tool(read, aread, NAME)


def _thread(runtime: ToolRuntime) -> str | None:
    thread = (runtime.config.get("configurable") or {}).get("thread_id")
    return None if thread is None else str(thread)


def _whole(earlier: Sequence[BaseMessage], runtime: ToolRuntime) -> list[BaseMessage]:
    """What was said before, and what is in the state."""
    state = runtime.state
    given = state.get(MESSAGES) if isinstance(state, dict) else getattr(state, MESSAGES)
    messages = convert_to_messages(given or ())
    present = {message.id for message in messages}
    return [*(message for message in earlier if message.id not in present), *messages]


recall_tool: BaseTool = make_recall_tool()


def recall(
    messages: Sequence[BaseMessage],
    ref: str,
    *,
    store: SpillStore | None = None,
    offset: int = 0,
    limit: int = 4000,
    pattern: str = "",
) -> str:
    """What the tool returns for the thread `messages`; sizes are characters."""
    offset, limit = max(0, offset), min(max(1, limit), MAX_CHARS)
    for reading in _readings(ref):
        if source := _source(messages, reading, store):
            ref = one_line(clean_text(reading), _SHOWN_CHARS)
            break
    else:
        return (
            f"Nothing here is called {one_line(clean_text(ref), _SHOWN_CHARS)!r}. Use a reference from a marker, such "
            "as msg:ID or spill:DIGEST, or history, or spills."
        )
    if len(pattern) > PATTERN_CHARS:
        return f"No line of {ref} matches: a pattern has at most {PATTERN_CHARS} characters, this one {len(pattern)}."
    try:
        return _matching(source, ref, pattern, offset, limit) if pattern else _page(source, ref, offset, limit)
    except FileNotFoundError:
        return f"The file of {ref} is gone; only the preview in the conversation is left."
    except SpillDamagedError:
        return f"The file of {ref} is damaged and is not shown; only the preview in the conversation is left."
    except OSError as error:
        return f"The file of {ref} cannot be read now ({error.strerror or type(error).__name__})."


def full_text(message: BaseMessage) -> str:
    """Everything a message says: its text, and the calls it makes, but for calls of this tool."""
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    shown = [f"→ {call['name']} {call['args']}" for call in calls if call["name"] != NAME]
    return "\n".join(filter(None, [message_text(message), *shown]))


# What a reference stands for


def _readings(ref: str) -> Iterator[str]:
    """`ref` as it stands, then as a model may have copied a marker: with quotes, with the call, escaped as JSON."""
    bare = ref.strip()
    readings = [ref, bare]
    if called := _CALLED.fullmatch(ref):
        readings += [*_unescaped(called[2]), called[2]]
    readings += [*_unescaped(bare), bare.strip("\"'")]
    return iter(dict.fromkeys(readings))


def _unescaped(text: str) -> Iterator[str]:
    with suppress(ValueError):
        yield str(json.loads(f'"{text}"'))


def _source(messages: Sequence[BaseMessage], ref: str, store: SpillStore | None) -> Source | None:
    if ref == HISTORY:
        said = _said(messages)
        return Source(partial(_paged, lambda: "\n".join(_transcript(said))), partial(_lines, said))
    if ref == SPILLS:
        listed = "\n".join(_spills(messages)) or "No result of this conversation was spilled."
        return Source(partial(_paged, lambda: listed), lambda: (Line(SPILLS, line) for line in listed.splitlines()))
    if ref.startswith(SPILL):
        digest = ref.removeprefix(SPILL)
        return _file(digest, store) if any(digest in references(message_text(m)) for m in _results(messages)) else None
    # The form of the markers comes first: an id may itself begin with "msg:".
    named = [message for message in messages if message.id and ref == f"{MESSAGE}{message.id}"]
    found = named or [message for message in messages if message.id == ref != ""]
    return Source(partial(_paged, lambda: _told(found)), partial(_lines, found)) if found else None


def _file(digest: str, store: SpillStore | None) -> Source:
    # A thread may come from a program that had the files.
    return Source(partial(store.page, digest), partial(_numbered, store, digest)) if store else Source(_gone, _gone)


def _gone(*_: object) -> NoReturn:
    raise FileNotFoundError


def _paged(text: Callable[[], str], offset: int, limit: int) -> tuple[str, int]:
    whole = clean_text(text())
    return whole[offset : offset + limit], len(whole)


def _said(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """All messages but what was recalled before: a search must not find itself."""
    return [m for m in messages if not (isinstance(m, ToolMessage) and m.name == NAME)]


def _results(messages: Sequence[BaseMessage]) -> Iterator[ToolMessage]:
    """Results that can carry a marker of this thread; what was looked up may quote those of others."""
    return (m for m in messages if isinstance(m, ToolMessage) and m.name not in OWN_TOOLS)


def _spills(messages: Sequence[BaseMessage]) -> Iterator[str]:
    listed: dict[str, str] = {}
    for message in _results(messages):
        for marker in MARKER.finditer(message_text(message)):
            name = one_line(clean_text(message.name or "a tool"), 80)
            listed.setdefault(marker["digest"], f"{SPILL}{marker['digest']} · {name} · {marker['bytes']} bytes")
    return iter(listed.values())


def _told(messages: Sequence[BaseMessage]) -> str:
    """A message; several that share an id are all told."""
    return full_text(messages[0]) if len(messages) == 1 else "\n".join(_transcript(messages))


def _transcript(messages: Sequence[BaseMessage]) -> Iterator[str]:
    for message in messages:
        yield f"[{message.type} {_label(message.id)}]" if message.id else f"[{message.type}]"
        yield full_text(message)


def _lines(messages: Sequence[BaseMessage]) -> Iterator[Line]:
    for number, message in enumerate(messages, 1):
        label = _label(message.id) if message.id else f"message {number}"
        for line in clean_text(full_text(message)).splitlines():
            yield Line(label, line)


def _label(key: str) -> str:
    """The reference of a message on one line, escaped as in the markers where it is not plain text."""
    ref = f"{MESSAGE}{key}"
    return ref if ref.isprintable() else json.dumps(ref)[1:-1]


def _numbered(store: SpillStore, digest: str) -> Iterator[Line]:
    start = 0
    for number, line in enumerate(store.lines(digest), 1):
        yield Line(f"line {number}", line.rstrip("\r\n"), start)
        start += len(line)


# Pages and matches


def _page(source: Source, ref: str, offset: int, limit: int) -> str:
    text, total = source.page(offset, limit)
    if offset >= total:
        return f"{ref} has {total} characters; there is nothing at {offset}."
    end = offset + len(text)
    return text + (f"\n[characters {offset}-{end} of {total}; go on with offset={end}]" if end < total else "")


def _matching(source: Source, ref: str, pattern: str, skip: int, limit: int) -> str:
    notes = []
    try:
        shown, total, first = _found(source.lines(), _expression(pattern), skip, limit)
    except (TimeoutError, MemoryError):
        notes.append(_TOO_COSTLY)
        shown, total, first = _found(source.lines(), _plain(pattern), skip, limit)
    if not total:
        return "\n".join([f"No line of {ref} matches {pattern!r}.", *notes])
    if not shown:
        return f"{total} lines of {ref} match {pattern!r}; there is nothing at {skip}."
    if first is not None and first.start is not None:
        notes.append(f"[{first.label} starts at offset={first.start}]")
    rest = total - skip - len(shown)
    if rest > 0:
        notes.append(f"[{rest} more matching lines; go on with offset={skip + len(shown)}]")
    return "\n".join([*shown, *notes])


def _found(lines: Iterable[Line], search: Search, skip: int, limit: int) -> tuple[list[str], int, Line | None]:
    """The matching lines to show, the number of all, and the first one shown."""
    shown: list[str] = []
    first, used, total = None, 0, 0
    for line in lines:
        span = search(line.text)
        if span is None:
            continue
        total += 1
        if total > skip and used <= limit:
            text = f"{line.label}: {_excerpt(line.text, span, min(LINE_CHARS, limit))}"
            used += len(text) + 1
            if not shown or used <= limit:
                shown.append(text)
                first = first or line
    return shown, total, first


def _excerpt(text: str, span: Span, size: int) -> str:
    """At most `size` characters of a line, and the match among them."""
    if len(text) <= size:
        return text
    start = max(0, min((sum(span) - size) // 2, span[0], len(text) - size))
    return f"{CUT * (start > 0)}{text[start : start + size]}{CUT * (start + size < len(text))}"


def _expression(pattern: str) -> Search:
    """Look for a regular expression, or for plain text where it is none; raises `TimeoutError`."""
    try:
        compiled = regex.compile(pattern, regex.IGNORECASE)
    except Exception:  # noqa: BLE001 - no pattern that a model thinks of may end its run
        return _plain(pattern)
    if _SPECIAL.isdisjoint(pattern):
        return _plain(pattern)
    return _spans(patterns.limited(compiled, MATCH_SECONDS))


def _plain(pattern: str) -> Search:
    return _spans(regex.compile(regex.escape(pattern), regex.IGNORECASE | regex.FULLCASE).search)


def _spans(search: patterns.Search) -> Search:
    def spanned(text: str) -> Span | None:
        match = search(text)
        return match.span() if match else None

    return spanned
