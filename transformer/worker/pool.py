"""Processes that trace sentences, seen from the server.

Python runs one thread at a time, so a server that decodes for many has no time left to answer them.
The processes start when sentences have to wait, which one visitor alone never makes them do.
"""

from __future__ import annotations

import itertools
import os
import pickle
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from transformer.checkpoint.reference import ModelRef
from transformer.errors import InputError
from transformer.trace.records import Trace
from transformer.worker.work import Report

#: Environment variable with the number of processes; 0 for none.
SETTING = "HEADLIGHT_WORKERS"

#: Most processes without the setting.
_MOST = 4

#: Sentences that wait for a process before another one starts.
_WAITING = 2

#: Seconds between two looks at whether a job is still wanted.
_EVERY = 0.1

#: Seconds before another process follows one that ended by itself.
_PAUSE = 10.0

ROOT = Path(__file__).resolve().parents[2]


class Pool:
    """Processes that start when they are needed. Thread-safe."""

    def __init__(self, most: int) -> None:
        """Args: most: number of processes at most; 0 for none."""
        self.most = most
        self._workers: list[Worker] = []
        self._lock = threading.Lock()
        self._rest_until = 0.0

    @property
    def workers(self) -> tuple[Worker, ...]:
        """The processes that run or start."""
        return tuple(self._workers)

    def free(self, waiting: int) -> Worker | None:
        """Return the process with the fewest jobs, None if none is ready; start one if needed.

        Args:
            waiting: sentences that wait in this process.
        """
        if not self.most:
            return None
        with self._lock:
            if lost := [each for each in self._workers if each.ended]:
                self._workers = [each for each in self._workers if not each.ended]
                self._rest_until = time.monotonic() + _PAUSE
            ready = [each for each in self._workers if each.ready]
            least = min(ready, key=lambda each: each.jobs, default=None)
            wait = waiting if least is None else least.jobs
            starts = len(ready) < len(self._workers)
            if (
                wait >= _WAITING and not starts and not lost and len(self._workers) < self.most
                and time.monotonic() >= self._rest_until
            ):  # fmt: skip
                self._workers.append(Worker())
            return least

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            for each in self._workers:
                each.close()
            self._workers = []


class Worker:
    """One process."""

    def __init__(self) -> None:
        """Start it, without waiting until it is ready."""
        self.ready = self.ended = False
        self._numbers = itertools.count()
        self._answers: dict[int, queue.SimpleQueue[tuple[Any, ...]]] = {}
        self._sending = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "transformer.worker.child"], cwd=ROOT,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        threading.Thread(target=self._listen, name="headlight-worker", daemon=True).start()

    @property
    def jobs(self) -> int:
        """Number of jobs that run or wait there."""
        return len(self._answers)

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self._process.pid

    def trace(
        self, model: ModelRef, device: str, sentence: str, arguments: Mapping[str, Any],
        report: Report,
    ) -> Trace:  # fmt: skip
        """Trace a sentence there.

        Args:
            model, device: see `open_unchanged`.
            arguments: keyword arguments of `Tracer.trace`.
            report: called several times a second; may raise, which ends the job.

        Raises: what loading and tracing raise, and `InputError` if the process ends meanwhile.
        """
        job = next(self._numbers)
        answers = self._answers[job] = queue.SimpleQueue()
        last = (0, 0)
        try:
            self._send("trace", job, model, device, sentence, dict(arguments))
            while True:
                try:
                    kind, *rest = answers.get(timeout=_EVERY)
                except queue.Empty:
                    if self.ended:
                        raise _lost() from None
                else:
                    if kind == "done":
                        made: Trace = rest[0]
                        return made
                    if kind == "failed":
                        raise rest[0]
                    last = rest[0], rest[1]
                report(*last)
        except BaseException:
            self._send("stop", job)
            raise
        finally:
            del self._answers[job]

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()

    def _send(self, *order: Any) -> None:
        assert self._process.stdin is not None
        data = pickle.dumps(order, pickle.HIGHEST_PROTOCOL)
        try:
            with self._sending:
                self._process.stdin.write(data)
                self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            self.ended = True

    def _listen(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            while True:
                kind, *rest = pickle.load(self._process.stdout)  # noqa: S301 - our own process
                if kind == "ready":
                    self.ready = True
                elif (answers := self._answers.get(rest[0])) is not None:
                    answers.put((kind, *rest[1:]))
        except (EOFError, pickle.UnpicklingError, OSError):
            pass
        self._process.wait()
        self._process.stdout.close()
        with self._sending, suppress(BrokenPipeError):
            self._process.stdin.close()
        self.ended = True


def _lost() -> InputError:
    return InputError(
        "the process that translates ended, perhaps for want of memory; try again, or take a "
        "shorter sentence"
    )


def most_workers() -> int:
    """Return the number of processes that the environment allows.

    Without the setting one processor is left to the server, and at most four are used.
    """
    setting = os.environ.get(SETTING, "").strip()
    if setting.isdecimal():
        return int(setting)
    return max(1, min(_MOST, (os.cpu_count() or 1) - 1))
