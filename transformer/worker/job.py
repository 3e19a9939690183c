"""Background work with progress, requests and an outcome."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Generic, Literal, Protocol, Self, TypeVar

from transformer.types import Report
from transformer.worker.scheduler import Scheduler, Turn, offer_turn

T = TypeVar("T")

Phase = Literal["running", "done", "stopped", "failed"]

#: Progress before the first report. A negative maximum is unknown; with a maximum of 0, the job
#: waits for other work and `step` jobs are ahead.
UNKNOWN = (0, -1)

#: Request to end the work at its next report.
STOP = "stop"

#: Seconds between checks of a running job.
EVERY = 0.1

_here = threading.local()  # each thread's job


class StoppedError(Exception):
    """Raised when a job reports progress after a stop request."""


class Job(Generic[T]):
    """Work in the background. The work is called with its job, and calls it to report progress.

    `start` runs it in a thread; `transformer.worker.process` runs it in a process.

    Attributes:
        future: the outcome.
        progress: the last (step, maximum) reported.
        request: the latest request to the work, or None.
        late: seconds by which its turns are delayed.
        part: progress to report instead of its own; see `part`.
        meter: called with the maximum of each report; may raise to end the work.
    """

    def __init__(self, forward: Callable[[Any], None] | None = None, late: float = 0.0) -> None:
        """Args: forward: called with each request, if the work runs elsewhere."""
        self.future: Future[T] = Future()
        self.late, self.part = late, UNKNOWN
        self.meter: Callable[[int], None] = lambda most: None
        self._forward = forward
        self.progress: tuple[int, int] = UNKNOWN
        self.request: Any = None

    def __call__(self, step: int, most: int) -> None:
        """Report progress. Raises `StoppedError` after a stop request."""
        if self.request == STOP:
            raise StoppedError
        self.progress = self.part if most and self.part != UNKNOWN else (step, most)
        self.meter(most)

    def ask(self, request: Any) -> None:
        """Replace the request to the work."""
        self.request = request
        if self._forward is not None:
            self._forward(request)

    def stop(self) -> None:
        """Ask the job to stop at its next report."""
        self.ask(STOP)

    def start(self, work: Callable[[Job[T]], T]) -> Self:
        """Start the work in a new thread; return the job."""
        threading.Thread(target=self._run, args=(work,), name="headlight-job", daemon=True).start()
        return self

    def _run(self, work: Callable[[Job[T]], T]) -> None:
        _here.job = self
        try:
            result = work(self)
        except BaseException as error:  # noqa: BLE001 - raised where the outcome is read
            self.future.set_exception(error)
        else:
            self.future.set_result(result)

    @property
    def phase(self) -> Phase:
        """State of the work."""
        if not self.future.done():
            return "running"
        error = self.future.exception()
        if error is None:
            return "done"
        return "stopped" if isinstance(error, StoppedError) else "failed"

    @property
    def running(self) -> bool:
        """True while the work runs or waits."""
        return self.phase == "running"

    @property
    def error(self) -> str:
        """Cause of a failure in one line, or ""."""
        if self.phase != "failed":
            return ""
        error = self.future.exception()
        text = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return str(text).splitlines()[0]

    def ended(self, timeout: float = EVERY) -> bool:
        """Wait up to `timeout` seconds; return True if the work has ended."""
        return bool(wait([self.future], timeout).done)

    def result(self, waiting: Report) -> T:
        """Return or raise the outcome.

        Args: waiting: called with the progress several times a second; if it raises, the work
            stops.
        """
        try:
            while not self.ended():
                waiting(*self.progress)
        except BaseException:
            self.stop()
            raise
        return self.future.result()


class _Runs(Protocol):
    @property
    def running(self) -> bool: ...


K = TypeVar("K")
J = TypeVar("J", bound=_Runs)


class Register(Generic[K, J]):
    """Jobs by key that outlive the page runs starting them. Thread-safe."""

    def __init__(self, kept: int = 1, most: int = 1) -> None:
        """Args: kept: number of ended jobs to keep.  most: number of jobs that may run at once."""
        self._kept, self._most = kept, most
        self._jobs: dict[K, J] = {}
        self._lock = threading.Lock()

    def begin(self, key: K, start: Callable[[], J]) -> J | None:
        """Start a job; return None if too many jobs run, or one under this key."""
        with self._lock:
            running = self.running()
            if key in running or len(running) >= self._most:
                return None
            job = start()
            self._jobs.pop(key, None)
            ended = [other for other in self._jobs if other not in running]
            for other in ended[: max(0, len(ended) + 1 - self._kept)]:
                del self._jobs[other]
            self._jobs[key] = job
            return job

    def get(self, key: K) -> J | None:
        """Return the job under a key, running or ended."""
        return self._jobs.get(key)

    def all(self) -> dict[K, J]:
        """Return all jobs, the latest last."""
        return dict(self._jobs)

    def running(self) -> dict[K, J]:
        """Return the running jobs."""
        return {key: job for key, job in self.all().items() if job.running}


def this_job() -> Job[Any] | None:
    """Return this thread's job, or None."""
    return getattr(_here, "job", None)


def report(step: int, most: int) -> None:
    """Report progress of this thread's job, and offer its turn to work of higher priority.

    Raises: `StoppedError` after a stop request, and any error of the job's `meter`.
    """
    if (job := this_job()) is not None:
        job(step, most)
    if most:
        offer_turn()


@contextmanager
def part(number: int, count: int) -> Iterator[None]:
    """Within, report the number of a part instead of the job's progress in it."""
    job = this_job() or Job()
    job.part = number, count
    yield
    job.part = UNKNOWN


def in_turn(scheduler: Scheduler, behind: float = 0.0) -> AbstractContextManager[Turn]:
    """Wait for a turn of this thread's job and hold it within; `report` offers it to others.

    Args: behind: seconds for `Turn.fall_back`.
    """
    late = 0.0 if (job := this_job()) is None else job.late
    return scheduler.turn(lambda ahead: report(ahead, 0), behind, late)
