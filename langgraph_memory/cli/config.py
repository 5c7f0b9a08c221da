"""`lgm config`: check a `runtime.json`, show the effective values and their origins, print the JSON Schema."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from langgraph_memory.config import LoadedConfig, config_values, json_schema, load_config

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
def check(path: PathArgument = None) -> None:
    """Say whether the configuration can be used; list every problem if not."""
    loaded = load_config(path)
    typer.echo(f"{loaded.path}: valid" if loaded.path else "no configuration file: the defaults are in effect")


@app.command()
def show(
    path: PathArgument = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Show the effective value of every key and where it came from."""
    rows = effective(load_config(path))
    if as_json:
        typer.echo(json.dumps(rows, ensure_ascii=False, indent=2))
    else:
        Console().print(_table(rows))


@app.command()
def schema() -> None:
    """Print the JSON Schema of runtime.json."""
    typer.echo(json.dumps(json_schema(), ensure_ascii=False, indent=2))


def effective(loaded: LoadedConfig) -> dict[str, dict[str, Any]]:
    """For every dotted key its value and its origin."""
    values = config_values(loaded.config)
    return {key: {"value": value, "origin": loaded.origins[key]} for key, value in values.items()}


def _table(rows: dict[str, dict[str, Any]]) -> Table:
    table = Table("key", "value", "origin", box=None, pad_edge=False)
    table.columns[0].no_wrap = True
    for key, row in rows.items():
        # Text objects, because rich would read a list such as ["bold"] as markup.
        table.add_row(key, Text(json.dumps(row["value"], ensure_ascii=False)), Text(row["origin"]))
    return table
