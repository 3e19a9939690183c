"""Turns of app runs.

Python runs one thread at a time. A run gives up the interpreter lock with each of its hundred
messages and then waits for all other runs, so that a run of 20 ms would take a second in a crowd.
In turn, each run ends soon. A run that waits for a job lets other runs continue. Runs with much to
draw, such as for a new page or translation, yield to short ones, and runs of an address that starts
many yield to runs of other addresses.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from transformer.worker.scheduler import Scheduler, this_turn
from ui.core.public import Pace
from ui.platform.session import drop_unknown_widgets

#: After `patience` seconds the next run starts beside a run that computes for long or is blocked.
RUNS = Scheduler(patience=0.3)

#: Runs of an address without delay: five per second.
PACE = Pace(5.0, 1.0, latest=30.0)

#: Delay in seconds of a run with much to draw.
BEHIND = 3.0

#: Delay in seconds from which an address's runs also yield to long runs.
_CROWD = 1.0

#: Maximum bytes of unknown widgets in a session; a reload brings fewer.
_MOST_UNKNOWN = 300_000

_here = threading.local()  # `behind`: delay of this thread's next run, in seconds


@contextmanager
def run_in_turn() -> Iterator[None]:
    """Run the block in this thread's turn; nested calls have no effect."""
    if this_turn() is not None:
        yield
        return
    drop_unknown_widgets(_MOST_UNKNOWN)
    behind, _here.behind = getattr(_here, "behind", 0.0), 0.0
    late = PACE.take(1, st.context.ip_address)
    with RUNS.turn(behind=behind, late=late + (BEHIND if late > _CROWD else 0.0)):
        yield


def fall_back() -> None:
    """Yield to other runs, because this run has much to draw.

    In a widget callback, delay the run that follows on the same thread.
    """
    if (turn := this_turn()) is None:
        _here.behind = BEHIND
    else:
        turn.fall_back(BEHIND)
        turn.scheduler.offer(turn)
