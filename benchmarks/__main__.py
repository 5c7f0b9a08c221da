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

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def benchmarks(context: typer.Context) -> None:
    """Measure langgraph_memory, beside others where others do the same."""
    # A summary that is not accepted is told of in a log; here it is counted.
    logger = logging.getLogger("langgraph_memory")
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
