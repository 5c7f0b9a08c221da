"""Work in processes of their own, which may be killed at any step."""

from __future__ import annotations

import importlib
import os
import pkgutil
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import langgraph_memory


def start(work: Callable[[], Any]) -> int:
    """Do `work` in a copy of this process; its id."""
    with warnings.catch_warnings():
        # What the work does needs none of this process's threads.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except BaseException:  # noqa: BLE001 - it must not come back into the test
        traceback.print_exc()
    finally:
        os._exit(code)


def ended(pid: int) -> int:
    """How a process ended: 0 when its work was done, a negative number when it was killed."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def done(work: Callable[[], Any]) -> int:
    return ended(start(work))


def killed_at(line: int, work: Callable[[], Any], *, files: str) -> bool:
    """Do `work` in another process and kill that at the `line`-th line of ours that it comes to; whether it came there.

    Counted are the lines of files whose path contains `files`.
    """

    def counted() -> None:
        left = line

        def trace(frame: Any, event: str, _: Any) -> Any:
            nonlocal left
            if files not in frame.f_code.co_filename:
                return None
            if event == "line":
                left -= 1
                if left <= 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            return trace

        sys.settrace(trace)
        work()
        sys.settrace(None)

    return done(counted) == -signal.SIGKILL


def as_nobody(work: Callable[[], Any]) -> Callable[[], Any]:
    """`work` without the rights of root, for whom nothing is read-only."""
    # Such a user may not be able to read the modules either, which are imported where they are needed.
    for module in pkgutil.walk_packages(langgraph_memory.__path__, "langgraph_memory."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)

    def unprivileged() -> None:
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        work()

    return unprivileged
