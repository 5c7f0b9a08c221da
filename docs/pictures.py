"""Makes the pictures of the documents: `python docs/pictures.py` runs the commands and draws what a terminal shows.

They are run in a temporary folder, at a terminal of 100 columns. What they show depends on the code (the sample reads
this package), so the pictures are made anew when what a command prints has changed, and then looked at.
"""

from __future__ import annotations

import datetime
import html
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from fcntl import ioctl
from functools import partial
from io import StringIO
from itertools import groupby
from pathlib import Path
from struct import pack
from tempfile import TemporaryDirectory
from termios import TIOCSCTTY, TIOCSWINSZ
from typing import Any

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
WIDTH = 100
RATIO = 0.61
"""Width of a character, as a share of its height: that of rich."""
CELL = 20 * RATIO
TEXT = re.compile(r'<text ([^>]*?)x="([\d.]+)"([^>]*?)textLength="[\d.]+"([^>]*)>([^<]+)</text>')

# Without prompt_toolkit, whose editor moves the cursor about: a line that is typed plainly looks the same.
START = "import sys; sys.modules['prompt_toolkit'] = None; from langgraph_memory.cli import main; main()"
PROMPT = "> "
MORE = "\x1b[2m…\x1b[0m"
TYPED = (
    "Which tool results are trimmed?",
    "remember that the harbour office opens on Wednesday (周三), not on Monday (周一)",
    "When does my harbour office open?",
    "/memory show",
    "/context",
    "/exit",
)

# That of rich, without the fonts that it loads from elsewhere and without a frame for each line, which no line leaves.
FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">
<style>
.{unique_id}-matrix {{
font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace;
font-size: {char_height}px; line-height: {line_height}px }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: ui-monospace, Menlo, Consolas, monospace }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def rgb(colour: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(colour)
    return red, green, blue


THEME = TerminalTheme(
    rgb("1b1d23"),
    rgb("dee0e6"),
    [*map(rgb, ("464a54", "e87078", "98c379", "e5c07b", "61afef", "c678dd", "56b6c2", "dee0e6"))],
    [*map(rgb, ("8c919c", "f08c92", "b0d694", "d99862", "8ac4f5", "d896eb", "7ccdd7", "ffffff"))],
)
"""Ground, text, colours, bright colours; as dim text it can still be read."""

# A terminal


def run(folder: Path, *words: str, typed: Sequence[str] = ()) -> list[str]:
    """The lines that a terminal shows of `lgm` with these words, when these lines are typed at its prompt."""
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, pack("HHHH", 60, WIDTH, 0, 0))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LANGGRAPH_", "NO_COLOR"))}
    environ = {**kept, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLORTERM": ""}
    process = subprocess.Popen(
        [sys.executable, "-c", START, *words],
        **dict.fromkeys(("stdin", "stdout", "stderr"), theirs),
        cwd=folder,
        env={**environ, "COLUMNS": str(WIDTH)},
        preexec_fn=partial(_own, theirs),
    )
    os.close(theirs)
    shown = b"".join(_talk(ours, typed))
    os.close(ours)
    assert process.wait() == 0, f"lgm {' '.join(words)}: {shown.decode()}"
    return settled(shown.decode())


def _own(terminal: int) -> None:
    os.setsid()
    ioctl(terminal, TIOCSCTTY, 0)


def _talk(terminal: int, typed: Sequence[str]) -> Iterator[bytes]:
    left, line = list(typed), b""
    while True:
        try:
            data = os.read(terminal, 65_536)
        except OSError:  # So Linux says that the other side has closed.
            return
        if not data:
            return
        yield data
        line = (line + data).rpartition(b"\n")[2]
        if left and line.decode("utf-8", "replace") == PROMPT:
            os.write(terminal, f"{left.pop(0)}\n".encode())


def settled(shown: str) -> list[str]:
    """The lines that are left on the screen, when a progress bar has drawn itself over and over and has gone."""
    lines, row, begun = [""], 0, False
    for part in re.split(r"(\n|\r|\x1b\[\d*A|\x1b\[2K|\x1b\[\?25[lh])", shown):
        if part == "\n":
            row += 1
            lines += [""] * (row >= len(lines))
        elif part == "\r":
            begun = True
        elif part.endswith("A") and part.startswith("\x1b["):
            row -= int(part[2:-1] or 1)
        elif part == "\x1b[2K":
            lines[row] = ""
        elif part and not part.startswith("\x1b[?25"):
            lines[row] = part if begun else lines[row] + part
        begun = begun and part in ("", "\r", "\x1b[2K")
    return [line.rstrip() for line in lines]


# A picture


def picture(title: str, lines: Sequence[str], name: str) -> str:
    """The lines with their colours as SVG, in a window that has its own dark ground."""
    console = Console(width=WIDTH, record=True, file=StringIO(), force_terminal=True, color_system="standard")
    text = Text.from_ansi("\n".join(lines).rstrip("\n"))
    for line in text.split():
        ends = [len(piece) for piece in chop_cells(line.plain, WIDTH)][:-1]
        for piece in line.divide([sum(ends[: n + 1]) for n in range(len(ends))]):
            console.print(piece, soft_wrap=True, highlight=False)
    drawn = console.export_svg(title=title, theme=THEME, code_format=FORMAT, font_aspect_ratio=RATIO, unique_id=name)
    drawn = TEXT.sub(_in_cells, re.sub(r' clip-path="url\(#[\w-]+-line-\d+\)"', "", drawn))
    return "\n".join(line.rstrip() for line in drawn.splitlines() if line.strip()) + "\n"


def _in_cells(found: re.Match[str]) -> str:
    """A text element, parted where wide characters begin and end: rich takes them for narrow ones."""
    before, left, between, after, text = found.groups()
    if text == "\n":
        return ""
    parts, x = "", float(left)
    for _, same in groupby(html.unescape(text), cell_len):
        plain = "".join(same)
        length = cell_len(plain) * CELL
        shown = html.escape(plain, quote=False).replace("\xa0", "&#160;")
        parts += f'<text {before}x="{x:g}"{between}textLength="{length:g}"{after}>{shown}</text>'
        x += length
    return parts


def write(name: str, command: str, lines: Sequence[str], folder: Path) -> None:
    home, day = str(folder.parent), datetime.date.today().isoformat()
    neutral = [line.replace(home, "~").replace(day, "YYYY-MM-DD") for line in lines]
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / f"{name}.svg").write_text(picture(command, neutral, f"lgm-{name}"), encoding="utf-8")


# What is drawn


def replayed(folder: Path) -> None:
    lines = [line for line in run(folder, "replay") if line]
    table = next(number for number, line in enumerate(lines) if "largest view" in line)
    write("replay", "lgm replay", [MORE, *lines[table - 14 :]], folder)


def looked_at(folder: Path) -> None:
    """Where old results are trimmed and older messages summarised, against the turn before."""
    ends = [each["checkpoint_id"] for each in of(folder, "tree", "sample") if each["messages"] and not each["next"]]
    views = ((n, of(folder, "context", "sample", "--at", ends[n])) for n in reversed(range(1, len(ends))))
    here = next(n for n, report in views if report["trimmed"])
    run(folder, "fork", "sample", "before", "--at", ends[here - 1])
    run(folder, "rewind", "sample", ends[here])
    write("context", "lgm context sample", run(folder, "context", "sample"), folder)
    write("view", "lgm view sample", [*run(folder, "view", "sample")[:42], MORE], folder)
    write("diff", "lgm diff before sample", run(folder, "diff", "before", "sample"), folder)


def branched(folder: Path) -> None:
    """The rewound thread goes on: what came after is a branch."""
    run(folder, "replay")
    write("tree", "lgm tree sample", run(folder, "tree", "sample"), folder)


def chatted(folder: Path) -> None:
    shutil.copytree(ROOT / "langgraph_memory" / "context", folder / "context")
    words = ["chat", "--model", "demo", "--user", "ada", "--thread", "first"]
    lines = run(folder, *words, typed=TYPED)
    bold = [f"\x1b[1;36m{line}\x1b[0m" if line.startswith(PROMPT) else line for line in lines]
    write("chat", f"lgm {' '.join(words[:3])}", bold, folder)


def of(folder: Path, *words: str) -> Any:
    """What a command prints as JSON."""
    return json.loads("\n".join(run(folder, *words, "--json")))


def main() -> None:
    with TemporaryDirectory() as home:
        for name in ("agent", "project"):
            (Path(home) / name).mkdir()
        replayed(Path(home, "agent"))
        looked_at(Path(home, "agent"))
        branched(Path(home, "agent"))
        chatted(Path(home, "project"))


if __name__ == "__main__":
    main()
