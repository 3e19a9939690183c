"""Runs of the app take turns.

Python runs one thread at a time and changes between those that compute every few milliseconds. A
run hands its lock on with each message besides, a hundred times, and every time waits for all the
other runs. In a crowd, a run that takes 20 milliseconds of a processor would so take a second; one
after the other, each is over soon. A run that waits, for a translation say, lets others go on.

Most runs draw again what stands already. One that draws a new page, or another translation, draws
more, and lets those go first that come meanwhile, between one section and the next.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from transformer.worker.turns import Turn, Turns

#: Seconds after which a run goes on beside the next one: it computes for long, or waits for
#: something that does not let others go on.
_LONG = 0.3

#: Seconds by which a run that has much to draw falls behind.
_BEHIND = 3.0

RUNS = Turns(1, _LONG)

_here = threading.local()


@contextmanager
def in_turn() -> Iterator[None]:
    """Run the app within, when it is this thread's turn; nothing changes if it is already."""
    if _turn() is not None:
        yield
        return
    behind, _here.behind = getattr(_here, "behind", 0.0), 0.0
    with RUNS.taken(lambda _: None, behind) as turn:
        _here.turn = turn
        try:
            yield
        finally:
            _here.turn = None


def offer_turn() -> None:
    """Let another run go first if it comes before this one by now; call it between sections."""
    if (turn := _turn()) is not None:
        turn.offer()


def fall_back() -> None:
    """Let runs go first that come in the next seconds: this one has much to draw.

    A widget's callback may call this; it stands for the run that follows, on the same thread.
    """
    if (turn := _turn()) is None:
        _here.behind = _BEHIND
    else:
        turn.fall_back(_BEHIND)
        turn.offer()


@contextmanager
def paused() -> Iterator[None]:
    """Let other runs go on while this one waits for something within; see `Turn.paused`.

    It has much to draw then, and falls back.
    """
    turn = _turn()
    if turn is None:
        yield
        return
    with turn.paused():
        yield
        turn.fall_back(_BEHIND)


def _turn() -> Turn | None:
    return getattr(_here, "turn", None)
