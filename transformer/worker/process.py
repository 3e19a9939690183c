"""Jobs in separate processes.

Python runs one thread at a time, so a server that computes for many visitors has no time left to
answer them. A process is `python -m transformer.worker.process`. It reads pickled orders from its
standard input and writes pickled answers to its standard output; both ends belong to this project.
It ends with its input, so it does not outlive a killed server.

    (number, function, arguments)      call function(*arguments, job) in a thread
    (number, None, request)            pass a request on to that job

    (number, progress, None)           progress of a job
    (number, progress, (value, error)) its outcome; one of the two is None
"""

import itertools
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from transformer.types import InputError
from transformer.worker.job import EVERY, Job

T = TypeVar("T")

#: Waiting sentences per process before another process starts.
WAITING = 2

#: Seconds before a new process replaces a killed one.
_PAUSE = 10.0

_ROOT = Path(__file__).resolve().parents[2]


class LostError(InputError):
    """Raised in jobs whose process was killed; the message is one line."""

    def __init__(self) -> None:
        super().__init__(
            "the computing process was killed, perhaps for lack of memory; try again, or use a "
            "shorter sentence"
        )


class Process:
    """A process that runs each job in a separate thread. Thread-safe.

    Attributes: ended: True if the process has ended.
    """

    def __init__(self) -> None:
        """Start the process without waiting for it."""
        self.ended = False
        self._numbers = itertools.count()
        self._jobs: dict[int, Job[Any]] = {}
        self._sending = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "transformer.worker.process"], cwd=_ROOT,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        self.pid = self._process.pid
        threading.Thread(target=self._listen, name="headlight-process", daemon=True).start()

    @property
    def jobs(self) -> int:
        """Number of its jobs."""
        return len(self._jobs)

    def start(self, function: Callable[..., T], *arguments: Any) -> Job[T]:
        """Start `function(*arguments, job)` in the process, where `job` is this job's other end.

        Args: function: a module's function. Its result or error is pickled.

        Returns: the job, which fails with `LostError` if the process is killed.
        """
        number = next(self._numbers)
        job: Job[T] = Job(partial(self._send, number, None))
        with self._sending:
            if self.ended:
                raise LostError
            self._jobs[number] = job
        self._send(number, function, arguments)
        return job

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()

    def _send(self, *order: Any) -> None:
        assert self._process.stdin is not None
        data = pickle.dumps(order, pickle.HIGHEST_PROTOCOL)
        with self._sending, suppress(OSError, ValueError):  # if it has ended, `_listen` fails jobs
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(EOFError, pickle.UnpicklingError, OSError), self._process.stdout as answers:
            while True:
                number, progress, outcome = pickle.load(answers)  # noqa: S301 - our own process
                self._jobs[number].progress = progress
                if outcome is not None:
                    value, error = outcome
                    future = self._jobs.pop(number).future
                    future.set_result(value) if error is None else future.set_exception(error)
        self._process.wait()
        with self._sending, suppress(BrokenPipeError):
            self.ended = True
            self._process.stdin.close()
        for job in self._jobs.values():
            job.future.set_exception(LostError())
        self._jobs.clear()


def start_alone(function: Callable[..., T], *arguments: Any) -> Job[T]:
    """Start `function(*arguments, job)` in a process that ends with it."""
    process = Process()
    job = process.start(function, *arguments)
    job.future.add_done_callback(lambda _: process.close())
    return job


class Pool:
    """Processes that start under load, for jobs that share what `warm_up` loads. Thread-safe.

    A single visitor never starts one.
    """

    def __init__(self, most: int, warm_up: Callable[[Job[None]], None]) -> None:
        """Args: most: largest number of processes.  warm_up: called first in each process."""
        self.most, self._warm_up = most, warm_up
        self._workers: dict[Process, Job[None]] = {}
        self._lock = threading.Lock()
        self._rest_until = 0.0

    def free(self, waiting: int) -> Process | None:
        """Return the ready process with the fewest jobs, or None; start another if needed.

        Args: waiting: sentences waiting in this process.
        """
        with self._lock:
            if any(process.ended for process in self._workers):
                self._workers = {p: job for p, job in self._workers.items() if not p.ended}
                self._rest_until = time.monotonic() + _PAUSE
            ready = [process for process, job in self._workers.items() if job.phase == "done"]
            least = min(ready, key=lambda process: process.jobs, default=None)
            busy = (waiting if least is None else least.jobs) >= WAITING
            starting = len(ready) < len(self._workers)
            full = len(self._workers) >= self.most
            if busy and not starting and not full and time.monotonic() >= self._rest_until:
                process = Process()
                self._workers[process] = process.start(self._warm_up)
            return least

    def close(self) -> None:
        """Kill all processes."""
        with self._lock:
            for process in self._workers:
                process.close()
            self._workers = {}


class _Here(Job[T]):
    """The process's end of a job."""

    def __init__(self, send: Callable[..., None]) -> None:
        super().__init__()
        self._send, self._sent = send, 0.0
        self.future.add_done_callback(self._end)

    def __call__(self, step: int, most: int) -> None:
        super().__call__(step, most)
        if (now := time.monotonic()) - self._sent >= EVERY:
            self._sent = now
            self._send(self.progress, None)

    def _end(self, _: object) -> None:
        error = self.future.exception()
        try:
            self._send(self.progress, (self.future.result() if error is None else None, error))
        except Exception as unpicklable:  # noqa: BLE001 - the server waits for an answer
            self._send(self.progress, (None, InputError(str(error or unpicklable))))


def _serve(orders: BinaryIO, answers: BinaryIO) -> None:
    """Run the jobs of `orders` until the stream ends."""
    jobs: dict[int, Job[Any]] = {}
    sending = threading.Lock()

    def send(*answer: Any) -> None:
        data = pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
        with sending:
            answers.write(data)
            answers.flush()

    while True:
        try:
            number, function, values = pickle.load(orders)  # noqa: S301 - this project's server
        except EOFError:
            return
        if function is not None:
            jobs = {key: job for key, job in jobs.items() if job.running}
            jobs[number] = _Here(partial(send, number)).start(partial(function, *values))
        elif number in jobs:
            jobs[number].ask(values)


def _main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of libraries must not mix with the answers
    with suppress(BrokenPipeError, pickle.UnpicklingError):  # the server was killed
        _serve(sys.stdin.buffer, answers)
    os._exit(0)  # do not wait for running jobs


if __name__ == "__main__":
    _main()
