"""Processes that take turns: each does a task on request and waits idle in between.

Libraries in one process would disturb each other: after a task, OpenMP's threads keep a processor
busy for a while, waiting for more.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


class Process:
    """A library's process."""

    def __init__(self, name: str, command: list[str], log: Path, threads: int) -> None:
        """Start Python with `command`; its first line is a JSON list of tasks.

        Args: log: file for standard error.  threads: of OpenMP.
        """
        self.name = name
        self._log = log.open("w+")
        self._process = subprocess.Popen(
            [sys.executable, *command], cwd=ROOT, text=True,
            env=dict(os.environ, OMP_NUM_THREADS=str(threads), HF_HUB_OFFLINE="1"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
        )  # fmt: skip
        self.tasks: list[str] = self._answer()

    def do(self, task: str, **options: Any) -> Any:
        """Request a task; return the answer, a JSON value."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"task": task, **options}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(60)
            self._log.seek(0)
            sys.exit(f"{self.name} failed:\n{self._log.read()[-3000:]}")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()
        self._log.close()


def processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
