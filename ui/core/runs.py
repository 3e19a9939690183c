"""Runs of the app take turns.

Python runs one thread at a time and switches between computing threads every few milliseconds. A
run passes on the interpreter lock with each of its hundred messages and then waits for all other
runs, so a run of 20 ms would take a second in a crowd. One after the other, each ends soon. A run
that waits, for a translation say, lets others go on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from transformer.worker.scheduler import Scheduler, Turn

#: Seconds after which the next run starts beside this one: it computes for long, or waits for
#: something that does not let others go on.
_LONG = 0.3

RUNS = Scheduler(_LONG)

_here = threading.local()


@contextmanager
def in_turn() -> Iterator[None]:
    """Run the app within, in this thread's turn; no effect inside a turn."""
    if _turn() is not None:
        yield
        return
    with RUNS.turn() as turn:
        _here.turn = turn
        try:
            yield
        finally:
            _here.turn = None


def offer_turn() -> None:
    """Yield to runs of higher priority; called between the sections of a page."""
    if (turn := _turn()) is not None:
        turn.offer()


@contextmanager
def paused() -> Iterator[None]:
    """Release the turn while this run waits for something within."""
    turn = _turn()
    if turn is None:
        yield
        return
    with turn.paused():
        yield


def _turn() -> Turn | None:
    return getattr(_here, "turn", None)
