"""From our own count to the provider's.

A provider counts `factor · raw + offset`: its tokenizer cuts text finer or coarser than ours (the factor), and it adds
what we never see, such as its wrapping of the tools (the offset). Both are learnt from usage: pairs of what we counted
and what the provider then reported, in order of time.

The line passes through the newest pair, so that the next prediction starts from the last known truth. What is
left open, how that truth divides into factor and offset, is a weighted mean of three opinions on the factor: the
prior's, that of the newest pair with the prior's offset (the larger the request, the surer), and the typical slope
between pairs (the further these lie apart, the surer). A small first request therefore teaches the offset and a large
one the factor, and the line still holds after a compaction has shrunk the request. The factor has no upper limit.

A provider that counts less than we do is another matter, for a factor below the prior's loosens the budget of all that
is still to come. A single pair does not tell a finer count from a constant surplus (schemas of tools that cost less
than their JSON), so only the slopes may lower the factor, and only those that reach over as many tokens as could make a
difference. What is left of a surplus is not predicted: the line then lies above the newest pair.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

NEWEST = 64
"""How many observations are looked at."""

_LOWEST_RATIO = 0.5
# How far, in standard deviations, each opinion is trusted; chosen on recorded usage (`python -m benchmarks.tokens`).
_FACTOR_SPREAD = 0.25
_OFFSET_SPREAD = 8000.0
_SLOPE_SPREAD = 0.05


@dataclass(frozen=True)
class Calibration:
    """`factor` provider tokens for each of ours, and `offset` more for every request."""

    factor: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.factor) and math.isfinite(self.offset) and self.factor > 0):
            raise ValueError(f"not a calibration: {self!r}; expected a finite factor above 0 and a finite offset")

    def apply(self, raw: int) -> int:
        return max(0, math.ceil(self.factor * raw + self.offset))


NEUTRAL = Calibration()


def calibrate(observations: Sequence[tuple[int, int]], prior: Calibration = NEUTRAL) -> Calibration:
    """Fit pairs (our count, provider's input tokens), oldest first; without a plausible pair it is the prior.

    A provider that reports less than half of what we counted reports something else, so such pairs are left out.
    """
    pairs = [(raw, actual) for raw, actual in observations if raw > 0 and actual >= raw * _LOWEST_RATIO][-NEWEST:]
    if not pairs:
        return prior
    raw, actual = pairs[-1]
    factor = max(_LOWEST_RATIO, _mean(_opinions(pairs, prior)))
    return Calibration(factor, max(0.0, actual - factor * raw))


def _opinions(pairs: list[tuple[int, int]], prior: Calibration) -> Iterable[tuple[float, float]]:
    """Factors and how sure each is, as inverse variance."""
    raw, actual = pairs[-1]
    yield prior.factor, _FACTOR_SPREAD**-2
    if (newest := (actual - prior.offset) / raw) > prior.factor:
        yield newest, (raw / _OFFSET_SPREAD) ** 2
    slopes = [((y - b) / (x - a), abs(x - a)) for (a, b), (x, y) in combinations(pairs, 2) if x != a]
    if slopes:
        slope, reach = _median(slopes), max(distance for _, distance in slopes)
        over = raw if slope > prior.factor else max(raw, _OFFSET_SPREAD)
        yield slope, (reach / over / _SLOPE_SPREAD) ** 2


def _mean(weighted: Iterable[tuple[float, float]]) -> float:
    values = list(weighted)
    return sum(value * weight for value, weight in values) / sum(weight for _, weight in values)


def _median(weighted: Sequence[tuple[float, float]]) -> float:
    half = sum(weight for _, weight in weighted) / 2
    passed = 0.0
    for value, weight in sorted(weighted):
        passed += weight
        if passed >= half:
            return value
    raise ValueError("the median of nothing")
