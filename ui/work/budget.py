"""Compute quota of a session, in seconds within ten minutes.

A public server has a quota for sentences, loading of models, computations and files together;
`HEADLIGHT_BUDGET_SECONDS` sets it there or anywhere else, 0 for none.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import streamlit as st

from transformer.errors import InputError
from transformer.types import Report
from transformer.worker.job import Job
from ui.core.public import whole_number
from ui.core.runs import Pace

#: Seconds in which a used budget is restored.
WINDOW = 600.0

#: Default of a public server, in seconds. A sentence of 10 tokens takes 0.1 s.
SECONDS = 60

_VARIABLE, _KEY = "HEADLIGHT_BUDGET_SECONDS", "headlight_budget"


class OverBudgetError(InputError):
    """Raised in work of a session without budget; the message is one line."""


class Budget:
    """Seconds of work of one session, restored evenly over `WINDOW`. Thread-safe."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Args: seconds: most within `WINDOW`."""
        self._use = Pace(seconds / WINDOW, seconds, clock=clock)
        self._lock = threading.Lock()
        self._file: Job[None] = Job()

    def charge(self, seconds: float) -> None:
        """Count use."""
        self._use.take(seconds)

    def check(self) -> None:
        """Raise `OverBudgetError` if nothing is left."""
        if late := self._use.take(0):
            # A tenth must be restored, not one second.
            minutes = math.ceil((late + WINDOW / 10) / 60)
            raise OverBudgetError(
                f"compute quota used up; try again in {minutes} minutes, or run Headlight on your "
                "own machine"
            )

    def file(self) -> Job[None]:
        """Return the job of the session's next file; the one before ends at its next report."""
        with self._lock:
            before, self._file = self._file, Job()
            before.stop()
            return self._file

    @contextmanager
    def metered(self, report: Report) -> Iterator[Report]:
        """Charge the time within; a report with a maximum of 0, of waiting work, stops the clock.

        Yields: a progress callback that calls `report`, and raises `OverBudgetError` as `check`.
        """
        since: float | None = time.monotonic()

        def charge(computes: bool) -> None:
            nonlocal since
            now = time.monotonic()
            if since is not None:
                self.charge(seconds=now - since)
            since = now if computes else None

        def metered(step: int, most: int) -> None:
            report(step, most)
            charge(computes=most != 0)
            self.check()

        try:
            yield metered
        finally:
            charge(computes=False)


def budget_of_visit() -> Budget:
    """Return this session's budget."""
    budget = st.session_state.get(_KEY)
    if budget is None:
        budget = st.session_state[_KEY] = Budget(limit())
    return budget


def limit() -> float:
    """Return a session's seconds within `WINDOW`, years for no limit. Raises: `ValueError`."""
    return whole_number(_VARIABLE, 0, SECONDS) or 1e9
