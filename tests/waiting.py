"""Waiting for a condition: the only place where tests sleep."""

import time
from collections.abc import Callable

#: Timeout in seconds, generous for a busy machine.
PATIENCE = 60.0


def wait_until(
    condition: Callable[[], bool],
    seconds: float = PATIENCE,
    pause: Callable[[float], object] = time.sleep,
) -> bool:
    """Wait until `condition()` is true. Returns: whether it ever was."""
    deadline = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < deadline:
        pause(0.05)
    return met
