"""What a scenario is, what comes of it, and how all of them are run."""

import asyncio
import tempfile
import warnings
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from ..peers import our_config
from ..results import without_paths
from ..texts import encoding

Mark = Literal["pass", "fail", "–", "not run"]
OURS = "langgraph_memory"
SECONDS = 180
"""After which a contender is taken to hang."""


@dataclass(frozen=True)
class Outcome:
    mark: Mark
    figure: str = ""
    """What was seen, in a few words."""


def judged(passed: object, figure: str = "") -> Outcome:
    return Outcome("pass" if passed else "fail", figure)


def counted(number: int, thing: str, several: str) -> str:
    return f"{number} {thing if number == 1 else several}"


DOES_NOT = Outcome("–")
"""The contender has nothing for this."""


Run = Callable[[str, Path], Awaitable[Outcome]]


@dataclass(frozen=True)
class Scenario:
    row: str
    group: str
    title: str
    """What happens, and what a memory should make of it."""
    among: tuple[str, ...]
    run: Run
    absent: tuple[str, ...] = ()
    """Systems this was seen in or read of that do not install from a package index."""


@dataclass(frozen=True)
class Result:
    """A scenario and what came of it for each contender."""

    row: str
    group: str
    title: str
    outcomes: dict[str, Outcome]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


SCENARIOS: list[Scenario] = []


def scenario(
    row: str, group: str, title: str, among: Iterable[str], absent: Sequence[str] = ()
) -> Callable[[Run], Run]:
    """Add the function below to the list."""

    def added(function: Run) -> Run:
        SCENARIOS.append(Scenario(row, group, title, tuple(among), function, tuple(absent)))
        return function

    return added


def run(rows: Sequence[str] = (), contenders: Sequence[str] = ()) -> Iterator[Result]:
    """Every scenario, or those of `rows`, with every contender, or with those named."""
    # Ranks and names of encodings are read from files, before an event loop runs.
    our_config(1_000)
    encoding()
    for each in sorted(SCENARIOS, key=lambda each: int(each.row.rstrip("b"))):
        if not rows or each.row in rows:
            ran = {name: outcome(each, name) for name in each.among if not contenders or name in contenders}
            absent = {} if contenders else {name: Outcome("not run") for name in each.absent}
            yield Result(each.row, each.group, each.title, {**ran, **absent})


def outcome(each: Scenario, contender: str) -> Outcome:
    """What comes of one scenario for one contender, whose errors are its result."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, warnings.catch_warnings():
        # Peers import names that newer LangGraph has moved, and warn of what the scenario is about.
        warnings.simplefilter("ignore")
        try:
            return asyncio.run(asyncio.wait_for(each.run(contender, Path(folder)), SECONDS))
        except ImportError:
            return Outcome("not run", "not installed")
        except TimeoutError:
            return Outcome("fail", "hangs")
        except Exception as problem:  # noqa: BLE001 - what a contender fails with is its result
            return Outcome("fail", short(problem))


def short(problem: BaseException) -> str:
    """An error in a few words, without the paths of this machine."""
    said = without_paths(str(problem)).split("\n")[0]
    return f"{type(problem).__name__}: {said[:60]}" if said else type(problem).__name__


# Printing


def lines(results: Sequence[Result]) -> Iterator[str]:
    for each in results:
        yield f"{each.row:>3}  {each.title}"
        for name, found in each.outcomes.items():
            yield f"       {name:32}{found.mark:9}{found.figure}"
