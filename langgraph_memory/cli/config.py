"""`lgm config`: check a `runtime.json`, show the effective values and their origins, print the JSON Schema."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from langgraph_memory.config import LoadedConfig, config_values, json_schema, load_config
from langgraph_memory.errors import ConfigError

from .console import data_console, print_json, print_table, say

if TYPE_CHECKING:
    from langgraph_memory.context.budget import Cap

app = typer.Typer(name="config", help="Check and show the configuration.", no_args_is_help=True)

PathArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="PATH",
        show_default=False,
        help="Configuration file; without it $LANGGRAPH_MEMORY_CONFIG, else ./runtime.json, else the defaults.",
    ),
]


@app.command()
def check(
    path: PathArgument = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, problems included.")] = False,
) -> None:
    """Say whether the configuration can be used; list every problem if not."""
    try:
        loaded = load_config(path)
    except ConfigError as error:
        if not as_json:
            raise
        print_json({"file": path and str(path), "valid": False, "problems": str(error).splitlines()})
        raise typer.Exit(2) from None
    caps = _caps(loaded)
    if as_json:
        file = loaded.path and str(loaded.path)
        print_json({"file": file, "valid": True, "capped": [asdict(cap) for cap in caps]})
        return
    typer.echo(f"{loaded.path}: valid" if loaded.path else "no configuration file: the defaults are in effect")
    for cap in caps:
        window = loaded.config.memory.context_window
        say(f"{cap.key} is {cap.configured}, used is {cap.used} because of memory.context_window, which is {window}")


@app.command()
def show(
    path: PathArgument = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Show the effective value of every key and where it came from."""
    rows = effective(load_config(path))
    if as_json:
        print_json(rows)
    else:
        print_table(_table(rows), data_console())


@app.command()
def schema() -> None:
    """Print the JSON Schema of runtime.json."""
    print_json(json_schema())


def effective(loaded: LoadedConfig) -> dict[str, dict[str, Any]]:
    """For every dotted key its value and its origin."""
    values = config_values(loaded.config)
    return {key: {"value": value, "origin": loaded.origins[key]} for key, value in values.items()}


def _caps(loaded: LoadedConfig) -> tuple[Cap, ...]:
    """The sizes that the configured window does not allow; none where the model decides on the window."""
    memory = loaded.config.memory
    if not isinstance(memory.context_window, int):
        return ()
    # Imported only here, because the import is slow.
    from langgraph_memory.context.budget import TokenBudget
    from langgraph_memory.context.tokens import ESTIMATOR

    return TokenBudget.of(
        memory.context_window,
        counter=ESTIMATOR,
        budget=memory.budget,
        compaction=memory.compaction,
        pruning=memory.pruning,
    ).caps


def _table(rows: dict[str, dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("key", no_wrap=True)
    for name in ("value", "origin"):
        table.add_column(name, overflow="fold")
    for key, row in rows.items():
        # Text objects, because rich would read a list such as ["bold"] as markup.
        value = Text(json.dumps(row["value"], ensure_ascii=False))
        table.add_row(key, value, Text(row["origin"]))
    return table
