"""Waiting for a condition, the only place where tests sleep, or for a coroutine."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

#: Timeout in seconds, generous for a busy machine.
PATIENCE = 60.0


def wait_until(
    condition: Callable[[], bool],
    seconds: float = PATIENCE,
    pause: Callable[[float], object] = time.sleep,
) -> bool:
    """Wait until `condition()` is true, and return True if it ever was."""
    deadline = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < deadline:
        pause(0.05)
    return met


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in another thread, since the browser's loop may run in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()
