"""Runs of the app take turns.

Python runs one thread at a time and switches between computing threads every few milliseconds. A
run passes on the interpreter lock with each of its hundred messages and then waits for all other
runs, so a run of 20 ms would take a second in a crowd. One after the other, each ends soon. A run
that waits, for a translation say, lets others go on. Most runs redraw what is on screen; one that
opens a page or draws another translation takes longer and falls back behind them. An address that
asks for many runs at once, by one socket or by hundreds, falls back behind others.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from transformer.worker.scheduler import Scheduler, Turn

#: Seconds after which the next run starts beside this one: it computes for long, or waits for
#: something that does not let others go on.
_LONG = 0.3

#: Seconds by which a run with much to draw falls back.
_BEHIND = 3.0

#: Bytes of widgets of no page that a session keeps: more than a browser brings after a reload.
_MOST_UNKNOWN = 300_000

RUNS = Scheduler(_LONG)

_here = threading.local()


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


#: Runs of an address that are not late: five a second.
PACE = Pace(5.0, 1.0, latest=30.0)

#: Seconds of lateness from which a run is one of a crowd, behind even long runs of others.
_CROWD = 1.0


@contextmanager
def in_turn() -> Iterator[None]:
    """Run the app within, in this thread's turn; no effect inside a turn."""
    if _turn() is not None:
        yield
        return
    _drop_unknown_widgets()
    behind, _here.behind = getattr(_here, "behind", 0.0), 0.0
    late = PACE.take(1, st.context.ip_address)
    with RUNS.turn(behind=behind, late=late + (_BEHIND if late > _CROWD else 0.0)) as turn:
        _here.turn = turn
        try:
            yield
        finally:
            _here.turn = None


def lateness() -> float:
    """Return the seconds by which this run comes late, as one of many of an address."""
    return 0.0 if (turn := _turn()) is None else turn.late


def offer_turn() -> None:
    """Yield to runs of higher priority; called between the sections of a page."""
    if (turn := _turn()) is not None:
        turn.offer()


def fall_back() -> None:
    """Yield to runs of the next seconds: this one has much to draw.

    In a widget's callback it holds for the run that follows on the same thread.
    """
    if (turn := _turn()) is None:
        _here.behind = _BEHIND
    else:
        turn.fall_back(_BEHIND)
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
        turn.fall_back(_BEHIND)


def _drop_unknown_widgets() -> None:
    """Drop widgets that a browser made up, which Streamlit keeps until a run reaches its end."""
    if (context := get_script_run_ctx(suppress_warning=True)) is not None:
        session = context.session_state
        with session._lock:
            new = session._state._new_widget_state
            unknown = new.states.keys() - new.widget_metadata.keys()
            size = sum(100 + new.states[name].value.ByteSize() for name in unknown)
            for name in unknown if size > _MOST_UNKNOWN else ():
                del new.states[name]


def _turn() -> Turn | None:
    return getattr(_here, "turn", None)
