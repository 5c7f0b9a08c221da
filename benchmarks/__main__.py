"""`python -m benchmarks`: one command for each measurement; commands parse and print, functions return data."""

import json
import logging
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

DataArgument = Annotated[
    Path | None,
    typer.Argument(
        exists=True,
        show_default=False,
        help="Recordings: a file, or a folder of *.jsonl. Without it $LANGGRAPH_MEMORY_TEST_DATA, else ../shared/data.",
    ),
]
JsonOption = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", show_default=False, help="Write the figures to FILE too.")
]

HERE = Path(__file__).parent
OutOption = Annotated[Path, typer.Option(file_okay=False, show_default="benchmarks", help="Where to write them.")]
ReadmeOption = Annotated[
    Path | None,
    typer.Option("--readme", exists=True, dir_okay=False, show_default=False, help="Renew the figures of this README."),
]

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def benchmarks(context: typer.Context) -> None:
    """Measure langgraph_memory, beside others where others do the same."""
    # A summary that is not accepted is told of in a log; here it is counted. The serializer of LangGraph warns of what
    # langmem keeps in the state.
    for name in ("langgraph_memory", "langgraph.checkpoint.serde.jsonplus"):
        logger = logging.getLogger(name)
        context.call_on_close(partial(logger.setLevel, logger.level))
        logger.setLevel(logging.ERROR)


@app.command()
def economy(
    data: DataArgument = None,
    window: Annotated[int | None, typer.Option(min=500, show_default=False, help="One window for all.")] = None,
    recording: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this one; may be repeated.")] = None,
    policy: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this one; may be repeated.")] = None,
    file: JsonOption = None,
) -> None:
    """What each memory policy sends, pays and loses on recorded conversations."""
    from . import economy as bench
    from .peers import POLICIES
    from .recordings import read_recordings

    policies = policy or list(POLICIES)
    if unknown := set(policies) - set(POLICIES):
        raise typer.BadParameter(f"{', '.join(sorted(unknown))}; known are {', '.join(POLICIES)}")
    results = []
    for played in read_recordings(data, recording or ()):
        typer.echo(bench.heading(played, window))
        for result in bench.compare(played, policies, window):
            typer.echo(bench.line(result))
            results.append(result)
        typer.echo()
    _write(file, [result.to_json() for result in results])


@app.command()
def context(
    data: DataArgument = None,
    recording: Annotated[str, typer.Option(metavar="NAME", help="What the thread is made of.")] = "pi_sessions",
    size: Annotated[list[int] | None, typer.Option(metavar="N", help="Messages; may be repeated.")] = None,
    window: Annotated[int | None, typer.Option(min=500, show_default=False, help="The window of ours.")] = None,
    file: JsonOption = None,
) -> None:
    """How many milliseconds deciding and rendering take, and how long an event loop waits."""
    from . import context as bench
    from .recordings import read_recordings

    (played,) = read_recordings(data, [recording])
    results = []
    for messages in size or bench.SIZES:
        results.append(bench.measure(played, messages, window))
        typer.echo("\n".join(bench.lines(results[-1])) + "\n")
    _write(file, [result.to_json() for result in results])


@app.command()
def tokens(data: Annotated[Path, typer.Argument(exists=True, file_okay=False, metavar="DATA_DIR")]) -> None:
    """How far token counts are off."""
    from .tokens import lines

    for line in lines(data):
        typer.echo(line)


@app.command()
def threads(
    data: DataArgument = None,
    recording: Annotated[str, typer.Option(metavar="NAME", help="A recording that is stored too.")] = "pi_sessions",
    turns: Annotated[list[int] | None, typer.Option(metavar="N", help="Length of a thread; may be repeated.")] = None,
    file: JsonOption = None,
) -> None:
    """What a thread costs a checkpointer: bytes, time and memory, beside LangGraph's own."""
    from . import threads as bench
    from .recordings import read_recordings

    results = [bench.measure(turns or bench.SIZES)]
    typer.echo("\n".join(bench.lines(results[0])) + "\n")
    for played in read_recordings(data, [recording]):
        results.append(bench.measure_recording(played.name, played.conversations[0]))
        typer.echo("\n".join(bench.lines(results[-1])) + "\n")
    _write(file, [result.to_json() for result in results])


@app.command()
def retrieval(
    data: DataArgument = None,
    only: Annotated[list[str] | None, typer.Option("--set", metavar="NAME", help="Only this; may be repeated.")] = None,
    entries: Annotated[int, typer.Option(min=0, help="Entries whose search is timed; 0 for none.")] = 100_000,
    file: JsonOption = None,
) -> None:
    """What a search of the long-term memory finds, and how fast."""
    from . import retrieval as bench

    if unknown := set(only or ()) - set(bench.SETS):
        raise typer.BadParameter(f"{', '.join(sorted(unknown))}; known are {', '.join(bench.SETS)}")
    found = []
    for name in only or bench.SETS:
        found.append(bench.recall(name, data))
        typer.echo("\n".join(bench.recall_lines(found[-1])) + "\n")
    pace = bench.speed(data, entries) if entries else None
    if pace:
        typer.echo("\n".join(bench.speed_lines(pace)))
    _write(file, bench.to_json(found, pace))


@app.command()
def beside(
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each kind.")] = 5,
    seconds: Annotated[float, typer.Option(min=1, help="How long the flush takes.")] = 30.0,
    file: JsonOption = None,
) -> None:
    """What a flush beside a turn costs the turn."""
    from . import beside as bench

    result = bench.measure(rounds=rounds, flush_seconds=seconds)
    typer.echo("\n".join(bench.lines(result)))
    _write(file, result.to_json())


@app.command("all")
def all_pieces(
    data: DataArgument = None,
    out: OutOption = HERE,
    only: Annotated[list[str] | None, typer.Option(metavar="PIECE", help="Only this; may be repeated.")] = None,
    skip: Annotated[list[str] | None, typer.Option(metavar="PIECE", help="Not this; may be repeated.")] = None,
    minutes: Annotated[float, typer.Option(min=1, help="What the last piece, `others`, has to be done in.")] = 20.0,
    readme: ReadmeOption = None,
) -> None:
    """Measure everything, and write JSON, Markdown and charts; pieces that are not run keep their earlier figures."""
    from . import pieces
    from .report import render
    from .results import FILE, read, write

    if unknown := {*(only or ()), *(skip or ())} - set(pieces.PIECES):
        raise typer.BadParameter(f"{', '.join(sorted(unknown))}; known are {', '.join(pieces.PIECES)}")
    names = [name for name in only or pieces.PIECES if name not in (skip or ())]
    results = read(out / FILE)
    for measured in pieces.run(names, data, minutes, typer.echo):
        results |= measured
        write(out / FILE, results)
    _report(results, out, readme, render)
    if failed := [name for name in names if "error" in results[name]]:
        typer.echo(f"failed: {', '.join(failed)}", err=True)
        raise typer.Exit(1)


@app.command()
def report(
    results: Annotated[Path, typer.Argument(exists=True, dir_okay=False, show_default=False, help="A results.json.")],
    out: Annotated[Path | None, typer.Option(show_default=False, help="Another folder than that of the file.")] = None,
    readme: ReadmeOption = None,
) -> None:
    """Write Markdown and charts of figures that are there already, whole or in part."""
    from .report import render
    from .results import read

    _report(read(results), out or results.parent, readme, render)


@app.command()
def sweep(
    data: DataArgument = None,
    seconds: Annotated[float, typer.Option(min=1, help="After which no new point is begun.")] = 240.0,
    out: Annotated[
        Path | None, typer.Option(show_default=False, help="Add the figures to the results of this folder.")
    ] = None,
) -> None:
    """What the settings of ours cost and keep, and what to set."""
    from . import pieces
    from . import sweep as bench
    from .advice import advised
    from .report import render
    from .results import FILE, read

    def piece(given: Path | None, _: float, tell: Any) -> Any:
        for found in bench.sweep(given, seconds):
            if isinstance(found, bench.Result):
                return found.to_json()
            tell(bench.line(found[1]))
        raise AssertionError("a sweep ends with its result")

    typer.echo(bench.HEADING)
    measured = pieces.measured(piece, data, 0.0, typer.echo)
    if "error" in measured:
        raise typer.Exit(1)
    typer.echo("\n\n".join(["", *advised(measured["figures"])]))
    if out:
        render({**read(out / FILE), "sweep": measured}, out, typer.echo)


def _report(results: Any, out: Path, readme: Path | None, render: Any) -> None:
    from .measured import renew

    render(results, out, typer.echo)
    if readme:
        renew(readme, results)


@app.command()
def scenarios(
    row: Annotated[list[str] | None, typer.Option(metavar="N", help="Only this one; may be repeated.")] = None,
    contender: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this one; may be repeated.")] = None,
    file: JsonOption = None,
) -> None:
    """Situations in which memories are known to go wrong: who passes."""
    from . import scenarios as bench

    if unknown := set(row or ()) - {each.row for each in bench.SCENARIOS}:
        raise typer.BadParameter(f"{', '.join(sorted(unknown))}; known are {', '.join(s.row for s in bench.SCENARIOS)}")
    results = []
    for result in bench.run(row or (), contender or ()):
        typer.echo("\n".join(bench.lines([result])))
        results.append(result)
    _write(file, [result.to_json() for result in results])


@app.command()
def spill(megabytes: Annotated[int, typer.Option(min=1, help="Size of the tool result.")] = 50) -> None:
    """What a very large tool result takes of memory and of the database."""
    from .spill import lines

    for line in lines(megabytes):
        typer.echo(line)


def _write(file: Path | None, figures: Any) -> None:
    if file:
        file.write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    app()
