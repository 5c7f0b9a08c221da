"""A whole replay: which conversations, into which threads, under which configuration; and what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

from langgraph_memory.config import RuntimeConfig, load_config
from langgraph_memory.context.text import clean_text

from .database import open_memory
from .errors import RecordingError
from .meter import Totals
from .recordings import Note, Recording, read_recordings
from .replay_engine import DEFAULT_WINDOW, Outcome, replay, replay_config
from .sample import SAMPLE_THREAD, SAMPLE_WINDOW, run_sample
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
    if not request.files:
        return asyncio.run(_replay_sample(request, config, watch))
    survey = survey_files(request, watch.say)
    return asyncio.run(_replay_files(request, config, watch, survey))


async def _replay_files(request: Request, config: RuntimeConfig, watch: Watch, survey: Survey) -> Result:
    outcomes, conversations = [], recordings(request)
    with watch.running(survey.calls):
        async with open_memory(config, model=request.model, on_event=watch.on_event) as memory:
            for thread in survey.threads:
                recording = await asyncio.to_thread(next, conversations)
                outcomes.append(await replay(memory, recording, thread, watch))
    return Result(tuple(outcomes))


async def _replay_sample(request: Request, config: RuntimeConfig, watch: Watch) -> Result:
    with watch.running(None):
        async with open_memory(config, model=request.model, on_event=watch.on_event) as memory:
            outcome = await run_sample(memory, clean_text(request.thread or SAMPLE_THREAD), watch)
    return Result((outcome,))


def recordings(request: Request, note: Note = lambda _: None) -> Iterator[Recording]:
    for file in request.files:
        yield from read_recordings(file, request.limit, note)


def survey_files(request: Request, note: Note) -> Survey:
    """Read everything once, so that a fault in the last file stops the replay before its beginning."""
    found = [(recording.file, recording.id, recording.calls) for recording in recordings(request, note)]
    if not found:
        raise RecordingError(f"No conversations to replay in {', '.join(map(str, request.files))}.")
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
