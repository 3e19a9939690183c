"""Compute quota of a session, in seconds and tokens within ten minutes.

A public server has a quota; `HEADLIGHT_BUDGET_SECONDS` and `HEADLIGHT_BUDGET_TOKENS` set it there
or anywhere else, 0 for none.
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
from ui.core.public import whole_number

#: Seconds in which a used budget is restored.
WINDOW = 600.0

#: Defaults of a public server. A sentence of 10 tokens takes 0.1 s and counts as 20 tokens.
SECONDS, TOKENS = 60, 20_000

_VARIABLES = {
    "seconds": ("HEADLIGHT_BUDGET_SECONDS", SECONDS), "tokens": ("HEADLIGHT_BUDGET_TOKENS", TOKENS),
}  # fmt: skip
_KEY = "headlight_budget"


class OverBudgetError(InputError):
    """Raised in work of a session without budget; the message is one line."""


class Budget:
    """Use of one session, restored evenly over `WINDOW`. Thread-safe."""

    def __init__(
        self, seconds: float, tokens: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Args: seconds, tokens: most within `WINDOW`; infinite for no limit."""
        self._most = {"seconds": seconds, "tokens": tokens}
        self._used = dict.fromkeys(self._most, 0.0)
        self._clock, self._then = clock, clock()
        self._lock = threading.Lock()

    def charge(self, seconds: float = 0.0, tokens: int = 0) -> None:
        """Count use."""
        with self._lock:
            self._restore()
            self._used["seconds"] += seconds
            self._used["tokens"] += tokens

    def check(self) -> None:
        """Raise `OverBudgetError` if nothing is left."""
        with self._lock:
            self._restore()
            for unit, most in self._most.items():
                over = self._used[unit] - most
                if over >= 0:
                    # A tenth must be restored, not one token.
                    minutes = math.ceil((over + most / 10) / most * WINDOW / 60)
                    raise OverBudgetError(
                        f"compute quota used up; try again in {minutes} "
                        f"minute{'s' if minutes > 1 else ''}, or run Headlight on your own machine"
                    )

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

    def _restore(self) -> None:
        now = self._clock()
        passed, self._then = now - self._then, now
        for unit, most in self._most.items():
            restored = 0.0 if math.isinf(most) else passed * most / WINDOW
            self._used[unit] = max(0.0, self._used[unit] - restored)


def budget_of_visit() -> Budget:
    """Return this session's budget."""
    budget = st.session_state.get(_KEY)
    if budget is None:
        budget = st.session_state[_KEY] = Budget(limit("seconds"), limit("tokens"))
    return budget


def limit(unit: str) -> float:
    """Return a session's limit within `WINDOW`, infinite for none. Raises: `ValueError`."""
    variable, most = _VARIABLES[unit]
    return whole_number(variable, 0, most) or math.inf
