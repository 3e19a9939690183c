"""Servers for tests, of the app or other pages."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests import forks
from tests.forks import ROOT
from tests.waiting import wait_until

#: The command of the app itself.
APP = ("-m", "streamlit", "run", "app.py")

#: Timeout of a server's start in seconds; generous, since machines are shared.
PATIENCE = 120


class Server(NamedTuple):
    address: str
    pid: int


@contextmanager
def serving(
    log: Path, command: Sequence[str] = APP, *, checkpoints: Path | None = None,
    fresh: bool = False, environment: Mapping[str, str] | None = None, port: int = 0,
    path: str = "",
) -> Iterator[Server]:  # fmt: skip
    """Yield a running server that answers, or raise `RuntimeError` with its output.

    Args:
        log: output file, overwritten.
        command: `-m MODULE` and arguments; Streamlit's options are added.
        fresh: start a new Python, which imports everything.
        environment: additional variables; anyone may import models by default.
        port: 0 for any free port.
        path: the path below which the app is served, such as "/user/anna".
    """
    port = port or free_port()
    address = f"http://127.0.0.1:{port}{path}"
    options = ["--server.headless=true", "--server.address=127.0.0.1", f"--server.port={port}"]
    options += [f"--server.baseUrlPath={path}"] if path else []
    variables = {"HEADLIGHT_IMPORT": "on", **(environment or {})}
    if checkpoints:
        variables["HEADLIGHT_CHECKPOINTS"] = str(checkpoints)
    pid = (_anew if fresh else forks.start)([*command, *options], variables, log)
    try:
        _wait_until_it_answers(address, pid, log)
        yield Server(address, pid)
    finally:
        _end(pid)


def readiness(address: str) -> dict[str, Any]:
    try:
        answer = urllib.request.urlopen(f"{address}/_headlight/ready", timeout=PATIENCE)
    except urllib.error.HTTPError as error:  # it is not ready
        answer = error
    with answer:
        return dict(json.load(answer))


def wait_for_empty(address: str, tabs: int = 0) -> None:
    """Wait until earlier tests' visitors have left, except `tabs` that stay open."""
    assert wait_until(lambda: readiness(address)["visitors"] <= tabs), readiness(address)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def children(pid: int) -> list[int]:
    """Return the processes started by a process, recursively."""
    found: list[int] = []
    for task in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(task.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(task.parent.name))
    return found + [each for child in found for each in children(child)]


def _anew(command: Sequence[str], environment: Mapping[str, str], log: Path) -> int:
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, *command], cwd=ROOT, stdout=file, stderr=subprocess.STDOUT,
            env={**forks.ENVIRONMENT, **environment},
        )  # fmt: skip
    # An ended process is a zombie until its status is read.
    threading.Thread(target=process.wait, daemon=True).start()
    return process.pid


def _wait_until_it_answers(address: str, pid: int, log: Path) -> None:
    health = f"{address}/_stcore/health"
    wait_until(lambda: answers(health) or not _lives(pid), PATIENCE)
    if not answers(health):
        raise RuntimeError(f"the server did not start:\n{log.read_text(errors='replace')}")


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except OSError:
        return False


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        if not wait_until(lambda: not _lives(pid), 10):
            os.kill(pid, signal.SIGKILL)
