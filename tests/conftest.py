"""Every test runs in an empty folder, without the network, and with our own code watched for blocking calls."""

import os
import shutil
import signal
import socket
import ssl
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import HealthCheck, settings

LOOPBACK = ("127.", "::1", "localhost", "0.0.0.0")

settings.register_profile(
    "tests",
    deadline=None,
    # The same examples every time, unless more of them are asked for than a run of the suite can afford.
    derandomize="LANGGRAPH_MEMORY_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    # Failing examples are printed; nothing is written into the folder of a test.
    database=None,
)
settings.load_profile("tests")


MEMORY_DISK = "/dev/shm"
ROOM = 4 * 2**30


# Each client of a provider reads the machine's certificates, a fifth of a second; every server here speaks plain HTTP.
ssl.SSLContext.load_verify_locations = lambda *_, **__: None


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Temporary folders in memory where there is room: what thousands of databases wait for is the disk. And Ctrl-C."""
    # Whoever is started in the background ignores Ctrl-C, and so would the programs that tests interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    ours = not hasattr(config, "workerinput") and config.option.basetemp is None
    if ours and os.access(MEMORY_DISK, os.W_OK) and shutil.disk_usage(MEMORY_DISK).free > ROOM:
        config.option.basetemp = tempfile.mkdtemp(prefix="langgraph-memory-tests-", dir=MEMORY_DISK)
        config.add_cleanup(lambda: shutil.rmtree(config.option.basetemp, ignore_errors=True))


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads the checkout's `runtime.json`, or settings and keys of whoever runs it."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith(("LANGGRAPH_MEMORY_", "LANGSMITH_", "LANGCHAIN_")) and name != "LANGGRAPH_MEMORY_TEST_DATA":
            monkeypatch.delenv(name)
    monkeypatch.setenv("LANGSMITH_TRACING", "false")


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever tries to reach another machine gets an error, and with it the test."""

    def guarded(name: str) -> Any:
        original = getattr(socket.socket, name)

        def connect(self: socket.socket, address: Any) -> Any:
            if isinstance(address, tuple) and not str(address[0]).startswith(LOOPBACK):
                raise AssertionError(f"a test tried to reach {address!r}")
            return original(self, address)

        return connect

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, guarded(name))


@pytest.fixture(autouse=True, scope="session")
def _own_code_never_blocks() -> Iterator[None]:
    """A blocking call that our code makes on an event loop raises `BlockingError` there."""
    with blockbuster_ctx("langgraph_memory"):
        yield
