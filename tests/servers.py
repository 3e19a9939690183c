"""Servers for tests: the app, or a page of its own, on a free port.

Importing Streamlit, PyTorch and what else the app needs takes several seconds of a processor, and
there are twenty servers. So one process imports it all, and each server is a copy of that process
in which nothing has run yet. Where the start itself is tested, it is a new Python.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]

#: The command of the app itself.
APP = ("-m", "streamlit", "run", "app.py")

#: Seconds that a server may take until it answers; generous, since machines are shared.
PATIENCE = 120

#: Reads what a server is to run, its environment and its log, a line each; says its process.
COPIES = """
import json, os, runpy, signal, sys
import altair, pandas, plotly.graph_objects
import streamlit.web.bootstrap, streamlit.web.cli
import transformer.translator

def reap(*_):  # so that this process is charged for the time of its copies
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass

signal.signal(signal.SIGCHLD, reap)
for line in sys.stdin:
    arguments, environment, log = json.loads(line)
    child = os.fork()
    if child:
        print(child, flush=True)
        continue
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.environ.update(environment)
        written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for theirs, ours in ((nothing, 0), (written, 1), (written, 2)):
            os.dup2(theirs, ours)
        sys.argv = arguments
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    finally:
        sys.stderr.flush()
        os._exit(1)
"""


class Server(NamedTuple):
    """A running server: its address as `http://host:port`, and its process."""

    address: str
    pid: int


@contextmanager
def serving(
    log: Path,
    command: Sequence[str] = APP,
    *,
    checkpoints: Path | None = None,
    fresh: bool = False,
    importing: bool = True,
    port: int = 0,
) -> Iterator[Server]:
    """A running server, from when it answers.

    Args:
        log: what it writes, anew.
        command: `-m MODULE` and arguments of its own; Streamlit's options are added to them.
        checkpoints: where the app looks for checkpoints; None: where it does by itself.
        fresh: in a new Python, which has to import everything.
        importing: whether anyone may import models; otherwise only those with the server's token.
        port: where it listens; 0: on any that is free.

    Raises: `RuntimeError`, with what it has written, where it does not start.
    """
    port = port or free_port()
    address = f"http://127.0.0.1:{port}"
    options = ["--server.headless=true", "--server.address=127.0.0.1", f"--server.port={port}"]
    environment = {"HEADLIGHT_IMPORT": "on" if importing else ""}
    if checkpoints:
        environment["HEADLIGHT_CHECKPOINTS"] = str(checkpoints)
    pid = (_anew if fresh else _copy)([*command, *options], environment, log)
    try:
        _wait_until_it_answers(address, pid, log)
        yield Server(address, pid)
    finally:
        _end(pid)


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _anew(command: Sequence[str], environment: Mapping[str, str], log: Path) -> int:
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, *command], cwd=ROOT, stdout=file, stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        )  # fmt: skip
    # Whoever has ended stays until somebody asks for its status.
    threading.Thread(target=process.wait, daemon=True).start()
    return process.pid


def _copy(command: Sequence[str], environment: Mapping[str, str], log: Path) -> int:
    original = _original()
    assert original.stdin and original.stdout
    assert command[0] == "-m", "a copy runs modules"
    original.stdin.write(json.dumps([command[1:], environment, str(log)]) + "\n")
    original.stdin.flush()
    return int(original.stdout.readline())


@functools.cache
def _original() -> subprocess.Popen[str]:
    """The process of which servers are copies, to the end of these tests."""
    process = subprocess.Popen(
        [sys.executable, "-c", COPIES], cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    atexit.register(process.communicate)
    return process


def _wait_until_it_answers(address: str, pid: int, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while _lives(pid) and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{address}/_stcore/health", timeout=2):
                return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"the server did not start:\n{log.read_text(errors='replace')}")


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _end(pid: int) -> None:
    """Ask it to end; after ten seconds, end it."""
    deadline = time.monotonic() + 10
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        while time.monotonic() < deadline:
            os.kill(pid, 0)
            time.sleep(0.02)
        os.kill(pid, signal.SIGKILL)
