"""A pytest plugin: whether each test that is said to show a key fails if that key does nothing.

    python -m pytest -p tests.support.without_keys

runs only the tests that are marked `shows`, each once for every key it names, while that key has its default whatever a
configuration says. All that pass are listed, and the run fails: they do not show the key. It takes some minutes, as a
test whose time limit does nothing waits for the limit that is the default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from langgraph_memory.config import RuntimeConfig, Section

PROPERTY = "without_key"
Case = tuple[str, str]
"""A test, without its parameters, and a key."""

seen: dict[Case, bool] = {}
"""Whether it failed for any of its parameters."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    mark = metafunc.definition.get_closest_marker("shows")
    if mark:
        metafunc.parametrize("_without_key", mark.args, indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    shown = [item for item in items if item.get_closest_marker("shows")]
    config.hook.pytest_deselected(items=[item for item in items if item not in shown])
    items[:] = shown


@pytest.fixture(autouse=True)
def _without_key(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    section, name = _owner(request.param)
    default, look = section.model_fields[name].get_default(), section.__getattribute__

    def deaf(self: Section, asked: str) -> Any:
        return default if asked == name else look(self, asked)

    monkeypatch.setattr(section, "__getattribute__", deaf)


def _owner(key: str) -> tuple[type[Section], str]:
    section: type[Section] = RuntimeConfig
    *parents, name = key.split(".")
    for parent in parents:
        kind = section.model_fields[parent].annotation
        assert isinstance(kind, type)
        section = kind
    return section, name


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if report.when == "call":
        key = item.callspec.params["_without_key"]  # type: ignore[attr-defined]
        # Travels with the report, from the process that ran the test to the one that counts.
        report.user_properties.append((PROPERTY, [item.nodeid.partition("[")[0], key, report.failed]))
        report.outcome = "passed"
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    for name, value in report.user_properties if report.when == "call" else ():
        if name == PROPERTY:
            test, key, failed = value
            seen[test, key] = seen.get((test, key), False) or failed


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not all(seen.values()):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    write: Callable[[str], None] = terminalreporter.write_line
    for (test, key), failed in sorted(seen.items()):
        if not failed:
            write(f"{key} may do nothing and {test} still passes")
    write(f"{sum(seen.values())} of {len(seen)} keys are shown by their tests")
