"""RESULTS.md, made from the figures: every table, each with when and on what it was measured."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import charts
from .advice import advised
from .measured import NAMES
from .results import FILE, figures, write

Section = Callable[[Any], Iterator[str]]
MARKS = {"pass": "pass", "fail": "**fail**", "–": "–", "not run": "not run"}


def render(results: Mapping[str, Any], folder: Path, tell: Callable[[str], None]) -> None:
    """Write JSON, Markdown and charts into `folder`; without matplotlib the charts are left as they are."""
    write(folder / FILE, results)
    (folder / "RESULTS.md").write_text(markdown(results), encoding="utf-8")
    try:
        for file in charts.draw(results, folder):
            tell(f"drew {file.name}")
    except ImportError:
        tell("no charts: matplotlib is not installed")


def markdown(results: Mapping[str, Any]) -> str:
    parts = ["# Measured", _opening(results)]
    for piece, (title, section) in SECTIONS.items():
        if piece in results:
            parts += [f"## {title}", _when(results[piece])]
            given = figures(results, piece)
            parts += section(given) if given else [f"Failed: {results[piece].get('error', 'no figures')}"]
    return "\n\n".join(parts) + "\n"


def _opening(results: Mapping[str, Any]) -> str:
    packages: dict[str, str] = next((each["about"]["packages"] for each in results.values()), {})
    told = ", ".join(f"{name} {number}" for name, number in packages.items())
    return (
        "Made from [results.json](results.json) by `python -m benchmarks report`; the figures by `python -m "
        "benchmarks all` (8 to 20 minutes on two cores) and, apart from them, `python -m benchmarks sweep` (4 "
        f"minutes). Milliseconds depend on the machine and what else it does; what counts are the ratios within a "
        f"run.\n\nPackages: {told}."
    )


def _when(piece: Mapping[str, Any]) -> str:
    about = piece["about"]
    system = f"Python {about['python']}, {about['system']}, {about['cpus']} CPUs"
    return f"*{about['date']}, {system}; took {piece['seconds']} s*"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [" | ".join(heads), "|".join(["---"] * len(heads)), *(" | ".join(row) for row in rows)]
    return "\n".join(f"| {line} |" if "---" not in line else f"|{line}|" for line in lines)


def _economy(rows: Any) -> Iterator[str]:
    yield (
        "Recorded conversations, call by call. *cost*: tokens that are not in the prompt cache, a tenth of those "
        "that are, and the summaries; *recent*: of the newest quarter-window, the share that stands in the view word "
        "for word; *breaks*: calls whose view does not begin with the whole view before; *lost*: calls without the "
        "newest human message; *silent*: messages that are neither shown nor were summarised; *over*, *invalid*: "
        "calls above the window, with half a pair."
    )
    yield table(_ECONOMY_HEADS, [_economy_row(row) for row in rows])


_ECONOMY = {
    "cost": "cost",
    "recent": "recent",
    "breaks": "breaks",
    "lost": "lost",
    "silent_most": "silent",
    "over": "over",
    "invalid": "invalid",
    "summaries": "summaries",
    "ms_per_call": "ms a call",
}
_ECONOMY_HEADS = ["recording", "window", "policy", *_ECONOMY.values()]


def _economy_row(row: Mapping[str, Any]) -> list[str]:
    names = [row["recording"], f"{row['window']:,}", NAMES.get(row["policy"], row["policy"])]
    if "error" in row:
        return [*names, f"failed: {row['error']}", *[""] * (len(_ECONOMY) - 1)]
    return [*names, *(f"{row[key]:.3f}" if isinstance(row[key], float) else f"{row[key]:,}" for key in _ECONOMY)]


def _main(given: Any) -> Iterator[str]:
    yield from _economy(given)
    yield "![economy](economy.png)"


def _others(given: Any) -> Iterator[str]:
    yield table(_ECONOMY_HEADS, [_economy_row(row) for row in given["results"]])
    if given["left"]:
        yield f"There was no time for {', '.join(given['left'])}."


def _context(given: Any) -> Iterator[str]:
    yield "Milliseconds of processor time before a call, and how many of them LangChain's two hooks take as long as."
    heads = ["", *(f"{result['messages']:,} messages" for result in given)]
    rows = [
        [timing["name"], *(_timing(result["timings"][place]) for result in given)]
        for place, timing in enumerate(given[0]["timings"])
    ]
    yield table(heads, rows)
    yield "![context](context.png)"
    yield "On an event loop: the longest time that other work waits, and what of it the loop's own thread computes."
    gaps = [
        [gap["name"], *(_gap(result["gaps"][place]) for result in given)] for place, gap in enumerate(given[0]["gaps"])
    ]
    yield table(heads, gaps)


def _timing(timing: Mapping[str, Any]) -> str:
    return f"{timing['milliseconds']:.2f} ms (× {timing['faster']:.1f})"


def _gap(gap: Mapping[str, Any]) -> str:
    return f"{gap['longest']:.1f} ms ({gap['computing']:.1f})"


def _threads(given: Any) -> Iterator[str]:
    heads = ["turns", "saver", "MB", "ms a turn", "of plain", "computing, of plain", "peak MB", "listing ms"]
    rows = [
        [
            f"{size['turns']:,}",
            row["name"],
            "–" if row["bytes"] is None else f"{row['bytes'] / 1e6:,.2f}",
            f"{row['milliseconds']:.1f}",
            f"{row['of_plain']:.2f}",
            f"{row['computing_of_plain']:.2f}",
            "–" if row["memory"] is None else f"{row['memory']:,.0f}",
            "–" if row["newest"] is None else f"{row['newest']:,.1f}",
        ]
        for size in given["sizes"]
        for row in size["rows"]
    ]
    yield table(heads, rows)
    yield "![threads](threads.png)"


def _retrieval(given: Any) -> Iterator[str]:
    rows = [
        [f"{found['name']} ({found['questions']:,})", row["name"], _shown(row["recall"])]
        for found in given["recall"]
        for row in found["rows"]
    ]
    yield table(["set (questions)", "search", "recall@10"], rows)
    yield "![retrieval](retrieval.png)"
    if speed := given["speed"]:
        heads = [f"{speed['entries']:,} entries", "median ms", "p99 ms", "of FTS5"]
        paces = [[row["name"], *(f"{row[key]:.2f}" for key in ("median", "p99", "of_plain"))] for row in speed["rows"]]
        yield table(heads, paces)


def _shown(figure: float | None) -> str:
    return "not installed" if figure is None else f"{figure:.3f}"


def _scenarios(given: Any) -> Iterator[str]:
    yield (
        "Situations in which memories are known to go wrong, each run for real with a scripted model; contenders "
        "stand as their documentation says and with the option that does better here where they have one. The list "
        "was collected from what others were seen to do, and ours was built with it at hand, so that it passes says "
        "little about what nobody has thought of. “–”: the contender does not do this at all. “not run”: the system "
        "that the situation was seen in or read of does not install from a package index. A summariser that hangs is "
        "waited for 15 seconds; a client with a time limit of its own would raise instead."
    )
    for group in dict.fromkeys(each["group"] for each in given):
        found = [each for each in given if each["group"] == group]
        names = list(dict.fromkeys(name for each in found for name, one in each["outcomes"].items() if _ran(one)))
        names.sort(key=lambda name: name == NAMES["ours"])
        heads = ["", group, *names, "others"]
        yield table(heads, [_scenario(each, names) for each in found])


def _ran(outcome: Mapping[str, Any]) -> bool:
    return outcome["mark"] != "not run" or bool(outcome["figure"])


def _scenario(each: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    outcomes = each["outcomes"]
    cells = [_outcome(outcomes[name]) if name in outcomes else "–" for name in names]
    others = [f"{name}: {outcomes[name]['mark']}" for name in outcomes if name not in names]
    return [each["row"], each["title"].replace("|", "\\|"), *cells, ", ".join(others)]


def _outcome(outcome: Mapping[str, Any]) -> str:
    figure = outcome["figure"].replace("|", "\\|").replace("; ", "<br>")
    return f"{MARKS[outcome['mark']]}{f'<br>{figure}' if figure else ''}"


def _sweep(given: Any) -> Iterator[str]:
    played = ", ".join(f"{name} ({window:,})" for name, window in given["windows"].items())
    yield (
        f"Cost and verbatim share of ours at different settings, on parts of recordings with their windows: "
        f"{played}. Sizes are shares of the window. The first row of each table has the defaults (with what the "
        "window caps them at)."
    )
    for kind in ("talks", "huge"):
        if given[kind]:
            yield table(_SWEEP_HEADS, [_point(found) for found in given[kind]])
    if given["left"]:
        yield f"There was no time for {given['left']} more points."
    yield "![sweep](sweep.png)"
    yield from advised(given)


_SWEEP_HEADS = [
    "keep_recent_tokens",
    "trigger_ratio",
    "min_reclaim_tokens",
    "protect_recent",
    "hard_clear_threshold",
    "cost",
    "recent",
    "breaks",
    "lost",
    "over",
    "summaries",
]


def _point(found: Mapping[str, Any]) -> list[str]:
    point = found["point"]
    settings = [f"{point['keep']:.1%}", f"{point['ratio']:g}", f"{point['reclaim']:.1%}", str(point["protect"])]
    counts = [f"{found[key]:,}" for key in ("breaks", "lost", "over", "summaries")]
    return [*settings, f"{point['clear']:,}", f"{found['cost']:,}", f"{found['recent']:.3f}", *counts]


SECTIONS: dict[str, tuple[str, Section]] = {
    "economy": ("Economy", _main),
    "others": ("Economy of other recordings", _others),
    "context": ("Time before a call", _context),
    "threads": ("Threads", _threads),
    "retrieval": ("Retrieval", _retrieval),
    "scenarios": ("Scenarios", _scenarios),
    "sweep": ("Settings", _sweep),
}
