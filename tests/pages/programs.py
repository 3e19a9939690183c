"""Programs run one after another, each in a process of its own that has its imports already.

Importing torch takes ten times as long as what a figure's program does. So one process imports it,
and for each program makes a copy of itself, in which that program is all that has run.
tests/browser/test_downloads.py runs such programs in a new Python.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]

#: Takes paths of programs, a line each; says the exit status of each. Errors go to `PATH.err`.
RUNS = """
import os, sys, traceback
import transformer.arrays.trace_file, transformer.trace.inspection, transformer.translator

for line in sys.stdin:
    path = line.rstrip("\\n")
    child = os.fork()
    if not child:
        status = 1
        with open(f"{path}.err", "w") as errors:
            try:
                os.chdir(os.path.dirname(path))
                os.dup2(errors.fileno(), 1)
                with open(path, encoding="utf-8") as file:
                    exec(compile(file.read(), path, "exec"), {"__name__": "__main__"})
                status = 0
            except BaseException:
                traceback.print_exc(file=errors)
        os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Programs:
    """What runs programs."""

    def __init__(self, send: IO[str], receive: IO[str]) -> None:
        self._send, self._receive = send, receive

    def run(self, path: Path) -> None:
        """Run a program in its folder, to its end. Raises: `AssertionError` where it fails."""
        self._send.write(f"{path}\n")
        self._send.flush()
        status = self._receive.readline()
        assert status == "0\n", Path(f"{path}.err").read_text(encoding="utf-8")


@contextmanager
def programs(environment: Mapping[str, str]) -> Iterator[Programs]:
    """Args: environment: of every program, beside where this project is."""
    with subprocess.Popen(
        [sys.executable, "-c", RUNS],
        env={**environment, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PATH": ""},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin and process.stdout
        yield Programs(process.stdin, process.stdout)
        process.stdin.close()
