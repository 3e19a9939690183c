"""Cooperative scheduler, shortest job first.

A sentence's computing time is unknown in advance. Work starts in order of arrival and loses
priority the longer it computes. So a short sentence waits for one step of a long one, long ones
alternate, and none starves.
"""

from __future__ import annotations

import math
import threading
import time
from bisect import insort
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter

#: Processor seconds without loss of priority, about a sentence of 20 tokens. Each further second
#: puts work behind arrivals up to `_PENALTY` seconds later.
_SHORT, _PENALTY = 0.2, 30.0

#: Seconds between checks of waiting work.
_EVERY = 0.2

#: Called while work waits, with the number of jobs ahead; may raise to leave the queue.
Waiting = Callable[[int], None]

_here = threading.local()  # each thread's turn


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
        self, waiting: Waiting = lambda ahead: None, behind: float = 0.0, late: float = 0.0
    ) -> Iterator[Turn]:
        """Wait for a turn and hold it within; no effect inside a turn of this scheduler.

        Args: behind: seconds for `Turn.fall_back`.  late: seconds added to the arrival time.
        """
        outer = this_turn()
        if outer is not None and outer.scheduler is self:
            yield outer
            return
        turn = Turn(self, waiting, late)
        turn.fall_back(behind)
        with paused():
            self.acquire(turn)
            _here.turn = turn
            try:
                yield turn
            finally:
                _here.turn = outer
                self.release(turn)

    def acquire(self, turn: Turn) -> None:
        """Wait until this turn may run."""
        with self._lock:
            insort(self._queue, turn, key=attrgetter("rank"))
            self._start_next()
        try:
            while not turn.runs.is_set():
                turn.waiting(ahead := self._ahead(turn))
                turn.runs.wait(_EVERY * (1 + ahead))
        except BaseException:
            with self._lock:
                if turn in self._queue:
                    self._queue.remove(turn)
                self._end(turn)  # it may just have started
            raise
        turn.start_clock()

    def release(self, turn: Turn) -> None:
        """Start the next turn in the queue if this turn runs."""
        if turn.runs.is_set():
            turn.stop_clock()
            with self._lock:
                self._end(turn)

    def offer(self, turn: Turn) -> None:
        """Yield to waiting work of higher priority."""
        turn.stop_clock()
        with self._lock:
            if not self._queue or self._queue[0].rank > turn.rank:
                return
        self.release(turn)
        self.acquire(turn)

    def _end(self, turn: Turn) -> None:
        turn.runs.clear()
        if self._running is turn:
            self._running = None
            self._start_next()

    def _start_next(self) -> None:
        if self._queue and self._running is None:
            self._running, self._since = self._queue.pop(0), time.monotonic()
            self._running.runs.set()

    def _ahead(self, turn: Turn) -> int:
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
