"""How much of a server one visit may use: seconds of computing and tokens, within ten minutes.

A public server has a budget for each session; `HEADLIGHT_BUDGET_SECONDS` and
`HEADLIGHT_BUDGET_TOKENS` set it there or anywhere else, 0 for none.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

import streamlit as st

from transformer.errors import InputError
from ui.core.public import whole_number
from ui.work.counts import COUNTS

#: Seconds in which a budget that is used up is whole again.
WINDOW = 600.0

#: Of a public server, where nothing else is set. A sentence of 10 tokens takes 0.1 s and has 20.
SECONDS, TOKENS = 60, 20_000

_VARIABLES = {
    "seconds": ("HEADLIGHT_BUDGET_SECONDS", SECONDS),
    "tokens": ("HEADLIGHT_BUDGET_TOKENS", TOKENS),
}
_KEY = "headlight_budget"


class OverBudgetError(InputError):
    """Raised in work of a visit that has used its budget; the message is one line."""


class Budget:
    """What one visit has used; it comes back evenly over `WINDOW`. Thread-safe."""

    def __init__(
        self, seconds: float, tokens: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Args: seconds, tokens: most within `WINDOW`; infinite for no limit."""
        self._most = {"seconds": seconds, "tokens": tokens}
        self._used = dict.fromkeys(self._most, 0.0)
        self._clock, self._then = clock, clock()
        self._lock = threading.Lock()

    def charge(self, seconds: float = 0.0, tokens: int = 0) -> None:
        """Count what was used."""
        with self._lock:
            self._give_back()
            self._used["seconds"] += seconds
            self._used["tokens"] += tokens

    def check(self) -> None:
        """Raise `OverBudgetError` if nothing is left."""
        with self._lock:
            self._give_back()
            for unit, most in self._most.items():
                over = self._used[unit] - most
                if over >= 0:
                    # A tenth of it is free again by then, not one token.
                    COUNTS.add("over_budget")
                    wait = math.ceil((over + most / 10) / most * WINDOW / 60)
                    what = f"{most:,.0f} {unit}" + (" of computing" if unit == "seconds" else "")
                    raise OverBudgetError(
                        f"this visit has used the {what} that this public server gives it in "
                        f"{WINDOW / 60:.0f} minutes; go on in {wait} "
                        f"minute{'s' if wait > 1 else ''}, or run Headlight on your own machine"
                    )

    def _give_back(self) -> None:
        now = self._clock()
        passed, self._then = now - self._then, now
        for unit, most in self._most.items():
            back = 0.0 if math.isinf(most) else passed * most / WINDOW
            self._used[unit] = max(0.0, self._used[unit] - back)


def budget_of_visit() -> Budget:
    """Return this session's budget."""
    budget = st.session_state.get(_KEY)
    if budget is None:
        budget = st.session_state[_KEY] = Budget(limit("seconds"), limit("tokens"))
    return budget


def limit(unit: str) -> float:
    """Return how many seconds or tokens a visit has within `WINDOW`; infinite for no limit.

    Raises: `ValueError`, one line, if the variable holds no whole number.
    """
    variable, most = _VARIABLES[unit]
    return whole_number(variable, 0, most) or math.inf
