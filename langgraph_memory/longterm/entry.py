"""An entry: one thing worth remembering, and the lines of a Markdown list in which a ledger keeps it.

    - 14:03:22+01:00 [fact] Ada prefers dark mode. <!-- lgm {"id": "…", "thread": "t-1", "messages": ["m-7"]} -->

The text stands as it was given, its further lines indented by two blanks; what only programs need stands in a comment
that Markdown does not show. The date is the file's. A list item or a line that a person wrote by hand is an entry too:
its id is made from its text, its time is the beginning of the file's day.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from hashlib import blake2b
from typing import Annotated, Any, Literal
from uuid import uuid4

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from ..context.text import clean_text, to_json
from ..context.tokens import estimator_for
from ..errors import LangGraphMemoryError

EntryType = Literal["conversation", "fact", "summary", "tool_result"]

_ITEM = re.compile(r"[-*+] +(.*)")
_STAMP = re.compile(r"(\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d(?::\d\d)?)?)\s+(?:\[(\w+)\] )?(.*)", re.DOTALL)
_ABOUT = re.compile(r"\A(.*)[ \n]<!-- lgm (\{[^\n]*\}) -->\s*\Z", re.DOTALL)
"""Greedy: of several comments in one line the last is ours."""
_TYPES = ("conversation", "fact", "summary", "tool_result")
_ID_CHARS = 200


class EntryError(LangGraphMemoryError, ValueError):
    """What should become an entry cannot: says which field, its value and what is allowed. Nothing was written."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Something to remember. `Entry.of` makes one from a mapping and fills in what is missing."""

    text: str
    id: str
    timestamp: datetime
    """With a zone."""
    type: EntryType = "fact"
    tokens: int = 0
    """Of the text, estimated unless they were given."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    thread_id: str | None = None
    checkpoint_id: str | None = None
    message_ids: tuple[str, ...] = ()
    """Of the messages it was made from; of many, the first and the last."""

    @classmethod
    def of(cls, value: Entry | Mapping[str, Any] | str, *, now: datetime | None = None) -> Entry:
        """An entry from itself, its text, or a mapping of the fields, of which only `text` is required.

        `timestamp` is a `datetime` or ISO 8601; without a zone it is local, without a timestamp it is `now`.
        Raises `EntryError`.
        """
        if isinstance(value, Entry):
            return value
        try:
            given = _Given.model_validate({"text": value} if isinstance(value, str) else value)
        except ValidationError as error:
            raise EntryError(_problems(error)) from None
        text = _tidy(given.text)
        if not text:
            raise EntryError(f"text: {given.text!r} is blank; an entry needs a text")
        moment = given.timestamp or now or datetime.now()
        return cls(
            text,
            given.id or uuid4().hex,
            moment if moment.tzinfo else moment.astimezone(),
            given.type,
            given.tokens or estimator_for("auto").text(text),
            json.loads(to_json(given.metadata)),
            given.thread_id,
            given.checkpoint_id,
            tuple(given.message_ids),
        )

    @property
    def day(self) -> date:
        """The local day it belongs to, which names its ledger file."""
        return self.timestamp.astimezone().date()


class _Given(BaseModel):
    """What may be given for an entry."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=False)

    text: str
    id: Annotated[str, StringConstraints(max_length=_ID_CHARS, pattern=r"^\S+$")] | None = None
    type: EntryType = "fact"
    timestamp: datetime | None = None
    tokens: Annotated[int, Field(ge=0)] = 0
    metadata: dict[str, Any] = {}
    thread_id: str | None = Field(default=None, validation_alias=AliasChoices("thread_id", "thread"))
    checkpoint_id: str | None = Field(default=None, validation_alias=AliasChoices("checkpoint_id", "checkpoint"))
    message_ids: list[str] = Field(default=[], validation_alias=AliasChoices("message_ids", "messages"))


def _problems(error: ValidationError) -> str:
    lines = (
        f"{'.'.join(map(str, each['loc'])) or 'entry'}: {each['input']!r}: {each['msg']}" for each in error.errors()
    )
    return "An entry cannot be made from this. " + "; ".join(lines)


def _place(problem: ErrorDetails) -> str:
    return ".".join(map(str, problem["loc"])) or "entry"


def _tidy(text: str) -> str:
    """The text as a file can hold it: no lone surrogates, one kind of line end, nothing blank around it."""
    text = clean_text(text).replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
    return "\n".join(line.rstrip() for line in text.split("\n")).strip()


# To lines and back


def to_lines(entry: Entry) -> str:
    """The lines of an entry in its day's ledger, each with its end."""
    moment = entry.timestamp.astimezone()
    about = {
        "id": entry.id,
        "thread": entry.thread_id,
        "checkpoint": entry.checkpoint_id,
        "messages": list(entry.message_ids),
        "tokens": entry.tokens,
        "metadata": dict(entry.metadata),
    }
    # A comment ends at the first "-->", so none may stand in it.
    comment = to_json({key: value for key, value in about.items() if value}).replace("-->", "--\\u003e")
    text = entry.text.replace("\n", "\n  ")
    return f"- {moment.timetz().isoformat()} [{entry.type}] {text} <!-- lgm {clean_text(comment)} -->\n"


@dataclass(frozen=True, slots=True)
class Placed:
    """An entry and the lines of its file that hold it, counted from 1."""

    entry: Entry
    first: int
    last: int


def read_lines(text: str, day: date) -> list[Placed]:
    """The entries in a ledger, or in any Markdown that a person wrote: its list items and its other lines."""
    beginning = datetime.combine(day, time()).astimezone()
    seen: dict[str, int] = {}
    return [
        Placed(_entry("\n".join(lines), beginning, seen), first, first + len(lines) - 1)
        for first, lines in _items(text.split("\n"))
    ]


def _items(lines: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Each item's first line number and its lines, without bullet and indent."""
    open_item: list[str] = []
    first = blank = 0
    is_list = False
    for number, line in enumerate(map(_without_return, lines), 1):
        item = _ITEM.fullmatch(line)
        if open_item and is_list and line.startswith("  ") and line.strip():
            open_item += [""] * blank + [line[2:]]
            blank = 0
        elif not line.strip():
            blank += 1
        else:
            if open_item:
                yield first, open_item
            open_item, first, blank, is_list = [], number, 0, item is not None
            if item or not line.startswith("#"):
                open_item = [item[1] if item else line.strip()]
    if open_item:
        yield first, open_item


def _without_return(line: str) -> str:
    return line.removesuffix("\r")


def _entry(text: str, beginning: datetime, seen: dict[str, int]) -> Entry:
    about, found = {}, _ABOUT.match(text)
    if found:
        try:
            about = json.loads(found[2])
        except ValueError:
            found = None
    if found:
        text = found[1]
    moment, kind = beginning, "fact"
    if stamp := _STAMP.fullmatch(text):
        moment, kind, text = _moment(beginning, stamp[1]), stamp[2] or kind, stamp[3]
    text = text.strip()
    number = seen[text] = seen.get(text, 0) + 1
    made = blake2b(f"{beginning.date()}\n{number}\n{text}".encode(), digest_size=16).hexdigest()
    return Entry(
        text,
        str(about.get("id") or made),
        moment,
        kind if kind in _TYPES else "fact",  # type: ignore[arg-type]
        _number(about.get("tokens")) or estimator_for("auto").text(text),
        about["metadata"] if isinstance(about.get("metadata"), dict) else {},
        _text(about.get("thread")),
        _text(about.get("checkpoint")),
        tuple(map(str, about["messages"])) if isinstance(about.get("messages"), list) else (),
    )


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _moment(beginning: datetime, stamp: str) -> datetime:
    try:
        clock = time.fromisoformat(stamp)
    except ValueError:
        return beginning
    moment = datetime.combine(beginning.date(), clock)
    return moment if moment.tzinfo else moment.astimezone()


def with_text(entry: Entry, text: str) -> Entry:
    """The entry with another text, for instance without secrets."""
    text = _tidy(text)
    return replace(entry, text=text, tokens=estimator_for("auto").text(text))


def lines_of(entries: Iterable[Entry]) -> str:
    return "".join(map(to_lines, entries))
