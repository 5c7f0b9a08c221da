"""A whole replay: which conversations, into which threads, under which configuration; and what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

from langgraph_memory import MemoryMiddleware, ThreadSaver
from langgraph_memory.config import RuntimeConfig, load_config
from langgraph_memory.context.text import clean_text
from langgraph_memory.models import Model
from langgraph_memory.threads.tables import thread_ids

from .database import open_memory
from .errors import RecordingError
from .meter import Totals
from .models import named_model
from .recordings import Note, Recording, read_recordings
from .replay_engine import DEFAULT_WINDOW, Outcome, replay, replay_config, window_of
from .sample import SAMPLE_THREAD, SAMPLE_WINDOW, run_sample
from .streams import Source, readable
from .watch import Watch


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line."""

    files: tuple[Path, ...] = ()
    window: int | None = None
    model: str | None = None
    thread: str | None = None
    limit: int | None = None
    config: Path | None = None


@dataclass(frozen=True)
class Result:
    """The outcomes of all conversations."""

    outcomes: tuple[Outcome, ...]
    window: int
    """The window of this replay; a thread that was complete before has figures of another one, maybe."""
    threads: frozenset[str]
    """All threads of the database."""

    @property
    def total(self) -> Totals:
        return reduce(add, (outcome.totals for outcome in self.outcomes), Totals())

    @property
    def sound(self) -> bool:
        return all(outcome.sound for outcome in self.outcomes)

    def to_json(self) -> dict[str, Any]:
        return {"rows": [outcome.to_json() for outcome in self.outcomes], "total": self.total.to_json()}


@dataclass(frozen=True)
class Survey:
    """What there is to replay, found out before anything runs."""

    threads: tuple[str, ...]
    calls: int


def run(request: Request) -> Result:
    """Replay the files that were asked for, or the sample where there are none."""
    window = DEFAULT_WINDOW if request.files else SAMPLE_WINDOW
    config = replay_config(load_config(request.config).config, request.window, window)
    watch = Watch(has_model=bool(request.model or config.memory.compaction.model))
    model = named_model(request.model)
    if not request.files:
        return asyncio.run(_replay_sample(request, config, model, watch))
    with readable(request.files) as sources:
        survey = survey_files(request, sources, watch.say)
        return asyncio.run(_replay_files(survey, recordings(sources, request.limit), config, model, watch))


async def _replay_files(
    survey: Survey, conversations: Iterator[Recording], config: RuntimeConfig, model: Model | None, watch: Watch
) -> Result:
    outcomes = []
    with watch.running(survey.calls):
        async with open_memory(config, model=model, on_event=watch.on_event) as memory:
            for thread in survey.threads:
                recording = await asyncio.to_thread(next, conversations, None)
                if recording is None:
                    raise RecordingError(f"The conversation of {thread!r} is gone: its file has changed meanwhile.")
                outcomes.append(await replay(memory, recording, thread, watch))
            return await _result(memory, outcomes)


async def _replay_sample(request: Request, config: RuntimeConfig, model: Model | None, watch: Watch) -> Result:
    with watch.running(None):
        async with open_memory(config, model=model, on_event=watch.on_event) as memory:
            outcome = await run_sample(memory, clean_text(request.thread or SAMPLE_THREAD), watch)
            return await _result(memory, [outcome])


async def _result(memory: MemoryMiddleware, outcomes: list[Outcome]) -> Result:
    assert isinstance(memory.saver, ThreadSaver)
    return Result(tuple(outcomes), window_of(memory), frozenset(await memory.saver.call(thread_ids)))


def recordings(sources: Sequence[Source], limit: int | None, note: Note = lambda _: None) -> Iterator[Recording]:
    for source in sources:
        yield from read_recordings(source.file, limit, note, content=source.content)


def survey_files(request: Request, sources: Sequence[Source], note: Note) -> Survey:
    """Read everything once, so that a fault in the last file stops the replay before its beginning."""
    found = [(each.file, each.id, each.calls) for each in recordings(sources, request.limit, note)]
    if not found:
        raise RecordingError(f"No conversations to replay in {', '.join(str(each.file) for each in sources)}.")
    threads = [_thread(request.thread, file, id, len(found)) for file, id, _ in found]
    if len(set(threads)) < len(threads):
        twice = next(thread for thread in threads if threads.count(thread) > 1)
        raise RecordingError(f"Two conversations would share the thread {twice!r}; replay their files one by one.")
    return Survey(tuple(threads), sum(calls for _, _, calls in found))


def _thread(wanted: str | None, file: Path, conversation: str, conversations: int) -> str:
    """The thread of a conversation; a name that is not Unicode is stored as text."""
    if wanted and conversations == 1:
        return clean_text(wanted)
    return clean_text(f"{wanted or file.stem}/{conversation}")
