"""Charts of the figures, as PNG files that are readable where they stand in a page."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .results import figures

COLOURS = {
    "raw": "#b9b9b9",
    "langchain": "#4c78a8",
    "deepagents": "#72b7b2",
    "langmem": "#eeca3b",
    "ours": "#e45756",
}
OTHER = "#8a8a8a"
NAMES = {"raw": "everything, always", "langchain": "LangChain", "ours": "langgraph_memory"}
DPI = 110

Chart = Callable[[Any, Any], Any]
"""Draws figures with matplotlib and gives the drawing."""


def draw(results: Mapping[str, Any], folder: Path) -> Iterator[Path]:
    """A file for each piece that there are figures of."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    for piece, chart in CHARTS.items():
        if given := figures(results, piece):
            drawing = chart(pyplot, given)
            file = folder / f"{piece}.png"
            # Without a date and a version the same figures give the same bytes.
            drawing.savefig(file, dpi=DPI, bbox_inches="tight", metadata={"Software": None})
            pyplot.close(drawing)
            yield file


def economy(pyplot: Any, given: Any) -> Any:
    rows = [row for row in given if "error" not in row]
    names = [NAMES.get(row["policy"], row["policy"]) for row in rows][::-1]
    colours = [COLOURS.get(row["policy"], OTHER) for row in rows][::-1]
    drawing, (left, right) = pyplot.subplots(1, 2, figsize=(9, 2.6), sharey=True)
    costs = [row["cost"] / 1e6 for row in rows][::-1]
    shares = [row["recent"] for row in rows][::-1]
    for axes, values, form in ((left, costs, "{:.2f}"), (right, shares, "{:.2f}")):
        bars = axes.barh(names, values, color=colours)
        axes.bar_label(bars, [form.format(value) for value in values], padding=3)
        axes.margins(x=0.15)
    left.set_title(f"cost, million tokens ({rows[0]['calls']} calls)")
    right.set_title("newest quarter-window word for word")
    drawing.tight_layout()
    return drawing


def context(pyplot: Any, given: Any) -> Any:
    drawing, axes = pyplot.subplots(figsize=(8, 3.8))
    sizes = [result["messages"] for result in given]
    for place, timing in enumerate(given[0]["timings"]):
        taken = [result["timings"][place]["milliseconds"] for result in given]
        ours = timing["name"].startswith("ours")
        style = {"color": COLOURS["ours"], "linestyle": ("-", "--", ":", "-.")[place % 4]} if ours else {"color": OTHER}
        if timing["name"].startswith("LangChain"):
            style = {"color": COLOURS["langchain"]}
        axes.plot(sizes, taken, marker="os^vDP"[place % 6], label=timing["name"], **style)
    axes.set(xscale="log", yscale="log", xlabel="messages in the thread", ylabel="ms before a call")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    return drawing


def threads(pyplot: Any, given: Any) -> Any:
    drawing, axes = pyplot.subplots(figsize=(8, 3.8))
    kept: dict[str, list[tuple[int, float]]] = {}
    for size in given["sizes"]:
        for row in size["rows"]:
            if row["bytes"]:
                kept.setdefault(row["name"], []).append((size["turns"], row["bytes"] / 1e6))
    colours = {"plain": COLOURS["langchain"], "plain, delta": COLOURS["deepagents"], "ours": COLOURS["ours"]}
    for name, points in kept.items():
        style = {"color": colours.get(name, OTHER), "linestyle": "-" if name in colours else ":"}
        axes.plot(*zip(*points, strict=True), marker="o", label=name, **style)
    axes.set(yscale="log", xlabel="turns of 2,000 characters", ylabel="MB on disk")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    return drawing


def retrieval(pyplot: Any, given: Any) -> Any:
    sets = given["recall"]
    drawing, panels = pyplot.subplots(1, len(sets), figsize=(10, 2.6), squeeze=False)
    for axes, found in zip(panels[0], sets, strict=True):
        rows = [row for row in found["rows"] if row["recall"] is not None][::-1]
        colours = [COLOURS["ours"] if row["name"].startswith("ours") else OTHER for row in rows]
        bars = axes.barh([row["name"] for row in rows], [row["recall"] for row in rows], color=colours)
        axes.bar_label(bars, fmt="%.2f", padding=3, fontsize=8)
        axes.tick_params(axis="y", labelsize=8)
        axes.set(xlim=(0, 1.15), title=f"{found['name']}, recall@10")
    drawing.tight_layout()
    return drawing


def sweep(pyplot: Any, given: Any) -> Any:
    drawing, panels = pyplot.subplots(1, 2, figsize=(10, 3.8))
    for axes, kind, title in ((panels[0], "talks", "recordings"), (panels[1], "huge", "very long tool results")):
        found = given[kind]
        axes.set(title=title, xlabel="cost, thousand tokens", ylabel="newest quarter-window word for word")
        if not found:
            continue
        costs, shares = [each["cost"] / 1e3 for each in found], [each["recent"] for each in found]
        axes.scatter(costs, shares, color=OTHER, s=22)
        best = pareto(list(zip(costs, shares, strict=True)))
        axes.plot(*zip(*best, strict=True), color=COLOURS["ours"], marker="o", label="no other is better in both")
        axes.scatter(costs[:1], shares[:1], marker="*", s=150, color=COLOURS["langchain"], label="defaults", zorder=3)
        axes.legend(fontsize=8, frameon=False)
    drawing.tight_layout()
    return drawing


def pareto(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Those that no other beats in both, from the cheapest on."""
    best: list[tuple[float, float]] = []
    for point in sorted(points, key=lambda each: (each[0], -each[1])):
        if not best or point[1] > best[-1][1]:
            best.append(point)
    return best


CHARTS: dict[str, Chart] = {
    "economy": economy,
    "context": context,
    "threads": threads,
    "retrieval": retrieval,
    "sweep": sweep,
}
