"""Test processes, forked from a process that has imported PyTorch and Streamlit."""

import atexit
import functools
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

#: The environment of every new process: as it was before any test changed it.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}

#: What the process imports whose copies are made.
LOADED = (
    "altair", "pandas", "plotly.graph_objects", "streamlit.testing.v1", "streamlit.web.bootstrap",
    "streamlit.web.cli", "transformer.models.arrays.trace_file", "transformer.trace.inspection",
    "transformer.translator",
)  # fmt: skip


def copies() -> None:
    """Fork on each line of standard input: command, environment, folder, log, wait."""
    for module in LOADED:
        importlib.import_module(module)
    ended: dict[int, int] = {}

    def reap(*_: object) -> None:
        with suppress(ChildProcessError):
            while (child := os.waitpid(-1, os.WNOHANG))[0]:
                ended[child[0]] = os.waitstatus_to_exitcode(child[1])

    def run(arguments: list[str], environment: dict[str, str], folder: str) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        os.environ.update(environment)
        tempfile.tempdir = None  # the environment may name another one
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        if arguments[0] == "-m":
            sys.argv = arguments[1:]
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        else:
            sys.argv = arguments
            runpy.run_path(sys.argv[0], run_name="__main__")

    signal.signal(signal.SIGCHLD, reap)
    for line in sys.stdin:
        *asked, log, wait = json.loads(line)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        child = os.fork()
        if child == 0:
            _as_child(partial(run, *asked), Path(log))
        while wait and child not in ended:
            signal.sigwait({signal.SIGCHLD})
            reap()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        print(ended[child] if wait else child, flush=True)


def start(command: Sequence[str], environment: Mapping[str, str], log: Path) -> int:
    return _ask(command, environment, ROOT, log, False)


def run(
    command: Sequence[str], environment: Mapping[str, str], log: Path, folder: Path = ROOT
) -> str:
    """Run `-m MODULE` or a program, and return its output; `log` is overwritten."""
    status = _ask(command, environment, folder, log, True)
    written = log.read_text(encoding="utf-8", errors="replace")
    assert status == 0, written
    return written


def _ask(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path, wait: bool
) -> int:
    original = _original()
    assert original.stdin and original.stdout
    asked = [list(command), dict(environment), str(folder), str(log), wait]
    original.stdin.write(json.dumps(asked) + "\n")
    original.stdin.flush()
    return int(original.stdout.readline())


@functools.cache
def _original() -> subprocess.Popen[str]:
    """Return the process that other processes are forked from."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from tests.forks import copies; copies()"], cwd=ROOT,
        env={**ENVIRONMENT, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    atexit.register(process.communicate)
    return process


def forked(do: Callable[[], object], log: Path, kill_after: float | None = None) -> tuple[int, str]:
    """Call `do` in a fork, killed after 120 seconds by default; return its status and output."""
    child = os.fork()
    if child == 0:
        _as_child(do, log)
    os.setpriority(os.PRIO_PROCESS, child, os.getpriority(os.PRIO_PROCESS, 0))
    ends = time.monotonic() + (120 if kill_after is None else kill_after)
    while (found := os.waitpid(child, os.WNOHANG))[0] == 0:
        left = ends - time.monotonic()
        if left <= 0:
            os.kill(child, signal.SIGKILL)
            found = os.waitpid(child, 0)
            break
        time.sleep(min(0.002, left))
    return os.waitstatus_to_exitcode(found[1]), log.read_text(errors="replace")


def _as_child(do: Callable[[], object], log: Path) -> None:
    status = 1
    try:
        written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for ours in (1, 2):
            os.dup2(written, ours)
        end = do()
        status = end if isinstance(end, int) else 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        os.write(2, end.code.encode() if isinstance(end.code, str) else b"")
    except BaseException:  # noqa: BLE001 - shown, and the status tells
        os.write(2, traceback.format_exc().encode())
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
