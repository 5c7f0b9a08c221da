"""The section "Measured" of the README, made from the figures: no number in it is written by hand."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import fill
from typing import Any

from .results import figures, package

BEGIN, END = "<!-- measured:begin -->", "<!-- measured:end -->"
NAMES = {"langchain": "LangChain", "deepagents": "deepagents", "langmem": "langmem", "ours": "langgraph_memory"}
PEERS = tuple(NAMES)[:-1]
TABLE = {
    "cost": "cost",
    "recent": "newest quarter-window verbatim",
    "breaks": "prefix breaks",
    "lost": "requests lost",
    "silent_most": "messages neither shown nor summarised",
    "over": "calls over the window",
}

WIDTH = 130
USUAL = 1_000
"""Messages of a long thread that is not yet unusual."""


def block(results: Mapping[str, Any]) -> str:
    """All that stands between the two marks; pieces without figures are left out."""
    parts = [_commands(results), *_economy(results), *_others(results), *_context(results)]
    parts += [*_scenarios(results), *_retrieval(results), *_threads(results)]
    return "\n\n".join(part if part[0] in "|!" else _wrapped(part) for part in parts)


def _wrapped(text: str) -> str:
    return fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def renewed(readme: str, results: Mapping[str, Any]) -> str:
    """The README with the block of these figures. Raises `ValueError` where it has no place for one."""
    if BEGIN not in readme or END not in readme:
        raise ValueError(f"no {BEGIN} and {END} in it")
    head, rest = readme.split(BEGIN, 1)
    return f"{head}{BEGIN}\n{block(results)}\n{END}{rest.split(END, 1)[1]}"


def renew(file: Path, results: Mapping[str, Any]) -> None:
    file.write_text(renewed(file.read_text(encoding="utf-8"), results), encoding="utf-8")


def _commands(results: Mapping[str, Any]) -> str:
    about: dict[str, Any] = next((each["about"] for each in results.values() if "figures" in each), {})
    told = f" Below: Python {about['python']}, {about['cpus']} CPUs, {about['date']}." if about else ""
    return (
        "`pip install '.[benchmarks]'`, then `python -m benchmarks all RECORDINGS` measures all of this beside "
        f"others, each set up as its documentation says; [benchmarks/RESULTS.md](benchmarks/RESULTS.md) has every "
        f"figure.{told}"
    )


def _economy(results: Mapping[str, Any]) -> Iterator[str]:
    rows = {row["policy"]: row for row in figures(results, "economy") or () if "error" not in row}
    if "ours" not in rows:
        return
    ours = rows["ours"]
    yield (
        f"{ours['calls']} calls of recorded coding sessions in a window of {ours['window']:,} tokens (cost: tokens "
        "not in the prompt cache, a tenth of those that are, and the summaries):"
    )
    lines = ["| | " + " | ".join(TABLE.values()) + " |", "|---" * (len(TABLE) + 1) + "|"]
    for policy, name in NAMES.items():
        if row := rows.get(policy):
            title = f"{name} {package(results, 'economy', policy)}".strip() if policy in PEERS else name
            cells = (f"{row[key]:.2f}" if key == "recent" else f"{row[key]:,}" for key in TABLE)
            lines.append(f"| {title} | {' | '.join(cells)} |")
    yield "\n".join(lines)
    yield "![Cost and verbatim share of each policy](benchmarks/economy.png)"


def _others(results: Mapping[str, Any]) -> Iterator[str]:
    rows = [row for row in (figures(results, "others") or {}).get("results", ()) if "error" not in row]
    by: dict[str, dict[str, Any]] = {}
    for row in rows:
        by.setdefault(row["recording"], {})[row["policy"]] = row
    whole = [found for found in by.values() if set(found) >= set(NAMES)]
    if not whole:
        return
    windows = [found["ours"]["window"] for found in whole]
    ratios = {name: [found["ours"]["cost"] / found[name]["cost"] for found in whole] for name in PEERS}
    dearer = {name: sum(ratio > 1 for ratio in each) for name, each in ratios.items()}
    costs = ", ".join(
        f"{min(each):.2f} to {max(each):.2f} times as much as {NAMES[name]} (more on {dearer[name]})"
        for name, each in ratios.items()
    )
    faults = ", ".join(
        f"{NAMES[name]} {sum(found[name]['over'] for found in whole)} and {sum(found[name]['lost'] for found in whole)}"
        for name in NAMES
    )
    yield (
        f"On {len(whole)} shorter recordings, in windows of {min(windows):,} to {max(windows):,} tokens, ours costs "
        f"{costs}. Calls above the window and calls without the user's request, over all of them: {faults}."
    )


def _context(results: Mapping[str, Any]) -> Iterator[str]:
    given = figures(results, "context") or ()
    if given:
        usual = min(given, key=lambda result: abs(result["messages"] - USUAL))
        told = map(_timing, [given[-1], *([usual] if usual is not given[-1] else [])])
        yield f"Deciding and rendering takes {'; '.join(told)}."


def _timing(result: Mapping[str, Any]) -> str:
    timings = {timing["name"]: timing for timing in result["timings"]}
    hook, node = (timings[f"ours, {way}"] for way in ("hook of create_agent", "node and view"))
    return (
        f"{hook['milliseconds']:.1f} ms (in `create_agent`) and {node['milliseconds']:.1f} (as a node) at "
        f"{result['messages']:,} messages, LangChain's two hooks {hook['faster']:.0f} and {node['faster']:.0f} "
        "times that"
    )


def _scenarios(results: Mapping[str, Any]) -> Iterator[str]:
    counts: dict[str, list[int]] = {}
    for each in figures(results, "scenarios") or ():
        for name, found in each["outcomes"].items():
            if found["mark"] in ("pass", "fail"):
                passed, of = counts.get(name, [0, 0])
                counts[name] = [passed + (found["mark"] == "pass"), of + 1]
    if counts:
        total = len(figures(results, "scenarios"))
        told = ", ".join(f"{name} {passed} of {of}" for name, (passed, of) in counts.items())
        yield (
            f"`python -m benchmarks scenarios` runs {total} situations in which memories are known to go wrong; ours "
            f"was built with this list at hand. Passed, of those that apply: {told}."
        )


def _retrieval(results: Mapping[str, Any]) -> Iterator[str]:
    given = figures(results, "retrieval")
    if not given or not given["recall"]:
        return
    found = given["recall"][0]
    rows = {row["name"]: row["recall"] for row in found["rows"] if row["recall"] is not None}
    beside = {"FTS5 porter, no stop words": "SQLite's FTS5 with stemming and without stop words", "bm25s": "bm25s"}
    told = ", ".join(f"{title} {rows[name]:.2f}" for name, title in beside.items() if name in rows)
    pace = next((row for row in (given["speed"] or {}).get("rows", ()) if row["name"] == "ours"), None)
    speed = (
        f", in {pace['of_plain']:.1f} times the time of FTS5 at {given['speed']['entries']:,} entries" if pace else ""
    )
    yield (
        f"`python -m benchmarks retrieval` asks {found['questions']:,} questions about long conversations: of the "
        f"turns that hold the answer {rows['ours']:.2f} are among the first ten found ({told}){speed}."
    )


def _threads(results: Mapping[str, Any]) -> Iterator[str]:
    given = figures(results, "threads")
    sizes = [size for size in (given or {}).get("sizes", ()) if all(_of(size, name)["bytes"] for name in _BESIDE)]
    if not sizes:
        return
    size = sizes[-1]
    ours, plain, delta = (_of(size, name)["bytes"] / 1e6 for name in _BESIDE)
    yield (
        f"`python -m benchmarks threads` stores {size['turns']:,} turns of 2 kB: {ours:,.0f} MB at "
        f"{_of(size, 'ours')['of_plain']:.2f} of the plain saver's time a turn, which takes {plain:,.0f} MB, and with "
        f"`DeltaChannel(50)` {delta:,.0f} MB."
    )


_BESIDE = ("ours", "plain", "plain, delta")


def _of(size: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(row for row in size["rows"] if row["name"] == name)
    return found
