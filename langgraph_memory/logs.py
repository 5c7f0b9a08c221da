"""What may stand in a log: ids and figures, never what was said.

The text of an error that a model, an embedding model or somebody's listener raised may quote the request it failed on,
so no line shows it; the line says of what kind the error is and where it was raised. Whoever needs the text asks for
it, knowing what it may hold, by the level of one logger:

    logging.getLogger("langgraph_memory.details").setLevel(logging.DEBUG)
"""

from __future__ import annotations

import logging
import traceback

details = logging.getLogger("langgraph_memory.details")
if details.level == logging.NOTSET:
    # A root logger that shows DEBUG has not asked for what was said.
    details.setLevel(logging.INFO)

STATUSES = ("status_code", "sqlite_errorname")
FRAMES = 5


def outline(error: object) -> str:
    """The kind of an error, with the status that the provider, SQLite or the system gave it; nothing of its text."""
    found = [str(value) for name in STATUSES if (value := getattr(error, name, None)) is not None]
    if isinstance(error, OSError) and error.strerror:
        found.append(error.strerror)
    kind = type(error).__name__
    return f"{kind} ({', '.join(found)})" if found else kind


def failed(logger: logging.Logger, what: str, error: BaseException, *, level: int = logging.ERROR) -> None:
    """Log that `what` failed, and where; the text of the error goes to `details` alone."""
    frames = traceback.extract_tb(error.__traceback__)[-FRAMES:]
    places = "".join(f"\n  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames)
    logger.log(level, "%s: %s%s", what, outline(error), places)
    details.debug("%s", what, exc_info=error)
