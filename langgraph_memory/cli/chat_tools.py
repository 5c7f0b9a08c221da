"""What the model of `lgm chat` can do with a folder: list its files, search in them, read them. Nothing is changed.

A fault is answered with a sentence that the model can work with. Every answer is bounded, and so is the time for a
pattern: one that explodes is cut off without stopping anything else.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import regex
from langchain_core.tools import BaseTool, tool

from langgraph_memory.patterns import Search, limited

from .chat_folder import Folder, FolderError
from .files import readable_size

LISTED = 300
HITS = 100
LINES = 200
MOST_LINES = 1000
LINE_CHARS = 300
READ_LINE_CHARS = 2000
MOST_CHARS = 100_000
PATTERN_CHARS = 1000
MATCH_SECONDS = 2.0
"""For all the matching of a search; what files take to be read is not counted."""
GREP_SECONDS = 10.0


def folder_tools(folder: Folder) -> list[BaseTool]:
    """`list_files`, `grep` and `read` for one folder."""

    @tool
    def list_files(pattern: str = "*") -> str:
        """List the files of the folder with their sizes.

        Args:
            pattern: Which files, such as "*.py" (in every folder) or "docs/*".
        """
        return _listed(folder, pattern)

    @tool
    def grep(pattern: str, files: str = "*", ignore_case: bool = False) -> str:
        """Find the lines that match a regular expression, as path:line: text.

        Args:
            pattern: The regular expression.
            files: In which files, such as "*.py".
            ignore_case: Whether capitals and small letters are the same.
        """
        return _found(folder, pattern, files, ignore_case)

    @tool
    def read(path: str, start: int = 1, lines: int = LINES) -> str:
        """Read lines of a file of the folder, with their numbers.

        Args:
            path: From the folder, as list_files and grep give it.
            start: First line, counted from 1.
            lines: How many, at most 1000.
        """
        return _pages(folder, path, start, lines)

    return [list_files, grep, read]


def _listed(folder: Folder, pattern: str) -> str:
    shown: list[str] = []
    more = 0
    for path in folder.files(pattern):
        if len(shown) < LISTED:
            shown.append(f"{folder.name(path)} ({readable_size(path.stat().st_size)})")
        else:
            more += 1
    if not shown:
        return f"No file of the folder fits {pattern!r}."
    return "\n".join([*shown, *([f"({more} more; narrow the pattern)"] if more else [])])


def _found(folder: Folder, pattern: str, files: str, ignore_case: bool) -> str:
    if len(pattern) > PATTERN_CHARS:
        return f"The pattern has {len(pattern)} characters; at most {PATTERN_CHARS} are allowed."
    try:
        search = _expression(pattern, ignore_case)
    except (regex.error, OverflowError, RecursionError, MemoryError) as error:
        return f"{pattern!r} is not a regular expression ({error}). Escape what is meant as it stands with a backslash."
    hits: list[str] = []
    try:
        hits.extend(_hits(folder, search, files))
    except TimeoutError:
        return f"{pattern!r} takes too long as a regular expression; search for a simpler one, or in fewer files."
    more = [f"(more than {HITS} lines match; narrow the pattern)"] if len(hits) > HITS else []
    return "\n".join([*hits[:HITS], *more]) or "no match"


def _hits(folder: Folder, search: Search, files: str) -> Iterator[str]:
    """The first lines that match, one more than are shown. Files that are no text are passed over."""
    ends, left = time.monotonic() + GREP_SECONDS, HITS + 1
    for path in folder.files(files):
        if time.monotonic() > ends:
            yield f"(stopped after {GREP_SECONDS:.0f} seconds, at {folder.name(path)})"
            return
        try:
            lines = folder.text(folder.name(path)).splitlines()
        except FolderError:
            continue
        for number, line in enumerate(lines, 1):
            if search(line):
                yield f"{folder.name(path)}:{number}: {_cut(line.strip(), LINE_CHARS)}"
                left -= 1
                if not left:
                    return


def _expression(pattern: str, ignore_case: bool) -> Search:
    compiled = regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)
    return limited(compiled, MATCH_SECONDS)


def _pages(folder: Folder, path: str, start: int, lines: int) -> str:
    try:
        whole = folder.text(path).splitlines()
    except FolderError as error:
        return str(error)
    first = max(start, 1) - 1
    part = whole[first : first + min(max(lines, 1), MOST_LINES)]
    if not part:
        return f"{path!r} has {len(whole)} lines; there is nothing at {start}."
    shown: list[str] = []
    used = 0
    for number, line in enumerate(part, first + 1):
        shown.append(f"{number:4} {_cut(line, READ_LINE_CHARS)}")
        used += len(shown[-1]) + 1
        if used > MOST_CHARS:
            break
    rest = len(whole) - first - len(shown)
    return "\n".join([*shown, *([f"({rest} more lines; go on with start={first + len(shown) + 1})"] if rest else [])])


def _cut(line: str, most: int) -> str:
    return line if len(line) <= most else f"{line[:most]} … ({len(line) - most} more characters)"
