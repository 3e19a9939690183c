"""Measuring layers on this server, one measurement at a time, in a process of its own.

A measurement outlives the page run that started it, and its result is kept for all sessions until
the server ends. In the server's process it would change the number of threads of all models.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import transformer
from transformer.errors import InputError
from transformer.experiments.records import Measurement
from ui.core import public

Phase = Literal["running", "done", "stopped", "failed"]

#: Number of last characters shown of a failed command's output.
_LAST_WORDS = 200


def refusal() -> str | None:
    """Return why measuring is not allowed on this server, or None."""
    return public.job_refusal("Measuring in the app")


class Job:
    """One measurement.

    Attributes:
        phase: the current step.
        done, total: progress, in layers timed; `total` is 0 until the process says.
        error: the reason of a failure, one line.
    """

    def __init__(self, options: Sequence[str] = ()) -> None:
        """Start measuring with further options of `python -m transformer complexity`."""
        self.phase: Phase = "running"
        self.done = self.total = 0
        self.error = ""
        self._stopped = False
        self._output = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - see _run
        house = str(Path(transformer.__file__).resolve().parents[1])
        paths = [house, os.environ.get("PYTHONPATH", "")]
        # It writes its progress to a pipe, so it ends if the server is killed.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "transformer", "complexity", "--json", "--lines", *options],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            stdin=subprocess.DEVNULL, stdout=self._output, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.thread = threading.Thread(target=self._run, name="measure layers", daemon=True)
        self.thread.start()

    @property
    def running(self) -> bool:
        """Whether it is running."""
        return self.phase == "running"

    def stop(self) -> None:
        """End the process; nothing is kept."""
        self._stopped = True
        self._process.terminate()

    def _run(self) -> None:
        words = ""
        assert self._process.stderr is not None
        with self._output, self._process.stderr:
            for line in self._process.stderr:
                numbers = line.split()
                if len(numbers) == 2 and all(each.isdecimal() for each in numbers):
                    self.done, self.total = map(int, numbers)
                else:
                    words = line.strip() or words
            if self._process.wait() == 0 and not self._stopped:
                self._output.seek(0)
                self.phase = self._keep(self._output.read())
                return
        self.error = words[-_LAST_WORDS:]
        self.phase = "stopped" if self._stopped else "failed"

    def _keep(self, text: str) -> Phase:
        global _measured
        try:
            _measured = Measurement.from_json(text)
        except InputError as error:
            self.error = str(error)
            return "failed"
        return "done"


_LOCK = threading.Lock()
_job: Job | None = None
_measured: Measurement | None = None


def begin(options: Sequence[str] = ()) -> Job:
    """Start measuring, unless that is going on already; return the job either way."""
    global _job
    with _LOCK:
        if _job is None or not _job.running:
            _job = Job(options)
        return _job


def current() -> Job | None:
    """Return the last job of this server, running or not."""
    return _job


def measured() -> Measurement | None:
    """Return this server's last measurement, or None."""
    return _measured
