"""`lgm`: replay recorded conversations through the memory, and look at threads.

Commands parse and print, functions return data. Data goes to stdout, everything said beside it to stderr. An error of
the library is one message and exit code 2; what cannot be used on the command line is 2 as well; 130 is Ctrl-C.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from .called import interrupted

if TYPE_CHECKING:
    from .commands import app

__all__ = ["app", "main"]

INTERRUPTED = 130


def main() -> None:
    """Entry point of the scripts. The commands are imported here, where Ctrl-C is expected already."""
    try:
        from .commands import run

        code = run()
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:
        sys.stderr.write(f"{interrupted()}\n")
    sys.exit(code)


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .commands import app

    return app
