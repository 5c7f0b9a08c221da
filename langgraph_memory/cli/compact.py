"""`lgm compact`: a summary for a thread now, or what that would do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .called import program
from .console import print_json, say
from .options import ConfigOption, JsonOption, ThreadArgument

if TYPE_CHECKING:
    from .compacting import Compaction


def compact(
    thread: ThreadArgument,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done. Asks no model, changes nothing.")
    ] = False,
    focus: Annotated[str | None, typer.Option(metavar="TEXT", help="What the summary should pay attention to.")] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="PROVIDER:NAME",
            help="Who writes the summary; without it memory.compaction.model, else it is extracted without a model.",
        ),
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", metavar="ID", help="Whose thread it is, if its last run did not say.")
    ] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Cover the older messages of a thread with a summary now, whatever the triggers say.

    Nothing is removed: the summary is one more decision about the thread, and `lgm rewind` goes back before it.
    """
    found = _run(thread, dry_run, focus, model, user, config)
    if as_json:
        print_json(found.to_json())
        return
    for line in _lines(found):
        typer.echo(line)
    if found.applied and found.done:
        say(f"`{program()} view {thread}` shows it.")


def _run(
    thread: str, dry_run: bool, focus: str | None, model: str | None, user: str | None, config: Path | None
) -> Compaction:
    from langgraph_memory.config import load_config

    from . import compacting
    from .database import with_store
    from .models import OPTION, named_model

    settings = load_config(config).config
    key = OPTION if model else "memory.compaction.model"
    model = model or settings.memory.compaction.model
    loaded = with_store(config, lambda store: compacting.load(store, thread))
    side = None if dry_run else named_model(model, key)
    plan = compacting.planned(settings, thread, loaded.values, focus=focus, model=model)
    if dry_run or not plan.rung:
        return plan
    return with_store(
        config,
        lambda store: compacting.applied(store, settings, loaded, plan, focus=focus, model=side, user=user),
        changing=True,
    )


def _lines(found: Compaction) -> Iterator[str]:
    before, after = found.before, found.after
    if not found.done and not found.rung:
        yield f"{found.thread_id}: nothing to compact: {before.total:,} of {before.window:,} tokens."
        return
    covered = f"messages {found.covered_before + 1:,}–{found.covered:,}"
    yield f"{found.thread_id}: {'covered' if found.applied else 'would cover'} {covered}, up to {found.boundary}"
    most = "" if found.applied or found.rung in ("extract", "marker") else "at most "
    yield f"tokens: {before.total:,} → {most}{after.total:,} of {before.window:,}"
    yield f"summary: {_summary(found)}"
    if found.pinned:
        yield f"shown word for word beside it: {', '.join(found.pinned)}"


def _summary(found: Compaction) -> str:
    if found.prompts is None:
        names = {"bought before": "bought before, nothing is paid", "extract": "extracted without a model"}
        return names.get(found.rung, found.rung)
    prompts = found.prompts
    about = "" if prompts.exact else "about "
    calls = "one call" if prompts.calls == 1 else f"{prompts.calls} calls"
    return (
        f"{calls} of {prompts.model}: {about}{prompts.input_tokens:,} tokens in, at most "
        f"{prompts.output_tokens:,} tokens out"
    )
