"""`ThreadStore`: what happened in the threads of a saver, and going back in them.

It works on any LangGraph saver, fast on a `ThreadSaver`. Nothing it does rewrites a checkpoint: rewinding, taking that
back and changing a thread each append one, so every earlier state stays where it was. Two programs that change the
same thread at the same moment leave two branches, as two runs do; `ThreadRow.branches` counts them. What is listed is
a list like any other, which a notebook shows as a table or a tree.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver

from ..errors import LangGraphMemoryError, UnknownThreadError, described
from . import changing, checking, copies, export, frames, scan, tree
from .ids import thread_text
from .listed import Hits, Messages, Threads, Tree
from .rows import Rows
from .saver import ThreadSaver
from .search import Search
from .shapes import Head, ThreadRow
from .source import Source, config_of
from .unentered import Unentered
from .verify import ThreadStats, VerifyReport

T = TypeVar("T")

MESSAGES = "messages"


class ThreadStore:
    """The threads of `saver`. `channel` is where their graphs keep the messages."""

    def __init__(self, saver: BaseCheckpointSaver[Any], *, channel: str = MESSAGES) -> None:
        if not isinstance(saver, BaseCheckpointSaver):
            raise _no_saver(saver)
        self.saver, self.channel = saver, channel
        self._source = Rows(saver) if isinstance(saver, ThreadSaver) else Source(saver)

    # Reading

    async def threads(self) -> Threads:
        """All threads, the one changed last first. Namespaces of graphs inside belong to their thread.

        Those that cannot be read are left out, with a warning, and named in `Threads.damaged`.
        """
        names, rows = await self._source.threads(), list[ThreadRow]()
        for name in names:
            with frames.left_out():
                rows.append(await self._source.row(name, self.channel))
        read = {row.thread_id for row in rows}
        rows = sorted((row for row in rows if row.checkpoints), key=lambda row: row.updated, reverse=True)
        return Threads(rows, damaged=[name for name in names if name not in read])

    async def messages(
        self, thread_id: Any, checkpoint_id: str | None = None, *, channel: str | None = None
    ) -> Messages:
        """Everything that was said on the way to the newest checkpoint, or to the named one, in order.

        Each message stands once, as it was in the end. Those that left the channel because a summary covers them are
        among them; those that were removed in any other way are not.
        """
        name = thread_text(thread_id)
        parents = await self._parents(name)
        target = tree.known(parents, name, checkpoint_id or next(reversed(parents)))
        newest = target not in parents.values()
        way = tree.path(parents, target)
        return Messages(await self._source.said(name, way, channel or self.channel, newest=newest))

    async def checkpoints(self, thread_id: Any, *, channel: str | None = None) -> Tree:
        """The tree of checkpoints of a thread's own graph, oldest first."""
        name = thread_text(thread_id)
        looks = await self._source.looks(name, channel or self.channel)
        if not looks:
            raise await self._unknown(name)
        return Tree(tree.nodes(looks))

    async def branches(self, thread_id: Any) -> list[str]:
        """The checkpoints of a thread that nothing follows, oldest first; more than one after a rewind or a race."""
        return tree.leaves(await self._parents(thread_text(thread_id)))

    async def search(self, query: str, *, thread_id: Any = None, limit: int = 10) -> Hits:
        """Messages that hold every word of `query`, or where there are none, some of it; the best first.

        Some of it is one of its words, or in scripts that put no blanks between words enough of a run; see
        `search_parts`.

        Everything that a `ThreadSaver` has stored is looked at, on all branches; of what another saver wrote, the
        messages as they are on each branch, without those that were removed. Any text is a query; see `search_text`.
        Threads that cannot be read are left out, with a warning. Raises `EncryptedSearchError` on an encrypted saver,
        and `DamagedDatabaseError` where the thread that was named cannot be read.
        """
        name = None if thread_id is None else thread_text(thread_id)
        if name is not None:
            await self._parents(name)
        if isinstance(self.saver, ThreadSaver):
            return Hits(await Search(self.saver, self._source, self.channel).hits(query, name, limit))
        return Hits(await scan.hits(self._source, query, name, self.channel, limit))

    # Going back

    async def rewind(self, thread_id: Any, checkpoint_id: str, *, reason: str = "rewind") -> RunnableConfig:
        """Make a checkpoint the newest again by appending a copy of it; the config of the copy.

        What came after stays as a branch. A checkpoint that is the newest already gets a copy too, which runs again
        what had run or waited after it. Raises `UnknownThreadError`, `UnknownCheckpointError`.
        """
        name = thread_text(thread_id)
        return await self._copy(name, lambda heads: copies.rewind(heads, name, checkpoint_id, reason))

    async def undo(self, thread_id: Any) -> RunnableConfig:
        """Take back the newest rewind or undo: the checkpoint that was newest before it is so again, as a copy.

        What was run since stays as a branch. Raises `NothingToUndoError`.
        """
        name = thread_text(thread_id)
        return await self._copy(name, lambda heads: copies.undo(heads, name))

    async def _copy(self, name: str, plan: Any) -> RunnableConfig:
        await self._parents(name)
        return await self._source.copy(name, plan)

    # Writing

    async def fork(self, thread_id: Any, new_thread_id: Any, checkpoint_id: str | None = None) -> RunnableConfig:
        """A new thread that begins with the way to a checkpoint, the newest by default; its config.

        Checkpoints keep their ids. An interrupt that waits goes along if the checkpoint is the newest. Raises
        `ThreadExistsError`.
        """
        name, new = thread_text(thread_id), thread_text(new_thread_id)
        parents = await self._parents(name)
        await self._source.fork(name, new, lambda heads: copies.fork(heads, name, checkpoint_id))
        return config_of(new, "", checkpoint_id or next(reversed(parents)))

    async def append(
        self, thread_id: Any, changes: Mapping[str, Any], *, source: str = "update", reason: str | None = None
    ) -> RunnableConfig:
        """Append the newest checkpoint once more with some channels changed; its config.

        Messages are added to a channel of messages as `add_messages` does; any other channel takes the value as it is.
        Raises `ThreadBusyError` while tasks are pending or an interrupt waits.
        """
        name = thread_text(thread_id)
        heads = await self._heads(name)
        saved = await self._source.get(name, None)
        if saved is None:
            raise await self._unknown(name)
        changing.refuse_busy(name, saved)
        [new_id] = copies.new_ids(head.id for head in heads)
        return await changing.append(self.saver, saved, changes, new_id, source, reason)

    async def delete(self, thread_id: Any) -> None:
        """Remove a thread, whatever only it used, and its words from the index. Raises `UnknownThreadError`."""
        name = thread_text(thread_id)
        await self._heads(name)
        await self.saver.adelete_thread(name)
        if isinstance(self.saver, ThreadSaver):
            await Search(self.saver, self._source, self.channel).forget()

    # Looking after it

    async def export(
        self, thread_id: Any, format: export.Format = "jsonl", *, channel: str | None = None
    ) -> AsyncIterator[str]:
        """A thread's messages as lines of text without line ends: see `export`."""
        name = thread_text(thread_id)
        for line in export.lines(name, await self.messages(name, channel=channel), format):
            yield line

    async def stats(self, thread_id: Any = None) -> ThreadStats:
        """What the database holds, or what of it a thread uses. Savers without tables count checkpoints only."""
        name = None if thread_id is None else thread_text(thread_id)
        if name is not None:
            await self._heads(name)
        return await checking.stats(self._source, name, self.channel)

    async def verify(self) -> VerifyReport:
        """Read everything again and report what does not hold together."""
        return await checking.verify(self._source)

    # Names

    async def _heads(self, name: str) -> list[Head]:
        heads = await self._source.heads(name)
        if not heads:
            raise await self._unknown(name)
        return heads

    async def _parents(self, name: str) -> dict[str, str | None]:
        """The checkpoints of a thread's own graph, at least one, with their parents."""
        parents = await self._source.parents(name)
        if not parents:
            raise await self._unknown(name)
        return parents

    async def _unknown(self, name: str) -> UnknownThreadError:
        return tree.unknown_thread(str(name), list(map(str, await self._source.threads())))


def _no_saver(given: Any) -> LangGraphMemoryError:
    if isinstance(given, Unentered):
        return given.not_entered()
    has_one = isinstance(getattr(given, "saver", None), BaseCheckpointSaver)
    hint = "give its `.saver`" if has_one else "`async with ThreadSaver.from_conn_string(…) as saver:` gives one"
    return LangGraphMemoryError(f"ThreadStore needs a saver of LangGraph and was given {described(given)}: {hint}.")
