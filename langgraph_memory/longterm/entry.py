"""An entry: one thing worth remembering, and the lines of a Markdown list in which a ledger keeps it.

    - 14:03:22+01:00 [fact] Ada prefers dark mode. <!-- lgm {"id": "…", "thread": "t-1", "messages": ["m-7"]} -->

The text stands as it was given, its further lines indented by two blanks; what only programs need stands in a comment
that Markdown does not show. The date is the file's. A list item or a line that a person wrote by hand is an entry too:
its id is made from its text, its time is what it begins with, which stays in the text, or the beginning of the file's
day. An item that stands deeper than the one above it by two blanks or a tab is a part of that one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime, time
from hashlib import blake2b
from typing import Annotated, Any, Literal, get_args
from uuid import uuid4

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from ..context.text import clean_text, one_line, to_json
from ..context.tokens import estimator_for
from ..errors import LangGraphMemoryError

EntryType = Literal["conversation", "fact", "summary", "tool_result"]

_ITEM = re.compile(r"(?:[-*+•]|[0-9]{1,3}[.)])[ \t]+(.*)")
_HEADING = re.compile(r"#{1,6}(?:\s|$)")
_MARKS = re.compile(r"[\s!-/:-@\[-`{-~]*")
"""A line that says nothing: a rule, a fence, the line below the head of a table."""
_STAMP = re.compile(
    # A zone only behind seconds, as we write it: "09:00-10:30" is how people write how long something takes.
    r"([0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?(?:Z|[+-][0-9]{2}:[0-9]{2}(?::[0-9]{2})?)?)?)\s+"
    rf"(?:\[({'|'.join(get_args(EntryType))})\] )?(.*)",
    re.DOTALL,
)
_OURS = re.compile(r"[0-9:.]+(?:Z|[+-][0-9:]+)?\s+\[(?:" + "|".join(get_args(EntryType)) + r")\] ")
"""How a text of ours begins; the time with which a person's begins is a part of what is said."""
_COMMENT, _COMMENT_END = "<!-- lgm ", " -->"
_ID_CHARS = 200
_SHOWN_CHARS = 200


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
    """What JSON can hold."""
    thread_id: str | None = None
    checkpoint_id: str | None = None
    message_ids: tuple[str, ...] = ()
    """Of the messages it was made from; of many, the first and the last."""

    @classmethod
    def of(cls, value: Entry | Mapping[str, Any] | str, *, now: datetime | None = None) -> Entry:
        """An entry from another one, a text, or a mapping of the fields, of which only `text` is required.

        `timestamp` is a `datetime` or ISO 8601; without a zone it is local, without a timestamp it is `now`.
        Raises `EntryError`.
        """
        given = _given(value)
        text = _tidy(given.text)
        if not text:
            raise EntryError(f"text: {_shown(given.text)} is blank; an entry needs a text")
        return cls(
            text,
            given.id or uuid4().hex,
            _with_zone(given.timestamp or now or datetime.now()),
            given.type,
            given.tokens or estimator_for("auto").text(text),
            _plain(given.metadata),
            clean_text(given.thread_id) if given.thread_id else None,
            clean_text(given.checkpoint_id) if given.checkpoint_id else None,
            tuple(map(clean_text, given.message_ids)),
        )

    @property
    def day(self) -> date:
        """The local day it belongs to, which names its ledger file."""
        return self.timestamp.astimezone().date()


class _Given(BaseModel):
    """What may be given for an entry."""

    model_config = ConfigDict(extra="forbid")

    text: str
    id: Annotated[str, StringConstraints(max_length=_ID_CHARS, pattern=r"^\S+$")] | None = None
    type: EntryType = "fact"
    timestamp: datetime | None = None
    tokens: Annotated[int, Field(ge=0)] = 0
    metadata: dict[str, Any] = {}
    thread_id: str | None = Field(default=None, validation_alias=AliasChoices("thread_id", "thread"))
    checkpoint_id: str | None = Field(default=None, validation_alias=AliasChoices("checkpoint_id", "checkpoint"))
    message_ids: list[str] = Field(default=[], validation_alias=AliasChoices("message_ids", "messages"))


def _given(value: Any) -> _Given:
    if isinstance(value, Entry):
        value = {one.name: getattr(value, one.name) for one in fields(Entry)}
    elif isinstance(value, str):
        value = {"text": value}
    elif not isinstance(value, Mapping):
        raise EntryError(f"entry: {_shown(value)} is none; give a text, an Entry, or a mapping with a `text`")
    try:
        return _Given.model_validate(value)
    except ValidationError as error:
        problems = "; ".join(map(_problem, error.errors()))
        raise EntryError(f"An entry cannot be made from this. {problems}") from None


def _problem(problem: ErrorDetails) -> str:
    name = ".".join(map(str, problem["loc"])) or "entry"
    if problem["type"] == "extra_forbidden":
        return f"{name}: {_shown(problem['input'])}: there is no such field; allowed: {', '.join(_Given.model_fields)}"
    return f"{name}: {_shown(problem['input'])}: {problem['msg']}"


def _shown(value: object) -> str:
    return one_line(repr(value), _SHOWN_CHARS)


def _with_zone(moment: datetime) -> datetime:
    try:
        moment = moment if moment.tzinfo else moment.astimezone()
        moment.astimezone()
    except (ValueError, OverflowError, OSError) as error:
        raise EntryError(f"timestamp: {moment.isoformat()} has no local day here ({error})") from None
    return moment


def _plain(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata as it will be read again."""
    try:
        text = json.dumps(metadata, ensure_ascii=False, default=str, allow_nan=False)
        return dict(json.loads(clean_text(text)))
    except (TypeError, ValueError, RecursionError) as error:
        raise EntryError(f"metadata: {_shown(metadata)} cannot be written as JSON: {error}") from None


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
    comment = clean_text(to_json({key: value for key, value in about.items() if value}))
    # So that no comment begins or ends in this one.
    comment = comment.replace("<", "\\u003c").replace(">", "\\u003e")
    text = entry.text.replace("\n", "\n  ")
    return f"- {moment.timetz().isoformat()} [{entry.type}] {text} {_COMMENT}{comment}{_COMMENT_END}\n"


@dataclass(frozen=True, slots=True)
class Placed:
    """An entry and the lines of its file that hold it, counted from 1."""

    entry: Entry
    first: int
    last: int


def read_lines(text: str, day: date, *, file: str | None = None) -> list[Placed]:
    """The entries in a ledger, or in any Markdown that a person wrote: its list items and its other lines.

    `file` takes the place of the day in the ids of what has none, where the day is not that of the file for good.
    """
    beginning = datetime.combine(day, time()).astimezone()
    made = _Made(file or day.isoformat())
    found = []
    for first, lines in _items(text.split("\n")):
        if entry := _entry("\n".join(lines), beginning, made):
            found.append(Placed(entry, first, first + len(lines) - 1))
    return found


def is_item(line: str) -> bool:
    """Whether a line begins an item of a list."""
    return _ITEM.match(line.strip()) is not None


def without_comment(line: str) -> str:
    """A line of a ledger as a reader sees it."""
    body = line.rstrip()
    return _parted(body)[0].rstrip() + line[len(body) :]


def _items(lines: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Each item's first line number and its lines, without bullet and indent."""
    open_item: list[str] = []
    first = blank = 0
    is_list, indent = False, ""
    for number, line in enumerate(lines, 1):
        if not (said := line.strip()):
            blank += 1
        elif open_item and is_list and (inner := _inner(line.removesuffix("\r"), indent)) is not None:
            open_item += [""] * blank + [inner]
            blank = 0
        else:
            if open_item:
                yield first, open_item
            item = _ITEM.fullmatch(said)
            open_item, first, blank, is_list = [item[1] if item else said], number, 0, item is not None
            indent = line[: len(line) - len(line.lstrip())]
            if not is_list and (_HEADING.match(said) or _MARKS.fullmatch(said)):
                open_item = []
    if open_item:
        yield first, open_item


def _inner(line: str, indent: str) -> str | None:
    """A line without the indent that makes it a part of the list item above, which has `indent` itself."""
    rest = line.removeprefix(indent) if line.startswith(indent) else ""
    if rest.startswith("\t"):
        return rest[1:]
    return rest[2:] if rest.startswith("  ") else None


class _Made:
    """Makes the ids of entries that have none: of equal texts each has its own, whatever else stands in the file."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._seen: dict[str, int] = {}

    def id(self, text: str) -> str:
        number = self._seen[text] = self._seen.get(text, 0) + 1
        return blake2b(f"{self._file}\n{number}\n{text}".encode(), digest_size=16).hexdigest()


def _entry(said: str, beginning: datetime, made: _Made) -> Entry | None:
    text, about = _parted(said)
    moment, kind, told = _stamped(text, beginning)
    if about or _OURS.match(text):
        text = told
    if not (text := _tidy(text)):
        return None
    metadata, messages = about.get("metadata"), about.get("messages")
    return Entry(
        text,
        _text(about.get("id")) or made.id(text),
        moment,
        kind,
        _number(about.get("tokens")) or estimator_for("auto").text(text),
        metadata if isinstance(metadata, dict) else {},
        _text(about.get("thread")),
        _text(about.get("checkpoint")),
        tuple(map(str, messages)) if isinstance(messages, list) else (),
    )


def _parted(text: str) -> tuple[str, dict[str, Any]]:
    """What was said, and what our comment behind it says."""
    body = text.rstrip()
    start = body.rfind(_COMMENT + "{")
    if start >= 0 and body.endswith(_COMMENT_END) and "\n" not in body[start:] and not body[start - 1 : start].strip():
        with suppress(ValueError, RecursionError):
            return body[:start], json.loads(body[start + len(_COMMENT) : -len(_COMMENT_END)])
    return text, {}


def _stamped(text: str, beginning: datetime) -> tuple[datetime, EntryType, str]:
    """The time and the type that stand in front of a text, and the text."""
    if stamp := _STAMP.fullmatch(text):
        with suppress(ValueError, OverflowError):
            moment = datetime.combine(beginning.date(), time.fromisoformat(stamp[1]))
            return moment if moment.tzinfo else moment.astimezone(), stamp[2] or "fact", stamp[3]  # type: ignore[return-value]
    return beginning, "fact", text


def _number(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def with_text(entry: Entry, text: str) -> Entry:
    """The entry with another text, for instance without secrets."""
    text = _tidy(text)
    return replace(entry, text=text, tokens=estimator_for("auto").text(text))


def lines_of(entries: Iterable[Entry]) -> str:
    return "".join(map(to_lines, entries))
