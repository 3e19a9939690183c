"""A visitor's use of the server: turns of app runs, and the compute quota.

Python runs one thread at a time. A run gives up the interpreter lock with each of its hundred
messages and then waits for all other runs, so that a run of 20 ms would take a second in a crowd.
In turn, each run ends soon. A run that waits for a job lets other runs continue. Runs with much to
draw, such as for a new page or translation, yield to short ones, and runs of an address that starts
many yield to runs of other addresses.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import streamlit as st

from transformer.types import InputError
from transformer.worker.job import Job, Scheduler, this_turn
from ui.core.public import quota
from ui.platform.session import drop_unknown_widgets

T = TypeVar("T")

#: After `patience` seconds the next run starts beside a run that computes for long or is blocked.
RUNS = Scheduler(patience=0.3)

#: Delay in seconds of a run with much to draw.
BEHIND = 3.0

#: Delay in seconds from which an address's runs also yield to long runs.
_CROWD = 1.0

#: Maximum bytes of unknown widgets in a session; a reload brings fewer.
_MOST_UNKNOWN = 300_000

#: Seconds to restore a compute quota.
WINDOW = 600.0

_BUDGET = "headlight_budget"
_here = threading.local()  # `behind`: delay of this thread's next run, in seconds


class Pace:
    """Token buckets by name. Thread-safe.

    Args: rate: tokens per second.  most: bucket size.  latest: longest wait in seconds.
    """

    def __init__(
        self, rate: float, most: float, latest: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._rate, self._most, self._latest, self._clock = rate, most / rate, latest, clock
        self._full: dict[str | None, float] = {}  # refill times
        self._lock = threading.Lock()

    def take(self, count: float, name: str | None = None) -> float:
        """Take tokens and return the seconds until they are available."""
        now = self._clock()
        with self._lock:
            for idle in [key for key, full in self._full.items() if full <= now]:
                del self._full[idle]
            late = self._full.get(name, now) - now + count / self._rate - self._most
            late = min(late, self._latest)
            self._full[name] = now + late + self._most
        return max(0.0, late)


#: Runs of an address without delay: five per second.
PACE = Pace(5.0, 1.0, latest=30.0)


@contextmanager
def run_in_turn() -> Iterator[None]:
    """Run the block in this thread's turn; nested calls have no effect."""
    if this_turn() is not None:
        yield
        return
    behind, _here.behind = getattr(_here, "behind", 0.0), 0.0
    late = PACE.take(1, st.context.ip_address)
    drop_unknown_widgets(_MOST_UNKNOWN)
    with RUNS.turn(behind=behind, late=late + (BEHIND if late > _CROWD else 0.0)):
        yield


def fall_back() -> None:
    """Yield to other runs, because this run has much to draw.

    In a widget callback, delay the run that follows on the same thread.
    """
    if (turn := this_turn()) is None:
        _here.behind = BEHIND
    else:
        turn.fall_back(BEHIND)
        turn.scheduler.offer(turn)


class OverBudgetError(InputError):
    """Raised when a session has used up its compute quota."""


class Budget:
    """Compute seconds of a session, restored evenly over `WINDOW`. Thread-safe."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Args: seconds: limit within `WINDOW`."""
        self._use = Pace(seconds / WINDOW, seconds, clock=clock)
        self._lock = threading.Lock()
        self._file: Job[Any] = Job()

    def charge(self, seconds: float) -> None:
        """Charge seconds of use."""
        self._use.take(seconds)

    def check(self) -> None:
        """Raise `OverBudgetError` if nothing is left."""
        if late := self._use.take(0):
            # Wait until a tenth is restored.
            minutes = math.ceil((late + WINDOW / 10) / 60)
            raise OverBudgetError(
                f"compute quota used up; try again in {minutes} minutes, or run Headlight on your "
                "own machine"
            )

    @contextmanager
    def metered(self) -> Iterator[Callable[[int], None]]:
        """Charge the block's time.

        Yields: a job's `meter`; waiting, reported with a maximum of 0, is free.
        """
        since: float | None = time.monotonic()

        def charge(computes: bool) -> None:
            nonlocal since
            now = time.monotonic()
            if since is not None:
                self.charge(seconds=now - since)
            since = now if computes else None

        def meter(most: int) -> None:
            charge(computes=most != 0)
            self.check()

        try:
            yield meter
        finally:
            charge(computes=False)

    def start(self, make: Callable[[], T], late: float = 0.0) -> Job[T]:
        """Start a job on this budget; `make` reports to `transformer.worker.job.report`.

        Args: late: delay among other work, in seconds.
        """

        def work(job: Job[T]) -> T:
            with self.metered() as job.meter:
                return make()

        return Job[T](late=late).start(work)

    def start_file(self, make: Callable[[], T]) -> Job[T]:
        """Start making a file; the session's previous file job ends at its next report."""
        with self._lock:
            self._file.stop()
            self._file = job = self.start(make)
            return job


def budget_of_visit() -> Budget:
    """Return this session's budget."""
    budget = st.session_state.get(_BUDGET)
    if budget is None:
        budget = st.session_state[_BUDGET] = Budget(quota())
    return budget
