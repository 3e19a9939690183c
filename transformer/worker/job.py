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

#: Progress before the first report. A maximum below 0 is unknown; 0 means waiting for other work,
#: with `step` jobs ahead.
UNKNOWN = (0, -1)

#: Request that ends the work at its next report.
STOP = "stop"

#: Seconds between two checks of a running job.
EVERY = 0.1


_here = threading.local()  # the job of each thread


class StoppedError(Exception):
    """Raised by a report of a job that was asked to stop."""


class Job(Generic[T]):
    """Work in the background. The work is called with its job, which it calls to report progress.

    `start` runs it in a thread; `transformer.worker.process` runs it in a process.

    Attributes:
        future: the outcome.
        progress: the last (step, maximum) reported.
        request: the latest request to the work, or None.
        late: seconds by which its turns come late.
        part: what it reports in place of its progress, see `part`.
        meter: called with the maximum of each report; may raise to end the work.
    """

    def __init__(self, forward: Callable[[Any], None] | None = None, late: float = 0.0) -> None:
        """Create a job. Args: forward: called with each request, if the work is elsewhere."""
        self.future: Future[T] = Future()
        self.late, self.part = late, UNKNOWN
        self.meter: Callable[[int], None] = lambda most: None
        self._forward = forward
        self.progress: tuple[int, int] = UNKNOWN
        self.request: Any = None

    def __call__(self, step: int, most: int) -> None:
        """Report progress. Raises: `StoppedError` if the job was asked to stop."""
        if self.request == STOP:
            raise StoppedError
        self.progress = self.part if most and self.part != UNKNOWN else (step, most)
        self.meter(most)

    def ask(self, request: Any) -> None:
        """Replace the request that the work reads."""
        self.request = request
        if self._forward is not None:
            self._forward(request)

    def stop(self) -> None:
        """End the work at its next report."""
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
        """Cause of a failure in one line, "" without one."""
        if self.phase != "failed":
            return ""
        error = self.future.exception()
        text = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return str(text).splitlines()[0]

    def ended(self, timeout: float = EVERY) -> bool:
        """Wait up to `timeout` seconds; return whether the work has ended."""
        return bool(wait([self.future], timeout).done)

    def result(self, waiting: Report) -> T:
        """Return or raise the outcome.

        Args: waiting: called several times a second with the progress; if it raises, the work is
            stopped.
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
    """Jobs by key that outlive the page runs which begin them. Thread-safe."""

    def __init__(self, kept: int = 1, most: int = 1) -> None:
        """Create a register of up to `most` running jobs; of others, it keeps the last ones."""
        self._kept, self._most = kept, most
        self._jobs: dict[K, J] = {}
        self._lock = threading.Lock()

    def begin(self, key: K, start: Callable[[], J]) -> J | None:
        """Start a job; return None if as many run as may, or one under this key."""
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
        """Return the job under a key, running or kept."""
        return self._jobs.get(key)

    def all(self) -> dict[K, J]:
        """Return all jobs, the latest last."""
        return dict(self._jobs)

    def running(self) -> dict[K, J]:
        """Return the jobs that have not ended."""
        return {key: job for key, job in self.all().items() if job.running}


def this_job() -> Job[Any] | None:
    """Return the job whose work this thread does."""
    return getattr(_here, "job", None)


def report(step: int, most: int) -> None:
    """Report the progress of this thread's job, and yield its turn to work of higher priority.

    Raises: `StoppedError` if the job was asked to stop, and what its `meter` raises.
    """
    if (job := this_job()) is not None:
        job(step, most)
    if most:
        offer_turn()


@contextmanager
def part(number: int, count: int) -> Iterator[None]:
    """Report a part's number in place of the progress of this thread's job within it."""
    job = this_job() or Job()
    job.part = number, count
    yield
    job.part = UNKNOWN


def in_turn(scheduler: Scheduler, behind: float = 0.0) -> AbstractContextManager[Turn]:
    """Wait for a turn of this thread's job and hold it within; `report` offers it to others.

    Args: behind: seconds of `Turn.fall_back`.
    """
    late = 0.0 if (job := this_job()) is None else job.late
    return scheduler.turn(lambda ahead: report(ahead, 0), behind, late)
