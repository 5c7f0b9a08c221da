"""The sample's thread is made once for all tests of a run, also by several processes."""

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from .running import Sample
from .sessions import lgm


@pytest.fixture(autouse=True)
def _levels_as_they_were() -> Iterator[None]:
    """What a document sets of the logging, as of the texts of errors, ends with it."""
    loggers = [logging.getLogger(name) for name in (None, "langgraph_memory", "langgraph_memory.details")]
    before = [(logger, logger.level, list(logger.handlers)) for logger in loggers]
    yield
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Sample]:
    """Gives the folder in which `lgm replay` was run; it is run when the first one asks."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def made() -> Sample:
        folder = shared / "sample"
        log = folder / "printed.txt"
        with FileLock(shared / "sample.lock"):
            if not log.exists():
                log.write_text(_replay(folder), encoding="utf-8")
        return Sample(folder, log.read_text(encoding="utf-8"))

    return made


def _replay(folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    before = Path.cwd()
    os.chdir(folder)
    try:
        printed, code = lgm(["replay"])
    finally:
        os.chdir(before)
    assert code == 0, printed
    return printed
