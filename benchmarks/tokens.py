"""How far token counts are off: `python -m benchmarks.tokens DATA_DIR`.

The first table compares the estimator of each encoding with the encoding itself, for each kind of text, on the half of
the texts its weights were fitted on and on the other half. The second predicts, call by call, the input tokens a
provider reported from the calls before it, and says how far off the prediction was.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from langgraph_memory.context.estimate import Estimator
from langgraph_memory.context.tokens import (
    Calibration,
    TokenCounter,
    calibrate,
    count_message,
    estimator_for,
    load_counter,
)
from tests.support.data import load_recordings, text_groups, usage_segments
from tests.support.texts import texts

ENCODINGS = ("o200k_base", "cl100k_base")


def estimate_error(group: list[str], encoding: str) -> float:
    """Estimated tokens of a group over its real ones, less one."""
    return sum(map(estimator_for(encoding).text, group)) / sum(map(load_counter(encoding).text, group)) - 1


def prediction_errors(segments: list[list[tuple[int, int]]], calibrated: bool) -> Iterator[float]:
    """Relative error of each prediction but the first of a segment, of which our count lacks an unknown part."""
    prior = calibration = Calibration()
    for segment in segments:
        for position, (raw, actual) in enumerate(segment):
            if position:
                yield calibration.apply(raw) / actual - 1
            if calibrated:
                calibration = calibrate(segment[: position + 1], prior)
        prior = calibration


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def estimate_table(folder: Path) -> Iterator[str]:
    row = "{:22} {:>12} {:>12} {:>12} {:>12}".format
    yield row("estimate of", *(f"{half} {name[:-5]}" for half in ("fit", "check") for name in ENCODINGS))
    fitted = {**text_groups(0, folder), **texts("fit")}
    checked = {**text_groups(1, folder), **texts("check")}
    for group in fitted:
        errors = [estimate_error(half[group], name) for half in (fitted, checked) for name in ENCODINGS]
        yield row(group, *(f"{error:+.1%}" for error in errors))


def calibration_table(folder: Path) -> Iterator[str]:
    row = "{:22} {:>12} {:>8} {:>8} {:>8} {:>8}".format
    yield row("predicted usage", "", "median", "p90", "p99", "max")
    (record,) = load_recordings("pi_sessions", folder)
    for counter in (count(name) for count in (load_counter, estimator_for) for name in ENCODINGS):
        segments = usage_segments(record, _sizes(counter), counter.text)
        for calibrated in (False, True):
            errors = [abs(error) for error in prediction_errors(segments, calibrated)]
            figures = (f"{quantile(errors, share):.2%}" for share in (0.5, 0.9, 0.99, 1.0))
            yield row(_title(counter), "calibrated" if calibrated else "raw", *figures)


def _title(counter: TokenCounter) -> str:
    return f"{counter.name} {counter.encoding}" if isinstance(counter, Estimator) else counter.name


def _sizes(counter: TokenCounter) -> Callable[..., int]:
    return lambda message: count_message(counter, message)


def lines(folder: Path) -> Iterator[str]:
    yield from estimate_table(folder)
    yield ""
    yield from calibration_table(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="DATA_DIR", help="the folder that holds open/*.jsonl")
    folder = parser.parse_args().folder
    for line in lines(folder):
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
