"""The fenced blocks of the documents, and how text that was printed is compared with text that is shown.

A block may have remarks: HTML comments directly above it, which a reader does not see.

    <!-- output -->                 the block shows what the code block above it prints
    <!-- replies: ["…", {…}] -->    what the chat model of a program answers, one after the other: texts, or the fields
                                    of an `AIMessage`; the last one again and again
    <!-- langgraph.json -->         a JSON block that is a server's configuration; every other is a `runtime.json`
    <!-- database: PATH -->         the SQLite file that an SQL block asks; without it the threads of the document's
                                    folder, and where there are none those of the sample
    <!-- changes: PATH -->          the SQLite file that an SQL block changes
    <!-- no rows -->                an SQL block that finds nothing there
    <!-- sample -->                 from this block on the folder has the thread that `lgm replay` makes
    <!-- input: "y\\n" -->          what is typed while a session runs
    <!-- exit: 2 -->                the exit code of the last command of a session

In what is shown, `...` and `…` stand for any text, and alone on a line for any lines. Ids, times and sizes on disk are
different in every run, so their form is compared; blanks are not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = (ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*.md")))

LOOSE = {"README.md"}
"""Documents that show the thread of the sample, which is about the source code and so says something else after each
change of it: words are compared, numbers are not."""

REMARKS = {"output", "replies", "langgraph.json", "database", "changes", "no rows", "sample", "input", "exit"}

_FENCE = re.compile(r"^( *)(`{3,}|~{3,})(.*)$")
_REMARK = re.compile(r"^<!-- ([\w. ]+?)(?:: (.*?))? -->$")
_ANY = re.compile(r"\.\.\.|…")
_FORMS = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}(-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|…|\.\.\.)"), "<id>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?(\+00:00|Z)?"), "<time>"),
    (re.compile(r"\b[\d,.]+ ?([kKMG]B|bytes|B)\b"), "<size>"),
)
_NUMBER = re.compile(r"\d[\d,.]*")


@dataclass(frozen=True)
class Block:
    """A fenced block: where it begins, its language, its text, and the remarks above it."""

    document: str
    line: int
    language: str
    text: str
    remarks: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return f"{self.document}:{self.line}"

    def value(self, remark: str) -> Any:
        """What a remark says, as JSON; None if it is not there."""
        try:
            return json.loads(self.remarks[remark]) if remark in self.remarks else None
        except json.JSONDecodeError as error:
            raise AssertionError(f"{self.place}: the remark {remark!r} is not JSON ({error})") from error


def blocks_of(path: Path) -> list[Block]:
    return list(_blocks(path.name, path.read_text(encoding="utf-8").splitlines()))


def _blocks(document: str, lines: list[str]) -> Iterator[Block]:
    remarks: dict[str, str] = {}
    number = 0
    while number < len(lines):
        start, fence = number, _FENCE.match(lines[number])
        number += 1
        if not fence:
            remarks = _remarks(f"{document}:{number}", lines[start], remarks)
            continue
        closing = re.compile(rf"^ *{fence[2][0]}{{{len(fence[2])},}}\s*$")
        while number < len(lines) and not closing.match(lines[number]):
            number += 1
        assert number < len(lines), f"{document}:{start + 1}: this block has no end"
        inner = [line.removeprefix(fence[1]) for line in lines[start + 1 : number]]
        yield Block(document, start + 1, fence[3].strip(), "".join(f"{line}\n" for line in inner), remarks)
        remarks, number = {}, number + 1


def _remarks(place: str, line: str, above: dict[str, str]) -> dict[str, str]:
    """The remarks that hold below this line: those above it, if nothing stands between, and its own."""
    if not line.strip():
        return above
    found = _REMARK.match(line.strip())
    if not found or (found[1] not in REMARKS and " " in found[1]):
        return {}
    assert found[1] in REMARKS, f"{place}: nobody knows the remark {found[1]!r}"
    return above | {found[1]: found[2] or ""}


def differs(shown: str, printed: str, *, loosely: bool = False) -> str:
    """Why what is shown is not what was printed; empty if it is.

    Loosely, numbers are compared by their form as well, and more lines may have been printed at the end.
    """
    rest = r"(?:.*\n)*" if loosely else ""
    pattern = "".join(map(_line_pattern, _lines(shown, loosely))) + rest
    if re.fullmatch(pattern, "".join(f"{line}\n" for line in _lines(printed, loosely))):
        return ""
    return f"shown:\n{shown}\nprinted:\n{printed}"


def _line_pattern(line: str) -> str:
    if _ANY.fullmatch(line):
        return r"(?:.*\n)*?"
    return ".*?".join(map(re.escape, _ANY.split(line))) + r"\n"


def _lines(text: str, loosely: bool) -> list[str]:
    return [_formed(" ".join(line.split()), loosely) for line in text.strip("\n").splitlines()]


def _formed(line: str, loosely: bool) -> str:
    for pattern, form in _FORMS:
        line = pattern.sub(form, line)
    return _NUMBER.sub("#", line) if loosely else line
