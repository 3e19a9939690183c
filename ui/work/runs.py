"""Runs of the app take turns.

Python runs one thread at a time and changes between those that compute every few milliseconds. A
run hands its lock on with each message besides, a hundred times, and every time waits for all the
other runs. In a crowd, a run that takes 20 milliseconds of a processor would so take a second; one
after the other, each is over soon. A run that waits, for a translation say, lets others go on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from transformer.worker.turns import Turn, Turns

#: Seconds after which a run goes on beside the next one: it computes for long, or waits for
#: something that does not let others go on.
_LONG = 0.3

RUNS = Turns(1, _LONG)

_here = threading.local()


@contextmanager
def in_turn() -> Iterator[None]:
    """Run the app within, when it is this thread's turn; nothing changes if it is already."""
    if _turn() is not None:
        yield
        return
    with RUNS.taken(lambda _: None) as turn:
        _here.turn = turn
        try:
            yield
        finally:
            _here.turn = None


@contextmanager
def paused() -> Iterator[None]:
    """Let other runs go on while this one waits for something within; see `Turn.paused`."""
    turn = _turn()
    if turn is None:
        yield
        return
    with turn.paused():
        yield


def _turn() -> Turn | None:
    return getattr(_here, "turn", None)
