"""Background work with progress, requests and an outcome, and the turns in which it computes.

A sentence's computing time is unknown in advance. Work starts in order of arrival and loses
priority the longer it computes. So a short sentence waits for one step of a long one, long ones
alternate, and none starves.
"""

import math
import threading
import time
from bisect import insort
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, Generic, Literal, Protocol, Self, TypeVar

from transformer.types import Report

T = TypeVar("T")

Phase = Literal["running", "done", "stopped", "failed"]

#: Progress before the first report. A negative maximum is unknown; with a maximum of 0, the job
#: waits for other work and `step` jobs are ahead.
UNKNOWN = (0, -1)

#: Request to end the work at its next report.
STOP = "stop"

#: Seconds between checks of a running job.
EVERY = 0.1

#: Processor seconds without loss of priority, about a sentence of 20 tokens. Each further second
#: puts work behind arrivals up to `_PENALTY` seconds later.
_SHORT, _PENALTY = 0.2, 30.0

#: Seconds between checks of waiting work.
_POLL = 0.2

#: Called while work waits, with the number of jobs ahead; may raise to leave the queue.
Waiting = Callable[[int], None]

_here = threading.local()  # each thread's job and turn


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

    def start(self, work: "Callable[[Job[T]], T]") -> Self:
        """Start the work in a new thread; return the job."""
        threading.Thread(target=self._run, args=(work,), name="headlight-job", daemon=True).start()
        return self

    def _run(self, work: "Callable[[Job[T]], T]") -> None:
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


def this_job() -> Job[Any]:
    """Return this thread's job, or a new one outside of jobs."""
    return getattr(_here, "job", None) or Job()


def report(step: int, most: int) -> None:
    """Report progress of this thread's job, and offer its turn to work of higher priority.

    Raises: `StoppedError` after a stop request, and any error of the job's `meter`.
    """
    this_job()(step, most)
    if most:
        offer_turn()


@contextmanager
def part(number: int, count: int) -> Iterator[None]:
    """Within the block, report a part's number instead of the job's progress in it."""
    job = this_job()
    job.part = number, count
    yield
    job.part = UNKNOWN


class Scheduler:
    """Runs one piece of work at a time. Thread-safe.

    A thread holds one turn. It releases the turn to wait for a turn of another scheduler and to
    hold that.
    """

    def __init__(self, patience: float = math.inf) -> None:
        """Args: patience: seconds before a queued job starts beside the running job, which may
        itself be waiting.
        """
        self._patience = patience
        self._queue: list[Turn] = []
        self._running: Turn | None = None
        self._since = 0.0
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """Number of jobs in the queue."""
        return len(self._queue)

    @contextmanager
    def turn(
        self, waiting: Waiting = lambda ahead: report(ahead, 0), behind: float = 0.0,
        late: float | None = None,
    ) -> "Iterator[Turn]":  # fmt: skip
        """Wait for a turn and hold it within; no effect inside a turn of this scheduler.

        `report` offers it to others.

        Args: behind: seconds for `Turn.fall_back`.  late: seconds added to the arrival time, by
            default the delay of this thread's job.
        """
        outer = this_turn()
        if outer is not None and outer.scheduler is self:
            yield outer
            return
        turn = Turn(self, waiting, this_job().late if late is None else late)
        turn.fall_back(behind)
        with paused():
            self.acquire(turn)
            _here.turn = turn
            try:
                yield turn
            finally:
                _here.turn = outer
                self.release(turn)

    def acquire(self, turn: "Turn") -> None:
        """Wait until this turn may run."""
        with self._lock:
            insort(self._queue, turn, key=attrgetter("rank"))
            self._start_next()
        try:
            while not turn.runs.is_set():
                turn.waiting(ahead := self._ahead(turn))
                turn.runs.wait(_POLL * (1 + ahead))
        except BaseException:
            with self._lock:
                if turn in self._queue:
                    self._queue.remove(turn)
                self._end(turn)  # it may just have started
            raise
        turn.start_clock()

    def release(self, turn: "Turn") -> None:
        """Start the next turn in the queue if this turn runs."""
        if turn.runs.is_set():
            turn.stop_clock()
            with self._lock:
                self._end(turn)

    def offer(self, turn: "Turn") -> None:
        """Yield to waiting work of higher priority."""
        turn.stop_clock()
        with self._lock:
            if not self._queue or self._queue[0].rank > turn.rank:
                return
        self.release(turn)
        self.acquire(turn)

    def _end(self, turn: "Turn") -> None:
        turn.runs.clear()
        if self._running is turn:
            self._running = None
            self._start_next()

    def _start_next(self) -> None:
        if self._queue and self._running is None:
            self._running, self._since = self._queue.pop(0), time.monotonic()
            self._running.runs.set()

    def _ahead(self, turn: "Turn") -> int:
        """Return the number of jobs ahead of a turn, after ending one that has run too long."""
        with self._lock:
            if self._running and time.monotonic() - self._since > self._patience:
                self._running = None  # its turn stays set, in case it has not noticed yet
                self._start_next()
            return self._queue.index(turn) if turn in self._queue else 0


class Turn:
    """One thread's place in the schedule.

    Attributes:
        scheduler: the turn's scheduler.
        runs: set while the work may compute.
        late: seconds added to the arrival time.
        rank: sort key in the queue.
    """

    def __init__(self, scheduler: Scheduler, waiting: Waiting, late: float = 0.0) -> None:
        self.runs = threading.Event()
        self.waiting, self.late = waiting, late
        self.rank = self._arrived = time.monotonic() + late
        self.scheduler = scheduler
        self._seconds = self._since = self._behind = 0.0

    def fall_back(self, seconds: float) -> None:
        """Put long work behind arrivals up to some seconds later."""
        self._behind = max(self._behind, seconds)
        self.rank = self._arrived + self._behind + _PENALTY * max(0.0, self._seconds - _SHORT)

    def start_clock(self) -> None:
        """Start counting this thread's processor time."""
        self._since = time.thread_time()

    def stop_clock(self) -> None:
        """Add the processor time since the last call, which may lower the priority."""
        now = time.thread_time()
        self._seconds += now - self._since
        self._since = now
        self.fall_back(0.0)


def this_turn() -> Turn | None:
    """Return this thread's turn, or None."""
    return getattr(_here, "turn", None)


def offer_turn() -> None:
    """Offer this thread's turn, if it has one, to waiting work of higher priority."""
    if (turn := this_turn()) is not None:
        turn.scheduler.offer(turn)


@contextmanager
def paused(behind: float = 0.0) -> Iterator[None]:
    """Release this thread's turn within, to wait for something; an exception ends the turn.

    Args: behind: seconds for `Turn.fall_back` afterwards.
    """
    turn = this_turn()
    if turn is not None:
        turn.scheduler.release(turn)
    yield
    if turn is not None:
        turn.fall_back(behind)
        turn.scheduler.acquire(turn)
