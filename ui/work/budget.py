"""Compute quota of a session, in seconds and tokens within ten minutes; and free memory.

A public server has a quota; `HEADLIGHT_BUDGET_SECONDS` and `HEADLIGHT_BUDGET_TOKENS` set it there
or anywhere else, 0 for none.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import streamlit as st

from transformer.errors import InputError
from transformer.types import Report
from ui.core.public import whole_number

_MEMORY = Path("/proc/meminfo")

#: Limits of the container or service that the server runs in, where there is one.
_GROUP = Path("/sys/fs/cgroup")


def free_memory() -> int | None:
    """Return the bytes of memory available to this process, or None if unknown."""
    limits = [each for each in (_of_the_machine(), _of_the_group()) if each is not None]
    return max(0, min(limits)) if limits else None


def _of_the_machine() -> int | None:
    found = _numbers(_MEMORY, ":").get("MemAvailable")
    return None if found is None else 1024 * found


def _of_the_group() -> int | None:
    """Return the bytes left of the group's limit; cached pages of files count as free."""
    try:
        limit = (_GROUP / "memory.max").read_text("ascii").strip()
        if not limit.isdecimal():
            return None
        held = int((_GROUP / "memory.current").read_text("ascii"))
    except (OSError, ValueError):
        return None
    pages = _numbers(_GROUP / "memory.stat")
    return int(limit) - held + pages.get("inactive_file", 0) + pages.get("active_file", 0)


def _numbers(path: Path, after_name: str = "") -> dict[str, int]:
    """Read lines of a name and a number; {} if there are none."""
    try:
        lines = [line.split() for line in path.read_text("ascii").splitlines()]
    except (OSError, ValueError):
        return {}
    return {
        words[0].removesuffix(after_name): int(words[1])
        for words in lines
        if len(words) > 1 and words[1].isdecimal()
    }


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
