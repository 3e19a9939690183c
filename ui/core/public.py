"""Settings of a public server, open to strangers: no imports, and limits for everybody.

`HEADLIGHT_PUBLIC=1` is the one switch; see docs/hosting.md for what follows from it.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable

VARIABLE = "HEADLIGHT_PUBLIC"

#: Whether visitors may start jobs of minutes: train toy models, measure layers.
TRAIN = "HEADLIGHT_TRAIN"

#: Compute quota of a session, for sentences, loading of models, computations and files together; by
#: default of a public server. A sentence of 10 tokens takes 0.1 s.
QUOTA, SECONDS = "HEADLIGHT_BUDGET_SECONDS", 60

ON = ("1", "on", "true", "yes")
OFF = ("", "0", "off", "false", "no")


def setting(variable: str) -> str:
    """Return an environment variable's value, in lower case and without spaces around it."""
    return os.environ.get(variable, "").strip().lower()


def is_public() -> bool:
    """Return whether this server is public. A value that is not known counts as yes."""
    return setting(VARIABLE) not in OFF


def whole_number(variable: str, default: int, public_default: int) -> int:
    """Return the whole number in a variable; if it is empty, the default of this kind of server.

    Raises: `ValueError`, one line, if it holds anything else.
    """
    text = os.environ.get(variable, "").strip()
    if not text:
        return public_default if is_public() else default
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{variable}={text[:20]}: must be a whole number, 0 for no limit")
    return int(text)


def job_refusal(what: str) -> str | None:
    """Return why this server runs no long jobs of its visitors, or None.

    Args: what: the job, to begin a sentence with.
    """
    allowed = setting(TRAIN)
    if allowed in ON or (not allowed and not is_public()):
        return None
    return refused_by(TRAIN if allowed else VARIABLE, what)


def refused_by(variable: str, what: str) -> str:
    """Return the sentence that says which variable switches something off."""
    shown = setting(variable)[:20]
    return f"{what} is switched off on this server ({variable}={shown})."


class Pace:
    """Token buckets, one for each name. Thread-safe.

    Args: rate: tokens a second.  most: tokens at once.  latest: bound of the wait, in seconds.
    """

    def __init__(
        self, rate: float, most: float, latest: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._rate, self._most, self._latest, self._clock = rate, most / rate, latest, clock
        self._full: dict[str | None, float] = {}  # times at which buckets are full again
        self._lock = threading.Lock()

    def take(self, count: float, name: str | None = None) -> float:
        """Take tokens. Returns: seconds after which there are as many."""
        now = self._clock()
        with self._lock:
            for each in [each for each, full in self._full.items() if full <= now]:
                del self._full[each]
            late = self._full.get(name, now) - now + count / self._rate - self._most
            late = min(late, self._latest)
            self._full[name] = now + late + self._most
        return max(0.0, late)


def quota() -> float:
    """Return a session's seconds of work in ten minutes, years for no limit.

    Raises: `ValueError`, as `whole_number`.
    """
    return whole_number(QUOTA, 0, SECONDS) or 1e9
