"""`lgm status`: what is on disk, how it is, and what is still to be done."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .called import program
from .console import print_json, print_values
from .files import readable_size
from .options import ConfigOption, JsonOption

if TYPE_CHECKING:
    from .health import Cache, Database, FolderSize, Status
    from .health_memory import MemoryHealth


def status(as_json: JsonOption = False, config: ConfigOption = None) -> None:
    """Show what is on disk, how it is, what waits to be done, and what is configured. Changes nothing."""
    from langgraph_memory.config import load_config

    from .health import status_of

    found = status_of(load_config(config))
    if as_json:
        print_json(found.to_json())
        return
    print_values(_rows(found))


def _rows(found: Status) -> Iterator[tuple[str, str]]:
    yield from _database(found.database)
    yield "summaries", _cache(found.cache)
    yield "workspace", _folder(found.workspace)
    yield "spilled results", _folder(found.spill)
    for memory in found.memories:
        yield f"memory {memory.memory}", _memory(memory)
    todo = list(_to_do(found))
    yield "to be done", todo[0] if todo else "nothing"
    yield from (("", line) for line in todo[1:])
    yield "configuration", found.config_file or "no file: the defaults"
    for key, row in found.configured.items():
        value = json.dumps(row["value"], ensure_ascii=False)
        yield f"  {key}", f"{value} ({row['origin']})"


def _database(found: Database) -> Iterator[tuple[str, str]]:
    if not found.exists:
        yield "threads", f"{found.path}: not there yet"
        return
    yield "threads", f"{found.path}: {readable_size(found.bytes)}{_problem(found.problem)}"
    if found.made_by is None:
        return
    counts = f"{found.threads:,} threads, {found.checkpoints:,} checkpoints, {found.messages:,} messages"
    yield "", counts
    made = f"version {found.version}" if found.version else "of LangGraph's own saver"
    yield "", f"tables: {made}" + (f"; search index: {found.index}" if found.index else "")


def _cache(found: Cache) -> str:
    if not found.exists:
        return f"{found.path}: not there yet"
    bought = f", {found.summaries:,} bought" if found.version else ""
    return f"{found.path}: {readable_size(found.bytes)}{bought}{_problem(found.problem)}"


def _folder(found: FolderSize) -> str:
    if not found.exists:
        return f"{found.path}: not there yet"
    return f"{found.path}: {readable_size(found.bytes)} in {found.files:,} files"


def _memory(found: MemoryHealth) -> str:
    if found.problem:
        return f"{found.folder}{_problem(found.problem)}"
    index = "in step" if found.indexed else "not made yet; the first search does it"
    if found.indexed and found.behind:
        index = f"behind in {', '.join(found.behind)}; the next search indexes them"
    return f"{readable_size(found.bytes)} in {found.files:,} files; index {index}"


def _problem(problem: str | None) -> str:
    return f"; cannot be used: {problem}" if problem else ""


def _to_do(found: Status) -> Iterator[str]:
    """What somebody has to do, or will be done by the next one who comes."""
    for waiting in found.database.waiting:
        if waiting.next:
            yield f"thread {waiting.thread_id} has to run {', '.join(waiting.next)}: resume it, or rewind it"
        if waiting.queued:
            yield f"thread {waiting.thread_id}: {waiting.queued:,} messages wait for its next run"
    for name in found.database.damaged:
        yield f"thread {name} is damaged: `{program()} verify` says what is wrong with it"
    if found.database.log_bytes:
        size = readable_size(found.database.log_bytes)
        yield f"the database has a log of {size}: a program has it open, or the next one that opens it takes that in"
    if found.cache.being_bought:
        yield f"{found.cache.being_bought:,} summaries are being bought"
    for memory in found.memories:
        if memory.due:
            threads = ", ".join(memory.due)
            yield f"memory {memory.memory}: {threads} still to be extracted from; `{program()} maintain` does it"
        if memory.unfinished:
            yield f"memory {memory.memory}: an append was cut off; the next one completes it"
        if memory.kept_aside:
            yield f"memory {memory.memory}: damaged files were kept aside: {', '.join(memory.kept_aside)}"
    if found.interrupted:
        yield f"files of writes that were cut off, of no use: {', '.join(found.interrupted)}"
