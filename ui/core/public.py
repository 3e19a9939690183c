"""Settings of a public server: no imports, and limits and compute quotas for visitors.

`HEADLIGHT_PUBLIC=1` switches them all on; see docs/hosting.md.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import streamlit as st

from transformer.errors import InputError
from transformer.worker.job import Job

T = TypeVar("T")

VARIABLE = "HEADLIGHT_PUBLIC"

#: Allows visitors to start jobs that take minutes: train toy models, measure layers.
TRAIN = "HEADLIGHT_TRAIN"

#: Compute quota of a session for sentences, model loading, computations and files, with the
#: default of a public server in seconds. A sentence of 10 tokens takes 0.1 s.
QUOTA, SECONDS = "HEADLIGHT_BUDGET_SECONDS", 60

#: Seconds to restore a compute quota.
WINDOW = 600.0

_BUDGET = "headlight_budget"

ON = ("1", "on", "true", "yes")
OFF = ("", "0", "off", "false", "no")


def setting(variable: str) -> str:
    """Return an environment variable, stripped and in lower case."""
    return os.environ.get(variable, "").strip().lower()


def is_public() -> bool:
    """Return True if this server is public; unknown values count as yes."""
    return setting(VARIABLE) not in OFF


def whole_number(variable: str, default: int, public_default: int) -> int:
    """Return a variable's whole number, or the default for this kind of server if it is empty.

    Raises: `ValueError` for any other text.
    """
    text = os.environ.get(variable, "").strip()
    if not text:
        return public_default if is_public() else default
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{variable}={text[:20]}: must be a whole number, 0 for no limit")
    return int(text)


def job_refusal(what: str) -> str | None:
    """Return the reason why visitors may not start long jobs, or None.

    Args: what: subject of the sentence, the job.
    """
    allowed = setting(TRAIN)
    if allowed in ON or (not allowed and not is_public()):
        return None
    return refused_by(TRAIN if allowed else VARIABLE, what)


def refused_by(variable: str, what: str) -> str:
    """Return a sentence naming the variable that switches something off."""
    text = setting(variable)[:20]
    return f"{what} is switched off on this server ({variable}={text})."


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


def quota() -> float:
    """Return a session's compute seconds per ten minutes; 1e9 means no limit.

    Raises: `ValueError`, see `whole_number`.
    """
    return whole_number(QUOTA, 0, SECONDS) or 1e9


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
        """Start to make a file; the session's previous file job ends at its next report."""
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
