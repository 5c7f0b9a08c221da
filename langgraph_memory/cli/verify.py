"""`lgm verify`: whether the database of threads is what it should be."""

from __future__ import annotations

from dataclasses import asdict

import typer

from .console import print_json, say
from .options import ConfigOption, JsonOption


def verify(as_json: JsonOption = False, config: ConfigOption = None) -> None:
    """Read everything again and list what does not hold together. The exit code is 1 where anything does not."""
    from .database import with_store

    # The check of the full-text index is a statement that writes, though nothing.
    report = with_store(config, lambda store: store.verify(), changing=True)
    counts = f"{report.checkpoints:,} checkpoints, {report.writes:,} writes, {report.items:,} stored values"
    if as_json:
        print_json({"ok": report.ok, **asdict(report)})
    elif report.ok:
        typer.echo(f"clean: {counts}")
    else:
        for problem in report.problems:
            typer.echo(problem)
        say(f"Not clean: {counts}. Restore a backup, or export what can still be read.")
    raise typer.Exit(0 if report.ok else 1)
