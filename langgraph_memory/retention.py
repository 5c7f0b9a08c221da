"""Threads that nobody has used for long leave the database, but only once they stand in a file of the archive.

The file is `<workspace>/archive/threads/<thread>.jsonl`, one message a line, whole before the thread is removed. A
thread that waits for something, an interrupt or a task that is not done, stays however old it is.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

from .atomic import write_whole
from .errors import LangGraphMemoryError
from .names import safe_name
from .state import MESSAGES
from .threads import ThreadStore
from .threads.fold import holds_others
from .threads.source import config_of

logger = logging.getLogger(__name__)

FOLDER = Path("archive", "threads")


async def expire(store: ThreadStore, days: int, workspace: Path, *, now: datetime | None = None) -> list[str]:
    """Archive and remove the threads that were last changed more than `days` ago; their ids. 0 days keep them all.

    A thread that cannot be archived stays, and a warning says why.
    """
    oldest = (now or datetime.now(UTC)) - timedelta(days=days)
    gone = []
    for row in await store.threads() if days else ():
        if datetime.fromisoformat(row.updated) < oldest and not row.next:
            try:
                await archive(store, row.thread_id, workspace)
                await store.delete(row.thread_id)
            except (OSError, LangGraphMemoryError) as error:
                logger.warning("The thread %r stays, it cannot be archived: %s", row.thread_id, error)
            else:
                gone.append(row.thread_id)
    return gone


async def archive(store: ThreadStore, thread_id: str, workspace: Path) -> Path:
    """Write a thread to the archive; the file. Raises `OSError` and leaves nothing half-written.

    Raises `LangGraphMemoryError` where the file would not have everything: another graph keeps something else there.
    """
    lines = [line async for line in store.export(thread_id, "jsonl")]
    saved = await store.saver.aget_tuple(config_of(thread_id, "", None))
    if not lines or saved is None or holds_others(saved.checkpoint["channel_values"].get(MESSAGES, [])):
        raise LangGraphMemoryError("it has no messages, or something else among them, which the archive would not have")
    path = workspace / FOLDER / f"{safe_name(thread_id)}.jsonl"
    await asyncio.to_thread(_write, path, "".join(f"{line}\n" for line in lines))
    return path


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, [text.encode("utf-8", "surrogatepass")])
